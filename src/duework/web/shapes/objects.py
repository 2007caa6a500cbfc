"""Durable objects: what is stored of each, its tables, its alarm; ring it now, delete."""

from __future__ import annotations

from starlette.responses import Response

from duework.db.database import Tx
from duework.errors import Conflict
from duework.kernel.moves import move
from duework.kernel.settle import lock_jobs
from duework.shapes.objects import store
from duework.shapes.objects.proxy import ObjectInfo, info_of
from duework.web.acts import acted, ask, sentence, sure, told, written
from duework.web.filters import size
from duework.web.lists import PAGE, address, required, show, text
from duework.web.regions import regions
from duework.web.table import NavItem, OwnPage
from duework.web.visits import SOON, Visit

# Tables are counted in an object that is no larger than this: it is loaded for that.
LARGEST = 8_000_000


def objects(visit: Visit) -> Response:
    """By kind and key."""
    kind, prefix, after = (text(visit, name) for name in ("kind", "prefix", "after"))
    behind = (text(visit, "after_kind") if not kind else "", after)
    found = [info_of(row) for row in _listed(visit, kind, behind, prefix if kind else "")]
    shown, now = found[:PAGE], visit.app.now()
    bad = [each for each in shown if each.failures]
    visit.again = SOON if any(each.running for each in shown) else None

    def here(**more: str) -> str:
        return address(visit.base, "/objects", **{"kind": kind, "prefix": prefix, **more})

    tokens = [(name, value) for name, value in (("kind", kind), ("prefix", prefix)) if value]
    last = shown[-1] if len(found) > PAGE else None
    return show(
        *(visit, "objects.html"),
        rows=shown,
        kinds=sorted({each.kind for each in shown}),
        bad=bad,
        late=[each for each in shown if each.alarm is not None and each.alarm < now - 30_000],
        next=min((each.alarm for each in shown if each.alarm and each.alarm > now), default=None),
        filters=[("kind", "Kind", kind)]
        + ([("prefix", "Keys that begin with", prefix)] * bool(kind)),
        chosen=[(name, value, here(**{name: ""})) for name, value in tokens],
        newest=here() if after else "",
        older=here(after_kind="" if kind else last.kind, after=last.key) if last else "",
        order="By kind and key",
    )


def _listed(
    visit: Visit, kind: str, after: tuple[str, str], prefix: str
) -> list[tuple[object, ...]]:
    with visit.app.wiring.engine.database.reading() as tx:
        rows: list[tuple[object, ...]] = store.listed(
            tx, kind, after=after, prefix=prefix, wanted=PAGE + 1, now=visit.app.now()
        )
    return rows


def _named(visit: Visit) -> tuple[str, str]:
    return required(visit, "kind"), required(visit, "key")


def object_(visit: Visit) -> Response:
    """One object: version, size, tables, alarm, lease."""
    kind, key = _named(visit)
    handle = visit.app.object(kind, key)
    info: ObjectInfo = handle.info()
    with visit.app.wiring.engine.database.reading() as tx:
        alarm = store.alarm_of(tx, kind, key)
    visit.again = SOON if info.running else None
    return show(
        *(visit, "object.html"),
        heading=key,
        info=info,
        alarm=alarm,
        why=visit.app.why(alarm) if alarm is not None else None,
        tables=sorted(handle.tables().items()) if info.bytes <= LARGEST else None,
        late=info.alarm is not None and info.alarm < visit.app.now() - 30_000,
    )


# --- acting


def ring(visit: Visit) -> Response:
    """Let its alarm be due at once."""
    kind, key = _named(visit)
    engine = visit.app.wiring.engine

    def act(tx: Tx) -> str:
        job = store.alarm_of(tx, kind, key)
        row = lock_jobs(tx, [job]).get(job) if job is not None else None
        if job is None or row is None:
            raise Conflict(f"object {kind} {key} has no alarm to ring")
        if row.worker is not None:
            raise Conflict(f"the alarm of {kind} {key} rings already: job {job}")
        if row.state == "open":
            move(tx, [(job, engine.clock.now())])
            engine.ring_after(tx)
        else:
            engine.revive(tx, [job])
        return f"job {job}"

    return acted(visit, "ring alarm", f"object {kind} {key}", act, "Its alarm rings: {}")


def delete(visit: Visit) -> Response:
    """Remove it with its database and its alarm, after typing its key."""
    kind, key = _named(visit)
    handle = visit.app.object(kind, key)
    info: ObjectInfo = handle.info()
    typed = f"delete {key}"[:60]
    if not sure(visit) or (visit.sent("typed") != typed and not visit.by_program):
        return ask(
            *(
                visit,
                f"Delete {kind} {key}?",
                "Its database is deleted for good. This cannot be undone.",
            ),
            effects=[
                (
                    "failed",
                    f"The object at version {info.version:,}, {size(info.bytes)}, is deleted",
                ),
                ("cancelled", "Its alarm does not ring any more"),
                ("done", f"Rather keep a copy? duework objects export {kind} {key} FILE"),
            ],
            fields=[("kind", kind), ("key", key)],
            back="/objects",
            crumb=("/objects", "Objects"),
            keep="Keep it",
            button="Delete the object",
            typed=typed,
            wrong=f"That is not “{typed}”." if visit.sent("sure") == "yes" else "",
        )
    target = f"object {kind} {key}"
    gone = written(visit, "delete", target, handle.delete)
    return told(visit, target, "deleted" if gone else "was gone", sentence(f"{target} is deleted"))


LIVE = regions("objects", objects=1.0)
ONE = regions("objects", head=1.0, detail=1.0)
PAGES = [
    OwnPage("/objects", objects, live=LIVE, nav=NavItem("Objects", "objects", "State")),
    OwnPage("/objects/one", object_, live=ONE),
    OwnPage("/objects/ring", ring, "operate", "POST"),
    OwnPage("/objects/delete", delete, "admin", "POST"),
]
