"""Measure how much of a request the upstream already got in an earlier turn: the part that its prompt cache can serve.

Only hashes of a conversation are kept: one for each message of the serialized request, over everything before it,
starting with the model, the tools and the system text. Two turns with the same hash begin with the same bytes up to
there. A conversation is identified by its first user message; a few of its last turns are kept, because agents run
several conversations with the same beginning.

Cache breakpoints are left out: they are not part of the prompt, and clients move them with every turn.
"""

from __future__ import annotations

import asyncio
import re
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import accumulate
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from toolglot.dialect import Dialect
from toolglot.gateway.request_record import RequestRecord
from toolglot.ir import Message
from toolglot.translate import ExchangeCore
from toolglot.upstream.offload import LARGE, offload
from toolglot.upstream.upstream import Upstream
from toolglot.wire.incremental_json import PIECE, IncrementalReader, IrregularJsonError, clear_list, contains, is_large

MAX_CONVERSATIONS = 2000
SAMPLED_PER_SECOND = 100
"""Requests that are measured per second; beyond them one conversation in `SAMPLED_ONE_IN`, which is representative."""
SAMPLED_ONE_IN = 16
MAX_PER_SECOND = 200
"""The limit with sampling, because one sampled conversation may cause most of the traffic."""
MAX_TURNS = 4
"""Maximum stored turns of one conversation."""
MAX_HASHES = 400_000
"""Maximum stored hashes, of eight bytes each."""
MAX_MESSAGES = 10_000
"""Maximum hashed messages of a conversation; later ones are ignored."""

_ONE_TEXT = re.compile(
    rb'\[\{"type":"text","text":(?<="content":\[\{"type":"text","text":)("(?:[^"\\]++|\\.)*+")\}\](?=\}\Z)'
)
"""A message of one text in the form that a breakpoint needs; without a breakpoint it is a string. The expression begins
with literal bytes, which are found many times faster."""
_MARKS = (b'"cache_control"', b'"prompt_cache_breakpoint"')
_BREAKPOINT = re.compile(rb'"(?:cache_control|prompt_cache_breakpoint)": ?\{[^{}]*\}')


class PrefixHashes(Struct, frozen=True):
    """Hashes of one request after each message, and the number of bytes up to there."""

    hashes: array[int]
    ends: array[int]


HashedTurn: TypeAlias = tuple[int, PrefixHashes]
"""The hash of a conversation's owner, upstream and first user message, and the hashes of one turn."""


class PrefixReuse:
    """The last turns of the last conversations."""

    def __init__(self, conversations: int = MAX_CONVERSATIONS, hashes: int = MAX_HASHES) -> None:
        self._conversations = conversations
        self._hashes_left = hashes
        self._turns: OrderedDict[int, deque[PrefixHashes]] = OrderedDict()
        self._second, self._noted = 0, 0

    def should_sample(self, record: RequestRecord, said: Sequence[str]) -> bool:
        """Return whether to measure this request. `said` is the first user message of its conversation."""
        second = int(record.started)
        if second != self._second:
            self._second, self._noted = second, 0
        if self._noted >= SAMPLED_PER_SECOND:
            first = said[0] if said else ""
            if self._noted >= MAX_PER_SECOND or hash(first) % SAMPLED_ONE_IN:
                return False
        self._noted += 1
        return True

    def record_reuse(self, record: RequestRecord, upstream: str, found: HashedTurn | None) -> None:
        """Record the reuse of a request that an upstream has answered.

        A request that failed is not recorded: another one may have been sent instead, and a prompt cache holds only
        answered requests.
        """
        if found is not None and (ratio := self.measure_reuse(*found)) is not None:
            record.prefix_reuse = (*record.prefix_reuse, (upstream, ratio))

    def measure_reuse(self, conversation: int, prefix: PrefixHashes) -> float | None:
        """Measure the share of the history that an earlier turn had, too, from 0 to 1; None in the first turn. Keeps
        the turn."""
        turns = self._turns.pop(conversation, None)
        known = turns if turns is not None else deque[PrefixHashes]()
        common = 0
        for turn in reversed(known):
            if len(turn.hashes) > common:  # most often the last turn is the longest, and a part of this one
                common = max(common, _count_common(prefix.hashes, turn.hashes))
        if len(known) == MAX_TURNS:
            self._hashes_left += len(known.popleft().hashes)
        known.append(prefix)
        self._hashes_left -= len(prefix.hashes)
        self._turns[conversation] = known
        while len(self._turns) > self._conversations or (self._hashes_left < 0 and len(self._turns) > 1):
            _, oldest = self._turns.popitem(last=False)
            self._hashes_left += sum(len(turn.hashes) for turn in oldest)
        if turns is None:
            return None
        return prefix.ends[common - 1] / prefix.ends[-1] if common else 0.0


