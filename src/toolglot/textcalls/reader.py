"""The public interface for reading text calls: `parser`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolglot.ir import Tool
from toolglot.textcalls.engine import Engine
from toolglot.textcalls.events import CallEvent, StableEvent
from toolglot.textcalls.formats import find_format
from toolglot.textcalls.grammar import Format


def schemas_of(tools: Iterable[Tool | Mapping[str, Any]]) -> dict[str, Any]:
    """Return the declared tools' names and the schemas of their arguments.

    A tool is one of toolglot's own, or a definition in any vendor's shape: `name` and `parameters`, `input_schema` or
    `inputSchema`, also inside `function`.
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
        """Yield the events for more text."""
        return _stable_events(self._engine.feed(text))

    def finish(self) -> Iterator[StableEvent]:
        """Yield the events for the end of the text."""
        return _stable_events(self._engine.finish())


def _stable_events(events: Iterable[CallEvent]) -> Iterator[StableEvent]:
    """Only the events listed here: external readers see no event that was added later."""
    for event in events:
        if (
            event[0] == "args"
            or event[0] == "text"
            or event[0] == "reasoning"
            or event[0] == "start"
            or event[0] == "end"
        ):
            yield event


def parser(
    format: str | Format,  # noqa: A002 - the name that callers use
    tools: Iterable[Tool | Mapping[str, Any]] = (),
    starts_in_reasoning: bool = False,
) -> Parser:
    """Return a reader of text calls for the declared tools.

    `format` is a format's name, `auto`, or a `Format` of your own. `starts_in_reasoning`: the prompt has already opened
    the thinking block.

    Raises:
        ValueError: there is no format of that name.
    """
    text_format = format if isinstance(format, Format) else find_format(format)
    return Parser(Engine(text_format, schemas_of(tools), starts_in_reasoning=starts_in_reasoning))
