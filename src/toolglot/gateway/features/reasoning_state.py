"""Reasoning state that clients do not send back: kept under the calls of its answer, and found again by them.

Signatures, encrypted reasoning and the like must come back to the model that made them. A client carries them where
its API has a field for such state and it keeps that field; for all others they are kept here, before the client sees
the end of the answer. The answer is known again by its calls: their ids, names and arguments. Where ids are not unique
in themselves (`call_0`), and for answers without calls, it also counts what the conversation has said up to there and
which ids it has used; for clients that send no ids, only what it has said.

State goes back to who made it alone: to the same server with the same credential, and where it is bound to it, to the
same model. A store that is slow or broken costs the state, never the answer.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256

import msgspec
from msgspec import Struct

from toolglot.dialect import Dialect
from toolglot.errors import ApiError, StreamError, ToolglotError
from toolglot.events import Close, Delta, Event, Fault, Fold, Open
from toolglot.gateway.commands import Flow, WholeAnswer
from toolglot.gateway.features.issuer import hash_issuer
from toolglot.gateway.features.lookup_limit import count_skipped
from toolglot.gateway.flow import FlowContext, await_result
from toolglot.ir import Block, Message, Request, Thinking, ToolCall, replace
from toolglot.passes.answer_state import AnswerState, state_of_answer, without_kept_claim
from toolglot.passes.envelope import BOUND_TO_MODEL, TAKES_BACK
from toolglot.passes.kept import lacks_state
from toolglot.passes.state_placement import runs
from toolglot.routing import Target
from toolglot.store import Store, StoredState, StoreError
from toolglot.translate import Exchange
from toolglot.upstream.offload import offload
from toolglot.upstream.transcript import answered_prefixes, normalize_arguments, prefix_with_answer
from toolglot.upstream.upstream import Upstream
from toolglot.wire import json
from toolglot.wire.incremental_json import drain

log = logging.getLogger("toolglot.server")

STORE_TIMEOUT = 1.5
"""Seconds that a request or an answer waits for the store."""
MAX_BYTES = 4 * 1024 * 1024
"""Bytes of what is kept of one answer, and characters of an answer of which something is kept."""

_SYSTEM = ("system", "developer")
# Vendors' ids have long runs of letters and digits that are drawn by lot. Ids that are counted up have none, but they
# may have the tool's name in them: Kimi's are `functions.NAME:0`.
_RUN = re.compile(r"[a-z0-9]{16,}")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_CHANGE = re.compile(r"[a-z](?=[0-9])|[0-9](?=[a-z])")
_SEPARATORS = re.compile(r"[^a-z0-9]+")
_LEAST_CHANGES = 2
"""Between letters and digits: a word with a number behind it has one."""
_LEAST_DIFFERENT = 7
"""Characters: a number that is padded with zeros has fewer."""
_SHORTEST_NAME = 4
"""Characters. Shorter names may be a part of anything, and make no id long."""

_answer_states = msgspec.json.Decoder(tuple[Block, ...])


class StreamedAnswer:
    """Follows a streamed answer; what is too large is not kept in mind."""

    __slots__ = ("_fold", "_left", "has_state")

    def __init__(self) -> None:
        self._fold: Fold | None = Fold()
        self._left = MAX_BYTES
        self.has_state = False
        """Some of it may be what its owner wants back."""

    def add(self, event: Event) -> None:
        fold = self._fold
        if fold is None:
            return
        if type(event) is Delta:
            self._left -= len(event.text)
            if self._left < 0:
                self._fold = None
                return
        elif type(event) is Fault:
            self._fold = None
            return
        elif (type(event) is Open and (type(event.block) is Thinking or event.block.native)) or (
            type(event) is Close and event.native
        ):
            self.has_state = True
        fold.add(event)

    def content(self) -> tuple[Block, ...]:
        """All of the answer; nothing of one that failed. Raises `StoreError` for one that is too large."""
        if self._left < 0 and self.has_state:
            raise _too_large_error()
        if self._fold is None:
            return ()
        try:
            return self._fold.response().content
        except StreamError:
            return ()


def _too_large_error() -> StoreError:
    return StoreError("full", f"the answer has more than {MAX_BYTES} bytes")


class ReasoningState(Struct, eq=False):
    """The state of one request. Without a store nothing is kept."""

    _store: Store | None = None
    _owner: str = ""
    _issuer: str = ""
    _asked: Request | None = None
    _streamed: StreamedAnswer | None = None
    _size: int = 0
    _skipped: int = 0

    @property
    def has_store(self) -> bool:
        return self._store is not None

    @property
    def kept(self) -> bool:
        """Is what the current upstream wants back of its answer kept here?"""
        return self._asked is not None

    async def found(
        self, client: Dialect, upstream: Upstream, target: Target, request: Request, size: int
    ) -> Mapping[int, AnswerState]:
        """What the target wants back of this conversation, of so many bytes, and the client may not have sent: for the
        answers of these numbers."""
        names = await offload(size, self.search, client, upstream, target, request, size)
        return await self.find(names) if names else {}

    def search(
        self, client: Dialect, upstream: Upstream, target: Target, request: Request, size: int
    ) -> Mapping[int, AnswerName]:
        """The answers of this conversation, of so many bytes, for which the target's state has to be looked up."""
        self._asked = self._streamed = None
        self._skipped = 0
        owner = upstream.dialect.name
        if self._store is None or owner not in TAKES_BACK:
            return {}
        self._issuer = hash_issuer(upstream, target.model if owner in BOUND_TO_MODEL else "")
        self._size = size
        carries = owner == client.name and client.state.slot is not None
        some = self._store.may_have_states(self._owner, self._issuer)
        if not some and not carries:
            self._asked = request  # what its answers are known by is found out once there is something to keep
            return {}
        try:
            lacking, names, self._skipped = _find_lacking(request.messages, client, owner, named=some)
        except (ToolglotError, RecursionError, UnicodeEncodeError):
            return {}  # whoever sends the request will say why
        if not carries or lacking:
            self._asked = request  # else the client has shown that it keeps what it is given
        return names

    async def find(self, names: Mapping[int, AnswerName]) -> Mapping[int, AnswerState]:
        """The states of these answers that are stored, by their numbers."""
        assert self._store is not None
        newest_first = [names[number] for number in sorted(names, reverse=True)]  # where all would be too much to read
        calls = [name.calls for name in newest_first if name.calls]
        hashes = [name.hash for name in newest_first if not name.calls]
        try:
            async with asyncio.timeout(STORE_TIMEOUT):
                found = await self._store.states(self._owner, self._issuer, calls, hashes)
        except (StoreError, TimeoutError) as error:
            log.warning("reasoning state could not be read: %s", error or "no answer in time")
            return {}
        found.reverse()  # of several that fit, the newest counts
        exact = {(state.calls, state.hash): state for state in found}
        by_calls = {state.calls: state for state in found if state.calls}
        by_hash = {state.hash: state for state in found}
        chosen = {
            number: exact.get((name.calls, name.hash))
            or (by_calls.get(name.calls) if name.calls else by_hash.get(name.hash))
            for number, name in names.items()
        }
        return {
            number: states for number, state in chosen.items() if state is not None and (states := _decode_state(state))
        }

    def watch(self, exchange: Exchange, heard: StreamedAnswer | None = None) -> None:
        """Follow the answer of this exchange; `heard` is what was followed of it already."""
        if self._skipped:
            why = f"it is not looked up any more for the first {self._skipped} answers of so long a conversation"
            exchange.receipt.note("messages", "reasoning state", why)
        self._streamed = heard
        if self._asked is not None:
            exchange.new_listener = self._listen

    def _listen(self) -> Callable[[Event], None]:
        self._streamed = heard = StreamedAnswer()
        return heard.add

    def has_new_state(self, exchange: Exchange, *, whole: bool) -> bool:
        """Whether the answer may have something in it that its upstream will want back."""
        if self._asked is None:
            return False
        if exchange.withheld:
            return True
        if whole:
            return any(type(block) is Thinking or block.native for block in _answer_content(exchange))
        return self._streamed is not None and self._streamed.has_state

    async def store(self, exchange: Exchange, *, whole: bool) -> None:
        """Keep what the upstream will want back of its answer, which is all there."""
        asked, self._asked = self._asked, None
        if asked is None or self._store is None:
            return
        try:
            content = (
                _answer_content(exchange) if whole else self._streamed.content() if self._streamed is not None else ()
            )
            state = await offload(self._size, self._state, exchange, asked, content)
            if state is None:
                return
            async with asyncio.timeout(STORE_TIMEOUT):
                await self._store.keep_state(state)
        except (StoreError, TimeoutError) as error:
            log.warning("reasoning state could not be kept: %s", error or "no answer in time")
            exchange.receipt.revise(lambda line: without_kept_claim(line, exchange.upstream.name))
            exchange.receipt.loss("content", "reasoning state", "it could not be stored for the next turn")
        except (ToolglotError, UnicodeEncodeError, RecursionError, TypeError):
            return  # there is nothing that anybody could go on from

    def _state(self, exchange: Exchange, asked: Request, content: Sequence[Block]) -> StoredState | None:
        states = state_of_answer((*content, *exchange.withheld), exchange.upstream.name)
        if not states:
            return None
        value = msgspec.json.encode(states)
        if len(value) > MAX_BYTES:
            raise _too_large_error()
        try:
            name = _name_of_answer(exchange.client, asked, content)
        except (ToolglotError, UnicodeEncodeError, RecursionError):
            raise StoreError("failed", "the conversation has something in it that cannot be named") from None
        return StoredState(owner=self._owner, issuer=self._issuer, calls=name.calls, hash=name.hash, value=value)


