"""GPX and TCX: XML that is read as a stream, without document types, to a few sums."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, tzinfo
from xml.parsers import expat

from systems.strides.files.recording import MOVES, Recording, metres, moment
from systems.strides.files.refusals import EntitiesRefused, NotUnderstood

SPORTS = {
    "running": "Run",
    "run": "Run",
    "race": "Run",
    "trail_running": "TrailRun",
    "biking": "Ride",
    "cycling": "Ride",
    "ride": "Ride",
    "walking": "Walk",
    "hiking": "Hike",
    "swimming": "Swim",
    "other": "Workout",
}
DEEPEST = 64


def read(content: bytes, zone: tzinfo | None) -> Recording:
    """A recording from GPX or TCX, by its outermost element."""
    made = _Reader(zone)
    _feed(content, made.opened, made.closed)
    return made.recording()


Opened = Callable[[str, dict[str, str]], None]


def _feed(content: bytes, opened: Opened, closed: Callable[[str, str], None]) -> None:
    parser = expat.ParserCreate()
    texts: list[list[str]] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(texts) > DEEPEST:
            raise NotUnderstood("its elements stand too deep in one another")
        texts.append([])
        opened(name.rpartition(":")[2], attributes)

    def said(text: str) -> None:
        texts[-1].append(text)

    def refuse(*_: object) -> None:
        raise EntitiesRefused("it has a document type or entities; recordings have none")

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda name: closed(
        name.rpartition(":")[2], "".join(texts.pop()).strip()
    )
    parser.CharacterDataHandler = said
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(content, True)  # noqa: FBT003 - it is the last piece
    except expat.ExpatError as error:
        raise NotUnderstood(f"it is no XML: {error}") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise NotUnderstood(f"{text[:40]!r} is no number") from None


class _Reader:
    """Sums over the points of a file, as its elements are opened and closed."""

    def __init__(self, zone: tzinfo | None) -> None:
        self._zone = zone
        self._path: list[str] = []
        self._name = self._sport = ""
        self._first: datetime | None = None
        self._last: datetime | None = None
        self._place: tuple[float, float] | None = None
        self._height: float | None = None
        # Of the point that is open.
        self._point: dict[str, float] = {}
        self._time: datetime | None = None
        self._walked = self._moved = self._climbed = 0.0
        self._lap_metres = self._lap_seconds = 0.0
        self._beats: list[float] = []

    def opened(self, name: str, attributes: dict[str, str]) -> None:
        if not self._path and name not in ("gpx", "TrainingCenterDatabase"):
            raise NotUnderstood(f"it is XML, but neither GPX nor TCX: <{name[:40]}>")
        self._path.append(name)
        if name == "trkpt":
            self._point = {"lat": _number(attributes.get("lat", ""))}
            self._point["lon"] = _number(attributes.get("lon", ""))
        elif name == "Trackpoint":
            self._point = {}
        elif name == "Activity":
            self._sport = attributes.get("Sport", "")

    def closed(self, name: str, text: str) -> None:
        self._path.pop()
        above = self._path[-1] if self._path else ""
        if name in ("trkpt", "Trackpoint"):
            self._end_of_point()
        elif above in ("trkpt", "Trackpoint", "Position", "HeartRateBpm") or name == "hr":
            self._in_point(name, above, text)
        elif above == "trk" and name in ("name", "type"):
            self._name, self._sport = (text, self._sport) if name == "name" else (self._name, text)
        elif above == "Lap" and name == "DistanceMeters":
            self._lap_metres += _number(text)
        elif above == "Lap" and name == "TotalTimeSeconds":
            self._lap_seconds += _number(text)

    def _in_point(self, name: str, above: str, text: str) -> None:
        if name.lower() == "time":
            self._time = moment(text, self._zone)
        elif name in ("ele", "AltitudeMeters"):
            self._point["height"] = _number(text)
        elif name == "LatitudeDegrees":
            self._point["lat"] = _number(text)
        elif name == "LongitudeDegrees":
            self._point["lon"] = _number(text)
        elif name == "hr" or (above == "HeartRateBpm" and name == "Value"):
            self._beats.append(_number(text))

    def _end_of_point(self) -> None:
        seconds = 0.0
        if self._time is not None:
            seconds = (self._time - self._last).total_seconds() if self._last else 0.0
            self._first, self._last = self._first or self._time, self._time
        if "lat" in self._point and "lon" in self._point:
            here = (self._point["lat"], self._point["lon"])
            step = metres(self._place, here) if self._place else 0.0
            self._walked, self._place = self._walked + step, here
            if seconds > 0 and step / seconds >= MOVES:
                self._moved += seconds
        if (height := self._point.get("height")) is not None:
            rise = height - self._height if self._height is not None else 0.0
            self._climbed, self._height = self._climbed + max(0.0, rise), height
        self._time = None

    def recording(self) -> Recording:
        if self._first is None or self._last is None:
            raise NotUnderstood("it has no point with a time")
        elapsed = max((self._last - self._first).total_seconds(), self._lap_seconds)
        return Recording(
            start=self._first,
            name=self._name,
            sport=SPORTS.get(self._sport.lower(), "Run" if not self._sport else "Workout"),
            distance=self._lap_metres or self._walked,
            elapsed=elapsed,
            moving=self._lap_seconds or self._moved,
            climbed=self._climbed if self._height is not None else None,
            average_heartrate=sum(self._beats) / len(self._beats) if self._beats else None,
            max_heartrate=max(self._beats) if self._beats else None,
        )
