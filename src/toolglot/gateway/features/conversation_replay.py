"""Storing the conversation state that an upstream sends and needs back with the next turn.

Only Warp's servers work like this. Their client keeps the tasks of a conversation, with opaque data, and sends them
with every turn. Clients of other APIs cannot, so the tasks are stored here, under a hash of the conversation including
the answer. The next request that continues the conversation gets them. They are stored before the client sees the end
of the answer, so that it can continue at once. The client's call ids distinguish conversations with the same content.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from toolglot.dialect import Dialect
from toolglot.dialects.warp.native import NAME as WARP
from toolglot.errors import DecodeError, ToolglotError, UpstreamError
from toolglot.events import Fold, unfold
from toolglot.gateway.features.issuer import hash_issuer
from toolglot.ir import Block, Message, Request, Response, is_instruction, replace
from toolglot.passes.event_passes import through
from toolglot.receipt import Receipt
from toolglot.routing import Target
from toolglot.store import Store, StoredReplay, StoreError
from toolglot.textcalls.settings import TextCalls
from toolglot.translate import ExchangeCore
from toolglot.upstream.exchange import NO_CONVERSATION_STATE, ConversationState, make_exchange
from toolglot.upstream.offload import offload
from toolglot.upstream.transcript import (
    MAX_MARKS,
    ConversationPrefix,
    answered_prefixes,
    call_marks,
    prefix_with_answer,
)
from toolglot.upstream.transport import Reply
from toolglot.upstream.upstream import Upstream
from toolglot.wire import json

log = logging.getLogger("toolglot.server")

STORE_TIMEOUT = 1.5
"""Seconds that a request or an answer waits for the store."""
MAX_BYTES = 16 * 1024 * 1024
"""Maximum bytes of an answer, or of the stored state of a conversation."""
MAX_LOOKUPS = 32
"""The last answers of a conversation whose stored state is looked up."""


class _Conversation(Struct, frozen=True):
    """The conversation of the current attempt, as the upstream gets it."""

    upstream: str
    issuer: str
    messages: tuple[Message, ...]
    exchange: ExchangeCore
    """Like the exchange of the attempt, but with the whole conversation. Its receipt is not used."""
    calls: list[str]
    """The marks of its calls, with the client's ids."""


class ConversationReplay(Struct, eq=False):
    """Finds and stores the conversation state of one request. Without a store nothing is kept."""

    _store: Store | None = None
    _owner: str = ""
    _conversation: _Conversation | None = None

    @property
    def keeps_answer(self) -> bool:
        """Whether state of the next answer is stored."""
        return self._conversation is not None and self._store is not None

    def needs_lookup(self, client: Dialect, upstream: Upstream) -> bool:
        """Return whether `look_up` has to read the store."""
        if upstream.dialect.name == WARP and client.name != WARP and upstream.warp_history == "replay":
            return True
        self._conversation = None
        return False

    async def look_up(
        self,
        client: Dialect,
        upstream: Upstream,
        target: Target,
        request: Request,
        text_calls: TextCalls | None,
        size: int,
    ) -> ConversationState:
        """Look up the stored state of this request's conversation. `size` is the size of the request in bytes."""
        self._conversation = None
        if not self.needs_lookup(client, upstream):
            return NO_CONVERSATION_STATE
        found = await offload(size, _rebuild_conversation, client, upstream, target, request, text_calls)
        if found is None:
            return ConversationState(unknown=True)
        self._conversation, known = found
        kept = await self._find(upstream, known[:MAX_LOOKUPS], self._conversation.calls) if known else None
        if kept is None:
            return ConversationState(unknown=bool(known))
        covered = next(beginning.covered for beginning in known if beginning.hash == kept.hash)
        replay = await offload(len(kept.value), _decode_replay, kept, self._conversation.messages, covered)
        return ConversationState(unknown=True) if replay is None else ConversationState(replay=replay, covered=covered)

    async def _find(self, upstream: Upstream, known: list[ConversationPrefix], calls: list[str]) -> StoredReplay | None:
        if self._store is None:
            return None
        try:
            async with asyncio.timeout(STORE_TIMEOUT):
                hashes = [beginning.hash for beginning in known]
                return await self._store.replay(self._owner, hash_issuer(upstream), hashes, frozenset(calls))
        except (StoreError, TimeoutError) as error:
            log.warning(
                "the stored conversation with %s could not be read: %s", upstream.name, error or "no answer in time"
            )
            return None

    def watch_reply(self, exchange: ExchangeCore, reply: Reply, sent: bytes) -> Reply:
        """Wrap a reply so that its state is stored when it ends."""
        if self._conversation is None or self._store is None:
            return reply
        return _WatchedReply(reply, _ReplayWriter(self._store, self._owner, self._conversation, exchange, sent))


def _rebuild_conversation(
    client: Dialect, upstream: Upstream, target: Target, request: Request, text_calls: TextCalls | None
) -> tuple[_Conversation, list[ConversationPrefix]] | None:
    """Translate the whole conversation. Returns it and its prefixes; None if the translation fails."""
    exchange = make_exchange(client, upstream, target, text_calls=text_calls, told=ConversationState(whole=True))
    try:
        messages = tuple(map(_without_instructions, exchange.rewrite(request).messages))
        conversation = _Conversation(
            upstream.base_url, hash_issuer(upstream), messages, exchange, call_marks(request.messages)
        )
        return conversation, answered_prefixes(messages)
    except (ToolglotError, RecursionError):
        return None  # the translation of the request reports it


def _without_instructions(message: Message) -> Message:
    """Return a message without the gateway's own instructions, which the next turn may not contain."""
    content = tuple(block for block in message.content if not is_instruction(block))
    return message if len(content) == len(message.content) else replace(message, content=content)


