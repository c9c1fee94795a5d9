"""Lines among the events of a stream that are no event, and answers in the form of the other way to answer."""

from __future__ import annotations

import json

import pytest

from tests.exchanges import JSON_NAMES, NAMES, calls_of, folded, read_events, relay, through
from tests.lint.streams import SOUND
from toolglot.dialects import DIALECTS
from toolglot.errors import UpstreamError
from toolglot.events import Fault
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

MARK = b"\xef\xbb\xbf"
ERRORS: dict[str, bytes] = {
    "on one line": b'{"error":{"message":"boom inside","type":"server_error","code":500}}',
    "on many lines": b'{\n  "error": {\n    "message": "boom inside",\n    "code": 500\n  }\n}',
    "in a list": b'[{"error":{"message":"boom inside","code":500}}]',
}


def frames(dialect: str) -> list[bytes]:
    end = DIALECTS[dialect].stream.framing.end
    return [frame + end for frame in SOUND[dialect].split(end) if frame]


OF_EVENTS = [name for name in NAMES if not DIALECTS[name].stream.framing.is_bare]
"""The dialects whose streams are server-sent events: among lines of JSON there can be no other lines."""


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"], ids=["no end", "a line end", "a blank line"])
@pytest.mark.parametrize("form", ERRORS)
@pytest.mark.parametrize("dialect", [name for name in NAMES if name != "warp"])
def test_a_bare_error_among_events_is_read(dialect: str, form: str, end: bytes) -> None:
    data = b"".join(frames(dialect)[:2]) + ERRORS[form] + end
    for size in (len(data), 1):
        last = read_events(dialect, [data[at : at + size] for at in range(0, len(data), size)])[-1]
        assert isinstance(last, Fault)
        assert "boom inside" in last.error.message


FIELDS = (b'error: {"code":500,"message":"boom inside","type":"server_error"}', b"error: " + ERRORS["on one line"])


@pytest.mark.parametrize("line", FIELDS, ids=["the error alone", "a document"])
@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic"])  # llama.cpp's
def test_an_error_that_is_a_field_of_its_own_is_read(dialect: str, line: bytes) -> None:
    data = b"".join(frames(dialect)[:2]) + line + b"\n\n"
    for size in (len(data), 1):
        last = read_events(dialect, [data[at : at + size] for at in range(0, len(data), size)])[-1]
        assert isinstance(last, Fault)
        assert "boom inside" in last.error.message


@pytest.mark.parametrize("client", NAMES)
@pytest.mark.parametrize("dialect", NAMES)
def test_every_client_is_told_of_a_bare_error_among_events(client: str, dialect: str) -> None:
    data = b"".join(frames(dialect)[:2]) + ERRORS["on one line"]
    last = read_events(client, [relay(client, dialect, [data])])[-1]
    assert isinstance(last, Fault)
    assert "boom inside" in last.error.message


@pytest.mark.parametrize("garbage", [bytes(range(256)), MARK, b"\x00", b" ", b"x"])
@pytest.mark.parametrize("dialect", OF_EVENTS)
def test_bytes_in_front_of_an_event_do_not_hide_it(dialect: str, garbage: bytes) -> None:
    whole = frames(dialect)
    broken = [*whole[:2], garbage + whole[2].replace(b"event:data\n", b""), *whole[3:]]
    if whole[2].startswith(b"event: "):
        broken[2] = garbage + whole[2].partition(b"\n")[2]
    last = read_events(dialect, [b"".join(broken)])[-1]
    assert isinstance(last, Fault)
    assert last.error.code == "upstream_unreadable"


@pytest.mark.parametrize("noise", [b"<html>502</html>", b"Internal Server Error", b"<html>\n<p>\n</html>"])
@pytest.mark.parametrize("dialect", OF_EVENTS)
def test_noise_among_events_is_in_the_receipt(dialect: str, noise: bytes) -> None:
    whole, receipt = frames(dialect), Receipt()
    data = b"".join([*whole[:2], noise + b"\n\n", *whole[2:]])
    expected = folded(read_events(dialect, [SOUND[dialect]]))
    assert folded(read_events(dialect, [data], receipt)) == expected
    assert [(line.severity, line.where) for line in receipt] == [("loss", "stream")]
    assert receipt.losses[0].what == f"{len(noise)} bytes among the events"


@pytest.mark.parametrize("line", [b": keep-alive", b"id: 7", b"retry: 10", b"x-trace: 1", b"novel", b"data"])
def test_comments_and_other_fields_of_events_are_no_noise(line: bytes) -> None:
    receipt, whole = Receipt(), frames("openai_chat")
    read_events("openai_chat", [b"".join([*whole[:2], line + b"\n\n", *whole[2:]])], receipt)
    assert not list(receipt)


@pytest.mark.parametrize("mark", [b"", MARK], ids=["plain", "marked"])
@pytest.mark.parametrize("client", JSON_NAMES)
@pytest.mark.parametrize("dialect", JSON_NAMES)
def test_a_stream_in_place_of_a_whole_answer_is_read(client: str, dialect: str, mark: bytes) -> None:
    exchange = ExchangeCore(client, dialect)
    response = DIALECTS[client].decode_response(exchange.response(mark + SOUND[dialect]))
    expected = folded(read_events(dialect, [SOUND[dialect]]))
    assert [(call.name, json.loads(call.arguments or "{}")) for call in calls_of(response.content)] == [
        (call.name, json.loads(call.arguments or "{}")) for call in calls_of(expected.content)
    ]
    assert ("response", "a stream") in [(line.where, line.what) for line in exchange.receipt]


@pytest.mark.parametrize("dialect", JSON_NAMES)
def test_an_error_in_a_stream_in_place_of_a_whole_answer_is_told(dialect: str) -> None:
    head = b"data: " if dialect in OF_EVENTS else b""
    for data in (head + ERRORS["on one line"] + b"\n\n", b"".join(frames(dialect)[:2]) + ERRORS["on one line"]):
        with pytest.raises(UpstreamError, match="boom inside"):
            ExchangeCore("openai_chat", dialect).response(data)


@pytest.mark.parametrize("dialect", JSON_NAMES)
def test_half_a_stream_in_place_of_a_whole_answer_is_an_error(dialect: str) -> None:
    with pytest.raises(UpstreamError, match="before the response was complete"):
        ExchangeCore("openai_chat", dialect).response(b"".join(frames(dialect)[:2]))


@pytest.mark.parametrize("client", JSON_NAMES)
@pytest.mark.parametrize("dialect", JSON_NAMES)
def test_a_byte_order_mark_in_front_of_a_whole_answer_says_nothing(client: str, dialect: str) -> None:
    response = folded(read_events(dialect, [SOUND[dialect]]))
    document = DIALECTS[dialect].encode_response(response, None, Receipt())
    assert ExchangeCore(client, dialect).response(MARK + document) == ExchangeCore(client, dialect).response(document)
    streamed = [through(ExchangeCore(client, dialect), [mark + document]) for mark in (MARK, b"")]
    assert streamed[0] == streamed[1]


@pytest.mark.parametrize("dialect", JSON_NAMES)
@pytest.mark.parametrize("head", [MARK, b"data: ", b"event: error\ndata: ", MARK + b"data: "])
def test_an_error_body_is_read_out_of_an_event_and_behind_a_byte_order_mark(dialect: str, head: bytes) -> None:
    reply = ExchangeCore("openai_chat", dialect).error(500, {}, head + ERRORS["on one line"] + b"\n\n")
    assert json.loads(reply.body)["error"]["message"] == "boom inside"
