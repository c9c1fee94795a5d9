"""Messages of Warp's API <-> readable JSON. The conversion is lossless.

Fields have their names, messages are objects, a `Struct` is its JSON, bytes are base64, and enum values are names, or
numbers without a name. Unknown fields are the base64 of their bytes, under `$unknown`. A `Struct` or a `Value` that
JSON cannot express is the base64 of its bytes, under `$protobuf`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import inf, isfinite, nan
from operator import setitem
from typing import Any

from toolglot.dialects.warp.descriptors import Struct, new, serialize
from toolglot.dialects.warp.fields import from_base64, to_base64, unknown_bytes
from toolglot.dialects.warp.integers import restore_integers
from toolglot.dialects.warp.schema import MESSAGES
from toolglot.dialects.warp.values import is_exact, read_struct, write_struct
from toolglot.errors import DecodeError
from toolglot.wire import json

UNKNOWN = "$unknown"
PROTOBUF = "$protobuf"
_MESSAGE, _BYTES, _ENUM, _STRING, _BOOL, _FLOATS = 11, 12, 14, 9, 8, (1, 2)  # of descriptor.FieldDescriptor
_LARGEST = {1: 1.7976931348623157e308, 2: 3.4028234663852886e38}
_NO_NUMBERS = {"Infinity": inf, "-Infinity": -inf, "NaN": nan}
"""Floats that JSON does not have, as protobuf's own JSON writes them."""
_STRUCT, _VALUE = "google.protobuf.Struct", "google.protobuf.Value"


def known_message(name: str) -> str:
    """Return the message's plain name. The given one may have a package.

    Raises:
        DecodeError: there is no such message.
    """
    plain = name.rpartition(".")[2]
    if plain not in MESSAGES:
        raise DecodeError("message", f"there is no message {name[:100]!r}, such as Request and ResponseEvent")
    return plain


# To JSON


def to_json(message: Any) -> Any:
    kind = message.DESCRIPTOR.full_name
    if kind == _STRUCT:
        return _struct_to_json(message, message)
    if kind == _VALUE:
        holder = Struct()
        holder.fields["value"].CopyFrom(message)
        return _struct_to_json(holder, message, "value")
    members = {field.name: _to_json_values(field, value) for field, value in message.ListFields()}
    if unknown := unknown_bytes(message):
        members[UNKNOWN] = to_base64(unknown)
    return members


def _struct_to_json(struct: Any, message: Any, key: str = "") -> Any:
    """Return the JSON of a Struct, or of one of its keys; the bytes of the message if JSON cannot express it."""
    whole = restore_integers(read_struct(struct))
    value = whole.get(key) if key else whole
    is_ambiguous = isinstance(value, dict) and value.keys() == {PROTOBUF}
    if is_ambiguous or not is_exact(json.encode_text(whole), struct):
        return {PROTOBUF: to_base64(serialize(message))}
    return value


def _is_map(field: Any) -> bool:
    return bool(field.type == _MESSAGE and field.message_type.GetOptions().map_entry)


def _to_json_values(field: Any, value: Any) -> Any:
    if _is_map(field):
        inner = field.message_type.fields_by_name["value"]
        return {key: _to_json_value(inner, value[key]) for key in sorted(value)}
    return [_to_json_value(field, item) for item in value] if field.is_repeated else _to_json_value(field, value)


def _to_json_value(field: Any, value: Any) -> Any:
    if field.type == _MESSAGE:
        return to_json(value)
    if field.type == _BYTES:
        return to_base64(value)
    if field.type == _ENUM:
        named = field.enum_type.values_by_number.get(value)
        return value if named is None else named.name
    if field.type in _FLOATS and not isfinite(value):
        return next((name for name, number in _NO_NUMBERS.items() if number == value), "NaN")
    return value


# From JSON


def from_json(name: str, value: Any, rounded: list[str] | None = None) -> Any:
    """Build a message of this type from JSON. `rounded` collects the paths of each `Struct` with rounded numbers.

    Raises:
        DecodeError: the JSON does not fit the message.
    """
    message = new(name)
    _fill(message, value, "$", [] if rounded is None else rounded)
    return message


