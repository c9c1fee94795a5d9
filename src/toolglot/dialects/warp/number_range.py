"""Detects numbers that are too large for their fields. Protobuf readers truncate them to 32 bits silently."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from toolglot.dialects.warp.wire_fields import LEN, MESSAGE, VARINT, read_fields, read_varint
from toolglot.errors import DecodeError

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
