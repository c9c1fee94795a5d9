"""Reasoning state that clients do not send back: stored under the calls of its answer, and found again by them.

Signatures, encrypted reasoning and similar state must return to the model that made them. Some clients carry it: their
API has a field for it, and they keep that field. For all others it is stored here, before the client sees the end of
the answer. An answer is identified by its calls: their ids, names and arguments. If the ids are not unique (`call_0`),
and for answers without calls, the content of the conversation up to there and its earlier ids count, too; for clients
that send no ids, only the content.

State returns only to its origin: the same server with the same credential, and for some dialects the same model. A slow
or broken store costs the state, never the answer.
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
from toolglot.passes.kept_state import lacks_state
from toolglot.passes.state_placement import runs
from toolglot.routing import Target
from toolglot.store import Store, StoredState, StoreError
from toolglot.translate import ExchangeCore
from toolglot.upstream.offload import offload
from toolglot.upstream.transcript import (
    ConversationPrefix,
    answered_prefixes,
    normalize_arguments,
    prefix_with_answer,
)
from toolglot.upstream.upstream import Upstream
from toolglot.wire import json
from toolglot.wire.incremental_json import drain

log = logging.getLogger("toolglot.server")

STORE_TIMEOUT = 1.5
"""Seconds that a request or an answer waits for the store."""
MAX_BYTES = 4 * 1024 * 1024
"""Maximum bytes of the stored state of one answer, and characters of an answer whose state is stored."""

_SYSTEM = ("system", "developer")
# Vendors' random ids have long runs of letters and digits. Sequential ids have none, but may contain the tool's name:
# Kimi's are `functions.NAME:0`.
_RUN = re.compile(r"[a-z0-9]{16,}")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_CHANGE = re.compile(r"[a-z](?=[0-9])|[0-9](?=[a-z])")
_SEPARATORS = re.compile(r"[^a-z0-9]+")
_LEAST_CHANGES = 2
"""Changes between letters and digits: a word followed by a number has one."""
_LEAST_DIFFERENT = 7
"""Different characters: a number padded with zeros has fewer."""
_SHORTEST_NAME = 4
"""Minimum length of a name in characters. Shorter names may match by chance, and do not make an id long."""

_answer_states = msgspec.json.Decoder(tuple[Block, ...])


class StreamedAnswer:
    """Collects a streamed answer. One that is too large is dropped."""

    __slots__ = ("_fold", "_left", "has_state")

    def __init__(self) -> None:
        self._fold: Fold | None = Fold()
        self._left = MAX_BYTES
        self.has_state = False
        """True if the answer may contain state that its upstream needs back."""

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
        """Return the content of the answer; empty if it failed. Raises `StoreError` if it is too large."""
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
    """Finds and stores the reasoning state of one request. Without a store nothing is kept."""

    state_store: Store | None = None
    _owner: str = ""
    _issuer: str = ""
    _asked: Request | None = None
    _streamed: StreamedAnswer | None = None
    _size: int = 0
    _skipped: int = 0

    @property
    def kept(self) -> bool:
        """Whether the state of the current upstream's answer is stored here."""
        return self._asked is not None

    def search(
        self, client: Dialect, upstream: Upstream, target: Target, request: Request, size: int
    ) -> Mapping[int, AnswerName]:
        """Find the answers of this conversation whose state has to be looked up for the target. `size` is in bytes."""
        self._asked = self._streamed = None
        self._skipped = 0
        owner = upstream.dialect.name
        if self.state_store is None or owner not in TAKES_BACK:
            return {}
        self._issuer = hash_issuer(upstream, target.model if owner in BOUND_TO_MODEL else "")
        self._size = size
        carries = owner == client.name and client.state.slot is not None
        some = self.state_store.may_have_states(self._owner, self._issuer)
        if not some and not carries:
            self._asked = request  # answers are named once there is something to store
            return {}
        try:
            lacking, names, self._skipped = _find_lacking(request.messages, client, owner, named=some)
        except (ToolglotError, RecursionError, UnicodeEncodeError):
            return {}  # the translation of the request reports it
        if not carries or lacking:
            self._asked = request  # otherwise the client carries its state
        return names

    async def find(self, names: Mapping[int, AnswerName]) -> Mapping[int, AnswerState]:
        """Read the stored states of these answers, by their numbers."""
        assert self.state_store is not None
        newest_first = [names[number] for number in sorted(names, reverse=True)]  # in case the store limits the result
        calls = [name.calls for name in newest_first if name.calls]
        hashes = [name.hash for name in newest_first if not name.calls]
        try:
            async with asyncio.timeout(STORE_TIMEOUT):
                found = await self.state_store.states(self._owner, self._issuer, calls, hashes)
        except (StoreError, TimeoutError) as error:
            log.warning("reasoning state could not be read: %s", error or "no answer in time")
            return {}
        found.reverse()  # of several matches, the newest counts
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

    def watch(self, exchange: ExchangeCore) -> None:
        """Collect the answer of this exchange."""
        if self._skipped:
            why = f"it is not looked up any more for the first {self._skipped} answers of such a long conversation"
            exchange.receipt.note("messages", "reasoning state", why)
        self._streamed = None
        if self._asked is not None:
            exchange.new_listener = self._listen

    def _listen(self) -> Callable[[Event], None]:
        self._streamed = streamed = StreamedAnswer()
        return streamed.add

    def has_new_state(self, exchange: ExchangeCore, *, whole: bool) -> bool:
        """Return whether the answer may contain state that its upstream needs back."""
        if self._asked is None:
            return False
        if exchange.withheld:
            return True
        if whole:
            return any(type(block) is Thinking or block.native for block in _answer_content(exchange))
        return self._streamed is not None and self._streamed.has_state

    async def store(self, exchange: ExchangeCore, *, whole: bool) -> None:
        """Store the state of a complete answer."""
        asked, self._asked = self._asked, None
        if asked is None or self.state_store is None:
            return
        try:
            content = (
                _answer_content(exchange) if whole else self._streamed.content() if self._streamed is not None else ()
            )
            state = await offload(self._size, self._state, exchange, asked, content)
            if state is None:
                return
            async with asyncio.timeout(STORE_TIMEOUT):
                await self.state_store.keep_state(state)
        except (StoreError, TimeoutError) as error:
            log.warning("reasoning state could not be stored: %s", error or "no answer in time")
            exchange.receipt.revise(lambda line: without_kept_claim(line, exchange.upstream.name))
            exchange.receipt.loss("content", "reasoning state", "it could not be stored for the next turn")
        except (ToolglotError, UnicodeEncodeError, RecursionError, TypeError):
            return  # the answer is invalid, and cannot be continued

    def _state(self, exchange: ExchangeCore, asked: Request, content: Sequence[Block]) -> StoredState | None:
        states = state_of_answer((*content, *exchange.withheld), exchange.upstream.name)
        if not states:
            return None
        value = msgspec.json.encode(states)
        if len(value) > MAX_BYTES:
            raise _too_large_error()
        try:
            name = _name_of_answer(exchange.client, asked, content)
        except (ToolglotError, UnicodeEncodeError, RecursionError):
            raise StoreError("failed", "the conversation contains a value that cannot be identified") from None
        return StoredState(owner=self._owner, issuer=self._issuer, calls=name.calls, hash=name.hash, value=value)


