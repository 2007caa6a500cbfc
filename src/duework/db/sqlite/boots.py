"""Boots of the machine, counted in a SQLite file.

With `durability="process"` a commit may be undone by a loss of power, and by nothing else: then the machine
boots anew. So whatever was undone belongs to an earlier epoch than this one.
"""

from __future__ import annotations

import apsw

_GET = "select value from duework_meta where name = ?"
_SET = """insert into duework_meta (name, value) values (?, ?)
          on conflict (name) do update set value = excluded.value"""


def current(connection: apsw.Connection, boot: str) -> int:
    """The number of this boot, in the transaction that was begun; it is written down when this returns.

    One that cannot be told from others is another one each time.
    """
    found = {name: connection.execute(_GET, (name,)).fetchone() for name in ("boot", "epoch")}
    epoch = int(found["epoch"][0]) if found["epoch"] else 0
    if boot and found["boot"] == (boot,):
        connection.execute("rollback")
        return epoch
    # Before the first boot that was written down, nothing was ever undone.
    epoch += found["boot"] is not None
    connection.executemany(_SET, [("boot", boot), ("epoch", str(epoch))])
    connection.execute("commit")
    return epoch
