"""Bad input of every kind: a DecodeError that names a path, or a Fault in a stream; never slow, never anything else."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.case_files import cases_with
from tests.exchanges import JSON_NAMES, NAMES, check, read_events, relay, spoken
from tests.forms import form
from tests.laws.mutations import ODD_VALUES, paths, replaced
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError, UpstreamError
from toolglot.events import Event, Fault, fold
from toolglot.receipt import Receipt

Decode = Callable[[bytes], object]
KINDS = ("request", "response")
LIMIT_SECONDS = 5.0


def decoder(dialect: str, kind: str) -> Decode:
    return DIALECTS[dialect].decode_request if kind == "request" else DIALECTS[dialect].decode_response


def refusal(decode: Decode, raw: bytes) -> DecodeError:
    """The error that these bytes are refused with."""
    start = time.process_time()
    with pytest.raises(DecodeError) as caught:
        decode(raw)
    assert time.process_time() - start < LIMIT_SECONDS
    assert caught.value.where.startswith("$")
    assert len(str(caught.value)) < 2000
    return caught.value


def full(dialect: str, kind: str) -> bytes:
    return next(case for case in cases_with(kind, dialect) if case.name == "full").read(kind)


both_kinds = pytest.mark.parametrize("kind", KINDS)
every_dialect = pytest.mark.parametrize("dialect", NAMES)
in_json = pytest.mark.parametrize("dialect", JSON_NAMES)


@both_kinds
@in_json
def test_a_document_that_is_cut_at_any_byte_is_refused(dialect: str, kind: str) -> None:
    raw, decode = full(dialect, kind), decoder(dialect, kind)
    for end in range(len(raw)):
        with pytest.raises(DecodeError) as caught:
            decode(raw[:end])
        assert caught.value.where.startswith("$")


@both_kinds
@every_dialect
def test_a_value_of_any_type_at_any_place_is_taken_or_refused(dialect: str, kind: str) -> None:
    wire, decode = form(dialect, kind), decoder(dialect, kind)
    document = wire.read(full(dialect, kind))
    refused = 0
    for path in paths(document):
        for odd in ODD_VALUES:
            try:
                decode(wire.write(replaced(document, path, odd)))
            except DecodeError as error:
                refused += 1
                assert error.where.startswith("$")
            except UpstreamError as error:
                assert kind == "response"
                assert error.error.message
    assert refused


@in_json
def test_a_wrong_type_is_refused_with_its_path(dialect: str) -> None:
    key = DIALECTS[dialect].request.history_key
    error = refusal(DIALECTS[dialect].decode_request, json.dumps({"model": "m", key: 7}).encode())
    assert error.where.startswith(f"$.{key}")
    document = json.loads(full(dialect, "request"))
    error = refusal(DIALECTS[dialect].decode_request, json.dumps(replaced(document, (key, 1), 7)).encode())
    assert error.where.startswith(f"$.{key}[1]")


@both_kinds
@in_json
@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"null",
        b"7",
        b'"text"',
        b"[]",
        b"[{}]",
        b"true",
        b"{",
        b"}",
        b"nonsense",
        b"\xef\xbb\xbf{}",
        b"\xff\xfe{\x00}\x00",
        b"{} {}",
        b"{}\x00",
        b"{'a': 1}",
        b'{"a": 1,}',
        b'{"a": // comment\n 1}',
    ],
)
def test_what_is_no_object_is_refused(dialect: str, kind: str, raw: bytes) -> None:
    refusal(decoder(dialect, kind), raw)


def with_text(dialect: str, kind: str, text: bytes) -> bytes:
    """The full document with its first text replaced by these bytes."""
    raw = full(dialect, kind)
    shown = b"Look at these." if kind == "request" else b"See here."
    assert shown in raw
    return raw.replace(shown, text, 1)


@both_kinds
@in_json
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"\xff", "UTF-8"),
        (b"\xc3", "UTF-8"),
        (b"\xed\xa0\x80", "UTF-8"),
        (b"\\ud800", "surrogate"),
        (b"\\udc00 x", "surrogate"),
        (b"\\ud83c\\ud83c", "surrogate"),
        (b"\x00", ""),
        (b"line\nbreak", ""),
        (b"\\x", ""),
    ],
)
def test_what_is_no_text_is_refused(dialect: str, kind: str, text: bytes, said: str) -> None:
    error = refusal(decoder(dialect, kind), with_text(dialect, kind, text))
    assert error.where != "$"
    assert said in str(error)


@both_kinds
@in_json
@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"01", b"+1", b".5", b"1.", b"0x10", b"--1"])
def test_what_is_no_number_is_refused(dialect: str, kind: str, number: bytes) -> None:
    raw = full(dialect, kind)
    error = refusal(decoder(dialect, kind), raw[:-1] + b',"x_number":' + number + b"}")
    assert "x_number" in error.where


@both_kinds
@in_json
@pytest.mark.parametrize("number", [b"1" * 400, b"-" + b"9" * 5000, b"1e999", b"1e-999", b"0." + b"3" * 5000])
def test_a_huge_number_is_taken_or_refused(dialect: str, kind: str, number: bytes) -> None:
    raw = full(dialect, kind)[:-1] + b',"x_number":' + number + b"}"
    try:
        decoder(dialect, kind)(raw)
    except DecodeError as error:
        assert "x_number" in error.where


@both_kinds
@in_json
def test_a_duplicate_key_is_refused_with_its_path(dialect: str, kind: str) -> None:
    raw = full(dialect, kind)[:-1] + b',"x_twice":{"a":1,"b":[{"a":1,"a":2}]}}'
    assert refusal(decoder(dialect, kind), raw).where == "$.x_twice.b[0].a"


@both_kinds
@in_json
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_ten_thousand_levels_are_refused(dialect: str, kind: str, opening: bytes, closing: bytes) -> None:
    deep = opening * 10_000 + b"1" + closing * 10_000
    refusal(decoder(dialect, kind), full(dialect, kind)[:-1] + b',"x_deep":' + deep + b"}")
    refusal(decoder(dialect, kind), deep)


@both_kinds
@in_json
def test_arguments_of_ten_thousand_levels_are_no_crash(dialect: str, kind: str) -> None:
    """Arguments that are text on the wire are not looked into; those that are objects are refused."""
    deep = '{"a":' * 10_000 + "1" + "}" * 10_000
    document = json.loads(full(dialect, kind))
    for path in paths(document):
        if path and path[-1] == "arguments":
            document = replaced(document, path, deep)
    decoder(dialect, kind)(json.dumps(document).encode())


@both_kinds
@in_json
def test_a_string_of_seventy_megabytes_is_refused_at_once(dialect: str, kind: str) -> None:
    refusal(decoder(dialect, kind), with_text(dialect, kind, b"x" * 70_000_000))


@both_kinds
@in_json
def test_a_string_of_twenty_megabytes_is_taken(dialect: str, kind: str) -> None:
    start = time.process_time()
    decoder(dialect, kind)(with_text(dialect, kind, b"\\n\\u00e9 text" * 1_600_000))
    assert time.process_time() - start < LIMIT_SECONDS


@in_json
def test_a_hundred_thousand_small_messages_are_no_trouble(dialect: str) -> None:
    dialect_record = DIALECTS[dialect]
    case = next(case for case in cases_with("request", dialect) if case.name == "tool_round_trip")
    message = case.value("request")[dialect_record.request.history_key][0]
    raw = json.dumps({"model": "m", dialect_record.request.history_key: [message] * 100_000, "max_tokens": 1}).encode()
    start = time.process_time()
    dialect_record.decode_request(raw)
    assert time.process_time() - start < LIMIT_SECONDS


def whole_stream(dialect: str) -> bytes:
    return next(case for case in cases_with("stream", dialect) if case.name == "text_and_two_calls").read("stream")


def is_a_fault(dialect: str, stream: bytes) -> Event:
    start = time.process_time()
    events = read_events(dialect, [stream])
    assert time.process_time() - start < LIMIT_SECONDS
    check(events)
    assert isinstance(events[-1], Fault)
    for client in NAMES:
        told = read_events(client, [relay(client, dialect, [stream])])
        check(told)
        assert isinstance(told[-1], Fault)
    return events[-1]


BAD_FRAMES: dict[str, bytes] = {
    "nothing": b"",
    "rubbish": b"nonsense",
    "half an object": b'{"a":',
    "NaN": b'{"a":NaN}',
    "an array": b"[7]",
    "a string": b'"text"',
    "a number": b"7",
    "null": b"null",
    "deep nesting": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
}


@every_dialect
@pytest.mark.parametrize("name", BAD_FRAMES)
def test_a_bad_frame_in_a_stream_is_a_fault(dialect: str, name: str) -> None:
    stream, framing = whole_stream(dialect), DIALECTS[dialect].stream.framing
    position = stream.index(framing.end) + len(framing.end)
    frame = (b"" if framing.is_bare else b"data: ") + BAD_FRAMES[name] + framing.end
    if name == "nothing":  # data without content is no event at all
        check(read_events(dialect, [stream[:position] + frame + stream[position:]]))
    else:
        is_a_fault(dialect, stream[:position] + frame + stream[position:])
    is_a_fault(dialect, frame)


@in_json
@pytest.mark.parametrize("text", [b"\xff", b"\xc3", b"\x00", b"\\x"])
def test_what_is_no_text_in_a_stream_is_a_fault(dialect: str, text: bytes) -> None:
    stream = whole_stream(dialect)
    assert b"check." in stream
    is_a_fault(dialect, stream.replace(b"check.", text, 1))


@in_json
def test_half_a_character_in_a_stream_is_a_fault_or_told(dialect: str) -> None:
    """Some servers cut a pair of surrogates between two deltas, so the second half may still come."""
    receipt = Receipt()
    events = read_events(dialect, [whole_stream(dialect).replace(b"check.", b"\\ud800", 1)], receipt)
    check(events)
    assert isinstance(events[-1], Fault) or receipt.losses


@every_dialect
def test_a_frame_that_never_ends_is_a_fault(dialect: str) -> None:
    is_a_fault(dialect, b'data: {"a":"' + b"x" * 50_000_000)


@every_dialect
def test_a_whole_document_where_a_stream_should_be_is_a_fault_or_understood(dialect: str) -> None:
    """Gemini's servers do send it, when they are not asked for server-sent events."""
    events = read_events(dialect, [full(dialect, "response")])
    check(events)
    if not isinstance(events[-1], Fault):
        whole = DIALECTS[dialect].decode_response(full(dialect, "response"))
        assert spoken(fold(events).content) == spoken(whole.content)


@every_dialect
def test_a_web_page_where_a_stream_should_be_is_a_fault(dialect: str) -> None:
    is_a_fault(dialect, b"<html><body>502 Bad Gateway</body></html>\n\n")


def _frames(stream: bytes) -> Iterator[tuple[int, bytes]]:
    """Where the payload of each frame begins, and the payload."""
    for found in re.finditer(rb"^(?!event:)(?!data: ?\[DONE\])(?:data:)?(.+)$", stream, re.MULTILINE):
        yield found.start(1), found[1]


@every_dialect
def test_a_wrong_type_anywhere_in_a_stream_gives_a_grammatical_stream(dialect: str) -> None:
    stream = next(case for case in cases_with("stream", dialect) if case.name == "full").read("stream")
    wire = form(dialect, "frame")
    for start, payload in _frames(stream):
        frame: Any = wire.read(payload)
        for path in paths(frame):
            for odd in ODD_VALUES:
                spoilt = wire.write(replaced(frame, path, odd))
                check(read_events(dialect, [stream[:start] + spoilt + stream[start + len(payload) :]]))
