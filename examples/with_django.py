"""Django's rows and the jobs they need in one commit, on SQLite and on PostgreSQL (by DUEWORK_URL).

On SQLite the process with the ORM does nothing with the App but enqueue inside `atomic()`, and the worker
is a process of its own: two SQLite libraries on one file in one process break each other's locks.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.db import connection, models, transaction

from duework import App, Run

URL = os.environ.get("DUEWORK_URL", "sqlite:///shop.db")
app = App(URL)


def database() -> dict[str, object]:
    """The same database for Django."""
    parts = urlsplit(URL)
    if parts.scheme == "sqlite":
        # Else a transaction that reads before it writes fails when another process has written meanwhile.
        options = {"transaction_mode": "IMMEDIATE"}
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": parts.path[1:],
            "OPTIONS": options,
        }
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path[1:],
        "HOST": parts.hostname,
        "PORT": parts.port,
        "USER": parts.username,
        "PASSWORD": parts.password,
    }


settings.configure(DATABASES={"default": database()}, INSTALLED_APPS=[])
django.setup()


class Order(models.Model):
    id = models.IntegerField(primary_key=True)
    total = models.IntegerField()
    paid = models.IntegerField(null=True)

    class Meta:
        """The table that the task names."""

        app_label = "shop"
        db_table = "orders"

    def __str__(self) -> str:
        return f"order {self.pk}"


@app.task(retries=3)
def charge(run: Run, order: int) -> str:
    # Inside a job it is run.write that is one commit with the outcome.
    run.write("update orders set paid = total where id = :id", id=order)
    return f"charged order {order}"


def place(number: int, total: int) -> None:
    """What a view does."""
    with transaction.atomic():
        Order.objects.create(id=number, total=total)
        charge.using(connection=connection).enqueue(number)
        if total < 0:
            raise ValueError(f"order {number} is refused: neither it nor its job exists")


def orders() -> list[tuple[int, int | None]]:
    return list(Order.objects.order_by("id").values_list("id", "paid"))


def duework(*words: str) -> subprocess.Popen[bytes]:
    """A command, as in a shell, in a process of its own."""
    command = [sys.executable, "-m", "duework", *words]
    return subprocess.Popen(command, cwd=Path(__file__).parent)  # noqa: S603 - our own words


def main() -> None:
    duework("db", "migrate", "--create", "--app", "with_django:app").wait()
    with connection.schema_editor() as editor:
        editor.create_model(Order)
    place(7, total=12)
    try:
        place(8, total=-5)
    except ValueError as error:
        print(error)
    worker = duework("run", "with_django:app", "--no-view", "--log-level", "warning")
    while (7, 12) not in orders():
        time.sleep(0.05)
    worker.terminate()
    worker.wait()
    print("orders:", orders())
    connection.close()


if __name__ == "__main__":
    if "DUEWORK_URL" in os.environ:
        main()
    else:
        with TemporaryDirectory() as folder:
            url = f"sqlite:///{folder}/shop.db"
            again = [sys.executable, __file__]
            subprocess.run(again, env=os.environ | {"DUEWORK_URL": url}, check=True)  # noqa: S603
