"""Changes to a message under a mask: dotted names of fields, relative to the message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolglot.errors import DecodeError

_STRING = 9  # of descriptor.FieldDescriptor
_MESSAGE = 11


def update(target: Any, patch: Any, path: str) -> None:
    """Sets the masked field to the patch's value, even where that is nothing. A path that is not known does nothing.

    Raises:
        DecodeError: a repeated field on the way has more elements on one side than on the other.
    """
    _update(target, patch, path.split("."))


def _update(target: Any, patch: Any, names: Sequence[str]) -> None:
    name, *rest = names
    field = target.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        return
    if not rest:
        _set(target, patch, field)
    elif field.type == _MESSAGE and not field.is_repeated:
        _update(getattr(target, name), getattr(patch, name), rest)
    elif field.type == _MESSAGE and not field.message_type.GetOptions().map_entry:
        items, patches = getattr(target, name), getattr(patch, name)
        if len(items) != len(patches):
            raise DecodeError(f"mask {name}", f"{len(items)} elements are to be changed by {len(patches)}")
        for item, change in zip(items, patches, strict=True):
            _update(item, change, rest)


def _set(target: Any, patch: Any, field: Any) -> None:
    name = field.name
    target.ClearField(name)
    if field.is_repeated:
        given = type(patch)()
        given.CopyFrom(patch)
        for other, _ in patch.ListFields():
            if other.name != name:
                given.ClearField(other.name)
        target.MergeFrom(given)
    elif not patch.HasField(name):
        return
    elif field.type == _MESSAGE:
        getattr(target, name).CopyFrom(getattr(patch, name))
    else:
        setattr(target, name, getattr(patch, name))


def text_at(message: Any, path: str) -> str | None:
    """The text at this path; None when the path does not lead to a text.

    A oneof that holds something else is left as it is: reading a field that is not set gives its default.
    """
    *way, last = path.split(".")
    for name in way:
        field = message.DESCRIPTOR.fields_by_name.get(name)
        if field is None or field.type != _MESSAGE or field.is_repeated:
            return None
        message = getattr(message, name)
    field = message.DESCRIPTOR.fields_by_name.get(last)
    if field is None or field.type != _STRING or field.is_repeated:
        return None
    text: str = getattr(message, last)
    return text


def set_text(message: Any, path: str, text: str) -> None:
    *way, last = path.split(".")
    for name in way:
        message = getattr(message, name)
    setattr(message, last, text)


def holds(message: Any, path: str) -> bool:
    """May there be something at this path, given what else the message has? Of a oneof, one member is set at most."""
    for name in path.split("."):
        field = message.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            return False
        oneof = field.containing_oneof
        if oneof is not None and message.WhichOneof(oneof.name) not in (None, name):
            return False
        if field.type != _MESSAGE or field.is_repeated:
            break
        message = getattr(message, name)
    return True
