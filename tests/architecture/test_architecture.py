"""The rules that hold the package together, checked on its text: what may know what, and how much.

Each table here is the rule itself; whoever needs an exception writes it here with its reason.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import duework
from duework import errors

SRC = Path(duework.__file__).parent
MODULES = sorted(SRC.rglob("*.py"))
SQL = sorted(SRC.rglob("*.sql"))

# A room may import itself and the rooms of its row; a module is in the room with the longest name that fits
# its path. Annotations do not count. The order is ground ← db ← kernel ← worker, health, observe, shapes ←
# task, part, app ← cli, web, testing; what departs from it is in EXCEPTIONS, with its reason.
GROUND = "errors clock ids durations codec"
DB = f"{GROUND} db db/writer"
KERNEL = (
    f"{DB} kernel kernel/machine kernel/failures kernel/paces kernel/batches kernel/surroundings"
)
KERNEL += " kernel/minutes kernel/labels"
PUBLIC = "averbs changes handles task config face people part verbs admin wiring app byname"
MAY_IMPORT = {
    "errors": "",
    "clock": "",
    "ids": "",
    "durations": "clock errors",
    "codec": "errors",
    "db": "errors clock",
    "db/writer": "errors clock db",
    "db/sqlite": "errors clock db db/writer",
    "db/postgres": "errors clock db db/writer",
    "kernel": KERNEL,
    "kernel/paces": f"{GROUND} db kernel",
    "kernel/batches": f"{GROUND} db kernel",
    "kernel/labels": f"{GROUND} db kernel",
    "kernel/minutes": f"{GROUND} db kernel",
    "kernel/surroundings": f"{GROUND} kernel",
    "kernel/machine": f"{GROUND} db kernel",
    "kernel/failures": f"{GROUND} db kernel",
    "worker": f"{KERNEL} worker/pools worker/isolation worker/wake",
    "worker/pools": "clock worker",
    "worker/isolation": f"{GROUND} db kernel kernel/machine kernel/surroundings worker",
    "worker/wake": "errors clock db db/sqlite db/postgres kernel kernel/machine worker",
    "worker/handoff": f"{KERNEL} worker worker/wake",
    "health": f"{DB} db/sqlite {KERNEL}",
    "shapes": KERNEL,
    # Each folder of shapes/ is a room of its own: no shape imports another one.
    "shapes/*": f"{KERNEL} shapes averbs",
    "outside": f"{DB} kernel kernel/surroundings averbs",
    "averbs": "",
    "changes": f"{KERNEL} worker/wake",
    "handles": f"averbs {KERNEL}",
    "task": f"averbs handles {KERNEL}",
    "config": "errors",
    # Read by type checkers only.
    "typed": "",
    "face": "errors kernel",
    "people": "errors face db kernel",
    "part": f"handles task config face people {KERNEL} shapes shapes/*",
    "verbs": f"averbs handles {KERNEL} health",
    "wiring": f"averbs handles verbs {KERNEL} worker worker/isolation health observe shapes shapes/* outside",
    "admin": f"averbs handles {KERNEL} health shapes shapes/*",
    "app": f"{PUBLIC} {KERNEL} worker worker/isolation shapes shapes/* outside",
    "client": "averbs clock durations errors handles outside web/api",
    "byname": "errors codec kernel task part shapes/*",
    "__init__": f"{PUBLIC} {KERNEL} worker health shapes shapes/* outside",
    "observe": KERNEL,
    "testing": f"__init__ {PUBLIC} {KERNEL} worker shapes shapes/* outside",
    "cli": f"__init__ {PUBLIC} {KERNEL} observe testing web cli/shapes",
    "cli/shapes": f"__init__ {PUBLIC} {KERNEL} observe cli",
    "web": f"__init__ {PUBLIC} {KERNEL} health shapes shapes/* outside observe web/limits web/parts web/live"
    " web/shapes web/api",
    "web/limits": "errors clock config",
    "web/api": f"__init__ {PUBLIC} {KERNEL} health web web/parts web/api/shapes",
    "web/api/shapes": f"__init__ {PUBLIC} {KERNEL} shapes shapes/* web/api",
    # Found by their names: nothing imports a page.
    "web/machine": f"__init__ {PUBLIC} {KERNEL} health web",
    "web/shapes": f"__init__ {PUBLIC} {KERNEL} health shapes shapes/* web web/drawn",
    "web/drawn": f"__init__ {PUBLIC} {KERNEL} health shapes shapes/* web",
    "web/parts": f"__init__ {PUBLIC} {KERNEL} outside web web/limits",
    "web/live": f"__init__ {PUBLIC} {KERNEL} web web/parts",
    "__main__": "cli",
}

# (module or room, what it imports): why it may all the same. A row that nothing needs any more fails.
EXCEPTIONS = {
    ("db/urls.py", "db/sqlite"): "chooses a database by its address",
    ("db/urls.py", "db/postgres"): "the same",
    ("app.py", "web"): "the pages are loaded when they are asked for",
    ("worker/resting.py", "worker/handoff"): "imported if it is there",
    ("shapes/*", "task"): "a decorator of a shape gives a kind of Task",
    ("shapes/*", "handles"): "a shape's jobs are looked up as Job",
    ("shapes/objects", "db/sqlite"): "an object's private database is an image of SQLite's",
    ("shapes/__init__.py", "shapes/*"): "the list of them",
    ("shapes/stand_ins.py", "shapes/deliveries"): "replaces the other side of both, in tests",
    ("shapes/stand_ins.py", "shapes/outboxes"): "the same",
}

FOLDER_MODULES = 20
MODULE_LINES = 450
FUNCTION_LINES = 60
# Larger, with the reason; the number is where it stands, and may only go down.
LARGE_MODULES: dict[str, int] = {}

# Where anything that was raised is caught: the borders to code that is not ours, and places that
# have to undo something and raise again.
BORDERS = {
    "cli/base.py": 1,  # the module on the command line
    "codec.py": 6,  # annotations that cannot be read, and models of the user's own
    "db/postgres/tx.py": 1,  # undone, raised again
    "db/sqlite/tx.py": 1,  # undone, raised again
    "db/sqlite/stdlib.py": 1,  # undone, raised again
    "db/writer/requests.py": 1,  # whose request it was
    "db/writer/writer.py": 4,  # whose request it was, is found by running them singly; callbacks
    "worker/attempts.py": 1,  # what a task gave back
    "worker/pools/coroutines.py": 2,  # a task, in the event loop, and what is thrown into it
    "kernel/engine.py": 1,  # a hook of the user's
    "worker/isolation/parent.py": 2,  # a task and its module, in its own process
    "worker/pools/threads.py": 1,  # a task, in a thread
    "kernel/error_text.py": 1,  # an error whose text cannot be had
    "worker/handoff/called.py": 2,  # left to the worker's own claim; raised again
    "worker/handoff/handoff.py": 1,  # raised again
    "observe/log.py": 1,  # an error whose trace cannot be had
    "outside/otel.py": 1,  # raised again
    "kernel/surroundings/leaving.py": 1,  # raised again
    "kernel/surroundings/arounds.py": 2,  # raised again
    "kernel/surroundings/resources.py": 2,  # an opening and a closing of the user's
    "kernel/tasks.py": 1,  # annotations that cannot be read
    "worker/worker.py": 2,  # a turn that failed for whatever reason
    "kernel/transaction.py": 1,  # undone, raised again
    "shapes/objects/cell.py": 1,  # a method of an object
    "shapes/objects/host.py": 4,  # a commit, a load or a method: whoever waits is told
    "shapes/schedules/handle.py": 1,  # a check of the user's
    "shapes/sweeps/rounds.py": 1,  # an item, whose outcome it is
    "shapes/events/bulks.py": 2,  # a subscriber, in the event loop and in a thread
    "shapes/sends.py": 2,  # the other side, in the event loop and in a thread
    "shapes/shape.py": 1,  # a function of the user's in a thread, whose caller is told
    "shapes/steps/flow.py": 1,  # a step
    "shapes/outboxes/runner.py": 2,  # a poll, in the event loop and in a thread
    "web/api/door.py": 3,  # whatever it is, a program gets an answer
    "web/parts/actions.py": 1,  # the outcome is written, raised again
    "web/parts/routes.py": 1,  # a handler of a part: answered, and in the log
    "web/parts/table.py": 1,  # a page of a part: the same
    "testing.py": 1,  # undone, raised again
    "wiring.py": 2,  # undone, raised again; the housekeeping of a shape, which is said
    "web/live/view.py": 1,  # a page of a part
}

# What is imported by name: a task's module in a process of its own, named by the parent's registry
# and never by a row; the module on the command line; and the files of a folder of our own.
IMPORTS_BY_NAME = {
    "worker/isolation/surroundings.py",
    "worker/isolation/preload.py",
    "cli/base.py",
    "web/table.py",
    "cli/shapes/__init__.py",
    "web/api/shapes/__init__.py",
    # A folder that a manifest names, in code.
    "shapes/shape.py",
    "web/shapes/table.py",
}


def name_of(path: Path) -> str:
    return path.relative_to(SRC).as_posix()


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def room_of(name: str) -> str:
    """The room of a module or folder: `worker/wake/doorbell.py` is in `worker/wake`."""
    parts = name.removesuffix(".py").split("/")
    if parts[0] == "shapes" and len(parts) > 1 and (SRC / "shapes" / parts[1]).is_dir():
        return "/".join(parts[:2])
    prefixes = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((each for each in prefixes if each in MAY_IMPORT), name)


def row_of(room: str) -> str:
    """Under which name the table has it."""
    return "shapes/*" if room.startswith("shapes/") else room


def imported(path: Path) -> Iterator[str]:
    """What of our own package a module imports when it runs, as `worker/wake/doorbell`."""
    tree = tree_of(path)
    only_types = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if id(node) in only_types:
            continue
        names: list[str] = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written in full"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        yield from (module_of(name) for name in names if name.split(".")[0] == "duework")


def module_of(dotted: str) -> str:
    """The module or folder behind a name that is imported; what is none is a name inside one."""
    parts = dotted.split(".")[1:]
    while parts and not (SRC / "/".join(parts)).is_dir():
        if (SRC / ("/".join(parts) + ".py")).exists():
            break
        parts.pop()
    return "/".join(parts) or "__init__"


def crossings() -> Iterator[tuple[str, str, str]]:
    """Every import that leaves a room: the module, its room, the room that it enters."""
    for path in MODULES:
        here = room_of(name_of(path))
        for target in imported(path):
            if (there := room_of(target)) != here:
                yield name_of(path), here, there


def exception(module: str, here: str, there: str) -> tuple[str, str] | None:
    """The row that allows it, if one does."""
    rows = ((who, to) for who in (module, here, row_of(here)) for to in (there, row_of(there)))
    return next((row for row in rows if row in EXCEPTIONS), None)


def test_imports_point_down() -> None:
    for module, here, there in crossings():
        allowed = row_of(there) in MAY_IMPORT[row_of(here)].split()
        assert allowed or exception(module, here, there), f"{module} may not import {there}"


def test_every_exception_is_needed() -> None:
    needed = {
        exception(module, here, there)
        for module, here, there in crossings()
        if row_of(there) not in MAY_IMPORT[row_of(here)].split()
    }

    assert set(EXCEPTIONS) <= needed


def test_every_folder_is_a_room_and_every_row_of_the_table_is_one() -> None:
    folders = {path.parent.relative_to(SRC).as_posix() for path in MODULES} - {"."}
    modules = {path.stem for path in SRC.glob("*.py")}

    assert {row_of(folder) for folder in folders} <= set(MAY_IMPORT)
    assert set(MAY_IMPORT) <= {row_of(folder) for folder in folders} | modules
    assert {name for row in MAY_IMPORT.values() for name in row.split()} <= set(MAY_IMPORT)


def test_the_kernel_knows_nothing_above_it() -> None:
    for module, here, there in crossings():
        if here.split("/")[0] == "kernel":
            assert there.split("/")[0] in {*GROUND.split(), "db", "kernel"}, module


# What a reader of the core reads in one sitting; the statements are in `jobs.sql`.
CORE = ("job", "lanes", "enqueue", "claim", "settle", "recover")
CORE_LINES = 2000


def test_the_core_is_read_in_one_sitting() -> None:
    files = [SRC / "kernel" / f"{name}.py" for name in CORE] + [SRC / "kernel" / "jobs.sql"]

    assert sum(len(path.read_text().splitlines()) for path in files) <= CORE_LINES


def test_the_verbs_on_jobs_know_what_counts_and_what_admits_by_their_protocols_alone() -> None:
    verbs = {f"kernel/{name}.py" for name in (*CORE, "operate", "moves", "pruning")}
    for module, _, there in crossings():
        if module in verbs:
            assert there not in {"kernel/batches", "kernel/paces", "kernel/minutes"}, module


def test_no_shape_imports_another_one_or_the_worker_or_the_app() -> None:
    for module, here, there in crossings():
        if here.startswith("shapes/"):
            assert not there.startswith(("shapes/", "worker")), f"{module} imports {there}"
            assert there not in {"app", "part", "__init__"}, f"{module} imports {there}"


def test_no_shape_writes_jobs_or_lanes_but_by_verbs_of_the_kernel() -> None:
    texts = [path for path in SQL if path.parent.parent == SRC / "shapes"]
    assert texts
    for path in texts:
        for table in re.findall(WRITES, re.sub(r"--[^\n]*", "", path.read_text())):
            assert table not in {"duework_job", "duework_lane"}, f"{name_of(path)} writes {table}"
    for path in MODULES:
        if name_of(path).startswith("shapes/"):
            found = re.findall(r"\b(?:JOBS|MOVES|OPERATE|PRUNING)\b", path.read_text())
            assert not found, f"{name_of(path)} uses a statement of the kernel: call its verbs"


WRITES = r"(?i)\b(?:insert\s+(?:or\s+\w+\s+)?into|update|delete\s+from)\s+(\w+)"


def private_names(path: Path) -> Iterator[tuple[str, str]]:
    """Private names of other objects that a module uses, or imports; with where."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("duework"):
            yield from ((each.name, f"{node.lineno}") for each in node.names if private(each.name))
        elif isinstance(node, ast.Attribute) and private(node.attr):
            owner = ast.unparse(node.value)
            if owner not in {"self", "cls", "super()"}:
                yield node.attr, f"{node.lineno}: {owner}.{node.attr}"


