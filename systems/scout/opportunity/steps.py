"""The debate: facts → bull → bear → judge → what follows, as steps of which each is committed once.

A turn is a question to the model and, if its answer is not accepted, the same question once more; then the
rules speak instead, and the transcript says why. Each question is a step of its own, so that a debate which
has to wait for tomorrow's budget goes on in the middle of a turn. A turn's message is in the transcript with
the step that made it. Without a key the rules speak at once.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from duework import Cancel, Run, StepFailed
from systems.scout.crawl.tiers import DAY
from systems.scout.economy import ledger
from systems.scout.economy.tokens import Answer, NothingSpent
from systems.scout.opportunity import analyst, conclusions, model, voices
from systems.scout.opportunity.gather import gather
from systems.scout.part import JUDGING, part, settings

RULES = "rules"


def ask_for(to: Any, clusters: list[str]) -> None:
    """Let clusters be debated; one that is being debated is left alone."""
    for each in clusters:
        to.enqueue(opportunity.using(key=f"cluster:{each}"), each)


@part.task(queue=JUDGING, retries=3, backoff=("10s", "1m", "5m"), timeout="3m")
async def opportunity(run: Run, cluster: str) -> str | Cancel:
    """A whole debate; the verdict."""
    known = await run.step("facts", partial(begin, run, cluster))
    if known is None:
        return Cancel("the cluster is there no more")
    said: list[dict[str, Any]] = []
    for who in voices.SPEAKERS:
        said.append(await turn(run, who, known, said))
    verdict: str = await run.step("conclude", partial(conclude, run, cluster, known, said))
    return verdict


def begin(run: Run, cluster: str) -> dict[str, Any] | None:
    """The facts, and an empty transcript."""
    known = gather(run, cluster)
    if known is None:
        return None
    known["analyst"] = settings().llm_model if settings().llm_key else RULES
    run.write(
        "insert into scout_debate_report (id, cluster, name, analyst, parts, facts, score,"
        " started_at) values (:id, :cluster, :name, :analyst, :parts, :facts, :score, :now)"
        " on conflict (id) do update set state = 'open', name = excluded.name,"
        " analyst = excluded.analyst, parts = excluded.parts, facts = excluded.facts,"
        " score = excluded.score, started_at = excluded.started_at, decided_at = null",
        id=run.job.id,
        cluster=cluster,
        name=known["name"],
        analyst=known["analyst"],
        parts=json.dumps(known["parts"]),
        facts=json.dumps(known["facts"]),
        score=known["parts"]["score"],
        now=run.now,
    )
    run.write("delete from scout_debate_message where debate = :id", id=run.job.id)
    return known


async def turn(
    run: Run, who: str, known: dict[str, Any], said: list[dict[str, Any]]
) -> dict[str, Any]:
    """What a speaker says: a model's words, if they are accepted."""
    why = None
    if known["analyst"] != RULES:
        messages = voices.question(who, known, said)
        for step in (who, f"{who}, put right"):
            answered = await question(run, step, who, known, said, messages)
            if answered.get("turn"):
                found: dict[str, Any] = answered["turn"]
                return found
            why = answered["why"]
            if answered["lasting"]:
                break
            messages = voices.again(messages, answered["text"], why)
    return await run.step(f"{who} by rules", partial(by_rules, run, who, known, said, why))


async def question(
    run: Run,
    step: str,
    who: str,
    known: dict[str, Any],
    said: list[dict[str, Any]],
    messages: list[dict[str, str]],
) -> dict[str, Any]:
    """One question as a step of its own: a turn, or why there is none."""

    async def ask() -> dict[str, Any]:
        try:
            answer = await ledger.paid(
                run.job.id, step, messages, partial(model.complete, messages, voices.schema(who))
            )
        except NothingSpent as error:
            if not error.lasting:
                raise
            return {"why": str(error), "text": None, "lasting": True}
        return heard(run, who, known, said, answer)

    try:
        found: dict[str, Any] = await run.step(step, ask, retries=2, backoff=("10s", "1m"))
    except StepFailed as error:
        return {"why": str(error), "text": None, "lasting": True}
    return found


def heard(
    run: Run, who: str, known: dict[str, Any], said: list[dict[str, Any]], answer: Answer
) -> dict[str, Any]:
    """An answer as a turn, in the transcript; or what is wrong with it."""
    if answer.why is not None or answer.content is None:
        return {"why": answer.why or "the answer is empty", "text": None, "lasting": False}
    claims = sum(len(each["claims"]) for each in said)
    try:
        found = voices.accepted(who, answer.content, known, claims)
    except voices.Unfit as error:
        return {"why": str(error), "text": answer.content, "lasting": False}
    _speak(run, len(said), found, known["analyst"], None)
    return {"turn": found, "why": None}