def _fill(message: Any, value: Any, where: str, rounded: list[str]) -> None:
    kind = message.DESCRIPTOR.full_name
    if kind in (_STRUCT, _VALUE) and isinstance(value, Mapping) and value.keys() == {PROTOBUF}:
        _merge(message, from_base64(value[PROTOBUF], f"{where}.{PROTOBUF}"), f"{where}.{PROTOBUF}")
        return
    if kind == _VALUE:
        holder = Struct()
        if not write_struct({"value": value}, holder, where):
            rounded.append(where)
        message.CopyFrom(holder.fields["value"])
        return
    if not isinstance(value, Mapping):
        raise DecodeError(where, f"an object is expected, for {message.DESCRIPTOR.name}")
    if kind == _STRUCT:
        if not write_struct(value, message, where):
            rounded.append(where)
        return
    fields, oneofs = message.DESCRIPTOR.fields_by_name, dict[str, str]()
    for name, item in value.items():
        if name == UNKNOWN:
            continue
        if name not in fields:
            raise DecodeError(f"{where}.{name}", f"{message.DESCRIPTOR.name} has no such field")
        _refuse_second_member(fields[name], oneofs, where)
        _fill_field(message, fields[name], item, f"{where}.{name}", rounded)
    if UNKNOWN in value:
        _merge(message, from_base64(value[UNKNOWN], f"{where}.{UNKNOWN}"), f"{where}.{UNKNOWN}")


def _merge(message: Any, data: bytes, where: str) -> None:
    from google.protobuf.message import DecodeError as ProtobufDecodeError

    try:
        message.MergeFromString(data)
    except ProtobufDecodeError:
        raise DecodeError(where, "these are not protobuf fields") from None


def _refuse_second_member(field: Any, oneofs: dict[str, str], where: str) -> None:
    """Refuse a second member of a oneof. `oneofs` has the member of each oneof so far."""
    if field.containing_oneof is None:
        return
    other = oneofs.setdefault(field.containing_oneof.name, field.name)
    if other != field.name:
        raise DecodeError(f"{where}.{field.name}", f"there is {other} already, and only one of them can be")


def _fill_field(message: Any, field: Any, value: Any, where: str, rounded: list[str]) -> None:
    if _is_map(field):
        inner, entries = field.message_type.fields_by_name["value"], getattr(message, field.name)
        for key, item in _check_kind(value, Mapping, where, "an object").items():
            if inner.type == _MESSAGE:
                _fill(entries[key], item, f"{where}.{key}", rounded)
            else:
                place = f"{where}.{key}"
                _assign(partial(setitem, entries, key), _from_scalar(inner, item, place), place)
    elif field.is_repeated:
        items = getattr(message, field.name)
        for index, item in enumerate(_check_kind(value, list, where, "an array")):
            if field.type == _MESSAGE:
                _fill(items.add(), item, f"{where}[{index}]", rounded)
            else:
                _assign(items.append, _from_scalar(field, item, f"{where}[{index}]"), f"{where}[{index}]")
    elif field.type == _MESSAGE:
        inner_message = getattr(message, field.name)
        inner_message.SetInParent()
        _fill(inner_message, value, where, rounded)
    else:
        _assign(lambda scalar: setattr(message, field.name, scalar), _from_scalar(field, value, where), where)


def _assign(put: Any, value: Any, where: str) -> None:
    try:
        put(value)
    except (TypeError, ValueError) as error:
        raise DecodeError(where, str(error)) from None


def _check_kind(value: Any, kind: Any, where: str, noun: str) -> Any:
    if not isinstance(value, kind):
        raise DecodeError(where, f"{noun} is expected")
    return value


def _from_scalar(field: Any, value: Any, where: str) -> Any:
    if field.type == _BYTES:
        return from_base64(value, where)
    if field.type == _STRING:
        return _check_kind(value, str, where, "text")
    if field.type == _BOOL:
        return _check_kind(value, bool, where, "true or false")
    if field.type == _ENUM and isinstance(value, str):
        if value not in field.enum_type.values_by_name:
            raise DecodeError(where, f"there is no value {value[:100]!r} in {field.enum_type.containing_type.name}")
        return field.enum_type.values_by_name[value].number
    if field.type in _FLOATS and isinstance(value, str) and value in _NO_NUMBERS:
        return _NO_NUMBERS[value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DecodeError(where, "a number is expected")
    if field.type in _FLOATS and not abs(value) <= _LARGEST[field.type]:
        raise DecodeError(where, "the number is too large for this field")
    if field.type not in _FLOATS and isinstance(value, float):
        raise DecodeError(where, "a whole number is expected")
    return value