# Of every named tuple, and public in spite of their names.
OF_TUPLES = {"_make", "_asdict", "_replace", "_fields"}


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in OF_TUPLES


def made_here(path: Path) -> set[str]:
    """The private names that a module gives to something: functions, variables, attributes."""
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return {name for name in found if private(name)}


def test_no_private_name_crosses_a_room() -> None:
    rooms: dict[str, set[str]] = {}
    for path in MODULES:
        rooms.setdefault(room_of(name_of(path)), set()).update(made_here(path))
    ours = set().union(*rooms.values())
    for path in MODULES:
        near = rooms[room_of(name_of(path))]
        for name, where in private_names(path):
            # What no room of ours has made is another library's.
            assert name in near or name not in ours, f"{name_of(path)}:{where} is of another room"


def test_few_reach_for_what_is_private() -> None:
    told = [path for path in MODULES if "noqa: SLF001" in path.read_text()]
    found = sum(path.read_text().count("noqa: SLF001") for path in told)

    assert found < 10, [name_of(path) for path in told]


def test_no_folder_holds_more_than_a_reader_can_survey() -> None:
    for folder in {path.parent for path in MODULES}:
        names = [path.name for path in folder.glob("*.py") if path.name != "__init__.py"]
        assert len(names) <= FOLDER_MODULES, f"{folder} holds {len(names)} modules"


