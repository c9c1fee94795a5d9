"""Events -> the event stream of a response, as its strictest readers want it.

Codex reads only `output_item.done` and insists on `response.completed`; the official SDKs need `response.created`,
every `added` and `done` with stable ids, and the whole output once more at the end. So everything is sent. Each block
is an item of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Raw, Struct
from msgspec.json import Decoder

from toolglot.dialect import StreamEncoder
from toolglot.dialects.openai_responses.blocks import is_part
from toolglot.dialects.openai_responses.errors import encode_failure
from toolglot.dialects.openai_responses.items import arguments_text, notes_of
from toolglot.dialects.openai_responses.native import NAME
from toolglot.dialects.openai_responses.output import ItemIds, encode_output_item, prefix_of, wanted_id
from toolglot.dialects.openai_responses.response import (
    NO_ID,
    finished,
    incomplete_reason,
    repeated,
    response_head,
    unfinished,
)
from toolglot.errors import ApiError, DecodeError
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start, closed, merge_native
from toolglot.ir import Block, Opaque, Refusal, Request, Response, Text, Thinking, TokenLogprob, ToolCall, native_of
from toolglot.receipt import Receipt
from toolglot.wire import json, sse
from toolglot.wire.delta_template import DeltaTemplate
from toolglot.wire.framing import EVENTS
from toolglot.wire.openai_logprobs import write_logprobs

_KEEPALIVE = b": keepalive\n\n"

_TERMINAL = {"incomplete": "response.incomplete", "failed": "response.failed"}


class _Row(Struct, frozen=True):
    """How one kind of block is streamed: the events of its text, and of the part that the text is in, if any."""

    event: str  # …`.delta` and …`.done`
    whole: str  # the member of …`.done` that holds the whole text
    index: str | None = None
    part_event: str | None = None  # …`.added` and …`.done`
    part_type: str = ""
    extra: bytes = b""


_TEXT = _Row(
    "response.output_text", "text", "content_index", "response.content_part", "output_text", extra=b',"logprobs":[]'
)
_REFUSAL = _Row("response.refusal", "refusal", "content_index", "response.content_part", "refusal")
_SUMMARY = _Row(
    "response.reasoning_summary_text", "text", "summary_index", "response.reasoning_summary_part", "summary_text"
)
_REASONING = _Row("response.reasoning_text", "text", "content_index", "response.content_part", "reasoning_text")
_FUNCTION = _Row("response.function_call_arguments", "arguments")
_CUSTOM = _Row("response.custom_tool_call_input", "input")


# Items whose making has events of its own: how these begin, and what the item has not got yet when it is announced.
_MADE: dict[str, tuple[str, dict[str, Any]]] = {
    "mcp_call": ("response.mcp_call", {"status": "in_progress", "arguments": "", "output": None, "error": None}),
    "mcp_list_tools": ("response.mcp_list_tools", {"tools": []}),
}


def _row_of(block: Block) -> _Row | None:
    match block:
        case Text():
            return _TEXT
        case ToolCall(kind=kind):
            return _CUSTOM if kind == "custom" else _FUNCTION
        case Thinking():
            return _REASONING if native_of(block, NAME).get("$text") == "content" else _SUMMARY
        case Refusal():
            return _REFUSAL
        case _:
            return None


class _Writing:
    """The item that is being written."""

    __slots__ = ("begun", "block", "head", "item", "item_id", "logprobs", "middle", "place", "row", "tail", "texts")

    def __init__(self, block: Block, row: _Row | None, item_id: str, place: int) -> None:
        self.block = block
        self.row = row
        self.item_id = item_id
        self.place = place
        self.item: dict[str, Any] | None = None  # an item that came whole
        self.texts: list[str] = []
        self.logprobs: list[TokenLogprob] = []
        self.begun = False  # whether its part has been announced
        self.head = self.middle = self.tail = b""
        if row is not None:
            # Everything of a delta event but its number and its text.
            name = f"{row.event}.delta".encode()
            index = b',"%b":0' % row.index.encode() if row.index else b""
            self.head = b'event: %b\ndata: {"type":"%b","sequence_number":' % (name, name)
            self.middle = b',"item_id":%b,"output_index":%d%b,"delta":' % (json.encode(item_id), place, index)
            self.tail = row.extra + b"}\n\n"


_ITEM_DONE = b"response.output_item.done"


class _DoneFrame(Struct, frozen=True):
    type: str = ""
    item: Raw = Raw(b"null")


_done_frames = Decoder(_DoneFrame)


def note_forwarded(encoder: StreamEncoder, frame: bytes) -> None:
    """Keep the item that a forwarded frame has finished: a failure at the end tells it once more."""
    if _ITEM_DONE not in frame or not isinstance(encoder, ResponsesStreamEncoder):
        return
    for _, payload in EVENTS.documents(frame):
        try:
            done = json.decode_typed(payload, _done_frames)
        except DecodeError:
            continue
        if done.type.encode() == _ITEM_DONE:
            encoder.note_output(done.item)


class ResponsesStreamEncoder:
    __slots__ = (
        "_closing",
        "_ended",
        "_ids",
        "_output",
        "_receipt",
        "_refused",
        "_repeats",
        "_request",
        "_sequence",
        "_start",
        "_started",
        "_writing",
    )

    def __init__(self, request: Request | None, receipt: Receipt) -> None:
        self._request = request
        self._receipt = receipt
        self._repeats: dict[str, Any] = {}
        self._start = Start(id=NO_ID)
        self._ids = ItemIds("")
        self._output: list[Raw] = []
        self._writing: _Writing | None = None
        self._closing: tuple[_Writing, Close] | None = None  # a message whose end is not written yet
        self._sequence = 0
        self._refused = False
        self._started = False
        self._ended = False

    def keepalive(self) -> bytes:
        return _KEEPALIVE

    @property
    def text_around(self) -> DeltaTemplate | None:
        writing = self._writing
        if self._ended or writing is None or writing.row is None:
            return None
        if writing.row.part_event is not None and not writing.begun:
            return None
        middle, behind = writing.middle + b'"', b'"' + writing.tail
        return DeltaTemplate(writing.head, behind, middle, self._sequence, on_written=self._add_written)

    def _add_written(self, text: str, number: int) -> None:
        """Remember a text of the open item that was written by its template, up to this number."""
        if self._writing is not None:
            self._writing.texts.append(text)
            self._sequence = number

    def note_output(self, item: Raw) -> None:
        """An item of the output that the client has got from somebody else."""
        self._output.append(item)

    def feed(self, event: Event) -> bytes:
        if self._ended:
            return b""
        match event:
            case Delta(text=text, logprobs=logprobs):
                return self._delta(self._writing, text, logprobs) if self._writing is not None else b""
            case Open(index=index, block=block):
                return b"".join([*self._end_message(), self._open(block, f"content[{index}]")])
            case Close():
                return self._close(event)
            case Start():
                return self._begin(event)
            case Finish(stop=stop):
                cut = incomplete_reason(stop, refused=self._refused) is not None
                return b"".join([*self._end_message(cut=cut), *self._finish(event)])
            case Fault(error=error):
                return b"".join([*self._end_message(), self._fail(error)])

    def _event(self, kind: str, **fields: Any) -> bytes:
        return b"".join(self._parts(kind, **fields))

    def _parts(self, kind: str, **fields: Any) -> tuple[bytes, ...]:
        """An event, for whoever has more to put together with it."""
        data = json.encode({"type": kind, "sequence_number": self._sequence, **fields})
        self._sequence += 1
        return sse.frame_parts(data, kind.encode())

    # The response as a whole

    def _begin(self, start: Start) -> bytes:
        self._started = True
        self._start = start
        self._repeats = repeated(self._request)
        self._ids = ItemIds(start.id)
        response = Raw(json.encode(unfinished(start, self._repeats, [])))
        created = self._event("response.created", response=response)
        return created + self._event("response.in_progress", response=response)

    def _finish(self, finish: Finish) -> tuple[bytes, ...]:
        self._ended = True
        start = self._start
        response = Response(
            id=start.id or NO_ID,
            model=start.model,
            created=start.created,
            completed=finish.completed,
            service_tier=finish.service_tier or start.service_tier,
            stop=finish.stop,
            usage=finish.usage or start.usage,
            native=merge_native(start.native, finish.native),
        )
        head = response_head(start.id, start.created, start.model)
        body = {**head, **finished(response, self._output, self._repeats, self._receipt, refused=self._refused)}
        kind = _TERMINAL.get(str(body.get("status")), "response.completed")
        return self._parts(kind, response=body)

    def _fail(self, error: ApiError) -> bytes:
        # A stream must begin with `response.created`, also one that has nothing else to say.
        before = (
            b"" if self._started else self._begin(Start(model=self._request.model if self._request is not None else ""))
        )
        self._ended = True
        start = self._start
        failure = encode_failure(error)
        body = unfinished(start, self._repeats, list(self._output), failure)
        return before + self._event("response.failed", response=body)

    # Items

    def _open(self, block: Block, where: str) -> bytes:
        place = len(self._output)
        item_id = self._ids.of(wanted_id(block), prefix_of(block), place)
        writing = self._writing = _Writing(block, _row_of(block), item_id, place)
        if writing.row is None:
            writing.item = encode_output_item([(block, where)], item_id, self._receipt)
            return b"" if writing.item is None else self._announce(writing, writing.item)
        self._refused = self._refused or isinstance(block, Refusal)
        added = self._event("response.output_item.added", output_index=place, item=_announced(block, item_id))
        # Reasoning may stay without words, and a message without parts: their part begins with the first word.
        lazy = isinstance(block, Thinking) or native_of(block, NAME).get("$empty")
        return added if lazy else added + self._begin_part(writing)

    def _announce(self, writing: _Writing, item: dict[str, Any]) -> bytes:
        """The beginning of an item without deltas. Its arguments are known, and still come as clients read them."""
        event, before = _MADE.get(str(item.get("type")), ("", {}))
        announced = {**item, **{key: value for key, value in before.items() if key in item}}
        added = self._event("response.output_item.added", output_index=writing.place, item=announced)
        if not event:
            return added
        if isinstance(item.get("id"), str):
            writing.item_id = item["id"]
        pieces = [added, self._event(f"{event}.in_progress", **self._at(writing))]
        arguments = item.get("arguments")
        if isinstance(arguments, str):
            if arguments:
                pieces.append(self._event(f"{event}_arguments.delta", **self._at(writing), delta=arguments))
            pieces.append(self._event(f"{event}_arguments.done", **self._at(writing), arguments=arguments))
        return b"".join(pieces)

    def _begin_part(self, writing: _Writing) -> bytes:
        row = writing.row
        if writing.begun or row is None or row.part_event is None:
            return b""
        writing.begun = True
        return self._event(f"{row.part_event}.added", **self._at(writing), part=_part(row, ""))

    def _at(self, writing: _Writing) -> dict[str, Any]:
        row = writing.row
        index = {row.index: 0} if row is not None and row.index else {}
        return {"item_id": writing.item_id, "output_index": writing.place, **index}

    def _delta(self, writing: _Writing, text: str, logprobs: Sequence[TokenLogprob] = ()) -> bytes:
        begin = b"" if writing.begun else self._begin_part(writing)
        writing.texts.append(text)
        sequence, tail = self._sequence, writing.tail
        self._sequence = sequence + 1
        if logprobs and writing.row is _TEXT:
            writing.logprobs += logprobs
            tail = b',"logprobs":%b}\n\n' % json.encode(write_logprobs(logprobs))
        return b"%b%b%d%b%b%b" % (begin, writing.head, sequence, writing.middle, json.encode(text), tail)

    def _close(self, close: Close) -> bytes:
        writing, self._writing = self._writing, None
        if writing is None:
            return b""
        if writing.row is not None and is_part(writing.block):
            # Whether the message is whole or was cut, the next event tells.
            self._closing = (writing, close)
            return b""
        return b"".join(self._end_item(writing, close))

    # An end has all of a text in it, several times: its events are put together once.

    def _end_message(self, *, cut: bool = False) -> list[bytes]:
        """The end of a message that waited for what comes next."""
        if self._closing is None:
            return []
        (writing, close), self._closing = self._closing, None
        return self._end_item(writing, close, cut=cut)

    def _end_item(self, writing: _Writing, close: Close, *, cut: bool = False) -> list[bytes]:
        item, before = writing.item, list[bytes]()
        said = "".join(writing.texts)
        block = closed(writing.block, said, close, writing.logprobs)
        if writing.row is not None:
            group = [(block, f"content[{close.index}]")]
            item = encode_output_item(group, writing.item_id, self._receipt, cut=cut)
            if item is not None:
                item["id"] = writing.item_id
                before = self._end_text(writing, writing.row, block, said, item)
        elif item is not None and isinstance(block, Opaque):
            item = block.value
            before = self._end_made(writing, item)
        if item is None:
            return []
        encoded = Raw(json.encode(item))
        self._output.append(encoded)
        return [*before, *self._parts("response.output_item.done", output_index=writing.place, item=encoded)]

    def _end_made(self, writing: _Writing, item: dict[str, Any]) -> list[bytes]:
        """How the making of an item ended, where that has an event."""
        event, _ = _MADE.get(str(item.get("type")), ("", {}))
        is_failed = item.get("error") is not None or item.get("status") == "failed"
        ended = f"{event}.failed" if is_failed else f"{event}.completed"
        return [self._event(ended, **self._at(writing))] if event else []

    def _end_text(self, writing: _Writing, row: _Row, block: Block, said: str, item: dict[str, Any]) -> list[bytes]:
        """The events between the last delta and `output_item.done`."""
        pieces: list[bytes] = []
        if isinstance(block, ToolCall):
            whole = arguments_text(block)
            if whole and not said:  # no arguments are the empty object, for readers of deltas too
                pieces.append(self._delta(writing, whole))
            return [*pieces, *self._parts(f"{row.event}.done", **self._at(writing), **{row.whole: whole})]
        if not writing.begun:
            return []
        content = item.get("content") if isinstance(block, (Text, Refusal)) else None
        part = content[0] if content else _part(row, said)  # an item of the client's own API may have null
        pieces.extend(
            self._event(
                "response.output_text.annotation.added", **self._at(writing), annotation_index=n, annotation=annotation
            )
            for n, annotation in enumerate(part.get("annotations") or ())
        )
        logprobs: dict[str, Any] = {"logprobs": part.get("logprobs", [])} if row.extra else {}
        written = Raw(json.encode(said))  # once, for three places
        if part.get(row.whole) == said:
            part[row.whole] = written
        pieces += self._parts(f"{row.event}.done", **self._at(writing), **{row.whole: written}, **logprobs)
        pieces += self._parts(f"{row.part_event}.done", **self._at(writing), part=part)
        return pieces


def _part(row: _Row, text: str) -> dict[str, Any]:
    lists: dict[str, Any] = {"annotations": [], "logprobs": []} if row is _TEXT else {}
    return {"type": row.part_type, row.whole: text, **lists}


def _announced(block: Block, item_id: str) -> dict[str, Any]:
    """An item as it is before its first word."""
    if isinstance(block, ToolCall):
        custom = block.kind == "custom"
        head = {"id": item_id, "type": "custom_tool_call" if custom else "function_call", "status": "in_progress"}
        named = {"namespace": block.namespace} if block.namespace is not None else {}
        return {**head, "call_id": block.id, "name": block.name, **named, "input" if custom else "arguments": ""}
    if isinstance(block, Thinking):
        return {"id": item_id, "type": "reasoning", "summary": []}
    note = notes_of(block).get("$item") if is_part(block) else None
    phase = {"phase": note["phase"]} if isinstance(note, dict) and note.get("phase") is not None else {}
    head = {"id": item_id, "type": "message", "status": "in_progress", "role": "assistant"}
    return {**head, "content": [], **phase}
