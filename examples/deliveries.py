"""A reminder by two channels: one reply is lost, one request is refused, nothing is sent twice."""

from duework import App, Channel
from duework.testing import Harness

app = App()
known: dict[str, str] = {}
tries: list[str] = []


async def send_email(text: str, key: str) -> None:
    """A provider that honours keys, and whose first reply gets lost."""
    tries.append("email")
    known[key] = text
    if len(tries) == 1:
        raise ConnectionResetError("the reply was lost")


async def post(text: str) -> None:
    tries.append("webhook")
    if tries.count("webhook") == 1:
        raise RuntimeError("503")


@app.delivery(
    channels={"email": Channel(send_email), "webhook": Channel(post)}, partial="retry-failed"
)
async def reminder(user: int) -> dict[str, str]:
    return {"email": f"dear {user}", "webhook": f"reminded {user}"}


def main() -> None:
    with Harness(app) as h:
        job = reminder.enqueue(7)
        h.advance("1h")

        print(f"{job.refresh().state}: {job.refresh().result}")
        for each in reminder.channels(job):
            print(f"{each.channel:8} {each.state} in {each.sends} sends, key {each.key}")
        print(f"{len(known)} e-mail in the provider's books")


if __name__ == "__main__":
    main()
