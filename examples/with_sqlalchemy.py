"""SQLAlchemy's rows and the jobs they need in one commit, on SQLite and on PostgreSQL (by DUEWORK_URL).

On SQLite the process with the ORM does nothing with the App but enqueue in its own transactions, and the
worker is a process of its own: two SQLite libraries on one file in one process break each other's locks.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from duework import App, Run

URL = os.environ.get("DUEWORK_URL", "sqlite:///shop.db")
app = App(URL)
# Connects at its first use, so the worker's process never does.
engine = create_engine(URL.replace("postgresql://", "postgresql+psycopg://"))


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    total: Mapped[int]
    paid: Mapped[int | None]


@app.task(retries=3)
def charge(run: Run, order: int) -> str:
    # Inside a job it is run.write that is one commit with the outcome.
    run.write("update orders set paid = total where id = :id", id=order)
    return f"charged order {order}"


def place(number: int, total: int) -> None:
    """What a request does."""
    with Session(engine) as session, session.begin():
        session.add(Order(id=number, total=total))
        session.flush()
        charge.using(connection=session).enqueue(number)
        if total < 0:
            raise ValueError(f"order {number} is refused: neither it nor its job exists")


def orders() -> list[tuple[int, int | None]]:
    with Session(engine) as session:
        return [(order.id, order.paid) for order in session.scalars(select(Order))]


def duework(*words: str) -> subprocess.Popen[bytes]:
    """A command, as in a shell, in a process of its own."""
    command = [sys.executable, "-m", "duework", *words]
    return subprocess.Popen(command, cwd=Path(__file__).parent)  # noqa: S603 - our own words


def main() -> None:
    duework("db", "migrate", "--create", "--app", "with_sqlalchemy:app").wait()
    Base.metadata.create_all(engine)
    place(7, total=12)
    try:
        place(8, total=-5)
    except ValueError as error:
        print(error)
    worker = duework("run", "with_sqlalchemy:app", "--no-view", "--log-level", "warning")
    while (7, 12) not in orders():
        time.sleep(0.05)
    worker.terminate()
    worker.wait()
    print("orders:", orders())
    engine.dispose()


if __name__ == "__main__":
    if "DUEWORK_URL" in os.environ:
        main()
    else:
        with TemporaryDirectory() as folder:
            url = f"sqlite:///{folder}/shop.db"
            again = [sys.executable, __file__]
            subprocess.run(again, env=os.environ | {"DUEWORK_URL": url}, check=True)  # noqa: S603
