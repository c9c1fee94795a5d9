"""`toolglot warp`: convert Warp's protobuf to JSON and back."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from json import JSONDecoder
from pathlib import Path
from typing import Any, TypeVar

import click

from toolglot.cli.groups import Group
from toolglot.cli.parameters import exit_unreadable, input_file, print_note, read_chunks
from toolglot.cli.pretty_json import pretty_json
from toolglot.dialects import find
from toolglot.errors import DecodeError, MissingExtraError
from toolglot.wire import json

WRAPPINGS = ("protobuf", "base64", "sse")
_SOMETHING = re.compile(r"\S")
T = TypeVar("T")

message_option = click.option(
    "--message",
    metavar="NAME",
    help="Message type: Request, ResponseEvent, Task … Default: detected, Request or ResponseEvent.",
)


@click.group(cls=Group, short_help="Convert Warp's protobuf to JSON and back.")
def warp() -> None:
    """Convert the messages of Warp's API to JSON and back."""


@warp.command(short_help="Convert protobuf, base64 or a stream to JSON.")
@click.option("--from", "wrapping", type=click.Choice(WRAPPINGS), help="Input format. Default: detected.")
@message_option
@click.option("--pretty/--no-pretty", default=None, help="Indent the output. Default: only on a terminal.")
@input_file
def decode(file: Path, wrapping: str | None, message: str | None, pretty: bool | None) -> None:
    """Print FILE, or standard input, as JSON, with one document per message.

    Unknown fields are kept under `$unknown`. Exit status: 0 success, 2 invalid input.
    """
    data = _read(file)
    bridge = _bridge()

    def documents() -> list[bytes]:
        kind = wrapping or bridge.detect_wrapping(data)
        named = message or (bridge.EVENT if kind == "sse" else None)
        found = bridge.unwrap(data, kind)
        places = [f"events[{number}]" for number in range(len(found))] if kind == "sse" else ["$"]
        return [json.encode(bridge.decode(each, named, where).value) for each, where in zip(found, places, strict=True)]

    lays_out = sys.stdout.isatty() if pretty is None else pretty
    for document in _run_or_exit(file, documents):
        click.echo(pretty_json(document).encode() if lays_out else document)


@warp.command(short_help="Convert JSON to protobuf, base64 or a stream.")
@click.option(
    "--to",
    "wrapping",
    type=click.Choice(WRAPPINGS),
    help="Output format. Default: protobuf, or base64 on a terminal.",
)
@message_option
@input_file
def encode(file: Path, wrapping: str | None, message: str | None) -> None:
    """Encode the JSON in FILE, or standard input, for Warp's API. A stream may have several documents.

    Exit status: 0 success, 2 invalid input.
    """
    data = _read(file)
    bridge = _bridge()
    kind = wrapping or ("base64" if sys.stdout.isatty() else "protobuf")

    rounded: list[str] = []

    def written() -> bytes:
        named = message or (bridge.EVENT if kind == "sse" else None)
        out: bytes = bridge.wrap(
            [_numbered(bridge, n, each, named, rounded) for n, each in enumerate(_documents(data))], kind
        )
        return out

    out = _run_or_exit(file, written)
    for place in rounded:
        print_note(file, f"{place}: an integer is rounded: numbers in a Struct are doubles")
    click.echo(out, nl=False)


def _numbered(bridge: Any, number: int, value: Any, message: str | None, rounded: list[str]) -> tuple[str, bytes]:
    found: list[str] = []
    place = f"document {number + 1}: " if number else ""
    try:
        made: tuple[str, bytes] = bridge.encode(value, message, found)
    except DecodeError as error:
        raise DecodeError(f"{place}{error.where}", error.what) from None
    rounded += [f"{place}{where}" for where in found]
    return made


def _documents(data: bytes) -> list[Any]:
    """Parse one JSON document, or several in a row."""
    try:
        return [json.decode(data)]
    except DecodeError:
        pieces = _pieces(data)
        if len(pieces) < 2:
            raise
        return [json.decode(piece) for piece in pieces]


def _pieces(data: bytes) -> list[bytes]:
    """Split consecutive documents; the last piece may be invalid."""
    text, reader = data.decode("utf-8", "surrogateescape"), JSONDecoder()
    pieces: list[bytes] = []
    at = 0
    while (begin := _SOMETHING.search(text, at)) is not None:
        try:
            _, at = reader.raw_decode(text, begin.start())
        except ValueError:
            at = len(text)
        pieces.append(text[begin.start() : at].encode("utf-8", "surrogateescape"))
    return pieces


def _read(file: Path) -> bytes:
    data = b"".join(read_chunks(file))
    if not data.strip():
        exit_unreadable(file, "it is empty")
    return data


def _bridge() -> Any:
    try:
        find("warp")
    except MissingExtraError as error:
        raise click.UsageError(str(error)) from None
    from toolglot.dialects.warp import bridge  # needs an extra

    return bridge


def _run_or_exit(file: Path, work: Callable[[], T]) -> T:
    try:
        return work()
    except DecodeError as error:
        exit_unreadable(file, str(error))
    except RecursionError:
        exit_unreadable(file, json.TOO_DEEP)