def by_rules(
    run: Run, who: str, known: dict[str, Any], said: list[dict[str, Any]], why: str | None
) -> dict[str, Any]:
    """The rule-based analyst's turn."""
    parts, facts = known["parts"], known["facts"]
    if who == "judge":
        pro, contra = (each["claims"] for each in said)
        found = analyst.ruling(parts, pro, contra)
    else:
        argue = analyst.bull if who == "bull" else analyst.bear
        found = {"who": who, "claims": argue(parts, facts)}
    _speak(run, len(said), found, RULES, why)
    return found


def _speak(run: Run, place: int, found: dict[str, Any], by: str, why: str | None) -> None:
    """A turn into the transcript."""
    found["by"] = by
    run.write(
        "insert into scout_debate_message (debate, place, who, analyst, why, claims, at)"
        " values (:debate, :place, :who, :by, :why, :claims, :now)",
        debate=run.job.id,
        place=place,
        who=found["who"],
        by=by,
        why=why,
        claims=json.dumps(found["claims"]),
        now=run.now,
    )


def conclude(run: Run, cluster: str, known: dict[str, Any], said: list[dict[str, Any]]) -> str:
    """The verdict with everything that it rests on; a newer one takes the place of an older."""
    verdict: str = said[-1]["verdict"]
    score = known["parts"]["score"]
    run.write(
        "insert into scout_opportunity (cluster, name, score, verdict, parts, facts, debate,"
        " analyst, first_at, decided_at) values (:id, :name, :score, :verdict, :parts, :facts,"
        " :debate, :analyst, :now, :now) on conflict (cluster) do update set name = excluded.name,"
        " score = excluded.score, verdict = excluded.verdict, parts = excluded.parts,"
        " facts = excluded.facts, debate = excluded.debate, analyst = excluded.analyst,"
        " decided_at = excluded.decided_at",
        id=cluster,
        name=known["name"],
        score=score,
        verdict=verdict,
        parts=json.dumps(known["parts"]),
        facts=json.dumps(known["facts"]),
        debate=json.dumps([{"who": each["who"], "claims": each["claims"]} for each in said]),
        analyst=known["analyst"] if any(each["by"] != RULES for each in said) else RULES,
        now=run.now,
    )
    run.write(
        "update scout_debate_report set state = 'done', verdict = :verdict, decided_at = :now"
        " where id = :id",
        id=run.job.id,
        verdict=verdict,
        now=run.now,
    )
    _follow(run, cluster, known, said)
    _forget(run)
    return verdict


def _follow(run: Run, cluster: str, known: dict[str, Any], said: list[dict[str, Any]]) -> None:
    """Evaluations, reference apps, method scores and tips, instead of those of the last debate."""
    mine = {"cluster": cluster, "debate": run.job.id}
    rows: dict[str, list[dict[str, Any]]] = {
        "evaluation": [{**each, "at": run.now} for each in analyst.evaluations(known, said)],
        "reference_app": [
            {"track_id": id_, "place": place, "why": why}
            for place, (id_, why) in enumerate(conclusions.reference_apps(known), start=1)
        ],
        "method_score": [
            {"method": name, "score": score, "inputs": json.dumps(inputs)}
            for name, (score, inputs) in conclusions.method_scores(known).items()
        ],
        "tip": [
            {"place": place, "text": tip["text"], "facts": json.dumps(tip["facts"])}
            for place, tip in enumerate(conclusions.tips(known, said[-1].get("tips", [])), start=1)
        ],
    }
    for name, found in rows.items():
        table = "scout_market_tip" if name == "tip" else f"scout_opportunity_{name}"
        run.write(f"delete from {table} where cluster = :cluster", cluster=cluster)  # noqa: S608 - ours
        if found:
            columns = [*mine, *found[0]]
            run.write(
                f"insert into {table} ({', '.join(columns)})"  # noqa: S608 - our own names
                f" values ({', '.join(':' + column for column in columns)})",
                rows=[{**mine, **each} for each in found],
            )


def _forget(run: Run) -> None:
    """Transcripts are kept as long as places in charts are."""
    before = run.now - settings().keep * DAY
    old = "select id from scout_debate_report where decided_at < :before"
    run.write(f"delete from scout_debate_message where debate in ({old})", before=before)  # noqa: S608 - ours
    run.write("delete from scout_debate_report where decided_at < :before", before=before)
    ledger.forget(run, run.job.id, before)
