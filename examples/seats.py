"""One object per flight, as in the article on durable objects: unknown seats, occupied seats, moving."""

import tempfile
from pathlib import Path

from duework import App, DurableObject


class NoSuchSeat(Exception):
    """The flight has no such seat."""


class Occupied(Exception):
    """Somebody else sits there."""


class Flight(DurableObject):
    def open(self) -> None:
        self.sql("create table if not exists seat (id text primary key, occupant text unique)")

    def fit_out(self, rows: int) -> None:
        for row in range(1, rows + 1):
            for place in "ABCDEF":
                self.sql("insert or ignore into seat (id) values (:seat)", seat=f"{row}{place}")

    def assign(self, seat: str, occupant: str) -> None:
        # Between what is read and what is written nobody else can come: no lock, no race.
        found = self.sql("select occupant from seat where id = :seat", seat=seat)
        if not found:
            raise NoSuchSeat(f"No such seat: {seat}")
        if found[0].occupant not in (None, occupant):
            raise Occupied(f"Seat is occupied: {seat}")
        self.sql("update seat set occupant = null where occupant = :who", who=occupant)
        self.sql("update seat set occupant = :who where id = :seat", who=occupant, seat=seat)

    def taken(self) -> dict[str, str]:
        rows = self.sql("select id, occupant from seat where occupant is not null order by id")
        return {row.id: row.occupant for row in rows}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        app = App(f"sqlite:///{Path(folder) / 'flights.db'}")
        flight = app.object(Flight, "BA117")
        flight.fit_out(20).result()
        for seat, who in (("12A", "ada"), ("12A", "bob"), ("99Z", "bob"), ("12B", "ada")):
            try:
                flight.assign(seat, who).result()
            except (NoSuchSeat, Occupied) as error:
                print(error)
        print("seats:", flight.taken().result())
        flight.delete()
        app.close()


if __name__ == "__main__":
    main()
