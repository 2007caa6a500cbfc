"""As much of curl as the examples of the guides use, for machines that have none: run as a program."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request


def main(words: list[str]) -> None:
    """`curl --silent -X METHOD -H HEADER -d BODY URL`."""
    given: dict[str, list[str]] = {"-X": [], "-H": [], "-d": []}
    urls: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in given:
            given[word].append(next(rest))
        elif word != "--silent":
            urls.append(word)
    body = given["-d"][0].encode() if given["-d"] else None
    method = (given["-X"] or ["POST" if body is not None else "GET"])[0]
    headers = dict(each.split(": ", 1) for each in given["-H"])
    request = urllib.request.Request(urls[0], body, headers, method=method)  # noqa: S310 - loopback
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - the same
            sys.stdout.write(answer.read().decode())
    except urllib.error.HTTPError as refused:
        sys.stdout.write(refused.read().decode())


if __name__ == "__main__":
    main(sys.argv[1:])
