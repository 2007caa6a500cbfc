"""The actions of parts: a form, checked as every form of ours, audited, and back to where it came from.

With a `Transaction` as parameter an action and its line in the audit are one commit. Without one the line is
written first, as `begun`, and gets its outcome afterwards: there is no action without its line.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from duework.db.database import Tx
from duework.errors import Conflict, DatabaseError, Error, NotFound, UsageError
from duework.face import PartAction, Reply, fill
from duework.kernel.error_text import redact
from duework.kernel.transaction import Transaction, inside
from duework.part import Part
from duework.web.parts.bodies import OWN_FIELDS, BadRequest, file_value, from_fields, path_values
from duework.web.parts.calls import call
from duework.web.parts.problems import LOG, answer_reply
from duework.web.tokens import WEB
from duework.web.visits import Visit, is_ours

LONGEST = 300
# What an action may say no with: shown where the form was, and nothing has changed.
REFUSALS = (NotFound, Conflict, UsageError)


def answer_action(part: Part, action: PartAction) -> Callable[[Visit], Awaitable[Response]]:
    """The handler for a form."""

    async def answer(visit: Visit) -> Response:
        params = path_values(action.endpoint, visit.request.path_params)
        if action.confirm and visit.sent("sure") != "yes" and not visit.by_program:
            return _ask(visit, part, action, fill(action.confirm, params))
        try:
            said = await _act(visit, part, action, params)
        except (*REFUSALS, BadRequest) as error:
            if visit.by_program:
                raise _refusal(error) from error
            return visit.redirect(back(visit, part), _sentence(str(error)), "bad")
        if isinstance(said, (Reply, Response)):
            return answer_reply(said, visit.base)
        if visit.by_program:
            return JSONResponse({"outcome": said or "done"})
        return visit.redirect(back(visit, part), said or "")

    return answer


def _refusal(error: Exception) -> Exception:
    return HTTPException(error.status, error.detail) if isinstance(error, BadRequest) else error


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


async def _act(visit: Visit, part: Part, action: PartAction, params: dict[str, Any]) -> Any:
    endpoint, values = action.endpoint, dict(params)
    if endpoint.body is not None:
        name, kind = endpoint.body
        ours = OWN_FIELDS - set(kind.__struct_encode_fields__)
        values[name] = from_fields([each for each in visit.form if each[0] not in ours], kind)
    if endpoint.files is not None:
        name, files = endpoint.files
        values[name] = file_value(visit.posted.files, name, files)
    if endpoint.person is not None:
        values[endpoint.person] = visit.person
    line = _line(visit, part, action)
    if endpoint.transaction is not None:
        return _told(await call(part.app, endpoint, values, lambda tx, _: _write_in(tx, line)))
    await run_in_threadpool(_write, part, WEB.audit, {**line, "outcome": "begun"})
    try:
        said = _told(await call(part.app, endpoint, values))
    except Exception as error:
        outcome = error.code if isinstance(error, Error) else f"failed: {type(error).__name__}"
        await run_in_threadpool(_outcome, part, line["id"], outcome)
        raise
    await run_in_threadpool(_outcome, part, line["id"], "done")
    return said


def _told(given: Any) -> Any:
    if given is None or isinstance(given, (str, Reply, Response)):
        return given
    raise UsageError(f"an action returns a text, a Reply or nothing, not {type(given).__name__}")


def _line(visit: Visit, part: Part, action: PartAction) -> dict[str, Any]:
    """A line of the audit: who, what, on what, why."""
    engine = part.app.wiring.engine
    person = f"{part.name} person {visit.person.id}" if visit.person else ""
    return {
        "id": engine.ids.draw(),
        "at": engine.clock.now(),
        "who": visit.who.name if visit.who else person or "anyone",
        "what": f"{part.name}.{action.endpoint.name}",
        "target": visit.here.partition("?")[0][:LONGEST],
        "why": redact(visit.sent("why"))[:1000],
        "outcome": "done",
    }


def _write_in(tx: Transaction, line: dict[str, Any]) -> None:
    inside(tx).query(WEB.audit, line)


def _write(part: Part, statement: Any, values: dict[str, Any]) -> None:
    def write(tx: Tx, items: list[dict[str, Any]]) -> list[None]:
        for each in items:
            tx.query(statement, each)
        return [None] * len(items)

    part.app.wiring.engine.writer.call(write, [values])


def _outcome(part: Part, identifier: int, outcome: str) -> None:
    """What became of it; if that cannot be written the line says `begun`, which is true."""
    try:
        _write(part, WEB.audit_outcome, {"id": identifier, "outcome": outcome[:LONGEST]})
    except DatabaseError as error:
        LOG.warning("the audit of action %s has no outcome: %s", identifier, error)


def back(visit: Visit, part: Part) -> str:
    """Where the form came from: a field of it, else the page that the browser names; always ours."""
    default = f"/{part.name}/"
    wanted = visit.sent("next") or visit.sent("back")
    if wanted:
        return visit.base + (wanted if is_ours(wanted) else default)
    parts = urlsplit(visit.request.headers.get("referer", ""))
    here = visit.request.headers.get("host", "").lower()
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    if parts.netloc.lower() == here and path.startswith(visit.base + "/"):
        below = path.removeprefix(visit.base)
        return visit.base + (below if is_ours(below) else default)
    return visit.base + default


def _ask(visit: Visit, part: Part, action: PartAction, question: str) -> Response:
    """The question before an action; nothing is changed yet."""
    return visit.render(
        *(visit, "confirm.html"),
        question=question,
        warning="This is done at once.",
        effects=[],
        action=visit.here.partition("?")[0],
        fields=[each for each in visit.form if each[0] not in OWN_FIELDS],
        back=back(visit, part).removeprefix(visit.base),
        crumb=(f"/{part.name}/", part.name),
        keep="Leave it",
        typed="",
        wrong="",
        button=_sentence(action.endpoint.name.replace("_", " ")),
    )
