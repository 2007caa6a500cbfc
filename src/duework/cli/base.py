"""What all commands share: which database they act on, how they fail, and with which exit code."""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from duework import App, Error, UsageError
from duework.cli.out import Out, fail
from duework.errors import meant as meant_by

OK, FAILED, UNAVAILABLE, GONE, RECYCLED, USAGE, INTERRUPTED = 0, 1, 69, 74, 75, 78, 130

EXIT_CODES = {
    OK: "done; for `run`: stopped by SIGTERM and everything handed over",
    FAILED: "not done: no such job, a conflict, a violated invariant, a failed check",
    UNAVAILABLE: "the database could not be reached or written in time; try again",
    GONE: "the database file was deleted or replaced while it was open",
    RECYCLED: "a process of `run --processes` that asks to be replaced",
    USAGE: "a mistake in command, configuration or schema; trying again is no use",
    INTERRUPTED: "stopped by Ctrl-C (SIGINT)",
}
_BY_CODE = {
    "usage": USAGE,
    "invalid_arguments": USAGE,
    "payload_too_large": USAGE,
    "task_not_found": USAGE,
    "schema_mismatch": USAGE,
    "database": UNAVAILABLE,
    "unavailable": UNAVAILABLE,
    "unknown_commit": UNAVAILABLE,
    "gone": GONE,
}


def exit_code(error: Error) -> int:
    return _BY_CODE.get(error.code, FAILED)


def examples(*lines: str) -> str:
    """The end of a help text; click leaves its lines as they are."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


class Group(click.Group):
    """Commands under one name, listed with the first sentence of each; click would cut them to a line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        lines = [
            (name, each.get_short_help_str(limit=1000))
            for name, each in found
            if each and not each.hidden
        ]
        if lines:
            with formatter.section("Commands"):
                formatter.write_dl(lines)


