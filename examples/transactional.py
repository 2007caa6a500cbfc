"""An order and the jobs it needs are one commit; so are a job's outcome and the rows it writes."""

from duework import App, Run, Transaction
from duework.testing import Harness

app = App()


@app.task
def charge(run: Run, order: int) -> str:
    total = run.read("select total from orders where id = :id", id=order)[0].total
    # Buffered: the row, the mail and "done" are committed together, or none of them is.
    run.write("update orders set paid = :paid where id = :id", paid=total, id=order)
    run.enqueue(mail, order)
    return f"charged {total}"


@app.task
def mail(order: int) -> str:
    return f"receipt for order {order}"


@charge.settled
def log(tx: Transaction, job: object, outcome: str) -> None:
    tx.write("insert into log(line) values (:line)", line=f"charge: {outcome}")


def tables() -> None:
    with app.transaction() as tx:
        tx.write("create table orders(id integer primary key, total integer, paid integer)")
        tx.write("create table log(line text)")


def main() -> None:
    with Harness(app, setup=tables) as h:
        with app.transaction() as tx:
            tx.write("insert into orders(id, total) values (:id, :total)", id=7, total=12)
            tx.enqueue(charge, 7)
        try:
            with app.transaction() as tx:
                tx.write("insert into orders(id, total) values (:id, :total)", id=8, total=5)
                tx.enqueue(charge, 8)
                raise RuntimeError("the request failed")
        except RuntimeError as error:
            print(f"{error}: neither order 8 nor its job exists")
        h.drain()

        print("orders:", [tuple(row) for row in app.read("select id, total, paid from orders")])
        print("log:   ", [row.line for row in app.read("select line from log")])
        print("jobs:  ", [(job.task, job.state, job.result) for job in reversed(app.jobs())])


if __name__ == "__main__":
    main()
