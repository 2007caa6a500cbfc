"""Whether others have written to a file, as one of our connections sees it: its own commits do not count."""

from __future__ import annotations

import apsw


class ForeignCommits:
    """Compares the `data_version` of one connection with what it was at the last look."""

    def __init__(self) -> None:
        self._seen = 0

    def look(self, connection: apsw.Connection) -> bool:
        """Whether it has changed; a hint, so what cannot be asked counts as a change."""
        try:
            version = int(connection.pragma("data_version"))
        except apsw.Error:
            return True
        changed, self._seen = version != self._seen, version
        return changed
