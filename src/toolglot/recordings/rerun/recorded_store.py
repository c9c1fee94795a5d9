"""The store of a recorded exchange: it returns the recorded reads, and keeps new data until the exchange has ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Any, get_args

from toolglot.recordings.format import StoreRead
from toolglot.recordings.read import Recording
from toolglot.store import (
    History,
    StoredItem,
    StoredReplay,
    StoredRounds,
    StoredState,
    StoredTurn,
    StoreError,
    StoreFailure,
)
from toolglot.store.as_json import StoredKind, decode_stored
from toolglot.store.sqlite import MEMORY, SqliteStore

_NOTHING = object()


def _failure(line: StoreRead) -> StoreError:
    failure: StoreFailure = next((each for each in get_args(StoreFailure) if each == line.failure), "failed")
    return StoreError(failure, line.message)


class RecordedStore(SqliteStore):
    """Answers reads in the order of recording, per kind."""

    def __init__(self, recording: Recording) -> None:
        """Raises `DecodeError` if a line does not contain what its type says."""
        self._reads: dict[StoredKind, deque[Any]] = {kind: deque() for kind in get_args(StoredKind)}
        for line in recording.reads:
            for kind in get_args(StoredKind):
                if kind == line.what:
                    self._reads[kind].append(decode_stored(kind, line.data) if line.failure is None else _failure(line))
        super().__init__(MEMORY)

    def _recorded(self, kind: StoredKind) -> Any:
        found = self._reads[kind].popleft() if self._reads[kind] else _NOTHING
        if isinstance(found, StoreError):
            raise found
        return found

    async def history(self, owner: str, response: str, *, max_bytes: int, max_turns: int) -> History:
        found = self._recorded("history")
        return History(missing=response) if found is _NOTHING else found

    async def conversation_history(self, owner: str, conversation: str, *, max_bytes: int) -> History:
        found = self._recorded("history")
        return History(missing=conversation) if found is _NOTHING else found

    async def holders(self, owner: str, items: Sequence[str]) -> Mapping[str, bytes]:
        found = self._recorded("holders")
        return {} if found is _NOTHING else found

    async def rounds(self, owner: str, hashes: Sequence[str]) -> list[StoredRounds]:
        found = self._recorded("rounds")
        return await super().rounds(owner, hashes) if found is _NOTHING else found

    def may_have_states(self, owner: str, issuer: str) -> bool:
        """Return True always: the order identifies reads, not their owner."""
        return True

    async def states(
        self, owner: str, issuer: str, calls: Collection[str] = (), hashes: Collection[str] = ()
    ) -> list[StoredState]:
        found = self._recorded("states")
        return await super().states(owner, issuer, calls, hashes) if found is _NOTHING else found

    async def replay(
        self, owner: str, upstream: str, hashes: Sequence[str], calls: Collection[str] = ()
    ) -> StoredReplay | None:
        found = self._recorded("replay")
        if found is _NOTHING:
            return await super().replay(owner, upstream, hashes, calls)
        return found if found is not None and found.hash in hashes else None

    async def save(self, turn: StoredTurn, items: Sequence[StoredItem] = (), output_ids: Sequence[str] = ()) -> None:
        """Save nothing: no request continues the turn, and its conversation is not available."""

    async def add_items(
        self, owner: str, conversation: str, items: Sequence[StoredItem]
    ) -> tuple[StoredItem, ...] | None:
        return tuple(items)
