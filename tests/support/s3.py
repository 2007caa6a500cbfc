"""A small server on loopback that speaks S3, as far as blobs need it: objects by path, uploads in parts.

A request has to be signed, by whomever; nothing is on a disk. `broken` makes it answer with errors.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
}


@dataclass
class Bucket:
    """What was put, and how it was asked for; parts of uploads that are not complete."""

    objects: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    broken: bool = False
    port: int = 0

    @property
    def environment(self) -> dict[str, str]:
        return {**ENVIRONMENT, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}"}


class Handler(BaseHTTPRequestHandler):
    """One connection; the path is `/bucket/key`."""

    protocol_version = "HTTP/1.1"
    bucket: Bucket
    numbers = itertools.count(1)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is above
        """Nothing is printed."""

    def _asked(self) -> tuple[str, dict[str, str], bytes]:
        address = urlsplit(self.path)
        query = {k: v[0] for k, v in parse_qs(address.query, keep_blank_values=True).items()}
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        key = unquote(address.path).lstrip("/").partition("/")[2]
        self.bucket.asked.append(f"{self.command} {key}")
        return key, query, body

    def _refused(self) -> bool:
        if self.bucket.broken:
            self._answer(503, b"<Error><Code>SlowDown</Code></Error>")
        elif not str(self.headers.get("authorization", "")).startswith("AWS4-HMAC-SHA256 "):
            self._answer(403, b"<Error><Code>AccessDenied</Code></Error>")
        else:
            return False
        return True

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_PUT(self) -> None:
        key, query, body = self._asked()
        if self._refused():
            return
        if "uploadId" in query:
            self.bucket.uploads[query["uploadId"]][int(query["partNumber"])] = body
        else:
            self.bucket.objects[key] = body
        self._answer(200, ETag=_etag(body))

    def do_POST(self) -> None:
        key, query, asked = self._asked()
        if self._refused():
            return
        if "delete" in query:
            self._delete_all(re.findall(r"<Key>(.*?)</Key>", asked.decode()))
            return
        if "uploads" in query:
            upload = f"upload-{next(self.numbers)}"
            self.bucket.uploads[upload] = {}
            text = f"<UploadId>{upload}</UploadId>"
            self._xml("InitiateMultipartUploadResult", f"<Key>{escape(key)}</Key>{text}")
            return
        parts = self.bucket.uploads.pop(query["uploadId"])
        body = self.bucket.objects[key] = b"".join(parts[number] for number in sorted(parts))
        text = f"<Key>{escape(key)}</Key><ETag>{escape(_etag(body))}</ETag>"
        self._xml("CompleteMultipartUploadResult", text)

    def do_GET(self) -> None:
        key, _, _ = self._asked()
        if self._refused():
            return
        if not key:
            self._listed()
        elif key not in self.bucket.objects:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            body = self.bucket.objects[key]
            when = "Wed, 18 Nov 2026 00:00:00 GMT"
            self._answer(200, body, ETag=_etag(body), Last_Modified=when)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        key, query, _ = self._asked()
        if not self._refused():
            if "uploadId" in query:
                self.bucket.uploads.pop(query["uploadId"], None)
            else:
                self.bucket.objects.pop(key, None)
            self._answer(204)

    def _delete_all(self, keys: list[str]) -> None:
        for key in keys:
            self.bucket.objects.pop(unescape(key), None)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        self._xml("DeleteResult", deleted)

    def _listed(self) -> None:
        keys = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(body)}</Size></Contents>"
            for key, body in sorted(self.bucket.objects.items())
        )
        self._xml("ListBucketResult", f"<IsTruncated>false</IsTruncated>{keys}")

    def _xml(self, name: str, inside: str) -> None:
        self._answer(200, f"<{name}>{inside}</{name}>".encode(), Content_Type="application/xml")


def _etag(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


@contextlib.contextmanager
def serving() -> Iterator[Bucket]:
    bucket = Bucket()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("One", (Handler,), {"bucket": bucket}))
    server.daemon_threads = True
    bucket.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, name="s3", daemon=True)
    thread.start()
    try:
        yield bucket
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
