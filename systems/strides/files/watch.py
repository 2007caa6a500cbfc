"""A folder that is looked at every minute: what is put there is taken in, then moved aside.

`done/` has what was stored, `refused/` what was not, each with a text that says why. A crash between the
two leaves the file where it was, and it is found to be there already the next time.
"""

from __future__ import annotations

import logging
from pathlib import Path

from duework import NotFound, Schedule
from systems.strides.athlete import find
from systems.strides.files.opening import ARCHIVE
from systems.strides.files.recording import zone_of
from systems.strides.files.refusals import FileRefused, OutsideTheArchive, TooLarge
from systems.strides.files.store import take
from systems.strides.part import part

log = logging.getLogger("duework.strides")
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
        if path.name.startswith(".") or not (path.is_file() or path.is_symlink()):
            continue
        try:
            if not path.is_symlink() and _grows(path):
                continue
            counts[_taken_in(athlete, path, zone)] += 1
        except OSError as error:
            # It stays where it is; those behind it do not wait for it.
            log.warning("%s cannot be taken in: %s", path.name, error)
        except NotFound:
            # The athlete is gone: nobody looks into this folder any more.
            part.app.get_schedule(key_of(athlete)).delete()
            break
    return counts


def _taken_in(athlete: int, path: Path, zone: str) -> str:
    try:
        take(athlete, path.name, content_of(path), zone=zone)
    except FileRefused as why:
        aside = _aside(path, "refused")
        aside.with_name(f"{aside.name}.txt").write_text(f"{type(why).__name__}: {why}\n")
        return "refused"
    _aside(path, "done")
    return "taken"


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


def _aside(path: Path, name: str) -> Path:
    """Put it into a folder beside; another file of that name, which is there, stays."""
    to = path.parent / name
    to.mkdir(exist_ok=True)
    names = (path.name, *(f"{path.stem}-{number}{path.suffix}" for number in range(2, 10_000)))
    free = next(each for each in names if not (to / each).exists())
    return path.rename(to / free)
