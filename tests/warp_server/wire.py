"""Protobuf's wire format: fields with a number, a wire type and a value. What they mean is not known here."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

VARINT, I64, LEN, GROUP, GROUP_END, I32 = 0, 1, 2, 3, 4, 5
ALL_BITS = (1 << 64) - 1


class WireError(ValueError):
    """These bytes are no message."""


class Field(NamedTuple):
    """`value` is a number for VARINT, and the bytes of everything else."""

    number: int
    kind: int
    value: int | bytes


def varint(value: int) -> bytes:
    """Seven bits in each byte, the least first; a negative number is its two's complement in 64 bits."""
    value &= ALL_BITS
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number_field(number: int, value: int) -> bytes:
    return varint(number << 3 | VARINT) + varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | LEN) + varint(len(value)) + value


def float_field(number: int, value: float) -> bytes:
    return varint(number << 3 | I32) + struct.pack("<f", value)


def double_field(number: int, value: float) -> bytes:
    return varint(number << 3 | I64) + struct.pack("<d", value)


def raw_field(field: Field) -> bytes:
    """The field as it was read."""
    if isinstance(field.value, int):
        return number_field(field.number, field.value)
    if field.kind == LEN:
        return bytes_field(field.number, field.value)
    end = varint(field.number << 3 | GROUP_END) if field.kind == GROUP else b""
    return varint(field.number << 3 | field.kind) + field.value + end


def fields(data: bytes) -> list[Field]:
    """The fields of a message, in order.

    Raises:
        WireError: the bytes end inside a field, or have no such fields.
    """
    return list(_Reader(data).fields())


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0

    def fields(self, group: int | None = None) -> Iterator[Field]:
        while self.place < len(self.data):
            tag = self.varint()
            number, kind = tag >> 3, tag & 7
            if kind == GROUP_END and number == group:
                return
            if not 0 < number < 1 << 29:
                raise WireError(f"there is no field {number}")
            yield self.field(number, kind)
        if group is not None:
            raise WireError(f"group {group} has no end")

    def field(self, number: int, kind: int) -> Field:
        if kind == VARINT:
            return Field(number, kind, self.varint())
        if kind in (I64, I32):
            return Field(number, kind, self.take(8 if kind == I64 else 4))
        if kind == LEN:
            return Field(number, kind, self.take(self.varint()))
        if kind == GROUP:
            inner = b"".join(raw_field(field) for field in self.fields(number))
            return Field(number, kind, inner)
        raise WireError(f"there is no wire type {kind}")

    def varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & ALL_BITS
        raise WireError("a number has more than ten bytes")

    def take(self, size: int) -> bytes:
        if self.place + size > len(self.data):
            raise WireError(f"{size} bytes are promised and {len(self.data) - self.place} are there")
        self.place += size
        return self.data[self.place - size : self.place]
