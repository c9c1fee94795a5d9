"""Changes to messages that have already been emitted: decides which content can still be emitted."""

from __future__ import annotations

from typing import Any, NamedTuple

from toolglot.dialects.warp.descriptors import new
from toolglot.dialects.warp.masks import set_text, text_at, update_field, would_change
from toolglot.dialects.warp.stream_entry import TEXT_PATHS, AnswerEntry, is_content, kind_of
from toolglot.dialects.warp.stream_output import REWRITTEN
from toolglot.errors import DecodeError


class LateChange(NamedTuple):
    """The outcome of a change. Without `more`, the action is only a side action for Warp's clients."""

    more: Any = None
    """A message with the text that follows the emitted text."""
    rest: tuple[str, ...] = ()
    """The paths of the update that `more` does not cover."""
    how: str = "$more"
    """The note on `more`."""
    loss: str = ""
    fault: str = ""


CALL_CHANGED = LateChange(fault="changed a call")


def judge_append(entry: AnswerEntry | None, change: Any) -> LateChange:
    """Judge an append to an emitted message; without an entry, to a message without an id.

    Raises:
        DecodeError: it appends to a text of another kind.
    """
    grown = [path for path in change.mask.paths if is_content(path) and text_at(change.message, path)]
    if entry is not None and entry.kind not in TEXT_PATHS:
        return CALL_CHANGED if entry.kind == "call" and grown else LateChange()
    for path in grown:
        if entry is not None and path.partition(".")[0] != entry.kind:
            raise DecodeError(f"mask {path}", f"{entry.kind} has no such text")
    return LateChange(change.message) if any(path in TEXT_PATHS.values() for path in grown) else LateChange()


def judge_update(entry: AnswerEntry, change: Any) -> LateChange:
    """Judge an update of an emitted message.

    Raises:
        DecodeError: it changes the kind of a text message.
    """
    content = [path for path in change.mask.paths if is_content(path)]
    if entry.kind == "call":
        return (
            CALL_CHANGED if any(would_change(entry.message, change.message, path) for path in content) else LateChange()
        )
    if entry.kind == "shown":
        return _judge_warp_only(entry, change, content)
    shape = new("Message")
    getattr(shape, entry.kind).SetInParent()
    for path in content:
        update_field(shape, change.message, path)
        if (kind := kind_of(shape)) != entry.kind:
            raise DecodeError("update_task_message", f"{entry.kind} became {kind} after it had been passed on")
    return _judge_text(entry, change)


def _judge_warp_only(entry: AnswerEntry, change: Any, content: list[str]) -> LateChange:
    """Judge an update of a message that only Warp's clients show. If it becomes a text or a call, that is emitted."""
    message = new("Message")
    message.id, message.task_id = entry.message.id, entry.message.task_id
    for path in content:
        update_field(message, change.message, path)
    if kind_of(message) not in ("call", *TEXT_PATHS):
        return LateChange()
    return LateChange(message, tuple(path for path in change.mask.paths if path not in ("id", *content)), how="$upsert")


def _judge_text(entry: AnswerEntry, change: Any) -> LateChange:
    """Judge an update of a text. Appended text is emitted; a rewritten text is a loss."""
    text_path, paths = entry.text_path, list(change.mask.paths)
    if text_path not in paths and entry.kind not in paths:
        return LateChange()
    more = entry.emitted.remainder_of(text_at(change.message, text_path) or "")
    if not more:
        return LateChange(loss=REWRITTEN) if more is None else LateChange()
    message = new("Message")
    message.id, message.task_id = entry.message.id, entry.message.task_id
    set_text(message, text_path, more)
    rest = [path for path in paths if path not in ("id", text_path, entry.kind)]
    if entry.kind in paths:
        fields = message.DESCRIPTOR.fields_by_name[entry.kind].message_type.fields
        rest += [path for field in fields if (path := f"{entry.kind}.{field.name}") != text_path]
    return LateChange(message, tuple(rest))
