"""An object per flight: no seat is sold twice, whoever asks, and holds end by an alarm."""

import asyncio
import tempfile
from pathlib import Path

from duework import App, DurableObject

folder = tempfile.TemporaryDirectory()
app = App(f"sqlite:///{Path(folder.name) / 'flights.db'}")
rung = asyncio.Event()


@app.task
async def receipt(seat: str, occupant: str) -> None:
    print(f"receipt: {seat} for {occupant}")


class Taken(Exception):
    """Somebody was quicker."""


class Flight(DurableObject):
    def open(self) -> None:
        self.sql("create table if not exists seat (id text primary key, occupant text, paid int)")

    def hold(self, seat: str, occupant: str) -> None:
        if self.sql("select 1 from seat where id = :seat", seat=seat):
            raise Taken(seat)
        self.sql("insert into seat values (:seat, :who, 0)", seat=seat, who=occupant)
        self.set_alarm("300ms")

    def pay(self, seat: str) -> None:
        (row,) = self.sql("update seat set paid = 1 where id = :seat returning *", seat=seat)
        self.enqueue(receipt, seat, row.occupant)

    def release(self) -> list[str]:
        return [row.id for row in self.sql("delete from seat where paid = 0 returning id")]

    def seats(self) -> dict[str, str]:
        return {row.id: row.occupant for row in self.sql("select * from seat order by id")}

    async def alarm(self) -> None:
        print("released:", await self.run(self.release))
        rung.set()


async def main() -> None:
    flight = app.object(Flight, "BA117")
    calls = [flight.hold("12A", who) for who in ("ada", "bob", "cid")]
    ended = await asyncio.gather(*calls, return_exceptions=True)
    print("refused:", sum(isinstance(each, Taken) for each in ended))
    await flight.hold("12B", "dan")
    await flight.pay("12A")
    async with app.running():
        for job in app.jobs(task="receipt"):
            await job.await_("10s")
        await rung.wait()
    print("left:", sorted(await flight.seats()))


if __name__ == "__main__":
    asyncio.run(main())
    app.close()
    folder.cleanup()
