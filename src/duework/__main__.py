"""`python -m duework` is the command line."""

from duework.cli import main

if __name__ == "__main__":
    main()
