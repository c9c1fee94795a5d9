"""Escape the texts of tools, so that they can forge neither a call nor a result: descriptions and schemas are
untrusted.

Every string of a tool is escaped separately, before it is written: names, keys and the words of an enum have no marks,
so they stay as the model has to write them. One that has a mark is shown with the dot, and the dot is removed from the
arguments that the model writes with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from toolglot.ir import Tool, ToolCall, replace
from toolglot.textcalls.engine import Engine
from toolglot.textcalls.formats import find_format
from toolglot.textcalls.prompts.calls import write_calls
from toolglot.textcalls.prompts.escaping import break_marks, needs_names
from toolglot.textcalls.prompts.records import Prompt
from toolglot.textcalls.prompts.values import object_members, strings_in
from toolglot.textcalls.unescape import DOT, Escapes

HAS_MARKS = "a mark of the format in its arguments would end it"


def find_unwritable(prompt: Prompt, call: ToolCall, tools: Mapping[str, Any]) -> str:
    """Return the reason why the call cannot be written; empty if it can, possibly with different white space. `tools`
    may be called.
    """
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
    """Return whether the written arguments contain a mark of the format."""
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


def safe_tools(prompt: Prompt, tools: Sequence[Tool], escapes: Escapes | None = None) -> tuple[Tool, ...]:
    """Break every mark in the tools; `escapes` records which."""
    text_format = find_format(prompt.name)
    names = tuple(tool.name for tool in tools)
    keys = {key for call in text_format.calls for key in call.name_keys} if needs_names(text_format) else set()

    @cache  # schemas have few distinct words
    def safe(text: str) -> str:
        broken = break_marks(prompt, text, names, escapes, inside=True)
        flat = " ".join(broken.split())  # some lists write it on one line, which may create a mark
        told = broken if flat == broken else break_marks(prompt, flat, names, escapes, again=True, inside=True)
        return broken if told in (broken, flat) else told

    def member(key: str, value: Any) -> tuple[str, Any]:
        """Break a tool's name where it would look like a call, in an example or a default value."""
        if key not in keys or not isinstance(value, str) or value.strip() not in names:
            return safe(key), value
        if escapes is not None:
            escapes.add('"', f'{value}"')
        return safe(key), f"{DOT}{value}"

    return tuple(_safe_tool(tool, safe, member) for tool in tools)


def _safe_tool(tool: Tool, safe: Callable[[str], str], member: Callable[[str, Any], tuple[str, Any]]) -> Tool:
    name, description = safe(tool.name), None if tool.description is None else safe(tool.description)
    return replace(tool, name=name, description=description, parameters=rewrite_texts(tool.parameters, safe, member))


def rewrite_texts(
    value: Any,
    text: Callable[[str], str],
    member: Callable[[str, Any], tuple[str, Any]] = lambda key, item: (key, item),
) -> Any:
    """Rewrite all texts of a JSON value, and the members of its objects, with these functions. Any nesting depth."""
    root: list[Any] = [value]
    waiting: list[Any] = [root]
    while waiting:
        holder = waiting.pop()
        for place, item in list(holder.items() if isinstance(holder, dict) else enumerate(holder)):
            match item:
                case str():
                    holder[place] = text(item)
                case Mapping():
                    holder[place] = dict(member(key, inner) for key, inner in item.items())
                    waiting.append(holder[place])
                case list() | tuple():
                    holder[place] = list(item)
                    waiting.append(holder[place])
    return root[0]
