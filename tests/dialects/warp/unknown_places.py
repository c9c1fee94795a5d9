"""Every place of Warp's messages that may have a field that no table knows, by walking the descriptors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.warp_server import story
from tests.warp_server.wire import bytes_field
from toolglot.dialects.warp.descriptors import new

NUMBER = 777
NEEDLE = b"n33dl3"
UNKNOWN = bytes_field(NUMBER, NEEDLE)
_MESSAGE, _STRING = 11, 9

Path = tuple[Any, ...]
"""Descriptors of fields, from the outermost message on."""

TEXTS = {"task_id": story.ROOT, "source_task_id": story.ROOT, "tool_call_id": "call-z", "name": "f", "paths": "id"}


def paths(root: str) -> list[Path]:
    """The way to every field that holds a message; no message stands twice on one way."""
    return list(_paths(new(root).DESCRIPTOR, (), frozenset()))


def _paths(descriptor: Any, path: Path, seen: frozenset[str]) -> Iterator[Path]:
    yield path
    seen |= {descriptor.full_name}
    for field in descriptor.fields:
        if field.type == _MESSAGE and field.message_type.full_name not in seen:
            yield from _paths(field.message_type, (*path, field), seen)


def describe_path(path: Path) -> str:
    return ".".join(field.name for field in path)


def write_message(root: str, path: Path, inner: bytes = UNKNOWN) -> bytes:
    """A message that has these bytes at the end of the path, and texts wherever they may be."""
    outer = [new(root).DESCRIPTOR, *(field.message_type for field in path)]
    changes = "append_to_message_content" in describe_path(path) or "update_task_message" in describe_path(path)
    data = _texts(outer[-1], None, changes) + inner
    for descriptor, field in reversed(list(zip(outer, path, strict=False))):
        data = _texts(descriptor, field, changes) + bytes_field(field.number, data)
    return data


def _texts(descriptor: Any, next_field: Any, changes: bool) -> bytes:
    data = b""
    for field in descriptor.fields:
        if field is next_field:
            continue
        if field.type == _STRING and field.containing_oneof is None:
            text = TEXTS.get(field.name, f"{field.name} {descriptor.name}")
            if field.name == "id":
                text = f"{descriptor.name[:1].lower()}-{3 if changes else 9}"
            elif field.name == "parent_task_id":
                text = ""
            data += bytes_field(field.number, text.encode())
        elif descriptor.name == "ChangeMessage" and field.type == _MESSAGE:
            data += bytes_field(field.number, _texts(field.message_type, None, changes))
    return data
