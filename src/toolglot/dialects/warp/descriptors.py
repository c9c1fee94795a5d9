"""Message classes of Warp's API, built from the tables of `schema.py` when this module is imported."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, field_mask_pb2, struct_pb2, timestamp_pb2
from google.protobuf.message import DecodeError as ProtobufDecodeError
from google.protobuf.message_factory import GetMessageClass

from toolglot.dialects.warp.schema import ENUMS, MESSAGES, WELL_KNOWN
from toolglot.dialects.warp.wire_fields import LONG_NUMBER, check_number_range
from toolglot.errors import DecodeError

PACKAGE = "toolglot.warp"
_FILE = "toolglot/warp.proto"
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,
    "uint32": _Field.TYPE_UINT32,
    "float": _Field.TYPE_FLOAT,
}
_DEPENDENCIES = (struct_pb2, timestamp_pb2, duration_pb2, field_mask_pb2)


def _set_type(field: Any, kind: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    elif kind in ENUMS:
        field.type, field.type_name = _Field.TYPE_ENUM, f".{PACKAGE}.{kind}.Value"
    elif kind in WELL_KNOWN:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{WELL_KNOWN[kind]}"
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"


def _add_map(message: Any, field: Any, kind: str) -> None:
    """Add a map: protobuf represents it as a repeated entry of key and value, in a message with a fixed name."""
    entry = message.nested_type.add()
    entry.name = "".join(word[:1].upper() + word[1:] for word in field.name.split("_")) + "Entry"
    entry.options.map_entry = True
    for number, name, value in ((1, "key", "string"), (2, "value", kind)):
        member = entry.field.add(number=number, name=name, label=_Field.LABEL_OPTIONAL)
        _set_type(member, value)
    field.label, field.type = _Field.LABEL_REPEATED, _Field.TYPE_MESSAGE
    field.type_name = f".{PACKAGE}.{message.name}.{entry.name}"


def _add_field(message: Any, entry: str, oneofs: dict[str, int]) -> None:
    declared, _, oneof = entry.partition("@")
    number, name, kind = declared.split()
    field = message.field.add(number=int(number), name=name, json_name=name, label=_Field.LABEL_OPTIONAL)
    if kind.startswith("{"):
        _add_map(message, field, kind[1:-1])
        return
    if kind.endswith("[]"):
        field.label = _Field.LABEL_REPEATED
    _set_type(field, kind.removesuffix("[]"))
    if oneof:
        if oneof not in oneofs:
            oneofs[oneof] = len(oneofs)
            message.oneof_decl.add(name=oneof)
        field.oneof_index = oneofs[oneof]


def _build_file() -> Any:
    """Build the file descriptor. Its edition makes presence explicit, and keeps unknown enum values as numbers."""
    file = descriptor_pb2.FileDescriptorProto(name=_FILE, package=PACKAGE, syntax="editions")
    file.edition = descriptor_pb2.EDITION_2023
    file.dependency.extend(module.DESCRIPTOR.name for module in _DEPENDENCIES)
    for name, values in ENUMS.items():
        # Names of enum values belong to the enclosing scope. Each enum has its own scope, so that none needs a prefix.
        enum = file.message_type.add(name=name).enum_type.add(name="Value")
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    for name, table in MESSAGES.items():
        message = file.message_type.add(name=name)
        oneofs: dict[str, int] = {}
        for entry in table.split(","):
            if entry:
                _add_field(message, entry, oneofs)
    return file


_POOL = descriptor_pool.Default()
_POOL.Add(_build_file())
_CLASSES: dict[str, Any] = {
    name: GetMessageClass(_POOL.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in MESSAGES
}
Struct = struct_pb2.Struct
TOO_DEEP = "messages are nested deeper than 100, where protobuf stops reading: JSON may have about 30 levels"


def new(name: str) -> Any:
    """Create an empty message of this type."""
    return _CLASSES[name]()


def parse(name: str, data: bytes, where: str = "$") -> Any:
    """Parse bytes as a message of this type.

    Raises:
        DecodeError: the bytes are not such a message.
    """
    message = _CLASSES[name]()
    try:
        message.MergeFromString(data)
    except (ProtobufDecodeError, UnicodeDecodeError) as error:
        what = TOO_DEEP if "MaxDepth" in str(error) else f"this is no {name} in protobuf: {error}"
        raise DecodeError(where, what) from None
    if LONG_NUMBER.search(data) and message.SerializeToString() != data:
        check_number_range(message, data)
    return message


def serialize(message: Any) -> bytes:
    """Serialize a message deterministically: the bytes are the same in every process."""
    data: bytes = message.SerializeToString(deterministic=True)
    return data
