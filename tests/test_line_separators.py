"""Characters at which `str.splitlines` splits and JSON does not. Clients that read a stream with it (httpx does in
`iter_lines`, and the SDKs of Ollama and Gemini for Python use that) would get half a document."""

from __future__ import annotations

import json

import pytest

from tests.exchanges import FORWARDING, NAMES, PAIRS, folded, read_events, write_events
from toolglot import Exchange
from toolglot.dialects import DIALECTS
from toolglot.errors import ApiError
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start
from toolglot.ir import Block, Stop, Text, Thinking, ToolCall
from toolglot.wire.json import encode_frame, escape_line_separators

SEPARATORS = {"\u2028": rb"\u2028", "\u2029": rb"\u2029", "\u0085": rb"\u0085"}
SAID = "a\u2028b\u2029c\u0085d"
PIECES = ("first ", "second ", "x\u2028", "\u2029y", "é \u0085", "é", "é\u2028", "last")
BLOCKS: dict[str, Block] = {"text": Text(text=""), "reasoning": Thinking(), "arguments": ToolCall(id="c1", name="f")}


def raw_stream(dialect: str, block: Block) -> bytes:
    """A stream that has the characters unescaped, as servers write them whose JSON encoder is not Go's."""
    pieces = ('{"a":"', *PIECES, '"}') if isinstance(block, ToolCall) else PIECES
    closes = Close(index=0, native={dialect: {"signature": "s"}} if isinstance(block, Thinking) else {})
    stop = Stop("tool_calls" if isinstance(block, ToolCall) else "end")
    events: tuple[Event, ...] = (
        Start(id="r", model="m"),
        Open(0, block),
        *[Delta(0, piece) for piece in pieces],
        closes,
        Finish(stop=stop),
    )
    written = write_events(dialect, events)
    for character, escape in SEPARATORS.items():
        written = written.replace(escape, character.encode())
    return written


def lines_of(stream: bytes) -> list[str]:
    """The lines of a stream as httpx reads them."""
    return stream.decode().splitlines()


@pytest.mark.parametrize("cut", ["whole", "frames"])
@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_a_stream_has_no_line_end_but_its_own(client: str, upstream: str, kind: str, cut: str) -> None:
    stream = raw_stream(upstream, BLOCKS[kind])
    translation = Exchange(client, upstream).stream()
    pieces = DIALECTS[upstream].stream.framing.split(stream) if cut == "frames" else [stream]
    written = b"".join([translation.feed(piece) for piece in pieces]) + translation.close()
    assert lines_of(written) == written.decode().replace("\r\n", "\n").removesuffix("\n").split("\n")
    received = folded(read_events(client, [written])).content
    if kind == "text":
        assert [block.text for block in received if isinstance(block, Text)] == ["".join(PIECES)]
    elif kind == "arguments":
        (call,) = [block for block in received if isinstance(block, ToolCall)]
        assert json.loads(call.arguments) == {"a": "".join(PIECES)}


@pytest.mark.parametrize("dialect", NAMES)
def test_an_error_in_a_stream_has_no_line_end_but_its_own(dialect: str) -> None:
    written = write_events(dialect, [Start(id="r", model=SAID), Fault(ApiError(kind="server", message=SAID))])
    assert not any(character in written.decode() for character in SEPARATORS)


@pytest.mark.parametrize("dialect", FORWARDING)
def test_a_forwarded_stream_without_such_characters_is_not_changed(dialect: str) -> None:
    stream = write_events(
        dialect,
        [Start(id="r", model="m"), Open(0, Text(text="")), Delta(0, "é…“"), Close(index=0), Finish(stop=Stop("end"))],
    )
    translation = Exchange(dialect, dialect).stream()
    assert translation.feed(stream) + translation.close() == stream


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", b'"plain"'),
        ("é\u2027\u202a\u0084", '"é\u2027\u202a\u0084"'.encode()),
        (SAID, rb'"a\u2028b\u2029c\u0085d"'),
        ("\\\u2028", rb'"\\\u2028"'),
    ],
)
def test_only_line_separators_are_escaped(text: str, written: bytes) -> None:
    assert encode_frame(text) == written
    assert escape_line_separators(written) is written
