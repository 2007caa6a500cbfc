"""`make pictures`: play the demo for two minutes and take a small picture of each page for the docs.

`python -m tests.support.pictures docs/pictures`. They have few colours and a bounded height: they are looked
at in a README, and kept in the repository.
"""

from __future__ import annotations

import base64
import queue
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from tests.support.chromium import browser

ROOT = Path(__file__).parents[2]
SECONDS = 240
LARGEST = 120_000
HEIGHTS = {1280: 1100, 390: 1500}
# What is taken when the demo has printed this, in the order in which it does.
CUES = {
    "tenants posted": {"mailroom": "/mailroom/"},
    "activities stored": {
        "overview": "/",
        "jobs": "/jobs",
        "job": "/jobs?phase=failed",
        "demo": "/demo/",
        "failed": "/failed",
        "queues": "/queues",
        "schedules": "/schedules",
        "batches": "/batches",
        "batch": "/batches",
        "chain": "/chains",
        "deliveries": "/deliveries",
        "outbox": "/outboxes",
        "paces": "/paces",
        "objects": "/objects",
        "workers": "/workers",
        "audit": "/audit",
        "doctor": "/doctor",
        "reminders": "/reminders/",
        "streaks": "/streaks/people/user-001",
        "strides": "/strides/athletes/5001",
    },
    "debated by": {"scout": "/scout/"},
}
# Of a list, the first that it leads to is taken.
OPENED = {"job": "#rows a.id", "batch": "#batches .lead a", "chain": "#chains .lead a"}
OPENED |= {"outbox": "#outboxes .lead a"}
FOUR = {"overview", "demo"}
RENDERINGS = [(1280, "light", ""), (1280, "dark", "-dark"), (390, "light", "-390")]
RENDERINGS += [(390, "dark", "-390-dark")]


class Demo:
    """A demo that plays; what it prints is read, so that it never waits for us."""

    def __init__(self, folder: str) -> None:
        words = [sys.executable, "-m", "systems.demo", "--port", "0", "--folder", folder]
        self._process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def until(self, pattern: str) -> str:
        """What it printed that looks like this."""
        while line := self._lines.get(timeout=SECONDS):
            sys.stdout.write(line)
            if found := re.search(pattern, line):
                return found[0]
        raise RuntimeError(f"the demo ended before it said {pattern!r}")

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()


@contextmanager
def playing() -> Iterator[Demo]:
    with tempfile.TemporaryDirectory() as folder:
        demo = Demo(folder)
        try:
            yield demo
        finally:
            demo.stop()


class Painter:
    """Signed in; takes pictures of pages into a folder."""

    def __init__(self, chromium: Browser, link: str, folder: Path) -> None:
        self._base = link.partition("/login")[0]
        self._folder = folder
        context = chromium.new_context(reduced_motion="reduce", timezone_id="UTC", locale="en-GB")
        self._page, self._easel = context.new_page(), chromium.new_page()
        self._page.goto(link)
        self._page.get_by_role("button", name="Sign in").click()
        self._page.wait_for_selector("h1:has-text('Overview')")

    def paint(self, name: str, path: str) -> None:
        for width, theme, suffix in RENDERINGS[: 4 if name in FOUR else 1]:
            self._page.set_viewport_size({"width": width, "height": 800})
            self._page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
            self._page.goto(self._base + path)
            if name in OPENED and (first := self._page.locator(OPENED[name]).first).count():
                first.click()
                self._page.wait_for_load_state()
            file = self._folder / f"{name}{suffix}.png"
            file.write_bytes(small(self._easel, shot(self._page, width)))
            sys.stdout.write(f"{file.name:<24}{file.stat().st_size // 1000:>5} kB\n")


def shot(page: Page, width: int) -> bytes:
    tall = int(page.evaluate("() => document.documentElement.scrollHeight"))
    page.set_viewport_size({"width": width, "height": max(600, min(tall, HEIGHTS[width]))})
    return page.screenshot()


def small(painter: Page, png: bytes) -> bytes:
    """The same with so few colours that it is small."""
    for most in (256, 128, 64, 32, 16):
        text = base64.b64encode(png).decode()
        found: dict[str, Any] = painter.evaluate(_QUANTISE, {"png": text, "most": most})
        made = _encode(found)
        if len(made) < LARGEST:
            return made
    raise RuntimeError(f"a picture is larger than {LARGEST} bytes with 16 colours")


# The most frequent colours, after one for each part of the colour space, so that a small green light stays
# green; every other one becomes the nearest of them.
_QUANTISE = """async ({png, most}) => {
  const raw = Uint8Array.from(atob(png), (c) => c.charCodeAt(0));
  const bitmap = await createImageBitmap(new Blob([raw], {type: "image/png"}));
  const {width, height} = bitmap, canvas = new OffscreenCanvas(width, height);
  const pen = canvas.getContext("2d"); pen.drawImage(bitmap, 0, 0);
  const data = pen.getImageData(0, 0, width, height).data, seen = new Map();
  for (let i = 0; i < data.length; i += 4) {
    const key = data[i] << 16 | data[i + 1] << 8 | data[i + 2];
    seen.set(key, (seen.get(key) || 0) + 1);
  }
  const ranked = [...seen].sort((a, b) => b[1] - a[1]).map((each) => each[0]), parts = new Map();
  for (const key of ranked) if (!parts.has(key & 0xe0e0e0)) parts.set(key & 0xe0e0e0, key);
  const palette = [...new Set([...[...parts.values()].slice(0, most / 2), ...ranked])].slice(0, most);
  const places = new Map(palette.map((key, place) => [key, place]));
  const nearest = (key) => {
    let best = 0, least = Infinity;
    palette.forEach((other, place) => {
      const r = (key >> 16) - (other >> 16), g = (key >> 8 & 255) - (other >> 8 & 255);
      const b = (key & 255) - (other & 255), far = r * r + g * g + b * b;
      if (far < least) { least = far; best = place; }
    });
    places.set(key, best);
    return best;
  };
  const cells = new Uint8Array(width * height);
  for (let i = 0, at = 0; i < data.length; i += 4, at += 1) {
    const key = data[i] << 16 | data[i + 1] << 8 | data[i + 2];
    cells[at] = places.get(key) ?? nearest(key);
  }
  let text = "";
  for (let at = 0; at < cells.length; at += 32768) {
    text += String.fromCharCode(...cells.subarray(at, at + 32768));
  }
  return {width, height, palette, cells: btoa(text)};
}"""


def _encode(picture: dict[str, Any]) -> bytes:
    """A PNG with a palette."""
    width, height = picture["width"], picture["height"]
    cells = base64.b64decode(picture["cells"])
    rows = b"".join(b"\0" + cells[at : at + width] for at in range(0, len(cells), width))
    colours = b"".join(colour.to_bytes(3, "big") for colour in picture["palette"])
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = [
        (b"IHDR", header),
        (b"PLTE", colours),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*each) for each in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with playing() as demo, browser() as chromium:
        painter = Painter(chromium, demo.until(r"http://\S+/login\?code=\S+"), folder)
        for cue, pages in CUES.items():
            demo.until(cue)
            for name, path in pages.items():
                painter.paint(name, path)


if __name__ == "__main__":
    main()
