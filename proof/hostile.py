"""Payloads that were made to do harm, with a checksum that fits."""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duework.codec import ArgumentCodec, checksum
from duework.errors import InvalidArguments
from proof.section import Result, Scale, tell
from proof.shards import spread
from proof.stall import Report, Say, Stall, in_a_child

NAME = "hostile.db"
BATCH = 120
GOOD = 6
FINE = '{"what":"fine","number":7}'


class Bomb:
    """Leaves a file when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self._canary = canary

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._canary),)


def corpus(canary: Path) -> Iterator[bytes]:
    """What has hurt others."""
    make = f"mkdir {canary}".encode()
    yield pickle.dumps(Bomb(canary), protocol=0)
    yield b'{"_cls":"os:system","what":"%s"}' % make
    yield b'{"__reduce__":["os.system",["%s"]],"what":"x"}' % make
    yield b'{"py/object":"os.system","what":"%s"}' % make
    yield b"!!python/object/apply:os.system ['%s']" % make
    yield b"__import__('os').system('%s')" % make
    yield b'{"what":"$(%s)`%s`","number":"x"}' % (make, make)
    for depth in (65, 1000, 100_000):
        yield b"[" * depth + b"]" * depth
        yield b'{"what":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
        yield b'{"what":' + b"[" * depth
    for number in (
        b"9" * 5000,
        b"-" + b"9" * 400,
        b"1e999",
        b"-1e999",
        b"1e-999",
        b"NaN",
        b"Infinity",
    ):
        yield number
        yield b'{"what":"x","number":%s}' % number
    yield b'{"what":"first","what":"second"}'
    yield b'{"what":"\\ud800"}'
    yield b'{"what":"\\udfff\\ud800"}'
    yield b'{"what":"\xed\xa0\x80"}'
    yield b'{"what":"\xff\xfe"}'
    yield b"\xff\xfe\x00"
    yield b'{"what":"\\u0000"}'
    yield b'{"what":"a\x00b"}'
    yield b'{"what":7}'
    yield b'{"what":null}'
    yield b'{"what":"x","more":1}'
    yield b"{}"
    yield b"[]"
    yield b"null"
    yield b""
    yield b" " * 10_000
    yield b'{"what":"' + b"x" * 2_000_000 + b'"}'
    yield b'\xef\xbb\xbf{"what":"x"}'
    yield b"'; drop table duework_job; --"


def mutated(chance: random.Random, seeds: list[bytes]) -> bytes:
    """One of them, or a good one, with a few bytes changed."""
    text = bytearray(chance.choice([FINE.encode(), chance.choice(seeds)])[:4000])
    for _ in range(chance.randint(1, 6)):
        place = chance.randint(0, len(text))
        change = chance.randrange(4)
        if change == 0:
            text[place:place] = chance.randbytes(chance.randint(1, 4))
        elif change == 1:
            del text[place : place + chance.randint(1, 8)]
        elif change == 2 and text:
            text[place % len(text)] ^= 1 << chance.randrange(8)
        else:
            text[place:place] = chance.choice([b"{", b"[", b'"', b"\\u", b"9" * 30, b"e9", b"-"])
    return bytes(text)


@dataclass(frozen=True)
class Batch:
    home: str
    number: int
    seed: int
    planted: bool = False


def _payloads(batch: Batch, canary: Path) -> list[bytes]:
    known = list(corpus(canary))
    if batch.number == 0:
        return known
    chance = random.Random(f"{batch.seed}:{batch.number}")
    return [mutated(chance, known) for _ in range(BATCH)]


STORE = """update duework_job set payload = cast(:payload as text), checksum = :checksum
           where id = :id"""


def _store(stall: Stall, payloads: list[bytes]) -> list[int]:
    jobs = stall.task.enqueue_many([("victim", 0) for _ in payloads])
    with stall.app.transaction() as tx:
        for job, payload in zip(jobs, payloads, strict=True):
            # What is not UTF-8 is made so by the worker, in the same way, before it is compared.
            fits = checksum(job.id, "tell", payload.decode("utf-8", "replace"))
            tx.write(STORE, payload=payload, checksum=fits, id=job.id)
    return [job.id for job in jobs]


def carry_out(batch: Batch) -> tuple[int, list[str]]:
    """How many were drained, and what must not have happened."""
    home = Path(batch.home, str(os.getpid()))
    home.mkdir(exist_ok=True)
    path, canary = home / NAME, home / "canary"
    for old in home.glob(f"{NAME}*"):
        old.unlink()
    if canary.exists():
        canary.rmdir()
    payloads = _payloads(batch, canary)

    def work(say: Say) -> None:
        if batch.planted:
            _class_by_name()
        stall = Stall(path, say)
        stall.task.enqueue_many([(f"good {each}", 0) for each in range(GOOD // 2)])
        jobs = _store(stall, payloads)
        stall.task.enqueue_many([(f"good {each}", 0) for each in range(GOOD // 2, GOOD)])
        stall.drain()
        for job in jobs:
            row = stall.app.read("select state, error from duework_job where id = :id", id=job)[0]
            say("state", row.state, bool(row.error))

    problems = _judged(in_a_child(work), canary)
    return len(payloads), [f"batch {batch.seed}:{batch.number}: {each}" for each in problems]


def _judged(report: Report, canary: Path) -> list[str]:
    problems = [f"not a typed error: {error}" for (error,) in report.of("error")]
    problems += [f"stopped: {why}" for (why,) in [*report.of("refused"), *report.of("parked")]]
    if report.signal:
        problems.append(f"the process ended by signal {report.signal}")
    if canary.exists():
        problems.append("something stored was executed")
    ran = [what for (what,) in report.of("ran")]
    if missing := {f"good {each}" for each in range(GOOD)} - set(ran):
        problems.append(f"{len(missing)} good jobs did not run")
    if "victim" in ran:
        problems.append("a payload that had been replaced was run")
    for state, has_reason in report.of("state"):
        # One whose arguments fit no signature is open, with the reason: it is left to another version.
        if state not in {"done", "failed", "open"} or (state != "done" and not has_reason):
            problems.append(f"a hostile job is {state}")
    return problems


def _class_by_name() -> None:
    """Do as others did: what the data names is imported and called."""
    real = ArgumentCodec._decode

    def decode(self: ArgumentCodec, text: str) -> Any:
        import importlib
        import json

        try:
            found = json.loads(text)
            module, _, name = found.pop("_cls").partition(":")
            getattr(importlib.import_module(module), name)(found["what"])
        except Exception:  # noqa: BLE001 - as others did
            return real(self, text)
        return real(self, text)

    setattr(ArgumentCodec, "_decode", decode)  # noqa: B010 - a method is replaced


def run(result: Result, home: Path, scale: Scale, seed: int) -> None:
    count = 40 if scale == "full" else 2
    batches = [Batch(str(home), number, seed) for number in range(count)]
    for done, (drained, problems) in enumerate(spread(carry_out, batches, chunk=1)):
        tell("hostile payloads", done, count)
        result.count("hostile payloads drained", drained)
        result.violations += problems[:2]
    name = "a class named in a payload is imported"
    result.planted[name] = bool(carry_out(Batch(str(home), 0, seed, planted=True))[1])
    _decode(result, 200_000 if scale == "full" else 3000, seed)


def _decode(result: Result, count: int, seed: int) -> None:
    """The decoder alone, many times over: it answers or raises the one error it may raise."""

    def takes(what: str, number: int = 0) -> None: ...

    codec, chance = ArgumentCodec(takes, 0), random.Random(seed)
    seeds = list(corpus(Path("nowhere")))
    for _ in range(count):
        text = mutated(chance, seeds).decode("utf-8", "replace")
        try:
            codec.decode(text)
            result.count("mutated payloads decoded")
        except InvalidArguments:
            result.count("mutated payloads refused")
        except BaseException as error:  # noqa: BLE001 - that is the finding
            result.violations.append(f"decoding {text[:80]!r}: {type(error).__name__}")
            return
