"""Numbers on the wire that are too large for their fields, which readers of protobuf cut to 32 bits without a word."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from toolglot.errors import DecodeError

LONG_NUMBER = re.compile(rb"[\x80-\xff]{4}")
"""What bytes have in them wherever there is a number of more than 28 bits; and in other places."""
_MESSAGE, _REPEATED_AS_ONE = 11, 2
_INT32, _UINT32, _ENUM = 5, 13, 14  # of descriptor.FieldDescriptor
_BEGIN_GROUP, _END_GROUP = 3, 4
_SIZES = {1: 8, 5: 4}


def refuse_cut(message: Any, data: bytes) -> None:
    """Looks at the bytes that a message was read from.

    Raises:
        DecodeError: one of its numbers is not the one on the wire.
    """
    waiting = [(message.DESCRIPTOR, 0, len(data))]
    while waiting:
        descriptor, at, end = waiting.pop()
        groups = 0  # nobody knows the fields inside them
        while at < end:
            tag, at = _varint(data, at)
            wire_type = tag & 7
            field = None if groups else descriptor.fields_by_number.get(tag >> 3)
            if wire_type == 0:
                value, at = _varint(data, at)
                _check(field, value)
            elif wire_type in (_BEGIN_GROUP, _END_GROUP):
                groups += 1 if wire_type == _BEGIN_GROUP else -1
            else:
                size, at = _varint(data, at) if wire_type == _REPEATED_AS_ONE else (_SIZES[wire_type], at)
                if field is not None and wire_type == _REPEATED_AS_ONE:
                    if field.type == _MESSAGE:
                        waiting.append((field.message_type, at, at + size))
                    elif field.type in _FITS:
                        _check_all(field, data, at, at + size)
                at += size


def _check_all(field: Any, data: bytes, at: int, end: int) -> None:
    while at < end:
        value, at = _varint(data, at)
        _check(field, value)


def _check(field: Any, value: int) -> None:
    if field is not None and field.type in _FITS and not _FITS[field.type](value):
        name = field.full_name.partition("warp.")[2] or field.full_name
        raise DecodeError(f"$.{name}", f"{value} has more than 32 bits")


def _is_signed(value: int) -> bool:
    return value < 1 << 31 or value >= (1 << 64) - (1 << 31)


_FITS: dict[int, Callable[[int], bool]] = {
    _INT32: _is_signed,
    _ENUM: _is_signed,
    _UINT32: lambda value: value < 1 << 32,
}


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value & (1 << 64) - 1, at
