"""How the handler of a part is called: in the loop or in a thread, with a transaction if it takes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool

from duework.face import Endpoint
from duework.kernel.transaction import Transaction

if TYPE_CHECKING:
    from duework.app import App

Also = Callable[[Transaction, Any], None]


def _nothing_more(_tx: Transaction, _answer: Any) -> None:
    """There is nothing else to write."""


async def call(
    app: App, endpoint: Endpoint, values: Mapping[str, Any], also: Also = _nothing_more
) -> Any:
    """What the handler gives back; `also` is written in the handler's own transaction, if it has one."""
    if endpoint.transaction is None:
        if endpoint.is_async:
            return await endpoint.function(**values)
        return await run_in_threadpool(endpoint.function, **values)
    if endpoint.is_async:
        async with app.transaction() as tx:
            answer = await endpoint.function(**values, **{endpoint.transaction: tx})
            also(tx, answer)
            return answer
    return await run_in_threadpool(_in_thread, app, endpoint, values, also)


def _in_thread(app: App, endpoint: Endpoint, values: Mapping[str, Any], also: Also) -> Any:
    assert endpoint.transaction is not None
    with app.transaction() as tx:
        answer = endpoint.function(**values, **{endpoint.transaction: tx})
        also(tx, answer)
        return answer
