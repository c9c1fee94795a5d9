"""`toolglot parse`: find the tool calls in a model's text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

import click
from msgspec import Raw

from toolglot.cli.parameters import decode_chunks, input_file, print_note, read_chunks
from toolglot.cli.pretty_json import pretty_json
from toolglot.cli.table import render_table
from toolglot.cli.text_format import complete_format, convert_format
from toolglot.cli.tool_files import tools_in, tools_option
from toolglot.textcalls import AUTO, FORMATS, Engine, find_format
from toolglot.textcalls.events import CallEvent
from toolglot.wire import json

NOT_WHOLE = 1
"""Exit status: a call was cut off, or cannot be read."""

_FIELDS = {
    "text": ("text",),
    "reasoning": ("text",),
    "id": ("index", "id"),
    "start": ("index", "name"),
    "args": ("index", "fragment"),
    "repaired": ("index", "raw", "how"),
    "end": ("index",),
    "cut": ("index", "why", "raw"),
    "refused": ("mark",),
    "over": ("mark",),
    "unread": ("format",),
}
"""Names of the event values."""

_CALL = ("id", "name", "arguments", "complete", "cut", "raw", "repaired")
"""Printed members of a call, in this order."""

_HEAD = ("format", "what writes it", "also called")


@click.command(short_help="Find the tool calls in a model's text.")
@click.option(
    "--format",
    "text_format",
    metavar="FORMAT",
    default=AUTO,
    callback=convert_format,
    shell_complete=complete_format,
    help="Format of the calls; --list shows all formats. Default: `auto`, which reads nearly all of them.",
)
@tools_option
@click.option("--events", is_flag=True, help="Print one line of JSON per event as the text arrives.")
@click.option("--starts-in-reasoning", is_flag=True, help="The prompt already opened the reasoning block.")
@click.option("--list", "lists", is_flag=True, help="List the formats and exit.")
@click.option("--pretty/--no-pretty", default=None, help="Indent the output. Default: only on a terminal.")
@input_file
@click.pass_context
def parse(
    context: click.Context,
    file: Path,
    text_format: str,
    tools: Path | None,
    events: bool,
    starts_in_reasoning: bool,
    lists: bool,
    pretty: bool | None,
) -> None:
    """Find the tool calls in FILE, or standard input, which holds text written by a model.

    \b
    toolglot parse --format hermes_json --tools tools.json answer.txt

    The output is one JSON document with the text, the reasoning and the calls, or one line per event with --events.

    Exit status: 0 success, 1 a call is truncated or unreadable (it has `"complete": false` and must not be run),
    2 invalid file or option.
    """
    if lists:
        click.echo("\n".join(render_table(_HEAD, _rows(), get_terminal_size().columns, ruled=False)))
        return
    if events and pretty is not None:
        raise click.UsageError("--pretty cannot be combined with --events", context)
    declared = {tool.name: tool.parameters for tool in tools_in(tools)} if tools is not None else {}
    engine = Engine(find_format(text_format), declared, starts_in_reasoning=starts_in_reasoning)
    found = ParsedText()
    for event in _events(engine, file):
        found.add(event)
        if events:
            _tell_event(event)
    if not events:
        _tell_document(found.document(), sys.stdout.isatty() if pretty is None else pretty)
    cut = [call for call in found.calls.values() if not call["complete"]]
    for call in cut:
        print_note(file, f"the call of {call['name']} is incomplete: {call['cut']}")
    if cut:
        context.exit(NOT_WHOLE)


def _rows() -> list[tuple[str, str, str]]:
    return [(form.name, form.title, ", ".join(form.aliases)) for form in FORMATS.values()]


def _events(engine: Engine, file: Path) -> Iterator[CallEvent]:
    for text in decode_chunks(read_chunks(file), file):
        yield from engine.feed(text)
    yield from engine.finish()


def _tell_event(event: CallEvent) -> None:
    kind, *values = event
    line = {"event": kind, **dict(zip(_FIELDS[kind], values, strict=True))}
    sys.stdout.buffer.write(json.encode(line) + b"\n")
    sys.stdout.buffer.flush()


def _tell_document(document: bytes, pretty: bool) -> None:
    click.echo(pretty_json(document).encode() if pretty else document)


class ParsedText:
    """The parsed content of a text: the sum of its events."""

    def __init__(self) -> None:
        self.pieces: dict[str, list[str]] = {"text": [], "reasoning": []}
        self.calls: dict[int, dict[str, Any]] = {}
        self.marks: dict[str, list[str]] = {}
        self._ids: dict[int, str] = {}
        self._arguments: dict[int, list[str]] = {}

    def add(self, event: CallEvent) -> None:
        match event:
            case ("text" | "reasoning" as kind, text):
                self.pieces[kind].append(text)
            case ("id", index, call_id):
                self._ids[index] = call_id
            case ("start", index, name):
                given = {"id": self._ids[index]} if index in self._ids else {}
                self.calls[index] = {**given, "name": name, "complete": False}
                self._arguments[index] = []
            case ("args", index, fragment):
                self._arguments[index].append(fragment)
            case ("repaired", index, raw, how):
                self.calls[index]["repaired"] = {"how": how, "raw": raw}
            case ("end", index):
                self.calls[index].update(complete=True, arguments=Raw(self._text(index).encode()))
            case ("cut", index, why, raw):
                # Text, not an object, so that partial arguments are not mistaken for complete ones.
                self.calls[index].update(cut=why, arguments=self._text(index))
                if raw:
                    self.calls[index]["raw"] = raw
            case ("refused" | "over" | "unread" as kind, mark):
                self.marks.setdefault(kind, []).append(mark)

    def _text(self, index: int) -> str:
        return "".join(self._arguments.pop(index))

    def document(self) -> bytes:
        calls = [{name: call[name] for name in _CALL if name in call} for call in self.calls.values()]
        said = {kind: "".join(pieces) for kind, pieces in self.pieces.items()}
        return json.encode({**said, "calls": calls, **self.marks})
