"""What the stream decoder reads, what it remembers, and the blocks that it writes."""

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

NOTHING = Raw(b"")


class Frame(Struct):
    """The fields that some handler reads. Objects stay raw until one does."""

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
    annotation: Raw = NOTHING
    part: Raw = NOTHING
    item: Raw = NOTHING
    response: Raw = NOTHING


# Progress of items that are carried whole when they are done, and other things that say nothing.
SILENT = (
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


class Said:
    """Text that has come in many small deltas: kept in few large strings, each of which costs fifty bytes itself."""

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


class Piece:
    """A block that is open, or was."""

    __slots__ = ("annotations", "call", "index", "open", "said", "sound", "tokens", "whole")

    def __init__(self, index: int, call: str | None) -> None:
        self.index = index
        self.call = call  # of a call, its kind
        self.sound = True  # what was said is what the end tells
        self.whole: str | None = None  # the text as the end has told it
        self.said = Said()
        self.annotations: list[Annotation] = []
        self.tokens = 0  # how many log probabilities deltas have brought
        self.open = True


class Item:
    """An item of the output, and the blocks it has become: one per content part, one (at 0) for anything else."""

    __slots__ = ("displaced", "done", "fields", "held", "kind", "listed", "pieces", "place", "slot", "slots")

    def __init__(self, fields: dict[str, Any], kind: str, place: int) -> None:
        self.fields = fields
        self.kind = kind
        self.place = place
        self.pieces: dict[int, Piece] = {}
        self.held: list[str] = []  # arguments of a call whose name is not known yet
        self.slots: set[tuple[str, int]] = set()  # the parts of a reasoning item that were written
        self.slot: tuple[str, int] | None = None  # the latest of them
        self.displaced = False  # another item was announced at its place
        self.done = False
        self.listed = False  # it is in the final output, too


_decoder = Decoder(Frame)

EMPTY_TEXT = Text(text="")
EMPTY_REFUSAL = Refusal(text="")
_EMPTY_PARTS: dict[str, Text | Refusal] = {"output_text": EMPTY_TEXT, "refusal": EMPTY_REFUSAL}


def read_frame(data: bytes) -> Frame:
    return json.decode_typed(data, _decoder)


def read_object(raw: Raw, where: str) -> dict[str, Any]:
    """An object inside a frame, decoded only now that a handler wants it."""
    value = json.decode_frame(bytes(raw))
    if type(value) is not dict:
        raise expected(where, "an object", value)
    return value


def read_annotation(raw: Raw, where: str) -> Annotation:
    return _ANNOTATIONS.read_value(json.decode_frame(bytes(raw)), where)


_ANNOTATIONS = ValueReader[Annotation](Annotation)


def empty_part(part: dict[str, Any]) -> Text | Refusal | None:
    """The block that a content part begins as; None for a part of another kind, which is carried whole."""
    kind = part.get("type")
    return _EMPTY_PARTS.get(kind) if isinstance(kind, str) else None


def text_of(block: Block) -> str:
    """What deltas say of this block."""
    if not isinstance(block, HAS_DELTAS):
        return ""
    return block.arguments if isinstance(block, ToolCall) else block.text


class Blocks:
    """The events that come out: blocks are opened, said and closed here, and nowhere else."""

    __slots__ = ("_next", "_receipt", "budget", "called", "events", "refused", "started")

    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt
        self._next = 0
        self.budget = StreamBudget()
        self.events: list[Event] = []
        self.started = False
        self.called = False
        self.refused = False

    def take(self) -> list[Event]:
        events, self.events = self.events, []
        return events

    def start(self, response_id: str = "", model: str = "", created: int | None = None) -> None:
        if not self.started:
            self.started = True
            self.events.append(Start(id=response_id, model=model, created=created))

    def open(self, item: Item, place: int, block: Block) -> Piece:
        self.start()
        self.budget.add_block()
        piece = item.pieces[place] = Piece(self._next, block.kind if isinstance(block, ToolCall) else None)
        self._next += 1
        self.called = self.called or isinstance(block, ToolCall)
        self.refused = self.refused or isinstance(block, Refusal)
        self.events.append(Open(piece.index, block))
        return piece

    def open_call(self, item: Item, call: ToolCall) -> Piece:
        item_id = item.fields.get("id")
        native = {NAME: {"id": item_id}} if isinstance(item_id, str) else {}
        piece = self.open(item, 0, replace(call, arguments="", complete=True, native=native))
        for text in self.take_held(item):
            self.say(piece, text)
        return piece

    def hold(self, item: Item, text: str) -> None:
        """Arguments of a call that cannot be opened yet."""
        self.budget.hold(len(text))
        item.held.append(text)

    def take_held(self, item: Item) -> list[str]:
        held, item.held = item.held, []
        self.budget.release(sum(map(len, held)))
        return held

    def whole(self, item: Item, place: int, block: Block) -> None:
        """A block that comes all at once."""
        if isinstance(block, ToolCall):
            piece = self.open_call(item, block)
        elif isinstance(block, Text):
            piece = self.open(item, place, replace(block, text="", citations=(), logprobs=()))
        elif isinstance(block, (Thinking, Refusal)):
            piece = self.open(item, place, replace(block, text=""))
        else:
            piece = self.open(item, place, block)
        self.settle(piece, text_of(block))
        self.close(piece, block)

    def say(self, piece: Piece, text: str, logprobs: tuple[TokenLogprob, ...] = ()) -> None:
        self.budget.hold(len(text))
        piece.said.add(text)
        piece.tokens += len(logprobs)
        self.events.append(Delta(piece.index, text, logprobs))

    def settle(self, piece: Piece, text: Any) -> None:
        """The whole text is known: say what the deltas left out."""
        if not piece.open or not isinstance(text, str) or not text or text == piece.whole:
            return
        said = piece.said.text()
        if piece.whole is None and text.startswith(said):
            if len(text) > len(said):
                self.say(piece, text[len(said) :])
        elif piece.call is None or _same_json(said, text):
            # Some servers write the arguments anew at the end, with other whitespace.
            self._receipt.note("stream", "deltas and their end differ", "the deltas were taken")
        else:
            # What was said cannot be unsaid, and which of the two is meant, nobody can tell.
            piece.sound = False
            self._receipt.loss("stream", "deltas and their end differ", "the call is marked as incomplete")
        piece.whole = text

    def close(self, piece: Piece, block: Block) -> None:
        """The block is whole, and `block` is what it has become."""
        if not piece.open:
            return
        piece.open = False
        citations = block.citations if isinstance(block, Text) else ()
        complete = not isinstance(block, ToolCall) or block.complete
        citations = citations or _citations(piece)
        tokens = block.logprobs[piece.tokens :] if isinstance(block, Text) else ()
        close = Close(index=piece.index, citations=citations, logprobs=tokens, complete=complete, native=block.native)
        self._closed(piece, close)

    def abandon(self, piece: Piece, *, complete: bool) -> None:
        """Nothing more will be said of the block."""
        piece.open = False
        self._closed(piece, Close(index=piece.index, citations=_citations(piece), complete=complete))

    def _closed(self, piece: Piece, close: Close) -> None:
        self.events.append(close if piece.sound else replace(close, complete=False))
        self.budget.release(len(piece.said.text()))
        piece.said = Said()


def _same_json(first: str, second: str) -> bool:
    """Do two texts say the same, whatever their whitespace and the order of their keys?"""
    try:
        values = (json.decode_frame(text.encode()) for text in (first, second))
        return len({encode_json(value, order="sorted") for value in values}) == 1
    except (DecodeError, UnicodeEncodeError, RecursionError):
        return False


def _citations(piece: Piece) -> tuple[Citation, ...]:
    """From the annotations that came on their own."""
    return tuple(decode_annotation(annotation) for annotation in piece.annotations)
