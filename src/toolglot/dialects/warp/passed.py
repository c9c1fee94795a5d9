"""Changes to messages that have been passed on: what can still be said of them, and what cannot."""

from __future__ import annotations

from typing import Any, NamedTuple

from toolglot.dialects.warp.descriptors import new
from toolglot.dialects.warp.masks import differs, set_text, text_at, update
from toolglot.dialects.warp.stream_entry import SPOKEN, Entry, is_content, kind_of
from toolglot.dialects.warp.stream_out import ANEW
from toolglot.errors import DecodeError


class Late(NamedTuple):
    """Without more text, the action rides along and says nothing to others."""

    more: Any = None
    """A message with the text that follows what was said."""
    rest: tuple[str, ...] = ()
    """The paths of the update that the message does not tell."""
    how: str = "$more"
    """The note on that message."""
    loss: str = ""
    fault: str = ""


CHANGED = Late(fault="changed a call")


def appended(entry: Entry | None, change: Any) -> Late:
    """An append to a message that has been passed on; without an entry, to one that has no id.

    Raises:
        DecodeError: it makes text something else.
    """
    grown = [path for path in change.mask.paths if is_content(path) and text_at(change.message, path)]
    if entry is not None and entry.kind not in SPOKEN:
        return CHANGED if entry.kind == "call" and grown else Late()
    for path in grown:
        if entry is not None and path.partition(".")[0] != entry.kind:
            raise DecodeError(f"mask {path}", f"{entry.kind} has no such text")
    return Late(change.message) if any(path in SPOKEN.values() for path in grown) else Late()


def updated(entry: Entry, change: Any) -> Late:
    """An update to a message that has been passed on.

    Raises:
        DecodeError: it makes text something else.
    """
    content = [path for path in change.mask.paths if is_content(path)]
    if entry.kind == "call":
        return CHANGED if any(differs(entry.message, change.message, path) for path in content) else Late()
    if entry.kind == "shown":
        return _became(entry, change, content)
    shape = new("Message")
    getattr(shape, entry.kind).SetInParent()
    for path in content:
        update(shape, change.message, path)
        if (kind := kind_of(shape)) != entry.kind:
            raise DecodeError("update_task_message", f"{entry.kind} became {kind} after it had been passed on")
    return _said_anew(entry, change)


def _became(entry: Entry, change: Any, content: list[str]) -> Late:
    """What only Warp's clients can show may become something that all can: that follows, and the other stays."""
    message = new("Message")
    message.id, message.task_id = entry.message.id, entry.message.task_id
    for path in content:
        update(message, change.message, path)
    if kind_of(message) not in ("call", *SPOKEN):
        return Late()
    return Late(message, tuple(path for path in change.mask.paths if path not in ("id", *content)), how="$upsert")


def _said_anew(entry: Entry, change: Any) -> Late:
    """Text that goes on is said; text that has become another cannot be."""
    spoken, paths = entry.spoken, list(change.mask.paths)
    if spoken not in paths and entry.kind not in paths:
        return Late()
    more = entry.said.rest_of(text_at(change.message, spoken) or "")
    if not more:
        return Late(loss=ANEW) if more is None else Late()
    message = new("Message")
    message.id, message.task_id = entry.message.id, entry.message.task_id
    set_text(message, spoken, more)
    rest = [path for path in paths if path not in ("id", spoken, entry.kind)]
    if entry.kind in paths:
        fields = message.DESCRIPTOR.fields_by_name[entry.kind].message_type.fields
        rest += [path for field in fields if (path := f"{entry.kind}.{field.name}") != spoken]
    return Late(message, tuple(rest))
