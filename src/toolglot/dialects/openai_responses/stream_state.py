"""State of the stream decoder: the frames that it reads, its items, and the blocks that it writes."""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct
from msgspec.json import Decoder
from msgspec.json import encode as encode_json

from toolglot.dialects.openai_responses.blocks import decode_annotation
from toolglot.dialects.openai_responses.native import NAME
from toolglot.dialects.openai_responses.wire import Annotation
from toolglot.errors import DecodeError, expected
from toolglot.events import HAS_DELTAS, Close, Delta, Event, Open, Start
from toolglot.ir import Block, Citation, Refusal, Text, Thinking, TokenLogprob, ToolCall, replace
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.stream_budget import StreamBudget
from toolglot.wire.typed import ValueReader

NO_VALUE = Raw(b"")


class ResponsesFrame(Struct):
    """The fields that handlers read. Objects stay raw until a handler needs them."""

    type: str = ""
    delta: Any = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    item_id: str | None = None
    logprobs: Any = None
    text: Any = None
    refusal: Any = None
    arguments: Any = None
    input: Any = None
    annotation: Raw = NO_VALUE
    part: Raw = NO_VALUE
    item: Raw = NO_VALUE
    response: Raw = NO_VALUE


# Progress of items that are carried when they are done, and other events without content.
IGNORED_EVENTS = (
    "response.in_progress",
    "response.queued",
    "response.web_search_call.",
    "response.file_search_call.",
    "response.code_interpreter_call",
    "response.image_generation_call.",
    "response.mcp_",
    "response.shell_call_",
    "response.apply_patch_call",
    "response.tool_search_call",
    "response.compaction",
    "response.metadata",
    "keepalive",
    "ping",
    "codex.",
)


class TextBuffer:
    """Collects many small text deltas in a few large strings, because each string costs fifty bytes itself."""

    __slots__ = ("_few", "_many")

    def __init__(self) -> None:
        self._few: list[str] = []
        self._many: list[str] = []

    def add(self, text: str) -> None:
        self._many.append(text)
        if len(self._many) == 1024:
            self._few.append("".join(self._many))
            self._many.clear()

    def text(self) -> str:
        return "".join((*self._few, *self._many))


class OpenBlock:
    """A block that is open or was open."""

    __slots__ = ("annotations", "buffer", "call", "index", "open", "sound", "tokens", "whole")

    def __init__(self, index: int, call: str | None) -> None:
        self.index = index
        self.call = call  # the kind of a call; None for other blocks
        self.sound = True  # the deltas agree with the final text
        self.whole: str | None = None  # the final text
        self.buffer = TextBuffer()
        self.annotations: list[Annotation] = []
        self.tokens = 0  # number of log probabilities in the deltas
        self.open = True


class StreamItem:
    """An item of the output, and its blocks: one for each content part, or one (at 0) for any other item."""

    __slots__ = (
        "announced",
        "displaced",
        "done",
        "fields",
        "held",
        "kind",
        "listed",
        "pieces",
        "place",
        "slot",
        "slots",
    )

    def __init__(self, fields: dict[str, Any], kind: str, place: int) -> None:
        self.announced = ""  # arguments of a function call that came with its announcement, until there are others
        self.fields = fields
        self.kind = kind
        self.place = place
        self.pieces: dict[int, OpenBlock] = {}
        self.held: list[str] = []  # arguments of a call whose name is unknown so far
        self.slots: set[tuple[str, int]] = set()  # parts of a reasoning item that were written
        self.slot: tuple[str, int] | None = None  # the latest of them
        self.displaced = False  # another item was announced at its position
        self.done = False
        self.listed = False  # it is also in the final output


_decoder = Decoder(ResponsesFrame)

EMPTY_TEXT = Text(text="")
EMPTY_REFUSAL = Refusal(text="")
_EMPTY_PARTS: dict[str, Text | Refusal] = {"output_text": EMPTY_TEXT, "refusal": EMPTY_REFUSAL}


def read_frame(data: bytes) -> ResponsesFrame:
    return json.decode_typed(data, _decoder)


def read_object(raw: Raw, where: str) -> dict[str, Any]:
    """Decode an object inside a frame, once a handler needs it."""
    value = json.decode_frame(bytes(raw))
    if type(value) is not dict:
        raise expected(where, "an object", value)
    return value


def read_annotation(raw: Raw, where: str) -> Annotation:
    return _ANNOTATIONS.read_value(json.decode_frame(bytes(raw)), where)


_ANNOTATIONS = ValueReader[Annotation](Annotation)


def empty_part(part: dict[str, Any]) -> Text | Refusal | None:
    """Return the initial block of a content part; None for a part of another kind, which is carried as a whole."""
    kind = part.get("type")
    return _EMPTY_PARTS.get(kind) if isinstance(kind, str) else None


def delta_text(block: Block) -> str:
    """Return the delta text of this block."""
    if not isinstance(block, HAS_DELTAS):
        return ""
    return block.arguments if isinstance(block, ToolCall) else block.text


