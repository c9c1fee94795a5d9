"""Check whether a past call can be written in a format, by reading back what was written.

A value that contains the mark after it, or a key that is not a valid tag, may be read as a different call. A model that
sees such a call in its history takes it for what happened, and as an example.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolglot.ir import ToolCall
from toolglot.textcalls.engine import Engine
from toolglot.textcalls.formats import find_format
from toolglot.textcalls.prompts.calls import write_calls
from toolglot.textcalls.prompts.escaping import break_marks
from toolglot.textcalls.prompts.records import Prompt
from toolglot.textcalls.prompts.values import object_members, strings_in

HAS_MARKS = "a mark of the format in its arguments would end it"


def find_unwritable(prompt: Prompt, call: ToolCall, tools: Mapping[str, Any]) -> str:
    """Return why the call cannot be written; empty if it can, though perhaps not to the last space. `tools` may be
    called."""
    tools = {call.name: None, **tools}
    text, notes = write_calls(prompt, (call,), 0)
    if not notes and not _has_marks(prompt, call, tuple(tools)):
        return ""
    engine = Engine(find_format(prompt.name), tools)
    events = [event for event in (*engine.feed(text), *engine.finish()) if event[0] not in ("id", "repaired")]
    fragments = [event[2] for event in events if event[0] == "args"]
    others = [event for event in events if event[0] != "args" and not (event[0] == "text" and event[1].isspace())]
    alone = [event[0] for event in others] == ["start", "end"] and others[0][-1] == call.name
    return "" if alone and _is_same_call("".join(fragments), call.arguments) else (*notes, HAS_MARKS)[0]


def _has_marks(prompt: Prompt, call: ToolCall, names: tuple[str, ...]) -> bool:
    """Tell whether something in the arguments, as written, contains a mark of the format."""
    found = None if prompt.calls.body == "json" else object_members(call.arguments)
    texts = [call.arguments] if found is None else [*strings_in([[key, value] for key, _, value in found])]
    return any(break_marks(prompt, text, names) != text for text in texts)


def _is_same_call(read: str, meant: str) -> bool:
    try:
        return _is_alike(json.loads(read), json.loads(meant or "{}"))
    except (ValueError, RecursionError):
        return False


def _is_alike(read: Any, meant: Any) -> bool:
    """Compare values, ignoring white space around texts and types that only a schema defines."""
    match read, meant:
        case dict(), dict():
            return read.keys() == meant.keys() and all(_is_alike(read[key], meant[key]) for key in read)
        case list(), list():
            return len(read) == len(meant) and all(map(_is_alike, read, meant))
        case str(), str():
            return read.strip() == meant.strip()
        case str(), _:
            return _is_same_call(read, json.dumps(meant)) if read.strip() else meant in ({}, [], None)
    return bool(read == meant)