def test_no_two_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(name_of(path))

    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_word_is_defined_twice_in_the_glossary() -> None:
    text = (SRC.parents[1] / "docs" / "glossary.md").read_text()
    words = re.findall(r"^\| \*\*([^*]+)\*\*", text, re.MULTILINE)

    assert words
    assert sorted(set(words)) == sorted(words)


def test_only_one_module_reads_a_clock() -> None:
    reads = re.compile(
        r"\bimport time\b|\bfrom time import|\btime\.(time|sleep|monotonic|perf_counter)"
    )
    wall = re.compile(r"\.(utcnow|today)\(|datetime\.now\(")
    for path in MODULES:
        if name_of(path) == "clock.py":
            continue
        for line in code_lines(path):
            assert not reads.search(line), f"{name_of(path)}: {line}"
            assert not wall.search(line), f"{name_of(path)}: {line}"


def code_lines(path: Path) -> list[str]:
    """The module's code, without comments and texts."""
    tree = tree_of(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.unparse(tree).splitlines()


def test_no_sql_asks_what_time_it_is() -> None:
    clock = re.compile(
        r"(?i)\b(now\(|current_(timestamp|time|date)\b|clock_timestamp|strftime|unixepoch)"
    )
    for path in SQL:
        text = re.sub(r"--[^\n]*", "", path.read_text())
        assert not clock.search(text), name_of(path)


def test_every_override_says_why_it_differs() -> None:
    found = [path for path in SQL if path.name.endswith(".postgres.sql")]
    assert found
    for path in found:
        pieces = re.split(r"(?m)^-- name: (\w+)$", path.read_text())
        for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
            assert re.match(r"\n-- Differs: \S.{10,}", body), f"{path.name}: {name}"


def calls(path: Path) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call):
            yield node, ast.unparse(node.func)


