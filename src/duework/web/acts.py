"""What people do: sign in and out, retry, cancel; and how whatever else they do is asked and written down.

Each action is in the audit, in one transaction with what it did: there is no action without its row, and
no row without its action.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from starlette.responses import JSONResponse, Response

from duework.db.database import Tx
from duework.errors import Conflict, Error, NotFound, UsageError
from duework.kernel.error_text import redact
from duework.web.tokens import SESSION_MS, WEB, Tokens
from duework.web.visits import THEMES, Undo, Visit, cookie_name, form_ids

DONE = {"revived": "opened again", "cancelled": "cancelled", "cancelling": "being cancelled"}


def audited(visit: Visit, what: str, target: str, act: Callable[[Tx], str]) -> str:
    """Act and write it down, or neither; returns what became of it."""

    def both(tx: Tx, acts: list[Callable[[Tx], str]]) -> Sequence[str]:
        outcomes = [each(tx) for each in acts]
        for outcome in outcomes:
            _line(tx, visit, what, target, outcome, [])
        return outcomes

    return visit.app.wiring.engine.writer.call(both, [act])[0]


def written(visit: Visit, what: str, target: str, act: Callable[[], Any]) -> Any:
    """Act in more than one transaction: the line is written first, as `begun`, and then its outcome."""
    engine, lines = visit.app.wiring.engine, list[int]()

    def line(tx: Tx, outcomes: list[str]) -> Sequence[str]:
        _line(tx, visit, what, target, outcomes[0], lines)
        return outcomes

    def finish(tx: Tx, outcomes: list[str]) -> Sequence[str]:
        tx.query(WEB.audit_outcome, {"id": lines[-1], "outcome": outcomes[0][:300]})
        return outcomes

    engine.writer.call(line, ["begun"])
    try:
        answer = act()
    except Error as error:
        engine.writer.call(finish, [error.code])
        raise
    engine.writer.call(finish, [f"done: {answer}"])
    return answer


def _line(tx: Tx, visit: Visit, what: str, target: str, outcome: str, ids: list[int]) -> None:
    """A row of the audit; its id goes to `ids`."""
    engine, who = visit.app.wiring.engine, visit.who
    assert who is not None
    ids.append(engine.ids.draw())
    values = {"id": ids[-1], "at": engine.clock.now(), "who": who.name}
    more = {"what": what, "target": target[:300], "why": redact(visit.sent("why"))[:1000]}
    tx.query(WEB.audit, {**values, **more, "outcome": outcome[:300]})


def sure(visit: Visit) -> bool:
    """Whether somebody was asked and said yes; a program is not asked."""
    return visit.sent("sure") == "yes" or "authorization" in visit.request.headers


def acted(
    visit: Visit,
    what: str,
    target: str,
    act: Callable[[Tx], str],
    said: str,
    undo: Undo | None = None,
) -> Response:
    """Act, write it down, and say so where the button was; a refusal says what is in the way."""
    try:
        outcome = audited(visit, what, target, act)
    except (NotFound, Conflict, UsageError) as error:
        if visit.by_program:
            raise
        return visit.redirect(visit.back(), sentence(str(error)), "bad")
    return told(visit, target, outcome, said, undo)


def told(visit: Visit, target: str, outcome: str, said: str, undo: Undo | None = None) -> Response:
    """What became of it, for whoever asked."""
    if visit.by_program:
        return JSONResponse({"target": target, "outcome": outcome})
    return visit.redirect(visit.back(), said.replace("{}", outcome), undo=undo)


def sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def ask(visit: Visit, question: str, warning: str, **values: Any) -> Response:
    """What an action would do, counted now; nothing is changed yet.

    `typed` are the words that have to be typed for what deletes.
    """
    back = visit.back().removeprefix(visit.base)
    common = {"effects": [], "fields": [], "keep": "Leave it", "typed": "", "wrong": ""}
    more = {"back": back, "action": visit.here.partition("?")[0], "crumb": (back, "Back")}
    return visit.render(
        *(visit, "confirm.html"),
        question=question,
        warning=warning,
        **{**common, **more, **values},
    )


def _each(visit: Visit, what: str, act: Callable[[Tx, int], str], back: str) -> Response:
    """Do it to each job of a form: one that cannot be done does not stop the others."""
    outcomes: dict[str, str] = {}
    refused: list[str] = []
    for identifier in form_ids(visit):

        def on_one(tx: Tx, job: int = identifier) -> str:
            return act(tx, job)

        try:
            outcomes[str(identifier)] = audited(visit, what, f"job {identifier}", on_one)
        except (NotFound, Conflict) as error:
            outcomes[str(identifier)] = error.code
            refused.append(str(error))
    if visit.wants_json or "authorization" in visit.request.headers:
        return JSONResponse({"outcomes": outcomes, "refused": refused}, 409 if refused else 200)
    counts: dict[str, int] = {}
    for outcome in outcomes.values():
        words = DONE.get(outcome, f"left as it was ({outcome})")
        counts[words] = counts.get(words, 0) + 1
    if refused:
        return visit.redirect(back, " ".join(refused), "bad")
    # Opened again they are due at once: the button says so.
    ended = [("id", job) for job, outcome in outcomes.items() if outcome == "cancelled"]
    undo = Undo("/jobs/retry", ended) if ended else None
    words = ", ".join(f"{count} {words}" for words, count in counts.items())
    return visit.redirect(back, words, undo=undo)


def retry(visit: Visit) -> Response:
    """Open settled jobs again, due at once."""
    engine = visit.app.wiring.engine
    return _each(visit, "retry", lambda tx, job: engine.revive(tx, [job])[0], visit.back("/jobs"))


def cancel(visit: Visit) -> Response:
    """End jobs, after asking."""
    if not sure(visit):
        return ask_cancel(visit)
    engine, who = visit.app.wiring.engine, visit.who
    assert who is not None
    why = redact(visit.sent("why")) or f"cancelled by {who.name}"
    return _each(
        visit, "cancel", lambda tx, job: engine.cancel(tx, [(job, why)])[0], visit.back("/jobs")
    )


def ask_cancel(visit: Visit) -> Response:
    """What cancelling would do, counted now; nothing is changed yet."""
    found = form_ids(visit)
    phases: dict[str, int] = {}
    for identifier in found:
        try:
            phase = visit.app.job(identifier).phase
        except NotFound:
            phase = "done"
        phases[phase] = phases.get(phase, 0) + 1
    running = phases.get("running", 0) + phases.get("expired", 0)
    waiting = phases.get("ready", 0) + phases.get("waiting", 0)
    rest = len(found) - running - waiting
    effects = [
        *([("cancelled", f"{waiting} that wait will not run")] if waiting else []),
        *(
            [("running", f"{running} that run are told to stop by their workers")]
            if running
            else []
        ),
        *([("done", f"{rest} that have ended stay as they are")] if rest else []),
    ]
    one = len(found) == 1
    return ask(
        *(visit, f"Cancel job {found[0]}?" if one else f"Cancel {len(found)} jobs?"),
        "A job that was cancelled can be opened again with Retry, while it is kept.",
        effects=effects,
        fields=[("id", each) for each in found],
        back=visit.back("/jobs").removeprefix(visit.base),
        crumb=("/jobs", "Jobs"),
        keep="Keep it" if one else "Keep them",
        button="Cancel the job" if one else f"Cancel {len(found)} jobs",
    )


# --- the door


def login_page(visit: Visit) -> Response:
    """A link does nothing by itself, so that nobody who only looks at it uses it up."""
    back = visit.back().removeprefix(visit.base)
    return visit.render(visit, "login.html", code=visit.asked("code"), back=back, words="")


def login(visit: Visit) -> Response:
    """Exchange a token, or the code of a link, for a session."""
    try:
        session = Tokens(visit.app).open_session(visit.sent("token").strip())
    except NotFound as error:
        back = visit.back().removeprefix(visit.base)
        return visit.render(
            *(visit, "login.html"), status=401, code="", back=back, words=str(error)
        )
    answer = visit.redirect(visit.back())
    answer.set_cookie(
        *(cookie_name(visit), session),
        max_age=SESSION_MS // 1000,
        httponly=True,
        secure=visit.secure,
        samesite="lax",
    )
    return answer


def logout(visit: Visit) -> Response:
    if visit.who is not None and visit.who.session:
        Tokens(visit.app).end_session(visit.who.session)
    answer = visit.redirect(f"{visit.base}/login")
    answer.delete_cookie(cookie_name(visit), httponly=True, secure=visit.secure, samesite="lax")
    return answer


def theme(visit: Visit) -> Response:
    """Light, dark or as the system has it; the script does the same by itself."""
    chosen = visit.sent("theme")
    if chosen not in {"", *THEMES}:
        raise UsageError("a theme is light or dark")
    answer = visit.redirect(visit.back("/menu"))
    answer.set_cookie("theme", chosen, max_age=31_536_000 if chosen else 0, samesite="lax")
    return answer
