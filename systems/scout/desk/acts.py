"""What people do on scout's pages; each is in the audit, and says what it did."""

from __future__ import annotations

from typing import Annotated

import msgspec

from duework import Reply, Transaction
from systems.scout import first, trial
from systems.scout.desk import reports, stars, steering, words
from systems.scout.desk.shown import report_body
from systems.scout.part import part

Text = Annotated[str, msgspec.Meta(max_length=20_000, pattern=r"^[^\x00]*$")]


class Seeds(msgspec.Struct, kw_only=True):
    """Keywords by hand, one a line."""

    keywords: Text
    track: bool = False


class OneKeyword(msgspec.Struct, kw_only=True):
    word: Text


class AppNumber(msgspec.Struct, kw_only=True):
    track_id: int


class Star(msgspec.Struct, kw_only=True):
    """What gets a star, and in which list."""

    kind: stars.Kind
    ref: Text
    list: Text | None = None


class Days(msgspec.Struct, kw_only=True):
    days: int = 30


class Which(msgspec.Struct, kw_only=True):
    id: Text


class OneJob(msgspec.Struct, kw_only=True):
    job: int


# --- small runs, pauses


@part.action("/first")
def start_first() -> str:
    chain = first.start()
    return "It is under way already" if chain.existed else "It has begun: one chart, then the rest"


@part.action("/trial")
def start_trial() -> str:
    chain = trial.start()
    return "It is under way already" if chain.existed else "Ten apps are on their way"


@part.action("/pause")
def pause_all() -> str:
    for piece in steering.PIECES:
        steering.pause(piece)
    return "Crawler, controller and agents stand still"


@part.action("/resume")
def resume_all() -> str:
    for piece in steering.PIECES:
        steering.resume(piece)
    return "Crawler, controller and agents go on"


@part.action("/pause/{piece}")
def pause(piece: steering.Piece) -> str:
    steering.pause(piece)
    return f"{piece.capitalize()}: paused. What runs is completed."


@part.action("/resume/{piece}")
def resume(piece: steering.Piece) -> str:
    steering.resume(piece)
    return f"{piece.capitalize()}: it goes on"


@part.action("/reset", confirm="Let the controller forget what it has learned?")
def reset_controller() -> str:
    return steering.reset("controller")


@part.action("/reset/{piece}", confirm="Reset the {piece}? Nothing that was found is lost.")
def reset(piece: steering.Piece) -> str:
    return steering.reset(piece)


# --- keywords, apps, stars, reports


@part.action("/seed")
def plant(form: Seeds, tx: Transaction) -> str:
    planted = words.plant(tx, form.keywords, part.app.now())
    for each in planted if form.track else ():
        words.follow(tx, each, part.app.now())
    return (
        f"{len(planted)} {'keyword is' if len(planted) == 1 else 'keywords are'} searched for soon"
    )


@part.action("/track")
def track(form: OneKeyword, tx: Transaction) -> str:
    return f"“{words.follow(tx, form.word, part.app.now())}” is searched for each day"


@part.action("/untrack")
def untrack(form: OneKeyword, tx: Transaction) -> str:
    return f"“{words.unfollow(tx, form.word)}” is followed no more"


@part.action("/add-app")
def add_app(form: AppNumber, tx: Transaction) -> str:
    stars.add_app(tx, form.track_id, part.app.now())
    return f"App {form.track_id} is looked up first, and has a star"


@part.action("/star")
def star(form: Star, tx: Transaction) -> str:
    return f"{stars.star(tx, form.kind, form.ref, part.app.now(), form.list or '')} has a star"


@part.action("/unstar")
def unstar(form: Star, tx: Transaction) -> str:
    stars.unstar(tx, form.kind, form.ref)
    return "The star is gone"


@part.action("/opportunities/{cluster}/share")
def share(cluster: str, form: Days, tx: Transaction) -> Reply:
    """Lead to the report itself: its address is the link, and it is shown nowhere else."""
    token = reports.make(tx, report_body(cluster), part.app.now(), form.days)
    return Reply(303, headers={"location": f"/scout/r/{token}"})


@part.action("/revoke", confirm="Revoke it? Whoever has the link sees nothing any more.")
def revoke(form: Which, tx: Transaction) -> str:
    reports.revoke(tx, form.id)
    return "The link opens nothing any more"


# --- what failed


@part.action("/requeue")
def requeue(form: OneJob) -> str:
    steering.again(form.job)
    return "It runs again"


@part.action("/requeue-all")
def requeue_all() -> str:
    return f"{steering.all_again()} run again"