def test_nothing_stored_becomes_code() -> None:
    forbidden = {"eval", "exec", "compile", "__import__"}
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            used = {name.split(".")[0] for name in names}
            assert not used & {"pickle", "marshal", "shelve", "dill"}, name_of(path)
        for _, function in calls(path):
            assert function not in forbidden, f"{name_of(path)}: {function}"
            if function.endswith("import_module"):
                assert name_of(path) in IMPORTS_BY_NAME, name_of(path)


# Their first argument is SQL, or a statement from a file.
RUNS_SQL = {"execute", "executemany", "query", "bulk", "read", "write"}
# Nothing but names of their own making goes into these texts.
MAKES_SQL = {
    "db/sqlite/repair.py": 1,  # tables and columns as the schema names them
    "testing.py": 2,  # the name of a temporary database, in hexadecimal digits
}


def test_no_sql_is_glued_together() -> None:
    found: dict[str, int] = {}
    for path in MODULES:
        for call, function in calls(path):
            stream = function.startswith("sys.")
            runs = function.rpartition(".")[2] in RUNS_SQL and not stream
            if runs and call.args and glued(call.args[0]):
                found[name_of(path)] = found.get(name_of(path), 0) + 1

    assert found == MAKES_SQL


def glued(text: ast.expr) -> bool:
    if isinstance(text, ast.BinOp):
        return isinstance(text.op, (ast.Add, ast.Mod))
    if isinstance(text, ast.Call):
        return ast.unparse(text.func).endswith(".format")
    return isinstance(text, ast.JoinedStr)


