"""`make pictures`: play the demo for two minutes and take a small picture of each page for the docs.

`python -m tests.support.pictures docs/pictures`. They have few colours and a bounded height: they are looked
at in a README, and kept in the repository.
"""

from __future__ import annotations

import base64
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
# By what the demo prints when it has shown enough.
ENOUGH = "activities stored"
PAGES = {
    "overview": "/",
    "jobs": "/jobs",
    "job": "/jobs?phase=failed",
    "demo": "/demo/",
    "mailroom": "/mailroom/",
    "reminders": "/reminders/",
    "streaks": "/streaks/people/user-001",
    "strides": "/strides/athletes/5001",
}
FOUR = {"overview", "demo"}
RENDERINGS = [(1280, "light", ""), (1280, "dark", "-dark"), (390, "light", "-390")]
RENDERINGS += [(390, "dark", "-390-dark")]


@contextmanager
def playing() -> Iterator[str]:
    """The link to a demo that has been played for long enough."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "systems.demo", "--port", "0", "--folder", folder]
        demo = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        late = threading.Timer(SECONDS, demo.kill)
        late.start()
        try:
            yield _played(demo)
        finally:
            late.cancel()
            demo.send_signal(signal.SIGTERM)
            demo.communicate()


def _played(demo: subprocess.Popen[str]) -> str:
    assert demo.stdout is not None
    link = ""
    for line in demo.stdout:
        sys.stdout.write(line)
        if found := re.search(r"http://\S+/login\?code=\S+", line):
            link = found[0]
        if ENOUGH in line:
            # It is read on, so that what the demo prints never stops it.
            threading.Thread(target=demo.stdout.read, daemon=True).start()
            return link
    raise RuntimeError("the demo ended before there was enough to see")


def take(chromium: Browser, link: str, folder: Path) -> None:
    context = chromium.new_context(reduced_motion="reduce", timezone_id="UTC", locale="en-GB")
    page, painter = context.new_page(), chromium.new_page()
    page.goto(link)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_selector("h1:has-text('Overview')")
    base = link.partition("/login")[0]
    for name, path in PAGES.items():
        for width, theme, suffix in RENDERINGS[: 4 if name in FOUR else 1]:
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
            page.goto(base + path)
            if name == "job" and (first := page.locator("#rows a.id").first).count():
                first.click()
                page.wait_for_selector("#timeline")
            file = folder / f"{name}{suffix}.png"
            file.write_bytes(small(painter, shot(page, width)))
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
    with playing() as link, browser() as chromium:
        take(chromium, link, folder)


if __name__ == "__main__":
    main()