class Cli(Group):
    """The root command: every error ends here, as a text or as JSON, with a documented exit code.

    A name that is none of ours is looked for among the parts of the App.
    """

    _given: Sequence[str] = ()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or part_commands(cmd_name, self._given)

    def main(  # type: ignore[override]  # always ends the process, as click does by default
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> None:
        given = self._given = list(sys.argv[1:] if args is None else args)
        extra.pop("standalone_mode", None)
        as_json = "--json" in given
        try:
            code = super().main(given, prog_name or "duework", standalone_mode=False, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
            sys.exit(OK)
        except click.UsageError as error:
            message = error.format_message()
            hint = f" (see `{error.ctx.command_path} --help`)" if error.ctx else ""
            sys.exit(fail("usage", message + meant(message) + hint, USAGE, as_json=as_json))
        except click.ClickException as error:
            sys.exit(fail("usage", error.format_message(), USAGE, as_json=as_json))
        except (click.Abort, KeyboardInterrupt):
            sys.exit(fail("interrupted", "interrupted", INTERRUPTED, as_json=as_json))
        except Error as error:
            sys.exit(fail(error.code, str(error), exit_code(error), as_json=as_json))
        sys.exit(code if isinstance(code, int) else OK)


def part_commands(name: str, given: Sequence[str]) -> click.Group | None:
    """The commands of a part or a shape of the App that `--app` or $DUEWORK_APP names."""
    named = [after for word, after in itertools.pairwise(given) if word == "--app"]
    named += [word.partition("=")[2] for word in given if word.startswith("--app=")]
    chosen = named[0] if named else os.environ.get("DUEWORK_APP")
    if not chosen:
        return None
    app = load(chosen)
    for part in app.parts:
        if part.name == name and part.commands:
            option = click.Option(
                ["--app"],
                metavar="MODULE:APP",
                help="The App it is a part of [$DUEWORK_APP].",
                expose_value=False,
            )
            about = f"Commands of the part {name}."
            return Group(name, part.commands, help=about, params=[option])
    shape = app.wiring.registry.shapes.get(name)
    # Those of the engine's own shapes are in `shapes/`, and were found before.
    found = None if shape is None else getattr(shape.module("cli"), "commands", None)
    return found if isinstance(found, click.Group) else None


def meant(message: str) -> str:
    """`run` takes MODULE:APP as it is; the others are often given it in the same way."""
    found = re.search(
        r"unexpected extra arguments? \((?:.* )?([A-Za-z_][\w.]*:[A-Za-z_]\w*)", message
    )
    return f": did you mean --app {found[1]}?" if found else ""


def load(name: str) -> App:
    """The App that `module:attribute` names. The only import by name, and it comes from argv."""
    module_name, _, attribute = name.partition(":")
    attribute = attribute or "app"
    if not module_name:
        raise UsageError(f"cannot read {name!r}: write module:app")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise UsageError(_broken(module_name, error)) from error
        message = f"there is no module {error.name!r}, neither in {here} nor among the installed"
        if module_name.endswith(".py"):
            dotted = module_name.removesuffix(".py").replace("/", ".")
            message = f"write the module's name, not that of its file: {dotted}:{attribute}"
        raise UsageError(message) from error
    except Error:
        raise
    except Exception as error:
        raise UsageError(_broken(module_name, error)) from error
    found = getattr(module, attribute, None)
    if isinstance(found, App):
        return found
    apps = sorted(key for key, value in vars(module).items() if isinstance(value, App))
    has = f"it has {', '.join(f'{module_name}:{key}' for key in apps)}" if apps else "it has no App"
    what = "has no" if found is None else "is not an App:"
    raise UsageError(f"module {module_name!r} {what} {attribute!r}; {has}")


def _broken(module: str, error: Exception) -> str:
    frames = [
        each
        for each in traceback.extract_tb(error.__traceback__)
        if "importlib" not in each.filename and "/duework/cli/" not in each.filename
    ]
    # The line to look at is the program's own, not the one of a library that it called.
    chosen = [each for each in frames if not _of_a_library(each.filename)] or frames
    where = f" at {chosen[-1].filename}:{chosen[-1].lineno}" if chosen else ""
    return f"module {module!r} cannot be imported: {type(error).__name__}: {error}{where}"


def _of_a_library(file: str) -> bool:
    return file.startswith(("<", sysconfig.get_path("stdlib"))) or "site-packages" in file


def target(name: str | None, url: str | None) -> App:
    """The App whose database a command acts on; opens nothing."""
    if name and url:
        raise UsageError("give --app or --url, not both: an App has a database already")
    if url:
        return App(url)
    name = name or os.environ.get("DUEWORK_APP")
    return load(name) if name else App()


@contextlib.contextmanager
def closing(app: App) -> Iterator[App]:
    try:
        yield app
    finally:
        app.close()


def on_database(
    *, require: bool = True
) -> Callable[[Callable[..., int | None]], Callable[..., None]]:
    """Add --app, --url and --json, and call with (app, out, …); what it returns is the exit code."""

    def decorate(function: Callable[..., int | None]) -> Callable[..., None]:
        @click.option(
            "--app", "app_name", metavar="MODULE:APP", help="The App whose database it is."
        )
        @click.option("--url", metavar="URL", help="The database [$DUEWORK_URL or ./duework.db].")
        @click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
        @click.pass_context
        @functools.wraps(function)
        def wrapper(
            context: click.Context,
            /,
            *,
            app_name: str | None,
            url: str | None,
            as_json: bool,
            **more: Any,
        ) -> None:
            with closing(target(app_name, url)) as app:
                if require:
                    app.admin.require()
                code = function(app, Out(as_json=as_json), **more)
            context.exit(code or OK)

        return wrapper

    return decorate


def check_queue(app: App, name: str, *, must_be: bool = False) -> str:
    """Refuse the name of a queue that is probably mistyped; with `must_be`, every one that is not there."""
    known = app.admin.queues()
    if name == "*" or name in known:
        return name
    hint = meant_by(name, known)
    if must_be or "did you mean" in hint:
        raise UsageError(f"there is no queue {name!r:.100}{hint}")
    return app.queue(name).name


def sure(question: str, *, yes: bool, as_json: bool) -> None:
    """Ask before something is destroyed; a script has to say --yes."""
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise UsageError(f"{question} Say --yes if you are sure")
    click.confirm(question, abort=True, err=True)
