"""What a client did not see of its conversation: the calls that were run on the way to an answer, and their results.

The model has to be told of them in the next turn: where a client's own calls were made in one breath with them it must,
because half of a turn makes no sense to it. Some clients send them back in their own words. For the others they are
kept under a hash of the conversation as the client tells it, that answer included. Conversations that say the same are
told apart by the ids in that answer, which most clients keep.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from hashlib import sha256

import msgspec

from toolglot.errors import ToolglotError
from toolglot.gateway.features.lookup_limit import count_skipped
from toolglot.ir import Block, Message, Opaque, Request, ToolCall, ToolResult, replace
from toolglot.store import Store, StoredRounds, StoreError
from toolglot.upstream.transcript import ConversationPrefix, answered_prefixes, prefix_with_answer

log = logging.getLogger("toolglot.server")

STORE_TIMEOUT = 1.5
"""Seconds that a request or an answer waits for the store."""
MAX_BYTES = 16 * 1024 * 1024
"""Bytes of what is kept of one answer."""

_SYSTEM = ("system", "developer")

_messages = msgspec.json.Decoder(tuple[Message, ...])


class McpRounds:
    """Of one owner. Without a store nothing is kept."""

    def __init__(self, store: Store | None, owner: str) -> None:
        self._store = store
        self._owner = owner

    @property
    def has_store(self) -> bool:
        return self._store is not None

    async def restore(self, request: Request) -> Request:
        """The request with what is kept of its answers in their place."""
        told = _without_system_text(request.messages)
        found_in = answered_prefixes(told)  # the longest first
        looked_up = found_in[: len(found_in) - count_skipped(len(found_in))]
        known = [(each.covered, _lookup_keys(each, told)) for each in looked_up]
        if self._store is None or not known:
            return request
        try:
            async with asyncio.timeout(STORE_TIMEOUT):
                found = await self._store.rounds(self._owner, [key for _, keys in known for key in keys])
        except (StoreError, TimeoutError) as error:
            log.warning("what was run for a conversation could not be read: %s", error or "no answer in time")
            return request
        kept = {rounds.hash: rounds.value for rounds in found}
        places = {covered: kept[key] for covered, keys in known for key in keys if key in kept}
        return replace(request, messages=_insert_rounds(request.messages, places)) if places else request

    async def store(self, asked: Sequence[Message], seen: Sequence[Block], rounds: Sequence[Message]) -> bool:
        """Keep the rounds that led to what the client has seen, after what it has asked. Whether they are kept."""
        if self._store is None:
            return False
        try:
            value = msgspec.json.encode(rounds)
            if len(value) > MAX_BYTES:
                return False
            told = _without_system_text(asked)
            beginning = prefix_with_answer(told, seen)
            answer = Message(role="assistant", content=tuple(seen))
            async with asyncio.timeout(STORE_TIMEOUT):
                for key in _storage_keys(beginning, [*told, answer]):
                    await self._store.keep_rounds(self._owner, StoredRounds(key, value))
        except (StoreError, TimeoutError) as error:
            log.warning("what was run for a conversation could not be kept: %s", error or "no answer in time")
            return False
        except (ToolglotError, UnicodeEncodeError, RecursionError, TypeError):
            return False
        return True


def _without_system_text(messages: Sequence[Message]) -> list[Message]:
    """What both sides have said. System text may change from turn to turn, as with today's date in it."""
    return [message for message in messages if message.role not in _SYSTEM]


def _lookup_keys(beginning: ConversationPrefix, told: Sequence[Message]) -> list[str]:
    """What the rounds of a beginning are looked for under, the surest last. An answer that has words for served calls
    is known by its ids alone: its client has all of it, and another conversation's rounds would tell the model less."""
    ids, has_words = _find_ids(told, beginning.covered)
    exact = _hash_ids(beginning, [each for each, _ in ids])
    return [exact] if has_words else [beginning.hash, exact]


def _storage_keys(beginning: ConversationPrefix, told: Sequence[Message]) -> list[str]:
    """What they are kept under: a client may also leave out what it has no use for."""
    ids, _ = _find_ids(told, beginning.covered)
    without_words = _hash_ids(beginning, [each for each, is_call in ids if is_call])
    return [*{beginning.hash: None, without_words: None, _hash_ids(beginning, [each for each, _ in ids]): None}]


def _find_ids(told: Sequence[Message], end: int) -> tuple[list[tuple[str, bool]], bool]:
    """The ids in the answer that ends there, each with whether it is a call's, and whether it has words for served
    calls."""
    start = end
    while start and told[start - 1].role == "assistant":
        start -= 1
    blocks = [block for message in told[start:end] for block in message.content]
    ids = [(block.id, True) if isinstance(block, ToolCall) else (_opaque_id(block) or "", False) for block in blocks]
    return [each for each in ids if each[0]], any(isinstance(block, Opaque) for block in blocks)


def _hash_ids(beginning: ConversationPrefix, ids: Sequence[str]) -> str:
    return sha256(repr((beginning.hash, list(ids))).encode("utf-8", "surrogatepass")).hexdigest()


def _opaque_id(block: Block) -> str | None:
    value = block.value if isinstance(block, Opaque) else None
    return str(value.get("id", "")) if isinstance(value, dict) else None


def _calls(message: Message) -> list[ToolCall]:
    return [block for block in message.content if isinstance(block, ToolCall)]


def _insert_rounds(messages: Sequence[Message], places: dict[int, bytes]) -> tuple[Message, ...]:
    """The messages with each of these answers, known by the number of messages up to it, told in full."""
    replaced: list[Message] = []
    answer: list[Message] = []
    count = 0
    for message in messages:
        count += message.role not in _SYSTEM
        if message.role != "assistant":
            replaced += _join_results(answer, message)
            answer = []
            continue
        answer.append(message)
        if count in places:
            try:
                answer = _with_client_ids(_messages.decode(places[count]), answer)
            except (msgspec.MsgspecError, TypeError):  # a damaged row may also hold a value of another type
                log.warning("what was run for a conversation cannot be read any more")
    return (*replaced, *answer)


def _with_client_ids(rounds: Sequence[Message], answer: Sequence[Message]) -> list[Message]:
    """The rounds, with the client's own calls under the ids that it knows them by: it may have given them others, or
    what was kept last may be of a conversation that says the same."""
    results = {block.call_id for message in rounds for block in message.content if isinstance(block, ToolResult)}
    own = [call.id for message in rounds for call in _calls(message) if call.id not in results]
    known = [call.id for message in answer for call in _calls(message)]
    ids = dict(zip(own, known, strict=False))
    return [
        replace(
            message,
            content=tuple(
                replace(block, id=ids.get(block.id, block.id)) if isinstance(block, ToolCall) else block
                for block in message.content
            ),
        )
        for message in rounds
    ]


def _join_results(answer: Sequence[Message], message: Message) -> list[Message]:
    """An answer and what comes next. The results of one turn stand in one message, in the order of its calls: some APIs
    take them in no other way."""
    if not answer or answer[-1].role != "tool" or not any(isinstance(block, ToolResult) for block in message.content):
        return [*answer, message]
    order = {call.id: number for number, call in enumerate(_calls(answer[-2]))}
    results = [block for block in (*answer[-1].content, *message.content) if isinstance(block, ToolResult)]
    results.sort(key=lambda result: order.get(result.call_id, len(order)))
    others = [block for block in message.content if not isinstance(block, ToolResult)]
    return [*answer[:-1], replace(message, content=(*results, *others))]
