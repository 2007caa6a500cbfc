"""A folder that is looked at every minute: what is put there is taken in, then moved aside.

`done/` has what was stored, `refused/` what was not, each with a text that says why. A crash between the
two leaves the file where it was, and it is found to be there already the next time.
"""

from __future__ import annotations

from pathlib import Path

from duework import Schedule
from systems.strides.athlete import find
from systems.strides.files.opening import ARCHIVE
from systems.strides.files.recording import zone_of
from systems.strides.files.refusals import FileRefused, OutsideTheArchive, TooLarge
from systems.strides.files.store import take
from systems.strides.part import part

# Sizes at the last look: a file that still grows is left alone.
_sizes: dict[str, tuple[int, int]] = {}


def begin(athlete: int, folder: Path, zone: str = "") -> Schedule:
    """Look into a folder every minute; again with the same folder changes nothing."""
    zone_of(zone)
    find(athlete)
    return part.app.schedule(
        look_into,
        every="1m",
        args=(athlete, str(folder.resolve()), zone),
        key=key_of(athlete),
        owner="strides",
        why="a folder of recordings",
    )


def key_of(athlete: int) -> str:
    return f"strides.watch:{athlete}"


@part.task(queue="strides", timeout="10m", retries=3)
def look_into(athlete: int, folder: str, zone: str) -> dict[str, int]:
    """Take in what has stopped growing."""
    counts = {"taken": 0, "refused": 0}
    for path in sorted(Path(folder).iterdir()):
        if path.name.startswith(".") or (path.is_dir() and not path.is_symlink()):
            continue
        if not path.is_symlink() and _grows(path):
            continue
        try:
            take(athlete, path.name, content_of(path), zone=zone)
        except FileRefused as why:
            counts["refused"] += 1
            _aside(path, "refused")
            said = path.parent / "refused" / f"{path.name}.txt"
            said.write_text(f"{type(why).__name__}: {why}\n")
        else:
            counts["taken"] += 1
            _aside(path, "done")
    return counts


def _grows(path: Path) -> bool:
    seen = path.stat()
    now = (seen.st_size, seen.st_mtime_ns)
    before = _sizes.pop(str(path), None)
    if before == now:
        return False
    _sizes[str(path)] = now
    return True


def content_of(path: Path) -> bytes:
    if path.is_symlink():
        raise OutsideTheArchive("it is a link: put the file itself here")
    if path.stat().st_size > ARCHIVE:
        raise TooLarge(f"a file has at most {ARCHIVE // 1_000_000} MB")
    return path.read_bytes()


def _aside(path: Path, name: str) -> None:
    to = path.parent / name
    to.mkdir(exist_ok=True)
    path.rename(to / path.name)
