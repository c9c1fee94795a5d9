"""Plain requests, on their direct way to one upstream's model.

All of a request but its conversation is settings, and an agent's are the same in each of its requests. What the general
way makes of them is therefore learnt once, from an example: a request with the same settings and a conversation of the
same shape, a few words long. In what it makes of the example, the place of the conversation is found, and that is where
every later one goes.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from toolglot.dialect import Capabilities
from toolglot.direct.cache_marks import find_places, mark_turns
from toolglot.direct.lines import Line
from toolglot.direct.lines import learnt as learnt_lines
from toolglot.direct.lines import told as told_lines
from toolglot.direct.plain import Direct, PlainRequest, Turn, Way
from toolglot.direct.survey import Shape, Survey, example, example_of_system, survey
from toolglot.errors import ToolglotError
from toolglot.ir import Request, Tool
from toolglot.passes import OriginalTool
from toolglot.passes.cache_marks import plan_marks, tools_size
from toolglot.receipt import Loss
from toolglot.translate import Exchange
from toolglot.wire import json

LARGEST = 256 * 1024
"""Bytes of a request. Larger ones are read and translated beside the loop, the general way."""
KEPT = 64
"""Settings that are kept in mind, of one client's dialect and one upstream's model."""
KEPT_BYTES = 4 * 1024 * 1024
LARGEST_SETTINGS = 128 * 1024
CREDIT = 16
"""So often may be learnt what is not used then."""
SEEN = 1024

_Key: TypeAlias = tuple[str, bool | UnsetType, tuple[Any, ...], int]


class Learnt(Struct, frozen=True):
    """What the general way made of an example. `pieces` stand around the conversation; none: the client's own bytes go
    through as they are."""

    pieces: tuple[bytes, ...]
    tools: frozenset[str]
    lines: tuple[Loss, ...]
    """The receipt of every such request, without what it says of single turns."""
    all_lines: tuple[Line, ...]
    asked: Request
    sent: Request
    """The example, decoded and as the upstream gets it: its settings are those of every such request."""
    originals: dict[str, OriginalTool]
    """All tools, as an answer may call them."""
    model: str
    path: str
    ids: re.Pattern[str]
    """The ids of calls that the upstream takes."""
    client_ids: re.Pattern[str]
    """Those that the client takes."""
    renamed: bool
    """The client's bytes go through, but for the model's name."""
    way: Way
    blank: bool
    """Results of mere spaces are nothing special."""
    tools_size: int = 0
    """Characters of the tools."""
    marked: Learnt | None = None
    """The same where breakpoints of the prompt cache are set for the client; None where they never are."""


class _Entry(Struct):
    settings: tuple[Raw, ...]
    learnt: Learnt | None
    size: int
    used: bool = False
    """Since it was last a candidate for being forgotten."""


class Translated(Struct, gc=False):
    """A request that went the direct way, and what its answer needs to know of it. `lines` are its receipt."""

    plain: PlainRequest
    learnt: Learnt
    body: bytes
    call_ids: set[str]
    lines: tuple[Loss, ...]


class DirectRequests:
    """Requests of one dialect's clients to one model of an upstream. `exchange` makes a new one the general way; there
    must be nothing to it but the usual passes."""

    def __init__(self, exchange: Callable[[], Exchange]) -> None:
        self._exchange = exchange
        made = exchange()
        self._reads, self._writes = made.client.direct, made.upstream.direct
        self._owner = made.upstream.name
        self._own = made.client.name == made.upstream.name
        self._issuer = made.bound_to
        self._marks = made.cache_marks
        self._minimum = made.can.cache_minimum
        self.by_marks = not self._own and made.can.cache_by_marks and made.cache_marks != "never"
        """Breakpoints of the prompt cache may be set for the client."""
        self._learnt: OrderedDict[_Key, list[_Entry]] = OrderedDict()
        self.kept = self._bytes = 0
        self._credit = CREDIT
        self._seen: set[int] = set()

    def translate(self, body: bytes) -> Translated | None:
        """The upstream's request; None for one that has to go the general way."""
        read = None if self._reads is None or len(body) > LARGEST else self._reads.read_request
        plain = None if read is None else read(body)
        return None if plain is None else self.translate_plain(plain, body)

    def translate_plain(
        self, plain: PlainRequest, body: bytes, repeats: Callable[[PlainRequest, frozenset[str]], bool] | None = None
    ) -> Translated | None:
        """The same for one that is read already; `body` are its bytes, `LARGEST` at the most. `repeats` tells whether
        its system text and tools (by their names) have come before, a short time ago."""
        if self._reads is None or self._writes is None or not plain.model:
            return None
        found = survey(plain, self._owner, own=self._own, issuer=self._issuer)
        if found is None:
            return None
        turns = found.turns
        learnt = self._of(plain, found, self._reads, self._writes)
        # Are all calls those of known tools, with ids that the upstream takes?
        if learnt is None or not found.names <= learnt.tools or None in map(learnt.ids.fullmatch, found.ids):
            return None
        if (found.blank and not learnt.blank) or (plain.own and learnt.renamed):
            return None
        system: Sequence[Turn] = plain.system
        marked_turns: Sequence[Turn] = turns
        if learnt.marked is not None:
            places = find_places(system, turns, learnt.tools_size)
            plan = plan_marks(
                places.sizes,
                self._minimum,
                self._marks,
                in_loop=bool(found.ids),
                goes_on=places.goes_on,
                repeats=repeats is not None and repeats(plain, learnt.tools),
            )
            if not plan.is_empty:
                learnt = learnt.marked
                system, marked_turns = mark_turns(system, turns, places, plan)
        told = tuple(told_lines(learnt.all_lines, turns)) if learnt.all_lines else learnt.lines
        pieces = learnt.pieces
        if not pieces:
            written = json.replace_member(body, "model", learnt.model) if learnt.renamed else body
            return Translated(plain, learnt, written, found.ids, told)
        members = self._writes.write_conversation(system, marked_turns, learnt.way)
        if len(members) == 1:
            written = b"".join([pieces[0], members[0], pieces[1]])
        else:
            written = b"".join([pieces[0], members[0], pieces[1], members[1], pieces[2]])
        return Translated(plain, learnt, written, found.ids, told)

    def _of(self, plain: PlainRequest, found: Survey, reads: Direct, writes: Direct) -> Learnt | None:
        # To compare settings is cheaper than to hash them. The largest are the tools, which stand last.
        settings = plain.settings
        key = (plain.model, plain.stream, found.marks, len(settings[-1]))
        entries = self._learnt.get(key)
        if entries is None:
            entries = []
        for index, entry in enumerate(entries):
            if entry.settings == settings:
                if index:
                    entries.insert(0, entries.pop(index))
                entry.used = True
                if self._credit < CREDIT:
                    self._credit += 1
                return entry.learnt
        size = sum(map(len, settings))
        if size > LARGEST_SETTINGS or not self._is_worth_it(key, settings):
            return None
        learnt = self._learn(plain, found, reads, writes)
        entries.insert(0, _Entry(tuple([setting.copy() for setting in settings]), learnt, size))
        self._learnt[key] = entries
        self.kept += 1
        self._bytes += size
        while self.kept > KEPT or self._bytes > KEPT_BYTES:
            self._forget()
        return learnt

    def _is_worth_it(self, key: _Key, settings: tuple[Raw, ...]) -> bool:
        """To learn costs several times what a request costs, and is in vain where settings are never the same again.
        So where it has been, it is done when settings come the second time."""
        if self._credit:
            self._credit -= 1
            return True
        mark = hash((key, b"".join(map(bytes, settings))))
        if mark in self._seen:
            self._seen.remove(mark)
            return True
        if len(self._seen) >= SEEN:
            self._seen.clear()
        self._seen.add(mark)
        return False

    def _forget(self) -> None:
        """Forget what has not been used for long. (To note each use in the order of these would cost more.)"""
        oldest = next(iter(self._learnt))
        while (entries := self._learnt[oldest])[-1].used:
            entries[-1].used = False
            self._learnt.move_to_end(oldest)
            oldest = next(iter(self._learnt))
        self._bytes -= entries.pop().size
        self.kept -= 1
        if not entries:
            del self._learnt[oldest]

    def _learn(self, plain: PlainRequest, like: Survey, reads: Direct, writes: Direct) -> Learnt | None:
        shape = like.shape
        tools = self._tools(plain, reads)
        if tools is None or (shape.has_results and not tools):
            return None
        turns = list(example(shape, self._owner, min(tools, default=""), like.state))
        system = example_of_system(shape)
        members = _members(plain, reads, reads.write_conversation(system, turns, reads.as_client))
        exchange, written = self._translated(b"{%b}" % b",".join(members))
        # What comes first on the wire, receipts may tell first. The order is not in the key, so it must not matter.
        other, again = self._translated(b"{%b}" % b",".join(reversed(members)))
        if exchange is None or other is None or list(exchange.receipt) != list(other.receipt):
            return None
        read = reads.read_request(b"{%b}" % b",".join(members)) if reads.read_request is not None else None
        asked, sent = exchange.asked, exchange.sent
        if read is None or asked is None or sent is None or (found := survey(read, self._owner, own=self._own)) is None:
            return None
        told = learnt_lines(exchange.receipt, found.turns)
        place = _place(exchange, written, again, (read.system, found.turns), writes)
        if told is None or place is None:
            return None
        pieces, way = place
        learnt = Learnt(
            pieces=pieces,
            renamed=exchange.verbatim and sent.model != plain.model,
            tools=tools,
            lines=tuple(entry.line for entry in told if entry.slot is None),
            all_lines=told if any(entry.slot is not None for entry in told) else (),
            asked=asked,
            sent=sent,
            originals={tool.name: OriginalTool(tool.name) for tool in asked.tools if isinstance(tool, Tool)},
            model=sent.model,
            path=exchange.path,
            ids=_ids(exchange.can),
            client_ids=_ids(exchange.client.can),
            way=way,
            blank=not self._own or exchange.can.empty_text,
            tools_size=tools_size(sent.tools),
        )
        if not self.by_marks:
            return learnt
        marked = self._learn_marked(learnt, members, (read.system, found.turns), writes)
        return None if marked is None else replace(learnt, marked=marked)

    def _learn_marked(
        self, learnt: Learnt, members: list[bytes], said: tuple[list[Turn], list[Turn]], writes: Direct
    ) -> Learnt | None:
        """What the general way makes of the same example with a breakpoint on the tools."""
        exchange, written = self._translated(b"{%b}" % b",".join(members), marked=True)
        if exchange is None or (place := _place(exchange, written, written, said, writes)) is None:
            return None
        told = learnt_lines(exchange.receipt, said[1])
        if told is None or place[1] != learnt.way:
            return None
        return replace(
            learnt,
            pieces=place[0],
            lines=tuple(entry.line for entry in told if entry.slot is None),
            all_lines=told if any(entry.slot is not None for entry in told) else (),
        )

    def _translated(self, body: bytes, *, marked: bool = False) -> tuple[Exchange | None, bytes]:
        """`marked`: with the breakpoint of the prompt cache that belongs to the tools, else without any of our own."""
        exchange = self._exchange()
        exchange.marks_tools_only = marked
        if not marked:
            exchange.cache_marks = "never"
        try:
            return exchange, exchange.request(body)
        except ToolglotError:
            return None, b""

    def _tools(self, plain: PlainRequest, reads: Direct) -> frozenset[str] | None:
        """The names of the tools; None if the general way has more to do about them than to write them."""
        words = reads.write_conversation((), list(example(Shape(), self._owner, "", {})), reads.as_client)
        exchange, _ = self._translated(b"{%b}" % b",".join(_members(plain, reads, words)))
        if exchange is None or exchange.asked is None:
            return None
        tools = exchange.plain_tools
        if tools is None or self._own:
            return tools
        # A tool that is deferred is offered once it has been called.
        return tools - {tool.name for tool in exchange.asked.tools if isinstance(tool, Tool) and tool.deferred}


