"""Law 2: whatever the bytes, only grammatical events or a DecodeError come out, in linear time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_files import cases_with
from tests.documents import DOCUMENTS
from tests.documents.shared import Spoken
from tests.examples import PER_PAIR
from tests.exchanges import NAMES, PAIRS, check, read_events, relay
from tests.forms import JSON, form
from tests.laws.measure import growth
from tests.laws.mutations import SNIPPETS, spoilt, spoilt_bytes
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError, UpstreamError
from toolglot.events import Fault, Finish
from toolglot.ir import Request, Response

rubbish = st.one_of(
    st.binary(max_size=200),
    st.lists(st.sampled_from([*SNIPPETS, b"data: ", b"\n", b"{", b"}"]), max_size=12).map(b"".join),
)


def is_grammatical(dialect: str, stream: bytes) -> None:
    events = read_events(dialect, [stream])
    check(events)
    assert isinstance(events[-1], Finish | Fault)


@pytest.mark.parametrize("dialect", NAMES)
@given(stream=rubbish)
def test_rubbish_gives_a_grammatical_stream(dialect: str, stream: bytes) -> None:
    is_grammatical(dialect, stream)


@pytest.mark.parametrize("dialect", NAMES)
@given(data=st.data())
def test_a_spoilt_stream_gives_a_grammatical_stream(dialect: str, data: st.DataObject) -> None:
    is_grammatical(dialect, data.draw(spoilt_bytes(data.draw(DOCUMENTS[dialect].streams).encode())))


@pytest.mark.parametrize("dialect", NAMES)
@given(data=st.data())
def test_a_stream_with_spoilt_frames_gives_a_grammatical_stream(dialect: str, data: st.DataObject) -> None:
    """Every frame can still be read, but its values are of other types, missing or new."""
    case = data.draw(st.sampled_from(cases_with("stream", dialect)))
    framing = DIALECTS[dialect].stream.framing
    frames = case.read("stream").split(framing.end)
    number = data.draw(st.integers(0, len(frames) - 2))
    head, mark, payload = (b"", b"", frames[number]) if framing.is_bare else frames[number].rpartition(b"data:")
    if payload.strip() != b"[DONE]":
        read, write = form(dialect, "frame").read, form(dialect, "frame").write
        frames[number] = head + mark + write(data.draw(spoilt(read(payload))))
    is_grammatical(dialect, framing.end.join(frames))


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
@PER_PAIR
@given(data=st.data())
def test_a_client_never_sees_an_exception(client: str, upstream: str, data: st.DataObject) -> None:
    stream = data.draw(spoilt_bytes(data.draw(DOCUMENTS[upstream].streams).encode()) | rubbish)
    check(read_events(client, [relay(client, upstream, [stream])]))


@pytest.mark.parametrize("dialect", NAMES)
@given(data=st.data())
def test_any_bytes_are_a_request_or_a_decode_error(dialect: str, data: st.DataObject) -> None:
    document, write = data.draw(DOCUMENTS[dialect].requests), form(dialect, "request").write
    raw = data.draw(st.one_of(st.binary(max_size=100), spoilt(document).map(write), spoilt_bytes(write(document))))
    try:
        assert isinstance(DIALECTS[dialect].decode_request(raw), Request)
    except DecodeError as error:
        assert error.where.startswith("$")


@pytest.mark.parametrize("dialect", NAMES)
@given(data=st.data())
def test_any_bytes_are_a_response_or_an_error(dialect: str, data: st.DataObject) -> None:
    document, write = data.draw(DOCUMENTS[dialect].responses), form(dialect, "response").write
    raw = data.draw(st.one_of(st.binary(max_size=100), spoilt(document).map(write), spoilt_bytes(write(document))))
    try:
        assert isinstance(DIALECTS[dialect].decode_response(raw), Response)
    except DecodeError as error:
        assert error.where.startswith("$")
    except UpstreamError as error:
        assert error.error.message


@pytest.mark.parametrize("dialect", NAMES)
@given(data=st.data())
def test_any_bytes_are_an_error_that_can_be_told(dialect: str, data: st.DataObject) -> None:
    odd = spoilt({"error": {"message": "m", "code": 429}}).map(JSON.write)
    body = data.draw(st.one_of(st.binary(max_size=100), odd))
    error = DIALECTS[dialect].decode_error(data.draw(st.sampled_from([400, 429, 500, 529])), {}, body)
    for other in DIALECTS.values():
        assert other.encode_error(error).status >= 400


def long_stream(dialect: str, deltas: int) -> bytes:
    """About 52 bytes of arguments in each delta of one call."""
    pieces = ('{"text":"', *["y" * 52] * deltas, '"}')
    if dialect in ("gemini", "warp"):  # calls come whole there: the same bytes as many deltas of text
        return DOCUMENTS[dialect].write_stream([Spoken("text", pieces)]).encode()
    return DOCUMENTS[dialect].write_stream([Spoken("call", pieces, "write")]).encode()


LINEAR = 8
"""Four times the bytes take at most so many times as long."""


def chunked(stream: bytes) -> list[bytes]:
    return [stream[start : start + 4096] for start in range(0, len(stream), 4096)]


# Each dialect reads once and writes once: the time of a pair is that of its decoder and that of its encoder.
@pytest.mark.parametrize(("client", "upstream"), [*zip(NAMES, (*NAMES[1:], NAMES[0]), strict=True)])
def test_a_megabyte_of_arguments_in_twenty_thousand_deltas_takes_linear_time(client: str, upstream: str) -> None:
    quarter, whole = chunked(long_stream(upstream, 5_000)), chunked(long_stream(upstream, 20_000))
    # Four times if it is linear, sixteen if it is not: a busy machine does not blur the two.
    assert growth(lambda: relay(client, upstream, quarter), lambda: relay(client, upstream, whole), LINEAR) < LINEAR


@pytest.mark.parametrize("dialect", NAMES)
def test_one_large_frame_that_comes_in_small_pieces_takes_linear_time(dialect: str) -> None:
    def frame_in_pieces(size: int) -> list[bytes]:
        stream = DOCUMENTS[dialect].write_stream([Spoken("text", ("z" * size,))]).encode()
        return [stream[start : start + 64] for start in range(0, len(stream), 64)]

    quarter, whole = frame_in_pieces(250_000), frame_in_pieces(1_000_000)
    assert growth(lambda: read_events(dialect, quarter), lambda: read_events(dialect, whole), LINEAR) < LINEAR
