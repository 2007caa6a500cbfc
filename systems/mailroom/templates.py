"""Templates of tenants: Jinja2 without anything that could run away.

A template has variables, `if`, `for`, comparisons and a few filters: what is not in the lists below is
refused when it is stored. There are no calls, no attributes of objects, no arithmetic and no assignments, so
the cost of rendering is what it writes; loops together are bounded, and so is what comes out. The html is
escaped, and a subject that would break its line is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.filters import do_round
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import pass_context

from duework import NotFound, UsageError
from systems.mailroom.part import part

LARGEST = 100_000
LARGEST_RESULT = 1_000_000
LARGEST_VALUES = 200_000
MOST_ROUNDS = 20_000
DEEPEST = 4
# Of what is inside of what: compiling takes longer with each.
NESTED = 60
MOST_DIGITS = 15
NODES = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.Getattr,
    nodes.Getitem, nodes.Filter, nodes.Test, nodes.If, nodes.For, nodes.Compare, nodes.Operand,
    nodes.And, nodes.Or, nodes.Not, nodes.CondExpr, nodes.Neg,
)  # fmt: skip
FILTERS = {
    "capitalize", "d", "default", "e", "escape", "first", "float", "int", "last", "length", "lower",
    "round", "title", "trim", "upper",
}  # fmt: skip
TESTS = {"defined", "undefined", "none", "odd", "even", "number", "string", "mapping"}
COUNTER = "_rounds"
EACH = "_each"


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """A template as a tenant has it."""

    name: str
    subject: str
    text: str = ""
    html: str = ""
    updated: int = 0


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    subject: str
    text: str
    html: str


class _Silent(Undefined):
    """What a caller gave no value for is nothing; what is inside of it, too."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    __getitem__ = __getattr__


@pass_context
def _each(context: Context, found: Any) -> Iterator[Any]:
    """What a loop goes over, counted over the whole rendering."""
    rounds: list[int] = context[COUNTER]
    items: Iterable[Any] = found if isinstance(found, (list, tuple, dict)) else ()
    for each in items:
        rounds[0] += 1
        if rounds[0] > MOST_ROUNDS:
            raise UsageError(f"the loops of a template go round at most {MOST_ROUNDS} times")
        yield each


def _round(value: Any, digits: int = 0, method: str = "common") -> float:
    """To so many digits; a power of ten of any size would take for ever."""
    if not isinstance(digits, int) or not 0 <= digits <= MOST_DIGITS:
        raise UsageError(f"round takes 0 to {MOST_DIGITS} digits")
    return do_round(value, digits, method)  # type: ignore[arg-type]


class _Environment(ImmutableSandboxedEnvironment):
    def getattr(self, obj: Any, attribute: str) -> Any:
        """A dot is a key of what the caller gave, and nothing else."""
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, (dict, list, Undefined)):
            try:
                return obj[argument]
            except (LookupError, TypeError, AttributeError):
                return self.undefined(obj=obj, name=str(argument))
        return self.undefined(obj=obj, name=str(argument))


def _environment(*, escapes: bool) -> _Environment:
    made = _Environment(autoescape=escapes, undefined=_Silent)
    made.filters = {name: made.filters[name] for name in FILTERS} | {EACH: _each, "round": _round}
    made.tests = {name: made.tests[name] for name in TESTS}
    made.globals = {}
    return made


PLAIN, HTML = _environment(escapes=False), _environment(escapes=True)


def compiled(source: str, environment: _Environment, what: str) -> Any:
    """A template of what is allowed; `UsageError` says what is not, and where."""
    if len(source) > LARGEST:
        raise UsageError(f"{what}: a template has at most {LARGEST} characters")
    try:
        tree = environment.parse(source)
        _check(tree, what, 0, 0)
        return environment.from_string(tree)
    except (TemplateError, RecursionError, SyntaxError, ValueError, MemoryError) as error:
        raise UsageError(f"{what}: {str(error) or type(error).__name__}") from None


