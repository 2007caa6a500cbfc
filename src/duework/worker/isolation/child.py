"""What a task's own process asks of its parent: one question at a time, over their pipe.

Python runs a signal's handler in the main thread, wherever that is, and the handler may raise or ask
something itself. So a thread has the pipe to itself, and each question has a box for its answer: no
frame is cut in the middle, and no call gets the answer of another one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import msgspec

from duework.errors import Error, NotFound, SecretsError, UsageError

FRAME_LIMIT = 64 * 1024 * 1024
# The usual 8 MB would be taken from the task's budget of memory.
_STACK_BYTES = 1024 * 1024
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.decode

# What a task may want to tell apart; anything else is the question's fault.
_ERRORS: dict[Any, type[Error]] = {each.code: each for each in (NotFound, SecretsError)}

_Box = SimpleQueue[bytes | Exception]


class Parent:
    """The parent of one attempt's process, as its child sees it."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._process = os.getpid()
        self._lost: Exception | None = None
        # A handler may put something in it while something is being put.
        self._inbox: SimpleQueue[tuple[bytes, _Box, bool]] = SimpleQueue()
        usual = threading.stack_size(_STACK_BYTES)
        threading.Thread(target=self._serve, name="duework-parent", daemon=True).start()
        threading.stack_size(usual)

    def ask(self, ask: str, **more: Any) -> dict[str, Any]:
        answer: dict[str, Any] = _decode(self._say({"ask": ask, **more}))
        if "error" in answer:
            raise _ERRORS.get(answer.get("code"), UsageError)(answer["error"])
        return answer

    def end(self, frame: Mapping[str, Any]) -> None:
        """The last word, after which threads that are left are not answered any more."""
        self._say(frame, last=True)

    def _say(self, frame: Mapping[str, Any], *, last: bool = False) -> bytes:
        if os.getpid() != self._process:
            raise UsageError("a fork of a task's process cannot use its run")
        box: _Box = SimpleQueue()
        self._inbox.put((_encode(frame), box, last))
        # A thread that is torn away from here leaves the answer in a box that is not read any more.
        answer = box.get()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _serve(self) -> None:
        # A signal that the task blocks, to wait for it, would come here instead.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        frame, box, last = self._inbox.get()
        while not last:
            box.put(self._answer(frame))
            frame, box, last = self._inbox.get()
        try:
            # A worker that was killed reads nothing, and the next one runs the job again.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._pipe.send_bytes(frame)
            self._pipe.close()
        finally:
            box.put(b"")

    def _answer(self, question: bytes) -> bytes | Exception:
        if self._lost is None:
            try:
                self._pipe.send_bytes(question)
                return self._pipe.recv_bytes(FRAME_LIMIT)
            except (EOFError, OSError, MemoryError) as error:
                # The next question must not get what is left of this one's answer.
                self._lost = error
        return self._lost
