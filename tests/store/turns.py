"""Things to put into a store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from tests.waiting import FAILSAFE
from toolglot.store import StoredTurn
from toolglot.store.sqlite import SqliteStore

T = TypeVar("T")


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def turn(name: str, previous: str | None = None, *, owner: str = "me", text: str = "", size: int = 0) -> StoredTurn:
    padding = "x" * size
    return StoredTurn(
        id=name,
        owner=owner,
        created=1.0,
        model="m",
        previous=previous,
        request_input=b'[{"role":"user","content":"%b"}]' % (text or f"ask {name}").encode(),
        response=b'{"id":"%b","object":"response","status":"completed","output":[],"padding":"%b"}'
        % (name.encode(), padding.encode()),
    )


def using(path: Path | str, work: Callable[[SqliteStore], Awaitable[T]], **settings: object) -> T:
    """Open a store, work with it, and close it whatever happens."""

    async def main() -> T:
        store = SqliteStore(path, **settings)  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(FAILSAFE):
                return await work(store)
        finally:
            await store.close()

    return asyncio.run(main())
