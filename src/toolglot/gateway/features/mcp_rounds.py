"""Storing the tool rounds of an answer: calls that the gateway ran, and their results, which the client did not see.

Rounds of a complete answer are stored for the next turn, rounds of an answer that failed for a repeated request.

The model needs them in the next turn. If the same turn also contained calls to the client's own tools, they are
required: a partial turn is invalid. Some clients send them back in their own form. For the others the rounds are stored
under a hash of the conversation as the client sends it, including that answer. Conversations with the same content
are distinguished by the ids in the answer, which most clients keep.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import sha256

import msgspec

from toolglot.agent.loop import LoopProgress
from toolglot.errors import ToolglotError
from toolglot.gateway.features.lookup_limit import count_skipped
from toolglot.ir import Block, Message, Opaque, Request, Text, Thinking, ToolCall, ToolResult, replace
from toolglot.store import Store, StoredRounds, StoreError
from toolglot.upstream.transcript import ConversationPrefix, answered_prefixes, prefix_with_answer

log = logging.getLogger("toolglot.server")

STORE_TIMEOUT = 1.5
"""Seconds that a request or an answer waits for the store."""
MAX_BYTES = 16 * 1024 * 1024
"""Maximum bytes that are stored for one answer."""

MAX_RECENT_BYTES = 64 * 1024 * 1024
"""Bytes of failed answers that a process remembers. Beyond this the oldest is forgotten."""
MAX_REPEAT_SECONDS = 120.0
"""Seconds after a failed answer in which the same request repeats it. Clients retry within a minute."""

_SYSTEM = ("system", "developer")

_messages = msgspec.json.Decoder(tuple[Message, ...])


class _BrokenAnswer(msgspec.Struct, frozen=True):
    failed_at: float
    """Time of the failure (Unix seconds)."""
    progress: LoopProgress


_failed_answers = msgspec.json.Decoder(_BrokenAnswer)


class RecentFailures:
    """Failed answers that this process remembers, because there is no store or no time to use it."""

    def __init__(self) -> None:
        self._values: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._bytes = 0

    def add(self, owner: str, key: str, value: bytes) -> None:
        self.take(owner, key)
        self._values[owner, key] = value
        self._bytes += len(value)
        while self._bytes > MAX_RECENT_BYTES:
            _, oldest = self._values.popitem(last=False)
            self._bytes -= len(oldest)

    def take(self, owner: str, key: str) -> bytes | None:
        value = self._values.pop((owner, key), None)
        self._bytes -= len(value or b"")
        return value


class McpRounds:
    """The stored rounds of one owner. Without a store only failed answers are kept, in `recent`."""

    def __init__(self, store: Store | None, owner: str, recent: RecentFailures) -> None:
        self._store = store
        self._owner = owner
        self._recent = recent

    @property
    def has_store(self) -> bool:
        return self._store is not None

    async def restore(self, request: Request, now: float) -> tuple[Request, LoopProgress | None]:
        """Replace the answers of a request with their stored rounds. Also returns the progress of an answer to the same
        request that failed shortly before `now`. It is returned once."""
        messages = _without_system_text(request.messages)
        found_in = answered_prefixes(messages)  # the longest first
        looked_up = found_in[: len(found_in) - count_skipped(len(found_in))]
        known = [(each.covered, _lookup_keys(each, messages)) for each in looked_up]
        try:
            repeated = _hash_request(request.model, messages)
            failed = self._recent.take(self._owner, repeated)
            if self._store is None:
                return _continue_from(request, _read_progress(failed, now))
            async with asyncio.timeout(STORE_TIMEOUT):
                found = await self._store.rounds(self._owner, [repeated, *(key for _, keys in known for key in keys)])
                kept = {rounds.hash: rounds.value for rounds in found}
                if kept.get(repeated):
                    await self._store.keep_rounds(self._owner, StoredRounds(repeated, b""))
        except (StoreError, TimeoutError) as error:
            log.warning("the tool calls run for a conversation could not be read: %s", error or "no answer in time")
            return request, None
        except _NOT_ENCODABLE:
            return request, None
        places = {covered: kept[key] for covered, keys in known for key in keys if key in kept}
        if places:
            request = replace(request, messages=_insert_rounds(request.messages, places))
        return _continue_from(request, _read_progress(failed or kept.get(repeated), now))

    async def store(self, asked: Sequence[Message], seen: Sequence[Block], rounds: Sequence[Message]) -> bool:
        """Store the rounds that led to the content that the client has seen. Returns whether they are stored."""

        def keys() -> list[str]:
            messages = _without_system_text(asked)
            answer = Message(role="assistant", content=tuple(seen))
            return _storage_keys(prefix_with_answer(messages, seen), [*messages, answer])

        return await self._keep(rounds, keys)

    async def store_progress(self, request: Request, progress: LoopProgress, now: float) -> bool:
        """Keep the progress of an answer that failed, for the same request. Returns whether it is kept."""

        def keys() -> list[str]:
            return [_hash_request(request.model, _without_system_text(request.messages))]

        return await self._keep(_BrokenAnswer(now, progress), keys) or self.remember_progress(request, progress, now)

    def remember_progress(self, request: Request, progress: LoopProgress, now: float) -> bool:
        """Store the progress immediately, in this process only."""
        try:
            value = msgspec.json.encode(_BrokenAnswer(now, progress))
            key = _hash_request(request.model, _without_system_text(request.messages))
        except _NOT_ENCODABLE:
            return False
        if len(value) <= MAX_BYTES:
            self._recent.add(self._owner, key, value)
        return len(value) <= MAX_BYTES

    async def _keep(self, rounds: object, keys: Callable[[], list[str]]) -> bool:
        if self._store is None:
            return False
        try:
            value = msgspec.json.encode(rounds)
            if len(value) > MAX_BYTES:
                return False
            async with asyncio.timeout(STORE_TIMEOUT):
                for key in keys():
                    await self._store.keep_rounds(self._owner, StoredRounds(key, value))
        except (StoreError, TimeoutError) as error:
            log.warning("the tool calls run for a conversation could not be stored: %s", error or "no answer in time")
            return False
        except _NOT_ENCODABLE:
            return False
        return True


_NOT_ENCODABLE = (ToolglotError, UnicodeEncodeError, RecursionError, TypeError)


def _hash_request(model: str, messages: Sequence[Message]) -> str:
    """Return the key of a request. It is the same only for the same messages to the same model, with or without part of
    the answer."""
    asked = _without_answer(messages)
    return sha256(b"request" + msgspec.json.encode((model, asked))).hexdigest()


def _without_answer(messages: Sequence[Message]) -> Sequence[Message]:
    end = len(messages)
    while end and messages[end - 1].role == "assistant":
        end -= 1
    return messages[:end]


def _continue_from(request: Request, progress: LoopProgress | None) -> tuple[Request, LoopProgress | None]:
    """Remove the part of the failed answer that the client has kept from its request, and from what it is shown again.
    Codex keeps each item that was complete, also of the round that failed."""
    asked = _without_answer(request.messages)
    kept = _words([block for message in request.messages[len(asked) :] for block in message.content])
    if progress is None or not kept:
        return request, progress
    shown = _words(progress.shown)
    pairs = zip([each for each in kept if each[0] is Text], [each for each in shown if each[0] is Text], strict=False)
    if any(ours != theirs for ours, theirs in pairs):
        return request, None  # the client's own beginning of an answer
    again = tuple([block for block in progress.shown if not set(kept).intersection(_words([block]))])
    return replace(request, messages=tuple(asked)), replace(progress, shown=again)


def _words(content: Sequence[Block]) -> list[tuple[type[Block], str]]:
    return [(type(block), block.text) for block in content if isinstance(block, (Text, Thinking))]


def _read_progress(value: bytes | None, now: float) -> LoopProgress | None:
    """Read the stored progress. None if there is none, if it has been used, or if it is too old."""
    if not value:
        return None
    try:
        failed = _failed_answers.decode(value)
    except (msgspec.MsgspecError, TypeError):  # a damaged row may also hold a value of another type
        log.warning("the tool calls run for a failed answer can no longer be read")
        return None
    return failed.progress if now - failed.failed_at <= MAX_REPEAT_SECONDS else None


def _without_system_text(messages: Sequence[Message]) -> list[Message]:
    """Return the messages without system text, which may change between turns, for example with the date."""
    return [message for message in messages if message.role not in _SYSTEM]


def _lookup_keys(beginning: ConversationPrefix, messages: Sequence[Message]) -> list[str]:
    """Return the keys to look up the rounds of a conversation prefix, most specific last. An answer with served calls
    in the client's own form is identified by its ids only: its client has all of it, and the rounds of another
    conversation would be worse."""
    ids, has_words = _find_ids(messages, beginning.covered)
    exact = _hash_ids(beginning, [each for each, _ in ids])
    return [exact] if has_words else [beginning.hash, exact]


def _storage_keys(beginning: ConversationPrefix, messages: Sequence[Message]) -> list[str]:
    """Return the keys to store rounds under. A client may omit blocks that it does not understand."""
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
