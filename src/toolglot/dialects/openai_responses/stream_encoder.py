"""Encode events as the event stream of a response, for its strictest readers.

Codex reads only `output_item.done` and insists on `response.completed`. The official SDKs need `response.created`,
every `added` and `done` with stable ids, and the whole output again at the end. So everything is sent. Each block is a
separate item.
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
from toolglot.dialects.openai_responses.output import ItemIds, encode_output_item, item_id_prefix, original_item_id
from toolglot.dialects.openai_responses.response import (
    NO_ID,
    encode_finished,
    encode_unfinished,
    incomplete_reason,
    repeat_request,
    response_head,
)
from toolglot.errors import ApiError, DecodeError
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start, closed, merge_native
from toolglot.ir import Block, Opaque, Refusal, Request, Response, Text, Thinking, TokenLogprob, ToolCall, native_of
from toolglot.receipt import Receipt
from toolglot.wire import json, sse
from toolglot.wire.delta_template import DeltaTemplate
from toolglot.wire.framing import EVENTS
from toolglot.wire.openai_logprobs import write_logprobs
from toolglot.wire.retry_after import name_wait

_KEEPALIVE = b": keepalive\n\n"

_TERMINAL = {"incomplete": "response.incomplete", "failed": "response.failed"}


class _BlockEvents(Struct, frozen=True):
    """The events of one kind of block: those of its text, and those of the part that holds the text, if any."""

    event: str  # …`.delta` and …`.done`
    whole: str  # the member of …`.done` that holds the whole text
    index: str | None = None
    part_event: str | None = None  # …`.added` and …`.done`
    part_type: str = ""
    extra: bytes = b""


_TEXT = _BlockEvents(
    "response.output_text", "text", "content_index", "response.content_part", "output_text", extra=b',"logprobs":[]'
)
_REFUSAL = _BlockEvents("response.refusal", "refusal", "content_index", "response.content_part", "refusal")
_SUMMARY = _BlockEvents(
    "response.reasoning_summary_text", "text", "summary_index", "response.reasoning_summary_part", "summary_text"
)
_REASONING = _BlockEvents("response.reasoning_text", "text", "content_index", "response.content_part", "reasoning_text")
_FUNCTION = _BlockEvents("response.function_call_arguments", "arguments")
_CUSTOM = _BlockEvents("response.custom_tool_call_input", "input")


# Items with progress events: the prefix of these, and the members that are still empty when the item is announced.
_PROGRESS_EVENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "mcp_call": ("response.mcp_call", {"status": "in_progress", "arguments": "", "output": None, "error": None}),
    "mcp_list_tools": ("response.mcp_list_tools", {"tools": []}),
}


def _events_for(block: Block) -> _BlockEvents | None:
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


class _OpenItem:
    """The item that is being written."""

    __slots__ = ("begun", "block", "head", "item", "item_id", "logprobs", "middle", "place", "row", "tail", "texts")

    def __init__(self, block: Block, row: _BlockEvents | None, item_id: str, place: int) -> None:
        self.block = block
        self.row = row
        self.item_id = item_id
        self.place = place
        self.item: dict[str, Any] | None = None  # an item that came whole
        self.texts: list[str] = []
        self.logprobs: list[TokenLogprob] = []
        self.begun = False  # its part has been announced
        self.head = self.middle = self.tail = b""
        if row is not None:
            # A delta event without its number and its text.
            name = f"{row.event}.delta".encode()
            index = b',"%b":0' % row.index.encode() if row.index else b""
            self.head = b'event: %b\ndata: {"type":"%b","sequence_number":' % (name, name)
            self.middle = b',"item_id":%b,"output_index":%d%b,"delta":' % (json.encode_frame(item_id), place, index)
            self.tail = row.extra + b"}\n\n"


_ITEM_DONE = b"response.output_item.done"


class _DoneFrame(Struct, frozen=True):
    type: str = ""
    item: Raw = Raw(b"null")


_done_frames = Decoder(_DoneFrame)


def note_forwarded(encoder: StreamEncoder, frame: bytes) -> None:
    """Record the item that a forwarded frame has finished, because a failure at the end repeats it."""
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
        self._writing: _OpenItem | None = None
        self._closing: tuple[_OpenItem, Close] | None = None  # a message whose end has not been written yet
        self._sequence = 0
        self._refused = False
        self._started = False
        self._ended = False

    def keepalive(self) -> bytes:
        return _KEEPALIVE

    @property
    def delta_template(self) -> DeltaTemplate | None:
        writing = self._writing
        if self._ended or writing is None or writing.row is None:
            return None
        if writing.row.part_event is not None and not writing.begun:
            return None
        middle, after = writing.middle + b'"', b'"' + writing.tail
        return DeltaTemplate(writing.head, after, middle, self._sequence, on_written=self._record_text)

    def _record_text(self, text: str, number: int) -> None:
        """Record a text of the open item that its template wrote, and the number of the next event."""
        if self._writing is not None:
            self._writing.texts.append(text)
            self._sequence = number

    def note_output(self, item: Raw) -> None:
        """Record an item of the output that another writer sent to the client."""
        self._output.append(item)

    def feed(self, event: Event) -> bytes:
        if self._ended:
            return b""
        match event:
            case Delta(text=text, logprobs=logprobs):
                return self._encode_delta(self._writing, text, logprobs) if self._writing is not None else b""
            case Open(index=index, block=block):
                return b"".join([*self._end_message(), self._open_item(block, f"content[{index}]")])
            case Close():
                return self._close_block(event)
            case Start():
                return self._encode_start(event)
            case Finish(stop=stop):
                cut = incomplete_reason(stop, refused=self._refused) is not None
                return b"".join([*self._end_message(cut=cut), *self._encode_finish(event)])
            case Fault(error=error):
                return b"".join([*self._end_message(), self._encode_failure(name_wait(error))])

    def _event(self, kind: str, **fields: Any) -> bytes:
        return b"".join(self._event_parts(kind, **fields))

    def _event_parts(self, kind: str, **fields: Any) -> tuple[bytes, ...]:
        """Encode an event as parts, for callers that join several events."""
        data = json.encode_frame({"type": kind, "sequence_number": self._sequence, **fields})
        self._sequence += 1
        return sse.frame_parts(data, kind.encode())

    # The response as a whole

    def _encode_start(self, start: Start) -> bytes:
        self._started = True
        self._start = start
        self._repeats = repeat_request(self._request)
        self._ids = ItemIds(start.id)
        response = Raw(json.encode_frame(encode_unfinished(start, self._repeats, [])))
        created = self._event("response.created", response=response)
        return created + self._event("response.in_progress", response=response)

    def _encode_finish(self, finish: Finish) -> tuple[bytes, ...]:
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
        body = {**head, **encode_finished(response, self._output, self._repeats, self._receipt, refused=self._refused)}
        kind = _TERMINAL.get(str(body.get("status")), "response.completed")
        return self._event_parts(kind, response=body)

    def _encode_failure(self, error: ApiError) -> bytes:
        # A stream must begin with `response.created`, even if it only reports a failure.
        before = (
            b""
            if self._started
            else self._encode_start(Start(model=self._request.model if self._request is not None else ""))
        )
        self._ended = True
        start = self._start
        failure = encode_failure(error)
        body = encode_unfinished(start, self._repeats, list(self._output), failure)
        return before + self._event("response.failed", response=body)

    # Items

    def _open_item(self, block: Block, where: str) -> bytes:
        place = len(self._output)
        item_id = self._ids.assign(original_item_id(block), item_id_prefix(block), place)
        writing = self._writing = _OpenItem(block, _events_for(block), item_id, place)
        if writing.row is None:
            writing.item = encode_output_item([(block, where)], item_id, self._receipt)
            return b"" if writing.item is None else self._announce_item(writing, writing.item)
        self._refused = self._refused or isinstance(block, Refusal)
        added = self._event("response.output_item.added", output_index=place, item=_initial_item(block, item_id))
        # Reasoning may stay empty, and a message may have no parts: their part begins with the first delta.
        lazy = isinstance(block, Thinking) or native_of(block, NAME).get("$empty")
        return added if lazy else added + self._begin_part(writing)

    def _announce_item(self, writing: _OpenItem, item: dict[str, Any]) -> bytes:
        """Encode the beginning of an item without deltas. Its arguments are known, but clients expect them as
        events."""
        event, before = _PROGRESS_EVENTS.get(str(item.get("type")), ("", {}))
        announced = {**item, **{key: value for key, value in before.items() if key in item}}
        added = self._event("response.output_item.added", output_index=writing.place, item=announced)
        if not event:
            return added
        if isinstance(item.get("id"), str):
            writing.item_id = item["id"]
        pieces = [added, self._event(f"{event}.in_progress", **self._position(writing))]
        arguments = item.get("arguments")
        if isinstance(arguments, str):
            if arguments:
                pieces.append(self._event(f"{event}_arguments.delta", **self._position(writing), delta=arguments))
            pieces.append(self._event(f"{event}_arguments.done", **self._position(writing), arguments=arguments))
        return b"".join(pieces)

    def _begin_part(self, writing: _OpenItem) -> bytes:
        row = writing.row
        if writing.begun or row is None or row.part_event is None:
            return b""
        writing.begun = True
        return self._event(f"{row.part_event}.added", **self._position(writing), part=_encode_part(row, ""))

    def _position(self, writing: _OpenItem) -> dict[str, Any]:
        row = writing.row
        index = {row.index: 0} if row is not None and row.index else {}
        return {"item_id": writing.item_id, "output_index": writing.place, **index}

    def _encode_delta(self, writing: _OpenItem, text: str, logprobs: Sequence[TokenLogprob] = ()) -> bytes:
        begin = b"" if writing.begun else self._begin_part(writing)
        writing.texts.append(text)
        sequence, tail = self._sequence, writing.tail
        self._sequence = sequence + 1
        if logprobs and writing.row is _TEXT:
            writing.logprobs += logprobs
            tail = b',"logprobs":%b}\n\n' % json.encode_frame(write_logprobs(logprobs))
        return b"%b%b%d%b%b%b" % (begin, writing.head, sequence, writing.middle, json.encode_frame(text), tail)

    def _close_block(self, close: Close) -> bytes:
        writing, self._writing = self._writing, None
        if writing is None:
            return b""
        if writing.row is not None and is_part(writing.block):
            # The next event shows whether the message is complete or was cut.
            self._closing = (writing, close)
            return b""
        return b"".join(self._end_item(writing, close))

    # The end of an item repeats its whole text several times, so the parts of its events are joined only once.

    def _end_message(self, *, cut: bool = False) -> list[bytes]:
        """Encode the end of a message that waited for the next event."""
        if self._closing is None:
            return []
        (writing, close), self._closing = self._closing, None
        return self._end_item(writing, close, cut=cut)

    def _end_item(self, writing: _OpenItem, close: Close, *, cut: bool = False) -> list[bytes]:
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
            before = self._end_progress(writing, item)
        if item is None:
            return []
        encoded = Raw(json.encode_frame(item))
        self._output.append(encoded)
        return [*before, *self._event_parts("response.output_item.done", output_index=writing.place, item=encoded)]

    def _end_progress(self, writing: _OpenItem, item: dict[str, Any]) -> list[bytes]:
        """Encode the last progress event of an item, if it has any."""
        event, _ = _PROGRESS_EVENTS.get(str(item.get("type")), ("", {}))
        is_failed = item.get("error") is not None or item.get("status") == "failed"
        ended = f"{event}.failed" if is_failed else f"{event}.completed"
        return [self._event(ended, **self._position(writing))] if event else []

    def _end_text(
        self, writing: _OpenItem, row: _BlockEvents, block: Block, said: str, item: dict[str, Any]
    ) -> list[bytes]:
        """Encode the events between the last delta and `output_item.done`."""
        pieces: list[bytes] = []
        if isinstance(block, ToolCall):
            whole = arguments_text(block)
            if whole and not said:  # empty arguments become the empty object, also in deltas
                pieces.append(self._encode_delta(writing, whole))
            return [*pieces, *self._event_parts(f"{row.event}.done", **self._position(writing), **{row.whole: whole})]
        if not writing.begun:
            return []
        content = item.get("content") if isinstance(block, (Text, Refusal)) else None
        part = content[0] if content else _encode_part(row, said)  # an item of the client's own API may have null
        pieces.extend(
            self._event(
                "response.output_text.annotation.added",
                **self._position(writing),
                annotation_index=n,
                annotation=annotation,
            )
            for n, annotation in enumerate(part.get("annotations") or ())
        )
        logprobs: dict[str, Any] = {"logprobs": part.get("logprobs", [])} if row.extra else {}
        written = Raw(json.encode_frame(said))  # encoded once, used three times
        if part.get(row.whole) == said:
            part[row.whole] = written
        pieces += self._event_parts(f"{row.event}.done", **self._position(writing), **{row.whole: written}, **logprobs)
        pieces += self._event_parts(f"{row.part_event}.done", **self._position(writing), part=part)
        return pieces


def _encode_part(row: _BlockEvents, text: str) -> dict[str, Any]:
    lists: dict[str, Any] = {"annotations": [], "logprobs": []} if row is _TEXT else {}
    return {"type": row.part_type, row.whole: text, **lists}


def _initial_item(block: Block, item_id: str) -> dict[str, Any]:
    """Return an item in its announced form, before its first delta."""
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