def _check(node: nodes.Node, what: str, depth: int, nested: int) -> None:
    where = f"{what}, line {node.lineno}"
    if nested > NESTED:
        raise UsageError(f"{where}: more than {NESTED} things are inside of each other")
    if not isinstance(node, NODES) or (isinstance(node, nodes.For) and node.recursive):
        raise UsageError(f"{where}: {type(node).__name__} is not part of our templates")
    if isinstance(node, nodes.Filter) and node.name not in FILTERS:
        raise UsageError(f"{where}: there is no filter {node.name}; there are {sorted(FILTERS)}")
    if isinstance(node, nodes.Test) and node.name not in TESTS:
        raise UsageError(f"{where}: there is no test {node.name}; there are {sorted(TESTS)}")
    if isinstance(node, (nodes.Name, nodes.Getattr)):
        _check_name(node, where)
    depth += isinstance(node, nodes.For)
    if depth > DEEPEST:
        raise UsageError(f"{where}: loops are at most {DEEPEST} deep")
    for child in node.iter_child_nodes():
        _check(child, what, depth, nested + 1)
    if isinstance(node, nodes.For):
        node.iter = nodes.Filter(node.iter, EACH, [], [], None, None, lineno=node.lineno)


def _check_name(node: nodes.Name | nodes.Getattr, where: str) -> None:
    name = node.name if isinstance(node, nodes.Name) else node.attr
    if name.startswith("_"):
        raise UsageError(f"{where}: names do not begin with _")


def render(stored: Stored, values: dict[str, Any]) -> Rendered:
    """The mail that a template makes of these values; `UsageError` if it makes none."""
    if len(msgspec.json.encode(values)) > LARGEST_VALUES:
        raise UsageError(f"the values of a template have at most {LARGEST_VALUES} bytes as JSON")
    rounds = [0]

    def one(source: str, environment: _Environment, what: str) -> str:
        return _written(compiled(source, environment, what), {**values, COUNTER: rounds}, what)

    subject = one(stored.subject, PLAIN, "subject").strip()
    if not subject or len(subject) > 500 or not subject.isprintable():  # noqa: PLR2004
        raise UsageError("the subject that comes of it is not one line of 1 to 500 characters")
    text, html = one(stored.text, PLAIN, "text"), one(stored.html, HTML, "html")
    if not text.strip() and not html.strip():
        raise UsageError("nothing but a subject comes of it")
    return Rendered(subject=subject, text=text, html=html)


def _written(template: Any, values: dict[str, Any], what: str) -> str:
    parts, size = [], 0
    try:
        for each in template.generate(values):
            size += len(each)
            if size > LARGEST_RESULT:
                raise UsageError(f"{what}: more than {LARGEST_RESULT} characters come of it")
            parts.append(each)
    except (TemplateError, SecurityError, TypeError, ValueError, ArithmeticError) as error:
        raise UsageError(f"{what}: {error}") from None
    return "".join(parts)


def store(tenant: str, new: Stored) -> Stored:
    """Make or change a template, once it is known to be one."""
    for source, environment, what in (
        (new.subject, PLAIN, "subject"),
        (new.text, PLAIN, "text"),
        (new.html, HTML, "html"),
    ):
        compiled(source, environment, what)
    if not new.subject.strip() or not (new.text.strip() or new.html.strip()):
        raise UsageError("a template has a subject, and a text, an html, or both")
    now = part.app.now()
    with part.app.transaction() as tx:
        said: dict[str, Any] = {
            "name": new.name,
            "subject": new.subject,
            "body": new.text,
            "html": new.html,
        }
        tx.write(STORE, tenant=tenant, now=now, **said)
    return msgspec.structs.replace(new, updated=now)


def find(tenant: str, name: str) -> Stored:
    rows = part.app.read(
        "select * from mailroom_template where tenant = :tenant and name = :name",
        tenant=tenant,
        name=name,
    )
    if not rows:
        raise NotFound(f"there is no template {name!r:.80}")
    return _stored(rows[0])


def every(tenant: str) -> list[Stored]:
    rows = part.app.read(
        "select * from mailroom_template where tenant = :tenant order by name limit 1000",
        tenant=tenant,
    )
    return [_stored(row) for row in rows]


def delete(tenant: str, name: str) -> None:
    with part.app.transaction() as tx:
        gone = tx.write(
            "delete from mailroom_template where tenant = :tenant and name = :name",
            tenant=tenant,
            name=name,
        )
        if not gone.changed:
            raise NotFound(f"there is no template {name!r:.80}")


def _stored(row: Any) -> Stored:
    return Stored(
        name=row.name, subject=row.subject, text=row.body, html=row.html, updated=row.updated
    )


STORE = """
insert into mailroom_template (tenant, name, subject, body, html, updated)
values (:tenant, :name, :subject, :body, :html, :now)
on conflict (tenant, name) do update set subject = excluded.subject, body = excluded.body,
    html = excluded.html, updated = excluded.updated
"""
