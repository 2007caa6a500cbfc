"""A page is fetched once, and found again for thirty days: a cache in a folder, with an end."""

import tempfile
from pathlib import Path

from duework import App

folder = tempfile.TemporaryDirectory()
app = App(f"sqlite:///{Path(folder.name) / 'blobs.db'}")
counted = {"from the cache": 0, "fetched": 0}


def fetch(number: int) -> str:
    return f"<h1>app {number}</h1>"


def page(number: int) -> str:
    key = f"app/{number}/page.html"
    if (known := app.blobs.get(key, max_age="30d")) is not None:
        counted["from the cache"] += 1
        return known.decode()
    counted["fetched"] += 1
    html = fetch(number)
    app.blobs.put(key, html, ttl="30d", content_type="text/html")
    return html


if __name__ == "__main__":
    assert page(42) == page(42)
    for blob in app.blobs.list("app/"):
        print(f"{blob.key}: {blob.size} bytes of {blob.content_type}")
    print(", ".join(f"{what}: {count}" for what, count in counted.items()))
    app.close()
    folder.cleanup()