def test_everything_is_caught_only_at_the_borders() -> None:
    found: dict[str, int] = {}
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ExceptHandler):
                kind = "everything" if node.type is None else ast.unparse(node.type)
                assert kind != "everything", f"{name_of(path)}:{node.lineno} catches without a type"
                if re.search(r"\b(Exception|BaseException)\b", kind):
                    found[name_of(path)] = found.get(name_of(path), 0) + 1

    assert {name: count for name, count in found.items() if count > BORDERS.get(name, 0)} == {}


def test_modules_and_functions_are_small() -> None:
    for path in MODULES:
        lines = len(path.read_text().splitlines())
        most = LARGE_MODULES.get(name_of(path), MODULE_LINES)
        assert lines <= most, f"{name_of(path)} has {lines} lines"
        for node in ast.walk(tree_of(path)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = (node.end_lineno or 0) - node.lineno + 1
                assert length <= FUNCTION_LINES, f"{name_of(path)}: {node.name} has {length} lines"


def test_every_module_says_what_it_is() -> None:
    for path in MODULES:
        text = ast.get_docstring(tree_of(path)) or ""
        assert re.match(r"(?s).{15,}[.:]", text), f"{name_of(path)} has no header"


def test_what_is_public_is_listed_in_order_and_described() -> None:
    assert list(duework.__all__) == sorted(duework.__all__)
    defined = {
        name
        for name, value in vars(duework).items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("duework.")
    }
    assert set(duework.__all__) - PUBLIC_MODULES == defined
    for name in duework.__all__:
        value = getattr(duework, name)
        own = value.__doc__ or ""
        assert own.strip(), f"{name} has no docstring"
        for member, function in vars(value).items():
            if not member.startswith("_") and callable(function) and name not in PUBLIC_MODULES:
                assert function.__doc__ or member in UNDESCRIBED, f"{name}.{member}"


# Families of names of which the module is what is public.
PUBLIC_MODULES = {"facts", "http", "otel", "webhooks"}

# A name that says it all: the pair of one that is described.
UNDESCRIBED = {"resume", "now"}


HEAVY = ["psycopg", "apsw", "starlette", "multiprocessing.pool", "concurrent.futures.process"]
HEAVY += ["sqlite3", "click", "rich", "http.server", "unittest"]


def test_importing_the_package_is_light() -> None:
    program = f"import sys, duework; print([m for m in {HEAVY!r} if m in sys.modules])"

    found = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(SRC.parent)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert found.stdout.strip() == "[]"


def test_the_drawing_of_the_errors_is_their_tree() -> None:
    drawn: list[tuple[str, str]] = []
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"^    ((?:│   |    )*(?:├── |└── )?)(\w+)  +\S", line):
            depth = len(match[1]) // 4
            drawn.append((match[2], above[depth - 1] if depth else "Exception"))
            above[depth:] = [match[2]]
    classes = [each for each in vars(errors).values() if isinstance(each, type)]

    assert drawn
    assert sorted(drawn) == sorted((each.__name__, each.__bases__[0].__name__) for each in classes)


def test_every_error_has_a_code_of_its_own() -> None:
    classes = [each for each in vars(errors).values() if isinstance(each, type)]
    codes = [each.code for each in classes]

    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z_]+", code) for code in codes)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_module_does_anything_when_imported(path: Path) -> None:
    allowed = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    allowed += (ast.Assign, ast.AnnAssign, ast.If, ast.AugAssign)
    for node in tree_of(path).body:
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        assert text or isinstance(node, allowed), f"{name_of(path)}:{node.lineno}"
