"""Documents of a dialect whose wire is not JSON: Warp's requests are protobuf, and its whole answers are streams."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from toolglot.cli.diagnosis import BYTE_ORDER_MARK, json_or_none, other_dialect
from toolglot.cli.parameters import refuse, tell
from toolglot.dialects import find
from toolglot.errors import DecodeError, MissingExtraError
from toolglot.wire import json

REQUEST = "request"
_BINARY = ("warp",)
_STREAMED = "response"
_OWN_MEMBERS = frozenset({"task_context", "mcp_context"})
"""Members of Warp's JSON form that no other dialect's request has in their place."""


def is_binary(dialect: str, kind: str) -> bool:
    return dialect in _BINARY and kind == REQUEST


def is_no_json(dialect: str, kind: str) -> bool:
    return dialect in _BINARY and kind in (REQUEST, _STREAMED)


def request_in(data: bytes, path: Path, dialect: str) -> bytes:
    """The request as it stands on the wire, from protobuf, base64 of it or its JSON form (`toolglot warp decode`).

    The program ends where it is none of them.
    """
    bridge = _bridge(dialect)
    if not data:
        refuse(path, "the input is empty")
    value = json_or_none(data.removeprefix(BYTE_ORDER_MARK))
    rounded: list[str] = []
    try:
        if isinstance(value, dict):
            written: bytes = bridge.encode(json.decode(data.removeprefix(BYTE_ORDER_MARK)), "Request", rounded)[1]
        else:
            wrapping = "base64" if bridge.wrapping_of(data) == "base64" else "protobuf"
            written = bridge.unwrapped(data, wrapping)[0]
            bridge.decode(written, "Request")
    except DecodeError as error:
        refuse(path, _why(value, dialect, error))
    for place in rounded:
        tell(path, f"{place}: a whole number is rounded: the numbers of a Struct are doubles")
    return written


def _why(value: Any, dialect: str, error: DecodeError) -> str:
    if isinstance(value, dict):
        other = None if _OWN_MEMBERS & value.keys() else other_dialect(value, REQUEST, dialect)
        return f"this looks like {other}, not {dialect} ({error})" if other else str(error)
    return f"neither a request in protobuf nor its JSON form (as `toolglot warp decode` prints it): {error}"


def shown(data: bytes, dialect: str) -> bytes:
    """A request as the JSON form of it."""
    return json.encode(_bridge(dialect).decode(data, "Request").value)


def _bridge(dialect: str) -> Any:
    try:
        find(dialect)
    except MissingExtraError as error:
        raise click.UsageError(str(error)) from None
    return import_module("toolglot.dialects.warp.bridge")  # needs the extra