class BlockWriter:
    """Writes the events: blocks are opened, extended and closed only here."""

    __slots__ = ("_next", "_receipt", "budget", "called", "events", "refused", "started")

    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt
        self._next = 0
        self.budget = StreamBudget()
        self.events: list[Event] = []
        self.started = False
        self.called = False
        self.refused = False

    def take_events(self) -> list[Event]:
        events, self.events = self.events, []
        return events

    def start(self, response_id: str = "", model: str = "", created: int | None = None) -> None:
        if not self.started:
            self.started = True
            self.events.append(Start(id=response_id, model=model, created=created))

    def open(self, item: StreamItem, place: int, block: Block) -> OpenBlock:
        self.start()
        self.budget.add_block()
        piece = item.pieces[place] = OpenBlock(self._next, block.kind if isinstance(block, ToolCall) else None)
        self._next += 1
        self.called = self.called or isinstance(block, ToolCall)
        self.refused = self.refused or isinstance(block, Refusal)
        self.events.append(Open(piece.index, block))
        return piece

    def open_call(self, item: StreamItem, call: ToolCall) -> OpenBlock:
        item_id = item.fields.get("id")
        native = {NAME: {"id": item_id}} if isinstance(item_id, str) else {}
        piece = self.open(item, 0, replace(call, arguments="", complete=True, native=native))
        for text in self.take_held(item):
            self.add_text(piece, text)
        return piece

    def hold(self, item: StreamItem, text: str) -> None:
        """Buffer arguments of a call that cannot be opened yet."""
        self.budget.hold(len(text))
        item.held.append(text)

    def take_held(self, item: StreamItem) -> list[str]:
        held, item.held = item.held, []
        self.budget.release(sum(map(len, held)))
        return held

    def write_whole(self, item: StreamItem, place: int, block: Block) -> None:
        """Write a block that arrives at once."""
        if isinstance(block, ToolCall):
            piece = self.open_call(item, block)
        elif isinstance(block, Text):
            piece = self.open(item, place, replace(block, text="", citations=(), logprobs=()))
        elif isinstance(block, (Thinking, Refusal)):
            piece = self.open(item, place, replace(block, text=""))
        else:
            piece = self.open(item, place, block)
        self.settle(piece, delta_text(block))
        self.close(piece, block)

    def add_text(self, piece: OpenBlock, text: str, logprobs: tuple[TokenLogprob, ...] = ()) -> None:
        self.budget.hold(len(text))
        piece.buffer.add(text)
        piece.tokens += len(logprobs)
        self.events.append(Delta(piece.index, text, logprobs))

    def settle(self, piece: OpenBlock, text: Any) -> None:
        """Compare the final text with the deltas, and write the missing part."""
        if not piece.open or not isinstance(text, str) or not text or text == piece.whole:
            return
        said = piece.buffer.text()
        if piece.whole is None and text.startswith(said):
            if len(text) > len(said):
                self.add_text(piece, text[len(said) :])
        elif piece.call is None or _same_json(said, text):
            # Some servers reformat the arguments at the end, with other whitespace.
            self._receipt.note("stream", "deltas and their end differ", "the deltas were taken")
        else:
            # The deltas cannot be retracted, and it is unknown which of the two is right.
            piece.sound = False
            self._receipt.loss("stream", "deltas and their end differ", "the call is marked as incomplete")
        piece.whole = text

    def close(self, piece: OpenBlock, block: Block) -> None:
        """Close a block; `block` is its final form."""
        if not piece.open:
            return
        piece.open = False
        citations = block.citations if isinstance(block, Text) else ()
        complete = not isinstance(block, ToolCall) or block.complete
        citations = citations or _citations(piece)
        tokens = block.logprobs[piece.tokens :] if isinstance(block, Text) else ()
        close = Close(index=piece.index, citations=citations, logprobs=tokens, complete=complete, native=block.native)
        self._write_close(piece, close)

    def close_early(self, piece: OpenBlock, *, complete: bool) -> None:
        """Close a block that gets no final form."""
        piece.open = False
        self._write_close(piece, Close(index=piece.index, citations=_citations(piece), complete=complete))

    def _write_close(self, piece: OpenBlock, close: Close) -> None:
        self.events.append(close if piece.sound else replace(close, complete=False))
        self.budget.release(len(piece.buffer.text()))
        piece.buffer = TextBuffer()


def _same_json(first: str, second: str) -> bool:
    """Return whether two texts are the same JSON, apart from whitespace and the order of keys."""
    try:
        values = (json.decode_frame(text.encode()) for text in (first, second))
        return len({encode_json(value, order="sorted") for value in values}) == 1
    except (DecodeError, UnicodeEncodeError, RecursionError):
        return False


def _citations(piece: OpenBlock) -> tuple[Citation, ...]:
    """Return citations from annotations that arrived in separate events."""
    return tuple(decode_annotation(annotation) for annotation in piece.annotations)
