"""Print the table."""

from __future__ import annotations

import argparse
import logging
import sys

from bench.articles import activities, cluster, mail, people, remind, scout
from bench.articles.figure import Figure, table

FIGURES = {
    **people.FIGURES,
    **mail.FIGURES,
    **remind.FIGURES,
    **activities.FIGURES,
    **scout.FIGURES,
    **cluster.FIGURES,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.articles")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--only", action="append", choices=sorted(FIGURES), help="this figure")
    options = parser.parse_args()
    # What goes wrong on purpose is not worth a line.
    logging.getLogger("duework").setLevel(logging.CRITICAL)
    found: list[Figure] = []
    for name in options.only or FIGURES:
        print(f"{name} …", file=sys.stderr, flush=True)
        found.extend(FIGURES[name](quick=options.quick))
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
