"""Escape the texts of tools, so that they can forge neither a call nor a result: descriptions and schemas are
untrusted.

Every string of a tool is escaped separately, before it is written: names, keys and the words of an enum have no marks,
so they remain what a model has to write. One that has a mark is shown with the dot, and the dot is removed from the
arguments that the model writes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from toolglot.ir import Tool, replace
from toolglot.textcalls.formats import find_format
from toolglot.textcalls.prompts.escaping import break_marks, needs_names
from toolglot.textcalls.prompts.records import Prompt
from toolglot.textcalls.unescape import DOT, Escapes


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
        """A tool's name is broken where a call would have it, in an example or a default value."""
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