class PrefixHashing(msgspec.Struct, eq=False):
    """Hashes a request that is being sent: a large one in a thread, a small one on the first access to `found`, which
    should be while the upstream works."""

    _prefixes: PrefixReuse
    _task: asyncio.Task[HashedTurn | None] | None = None
    _work: Callable[[], HashedTurn | None] | None = None
    _found: HashedTurn | None = None

    def begin(self, record: RequestRecord, upstream: Upstream, exchange: ExchangeCore, body: bytes) -> None:
        """Start hashing a request. An earlier one was not answered, and is dropped."""
        if self._task is not None:
            self.cancel()
        asked, sent = exchange.asked, exchange.sent
        if asked is None or sent is None:
            return
        said = _first_words(asked.messages)
        if not self._prefixes.should_sample(record, said):
            return
        work = partial(_hash_turn, record.owner, upstream, said, sent.model, body)
        if len(body) > LARGE:
            self._task = asyncio.create_task(offload(len(body), work))
        else:
            self._work = work

    @property
    def found(self) -> HashedTurn | None:
        """The hashes of a small request."""
        if self._work is not None:
            work, self._work = self._work, None
            self._found = work()
        return self._found

    @property
    def is_running(self) -> bool:
        return self._task is not None

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._task = self._work = self._found = None

    async def result(self) -> HashedTurn | None:
        """Return the hashes; waits for the thread."""
        return self.found if self._task is None else await self._task


