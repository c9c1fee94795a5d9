"""The stable way to read text calls from outside: `parser`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolglot.ir import Tool
from toolglot.textcalls.engine import Engine
from toolglot.textcalls.events import CallEvent, StableEvent
from toolglot.textcalls.formats import find_format


def schemas_of(tools: Iterable[Tool | Mapping[str, Any]]) -> dict[str, Any]:
    """The declared tools' names and the schemas of their arguments.

    A tool is one of toolglot's own or a definition in the shape of any vendor: `name` and `parameters`, `input_schema`
    or `inputSchema`, also inside `function`.
    """
    schemas: dict[str, Any] = {}
    for tool in tools:
        if isinstance(tool, Tool):
            schemas[tool.name] = tool.parameters
            continue
        inner = tool.get("function")
        told = inner if isinstance(inner, Mapping) else tool
        if isinstance(told.get("name"), str):
            keys = ("parameters", "input_schema", "inputSchema", "parametersJsonSchema")
            schemas[told["name"]] = next((told[key] for key in keys if told.get(key) is not None), None)
    return schemas


class Parser:
    """Reads one answer; yields the stable events (see `events.py`)."""

    __slots__ = ("_engine",)

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def feed(self, text: str) -> Iterator[StableEvent]:
        """The events for more of the text."""
        return _stable(self._engine.feed(text))

    def finish(self) -> Iterator[StableEvent]:
        """The events for its end."""
        return _stable(self._engine.finish())


def _stable(events: Iterable[CallEvent]) -> Iterator[StableEvent]:
    for event in events:
        if event[0] != "id" and event[0] != "repaired" and event[0] != "cut":
            yield event


def parser(
    format: str,  # noqa: A002 - the name that callers use
    tools: Iterable[Tool | Mapping[str, Any]] = (),
    starts_in_reasoning: bool = False,
) -> Parser:
    """A reader of text calls in a format (or `auto`), for the declared tools.

    `starts_in_reasoning`: the prompt has opened the thinking block already.
    """
    return Parser(Engine(find_format(format), schemas_of(tools), starts_in_reasoning=starts_in_reasoning))
