"""Errors of the disk, made by the operating system itself, without a line of C.

A Python VFS is not honest enough for this: an error that SQLite itself forgives (in a checkpoint after
a commit) still comes out of `execute` as a Python exception. A library for LD_PRELOAD would do, and needs
a compiler. Linux can do better: a seccomp filter hands each write, sync and truncate of a process to
another one, which lets it go on or answers with an errno. SQLite and the engine run unchanged, with no hook
between them and the system, and see what they would see of a disk that fails. Where the system does not
allow this (Linux before 5.5, some sandboxes), it is `Impossible`, and the section says so and does not hold.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import select
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

# Numbers of the system calls, and how the kernel names the architecture to a filter.
ARCHITECTURES = {
    "x86_64": (
        0xC000003E,
        317,
        {18: "write", 74: "sync", 75: "sync", 77: "truncate", 285: "write"},
    ),
    "aarch64": (
        0xC00000B7,
        277,
        {68: "write", 82: "sync", 83: "sync", 46: "truncate", 47: "write"},
    ),
}

_NO_NEW_PRIVS = 38
_SET_FILTER, _NEW_LISTENER = 1, 8
_USER_NOTIF, _ALLOW = 0x7FC00000, 0x7FFF0000
_LOAD, _EQUALS, _RETURN = 0x20, 0x15, 0x06
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_NOTICE, _ANSWER = struct.Struct("<QIIiIQ6Q"), struct.Struct("<QqiI")


class Impossible(Exception):
    """This system does not let a process filter its own calls."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _filter() -> bytes:
    """Ask the listener about the calls above, allow all others."""
    name, _, calls = ARCHITECTURES[platform.machine()]
    numbers = sorted(calls)
    step = struct.Struct("<HBBI")
    lines = [step.pack(_LOAD, 0, 0, 4), step.pack(_EQUALS, 0, len(numbers) + 1, name)]
    lines.append(step.pack(_LOAD, 0, 0, 0))
    lines += [
        step.pack(_EQUALS, len(numbers) - place, 0, number) for place, number in enumerate(numbers)
    ]
    lines += [step.pack(_RETURN, 0, 0, _ALLOW), step.pack(_RETURN, 0, 0, _USER_NOTIF)]
    return b"".join(lines)


def surrender(wire: socket.socket) -> None:
    """From now on whoever is at the other end decides about this process's writes and syncs."""
    if platform.machine() not in ARCHITECTURES:
        raise Impossible(f"no numbers of system calls for {platform.machine()}")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise Impossible(f"no_new_privs: {os.strerror(ctypes.get_errno())}")
    text = _filter()
    program = _Program(len(text) // 8, text)
    number = ARCHITECTURES[platform.machine()][1]
    listener = libc.syscall(number, _SET_FILTER, _NEW_LISTENER, ctypes.byref(program))
    if listener < 0:
        raise Impossible(f"seccomp: {os.strerror(ctypes.get_errno())}")
    socket.send_fds(wire, [b"listener"], [listener])
    os.close(listener)


@dataclass
class Supervisor:
    """Lets calls on certain files pass, until the n-th; then they fail, once or from then on."""

    about: Callable[[str], bool]
    at: int
    errno: int
    sticky: bool
    seen: int = 0
    hits: list[tuple[str, str]] = field(default_factory=list)
    mended: bool = False

    def serve(self, listener: int, wire: socket.socket, hear: Callable[[bytes], None]) -> None:
        """Answer until the process has ended; what it says meanwhile is passed on."""
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        poll.register(wire, select.POLLIN)
        while True:
            for handle, event in poll.poll():
                if handle == wire.fileno():
                    said = wire.recv(1 << 16)
                    if not said:
                        return
                    hear(said)
                elif event & select.POLLIN:
                    self._answer(listener)
                else:
                    poll.unregister(listener)

    def _answer(self, listener: int) -> None:
        notice = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, notice, True)  # noqa: FBT003 - changed in place
        except OSError:
            # It died before it was heard.
            return
        identifier, pid, _, call, _, _, handle, *_ = _NOTICE.unpack(notice)
        kind = ARCHITECTURES[platform.machine()][2][call]
        error, flags = (-self.errno, 0) if self._fails(pid, handle, kind) else (0, _CONTINUE)
        try:
            fcntl.ioctl(listener, _SEND, _ANSWER.pack(identifier, 0, error, flags))
        except OSError:
            return

    def _fails(self, pid: int, handle: int, kind: str) -> bool:
        try:
            path = os.readlink(f"/proc/{pid}/fd/{handle & 0xFFFFFFFF}")
        except OSError:
            return False
        if self.mended or not self.about(path):
            return False
        self.seen += 1
        if self.seen == self.at or (self.sticky and self.seen > self.at):
            self.hits.append((kind, path))
            return True
        return False
