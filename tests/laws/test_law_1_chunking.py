"""Law 1: cutting the bytes of a stream anywhere, down to one byte at a time, changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_files import Case, cases_with
from tests.documents import DOCUMENTS
from tests.examples import PER_PAIR
from tests.exchanges import NAMES, PAIRS, read_events, relay
from tests.laws.mutations import cuttings, spoilt_bytes
from toolglot.dialects import DIALECTS
from toolglot.receipt import Receipt

LINE_ENDS = (b"\n", b"\r\n", b"\r")
STREAMS = cases_with("stream")


def one_by_one(data: bytes) -> list[bytes]:
    return [data[index : index + 1] for index in range(len(data))]


@pytest.mark.parametrize("dialect", NAMES)
@given(data=st.data())
def test_any_cutting_gives_the_same_events_and_the_same_receipt(dialect: str, data: st.DataObject) -> None:
    stream = data.draw(DOCUMENTS[dialect].streams).encode()
    stream = stream.replace(b"\n", data.draw(st.sampled_from(LINE_ENDS)))
    whole, cut = Receipt(), Receipt()
    expected = read_events(dialect, [stream], whole)
    assert read_events(dialect, data.draw(cuttings(stream)), cut) == expected
    assert list(whole) == list(cut)
    assert read_events(dialect, one_by_one(stream)) == expected


@pytest.mark.parametrize("dialect", NAMES)
@given(data=st.data())
def test_any_cutting_of_a_spoilt_stream_gives_the_same_events(dialect: str, data: st.DataObject) -> None:
    stream = data.draw(spoilt_bytes(data.draw(DOCUMENTS[dialect].streams).encode()))
    expected = read_events(dialect, [stream])
    assert read_events(dialect, data.draw(cuttings(stream))) == expected
    assert read_events(dialect, one_by_one(stream)) == expected


@pytest.mark.parametrize("dialect", NAMES)
def test_line_ends_comments_and_a_byte_order_mark_change_nothing(dialect: str) -> None:
    for case in cases_with("stream", dialect):
        stream = case.read("stream")
        expected = read_events(dialect, [stream])
        is_bare = DIALECTS[dialect].stream.framing.is_bare
        for end in (b"\n", b"\r\n") if is_bare else LINE_ENDS:
            comment = b"" if is_bare else b": hello" + end + end
            other = b"\xef\xbb\xbf" + comment + stream.replace(b"\n", end)
            assert read_events(dialect, [other]) == expected
            assert read_events(dialect, one_by_one(other)) == expected
        assert read_events(dialect, [stream.replace(b"data: ", b"data:")]) == expected


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
@PER_PAIR
@given(data=st.data())
def test_any_cutting_gives_the_client_the_same_bytes(client: str, upstream: str, data: st.DataObject) -> None:
    stream = data.draw(DOCUMENTS[upstream].streams).encode()
    assert relay(client, upstream, data.draw(cuttings(stream))) == relay(client, upstream, [stream])


@pytest.mark.parametrize("client", NAMES)
@pytest.mark.parametrize("case", STREAMS, ids=lambda case: f"{case.dialect}/{case.name}")
def test_one_byte_at_a_time_gives_the_client_the_same_bytes(client: str, case: Case) -> None:
    stream = case.read("stream")
    assert relay(client, case.dialect, one_by_one(stream)) == relay(client, case.dialect, [stream])
