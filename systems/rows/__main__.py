"""`python -m systems.rows`: what is built, refuted and open; exits 1 on what is wrong."""

from __future__ import annotations

import sys

import click

from systems.rows.gate import check


def main() -> int:
    """Print the table and everything that is wrong."""
    counts, wrong = check()
    click.echo(f"{'system':<12}{'built':>8}{'refuted':>9}{'open':>7}{'rows':>7}")
    for name, count in counts.items():
        built, refuted, left = len(count.built), len(count.refuted), len(count.open)
        click.echo(f"{name:<12}{built:>8}{refuted:>9}{left:>7}{built + refuted + left:>7}")
    for sentence in wrong:
        click.echo(f"wrong: {sentence}", err=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
