"""A writer of GGUF, the file format of llama.cpp: as much of it as a tiny model needs.

Layout (version 3, little-endian): magic, version, the counts of tensors and of metadata, the metadata, the tensors'
descriptions, and after padding the tensors themselves, each on a boundary of 32 bytes.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

ALIGNMENT = 32
FLOAT32 = 0
"""The number of the tensor type that holds plain 32-bit floats."""

Value = str | bool | int | float | Sequence[str] | Sequence[int]


@dataclass(frozen=True)
class Tensor:
    """`shape` is as GGUF has it: the length of a row first. `values` holds the rows one after the other."""

    shape: tuple[int, ...]
    values: array[float]

    def __post_init__(self) -> None:
        assert self.values.typecode == "f"
        assert len(self.values) == prod(self.shape)


def zeros(*shape: int) -> Tensor:
    return Tensor(shape, array("f", bytes(4 * prod(shape))))


def ones(length: int) -> Tensor:
    return Tensor((length,), array("f", [1.0] * length))


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


# The number by which metadata names each type, and how a value of it is written. Lists hold signed integers.
_SCALARS: dict[type, tuple[int, Callable[[Any], bytes]]] = {
    bool: (7, struct.Struct("<?").pack),
    int: (4, struct.Struct("<I").pack),
    float: (6, struct.Struct("<f").pack),
    str: (8, _string),
}
_MEMBERS = {**_SCALARS, int: (5, struct.Struct("<i").pack)}
_LIST = 9


def _value(value: Value) -> bytes:
    """The number of a value's type, and the value."""
    if isinstance(value, str | bool | int | float):
        number, written = _SCALARS[type(value)]
        return struct.pack("<I", number) + written(value)
    number, written = _MEMBERS[type(value[0])]
    return struct.pack("<IIQ", _LIST, number, len(value)) + b"".join(map(written, value))


def _padding(length: int) -> bytes:
    return bytes(-length % ALIGNMENT)


def write_gguf(path: Path, metadata: Mapping[str, Value], tensors: Mapping[str, Tensor]) -> None:
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(_string(name) + _value(value) for name, value in metadata.items())
    data = b""
    for name, tensor in tensors.items():
        dimensions = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
        head += _string(name) + dimensions + struct.pack("<IQ", FLOAT32, len(data))
        data += tensor.values.tobytes() + _padding(4 * len(tensor.values))
    path.write_bytes(head + _padding(len(head)) + data)
