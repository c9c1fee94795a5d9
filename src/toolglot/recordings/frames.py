"""Frames of a stream in few words: the name of the event, and what is particular about its data."""

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

NOISE = frozenset(
    """id object created created_at model system_fingerprint service_tier sequence_number item_id obfuscation logprobs
    modelVersion responseId createTime native_finish_reason provider type role stop_sequence annotations task_id
    request_id""".split()  # noqa: SIM905
)
"""Members that every frame of a stream repeats, or that say nothing by themselves."""
WRAPPERS = (
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
"""What the members of interest stand in, and what is told instead."""
NAMED = ("tool_calls[", "content_block.", "item.", "functionCall.")
"""Objects whose identity matters: their ids, types and roles are told."""
PLACES = ("index", "output_index")
"""Members that number the block a frame is about: told with the event's name."""
ECHO = "response."
"""A Responses event repeats the whole response; these members of it tell something."""
TOLD_OF_ECHO = ("response.status", "response.error", "response.incomplete_details", "response.usage")
ORDER = {"type": 0, "name": 1, "id": 3, "call_id": 3}
"""Of the members of a frame, by their last name: what tells most stands first. All others are 2."""
SAID = ("type", "delta", "text", "thinking", "partial_json")
"""Members that need no name where they are all that a frame tells."""
FEW = 8
"""So many members make a frame; more are a document, whose order is left alone."""
LONGEST_VALUE = 200
MOST_VALUES = 40
DEEPEST = 40
_TIMES = re.compile(rb'"(created|created_at|completed_at|createTime)":\s*("[^"]*"|\d+)')
_TOLD_OF_RESPONSE = ("status", "output", "usage", "error", "incomplete_details")
"""Of a response that an event repeats, or that is the whole answer: what the upstream said."""


class Cell(Struct, frozen=True):
    """What stands in a column: short, and all of it."""

    short: str
    full: str = ""
    kind: str = ""
    """`error` where it is one."""
    label: str = ""
    """What `short` begins with: which event it is, or of which call. It may be told by its end alone."""


class Cutter:
    """Bytes that come in pieces, cut into the frames of a stream. Of an array each element is a frame, with what stands
    before it. What is no stream is one frame, at its end."""

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
    """A request, or an answer that is no stream."""
    if (value := _in_json_form(dialect, lambda form: form.decode_request(data))) is not None:
        data = json.encode(value)
    text = data.decode("utf-8", "backslashreplace").strip("\r\n")
    return Cell(_brief("", data, "")[0], _laid_out(data) or text)


def cell_of(frame: bytes, dialect: str) -> Cell:
    """A frame for a reader."""
    if frame.lstrip()[:1] in (b"{", b"[", b","):
        return document_cell(payload_of(frame), "")
    text = frame.decode("utf-8", "backslashreplace").strip("\r\n")
    found = SseReader()
    events = [*found.feed(frame), *found.close()]
    if not events:
        return Cell(visible(text), text)
    told = [_brief(name.decode("utf-8", "replace"), data, dialect) for name, data in events]
    return Cell(" ".join(short for short, _ in told), text, label=told[0][1])


def payload_of(frame: bytes) -> bytes:
    """The data of a frame that has one line of it, without what frames it."""
    return frame.strip().removeprefix(b"data:").lstrip(b" [,")


def _brief(event: str, data: bytes, dialect: str) -> tuple[str, str]:
    """What is particular about a frame, and the label that this begins with."""
    value = _value(data, dialect)
    if value is None:
        return visible(f"{event} {data.decode('utf-8', 'backslashreplace')}".strip()), ""
    fields = value if isinstance(value, dict) else {}
    # The data of some dialects repeats the event's name, or is the only one to tell it.
    kind = fields.get("type")
    name = kind if isinstance(kind, str) else event if dialect not in JSON_FORMS else ""
    if name and (place := next((fields[key] for key in PLACES if key in fields), None)) is not None:
        name = f"{name}[{place}]"
    leaves = list(islice(_leaves(value), MOST_VALUES))
    if len(leaves) <= FEW:
        leaves.sort(key=lambda leaf: ORDER.get(_key(leaf[0]), 2))
    plain = SAID if len(leaves) == 1 and name else ("type",)
    told = [_shown(leaf) if _key(path) in plain else f"{path}={_shown(leaf)}" for path, leaf in leaves]
    more = ["…"] if len(told) == MOST_VALUES else []
    first = leaves[0][0] if leaves and (dialect in JSON_FORMS or leaves[0][0].startswith(NAMED)) else ""
    label = name.removeprefix(ECHO) or first
    return visible(" ".join(filter(None, (name.removeprefix(ECHO), *told, *more)))) or "{}", visible(label)


def _value(data: bytes, dialect: str) -> Any:
    if dialect in JSON_FORMS:
        return _in_json_form(dialect, lambda form: form.decode_event(data))
    try:
        return json.decode_frame(data)
    except DecodeError:
        return None


def _in_json_form(dialect: str, decode: Callable[[JsonForm], Any]) -> Any:
    """What a document of a wire that is not JSON says; None where it cannot be read here."""
    try:
        form = find_json_form(dialect) if dialect else None
        return None if form is None else decode(form)
    except (ToolglotError, ImportError, IndexError):
        return None


def _leaves(value: Any) -> Iterator[tuple[str, Any]]:
    for path, leaf in _walk(value, ""):
        if not _matters(path, leaf):
            continue
        short = path
        for wrapper, instead in WRAPPERS:
            if short.startswith(wrapper):
                short = instead + short.removeprefix(wrapper)
                break
        yield short.replace("].function.", "].").replace("].arguments", "]"), leaf


def _matters(path: str, leaf: Any) -> bool:
    key = _key(path)
    if path.startswith(ECHO) and not path.startswith(TOLD_OF_ECHO):
        return False
    if leaf is None or leaf in ("", [], {}) or (leaf == 0 and "usage" in path) or path in (*PLACES, "content_index"):
        return False
    if key in ("type", "id") and any(mark in path for mark in NAMED):
        return leaf not in ("function", "direct")
    return key not in NOISE or path == "choices[0].delta.role"


def _key(path: str) -> str:
    return path.rpartition(".")[2]


def _walk(value: Any, path: str, depth: int = DEEPEST) -> Iterator[tuple[str, Any]]:
    """The leaves of a document with their paths; what is nested deeper than anybody reads is a leaf as it is."""
    if isinstance(value, dict) and value and depth:
        for name, member in value.items():
            yield from _walk(member, f"{path}.{name}" if path else str(name), depth - 1)
    elif isinstance(value, list) and value and depth:
        for index, element in enumerate(value):
            # Parallel calls come in any order, and say which one they are.
            place = element.get("index") if isinstance(element, dict) and path else None
            if isinstance(place, int):
                element = {name: member for name, member in element.items() if name != "index"} or None
            yield from _walk(element, f"{path}[{index if place is None else place}]", depth - 1)
    else:
        yield path, value


def _shown(leaf: Any) -> str:
    if isinstance(leaf, (dict, list)):
        return "{…}" if leaf and isinstance(leaf, dict) else "[…]"
    if isinstance(leaf, str) and len(leaf) > LONGEST_VALUE:
        leaf = f"{leaf[:LONGEST_VALUE]}…"
    return json.encode_text(leaf)


def _laid_out(document: bytes) -> str:
    try:
        json.decode_frame(document)
    except DecodeError:
        return ""
    return msgspec.json.format(document, indent=2).decode()


def mark_of(frame: bytes) -> bytes:
    """A frame without what no two runs have in common: the time, and the id under which a response is kept."""
    data = payload_of(frame)
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
    told = {name: response[name] for name in _TOLD_OF_RESPONSE if name in response}
    return json.encode([events[0][0].decode("utf-8", "replace"), value.get("sequence_number"), told])
