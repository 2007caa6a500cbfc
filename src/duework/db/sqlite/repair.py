"""Texts in a SQLite database that are not UTF-8, made readable.

SQLite stores any bytes as text, and then no row beside them can be read either. Only our own
tables are mended, and of the jobs only the open ones; what cannot be read becomes U+FFFD.
"""

from __future__ import annotations

from typing import Any

import apsw

from duework.db.sqlite.tx import translated

# Table and column names here come from our own schema.
_TEXTS = """select s.name, c.name from sqlite_schema s, pragma_table_info(s.name) c
            where s.type = 'table' and s.name like 'duework~_%' escape '~' and c.type = 'TEXT'"""
_MEND = """update or ignore {table} set {column} = duework_mend(cast({column} as blob))
           where duework_mend(cast({column} as blob)) <> {column} {still_open}"""


def mend(connection: apsw.Connection) -> int:
    """Replace what is not UTF-8, in the open transaction; how many texts that were."""
    connection.create_scalar_function("duework_mend", _mended, 1, deterministic=True)
    before = connection.total_changes()
    with translated():
        for table, column in connection.execute(_TEXTS).fetchall():
            still_open = "and state = 'open'" if table == "duework_job" else ""
            connection.execute(_MEND.format(table=table, column=column, still_open=still_open))
    return connection.total_changes() - before


def _mended(*raw: Any) -> str | None:
    return raw[0].decode("utf-8", "replace") if isinstance(raw[0], bytes) else None
