"""What is kept has an end: files, tries and reports go some time after the messages that they belong to."""

from __future__ import annotations

from systems.mailroom import blobs
from systems.mailroom.part import part

DAY = 86_400_000
# A message that nobody can tell of may wait for somebody: what is known of it waits longer.
LONGER = 30 * DAY


@part.task(cron="41 3 * * *", keep=0, why="files, tries and reports of messages that are gone")
def prune() -> None:
    """Delete what is older than messages are kept."""
    before = part.app.now() - part.settings.keep_days * DAY
    blobs.forget_before(before)
    with part.app.transaction() as tx:
        tx.write("delete from mailroom_try where last_at < :before", before=before - LONGER)
        tx.write("delete from mailroom_event where at < :before", before=before - LONGER)
