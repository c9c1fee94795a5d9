"""Storing the tool rounds of an answer: calls that the gateway ran, and their results, which the client did not see.

The model needs them in the next turn. If the same turn also contained calls to the client's own tools, they are
required: a partial turn is invalid. Some clients send them back in their own form. For the others the rounds are stored
under a hash of the conversation as the client sends it, including that answer. Conversations with the same content
are distinguished by the ids in the answer, which most clients keep.
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
"""Maximum bytes that are stored for one answer."""

_SYSTEM = ("system", "developer")

_messages = msgspec.json.Decoder(tuple[Message, ...])


class McpRounds:
    """The stored rounds of one owner. Without a store nothing is kept."""

    def __init__(self, store: Store | None, owner: str) -> None:
        self._store = store
        self._owner = owner

    @property
    def has_store(self) -> bool:
        return self._store is not None

    async def restore(self, request: Request) -> Request:
        """Replace the answers of a request with their stored rounds."""
        messages = _without_system_text(request.messages)
        found_in = answered_prefixes(messages)  # the longest first
        looked_up = found_in[: len(found_in) - count_skipped(len(found_in))]
        known = [(each.covered, _lookup_keys(each, messages)) for each in looked_up]
        if self._store is None or not known:
            return request
        try:
            async with asyncio.timeout(STORE_TIMEOUT):
                found = await self._store.rounds(self._owner, [key for _, keys in known for key in keys])
        except (StoreError, TimeoutError) as error:
            log.warning("the tool calls run for a conversation could not be read: %s", error or "no answer in time")
            return request
        kept = {rounds.hash: rounds.value for rounds in found}
        places = {covered: kept[key] for covered, keys in known for key in keys if key in kept}
        return replace(request, messages=_insert_rounds(request.messages, places)) if places else request

    async def store(self, asked: Sequence[Message], seen: Sequence[Block], rounds: Sequence[Message]) -> bool:
        """Store the rounds that led to the content that the client has seen. Returns whether they are stored."""
        if self._store is None:
            return False
        try:
            value = msgspec.json.encode(rounds)
            if len(value) > MAX_BYTES:
                return False
            messages = _without_system_text(asked)
            beginning = prefix_with_answer(messages, seen)
            answer = Message(role="assistant", content=tuple(seen))
            async with asyncio.timeout(STORE_TIMEOUT):
                for key in _storage_keys(beginning, [*messages, answer]):
                    await self._store.keep_rounds(self._owner, StoredRounds(key, value))
        except (StoreError, TimeoutError) as error:
            log.warning("the tool calls run for a conversation could not be stored: %s", error or "no answer in time")
            return False
        except (ToolglotError, UnicodeEncodeError, RecursionError, TypeError):
            return False
        return True


def _without_system_text(messages: Sequence[Message]) -> list[Message]:
    """Return the messages without system text, which may change between turns, for example with the date."""
    return [message for message in messages if message.role not in _SYSTEM]


def _lookup_keys(beginning: ConversationPrefix, messages: Sequence[Message]) -> list[str]:
    """Keys to look up the rounds of a conversation prefix, the most specific last. An answer with served calls in the
    client's own form is identified by its ids only: its client has all of it, and the rounds of another conversation
    would be worse."""
    ids, has_words = _find_ids(messages, beginning.covered)
    exact = _hash_ids(beginning, [each for each, _ in ids])
    return [exact] if has_words else [beginning.hash, exact]


def _storage_keys(beginning: ConversationPrefix, messages: Sequence[Message]) -> list[str]:
    """Keys to store rounds under. A client may omit blocks that it does not understand."""
    ids, _ = _find_ids(messages, beginning.covered)
    without_words = _hash_ids(beginning, [each for each, is_call in ids if is_call])
    return [*{beginning.hash: None, without_words: None, _hash_ids(beginning, [each for each, _ in ids]): None}]


def _find_ids(messages: Sequence[Message], end: int) -> tuple[list[tuple[str, bool]], bool]:
    """Return the ids in the answer that ends there, each with whether it belongs to a call, and whether the answer has
    served calls in the client's own form.
    """
    start = end
    while start and messages[start - 1].role == "assistant":
        start -= 1
    blocks = [block for message in messages[start:end] for block in message.content]
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
    """Replace answers with their rounds. `places` has the stored rounds by the number of messages up to the answer."""
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
                log.warning("the tool calls run for a conversation can no longer be read")
    return (*replaced, *answer)


def _with_client_ids(rounds: Sequence[Message], answer: Sequence[Message]) -> list[Message]:
    """Give the client's own calls in the rounds the ids that the client uses. It may have changed them, or the stored
    rounds may come from a conversation with the same content."""
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
    """Join the answer with the next message. Some APIs require the results of one turn in one message, in the order of
    its calls."""
    if not answer or answer[-1].role != "tool" or not any(isinstance(block, ToolResult) for block in message.content):
        return [*answer, message]
    order = {call.id: number for number, call in enumerate(_calls(answer[-2]))}
    results = [block for block in (*answer[-1].content, *message.content) if isinstance(block, ToolResult)]
    results.sort(key=lambda result: order.get(result.call_id, len(order)))
    others = [block for block in message.content if not isinstance(block, ToolResult)]
    return [*answer[:-1], replace(message, content=(*results, *others))]
