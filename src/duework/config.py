"""Settings of a part: a msgspec Struct, filled from `duework.toml` and the environment.

    class Settings(msgspec.Struct, frozen=True, kw_only=True):
        github_url: str = "https://api.github.com"
        token: Secret | None = None

The table `[streaks]` of the file `$DUEWORK_CONFIG`, or of `duework.toml` in the working folder, fills
the fields of the part `streaks`; `STREAKS_GITHUB_URL` goes before the file. A key that is no field is a
mistake, and so is a value of another type: both are said with the place they stand in. A field of type
`Secret` is a text that is never shown.
"""

from __future__ import annotations

import hmac
import os
import tomllib
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from duework.errors import UsageError

VARIABLE, DEFAULT = "DUEWORK_CONFIG", "duework.toml"
# Parts of a type that a text of the environment is read as; everything else is read as JSON.
_PLAIN = (str, int, float, bool)

S = TypeVar("S", bound=msgspec.Struct)


class Secret:
    """A text that is not shown: not by `repr`, not in a log, not on a page, and not in a payload."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for the moment it is used in."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(
            self._text.encode(), other._text.encode()
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "Secret('…')"


def load(part: str, kind: type[S]) -> S:
    """The settings of a part."""
    found = dict(_table(part))
    where = {key: f"[{part}] {key} in {_file()}" for key in found}
    names = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    _refuse_unknown(part, found, names)
    prefix = f"{part.upper().replace('-', '_')}_"
    hints = typing.get_type_hints(kind)
    for name, field in names.items():
        variable = prefix + name.upper()
        if variable in os.environ:
            found[name] = _read(os.environ[variable], hints.get(field.name, Any))
            where[name] = variable
    secrets = {name for name, field in names.items() if _is_secret(hints.get(field.name))}
    try:
        return msgspec.convert(found, kind, strict=False, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise UsageError(_explain(part, str(error), where, secrets)) from None


def shown(settings: msgspec.Struct) -> dict[str, Any]:
    """What may be printed: every field, secrets as a word."""
    values = {field: getattr(settings, field) for field in settings.__struct_fields__}
    return {
        name: "secret, not shown" if isinstance(value, Secret) else value
        for name, value in values.items()
    }


def _file() -> str:
    return os.environ.get(VARIABLE) or DEFAULT


def _table(part: str) -> Mapping[str, Any]:
    path = Path(_file())
    try:
        document = tomllib.loads(path.read_text())
    except FileNotFoundError:
        if VARIABLE in os.environ:
            raise UsageError(f"{VARIABLE} names {path}, which is not there") from None
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    table = document.get(part, {})
    if not isinstance(table, dict):
        raise UsageError(f"{part} in {path} should be a table: write [{part}] and its keys below")
    return table


def _refuse_unknown(part: str, found: Mapping[str, Any], names: Mapping[str, Any]) -> None:
    if unknown := sorted(set(found) - set(names)):
        have = ", ".join(sorted(names)) or "none"
        raise UsageError(
            f"[{part}] in {_file()} has {', '.join(unknown)}, which is no setting of {part};"
            f" there are: {have}"
        )


def _read(text: str, kind: Any) -> Any:
    """A text of the environment as what its field takes: a list or a table is written as JSON."""
    if any(isinstance(each, type) and issubclass(each, _PLAIN) for each in _choices(kind)):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _choices(kind: Any) -> tuple[Any, ...]:
    """Of `A | B` both, of anything else that alone."""
    if typing.get_origin(kind) in {typing.Union, types.UnionType}:
        return typing.get_args(kind)
    return (kind,)


def _is_secret(kind: Any) -> bool:
    return Secret in _choices(kind)


def _decode(kind: type, value: Any) -> Any:
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise NotImplementedError


def _explain(part: str, why: str, where: Mapping[str, str], secrets: set[str]) -> str:
    """Msgspec says the path as `$.field`, and never the value."""
    message, _, path = why.partition(" - at `$.")
    field = path.rstrip("`").split(".")[0].split("[")[0]
    if not field:
        missing = message.partition("missing required field `")[2].rstrip("`")
        if missing:
            name = f"{part.upper().replace('-', '_')}_{missing.upper()}"
            return f"{part} needs the setting {missing}: [{part}] in {_file()}, or {name}"
        return f"the settings of {part} do not fit: {message}"
    kind = " (a secret)" if field in secrets else ""
    return f"{where.get(field, field)}{kind}: {message}"
