"""Parts of a request in readable JSON: the JSON of the wire format, or the JSON form of a binary wire format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from toolglot.dialect import Dialect, JsonForm
from toolglot.json_forms import find_json_form
from toolglot.wire import json

members = msgspec.json.Decoder(dict[str, Raw])
elements = msgspec.json.Decoder(list[Raw])


class Form(Struct, frozen=True, kw_only=True):
    """Paths of the parts of a request, as nested members."""

    read: Callable[[bytes], dict[str, Raw]]
    """Decodes the members of a request from its wire bytes."""
    write: Callable[[Mapping[str, Any]], bytes]
    """Encodes a request with these members."""
    tools: tuple[str, ...]
    results: tuple[str, ...]
    """The list that ends with the results of tools."""
    before: int
    """Number of elements before a result in that list: the user's message and the call."""
    history: tuple[str, ...]
    """The members that hold the conversation; the first one is required."""
    bare: Callable[[Any, Raw], Any]
    """Wraps a single result in an element of that list. Returns anything else unchanged."""


def form_of(dialect: Dialect) -> Form:
    binary = find_json_form(dialect.name)
    return _json_form(dialect) if binary is None else _binary_form(binary)


def _json_form(dialect: Dialect) -> Form:
    key = dialect.request.history_key
    return Form(
        read=lambda data: json.decode_typed(data, members),
        write=json.encode,
        tools=("tools",),
        results=(key,),
        before=2,
        history=(key, *([dialect.request.system_key] if dialect.request.system_key else ())),
        bare=dialect.request.wrap_result,
    )


def _binary_form(form: JsonForm) -> Form:
    return Form(
        read=lambda data: json.decode_typed(json.encode(form.decode_request(data)), members),
        write=lambda body: form.encode_request(json.decode(json.encode(body)), None),
        tools=form.tools,
        results=form.results,
        before=form.before,
        history=form.history,
        bare=form.wrap_result,
    )


def inside(found: dict[str, Raw], path: Sequence[str]) -> bytes | None:
    """Return the value at this path; None if there is none."""
    *outer, last = path
    for name in outer:
        if name not in found:
            return None
        found = json.decode_typed(bytes(found[name]), members)
    return bytes(found[last]) if last in found else None


def around(value: Any, path: Sequence[str]) -> dict[str, Any]:
    """Build the body that has this value at the end of this path."""
    for name in reversed(path):
        value = {name: value}
    body: dict[str, Any] = value
    return body