def _answer_content(exchange: Exchange) -> tuple[Block, ...]:
    """A whole answer as the client gets it."""
    answer = exchange.restored if exchange.restored is not None else exchange.answered
    return () if answer is None else answer.content


def _name_of_answer(client: Dialect, asked: Request, content: Sequence[Block]) -> AnswerName:
    calls = [block for block in content if isinstance(block, ToolCall) and _is_given(block, client)]
    if client.answer.omits_call_ids(asked):
        calls = [replace(call, id="") for call in calls]
    before = b""
    for run in drain(runs(asked.messages)):
        before = _hash_ids(before, run.calls())
    return _make_name(calls, prefix_with_answer(_without_system_text(asked.messages), content).hash, before)


def _is_given(call: ToolCall, client: Dialect) -> bool:
    """Does the client get this call, and not a text in its place?"""
    if client.can.broken_calls != "shown" or call.kind != "function":
        return True
    return call.complete and (not call.arguments or json.object_of(call.arguments) is not None)


class AnswerName(Struct, frozen=True):
    """What an answer is known by. `calls` is empty where only what was said can tell it from others."""

    calls: str
    hash: str


def _make_name(calls: Sequence[ToolCall], said: str, before: bytes) -> AnswerName:
    """The name of an answer with these calls. `said` is the hash of the conversation up to its end, `before` that of
    the ids of the calls that went before it, if there were any."""
    ids = [_client_call_id(call) for call in calls]
    if not all(ids) or not (ids or before):
        return AnswerName("", said)
    told = [(each, call.name, normalize_arguments(call.arguments)) for each, call in zip(ids, calls, strict=True)]
    unique = ids and all(_is_random(each, call.name) for each, call in zip(ids, calls, strict=True))
    marked = ascii(told if unique else (told, said, before))
    return AnswerName(sha256(marked.encode("ascii")).hexdigest(), said)


