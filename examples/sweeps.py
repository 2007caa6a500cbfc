"""A table with rows that are not processed yet, a bad one among them, and a sweep that gets through."""

from duework import App, Run, Tick
from duework.testing import Harness

app = App()


def tables(app: App) -> None:
    with app.transaction() as tx:
        tx.write("create table track (id bigint primary key, enriched_at bigint)")
        rows = [{"id": each} for each in range(20)]
        tx.write("insert into track (id) values (:id)", rows=rows)


@app.sweep(
    "select id from track where enriched_at is null order by id", parallel=5, pace=Tick(10, "10s")
)
async def enrich(run: Run, id: int) -> None:  # noqa: A002 - the column
    if id == 0:
        raise ValueError("its page is empty")
    run.write("update track set enriched_at = :now where id = :id", now=run.now, id=id)


def main() -> None:
    with Harness(app, setup=tables) as h:
        enrich.start()
        h.advance("25s")
        status = enrich.status()
        print(f"{status.done} done, {status.waiting} put off")
        for item in enrich.failing():
            print(f"row {item.key} waits for another try after {item.failures} failure")


if __name__ == "__main__":
    main()
