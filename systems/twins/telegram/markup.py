"""How Telegram reads marked-up text, as far as it decides whether a message is accepted.

Three modes: MarkdownV2, where every special character has to be escaped; HTML with a short list of
tags; and the old Markdown, which a lone underscore breaks. What remains is the text that counts
against the limit. Offsets in the errors are in bytes of UTF-8, as upstream.
"""

from __future__ import annotations

import html
import re

RESERVED = set("_*[]()~`>#+-=|{}.!")
# In MarkdownV2: what begins and ends an entity, and what the error calls it. Longer ones first.
ENTITIES = {
    "__": "Underline",
    "||": "Spoiler",
    "_": "Italic",
    "*": "Bold",
    "~": "Strikethrough",
}
TAGS = {"b", "strong", "i", "em", "u", "ins", "s", "strike", "del", "span", "tg-spoiler", "a"}
TAGS |= {"code", "pre", "tg-emoji", "blockquote"}
TAG = re.compile(r"<(/?)([a-zA-Z0-9-]*)([^<>]*)>")


class BadMarkup(Exception):
    """Its text is what follows "can't parse entities: "."""


def plain(text: str, mode: str | None) -> str:
    """The text that people see; raises BadMarkup."""
    match (mode or "").lower():
        case "":
            return text
        case "markdownv2":
            return _markdown_v2(text)
        case "markdown":
            return _markdown(text)
        case "html":
            return _html(text)
    raise BadMarkup("Unsupported parse_mode")


def _bytes(text: str, place: int) -> int:
    return len(text[:place].encode())


def _markdown(text: str) -> str:
    """The old mode: no nesting, and what is opened has to be closed."""
    seen, place = [], 0
    while place < len(text):
        here = text[place]
        if here == "\\" and place + 1 < len(text) and text[place + 1] in "_*`[":
            seen.append(text[place + 1])
            place += 2
            continue
        if here not in "_*`[":
            seen.append(here)
            place += 1
            continue
        mark = "```" if text.startswith("```", place) else here
        end = text.find("]" if here == "[" else mark, place + len(mark))
        if end < 0:
            offset = _bytes(text, place)
            raise BadMarkup(f"Can't find end of the entity starting at byte offset {offset}")
        seen.append(text[place + len(mark) : end])
        place = end + len(mark)
        if here == "[" and text.startswith("(", place):
            close = text.find(")", place)
            place = close + 1 if close >= 0 else place
    return "".join(seen)


def _markdown_v2(text: str) -> str:  # noqa: C901 - one branch for each kind of mark
    seen: list[str] = []
    opened: list[tuple[str, int]] = []
    place = 0
    while place < len(text):
        here = text[place]
        if here == "\\" and place + 1 < len(text) and ord(text[place + 1]) <= 126:
            seen.append(text[place + 1])
            place += 2
        elif here == "`":
            place = _code(text, place, seen)
        elif mark := next((m for m in ENTITIES if text.startswith(m, place)), None):
            if opened and opened[-1][0] == mark:
                opened.pop()
            else:
                opened.append((mark, place))
            place += len(mark)
        elif here == "[" or text.startswith("![", place):
            opened.append(("[", place))
            place += 1 if here == "[" else 2
        elif here == "]" and opened and opened[-1][0] == "[":
            opened.pop()
            place = _link(text, place + 1)
        elif here == ">" and (place == 0 or text[place - 1] == "\n"):
            place += 1
        elif here in RESERVED:
            raise BadMarkup(
                f"Character '{here}' is reserved and must be escaped with the preceding '\\'"
            )
        else:
            seen.append(here)
            place += 1
    if opened:
        mark, start = opened[-1]
        name = ENTITIES.get(mark, "TextUrl")
        raise BadMarkup(f"Can't find end of {name} entity at byte offset {_bytes(text, start)}")
    return "".join(seen)


def _code(text: str, place: int, seen: list[str]) -> int:
    mark = "```" if text.startswith("```", place) else "`"
    end = re.compile(r"(?<!\\)" + re.escape(mark)).search(text, place + len(mark))
    if end is None:
        name = "PreCode" if mark == "```" else "Code"
        raise BadMarkup(f"Can't find end of {name} entity at byte offset {_bytes(text, place)}")
    seen.append(re.sub(r"\\([\\`])", r"\1", text[place + len(mark) : end.start()]))
    return end.end()


def _link(text: str, place: int) -> int:
    if not text.startswith("(", place):
        return place
    end = re.compile(r"(?<!\\)\)").search(text, place)
    if end is None:
        raise BadMarkup(f"Can't find end of a URL at byte offset {_bytes(text, place)}")
    return end.end()


def _html(text: str) -> str:
    opened: list[str] = []
    for tag in TAG.finditer(text):
        offset = _bytes(text, tag.start())
        name = tag[2].lower()
        if not tag[1]:
            if name not in TAGS:
                raise BadMarkup(f'Unsupported start tag "{name}" at byte offset {offset}')
            opened.append(name)
        elif not opened:
            raise BadMarkup(f"Unexpected end tag at byte offset {offset}")
        elif opened.pop() != name:
            raise BadMarkup(f'Unmatched end tag at byte offset {offset}, found "</{name}>"')
    rest = TAG.sub("", text)
    if "<" in rest:
        offset = _bytes(text, text.rindex("<"))
        raise BadMarkup(f"Unclosed start tag at byte offset {offset}")
    if opened:
        raise BadMarkup(f'Can\'t find end tag corresponding to start tag "{opened[-1]}"')
    return html.unescape(rest)
