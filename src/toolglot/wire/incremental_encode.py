"""Encodes large JSON documents in slices; the counterpart of `wire/incremental_json.py`."""

from __future__ import annotations

import sys
from io import BytesIO
from typing import Any

import msgspec

from toolglot.wire import incremental_json
from toolglot.wire.incremental_json import VALUE_COST

_encode = msgspec.json.Encoder().encode


def encode(value: Any, used_up: str = "") -> bytes:
    """Encode a value in as many short calls as needed. Afterwards the array in the member `used_up` is empty: freeing
    hundreds of thousands of values at once would take long as well."""
    if _encoding_cost(value, incremental_json.LARGE) <= incremental_json.LARGE:
        return _encode(value)
    out = incremental_json.allocate_buffer(_encoding_cost(value, sys.maxsize))
    _write(value, out)
    elements = value.get(used_up) if used_up else None
    if isinstance(elements, list):
        incremental_json.clear_list(elements)
    out.truncate()
    return out.getvalue()


def _encoding_cost(value: Any, most: int) -> int:
    """Return the cost of encoding a value, in bytes of text that take equally long. Stops counting above `most`."""
    size = 0
    waiting: list[Any] = [(value,)]
    while waiting and size <= most:
        for part in waiting.pop():
            kind = type(part)
            if kind is msgspec.Raw:
                size += len(part)
                continue
            size += VALUE_COST
            if kind is str:
                size += len(part)
            elif kind is dict:
                waiting.append(part.values())
            elif kind is list or kind is tuple:
                waiting.append(part)
    return size


def _write(value: Any, out: BytesIO) -> None:
    kind = type(value)
    if kind is dict and all(type(key) is str for key in value):
        _write_members(value, out)
    elif kind is list or kind is tuple:
        _write_elements(value, out)
    elif kind is str:
        out.write(b'"')
        for start in range(0, len(value), incremental_json.PIECE):
            out.write(_encode(value[start : start + incremental_json.PIECE])[1:-1])
        out.write(b'"')
    else:
        out.write(_encode(value))


def _write_members(value: dict[str, Any], out: BytesIO) -> None:
    before = b"{"
    for key, member in value.items():
        out.write(before + _encode(key) + b":")
        if _encoding_cost(member, incremental_json.PIECE) <= incremental_json.PIECE:
            out.write(_encode(member))
        else:
            _write(member, out)
        before = b","
    out.write(b"}" if value else b"{}")


def _write_elements(value: list[Any] | tuple[Any, ...], out: BytesIO) -> None:
    before, some, size = b"[", list[Any](), 0
    for element in value:
        more = _encoding_cost(element, incremental_json.PIECE)
        if some and size + more > incremental_json.PIECE:
            out.write(before + _encode(some)[1:-1])
            before, some, size = b",", [], 0
        if more > incremental_json.PIECE:
            out.write(before)
            _write(element, out)
            before = b","
        else:
            some.append(element)
            size += more
    if some:
        out.write(before + _encode(some)[1:-1])
        before = b","
    out.write(b"]" if before == b"," else b"[]")
