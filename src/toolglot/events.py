"""A response as a stream of events: their types, their grammar, and the accumulator.

    stream  =  Start  block*  (Finish | Fault)          a Fault may also replace Start
    block   =  Open(index)  Delta(index)*  Close(index)

Indices count up from 0 in the order of Open. A decoder may keep several blocks open at once, as some upstreams do.
After `passes/sequence.py`, one block is open at a time, and encoders rely on it.

A non-streamed response is `fold(events)`; a simulated stream is `unfold(response)`. Code that handles responses is
therefore written once, for events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct

from toolglot.errors import ApiError, StreamError
from toolglot.ir import (
    Block,
    Citation,
    Native,
    Opaque,
    Refusal,
    Response,
    Stop,
    Text,
    Thinking,
    TokenLogprob,
    ToolCall,
    Usage,
    replace,
)

__all__ = [
    "Checker",
    "Close",
    "Delta",
    "Event",
    "Fault",
    "Finish",
    "Fold",
    "Open",
    "Start",
    "closed",
    "fold",
    "unfold",
]


class Start(Struct, frozen=True, kw_only=True):
    id: str = ""
    model: str = ""
    created: int | None = None
    usage: Usage | None = None
    service_tier: str | None = None
    native: Native = {}


class Open(Struct, frozen=True):
    """A block begins. Its text (or arguments) is empty and arrives in deltas. `block` has all other known data.

    Media, tool results and opaque blocks have no deltas: `block` is complete, except for members of an opaque block
    that are known only at its end.
    """

    index: int
    block: Block


class Delta(Struct, frozen=True, gc=False):
    """More text, thinking, refusal or argument text for an open block. Never empty. `logprobs` belong to the tokens of
    a text."""

    index: int
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


class Close(Struct, frozen=True, kw_only=True):
    """A block is complete; the fields hold data that is known only at its end. `complete` is False for a truncated
    call. For an opaque block, `native` has members to add or change, under its own dialect. `logprobs` has the log
    probabilities that no delta had."""

    index: int
    citations: tuple[Citation, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    complete: bool = True
    native: Native = {}


class Finish(Struct, frozen=True, kw_only=True):
    """The response has ended. `completed` is the time in Unix seconds. `service_tier` overrides that of `Start`."""

    stop: Stop
    usage: Usage | None = None
    completed: int | None = None
    service_tier: str | None = None
    native: Native = {}


class Fault(Struct, frozen=True):
    """The upstream failed. Nothing follows."""

    error: ApiError


Event: TypeAlias = Start | Open | Delta | Close | Finish | Fault

HAS_DELTAS = (Text, Thinking, Refusal, ToolCall)


def merge_native(first: Native, second: Native) -> Native:
    """Merge native fields; the second overrides the first, field by field."""
    if not second:
        return first
    if not first:
        return second
    return {**first, **{owner: {**first.get(owner, {}), **fields} for owner, fields in second.items()}}


def closed(block: Block, text: str, close: Close, logprobs: Iterable[TokenLogprob] = ()) -> Block:
    """Build the complete block from its opened form, its collected text and tokens, and its `Close` event."""
    if isinstance(block, Text):
        return replace(
            block,
            text=block.text + text,
            citations=block.citations + close.citations,
            logprobs=(*block.logprobs, *logprobs, *close.logprobs),
            native=merge_native(block.native, close.native),
        )
    if isinstance(block, (Thinking, Refusal)):
        return replace(block, text=block.text + text, native=merge_native(block.native, close.native))
    if isinstance(block, ToolCall):
        return replace(
            block,
            arguments=block.arguments + text,
            complete=block.complete and close.complete,
            native=merge_native(block.native, close.native),
        )
    if isinstance(block, Opaque) and isinstance(block.value, dict) and block.dialect in close.native:
        return Opaque(block.dialect, {**block.value, **close.native[block.dialect]})
    return block


class Fold:
    """Accumulates events into one `Response`. Text is collected in pieces and joined once, so the work is linear."""

    __slots__ = ("_blocks", "_finish", "_logprobs", "_pieces", "_start", "fault")

    def __init__(self) -> None:
        self._start = Start()
        self._finish: Finish | None = None
        self.fault: ApiError | None = None
        self._blocks: dict[int, Block] = {}
        self._pieces: dict[int, list[str]] = {}  # of the open blocks
        self._logprobs: dict[int, list[TokenLogprob]] = {}  # of the open blocks that have some

    def add(self, event: Event) -> None:
        match event:
            case Delta(index=index, text=text, logprobs=logprobs):
                self._pieces[index].append(text)
                if logprobs:
                    self._logprobs.setdefault(index, []).extend(logprobs)
            case Open(index=index, block=block):
                self._blocks[index] = block
                self._pieces[index] = []
            case Close(index=index):
                self._close(event, self._pieces.pop(index))
            case Start():
                self._start = event
            case Finish():
                self._finish = event
            case Fault(error=error):
                self.fault = error

    def _close(self, close: Close, pieces: list[str]) -> None:
        logprobs = self._logprobs.pop(close.index, ())
        self._blocks[close.index] = closed(self._blocks[close.index], "".join(pieces), close, logprobs)

    @property
    def content(self) -> tuple[Block, ...]:
        """The blocks so far. An open one does not have its text yet."""
        return tuple(self._blocks.values())

    def response(self) -> Response:
        """Build the response. A block that is still open counts as truncated.

        Raises:
            StreamError: there was a Fault, or no Finish.
        """
        if self._finish is None:
            why = self.fault.message if self.fault else "there is no Finish"
            raise StreamError("the response is not complete", why)
        for index, pieces in self._pieces.items():
            self._close(Close(index=index, complete=False), pieces)
        self._pieces.clear()
        usage = self._finish.usage or self._start.usage
        return Response(
            id=self._start.id,
            model=self._start.model,
            created=self._start.created,
            completed=self._finish.completed,
            service_tier=self._finish.service_tier or self._start.service_tier,
            content=self.content,
            stop=self._finish.stop,
            usage=usage,
            native=merge_native(self._start.native, self._finish.native),
        )


def fold(events: Iterable[Event]) -> Response:
    """Accumulate a complete stream of events into a response."""
    accumulator = Fold()
    for event in events:
        accumulator.add(event)
    return accumulator.response()


def ends(response: Response) -> tuple[Start, Finish]:
    """Return the `Start` and `Finish` events of a response."""
    start = Start(id=response.id, model=response.model, created=response.created, service_tier=response.service_tier)
    finish = Finish(stop=response.stop, usage=response.usage, completed=response.completed, native=response.native)
    return start, finish


def unfold(response: Response) -> Iterator[Event]:
    """Yield the shortest stream of events that folds into this response."""
    start, finish = ends(response)
    yield start
    yield from unfold_content(response.content)
    yield finish


def unfold_content(content: Iterable[Block]) -> Iterator[Open | Delta | Close]:
    """Unfold the content of a response."""
    for index, block in enumerate(content):
        match block:
            case Text(text=text, citations=citations, logprobs=logprobs):
                yield Open(index, replace(block, text="", citations=(), logprobs=()))
                if text:
                    yield Delta(index, text, logprobs)
                yield Close(index=index, citations=citations, logprobs=() if text else logprobs)
            case Thinking(text=text) | Refusal(text=text):
                yield Open(index, replace(block, text=""))
                if text:
                    yield Delta(index, text)
                yield Close(index=index)
            case ToolCall(arguments=text, complete=complete):
                yield Open(index, replace(block, arguments="", complete=True))
                if text:
                    yield Delta(index, text)
                yield Close(index=index, complete=complete)
            case _:
                yield Open(index, block)
                yield Close(index=index)


class Checker:
    """Checks the grammar. Feed it every event. It raises on the first invalid one.

    `sequential` also requires that at most one block is open at a time, as encoders do.
    """

    __slots__ = ("_ended", "_next", "_open", "_sequential", "_started")

    def __init__(self, *, sequential: bool = False) -> None:
        self._sequential = sequential
        self._started = False
        self._ended = False
        self._next = 0
        self._open: dict[int, Block] = {}

    def add(self, event: Event) -> None:
        if self._ended:
            raise StreamError("nothing follows Finish or Fault", repr(event))
        if isinstance(event, Fault):
            self._ended = True
            return
        if isinstance(event, Start):
            if self._started:
                raise StreamError("there is one Start", repr(event))
            self._started = True
            return
        if not self._started:
            raise StreamError("Start comes first", repr(event))
        match event:
            case Open(index=index, block=block):
                if index != self._next:
                    raise StreamError("indices count up from 0", f"expected {self._next}, got {index}")
                if self._sequential and self._open:
                    raise StreamError("one block is open at a time", f"block {index} opens inside {list(self._open)}")
                self._next += 1
                self._open[index] = block
            case Delta(index=index, text=text):
                if index not in self._open:
                    raise StreamError("a delta belongs to an open block", f"block {index} is not open")
                if not isinstance(self._open[index], HAS_DELTAS):
                    raise StreamError("this kind of block has no deltas", repr(self._open[index]))
                if not text:
                    raise StreamError("a delta is never empty", f"block {index}")
            case Close(index=index):
                if index not in self._open:
                    raise StreamError("only an open block closes", f"block {index} is not open")
                del self._open[index]
            case Finish():
                if self._open:
                    raise StreamError("every block closes before Finish", f"open: {list(self._open)}")
                self._ended = True

    def close(self) -> None:
        """Check that the stream has ended."""
        if not self._ended:
            raise StreamError("a stream ends in Finish or Fault")
