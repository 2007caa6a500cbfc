"""The article's own example: one object per flight."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from duework import App
from duework.testing import Harness

EXAMPLE = Path(__file__).parents[3] / "examples" / "seats.py"


@pytest.fixture
def example() -> Any:
    spec = importlib.util.spec_from_file_location("seats_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.rows("002-02", "002-03", "002-04")
def test_seats_are_assigned_refused_and_moved_in_the_articles_words(example: Any) -> None:
    app = App("sqlite://")
    with Harness(app):
        flight = app.object(example.Flight, "BA117")
        flight.fit_out(20).result()
        flight.assign("12A", "ada").result()
        with pytest.raises(example.Occupied, match=r"^Seat is occupied: 12A$"):
            flight.assign("12A", "bob").result()
        with pytest.raises(example.NoSuchSeat, match=r"^No such seat: 99Z$"):
            flight.assign("99Z", "bob").result()
        flight.assign("12B", "ada").result()
        flight.assign("12A", "bob").result()
        assert flight.taken().result() == {"12A": "bob", "12B": "ada"}
        assert flight.delete()
        assert list(app.all_objects()) == []
