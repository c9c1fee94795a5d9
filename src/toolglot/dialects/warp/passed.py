"""Changes to messages that have been passed on: what can still be said of them, and what cannot."""

from __future__ import annotations

from typing import Any, NamedTuple

from toolglot.dialects.warp.descriptors import new
from toolglot.dialects.warp.masks import set_text, text_at, update
from toolglot.dialects.warp.stream_entry import SPOKEN, Entry, kind_of
from toolglot.dialects.warp.stream_out import ANEW
from toolglot.errors import DecodeError


class Late(NamedTuple):
    """Without a message, the action rides along and says nothing to others."""

    message: Any = None
    how: str = ""
    """How the message stands in the answer, `$more` or `$upsert`; empty: it still says nothing."""
    rest: tuple[str, ...] = ()
    """The paths of the update that the message does not tell."""
    loss: str = ""
    fault: str = ""


CHANGED = Late(fault="changed a call")


def appended(entry: Entry | None, change: Any) -> Late:
    """An append to a message that has been passed on, or that is no part of the answer."""
    spoken = any(path in SPOKEN.values() and text_at(change.message, path) for path in change.mask.paths)
    if entry is None or entry.speaks:
        return Late(change.message, "$more") if spoken else Late()
    if entry.kind == "placeholder":
        return _filled(_with(entry.message, change, append=True))
    if entry.kind == "call" and _with(entry.message, change, append=True).tool_call != entry.message.tool_call:
        return CHANGED
    return Late()


def updated(entry: Entry, change: Any) -> Late:
    """An update to a message that has been passed on.

    Raises:
        DecodeError: it makes text something else.
    """
    if entry.kind == "shown":
        return Late()
    message = _with(entry.message, change)
    if entry.kind == "placeholder":
        return _filled(message)
    if entry.kind == "call":
        return CHANGED if message.tool_call != entry.message.tool_call else Late()
    if (kind := kind_of(message)) != entry.kind:
        raise DecodeError("update_task_message", f"{entry.kind} became {kind} after it had been passed on")
    return _said_anew(entry, change)


def _with(message: Any, change: Any, *, append: bool = False) -> Any:
    made = new("Message")
    made.CopyFrom(message)
    for path in change.mask.paths:
        if append:
            if text := text_at(change.message, path):
                set_text(made, path, (text_at(made, path) or "") + text)
        elif path != "id":
            update(made, change.message, path)
    return made


def _filled(message: Any) -> Late:
    """A message that said nothing before."""
    return Late(message, "" if kind_of(message) in ("placeholder", "aside") else "$upsert")


def _said_anew(entry: Entry, change: Any) -> Late:
    """Text that goes on is said; text that has become another cannot be."""
    spoken, paths = entry.spoken, list(change.mask.paths)
    if spoken not in paths and entry.kind not in paths:
        return Late()
    text, said = text_at(change.message, spoken) or "", entry.text()
    if text == said:
        return Late()
    if not text.startswith(said):
        return Late(loss=ANEW)
    message = new("Message")
    message.id, message.task_id = entry.message.id, entry.message.task_id
    set_text(message, spoken, text[len(said) :])
    rest = [path for path in paths if path not in ("id", spoken, entry.kind)]
    if entry.kind in paths:
        fields = message.DESCRIPTOR.fields_by_name[entry.kind].message_type.fields
        rest += [path for field in fields if (path := f"{entry.kind}.{field.name}") != spoken]
    return Late(message, "$more", tuple(rest))
