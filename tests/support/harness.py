"""A harness for tests: on a database that is there already."""

from __future__ import annotations

from typing import Any

from duework import App
from duework.testing import Harness


class HarnessOn(Harness):
    """A harness on a database that is there already."""

    def __init__(self, app: App, address: str, **options: Any) -> None:
        super().__init__(app, **options)
        self._address = address

    def _temporary_url(self) -> str:
        return self._address
