"""`duework completion`: words that a shell completes."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from duework.cli.base import examples

SHELLS = ("bash", "zsh", "fish")


@click.command(
    epilog=examples(
        'eval "$(duework completion bash)"                    in ~/.bashrc',
        'eval "$(duework completion zsh)"                     in ~/.zshrc',
        "duework completion fish > ~/.config/fish/completions/duework.fish",
    )
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script with which bash, zsh or fish completes commands and options."""
    kind = get_completion_class(shell)
    assert kind is not None, "click knows all three"
    root = context.find_root()
    click.echo(kind(root.command, {}, "duework", "_DUEWORK_COMPLETE").source())
