"""The public interface for reading text calls: `parser`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from toolglot.ir import Tool
from toolglot.textcalls.engine import Engine
from toolglot.textcalls.events import (
    ArgumentsPart,
    CallCut,
    CallEnd,
    CallEvent,
    CallStart,
    ParsedEvent,
    ReasoningTextPart,
    TextPart,
)
from toolglot.textcalls.formats import find_format
from toolglot.textcalls.grammar import Format
from toolglot.wire.sdk_objects import describe_type


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


_RECORDS: dict[str, Callable[..., ParsedEvent]] = {
    "text": TextPart,
    "reasoning": ReasoningTextPart,
    "start": CallStart,
    "args": ArgumentsPart,
    "end": CallEnd,
    "cut": CallCut,
}
"""The events that callers get. Readers outside this package do not see kinds of events that were added later."""


class Parser:
    """Reads one answer.

    for event in reader.feed(piece):
        match event:
            case CallStart(call=call, name=name): ...
            case CallCut(why=why): ...
    """

    __slots__ = ("_engine",)

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def feed(self, text: str) -> Iterator[ParsedEvent]:
        """Yield the events for more text."""
        if not isinstance(text, str):
            raise TypeError(f"expected text as a str, not {describe_type(text)}")
        return _parsed_events(self._engine.feed(text))

    def finish(self, *, cut: bool = False) -> Iterator[ParsedEvent]:
        """Yield the events for the end of the text. `cut`: a token limit ended it, so anything without an end is
        incomplete."""
        return _parsed_events(self._engine.finish(cut=cut))


def _parsed_events(events: Iterable[CallEvent]) -> Iterator[ParsedEvent]:
    for event in events:
        record = _RECORDS.get(event[0])
        if record is not None:
            yield record(*event)


def parser(
    format: str | Format,  # noqa: A002 - the name that callers use
    tools: Iterable[Tool | Mapping[str, Any]] = (),
    starts_in_reasoning: bool = False,
) -> Parser:
    """Return a reader of text calls for the declared tools.

    `format` is a format's name, `auto`, or a `Format` of your own. `starts_in_reasoning`: the prompt has already opened
    the thinking block.

    Raises:
        MisuseError: there is no format of that name.
    """
    text_format = format if isinstance(format, Format) else find_format(format)
    return Parser(Engine(text_format, schemas_of(tools), starts_in_reasoning=starts_in_reasoning))
