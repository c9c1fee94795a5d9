"""`POST /api/encode`, `/api/decode` and `/api/stream-decode`: Warp's protobuf as JSON, and back.

A request is a JSON object with `json_data`, `protobuf_bytes` (base64), or `protobuf_chunks` (a list of base64), and
optionally `message_type`, the name of the message, which is guessed otherwise. The body may also be raw bytes: protobuf
to decode, or a whole stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolglot.dialects.warp.dialect import WARP
from toolglot.errors import DecodeError
from toolglot.wire import json

MESSAGE, JSON_DATA, BYTES, CHUNKS = "message_type", "json_data", "protobuf_bytes", "protobuf_chunks"


def _bridge() -> Any:
    WARP.ready()
    from toolglot.dialects.warp import bridge  # needs an extra

    return bridge


def _read_members(body: bytes) -> dict[str, Any] | None:
    """Parse the body as a JSON object. None if it is something else."""
    if not body.lstrip().startswith(b"{"):
        return None
    value = json.decode(body)
    return value if isinstance(value, dict) else None


def _require(members: Mapping[str, Any], name: str, kind: Any, noun: str) -> Any:
    if not isinstance(members.get(name), kind):
        raise DecodeError(name, f"{noun} is expected")
    return members[name]


def _message_name(members: Mapping[str, Any]) -> str | None:
    return None if members.get(MESSAGE) is None else str(_require(members, MESSAGE, str, "the name of a message"))


def encode(body: bytes) -> bytes:
    members = _read_members(body)
    if members is None:
        raise DecodeError("$", "a JSON object is expected")
    bridge = _bridge()
    name, data = bridge.encode(_require(members, JSON_DATA, dict, "an object"), _message_name(members))
    return json.encode({BYTES: bridge.to_base64(data), "size": len(data), MESSAGE: name})


def decode(body: bytes) -> bytes:
    members, bridge = _read_members(body), _bridge()
    if members is None:
        data, name = bridge.unwrap(body, "protobuf")[0], None
    else:
        text = _require(members, BYTES, str, "base64")
        data, name = _decode_base64(bridge, text, BYTES), _message_name(members)
    found = bridge.decode(data, name)
    return json.encode({JSON_DATA: found.value, "size": found.size, MESSAGE: found.message})


def stream_decode(body: bytes) -> bytes:
    members, bridge = _read_members(body), _bridge()
    if members is None:
        pieces, name = bridge.unwrap(body, "sse"), bridge.EVENT
    else:
        texts = _require(members, CHUNKS, list, "a list of base64")
        pieces = [_decode_base64(bridge, text, f"{CHUNKS}[{index}]") for index, text in enumerate(texts)]
        name = _message_name(members) or bridge.EVENT
    found = [bridge.decode(piece, name, f"{CHUNKS}[{index}]") for index, piece in enumerate(pieces)]
    chunks = [{"chunk_index": n, JSON_DATA: each.value, "size": each.size} for n, each in enumerate(found)]
    total = sum(each.size for each in found)
    return json.encode({"chunks": chunks, "total_chunks": len(chunks), "total_size": total})


def _decode_base64(bridge: Any, text: Any, where: str) -> bytes:
    if not isinstance(text, str):
        raise DecodeError(where, "base64 is expected")
    try:
        data: bytes = bridge.decode_frame_data(text.encode())
    except DecodeError:
        raise DecodeError(where, "base64 is expected") from None
    return data
