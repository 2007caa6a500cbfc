"""A provider that accepts, loses a reply, throttles and sends later; the outbox keeps count."""

from duework import Accepted, App, Outbox, Pending, Rejected, Sent, Throttled, facts
from duework.testing import Harness

app = App()


class Email(Outbox[str]):
    remembers_keys = "1d"

    def __init__(self) -> None:
        self.books: dict[str, str] = {}
        self.calls = 0

    async def submit(self, message: str, key: str) -> Accepted | Rejected:
        self.calls += 1
        if self.calls == 2:
            raise Throttled("30s")
        if message == "spam":
            return Rejected("blocked")
        self.books.setdefault(key, message)
        if self.calls == 1:
            raise ConnectionResetError("the reply was lost")
        return Accepted(key)

    async def poll(self, handle: str, message: str) -> Pending | Sent:  # noqa: ARG002 - not needed
        return Sent() if handle in self.books else Pending()


provider = Email()
mail = app.outbox("email", provider)


def tell(fact: facts.Fact) -> None:
    if isinstance(fact, facts.MessageMoved):
        print(f"message {fact.id} is {fact.state}" + (f": {fact.error}" if fact.error else ""))


def main() -> None:
    app.on_fact(tell)
    with Harness(app) as h:
        mail.enqueue_many(["hello ada", "hello bob", "spam"])
        h.advance("10m")

        print({state: count for state, count in mail.counts().items() if count})
        print(f"{len(provider.books)} e-mails in the provider's books")


if __name__ == "__main__":
    main()
