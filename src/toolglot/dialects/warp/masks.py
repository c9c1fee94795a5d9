"""Updates of a message under a field mask. A path is dotted field names, relative to the message.

As in Warp's client, a path with an unknown name has no effect. A path that continues after a text, a number or a map is
an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from toolglot.errors import DecodeError

_STRING = 9  # of descriptor.FieldDescriptor
_MESSAGE = 11


def update_field(target: Any, patch: Any, path: str) -> None:
    """Set the field at the path to the patch's value, or clear it if the patch has none. An unknown path has no effect.

    Raises:
        DecodeError: a repeated field in the path has different lengths in target and patch, or the path continues
            after a field without subfields.
    """
    _update_path(target, patch, path.split("."))


def _update_path(target: Any, patch: Any, names: Sequence[str]) -> None:
    name, *rest = names
    field = target.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        return
    if not rest:
        _set_field(target, patch, field)
    elif field.type != _MESSAGE or field.message_type.GetOptions().map_entry:
        raise DecodeError(f"mask {'.'.join(names)}", f"{name} has no fields that a mask could name")
    elif not field.is_repeated:
        _update_path(getattr(target, name), getattr(patch, name), rest)
    else:
        items, patches = getattr(target, name), getattr(patch, name)
        if len(items) != len(patches):
            raise DecodeError(f"mask {name}", f"{len(items)} elements are to be changed by {len(patches)}")
        for item, change in zip(items, patches, strict=True):
            _update_path(item, change, rest)


def _set_field(target: Any, patch: Any, field: Any) -> None:
    name = field.name
    target.ClearField(name)
    if field.is_repeated:
        getattr(target, name).MergeFrom(getattr(patch, name))
    elif not patch.HasField(name):
        return
    elif field.type == _MESSAGE:
        getattr(target, name).CopyFrom(getattr(patch, name))
    else:
        setattr(target, name, getattr(patch, name))


def would_change(message: Any, patch: Any, path: str) -> bool:
    """Return whether this update would change the message, without copying anything."""
    *parents, last = path.split(".")
    for name in parents:
        field = message.DESCRIPTOR.fields_by_name.get(name)
        if field is None or field.type != _MESSAGE:
            return False
        if field.is_repeated:
            last = name
            break
        message, patch = getattr(message, name), getattr(patch, name)
    field = message.DESCRIPTOR.fields_by_name.get(last)
    if field is None:
        return False
    if field.has_presence and message.HasField(last) != patch.HasField(last):
        return True
    return bool(getattr(message, last) != getattr(patch, last))


def make_restorer(message: Any, path: str) -> tuple[Callable[[], None], int]:
    """Make a function that undoes a change at this path. Also returns the number of bytes that it keeps.

    It keeps only the field at the path, or the oneof member that the change would replace, not the whole message.
    """
    parents: list[str] = []
    inner, names = message, path.split(".")
    for name in names:
        field = inner.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            return _do_nothing, 0
        oneof = field.containing_oneof
        held = inner.WhichOneof(oneof.name) if oneof is not None else None
        if held not in (None, name):
            return _make_restorer(message, parents, name, inner.DESCRIPTOR.fields_by_name[held])
        if field.type != _MESSAGE or field.is_repeated or not inner.HasField(name) or len(parents) == len(names) - 1:
            break
        parents.append(name)
        inner = getattr(inner, name)
    return _make_restorer(message, parents, name, field)


def _make_restorer(message: Any, parents: Sequence[str], name: str, field: Any) -> tuple[Callable[[], None], int]:
    inner = _follow_path(message, parents)
    saved = type(inner)()
    _set_field(saved, inner, field)

    def restore() -> None:
        place = _follow_path(message, parents)  # looked up again: the submessage may have been replaced since
        place.ClearField(name)
        _set_field(place, saved, field)

    return restore, saved.ByteSize()


def _do_nothing() -> None:
    pass


def _follow_path(message: Any, parents: Sequence[str]) -> Any:
    for name in parents:
        message = getattr(message, name)
    return message


def text_at(message: Any, path: str) -> str | None:
    """Return the text at this path. None if the path does not lead to a text.

    This does not change a oneof: reading an unset field gives its default.
    """
    *parents, last = path.split(".")
    for name in parents:
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
    *parents, last = path.split(".")
    setattr(_follow_path(message, parents), last, text)


def can_hold(message: Any, path: str) -> bool:
    """Return whether this path can be set without replacing a oneof member. False if another member of a oneof in the
    path is set."""
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


def paths_overlap(first: str, second: str) -> bool:
    """Return whether one of these paths is a prefix of the other."""
    return f"{first}.".startswith(f"{second}.") or f"{second}.".startswith(f"{first}.")