def _answer_content(exchange: ExchangeCore) -> tuple[Block, ...]:
    """Return the content of a whole answer as the client gets it."""
    answer = exchange.restored if exchange.restored is not None else exchange.answered
    return () if answer is None else answer.content


def _name_of_answer(client: Dialect, asked: Request, content: Sequence[Block]) -> AnswerName:
    calls = [block for block in content if isinstance(block, ToolCall) and _is_given(block, client)]
    if client.answer.omits_call_ids(asked):
        calls = [replace(call, id="") for call in calls]
    before = b""
    for run in drain(runs(asked.messages)):
        before = _hash_ids(before, run.calls())
    return _make_name(calls, prefix_with_answer(_without_system_text(asked.messages), content), before)


def _is_given(call: ToolCall, client: Dialect) -> bool:
    """Return whether the client gets this call as a call, not as text."""
    if client.can.calls.broken != "shown" or call.kind != "function":
        return True
    return call.complete and (not call.arguments or json.object_of(call.arguments) is not None)


class AnswerName(Struct, frozen=True):
    """Identifies an answer. `calls` is empty if only the content of the conversation identifies it."""

    calls: str
    hash: str


def _make_name(calls: Sequence[ToolCall], prefix: ConversationPrefix, before: bytes) -> AnswerName:
    """Make the name of an answer with these calls, which ends this prefix of the conversation. `before` is the hash of
    earlier call ids, if any.

    The first call identifies the answer: a client may send the others in messages of their own."""
    if not all(call.id for call in calls) or not (calls or before):
        return AnswerName("", prefix.hash)
    keys = [(_client_call_id(call), call.name, normalize_arguments(call.arguments)) for call in calls[:1]]
    unique = any(_is_random(identity, name) for identity, name, _ in keys)
    marked = ascii(keys if unique else (keys, prefix.hash_to_first_call, before))
    return AnswerName(sha256(marked.encode("ascii")).hexdigest(), prefix.hash)


