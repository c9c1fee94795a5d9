"""Protobuf's wire format read by hand, as `protoc --decode_raw` does: numbers, and no names."""

from __future__ import annotations

from typing import Any, NamedTuple


class Field(NamedTuple):
    number: int
    wire_type: int
    value: Any
    """An integer for a varint, else the bytes."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data: bytes) -> list[Field]:
    """The fields of one message in their order on the wire."""
    found: list[Field] = []
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        wire_type = tag & 7
        if wire_type == 0:
            value, at = varint(data, at)
            found.append(Field(tag >> 3, wire_type, value))
            continue
        if wire_type == 2:
            size, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}[wire_type]
        assert at + size <= len(data), "a field ends behind its message"
        found.append(Field(tag >> 3, wire_type, data[at : at + size]))
        at += size
    return found


def every(data: bytes, *path: int) -> list[Any]:
    """What stands at this path of field numbers, each time it does."""
    if not path:
        return [data]
    inner = [field.value for field in fields(data) if field.number == path[0]]
    if len(path) == 1:
        return inner
    return [found for value in inner for found in every(value, *path[1:])]


def only(data: bytes, *path: int) -> Any:
    (found,) = every(data, *path)
    return found


def numbers(data: bytes) -> list[int]:
    return [field.number for field in fields(data)]


def texts(data: bytes, *path: int) -> list[str]:
    return [value.decode() for value in every(data, *path)]
