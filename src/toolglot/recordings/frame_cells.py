"""Summarize the frames of a stream: the name of the event, and the specific part of its data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from toolglot.dialect import JsonForm
from toolglot.errors import DecodeError, ToolglotError
from toolglot.json_forms import JSON_FORMS, find_json_form
from toolglot.lint.report import visible
from toolglot.wire import json
from toolglot.wire.framing import EVENTS, Framing
from toolglot.wire.json_sequence import JsonSequenceReader
from toolglot.wire.sse import SseReader

IGNORED_MEMBERS = frozenset(
    """id object created created_at model system_fingerprint service_tier sequence_number item_id obfuscation logprobs
    modelVersion responseId createTime native_finish_reason provider type role stop_sequence annotations task_id
    request_id""".split()  # noqa: SIM905
)
"""Members that every frame of a stream repeats, or that carry no information on their own."""
WRAPPER_MEMBERS = (
    ("client_actions.actions[0].add_messages_to_task.messages[0].", "add."),
    ("client_actions.actions[0].append_to_message_content.message.", "append."),
    ("client_actions.actions[0].append_to_message_content.", "append."),
    ("client_actions.actions[0].", ""),
    ("choices[0].delta.", ""),
    ("choices[0].", ""),
    ("candidates[0].content.parts[0].", ""),
    ("candidates[0].content.", ""),
    ("candidates[0].", ""),
    ("content_block.", ""),
    ("item.", ""),
    ("delta.", ""),
    ("message.usage.", "usage."),
    ("response.usage.", "usage."),
)
"""Objects around the members of interest, and their replacements."""
IDENTIFIED_OBJECTS = ("tool_calls[", "content_block.", "item.", "functionCall.")
"""Objects whose identity matters: their ids, types and roles are shown."""
INDEX_MEMBERS = ("index", "output_index")
"""Members with the index of a frame's block: shown with the event's name."""
ECHOED_RESPONSE = "response."
"""A Responses event repeats the whole response; only these members of it are shown."""
SHOWN_OF_ECHO = ("response.status", "response.error", "response.incomplete_details", "response.usage")
MEMBER_ORDER = {"type": 0, "name": 1, "id": 3, "call_id": 3}
"""Order of a frame's members, by their last name: the most significant first. All others are 2."""
TEXT_MEMBERS = ("type", "delta", "text", "thinking", "partial_json")
"""Members that need no name if they are all that a frame shows."""
MAX_FRAME_MEMBERS = 8
"""Maximum members of a frame; with more it is a document, whose order is kept."""
MAX_VALUE_CHARS = 200
MAX_VALUES = 40
MAX_DEPTH = 40
_TIMES = re.compile(rb'"(created|created_at|completed_at|createTime)":\s*("[^"]*"|\d+)')
_SHOWN_OF_RESPONSE = ("status", "output", "usage", "error", "incomplete_details")
"""Displayed members of a response that an event repeats or that is the whole answer."""


class Cell(Struct, frozen=True):
    """A cell of a column: a short form, and the full text."""

    short: str
    full: str = ""
    kind: str = ""
    """`error` for an error, `delta` for an event that only adds content."""
    label: str = ""
    """Prefix of `short`: the event, or its call. Its end alone is enough to identify it."""
    text: str = ""
    """Content of a delta."""


class FrameSplitter:
    """Splits bytes that arrive in pieces into the frames of a stream. Each element of an array is a frame, with the
    bytes before it. If there is no stream, everything is one frame, at its end.
    """

    def __init__(self, framing: Framing = EVENTS) -> None:
        self._framing = framing
        self._held = bytearray()
        self._array: JsonSequenceReader | None = None
        self._elements = 0
        self._is_stream: bool | None = None

    def feed(self, data: bytes) -> list[bytes]:
        if self._array is not None:
            return self._cut_array(self._array, data)
        start = max(len(self._held) - 3, 0)
        self._held += data
        if self._is_stream is None and (head := bytes(self._held.lstrip()[:1])):
            self._is_stream = self._framing.is_bare or head not in b"{["
            if head == b"[":
                self._array = JsonSequenceReader()
                data, self._held = bytes(self._held), bytearray()
                return self._cut_array(self._array, data)
        end = self._framing.end_of_frames(self._held, start) if self._is_stream else 0
        whole = bytes(self._held[:end])
        del self._held[:end]
        return self._framing.split(whole) if whole else []

    def _cut_array(self, array: JsonSequenceReader, data: bytes) -> list[bytes]:
        first, self._elements = self._elements, self._elements + len(documents := array.feed(data))
        return [(b"," if number else b"[") + document for number, document in enumerate(documents, first)]

    def close(self) -> list[bytes]:
        if self._array is not None:
            return [b"," + rest for rest in self._array.close()]
        rest, self._held = bytes(self._held), bytearray()
        return [rest] if rest.strip() else []


def document_cell(data: bytes, dialect: str) -> Cell:
    """Return the cell for a request, or for an answer that is not a stream."""
    if (value := _in_json_form(dialect, lambda form: form.decode_request(data))) is not None:
        data = json.encode(value)
    text = data.decode("utf-8", "backslashreplace").strip("\r\n")
    return Cell(_summarize("", data, "")[0], _pretty_print(data) or text)


def frame_cell(frame: bytes, dialect: str) -> Cell:
    """Return the cell for a frame."""
    if frame.lstrip()[:1] in (b"{", b"[", b","):
        return document_cell(frame_payload(frame), "")
    text = frame.decode("utf-8", "backslashreplace").strip("\r\n")
    found = SseReader()
    events = [*found.feed(frame), *found.close()]
    if not events:
        return Cell(visible(text), text)
    told = [_summarize(name.decode("utf-8", "replace"), data, dialect) for name, data in events]
    return Cell(" ".join(short for short, _ in told), text, label=told[0][1])


