"""What type checkers know of the calls that users make; nothing of it runs."""