def _count_common(one: Sequence[int], other: Sequence[int]) -> int:
    """Count the common hashes at the start. After the first difference all others differ, too: a binary search."""
    low, high = 0, min(len(one), len(other))
    if high and one[high - 1] == other[high - 1]:  # the common case: a turn was added
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if one[middle - 1] == other[middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low


def _hash_turn(owner: str, upstream: Upstream, said: Sequence[str], model: str, body: bytes) -> HashedTurn | None:
    prefix = hash_messages(upstream.dialect, model, body)
    return None if prefix is None else (hash((owner, upstream.name, *said)), prefix)


_NOTHING = msgspec.Raw(b"")
_decode_raw_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


@cache
def _leading_members(system_key: str | None) -> list[str]:
    """Return the members that a prompt begins with."""
    return [name for name in dict.fromkeys(("tools", "instructions", system_key)) if name is not None]


@cache
def _make_decoder(history_key: str, system_key: str | None) -> msgspec.json.Decoder[Any]:
    """Make a decoder for the leading members of a prompt and its messages, as raw bytes."""
    fields: list[Any] = [("history", list[msgspec.Raw])]
    fields += [(f"first_{number}", msgspec.Raw, _NOTHING) for number, _ in enumerate(_leading_members(system_key))]
    names = {f"first_{number}": name for number, name in enumerate(_leading_members(system_key))}
    return msgspec.json.Decoder(msgspec.defstruct("Body", fields, rename={"history": history_key, **names}))


def _split_request(dialect: Dialect, body: bytes) -> tuple[list[msgspec.Raw], list[msgspec.Raw]]:
    """Return the messages of a request, and the leading members of its prompt."""
    if len(body) <= LARGE or not is_large(body):
        history, *first = msgspec.structs.astuple(
            _make_decoder(dialect.request.history_key, dialect.request.system_key).decode(body)
        )
        return history, first
    found: list[msgspec.Raw] = []
    others = IncrementalReader(body).read_members(dialect.request.history_key, found, _decode_raw_list, msgspec.Raw)
    return found, [others.get(name, _NOTHING) for name in _leading_members(dialect.request.system_key)]


def hash_messages(dialect: Dialect, model: str, body: bytes) -> PrefixHashes | None:
    """Hash a serialized request; None if it has no messages or cannot be read."""
    try:
        history, first = _split_request(dialect, body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, IrregularJsonError):
        return None
    parts, marked = [*first, *history[:MAX_MESSAGES]], _has_breakpoints(body)
    if marked or len(body) > PIECE:
        contents, sizes = zip(*[_reduce_part(part, marked) for part in parts], strict=True)
    else:
        contents, sizes = tuple(map(bytes, parts)), tuple(map(len, parts))
    clear_list(history)
    # Python's own hash is the fastest, and no other process sees it.
    current = hash(model)
    hashes = [current := hash((current, content)) for content in contents][len(first) :]
    return PrefixHashes(array("q", hashes), array("q", accumulate(sizes[len(first) :]))) if hashes else None


def _has_breakpoints(body: bytes) -> bool:
    """Return whether the body contains cache breakpoints."""
    if len(body) > PIECE:
        return contains(body, _MARKS[0]) or contains(body, _MARKS[1])
    return _MARKS[0] in body or _MARKS[1] in body


def _reduce_part(part: msgspec.Raw, marked: bool) -> tuple[bytes | int, int]:
    """Reduce a part to a form that is fast to hash. Returns it and the part's size without breakpoints."""
    if len(part) <= PIECE:
        raw = _without_breakpoints(bytes(part)) if marked else bytes(part)
        return raw, len(raw)
    # An image has megabytes. Pieces let other threads run in between.
    whole = memoryview(part)
    current = start = size = 0
    for found in _BREAKPOINT.finditer(whole) if marked else ():
        current, size = _hash_pieces(current, whole[start : _end_before(whole, found)], size)
        start = found.end()
    return _hash_pieces(current, whole[start:], size)


def _hash_pieces(current: int, raw: memoryview, size: int) -> tuple[int, int]:
    for start in range(0, raw.nbytes, PIECE):
        current = hash((current, bytes(raw[start : start + PIECE])))
    return current, size + raw.nbytes


def _without_breakpoints(raw: bytes) -> bytes:
    kept, start = [], 0
    for found in _find_breakpoints(raw):
        kept.append(raw[start : _end_before(raw, found)])
        start = found.end()
    return _ONE_TEXT.sub(rb"\1", b"".join([*kept, raw[start:]])) if kept else raw


def _find_breakpoints(raw: bytes) -> Iterator[re.Match[bytes]]:
    """Find what `_BREAKPOINT.finditer` finds. Searching only for the marks is many times faster."""
    at, places = 0, [raw.find(mark) for mark in _MARKS]
    while any(place >= 0 for place in places):
        place = min(place for place in places if place >= 0)
        found = _BREAKPOINT.match(raw, place)
        if found is not None:
            yield found
        at = place + 1 if found is None else found.end()
        places = [raw.find(mark, at) if 0 <= place < at else place for mark, place in zip(_MARKS, places, strict=True)]


def _end_before(raw: bytes | memoryview, found: re.Match[bytes]) -> int:
    """Return the end of the text before a breakpoint and its comma. The expression does not contain the comma: one that
    begins with a quote is found many times faster.
    """
    before = bytes(raw[max(found.start() - 2, 0) : found.start()])
    return found.start() - (2 if before == b", " else before.endswith(b","))


def _first_words(messages: Sequence[Message]) -> list[str]:
    """Return the texts of the first user message, which identify a conversation."""
    for message in messages:
        if message.role == "user":
            return [getattr(block, "text", "") for block in message.content]
    return []