def frame_payload(frame: bytes) -> bytes:
    """Return the data of a frame with a single data line, without its framing."""
    return frame.strip().removeprefix(b"data:").lstrip(b" [,")


def _summarize(event: str, data: bytes, dialect: str) -> tuple[str, str]:
    """Return the specific content of a frame, and its label, which starts the summary."""
    value = _parse_data(data, dialect)
    if value is None:
        return visible(f"{event} {data.decode('utf-8', 'backslashreplace')}".strip()), ""
    fields = value if isinstance(value, dict) else {}
    # The data of some dialects repeats the event's name, or is the only place that has it.
    kind = fields.get("type")
    name = kind if isinstance(kind, str) else event if dialect not in JSON_FORMS else ""
    if name and (place := next((fields[key] for key in INDEX_MEMBERS if key in fields), None)) is not None:
        name = f"{name}[{place}]"
    leaves = list(islice(_leaves(value), MAX_VALUES))
    if len(leaves) <= MAX_FRAME_MEMBERS:
        leaves.sort(key=lambda leaf: MEMBER_ORDER.get(_last_name(leaf[0]), 2))
    plain = TEXT_MEMBERS if len(leaves) == 1 and name else ("type",)
    told = [
        _format_leaf(leaf) if _last_name(path) in plain else f"{path}={_format_leaf(leaf)}" for path, leaf in leaves
    ]
    more = ["…"] if len(told) == MAX_VALUES else []
    first = leaves[0][0] if leaves and (dialect in JSON_FORMS or leaves[0][0].startswith(IDENTIFIED_OBJECTS)) else ""
    label = name.removeprefix(ECHOED_RESPONSE) or first
    return visible(" ".join(filter(None, (name.removeprefix(ECHOED_RESPONSE), *told, *more)))) or "{}", visible(label)


def _parse_data(data: bytes, dialect: str) -> Any:
    if dialect in JSON_FORMS:
        return _in_json_form(dialect, lambda form: form.decode_event(data))
    try:
        return json.decode_frame(data)
    except DecodeError:
        return None


def _in_json_form(dialect: str, decode: Callable[[JsonForm], Any]) -> Any:
    """Return the JSON form of a document that is not JSON; None if it cannot be read here."""
    try:
        form = find_json_form(dialect) if dialect else None
        return None if form is None else decode(form)
    except (ToolglotError, ImportError, IndexError):
        return None


def _leaves(value: Any) -> Iterator[tuple[str, Any]]:
    for path, leaf in _walk(value, ""):
        if not _is_significant(path, leaf):
            continue
        short = path
        for wrapper, instead in WRAPPER_MEMBERS:
            if short.startswith(wrapper):
                short = instead + short.removeprefix(wrapper)
                break
        yield short.replace("].function.", "].").replace("].arguments", "]"), leaf


def _is_significant(path: str, leaf: Any) -> bool:
    key = _last_name(path)
    if path.startswith(ECHOED_RESPONSE) and not path.startswith(SHOWN_OF_ECHO):
        return False
    if (
        leaf is None
        or leaf in ("", [], {})
        or (leaf == 0 and "usage" in path)
        or path in (*INDEX_MEMBERS, "content_index")
    ):
        return False
    if key in ("type", "id") and any(mark in path for mark in IDENTIFIED_OBJECTS):
        return leaf not in ("function", "direct")
    return key not in IGNORED_MEMBERS or path == "choices[0].delta.role"


def _last_name(path: str) -> str:
    return path.rpartition(".")[2]


def _walk(value: Any, path: str, depth: int = MAX_DEPTH) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a document with their paths; very deeply nested values are leaves."""
    if isinstance(value, dict) and value and depth:
        for name, member in value.items():
            yield from _walk(member, f"{path}.{name}" if path else str(name), depth - 1)
    elif isinstance(value, list) and value and depth:
        for index, element in enumerate(value):
            # Parallel calls arrive in any order and are identified by an index.
            place = element.get("index") if isinstance(element, dict) and path else None
            if isinstance(place, int):
                element = {name: member for name, member in element.items() if name != "index"} or None
            yield from _walk(element, f"{path}[{index if place is None else place}]", depth - 1)
    else:
        yield path, value


def _format_leaf(leaf: Any) -> str:
    if isinstance(leaf, (dict, list)):
        return "{…}" if leaf and isinstance(leaf, dict) else "[…]"
    if isinstance(leaf, str) and len(leaf) > MAX_VALUE_CHARS:
        leaf = f"{leaf[:MAX_VALUE_CHARS]}…"
    return json.encode_text(leaf)


def _pretty_print(document: bytes) -> str:
    try:
        json.decode_frame(document)
    except DecodeError:
        return ""
    return msgspec.json.format(document, indent=2).decode()


def frame_fingerprint(frame: bytes) -> bytes:
    """Return a frame without the values that differ in every run: the time, and the id of a stored response."""
    data = frame_payload(frame)
    if b'"object":"response"' not in data:
        return _TIMES.sub(b"", data)
    events = SseReader().feed(frame) or [(b"", data)]
    try:
        value = json.decode_frame(events[0][1])
    except DecodeError:
        return data
    response = value.get("response", value) if isinstance(value, dict) else None
    if not isinstance(response, dict):
        return data
    told = {name: response[name] for name in _SHOWN_OF_RESPONSE if name in response}
    return json.encode([events[0][0].decode("utf-8", "replace"), value.get("sequence_number"), told])
