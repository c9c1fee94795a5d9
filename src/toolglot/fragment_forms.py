"""How a request's parts stand in the JSON that people read and write: as they do on the wire, but for Warp.

Warp's wire is protobuf. A fragment of it is the JSON form of the message that it is (`toolglot warp decode`): tools are
those of `mcp_context`, the conversation is `task_context` with `input`, and results are inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import msgspec
from msgspec import Raw, Struct

from toolglot.dialect import Dialect
from toolglot.wire import json

members = msgspec.json.Decoder(dict[str, Raw])
elements = msgspec.json.Decoder(list[Raw])


class Form(Struct, frozen=True, kw_only=True):
    """Where a request has its parts, as members inside members."""

    read: Callable[[bytes], dict[str, Raw]]
    """The members of a request, from its bytes on the wire."""
    write: Callable[[Mapping[str, Any]], bytes]
    """The bytes of a request with these members."""
    tools: tuple[str, ...]
    results: tuple[str, ...]
    """The list in which the results of tools stand, at its end."""
    before: int
    """How many elements of that list are in front of a result: what the user asked, and the call."""
    history: tuple[str, ...]
    """The members that hold the conversation; the first one is needed."""
    bare: Callable[[Any, Raw], Any]
    """The element of that list around a result that stands alone; anything else as it is."""


def _warp_result(value: Any, raw: Raw) -> Any:
    return {"tool_call_result": raw} if isinstance(value, dict) and "tool_call_id" in value else raw


def form_of(dialect: Dialect) -> Form:
    return _WARP if dialect.name == "warp" else _json_form(dialect)


def _json_form(dialect: Dialect) -> Form:
    key = dialect.request.history_key
    return Form(
        read=lambda data: json.typed(data, members),
        write=json.encode,
        tools=("tools",),
        results=(key,),
        before=2,
        history=(key, *([dialect.request.system_key] if dialect.request.system_key else ())),
        bare=dialect.request.wrap_result,
    )


def _bridge() -> Any:
    return import_module("toolglot.dialects.warp.bridge")  # needs an extra, which `find` has asked for


def _read_warp(data: bytes) -> dict[str, Raw]:
    return json.typed(json.encode(_bridge().decode(data, "Request").value), members)


def _write_warp(body: Mapping[str, Any]) -> bytes:
    data: bytes = _bridge().encode(json.decode(json.encode(body)), "Request")[1]
    return data


_WARP = Form(
    read=_read_warp,
    write=_write_warp,
    tools=("mcp_context", "tools"),
    results=("input", "user_inputs", "inputs"),
    before=0,
    history=("task_context", "input"),
    bare=_warp_result,
)


def inside(found: dict[str, Raw], path: Sequence[str]) -> bytes | None:
    """What stands at the end of this path; None where there is nothing."""
    *outer, last = path
    for name in outer:
        if name not in found:
            return None
        found = json.typed(bytes(found[name]), members)
    return bytes(found[last]) if last in found else None


def around(value: Any, path: Sequence[str]) -> dict[str, Any]:
    """The body that has this value at the end of this path."""
    for name in reversed(path):
        value = {name: value}
    body: dict[str, Any] = value
    return body
