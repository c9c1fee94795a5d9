"""Reads the fields of a protobuf message from its bytes, in wire order, with their descriptors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from toolglot.errors import DecodeError

VARINT, FIXED64, LEN, BEGIN_GROUP, END_GROUP, FIXED32 = range(6)
MESSAGE = 11
_SIZES = {FIXED64: 8, FIXED32: 4}
_WIRE_TYPES = {1: FIXED64, 2: FIXED32, 5: VARINT, 8: VARINT, 9: LEN, 11: LEN, 12: LEN, 13: VARINT, 14: VARINT}
_WIRE_TYPES |= {3: VARINT, 4: VARINT, 6: FIXED64, 7: FIXED32, 15: FIXED32, 16: FIXED64, 17: VARINT, 18: VARINT}
"""Types of descriptor.FieldDescriptor -> wire types."""
_NOT_PACKED = frozenset({9, MESSAGE, 12})


class WireField(NamedTuple):
    """One field. Its content is `data[start:end]`, without tag and length."""

    number: int
    wire_type: int
    start: int
    end: int
    value: int
    """The value of a varint; 0 for other wire types."""
    known: Any
    """The descriptor of the field, regardless of its wire type. None if the number is unknown."""

    @property
    def is_read(self) -> bool:
        """Whether protobuf readers read this field. Otherwise, they keep it as unknown."""
        if self.known is None:
            return False
        packed = self.wire_type == LEN and self.known.is_repeated and self.known.type not in _NOT_PACKED
        return packed or self.wire_type == _WIRE_TYPES.get(self.known.type)


def read_fields(descriptor: Any, data: bytes, at: int, end: int) -> Iterator[WireField]:
    """Read the fields of a message that protobuf has already parsed without error. A group is one field."""
    known = descriptor.fields_by_number
    while at < end:
        tag, at = read_varint(data, at)
        number, wire_type, value, start = tag >> 3, tag & 7, 0, at
        if wire_type == VARINT:
            value, at = read_varint(data, at)
        elif wire_type == BEGIN_GROUP:
            at = _group_end(data, at)
        elif wire_type == LEN:
            size, start = read_varint(data, at)
            at = start + size
        else:
            at += _SIZES[wire_type]
        yield WireField(number, wire_type, start, at, value, known.get(number))


def _group_end(data: bytes, at: int) -> int:
    depth = 1
    while depth:
        tag, at = read_varint(data, at)
        wire_type = tag & 7
        if wire_type == VARINT:
            _, at = read_varint(data, at)
        elif wire_type == LEN:
            size, at = read_varint(data, at)
            at += size
        elif wire_type in (BEGIN_GROUP, END_GROUP):
            depth += 1 if wire_type == BEGIN_GROUP else -1
        else:
            at += _SIZES[wire_type]
    return at


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a varint, truncated to 64 bits. Returns the value and its end position."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value & (1 << 64) - 1, at


LONG_NUMBER = re.compile(rb"[\x80-\xff]{4}")
"""Matches every varint of more than 28 bits, and other bytes too."""
_INT32, _UINT32, _ENUM = 5, 13, 14  # of descriptor.FieldDescriptor


def check_number_range(message: Any, data: bytes) -> None:
    """Check the bytes that a message was read from.

    Raises:
        DecodeError: a number does not fit its field.
    """
    pending = [(message.DESCRIPTOR, 0, len(data))]
    while pending:
        descriptor, at, end = pending.pop()
        for field in read_fields(descriptor, data, at, end):
            if field.known is None:
                continue
            if field.wire_type == VARINT:
                _check(field.known, field.value)
            elif field.wire_type == LEN and field.known.type == MESSAGE:
                pending.append((field.known.message_type, field.start, field.end))
            elif field.wire_type == LEN and field.known.type in _FITS:
                _check_packed(field.known, data, field.start, field.end)


def _check_packed(field: Any, data: bytes, at: int, end: int) -> None:
    while at < end:
        value, at = read_varint(data, at)
        _check(field, value)


def _check(field: Any, value: int) -> None:
    if field.type in _FITS and not _FITS[field.type](value):
        name = field.full_name.partition("warp.")[2] or field.full_name
        raise DecodeError(f"$.{name}", f"{value} has more than 32 bits")


def _fits_int32(value: int) -> bool:
    return value < 1 << 31 or value >= (1 << 64) - (1 << 31)


_FITS: dict[int, Callable[[int], bool]] = {
    _INT32: _fits_int32,
    _ENUM: _fits_int32,
    _UINT32: lambda value: value < 1 << 32,
}
