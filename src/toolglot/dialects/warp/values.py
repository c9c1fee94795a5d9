"""JSON objects <-> `google.protobuf.Struct`, which has only doubles and no order of keys.

`arguments_of` restores integers from whole numbers (a Struct has 5 as `5.0`). Keys are sorted, so that the same message
gives the same text in every process.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from msgspec import Raw

from toolglot.dialects.warp.descriptors import Struct, serialize
from toolglot.dialects.warp.integers import restore_integers
from toolglot.dialects.warp.unknown_fields import has_unknown
from toolglot.errors import DecodeError
from toolglot.wire import json

MAX_DEPTH = 28
"""Protobuf readers refuse more than 100 nested messages, and a level of JSON takes three."""


def write_struct(value: Mapping[str, Any], struct: Any, where: str) -> bool:
    """Write a JSON object into an empty Struct. Returns whether every number stayed exact.

    Raises:
        DecodeError: the object is nested too deeply, or has a number beyond the range of doubles.
    """
    struct.SetInParent()
    return _write_object(value, struct, where, 0)


def _write_object(value: Mapping[str, Any], struct: Any, where: str, depth: int) -> bool:
    exact = True
    for key, item in value.items():
        exact &= _write_value(item, struct.fields[key], where, depth)
    return exact


def _write_value(value: Any, target: Any, where: str, depth: int) -> bool:
    if depth > MAX_DEPTH:
        raise DecodeError(where, f"the JSON is nested deeper than {MAX_DEPTH} levels, which protobuf readers refuse")
    match value:
        case None:
            target.null_value = 0
        case bool():
            target.bool_value = value
        case int() | float():
            target.number_value = _to_double(value, where)
            return isinstance(value, float) or int(target.number_value) == value
        case str():
            target.string_value = value
        case Mapping():
            target.struct_value.SetInParent()
            return _write_object(value, target.struct_value, where, depth + 1)
        case _:
            target.list_value.SetInParent()
            exact = [_write_value(item, target.list_value.values.add(), where, depth + 1) for item in value]
            return all(exact)
    return True


def _to_double(value: int | float, where: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise DecodeError(where, "a whole number is too large for a Struct, whose numbers are doubles") from None


def read_struct(struct: Any) -> dict[str, Any]:
    """Read a Struct as a JSON object.

    JSON cannot express values of an unknown kind or of none, infinity and NaN. Such a value becomes a `Raw` that is not
    JSON, so that the resulting text cannot pass as valid JSON.
    """
    value = _read_object(struct)
    if has_unknown(struct):
        value[_UNKNOWN] = Raw(b"<unknown fields>")
    return value


_UNKNOWN = "..."
_UNKNOWN_KIND = Raw(b"<a value of no known kind>")
_NOT_FINITE = {"inf": Raw(b"Infinity"), "-inf": Raw(b"-Infinity"), "nan": Raw(b"NaN")}


def _read_object(struct: Any) -> dict[str, Any]:
    fields = struct.fields
    return {key: _read_value(fields[key]) for key in sorted(fields)}


def _read_value(value: Any) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return _read_object(value.struct_value)
    if kind == "list_value":
        return [_read_value(item) for item in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return number if isfinite(number) else _NOT_FINITE[str(number)]
    if kind == "null_value":
        return None
    return _UNKNOWN_KIND if kind is None else getattr(value, kind)


def drop_unreadable(value: Any, where: str, dropped: list[str]) -> Any:
    """Remove the values that JSON cannot express. `dropped` collects their paths, except those of unknown fields, which
    `UnknownFields` lists."""
    if isinstance(value, dict):
        readable: dict[str, Any] = {}
        for key, item in value.items():
            if not isinstance(item, Raw):
                readable[key] = drop_unreadable(item, f"{where}.{key}", dropped)
            elif key != _UNKNOWN or item is _UNKNOWN_KIND:
                dropped.append(f"{where}.{key}")
        return readable
    if isinstance(value, list):
        dropped += [f"{where}[{index}]" for index, item in enumerate(value) if isinstance(item, Raw)]
        return [
            drop_unreadable(item, f"{where}[{index}]", dropped)
            for index, item in enumerate(value)
            if not isinstance(item, Raw)
        ]
    return value


def arguments_of(struct: Any) -> str:
    """Return the arguments of a call as JSON text. The text is invalid JSON if JSON cannot express them."""
    return json.encode_text(restore_integers(read_struct(struct)))


def unreadable_arguments(size: int) -> str:
    """Return the text for arguments if only their size is known. It is invalid JSON."""
    return json.encode_text({_UNKNOWN: Raw(b"<%d bytes of unknown fields>" % size)})


def is_exact(text: str, struct: Any) -> bool:
    """Return whether this JSON text expresses the Struct exactly."""
    again = Struct()
    try:
        value = json.decode_frame(text.encode("utf-8", "surrogatepass"))
        return isinstance(value, dict) and write_struct(value, again, "$") and serialize(again) == serialize(struct)
    except DecodeError:  # it is not JSON, or nested more deeply than `write_struct` allows
        return False
