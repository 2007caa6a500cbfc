"""One event and three subscribers: one of single events, one of bulks, one that fails and is redriven."""

from duework import App, Event
from duework.testing import Harness

app = App()
broken = True


@app.on("order-shipped")
async def mail(event: Event) -> None:
    print(f"mail to the buyer of order {event.payload['order']}")


@app.on("order-shipped", bulk=10, within="5s")
async def count(events: list[Event]) -> None:
    print(f"counted {len(events)} orders")


@app.on("order-shipped", retries=0)
async def post(event: Event) -> None:
    if broken:
        raise ConnectionError("the other side is away")
    print(f"posted order {event.payload['order']}")


def main() -> None:
    global broken  # noqa: PLW0603 - the other side comes back
    with Harness(app) as h:
        for order in (1, 2, 3):
            app.publish("order-shipped", {"order": order})
        h.advance("5s")
        print(f"{len(post.failed())} failed")

        broken = False
        print(f"{post.redrive()} redriven")
        h.drain()


if __name__ == "__main__":
    main()
