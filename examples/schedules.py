"""Schedules in virtual time: a report every night in London, and reminders that come and go."""

from datetime import datetime
from zoneinfo import ZoneInfo

from duework import App, Run
from duework.testing import Harness

app = App()
LONDON = ZoneInfo("Europe/London")


def shown(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, LONDON):%a %d %b %H:%M %Z}"


@app.task(cron="30 1 * * *", tz="Europe/London", owner="ops", why="partners read it at breakfast")
def report(run: Run) -> None:
    print(f"report for {shown(run.slot)}, run at {shown(run.now)}")


@app.task
def remind(run: Run, name: str) -> None:
    print(f"remind {name}: {shown(run.slot)}, key {run.key}")


def main() -> None:
    # In the night to 29 March the clock in London leaps from 01:00 to 02:00.
    with Harness(app, now="2026-03-28T00:00:00+00:00") as h:
        app.schedule(remind, every="12h", args=("ada",), key="remind:ada")
        app.schedule(
            remind, at="2026-03-29T09:00", tz="Europe/London", args=("bob",), key="once:bob"
        )
        h.advance("2d")

        (ada,) = app.schedules(prefix="remind:")
        print(ada.edit(every="1h").next(2))
        ada.delete()
        for each in app.schedules():
            print(f"{each.key:10} {each.when:40} {each.state:7} fired {each.fires}")


if __name__ == "__main__":
    main()
