"""Numbers that a field or a Struct cannot hold, and schemas that say nothing sensible about numbers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.warp.conversations import (
    WARP,
    assistant,
    call,
    encode_request,
    events_of,
    fault_of,
    make_request,
    result,
    user,
)
from tests.dialects.warp.test_stream import stream_of
from tests.warp_server import story, wire
from toolglot.dialects.warp.descriptors import Struct, parse
from toolglot.dialects.warp.integers import restore_integers
from toolglot.dialects.warp.values import write_struct
from toolglot.errors import DecodeError
from toolglot.ir import Response, Stop, Text, ToolCall
from toolglot.receipt import Receipt

HUGE = "9" * 400


def test_arguments_with_a_number_beyond_every_double_are_kept_as_text_and_told() -> None:
    arguments = f'{{"days":[{HUGE}]}}'
    receipt = Receipt()
    request = make_request(user("Hi"), assistant(call("c", arguments)), result("c", Text(text="ok")))
    again = WARP.decode_request(encode_request(request, receipt))
    (kept,) = [block for message in again.messages for block in message.content if isinstance(block, ToolCall)]
    assert kept.arguments == f'{{"_raw":"{{\\"days\\":[{HUGE}]}}"}}'
    assert [line.what for line in receipt.losses] == ["arguments"]


def test_a_number_beyond_every_double_is_an_error_that_says_where() -> None:
    with pytest.raises(DecodeError, match="here: a whole number is too large"):
        write_struct({"a": {"b": -int(HUGE)}}, Struct(), "here")


@pytest.mark.parametrize("said", [True, 7, 1.5, None, {"a": 1}, "object", [7, None], []])
def test_a_type_that_is_none_says_nothing(said: Any) -> None:
    assert str(restore_integers({"a": 5.0}, {"properties": {"a": {"type": said}}})) == "{'a': 5}"


CUT = {
    "an enum": ("Citation", wire.number_field(2, 1 << 32 | 5), "Citation.document_type"),
    "an enum with the bit of the sign": ("Citation", wire.number_field(2, 1 << 31), "Citation.document_type"),
    "an enum of 64 bits": ("Citation", wire.number_field(2, 1 << 63 | 1 << 31), "Citation.document_type"),
    "one of many": ("Settings", wire.bytes_field(9, wire.varint(9) + wire.varint(1 << 40)), "Settings.supported_tools"),
    "one by one": ("Settings", wire.number_field(9, 1 << 40), "Settings.supported_tools"),
    "a count, inside": (
        "StreamFinished",
        wire.bytes_field(8, wire.bytes_field(1, b"auto") + wire.number_field(2, 1 << 33)),
        "total_input",
    ),
}


@pytest.mark.parametrize("name", CUT)
def test_a_number_that_its_field_would_cut_is_refused(name: str) -> None:
    message, data, where = CUT[name]
    with pytest.raises(DecodeError, match=f"{where}: [0-9]+ has more than 32 bits"):
        parse(message, data)


@pytest.mark.parametrize(
    ("message", "data"),
    [
        ("Citation", wire.number_field(2, -1) + wire.bytes_field(1, b"x")),
        ("Citation", wire.number_field(99, 1 << 60) + wire.number_field(2, 1)),
        ("Citation", wire.bytes_field(1, "日本".encode()) + wire.number_field(2, 1) + wire.bytes_field(1, b"x")),
        ("Message", wire.bytes_field(14, wire.number_field(1, 1 << 60) + wire.number_field(2, (1 << 31) - 1))),
        ("Message", b"\x9b\x06" + wire.number_field(8, 1 << 60) + b"\x9c\x06" + wire.bytes_field(1, b"x")),
    ],
)
def test_other_long_numbers_are_read(message: str, data: bytes) -> None:
    """Negative ones, those of 64 bits, and those that nobody knows."""
    assert parse(message, data).ByteSize() <= len(data)


def test_arguments_that_are_nested_too_deeply_are_an_error_that_says_so() -> None:
    value: Any = {}
    for _ in range(40):
        value = {"a": value}
    body = stream_of(story.add(story.called(8, "c", "f", value)), story.finished())
    assert "nested deeper than 100" in fault_of(events_of(body)).message
    with pytest.raises(DecodeError, match="about 30 levels"):
        WARP.decode_response(body)


def test_an_empty_answer_that_was_cut_is_not_written_as_an_error() -> None:
    receipt = Receipt()
    empty = Response(id="r", model="m", content=(), stop=Stop("length"))
    again = WARP.decode_response(WARP.encode_response(empty, None, receipt))
    assert again.stop.reason == "end"
    assert [line.what for line in receipt.losses] == ["length"]
