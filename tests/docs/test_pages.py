"""The pages agree with the code and with each other."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import duework
from duework import errors
from duework.kernel.job import TRANSITIONS
from tests.support.docs import GUIDES, PAGES, ROOT, blocks, name

PACKAGE = ROOT / "src" / "duework"
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
_LINK = re.compile(r"\[[^\]\n]+\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
# It was withdrawn, and describes what is not there any more.
_WITHDRAWN = "0030-a-worker-gets-ready-while-its-job-is-committed.md"


def _anchors(page: Path) -> set[str]:
    """The names under which a page's headings can be reached."""
    headings = _HEADING.findall(page.read_text())
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()).strip() for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def _verbs(kind: type) -> list[str]:
    """Public methods and properties, without the async forms."""
    names = [
        each
        for each, value in vars(kind).items()
        if not each.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
    ]
    return [each for each in names if not (each.startswith("a") and each[1:] in names)]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(re.sub(r"(?s)```.*?```", "", page.read_text())):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page

        assert target.exists(), f"{name(page)}: {link} leads nowhere"
        if anchor:
            assert anchor in _anchors(target), f"{name(page)}: {link} has no such heading"


@pytest.mark.parametrize("public", duework.__all__)
def test_every_public_name_is_in_a_guide(public: str) -> None:
    words = re.compile(rf"\b{public}\b")

    assert any(words.search(page.read_text()) for page in GUIDES), f"no guide mentions {public}"


@pytest.mark.parametrize(
    "kind",
    [duework.App, duework.Run, duework.Job, duework.Queue, duework.Batch, duework.Schedule],
)
def test_every_verb_is_in_a_guide(kind: type) -> None:
    text = "\n".join(page.read_text() for page in GUIDES)

    for verb in _verbs(kind):
        assert re.search(rf"[.`]{verb}\b", text), f"no guide mentions {kind.__name__}.{verb}"


def test_the_state_diagram_is_the_code() -> None:
    drawings = blocks(ROOT / "ARCHITECTURE.md", "mermaid")
    (diagram,) = (each for each in drawings if each.startswith("stateDiagram"))
    drawn = set()
    for source, target, verbs in re.findall(r"(\S+) --> (\S+): (.+)", diagram):
        ends = tuple(None if end == "[*]" else end for end in (source, target))
        drawn |= {(verb.strip(), *ends) for verb in verbs.split(",")}

    assert drawn == set(TRANSITIONS)


def test_every_room_is_in_the_table_of_rooms_and_no_other() -> None:
    table = ARCHITECTURE.partition("## The rooms")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `([\w/]+)/` \|", table, re.MULTILINE)
    folders = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}

    assert set(listed) == folders - {"."}
    assert len(set(listed)) == len(listed)


def test_every_file_that_the_architecture_names_is_there() -> None:
    named = set(re.findall(r"`([a-z_/]+(?:/|\.py|\.sql))`", ARCHITECTURE))

    assert len(named) > 40
    assert [each for each in named if not _is_there(each)] == []


def _is_there(named: str) -> bool:
    """Below the package, or from the root."""
    return (PACKAGE / named).exists() or (ROOT / named).exists()


def test_every_module_that_a_decision_rests_on_is_there() -> None:
    gone = [
        f"{page.name}: {each}"
        for page in DECISIONS
        if page.name != _WITHDRAWN
        for each in re.findall(r"`([\w-]+/[\w/.-]+\.(?:py|sql))`", page.read_text())
        if not _is_there(each)
    ]

    assert gone == []


def test_every_test_that_holds_a_rule_is_there() -> None:
    folder = ROOT / "tests"
    rules = (folder / "README.md").read_text().partition("## Which test holds which rule")[2]
    gone = []
    for path, names in re.findall(r"`([\w/]+\.py)`(?:: ([a-z_, ]+))?", rules):
        text = (folder / path).read_text() if (folder / path).exists() else ""
        wanted = [each for each in names.strip().split(", ") if "_" in each]
        gone += [f"{path}: {each}" for each in wanted if each not in text]
        gone += [] if text else [path]

    assert gone == []


def test_every_error_is_explained() -> None:
    text = (ROOT / "docs" / "guides" / "operations-basics.md").read_text()
    classes = [
        each
        for _, each in inspect.getmembers(errors, inspect.isclass)
        if issubclass(each, errors.Error)
    ]

    for each in classes:
        row = rf"^\| `{each.__name__}` \| `{each.code}` \| [^|]+ \| [^|]+ \|$"
        assert re.search(row, text, re.MULTILINE), f"{each.__name__} is not in the table of errors"


def test_decisions_are_numbered_short_and_complete() -> None:
    assert [int(page.name[:4]) for page in DECISIONS] == list(range(1, len(DECISIONS) + 1))
    for page in DECISIONS:
        text = page.read_text()
        assert len(text.splitlines()) <= 60, f"{page.name} is longer than 60 lines"
        parts = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert parts == ["Context", "Decision", "Because", "Gives up", "Evidence"], page.name