def _members(plain: PlainRequest, reads: Direct, conversation: Sequence[bytes]) -> list[bytes]:
    """The same settings with another conversation."""
    members = [b'"model":' + json.encode(plain.model)]
    if plain.stream is not UNSET:
        members.append(b'"stream":' + json.encode(plain.stream))
    named = zip(reads.settings, plain.settings, strict=True)
    members += [b'"%b":%b' % (name.encode(), bytes(raw)) for name, raw in named if len(raw)]
    return [*members, *conversation]


def _place(
    exchange: Exchange, written: bytes, again: bytes, said: tuple[list[Turn], list[Turn]], writes: Direct
) -> tuple[tuple[bytes, ...], Way] | None:
    """What stands around the conversation, and how it is written; None where that cannot be told."""
    if exchange.verbatim:
        return (), Way()
    # A dialect that writes its own again keeps to the shapes that its client has chosen; these are not in our records.
    if exchange.client.name == exchange.upstream.name or written != again:
        return None
    for way in writes.ways:
        pieces = _around(written, writes.write_conversation(*said, way))
        if pieces is not None:
            return pieces, way
    return None


def _around(written: bytes, members: tuple[bytes, ...]) -> tuple[bytes, ...] | None:
    """What stands before, between and behind these members; None where that cannot be told."""
    pieces = []
    for member in members:
        before, found, written = written.partition(member)
        if not found or member in written:
            return None
        pieces.append(before)
    return *pieces, written


def _ids(can: Capabilities) -> re.Pattern[str]:
    return re.compile(rf"(?=.{{0,{can.id_length}}}\Z)(?:{can.id_pattern})", re.DOTALL)
