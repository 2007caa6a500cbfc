"""Failures, retries and what a task may say about its own end, in virtual time."""

from duework import App, Cancel, Exponential, Fail, Retry, Run, Snooze, Throttled
from duework.testing import Harness

app = App()


@app.task(retries=3, backoff=("1m", "5m", "30m"))
def flaky(run: Run) -> str:
    if run.attempt < 4:
        raise ConnectionError(f"attempt {run.attempt}: no route")
    return "got through"


@app.task(retries=5, backoff=Exponential(first="2s", cap="1h"), give_up_on=(KeyError,))
def lookup(name: str) -> str:
    return {"ada": "Lovelace"}[name]


@app.task(retries=2)
def answer(word: str) -> Snooze | Retry | Fail | Cancel | str:
    match word:
        case "later":
            return Snooze("10m")  # again in ten minutes; not a failure
        case "again":
            return Retry("30s", "the page was empty")  # a failure, with a delay of its own
        case "hopeless":
            return Fail("there is no such user")  # no more retries
        case "unwanted":
            return Cancel("the user has left")
        case "busy":
            raise Throttled("1m")  # may also be raised, from deep code
    return word


def main() -> None:
    with Harness(app) as h:
        jobs = [flaky.enqueue(), lookup.enqueue("ada"), lookup.enqueue("bob")]
        jobs += answer.enqueue_many(
            [("fine",), ("later",), ("again",), ("hopeless",), ("unwanted",), ("busy",)]
        )
        h.advance("1h")

        for job in (each.refresh() for each in jobs):
            print(f"{job.task:7} {job.payload:20} {job.state:10} failures={job.failures}")
            for attempt in job.attempts():
                print(f"        attempt {attempt.number}: {(attempt.error or '').splitlines()[0]}")


if __name__ == "__main__":
    main()
