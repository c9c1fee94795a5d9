"""Convert bytes of Warp's API in any wrapping to JSON and back, for people and for programs without protobuf."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from google.protobuf.unknown_fields import UnknownFieldSet
from msgspec import Raw

from toolglot.dialect import JsonForm
from toolglot.dialects.warp.descriptors import parse, serialize
from toolglot.dialects.warp.fields import to_base64, unknown_bytes
from toolglot.dialects.warp.frames import decode_frame_data, write_event
from toolglot.dialects.warp.json_form import from_json, known_message, to_json
from toolglot.errors import DecodeError
from toolglot.wire.sse import SseReader

Wrapping = Literal["protobuf", "base64", "sse"]
WRAPPINGS: tuple[Wrapping, ...] = ("protobuf", "base64", "sse")
EVENT = "ResponseEvent"
DETECTABLE = ("Request", EVENT)
"""The top-level messages. One of them is assumed if no message type is given."""

_EVENTS = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:data|event|id|retry)?:")
_UNFINISHED = re.compile(rb"^(?!id:|retry:)[^:\s]", re.MULTILINE)
"""Matches a line of an event, also an incomplete one."""
_BASE64 = re.compile(rb"[\sA-Za-z0-9+/_=\"-]+")


class DecodedMessage(NamedTuple):
    message: str
    """The name of the message type."""
    value: Any
    size: int


def detect_wrapping(data: bytes) -> Wrapping:
    """Guess the wrapping of these bytes."""
    if _EVENTS.match(data):
        return "sse"
    return "base64" if data.strip() and _BASE64.fullmatch(data) else "protobuf"


def unwrap(data: bytes, wrapping: Wrapping) -> list[bytes]:
    """Extract the messages from these bytes. Only a stream has several.

    Raises:
        DecodeError: the bytes do not have this wrapping.
    """
    if wrapping == "protobuf":
        return [data]
    if wrapping == "base64":
        return [decode_frame_data(data)]
    reader = SseReader()
    frames = [frame for _, frame in reader.feed(data)]
    last = [frame for _, frame in reader.close()]
    if not frames and not last:
        raise DecodeError("$", "a stream of events is expected, and there is none")
    if not any(last) and _UNFINISHED.search(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").rpartition(b"\n\n")[2]):
        raise DecodeError(f"events[{len(frames)}]", "the stream ends in the middle of it")
    frames += last
    return [_decode_frame(index, frame) for index, frame in enumerate(frames)]


def _decode_frame(index: int, frame: bytes) -> bytes:
    try:
        return decode_frame_data(frame)
    except DecodeError as error:
        raise DecodeError(f"events[{index}]", error.what) from None


def decode(data: bytes, message: str | None = None, where: str = "$") -> DecodedMessage:
    """Decode one message to JSON. Without a name, its type is guessed.

    Raises:
        DecodeError: the bytes are not such a message.
    """
    name = detect_message(data, where) if message is None else known_message(message)
    return DecodedMessage(name, to_json(parse(name, data, where)), len(data))


def detect_message(data: bytes, where: str = "$") -> str:
    """Guess which top-level message this is. An event has exactly one field, a request usually several."""
    found: dict[str, Any] = {}
    for name in DETECTABLE:
        try:
            found[name] = parse(name, data)
        except DecodeError:
            continue
    if not found:
        raise DecodeError(where, f"this is neither {' nor '.join(DETECTABLE)} in protobuf")
    if "Request" in found and (len(found["Request"].ListFields()) > 1 or not _can_start_stream(found.get(EVENT))):
        return "Request"
    return min(reversed(found), key=lambda name: _count_unknown_bytes(found[name]))


def _can_start_stream(event: Any) -> bool:
    """Return whether this event can start a stream. The ids in `init` are printable; tasks of a request in their place
    are not."""
    if event is None or event.WhichOneof("type") != "init":
        return True
    return all(str(value).isprintable() for field, value in event.init.ListFields())


def _count_unknown_bytes(message: Any) -> int:
    """Return the number of bytes in unknown fields, at any depth."""
    total, pending = 0, [message]
    while pending:
        current = pending.pop()
        total += len(unknown_bytes(current)) if len(UnknownFieldSet(current)) else 0
        for field, value in current.ListFields():
            if field.message_type is None:
                continue
            if field.message_type.GetOptions().map_entry:
                inner = field.message_type.fields_by_name["value"]
                pending.extend(value.values() if inner.message_type is not None else ())
            else:
                pending.extend(value if field.is_repeated else (value,))
    return total


def encode(value: Any, message: str | None = None, rounded: list[str] | None = None) -> tuple[str, bytes]:
    """Encode JSON as a message. Without a name, the type is guessed from its fields. Returns the name and the bytes.

    `rounded` collects the paths of numbers that could not be written exactly.

    Raises:
        DecodeError: the JSON does not fit the message.
    """
    name = _guess_message(value) if message is None else known_message(message)
    return name, serialize(from_json(name, value, rounded))


def _guess_message(value: Any) -> str:
    events = {"init", "client_actions", "finished"}
    return EVENT if isinstance(value, dict) and value and events >= value.keys() - {"$unknown"} else DETECTABLE[0]


def wrap(messages: Sequence[tuple[str, bytes]], wrapping: Wrapping) -> bytes:
    """Wrap messages for sending.

    Raises:
        DecodeError: they cannot have this wrapping.
    """
    if wrapping == "sse":
        return b"".join(_write_events(messages))
    if len(messages) != 1:
        raise DecodeError("$", f"{len(messages)} documents: only a stream has room for several")
    data = messages[0][1]
    return data if wrapping == "protobuf" else to_base64(data).encode() + b"\n"


def _write_events(messages: Iterable[tuple[str, bytes]]) -> Iterable[bytes]:
    for index, (name, data) in enumerate(messages):
        if name != EVENT:
            raise DecodeError(f"$[{index}]", f"a stream has messages {EVENT}, and no {name}")
        yield write_event(parse(EVENT, data))


def _decode_request(data: bytes) -> Any:
    return decode(data, "Request").value


def _encode_request(value: Any, rounded: list[str] | None) -> bytes:
    return encode(value, "Request", rounded)[1]


def _unwrap_request(data: bytes) -> bytes:
    request = unwrap(data, "base64" if detect_wrapping(data) == "base64" else "protobuf")[0]
    decode(request, "Request")
    return request


def _decode_event(data: bytes) -> Any:
    return decode(unwrap(data, "base64")[0], EVENT).value


def _wrap_result(value: Any, raw: Raw) -> Any:
    return {"tool_call_result": raw} if isinstance(value, dict) and "tool_call_id" in value else raw


JSON_FORM = JsonForm(
    decode_request=_decode_request,
    encode_request=_encode_request,
    unwrap_request=_unwrap_request,
    decode_event=_decode_event,
    noun="a request in protobuf",
    command="toolglot warp decode",
    own_members=frozenset({"task_context", "mcp_context"}),
    tools=("mcp_context", "tools"),
    results=("input", "user_inputs", "inputs"),
    before=0,
    history=("task_context", "input"),
    wrap_result=_wrap_result,
)
"""The tools are in `mcp_context`, the conversation in `task_context` and `input`, and results are inputs."""
