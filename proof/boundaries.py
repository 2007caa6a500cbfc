"""Where a process can be killed: before every bytecode of the engine, around every call of the file system.

`sys.settrace` with opcodes on Python 3.11, `sys.monitoring` from 3.12 on; an apsw VFS for the files.
Shared memory is not seen by such a VFS; what is done to it lies between two of the bytecodes. Left out is
the module that cuts SQL texts into statements: it touches nothing but its argument, for thousands of
instructions, all of which are the same place.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Literal

import apsw

import duework

Mode = Literal["bytecode", "file system"]

PACKAGE = str(Path(duework.__file__).parent)
PURE = str(Path(PACKAGE, "db", "queries.py"))
CALLS = ("xRead", "xWrite", "xSync", "xTruncate", "xLock", "xUnlock", "xFileControl", "xClose")


class Boundaries:
    """Counts boundaries from `arm` to `disarm`, and kills the process at the n-th."""

    def __init__(self, mode: Mode, at: int) -> None:
        self._mode = mode
        self._at = at
        self._armed = False
        self._passed: Callable[[], int] = lambda: 0
        self.count = 0
        # Made before the database is opened, since it is the default only for what comes later.
        self._vfs = CountingVfs(self.pass_one) if mode == "file system" else None

    def pass_one(self) -> None:
        if self._armed:
            self.count += 1
            if self.count == self._at:
                kill()

    def arm(self) -> None:
        self._armed = True
        if self._mode == "bytecode":
            self._passed = watch_bytecodes(self._at)

    def disarm(self) -> None:
        self._armed = False
        if self._mode == "bytecode":
            unwatch_bytecodes()
            self.count = self._passed()


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _counts(code: CodeType) -> bool:
    return code.co_filename.startswith(PACKAGE) and code.co_filename != PURE


# Called for every single instruction: kept as short as it can be.
if sys.version_info >= (3, 12):

    def watch_bytecodes(at: int) -> Callable[[], int]:
        watch, passed = sys.monitoring, 0

        def instruction(code: CodeType, _offset: int) -> Any:
            nonlocal passed
            if not _counts(code):
                return watch.DISABLE
            passed += 1
            if passed == at:
                kill()
            return None

        watch.use_tool_id(watch.DEBUGGER_ID, "duework proof")
        watch.register_callback(watch.DEBUGGER_ID, watch.events.INSTRUCTION, instruction)
        watch.set_events(watch.DEBUGGER_ID, watch.events.INSTRUCTION)
        return lambda: passed

    def unwatch_bytecodes() -> None:
        sys.monitoring.set_events(sys.monitoring.DEBUGGER_ID, 0)
        sys.monitoring.free_tool_id(sys.monitoring.DEBUGGER_ID)

else:

    def watch_bytecodes(at: int) -> Callable[[], int]:
        passed = 0

        def instruction(_frame: FrameType, event: str, _argument: object) -> Any:
            nonlocal passed
            if event == "opcode":
                passed += 1
                if passed == at:
                    kill()
            return instruction

        def called(frame: FrameType, _event: str, _argument: object) -> Any:
            if not _counts(frame.f_code):
                return None
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
            return instruction

        sys.settrace(called)
        return lambda: passed

    def unwatch_bytecodes() -> None:
        sys.settrace(None)


class CountingVfs(apsw.VFS):
    """The system's own VFS, with a boundary before and after every call; the default from now on."""

    def __init__(self, pass_one: Callable[[], None]) -> None:
        self._pass_one = pass_one
        super().__init__("duework-proof", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        self._pass_one()
        file = _counting_file(self._pass_one, name, flags)
        self._pass_one()
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802, FBT001 - SQLite's name
        self._pass_one()
        super().xDelete(filename, syncdir)
        self._pass_one()


def _counting_file(pass_one: Callable[[], None], name: Any, flags: list[int]) -> apsw.VFSFile:
    class CountingFile(apsw.VFSFile):
        pass

    for call in CALLS:
        setattr(CountingFile, call, _counted(getattr(apsw.VFSFile, call), pass_one))
    return CountingFile("unix", name, flags)


def _counted(call: Callable[..., Any], pass_one: Callable[[], None]) -> Callable[..., Any]:
    def counted(self: apsw.VFSFile, *arguments: Any) -> Any:
        pass_one()
        answer = call(self, *arguments)
        pass_one()
        return answer

    return counted