def _client_call_id(call: ToolCall) -> str:
    """The id that the client was given: Gemini CLI puts the tool's name before it."""
    return call.id.removeprefix(f"{call.name}__") or call.id


def _is_random(identity: str, name: str) -> bool:
    """Is an id drawn by lot, so that no other call has it? In doubt it is not: then what was said tells, too."""
    identity, name = identity.lower(), name.lower()
    if _UUID.search(identity):
        return True
    if len(name) >= _SHORTEST_NAME:
        identity = identity.replace(name, " ")
    named = _SEPARATORS.sub("", name)
    return any(
        run not in named and len(_CHANGE.findall(run)) >= _LEAST_CHANGES and len(set(run)) >= _LEAST_DIFFERENT
        for run in _RUN.findall(identity)
    )


def _hash_ids(before: bytes, calls: Sequence[ToolCall]) -> bytes:
    """The hash of all ids up to an answer, this one's included; nothing while there are none."""
    for call in calls:
        if before or call.id:
            before = sha256(before + ascii(_client_call_id(call)).encode("ascii")).digest()
    return before


def _find_lacking(
    messages: Sequence[Message], client: Dialect, owner: str, *, named: bool
) -> tuple[bool, dict[int, AnswerName], int]:
    """Whether every answer of a conversation may lack what its owner wants back; if they are to be `named`, the names
    of those that may; and how many of the first ones nobody looks for."""
    said = runs(messages)
    first = count_skipped(len(said))
    lacking = {number for number, run in enumerate(said) if lacks_state(run, client.name, client.state.slot, owner)}
    names: dict[int, AnswerName] = {}
    before = b""
    hashes = (
        {each.covered: each.hash for each in answered_prefixes(_without_system_text(messages))}
        if lacking and named
        else {}
    )
    count = len(said)
    for number, run in enumerate(drain(said)) if hashes else ():
        if number in lacking and run.end in hashes and number >= first:
            names[number] = _make_name(run.calls(), hashes[run.end], before)
        before = _hash_ids(before, run.calls())
    return len(lacking) == count, names, first


def _without_system_text(messages: Sequence[Message]) -> list[Message]:
    """What both sides have said. System text may change from turn to turn, as with today's date in it."""
    return [message for message in messages if message.role not in _SYSTEM]


def _decode_state(state: StoredState) -> AnswerState:
    try:
        return _answer_states.decode(state.value)
    except (msgspec.MsgspecError, TypeError):  # a damaged row may also hold a value of another type
        log.warning("reasoning state that was kept cannot be read any more")
        return ()


def with_reasoning_state(flow: Flow, context: FlowContext, states: ReasoningState) -> Flow:
    result = yield from flow
    exchange = context.exchange
    if exchange is not None and not isinstance(result, ApiError) and context.record.error is None:
        is_whole = isinstance(result, WholeAnswer)
        if states.has_new_state(exchange, whole=is_whole):
            yield from await_result(context, partial(states.store, exchange, whole=is_whole))
    return result
