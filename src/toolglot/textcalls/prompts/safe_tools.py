"""Tools whose texts can forge neither a call nor a result: descriptions and schemas come from strangers' servers.

Every string of a tool is escaped by itself, as it is and not as it is written: names, keys and the words of an enum
have no marks, so that they stay what a model has to write. One that has a mark is told with the dot, and the dot is
taken out of the arguments that the model writes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from toolglot.ir import Tool, replace
from toolglot.textcalls.escapes import DOT, Escapes
from toolglot.textcalls.formats import find_format
from toolglot.textcalls.prompts.escaping import needs_names, without_marks
from toolglot.textcalls.prompts.records import Prompt

MAX_DEPTH: Final = 200
"""What is nested more deeply is told as anything: nobody reads it."""


def safe_tools(prompt: Prompt, tools: Sequence[Tool], escapes: Escapes | None = None) -> tuple[Tool, ...]:
    """The tools with every mark in them broken; `escapes` learns which."""
    text_format = find_format(prompt.name)
    names = tuple(tool.name for tool in tools)
    keys = {key for call in text_format.calls for key in call.name_keys} if needs_names(text_format) else set()

    def safe(text: str) -> str:
        broken = without_marks(prompt, text, names, escapes, inside=True)
        flat = " ".join(broken.split())  # some lists tell it in one line, and a mark may come about so
        told = broken if flat == broken else without_marks(prompt, flat, names, escapes, again=True, inside=True)
        return broken if told in (broken, flat) else told

    def named(key: str, value: Any) -> Any:
        """A tool's name where a call would have it, in an example or a default value."""
        if key not in keys or not isinstance(value, str) or value.strip() not in names:
            return value
        if escapes is not None:
            escapes.add('"', f'{value}"')
        return f"{DOT}{value}"

    return tuple(_safe_tool(tool, safe, named) for tool in tools)


def _safe_tool(tool: Tool, safe: Callable[[str], str], named: Callable[[str, Any], Any]) -> Tool:
    name, description = safe(tool.name), None if tool.description is None else safe(tool.description)
    return replace(tool, name=name, description=description, parameters=_safe_value(tool.parameters, safe, named))


def _safe_value(value: Any, safe: Callable[[str], str], named: Callable[[str, Any], Any], depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        return {}
    match value:
        case str():
            return safe(value)
        case Mapping():
            return {
                safe(key): _safe_value(named(key, item), safe, named, depth + 1) for key, item in value.items()
            }
        case list() | tuple():
            return [_safe_value(item, safe, named, depth + 1) for item in value]
    return value
