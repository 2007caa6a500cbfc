"""The reference in `docs/cli.md`, made from the commands themselves.

`python -m duework.cli.reference > docs/cli.md`; a test fails when the file is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from duework.cli import main
from duework.cli.base import EXIT_CODES

WIDTH = 80

INTRODUCTION = """\
# The command line

Made from the commands by `python -m duework.cli.reference > docs/cli.md`; do not edit.

`duework run` needs an App, as MODULE:APP or in `$DUEWORK_APP`. The other commands act on the
database of `--app` or `--url`, else of `$DUEWORK_APP`, `$DUEWORK_URL` or `./duework.db`. They never
create a database and never change a schema (but for `db migrate`).

With `--json`, commands that list print one JSON object per line, the others one document. Ids are
texts, since they exceed what JavaScript's numbers hold; times are milliseconds since 1970; a count of
100000 means at least so many. An error is `{"error": {"code": …, "message": …}}`, on stdout too.

## Exit codes

| code | meaning |
|---|---|
"""


def reference() -> str:
    """The whole page."""
    codes = "".join(f"| {number} | {text} |\n" for number, text in EXIT_CODES.items())
    return INTRODUCTION + codes + "".join(_pages(main, "duework"))


def _pages(command: click.Command, path: str) -> Iterator[str]:
    names = ["-h", "--help"]
    context = click.Context(command, info_name=path, terminal_width=WIDTH, help_option_names=names)
    yield f"\n## {path}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from _pages(child, f"{path} {name}")


if __name__ == "__main__":
    sys.stdout.write(reference())
