"""Ids for calls that have none or share one, over a conversation of any length: each message is seen once.

The ids are those that `passes/ids.py` derives for a whole request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from msgspec import Struct

from toolglot.export.ledger import Tell
from toolglot.ir import Block, Message, ToolCall, ToolKind, ToolResult, replace
from toolglot.passes.blocks import Place, rewrite_message
from toolglot.passes.digest import digest
from toolglot.receipt import Loss


class _Call(Struct):
    id: str
    sent: str
    name: str
    kind: ToolKind
    answered: bool = False


def paired(messages: Iterable[Message], tell: Tell) -> Iterator[Message]:
    """The messages with an id of its own on every call, and on every result the id and the name of its call."""
    pairing = _Pairing(tell)
    before = ""
    for number, message in enumerate(messages):
        if message.role == "assistant":
            pairing.next_turn(new_batch=before != "assistant")
        before = message.role
        yield rewrite_message(message, number, pairing.pair, ToolCall, ToolResult)


class _Pairing:
    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._seen: set[str] = set()
        self._waiting: dict[tuple[str, str], deque[_Call]] = {}
        self._turn = self._ordinal = 0
        self._told = False

    def next_turn(self, *, new_batch: bool) -> None:
        self._turn += 1
        self._ordinal = 0
        if new_batch:
            self._waiting = {}

    def pair(self, block: Block, place: Place) -> tuple[Block, ...]:
        if isinstance(block, ToolCall):
            return (self._call(block, place),)
        return (self._result(block),) if isinstance(block, ToolResult) else (block,)

    def _call(self, call: ToolCall, place: Place) -> ToolCall:
        new = self._new_id(call, place)
        self._seen.add(new)
        self._ordinal += 1
        entry = _Call(new, call.id, call.name, call.kind)
        for key in (("id", call.id), ("name", call.name), ("any", "")):
            self._waiting.setdefault(key, deque()).append(entry)
        return call if new == call.id else replace(call, id=new)

    def _new_id(self, call: ToolCall, place: Place) -> str:
        if call.id and call.id not in self._seen:
            return call.id
        stem, length = (f"{call.id}_", 8) if call.id else ("call_", 12)
        new, salt = "", 0
        while not new or new in self._seen:
            new = stem + digest(self._turn, self._ordinal, call.name, *([salt] if salt else []))[:length]
            salt += 1
        if call.id:
            why = f"an id is used once; it is {new} now"
            self._tell(Loss(str(place), f"repeated call id {call.id}", why, "note"))
        elif not self._told:
            self._told = True
            self._tell(Loss(str(Place(place.message)), "calls without ids", "ids were derived from position", "note"))
        return new

    def _result(self, result: ToolResult) -> ToolResult:
        call = self._answered(result)
        if call is None:
            return result
        call.answered = True
        if (call.id, call.name, call.kind) == (result.call_id, result.name, result.kind):
            return result
        return replace(result, call_id=call.id, name=call.name, kind=call.kind)

    def _answered(self, result: ToolResult) -> _Call | None:
        """The first call of the batch that this may answer and that has no result yet."""
        named = ("any", "") if result.name is None else ("name", result.name)
        queue = self._waiting.get(("id", result.call_id) if result.call_id else named)
        while queue and queue[0].answered:
            queue.popleft()
        return queue[0] if queue else None
