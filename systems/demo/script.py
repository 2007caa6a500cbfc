"""The script: what each step does, and the sentence it says about what can be seen then."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duework import App
from systems import mailroom, reminders, scout, streaks
from systems.demo import chaos
from systems.demo.part import keep, kept, note
from systems.demo.receivers import Receivers
from systems.reminders.log import redrive_all
from systems.strides import promises as athletes_of
from systems.strides.seed import reconnect
from systems.strides.seed import seed as connect

FILE = Path(__file__).with_name("script.toml")
HOUR = 3_600_000
# Two people who go wrong on purpose: a check that never ends, and one that kills its own process.
DRILLS = {17: "hang", 23: "die"}
EARLY, EVERYBODY = 40, 60
# Below this success, in percent, the controller of scout rests.
CRITICAL = 20


@dataclass(frozen=True)
class Step:
    """Something that happens so many real seconds after the start."""

    at: float
    do: str
    values: dict[str, Any]


def steps() -> list[Step]:
    """The script, in order; an unknown name is an error before anything starts."""
    given = tomllib.loads(FILE.read_text())["step"]
    made = [Step(each.pop("at"), each.pop("do"), each) for each in given]
    for step in made:
        if not hasattr(Script, step.do):
            raise LookupError(f"{FILE.name}: there is no step {step.do!r}")
    return sorted(made, key=lambda step: step.at)


class Script:
    """What the steps do; each is safe to repeat, since a demo that was stopped goes on."""

    def __init__(self, app: App, receivers: Receivers) -> None:
        self.app = app
        self.receivers = receivers

    def play(self, step: Step) -> None:
        """One step; a step that fails says so and stops nobody."""
        do: Callable[..., None] = getattr(self, step.do)
        do(**step.values)

    def say(self, system: str, text: str, kind: str = "info") -> None:
        note(self.app, system, text, kind)

    # --- the systems

    def people(self) -> None:
        """Everybody who takes part; those of the last start are there already."""
        self.raise_limits()
        made = reminders.seed(self.app, people=12, count=40)
        for name, _, secret in made.endpoints:
            secrets = kept(self.app, "hooks", {})
            keep(self.app, "hooks", {**secrets, name: secret})
        self.tell_receivers()
        start = kept(self.app, "start")
        streaks.seed(self.app, EARLY, when=start, drills=DRILLS)
        streaks.seed(self.app, EVERYBODY, when=start + 2 * HOUR)
        self.say("reminders", f"{made.reminders} reminders of 12 people, by mail, webhook or both")

    def raise_limits(self) -> None:
        """A mail provider that has been asked for more than a new customer gets."""
        self.receivers.switch("acs", "set_plan", plan="raised")

    def tell_receivers(self) -> None:
        """The receivers of webhooks check signatures by the secrets that were made here."""
        for name, secret in kept(self.app, "hooks", {}).items():
            self.receivers.switch(
                "hooks", "endpoint", name=name, scheme="standard", secrets=[secret]
            )

    def post_mails(self, messages: int, name: str) -> None:
        count = mailroom.seed(self.app, tenants=3, messages=messages, name=name)
        self.say("mailroom", f"3 tenants posted {count} mails; 15 go out every ten seconds")

    def first_reminders(self) -> None:
        states = [each.state for each in reminders.promises(self.app)]
        self.say("reminders", f"{len(states)} due · {states.count('sent')} sent", "done")

    def streaks_batch(self) -> None:
        """The hour has come for the first group."""
        self.say(
            "streaks", f"20:00 in Lisbon: {EARLY} people, each checked in a process of its own"
        )
        self.say("streaks", "one of them hangs, one kills its process: both fail alone")

    def connect_athletes(self, athletes: int) -> None:
        connect(self.app, athletes=athletes)
        self.say(
            "strides",
            f"{athletes} athletes with 10,000 activities each, over one quota of 100 calls",
        )

    def progress_of_syncs(self) -> None:
        for each in athletes_of.promises(self.app):
            text = (
                f"athlete {each.athlete}: {len(each.activities):,} activities stored, {each.state}"
            )
            self.say("strides", text, "done" if each.state == "done" else "running")

    def scout_begins(self) -> None:
        charts = scout.seed(self.app)
        self.say("scout", f"{charts} charts to scan, 20 calls a minute for all of Apple")

    def enriching(self) -> None:
        """What the controller has learned, and how much it has done."""
        status = self.app.get_pace("enrich")
        sizes = [str(point[1]) for point in status.history]
        batch = " → ".join([*sizes[-4:-1], str(status.details["current_batch_size"])])
        done = [each.state for each in scout.promises(self.app)]
        lately = self.app.now() - HOUR // 4
        resting = status.details["in_cooldown"] or any(
            at > lately and success < CRITICAL for at, _, _, success in status.history
        )
        text = f"enriching: batch {batch}{', after a cooldown' if resting else ''}"
        known = f"{done.count('sent'):,} of {len(done):,} apps known"
        self.say("scout", f"{text} · {known}", "late" if resting else "running")

    def best_opportunity(self) -> None:
        found = scout.opportunities(1)
        if not found:
            self.say("scout", "no opportunity yet", "late")
            return
        best = found[0]
        text = (
            f"opportunity “{best['name']}”: {best['score']:.0f}/100, debated by {best['analyst']}"
        )
        self.say("scout", f"{text}: {best['verdict']}", "done")

    # --- what goes wrong

    def lose_mail_replies(self, count: int, messages: int) -> None:
        chaos.lose_replies(self.app, self.receivers, "acs", "send", count)
        self.post_mails(messages, "noon")

    def mail_replies_lost(self) -> None:
        self.receivers.faults("acs")
        counts = self.receivers.counts("acs", "mail", "key").values()
        twice = sum(times > 1 for times in counts)
        text = f"asked again with the same key; the provider has {len(counts)}, twice {twice}"
        self.say("mailroom", text, "done")

    def hooks_down(self) -> None:
        chaos.provider(self.app, self.receivers, "hooks", down=True)

    def partial(self) -> None:
        done = [each for each in reminders.promises(self.app) if each.state == "failed"]
        text = f"{len(done)} webhooks noted as failed; their e-mails arrived and are not sent again"
        self.say("reminders", text, "late")

    def hooks_back(self) -> None:
        chaos.provider(self.app, self.receivers, "hooks", down=False)

    def redrive(self) -> None:
        count = len(redrive_all())
        self.say("reminders", f"{count} failed reminders redriven", "done")

    def kill(self) -> None:
        chaos.kill_and_watch(self.app)

    def market_storm(self, seconds: float) -> None:
        chaos.storm(self.app, self.receivers, seconds)

    def lose_discord_replies(self, count: int) -> None:
        chaos.lose_replies(self.app, self.receivers, "discord", "execute", count)

    def discord_replies_lost(self) -> None:
        self.receivers.faults("discord")
        unsure = [each for each in streaks.promises(self.app) if each.state == "unsure"]
        text = f"{len(unsure)} unsure: Discord takes no key, so they are shown and not sent again"
        self.say("streaks", text, "unsure")

    def verify(self) -> None:
        broken = [found.says for found in self.app.admin.verify() if found.violations]
        text = "all invariants hold" if not broken else f"broken: {', '.join(broken)}"
        keep(self.app, "verify", not broken)
        self.say("verify", text, "failed" if broken else "done")

    def go_on(self) -> None:
        """After a stop: the receivers have forgotten whom they knew."""
        self.raise_limits()
        self.tell_receivers()
        reconnect(self.app)
        self.say("demo", "it goes on where it was stopped", "done")
