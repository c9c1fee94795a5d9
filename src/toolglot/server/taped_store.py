"""A store of which every read that goes into a request is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

from toolglot.recordings.format import StoreRead
from toolglot.server.taping import Tape
from toolglot.store import Store, StoreError
from toolglot.store.as_json import RECORDED_READS, StoredKind, encode_stored, stored_size


def taped(store: Store | None, tape: Tape | None) -> Store | None:
    """The store itself, where nothing is recorded."""
    return store if store is None or tape is None else cast("Store", _Taped(store, tape))


class _Taped:
    """All that is no such read goes straight to the store."""

    def __init__(self, store: Store, tape: Tape) -> None:
        self._store = store
        self._tape = tape

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        return partial(self._read, RECORDED_READS[name], method) if name in RECORDED_READS else method

    def may_have_states(self, owner: str, issuer: str) -> bool:
        """So that all are looked up: a rerun finds what was read in the order in which it was, and nothing else."""
        return True

    async def _read(self, kind: StoredKind, method: Callable[..., Awaitable[Any]], *args: Any, **options: Any) -> Any:
        tape = self._tape
        try:
            value = await method(*args, **options)
        except StoreError as error:
            tape.writing.line(StoreRead(at=tape.at, what=kind, failure=error.failure, message=str(error)))
            raise
        except asyncio.CancelledError:
            # Whoever asked has lost patience, or the client has left: in both cases nothing was found.
            tape.writing.line(StoreRead(at=tape.at, what=kind, failure="failed", message="no answer in time"))
            raise
        # It may be large: whoever writes it down makes JSON of it.
        tape.writing.deferred_line(StoreRead(at=tape.at, what=kind), stored_size(value), partial(encode_stored, value))
        return value
