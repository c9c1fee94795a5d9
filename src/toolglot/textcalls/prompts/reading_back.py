"""Whether a call of the past can be written in a format at all: what the reader makes of it is asked.

A value that holds the mark behind it, or a key that is no tag, may read as another call than was made. A model that
sees such a call in its past takes it for what happened, and for an example.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolglot.ir import ToolCall
from toolglot.textcalls.engine import Engine
from toolglot.textcalls.formats import find_format
from toolglot.textcalls.prompts.calls import written_calls
from toolglot.textcalls.prompts.escaping import without_marks
from toolglot.textcalls.prompts.records import Prompt
from toolglot.textcalls.prompts.values import members, strings_in

MARKS = "a mark of the format in its arguments would end it"


def unwritable(prompt: Prompt, call: ToolCall, tools: Mapping[str, Any]) -> str:
    """Why the call cannot be written; empty if it can, though perhaps not to the last space. `tools` may be called."""
    tools = {call.name: None, **tools}
    text, notes = written_calls(prompt, (call,), 0)
    if not notes and not _has_marks(prompt, call, tuple(tools)):
        return ""
    engine = Engine(find_format(prompt.name), tools)
    events = [event for event in (*engine.feed(text), *engine.finish()) if event[0] not in ("id", "repaired")]
    fragments = [event[2] for event in events if event[0] == "args"]
    others = [event for event in events if event[0] != "args" and not (event[0] == "text" and event[1].isspace())]
    alone = [event[0] for event in others] == ["start", "end"] and others[0][-1] == call.name
    return "" if alone and _same("".join(fragments), call.arguments) else (*notes, MARKS)[0]


def _has_marks(prompt: Prompt, call: ToolCall, names: tuple[str, ...]) -> bool:
    """Does something in the arguments read as a mark of the format, as it will be written?"""
    found = None if prompt.calls.body == "json" else members(call.arguments)
    texts = [call.arguments] if found is None else [*strings_in([[key, value] for key, _, value in found])]
    return any(without_marks(prompt, text, names) != text for text in texts)


def _same(read: str, meant: str) -> bool:
    try:
        return _alike(json.loads(read), json.loads(meant or "{}"))
    except (ValueError, RecursionError):
        return False


def _alike(read: Any, meant: Any) -> bool:
    """The same value, but for white space around texts, and for types that only a schema tells."""
    match read, meant:
        case dict(), dict():
            return read.keys() == meant.keys() and all(_alike(read[key], meant[key]) for key in read)
        case list(), list():
            return len(read) == len(meant) and all(map(_alike, read, meant))
        case str(), str():
            return read.strip() == meant.strip()
        case str(), _:
            return _same(read, json.dumps(meant)) if read.strip() else meant in ({}, [], None)
    return bool(read == meant)