def _client_call_id(call: ToolCall) -> str:
    """Return the id that the client got: Gemini CLI adds the tool's name in front."""
    return call.id.removeprefix(f"{call.name}__") or call.id


def _is_random(identity: str, name: str) -> bool:
    """Return whether an id is random, and so unique. False if in doubt: then the conversation's content also counts."""
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
    """Add the ids of an answer's calls to the hash of earlier ids; empty while there are none."""
    for call in calls:
        if before or call.id:
            before = sha256(before + ascii(_client_call_id(call)).encode("ascii")).digest()
    return before


def _find_lacking(
    messages: Sequence[Message], client: Dialect, owner: str, *, named: bool
) -> tuple[bool, dict[int, AnswerName], int]:
    """Find answers that may lack state of `owner`. Returns whether all do; their names, if `named`; and the number of
    first answers that are skipped."""
    said = runs(messages)
    first = count_skipped(len(said))
    lacking = {number for number, run in enumerate(said) if lacks_state(run, client.name, client.state.slot, owner)}
    names: dict[int, AnswerName] = {}
    before = b""
    prefixes = (
        {each.covered: each for each in answered_prefixes(_without_system_text(messages))} if lacking and named else {}
    )
    count = len(said)
    for number, run in enumerate(drain(said)) if prefixes else ():
        if number in lacking and run.end in prefixes and number >= first:
            names[number] = _make_name(run.calls(), prefixes[run.end], before)
        before = _hash_ids(before, run.calls())
    return len(lacking) == count, names, first


def _without_system_text(messages: Sequence[Message]) -> list[Message]:
    """Return the messages without system text, which may change between turns, for example with the date."""
    return [message for message in messages if message.role not in _SYSTEM]


def _decode_state(state: StoredState) -> AnswerState:
    try:
        return _answer_states.decode(state.value)
    except (msgspec.MsgspecError, TypeError):  # a damaged row may also hold a value of another type
        log.warning("stored reasoning state can no longer be read")
        return ()


def with_reasoning_state(flow: Flow, context: FlowContext, states: ReasoningState) -> Flow:
    """Store the state of an answer before the client gets its end."""
    result = yield from flow
    exchange = context.exchange
    if exchange is not None and not isinstance(result, ApiError) and context.record.error is None:
        is_whole = isinstance(result, WholeAnswer)
        if states.has_new_state(exchange, whole=is_whole):
            yield from await_result(context, partial(states.store, exchange, whole=is_whole))
    return result
