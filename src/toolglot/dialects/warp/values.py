"""JSON objects <-> `google.protobuf.Struct`, which has one kind of number and no order of keys.

Numbers come back as integers where they are whole (`5.0` is how a Struct writes 5), and keys sorted, so that the same
message gives the same text in every process.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from toolglot.dialects.warp.descriptors import Struct, serialize
from toolglot.dialects.warp.integers import whole_numbers
from toolglot.errors import DecodeError
from toolglot.wire import json

MAX_DEPTH = 28
"""Readers of protobuf refuse messages nested deeper than 100, and a level of JSON takes three."""


def write_struct(value: Mapping[str, Any], struct: Any, where: str) -> bool:
    """Writes a JSON object into an empty Struct; whether every number in it stayed exact.

    Raises:
        DecodeError: it is nested too deeply, or has a number that no double comes near.
    """
    struct.SetInParent()
    return _write_object(value, struct, where, 0)


def _write_object(value: Mapping[str, Any], struct: Any, where: str, depth: int) -> bool:
    exact = True
    for key, item in value.items():
        exact &= _write(item, struct.fields[key], where, depth)
    return exact


def _write(value: Any, target: Any, where: str, depth: int) -> bool:
    if depth > MAX_DEPTH:
        raise DecodeError(where, f"the JSON is nested deeper than {MAX_DEPTH} levels, which protobuf readers refuse")
    match value:
        case None:
            target.null_value = 0
        case bool():
            target.bool_value = value
        case int() | float():
            target.number_value = _double(value, where)
            return isinstance(value, float) or int(target.number_value) == value
        case str():
            target.string_value = value
        case Mapping():
            target.struct_value.SetInParent()
            return _write_object(value, target.struct_value, where, depth + 1)
        case _:
            target.list_value.SetInParent()
            exact = [_write(item, target.list_value.values.add(), where, depth + 1) for item in value]
            return all(exact)
    return True


def _double(value: int | float, where: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise DecodeError(where, "a whole number is too large for a Struct, whose numbers are doubles") from None


def read_struct(struct: Any) -> dict[str, Any]:
    """The JSON object that a Struct holds."""
    fields = struct.fields
    return {key: _read(fields[key]) for key in sorted(fields)}


def _read(value: Any) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return read_struct(value.struct_value)
    if kind == "list_value":
        return [_read(item) for item in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        # As protobuf's own JSON writes what JSON has no numbers for.
        return number if isfinite(number) else {"inf": "Infinity", "-inf": "-Infinity"}.get(str(number), "NaN")
    return None if kind in (None, "null_value") else getattr(value, kind)


def arguments_of(struct: Any) -> str:
    """The arguments of a call as JSON text."""
    return json.encode_text(whole_numbers(read_struct(struct)))


def is_exact(text: str, struct: Any) -> bool:
    """Does this text say all that the Struct does?"""
    again = Struct()
    value = json.decode_frame(text.encode("utf-8", "surrogatepass"))
    return isinstance(value, dict) and write_struct(value, again, "$") and serialize(again) == serialize(struct)
