"""docs/cli.md says what the commands say."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from duework.cli import main
from tests.cli.conftest import Duework

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            yield from commands(child, f"{path} {name}")


def test_the_page_is_made_from_the_commands() -> None:
    # In a process of its own: a command that was called by itself here has learnt another help.
    made = subprocess.run(
        [sys.executable, "-m", "duework.cli.reference"], capture_output=True, text=True, check=True
    )
    assert PAGE.read_text() == made.stdout, "python -m duework.cli.reference > docs/cli.md"


def test_every_command_and_option_is_on_the_page() -> None:
    page = PAGE.read_text()

    for path, command in commands(main, "duework"):
        assert f"## {path}\n" in page
        section = page.split(f"## {path}\n")[1].split("\n## ")[0]
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert parameter.opts[0] in section, f"{path} {parameter.opts[0]}"


def test_every_help_fits_in_80_columns_and_lists_whole_sentences() -> None:
    for path, command in commands(main, "duework"):
        context = click.Context(command, info_name=path, terminal_width=80)
        lines = command.get_help(context).splitlines()
        assert max(map(len, lines)) <= 80, (path, max(lines, key=len))
        listed = lines[lines.index("Commands:") :] if "Commands:" in lines else []
        assert not [line for line in listed if line.endswith("...")], path


def test_a_group_alone_prints_its_help(bare: Duework) -> None:
    for words in ((), ("jobs",)):
        ran = bare(*words)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith("Usage: ")


def test_every_command_has_examples() -> None:
    for path, command in commands(main, "duework"):
        if not isinstance(command, click.Group):
            assert f"{path} " in (command.epilog or "") + " ", path


def test_every_command_that_acts_on_a_database_can_print_json() -> None:
    for path, command in commands(main, "duework"):
        apart = {"duework run", "duework web", "duework completion", "duework graph"}
        if not isinstance(command, click.Group) and path not in apart:
            assert {"--json", "--url", "--app"} <= {o for p in command.params for o in p.opts}


def test_every_shape_with_commands_is_found_by_its_name() -> None:
    from duework import shapes as engine_shapes
    from duework.cli import shapes

    shapes_of_the_engine = {each.name for each in Path(engine_shapes.__path__[0]).iterdir()}

    assert set(shapes.names()) <= shapes_of_the_engine & set(main.commands)
    assert [shapes.found(name).name for name in shapes.names()] == shapes.names()
