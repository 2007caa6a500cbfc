"""What is optional is loaded when it is used, and says what to install if it is not there."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# The modules of every optional dependency; one that is new in pyproject.toml gets a line.
MODULES = {
    "aiosmtplib": ["aiosmtplib"],
    "cryptography": ["cryptography"],
    "httpx2": ["httpx2", "httpcore2"],
    "jinja2": ["jinja2"],
    "obstore": ["obstore"],
    "opentelemetry-api": ["opentelemetry"],
    "python-multipart": ["python_multipart", "multipart"],
    "starlette": ["starlette"],
    "uvicorn": ["uvicorn"],
    "websockets": ["websockets"],
}
BLOCKED = sorted(module for modules in MODULES.values() for module in modules)
# As if they were not installed.
WITHOUT = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
import asyncio
import duework
from duework import App, http, webhooks
"""


def python(code: str, *, blocked: list[str], cwd: Path) -> str:
    """What a fresh process prints that has none of these libraries."""
    program = WITHOUT.format(blocked=blocked) + code
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def refused(call: str, *, blocked: list[str], cwd: Path) -> str:
    """The text of the UsageError that a call ends with."""
    code = f"try:\n    {call}\nexcept duework.UsageError as error:\n    print(error)"
    return python(code, blocked=blocked, cwd=cwd).strip()


def test_every_optional_dependency_is_known_here() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = {
        re.split(r"[\s<>=!~;\[]", each)[0]
        for name, wanted in extras.items()
        if name != "all"
        for each in wanted
    }

    assert named == set(MODULES)
    assert extras["all"] == [f"duework[{','.join(name for name in extras if name != 'all')}]"]


def test_import_duework_loads_no_optional_part(tmp_path: Path) -> None:
    code = f"print(sorted(set({BLOCKED!r}) & sys.modules.keys()))"

    assert python(code, blocked=[], cwd=tmp_path) == "[]\n"


def test_the_core_runs_without_any_of_them(tmp_path: Path) -> None:
    code = """
from duework.testing import Harness
app = App("sqlite:///work.db")

@app.task
async def greet(name: str) -> str:
    return f"hello {name}"

with Harness(app):
    pass
with Harness(app) as h:
    job = greet.enqueue("ada")
    h.drain()
    print(job.refresh().result)
print(sorted(webhooks.sign(webhooks.new_secret(), "id", b"body", now=1))[0])
"""

    assert python(code, blocked=BLOCKED, cwd=tmp_path).startswith("hello ada\n")


@pytest.mark.parametrize(
    ("what", "call", "extra"),
    [
        ("http", "asyncio.run(http.Client('https://example.org').get('/'))", "outside"),
        ("a guard", "asyncio.run(http.Client(guard=http.Guard()).get('https://a.b/'))", "outside"),
        ("secrets", "App('sqlite:///work.db').secrets.seal('pat:7', 'a token')", "outside"),
        ("the pages", "App('sqlite:///work.db').asgi()", "web"),
    ],
)
def test_what_needs_a_missing_extra_is_an_error_with_the_line_for_pip(
    what: str, call: str, extra: str, tmp_path: Path
) -> None:
    said = refused(call, blocked=BLOCKED, cwd=tmp_path)

    assert f"pip install 'duework[{extra}]'" in said


@pytest.mark.parametrize("missing", ["jinja2", "starlette", "uvicorn"])
def test_a_part_of_an_extra_that_is_missing_alone_is_named(missing: str, tmp_path: Path) -> None:
    code = """
from duework.cli import main
App("sqlite:///work.db").wiring.engine
sys.argv = ["duework", "web", "--url", "sqlite:///work.db", "--port", "0"]
sys.stderr = sys.stdout
try:
    main()
except SystemExit as end:
    print(end.code)
"""

    said = python(code, blocked=[missing], cwd=tmp_path)

    assert f"needs {missing}" in said or f"need {missing}" in said
    assert "pip install 'duework[web]'" in said
    assert "Traceback" not in said
    assert not list(tmp_path.glob("*token*"))


def test_the_command_line_helps_without_any_of_them(tmp_path: Path) -> None:
    code = """
from duework.cli import main
sys.argv = ["duework", "--help"]
try:
    main()
except SystemExit:
    pass
"""

    assert "status" in python(code, blocked=BLOCKED, cwd=tmp_path)
