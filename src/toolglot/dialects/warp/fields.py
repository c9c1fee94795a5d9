"""Converts the fields of a protobuf message that the IR does not have to JSON, and restores them.

A scalar stays unchanged. A message is the base64 of its bytes, without its tag, because the same field has different
numbers in inputs and in histories. A repeated field is a list, and a map an object. Unknown fields are the base64 of
their wire bytes under `unknown`. `$absent` names the fields that the IR has and that were absent: an empty text differs
from a missing one.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Any, TypeAlias

from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from toolglot.dialects.warp.descriptors import serialize
from toolglot.dialects.warp.native import NAME
from toolglot.errors import DecodeError
from toolglot.ir import Native

ReadFields: TypeAlias = Mapping[str, "ReadFields | None"]
"""The fields that the IR has. The value describes a field's own fields; None means all of it."""

UNKNOWN = "unknown"
ABSENT = "$absent"
_BYTES, _MESSAGE = 12, 11  # of descriptor.FieldDescriptor, which mypy does not know


def to_base64(data: bytes) -> str:
    return b64encode(data).decode()


def from_base64(text: Any, where: str) -> bytes:
    """Decode bytes that a node keeps as base64.

    Raises:
        DecodeError: the text is not base64, so a client has changed it.
    """
    try:
        return b64decode(text, validate=True)
    except (Base64Error, TypeError, ValueError):
        raise DecodeError(where, "base64 is expected") from None


def remaining_fields(message: Any, taken: ReadFields) -> dict[str, Any]:
    """Return all fields of this message except those in `taken`, as JSON."""
    rest: dict[str, Any] = {}
    seen = set()
    for field, value in message.ListFields():
        seen.add(field.name)
        if field.name not in taken:
            rest[field.name] = _to_portable(field, value)
        elif (inner := taken[field.name]) is not None and (
            (left := remaining_fields(value, inner)) or _is_empty(value)
        ):
            rest[field.name] = left
    absent = [
        name for name, inner in taken.items() if inner is None and name not in seen and _has_presence(message, name)
    ]
    if absent:
        rest[ABSENT] = absent
    if unknown := unknown_bytes(message):
        rest[UNKNOWN] = to_base64(unknown)
    return rest


def make_native(rest: dict[str, Any]) -> Native:
    """Make `native` of a node from the remaining fields of its message."""
    return {NAME: rest} if rest else {}


def unknown_bytes(message: Any) -> bytes:
    """Return the wire bytes of the unknown fields."""
    if not len(UnknownFieldSet(message)):
        return b""
    copy = type(message)()
    copy.CopyFrom(message)
    for field, _ in message.ListFields():
        copy.ClearField(field.name)
    return serialize(copy)


def _is_empty(value: Any) -> bool:
    return not value.ByteSize() if hasattr(value, "ByteSize") else not value


def _has_presence(message: Any, name: str) -> bool:
    field = message.DESCRIPTOR.fields_by_name[name]
    return bool(field.has_presence) and field.containing_oneof is None


def _is_map(field: Any) -> bool:
    return bool(field.type == _MESSAGE and field.message_type.GetOptions().map_entry)


def _to_portable(field: Any, value: Any) -> Any:
    if _is_map(field):
        inner = field.message_type.fields_by_name["value"]
        return {key: _to_portable_value(inner, value[key]) for key in sorted(value)}
    if field.is_repeated:
        return [_to_portable_value(field, item) for item in value]
    return _to_portable_value(field, value)


def _to_portable_value(field: Any, value: Any) -> Any:
    if field.type == _MESSAGE:
        return to_base64(serialize(value))
    return to_base64(value) if field.type == _BYTES else value


def restore(message: Any, rest: Mapping[str, Any], where: str = "native") -> None:
    """Restore the remaining fields in a message whose other fields are already written. Unknown names are ignored."""
    fields = message.DESCRIPTOR.fields_by_name
    for name, value in rest.items():
        if name in fields:
            try:
                _restore_field(message, fields[name], value, f"{where}.{name}")
            except (TypeError, ValueError) as error:
                raise DecodeError(f"{where}.{name}", str(error)) from None
    for name in rest.get(ABSENT, ()):
        if name in fields and _is_empty(getattr(message, name)):
            message.ClearField(name)
    if UNKNOWN in rest:
        _merge(message, rest[UNKNOWN], where)


def _merge(message: Any, text: Any, where: str) -> None:
    try:
        message.MergeFromString(from_base64(text, where))
    except ProtobufDecodeError as error:
        raise DecodeError(where, str(error)) from None


def _restore_field(message: Any, field: Any, value: Any, where: str) -> None:
    name = field.name
    if _is_map(field):
        inner, entries = field.message_type.fields_by_name["value"], getattr(message, name)
        for key, item in value.items():
            if inner.type == _MESSAGE:
                _merge(entries[key], item, where)
            else:
                entries[key] = item
    elif field.is_repeated:
        items = getattr(message, name)
        for item in value:
            if field.type == _MESSAGE:
                _merge(items.add(), item, where)
            else:
                items.append(item)
    elif field.type == _MESSAGE:
        body = getattr(message, name)
        body.SetInParent()
        if isinstance(value, Mapping):
            restore(body, value, where)
        else:
            _merge(body, value, where)
    else:
        setattr(message, name, from_base64(value, where) if field.type == _BYTES else value)
