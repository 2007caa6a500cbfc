"""Builds the wheel, installs it into a fresh environment of each Python, and runs what a new user runs.

`python -m tests.support.wheel python3.11 python3.12 …`; a Python that this machine does not have is
named and left out, and it is an error if none is left.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
GREETED = ["hello ada", "hello grace", "hello edsger", "hello barbara"]
BUILD = ("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir")
# What is in the wheel must be found from anywhere but the checkout.
LOOK = "import duework, sys; print(sys.version.split()[0], duework.__file__)"


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """What it printed; the end of everything if it failed."""
    ran = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True)  # noqa: PLW1510 - below
    if ran.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def is_there(python: str) -> bool:
    try:
        return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def check(python: str, wheel: Path, folder: Path) -> str:
    """Install and run; what was found."""
    run(python, "-m", "venv", folder / "venv")
    inside = folder / "venv" / "bin"
    pip = (inside / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    run(*pip, "--require-hashes", "-r", ROOT / "requirements" / "runtime.txt")
    run(*pip, "--no-deps", wheel)
    version, place = run(inside / "python", "-c", LOOK, cwd=folder).split()
    assert Path(place).is_relative_to(folder), place
    said = run(inside / "python", ROOT / "examples" / "hello.py", cwd=folder)
    assert said.splitlines()[-4:] == GREETED, said
    run(inside / "duework", "--help", cwd=folder)
    return version


def main(pythons: list[str]) -> None:
    there = [python for python in pythons if is_there(python)]
    for python in set(pythons) - set(there):
        sys.stdout.write(f"{python}: not on this machine\n")
    if not there:
        sys.exit("none of them is on this machine: make wheel-check PYTHONS=python3")
    with tempfile.TemporaryDirectory(prefix="duework-wheel-") as name:
        folder = Path(name)
        run(sys.executable, "-m", "pip", *BUILD, folder, ROOT)
        [wheel] = folder.glob("*.whl")
        for number, python in enumerate(there):
            place = folder / str(number)
            place.mkdir()
            version = check(python, wheel, place)
            sys.stdout.write(f"{python}: {version} runs hello.py from {wheel.name}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
