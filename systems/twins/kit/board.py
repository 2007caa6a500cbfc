"""One page for all twins that run: addresses, log, ledger, faults and switches.

Forms and links do everything; a few lines of script keep the figures fresh. Whatever came from
outside is escaped: a twin's log may hold anything.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from systems.twins.kit.app import Twin
from systems.twins.kit.clock import as_iso
from systems.twins.kit.control import describe, use
from systems.twins.kit.faults import BadPlan

SHOWN = 15
# Faults for one click, by what they are called on the page.
READY = {
    "lose the next reply": [{"calls": "1", "do": "drop_after"}],
    "down": [{"do": "status", "status": 503}],
    "slow": [{"do": "delay", "seconds": 2}],
    "a tenth fails": [{"calls": "10%", "do": "status", "status": 500}],
    "well again": [],
}
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 68rem; padding: 0 1rem;
  color: #1b1b1f; background: #fff; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .15rem .6rem;
  border-bottom: 1px solid #ddd; vertical-align: top; overflow-wrap: anywhere; }
td:first-child, th { overflow-wrap: normal; }
code, textarea, input { font: 13px/1.4 ui-monospace, monospace; }
textarea, input[type=text] { width: 100%; box-sizing: border-box; }
section { margin: 2.5rem 0; } .wrong { color: #a40000; } .quiet { color: #666; }
form.inline { display: inline; } button { margin: .1rem .2rem .1rem 0; }
@media (prefers-color-scheme: dark) { body { color: #e8e8ea; background: #16161a; }
  td, th { border-color: #333; } .quiet { color: #999; } .wrong { color: #ff8080; } a { color: #8ab4f8; } }
"""
SCRIPT = """
setInterval(async () => {
  for (const part of document.querySelectorAll("[data-live]")) {
    const reply = await fetch(part.dataset.live).catch(() => null);
    if (reply && reply.ok) part.innerHTML = await reply.text();
  }
}, 2000);
"""


def board(twins: Sequence[Twin]) -> Starlette:
    by_name = {twin.name: twin for twin in twins}

    async def page(request: Request) -> Response:  # noqa: ARG001
        return HTMLResponse(_page(twins))

    async def figures(request: Request) -> Response:
        twin = by_name.get(request.path_params["name"])
        return Response("no such twin", 404) if twin is None else HTMLResponse(_figures(twin))

    async def change(request: Request) -> Response:
        twin, what = by_name.get(request.path_params["name"]), request.path_params["what"]
        if twin is None:
            return Response("no such twin", 404)
        sent = dict(parse_qsl((await request.body()).decode(errors="replace")))
        problem = _change(twin, what, sent)
        if problem is None:
            return RedirectResponse(f"/#{twin.name}", 303)
        return HTMLResponse(f"<p>{escape(problem)}</p><p><a href='/'>Back</a></p>", 400)

    return Starlette(
        routes=[
            Route("/", page),
            Route("/{name}/figures", figures),
            Route("/{name}/{what}", change, methods=["POST"]),
        ]
    )


def _change(twin: Twin, what: str, sent: dict[str, str]) -> str | None:
    """Do what a form asks; returns what is wrong with it."""
    try:
        if what == "reset":
            twin.reset()
        elif what == "faults":
            twin.faults.set(json.loads(sent.get("plan") or "[]"))
        elif what == "switch":
            use(twin, sent.get("switch", ""), json.loads(sent.get("values") or "{}"))
        else:
            return f"there is nothing called {what}"
    except (BadPlan, ValueError) as problem:
        return str(problem)
    return None


def _page(twins: Sequence[Twin]) -> str:
    rows = "".join(
        f"<tr><td><a href='#{twin.name}'>{twin.name}</a><td><code>{escape(twin.url)}</code>"
        f"<td>{escape(twin.about)}"
        for twin in twins
    )
    sections = "".join(map(_section, twins))
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Twins</title>"
        "<meta name=viewport content='width=device-width'><link rel=icon href='data:,'>"
        f"<style>{STYLE}</style><main><h1>Twins</h1>"
        "<p>Local stand-ins for the outside world. Nothing here leaves this machine.</p>"
        f"<table><tr><th>twin<th>URL<th>what it is{rows}</table>{sections}</main><script>{SCRIPT}</script>"
    )


def _section(twin: Twin) -> str:
    about = describe(twin)
    samples = "".join(
        f"<tr><td>{escape(name)}<td><code>{escape(value)}</code>"
        for name, value in about["samples"].items()
    )
    ready = "".join(
        f"<form class=inline method=post action='/{twin.name}/faults'><input type=hidden name=plan "
        f"value='{escape(json.dumps(rules))}'><button>{escape(name)}</button></form>"
        for name, rules in READY.items()
    )
    plan = json.dumps([{"route": about["routes"][0], "calls": "3", "do": "drop_after"}])
    options = "".join(
        f"<option value='{escape(name)}'>{escape(name + takes)}</option>"
        for name, takes in about["switches"].items()
    )
    switches = (
        f"<form method=post action='/{twin.name}/switch'><label>Switch <select name=switch>{options}"
        "</select></label> <label>with <input type=text name=values placeholder='{&quot;name&quot;: "
        "&quot;value&quot;}'></label><button>set</button></form>"
    )
    return (
        f"<section id='{twin.name}'><h2>{twin.name}</h2><p>{escape(twin.about)}</p>"
        f"<table>{samples}</table>"
        f"<div>{ready}<form class=inline method=post action='/{twin.name}/reset'>"
        "<button>forget everything</button></form></div>"
        f"<details><summary>Faults and switches</summary><form method=post "
        f"action='/{twin.name}/faults'><label>Fault plan; routes: {escape(', '.join(about['routes']))}"
        f"<textarea name=plan rows=2>{escape(plan)}</textarea></label><button>set</button></form>"
        f"{switches}</details>"
        f"<div data-live='/{twin.name}/figures'>{_figures(twin)}</div></section>"
    )


def _figures(twin: Twin) -> str:
    over = len(twin.log.over_limit())
    warning = f" · <b class=wrong>{over} over the limit</b>" if over else ""
    head = (
        f"<p>{len(twin.ledger.entries)} delivered · {twin.log.calls} calls{warning} · "
        f"<span class=quiet>{as_iso(twin.now())}</span></p>"
    )
    log = "".join(
        f"<tr><td>{asked.n}<td>{as_iso(asked.at)[11:]}<td>{escape(asked.route)}"
        f"<td>{'no answer' if asked.status is None else asked.status}"
        f"<td>{escape(asked.fault or '')}<td>{escape(asked.limit or '')}"
        f"<td class=quiet>{escape(_short(asked.notes))}"
        for asked in reversed(twin.log.entries[-SHOWN:])
    )
    ledger = "".join(
        f"<tr><td>{entry['n']}<td>{as_iso(entry['at'])[11:]}<td>{escape(entry['kind'])}"
        f"<td>{escape(_short({k: v for k, v in entry.items() if k not in {'n', 'at', 'kind'}}))}"
        for entry in reversed(twin.ledger.entries[-SHOWN:])
    )
    if not log and not ledger:
        return head + "<p class=quiet>Nobody has called yet.</p>"
    return (
        f"{head}<h3>Delivered</h3><table>{ledger}</table>"
        f"<h3>Log</h3><table><tr><th>n<th>at<th>route<th>status<th>fault<th>limit<th>{log}</table>"
    )


def _short(facts: object) -> str:
    text = json.dumps(facts, ensure_ascii=False)
    return text if len(text) <= 200 else text[:199] + "…"