def _decode_replay(kept: StoredReplay, messages: Sequence[Message], covered: int) -> Mapping[str, Any] | None:
    """Decode stored state; None if it is damaged, or this conversation does not continue it."""
    from toolglot.dialects.warp.history import can_continue  # needs an extra

    try:
        value = json.decode(kept.value, MAX_BYTES)
        tasks = value.get("tasks") if isinstance(value, dict) else None
        if not isinstance(tasks, list) or not can_continue(tasks, messages, covered):
            return None
    except (DecodeError, RecursionError, TypeError) as error:  # a damaged row may also hold a value of another type
        log.warning("a stored conversation cannot be read: %s", error)
        return None
    return {"tasks": tasks, "metadata": {"conversation_id": kept.conversation}}


class _ReplayWriter:
    """Collects an answer, and stores its state when the upstream ends it."""

    def __init__(
        self, store: Store, owner: str, conversation: _Conversation, exchange: ExchangeCore, sent: bytes
    ) -> None:
        from toolglot.dialects.warp.tasks import Tasks  # needs an extra

        self._store = store
        self._owner = owner
        self._conversation = conversation
        self._exchange = exchange
        self._tasks = Tasks(sent)
        self._pieces: list[bytes] = []
        self._bytes_left = MAX_BYTES
        self._is_over = False
        self.streams = False
        """True if the client gets the answer as a stream."""

    async def feed(self, data: bytes) -> None:
        if self._is_over:
            return
        self._bytes_left -= len(data)
        self._pieces.append(data)
        self._tasks.feed(data)
        if self._bytes_left < 0:
            self._give_up(f"the answer has more than {MAX_BYTES} bytes")
        elif self._tasks.problem is not None:
            self._give_up(self._tasks.problem)
        elif self._tasks.finished:
            self._is_over = True
            await self._store_replay(b"".join(self._pieces))
        if self._is_over:
            self._pieces.clear()

    def _give_up(self, why: str) -> None:
        self._is_over = True
        log.warning("the answer of %s is not stored: %s", self._conversation.upstream, why)
        self._exchange.receipt.note("messages", "history", f"this answer is not stored and will be sent in full: {why}")

    async def _store_replay(self, body: bytes) -> None:
        made = await offload(len(body), self._build_replay, body)
        if made is None:
            return
        try:
            async with asyncio.timeout(STORE_TIMEOUT):
                await self._store.keep_replay(made)
        except (StoreError, TimeoutError) as error:
            log.warning("the upstream's answer could not be stored: %s", error or "no answer in time")

    def _build_replay(self, body: bytes) -> StoredReplay | None:
        try:
            response = self._answer(body)
            beginning = prefix_with_answer(self._conversation.messages, _visible_content(self._exchange, response))
            calls = [*self._conversation.calls, *_client_call_marks(self._conversation.exchange, response)]
        except (DecodeError, UpstreamError, RecursionError):
            return None  # the answer is invalid, and cannot be continued
        value = json.encode({"tasks": self._tasks.tasks()})
        conversation = self._tasks.conversation_id
        if len(value) > MAX_BYTES:
            self._give_up(f"the conversation has more than {MAX_BYTES} bytes")
        if not conversation or len(value) > MAX_BYTES:
            return None
        return StoredReplay(
            owner=self._owner,
            upstream=self._conversation.issuer,
            hash=beginning.hash,
            conversation=conversation,
            value=value,
            calls=tuple(calls[-MAX_MARKS:]),
        )

    def _answer(self, body: bytes) -> Response:
        """Return the answer as the client gets it. A stream also contains content that the upstream changed later, in
        order of arrival.

        Raises:
            DecodeError, UpstreamError: it is not a valid answer.
        """
        if not self.streams:
            return self._exchange.upstream.decode_response(body)
        decoder, fold = self._exchange.upstream.stream_decoder(Receipt()), Fold()
        for event in (*decoder.feed(body), *decoder.close()):
            fold.add(event)
        if fold.fault is not None:
            raise UpstreamError(fold.fault)
        return fold.response()


def _client_call_marks(exchange: ExchangeCore, response: Response) -> list[str]:
    """Return the marks of an answer's calls, with the client's ids: its API may not allow the upstream's ids."""
    try:
        content = exchange.restore(response).content
    except UpstreamError:
        return []  # the client does not get these calls
    return call_marks((Message(role="assistant", content=content),))


def _visible_content(exchange: ExchangeCore, response: Response) -> tuple[Block, ...]:
    """Return the content of an answer that the client sees, and so can send back."""
    events = tuple(unfold(response))
    made = exchange.upstream.upstream.answer_pass
    passes = () if made is None else (made(exchange.sent, exchange.client.name, Receipt()),)
    fold = Fold()
    for event in through(passes, events):
        fold.add(event)
    return fold.response().content


class _WatchedReply:
    """A reply whose bytes go to the writer first."""

    def __init__(self, reply: Reply, keeper: _ReplayWriter) -> None:
        self._reply = reply
        self._keeper = keeper
        self.status = reply.status
        self.headers = reply.headers

    async def read(self, limit: int) -> bytes:
        body = await self._reply.read(limit)
        await self._keeper.feed(body)
        return body

    def chunks(self) -> AsyncIterator[bytes]:
        self._keeper.streams = True
        return _WatchedChunks(self._reply.chunks(), self._keeper)

    def close(self) -> None:
        self._reply.close()


class _WatchedChunks:
    def __init__(self, chunks: AsyncIterator[bytes], keeper: _ReplayWriter) -> None:
        self._chunks = chunks
        self._keeper = keeper

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        chunk = await anext(self._chunks)
        await self._keeper.feed(chunk)
        return chunk
