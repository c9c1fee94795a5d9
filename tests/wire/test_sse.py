"""The reader of server-sent events."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot.errors import DecodeError
from toolglot.wire.sse import Frame, SseReader, end_of_frames, frame, split_frames


def read(*chunks: bytes) -> list[Frame]:
    reader = SseReader()
    return [event for chunk in chunks for event in reader.feed(chunk)] + reader.close()


CASES: list[tuple[str, bytes, list[Frame]]] = [
    ("one event", b"data: x\n\n", [(b"", b"x")]),
    ("a name", b"event: ping\ndata: {}\n\n", [(b"ping", b"{}")]),
    ("no space", b"data:x\n\n", [(b"", b"x")]),
    ("two spaces", b"data:  x\n\n", [(b"", b" x")]),
    ("several lines", b"data: a\ndata: b\n\n", [(b"", b"a\nb")]),
    ("CRLF", b"event: e\r\ndata: x\r\n\r\n", [(b"e", b"x")]),
    ("CR alone", b"data: x\r\rdata: y\r\r", [(b"", b"x"), (b"", b"y")]),
    ("a comment", b": hello\n\ndata: x\n\n", [(b"", b"x")]),
    ("a comment inside", b"data: x\n: hm\ndata: y\n\n", [(b"", b"x\ny")]),
    ("a byte-order mark", b"\xef\xbb\xbfdata: x\n\n", [(b"", b"x")]),
    ("unknown fields", b"id: 1\nretry: 5\nwhat\ndata: x\n\n", [(b"", b"x")]),
    ("a name without data", b"event: a\n\ndata: x\n\n", [(b"", b"x")]),
    ("empty data", b"data:\n\n", [(b"", b"")]),
    ("no blank line at the end", b"data: x\n\ndata: y", [(b"", b"x"), (b"", b"y")]),
    ("no line end at the end", b"data: x\n\ndata: y\n", [(b"", b"x"), (b"", b"y")]),
    ("nothing", b"", []),
]


@pytest.mark.parametrize(("data", "frames"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_stream_is_read_the_same_however_it_is_cut(data: bytes, frames: list[Frame]) -> None:
    assert read(data) == frames
    assert read(*(data[i : i + 1] for i in range(len(data)))) == frames
    for cut in range(len(data)):
        assert read(data[:cut], data[cut:]) == frames


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=6))
def test_any_bytes_are_read_the_same_however_they_are_cut(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    assert read(*(data[a:b] for a, b in itertools.pairwise(edges))) == read(data)


@given(st.text(alphabet=st.characters(exclude_characters="\r\n", codec="utf-8")))
def test_an_encoded_frame_is_read_back(text: str) -> None:
    assert read(frame(text.encode(), b"e")) == [(b"e", text.encode())]


@pytest.mark.parametrize("data", [b"data: " + b"x" * 100, b"data: x\n" * 30, b"y" * 100])
def test_an_event_may_not_grow_past_the_limit(data: bytes) -> None:
    reader = SseReader(limit=64)
    with pytest.raises(DecodeError, match="more than 64 bytes"):
        for i in range(len(data)):
            reader.feed(data[i : i + 1])


def test_events_below_the_limit_do_not_add_up() -> None:
    reader = SseReader(limit=64)
    assert len(reader.feed(b"data: x\n\n" * 1000)) == 1000
    assert all(reader.feed(b": a long comment that is not held\n\n") == [] for _ in range(10))


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n", b"\r\n\n"])
def test_frames_are_split_where_they_end(end: bytes) -> None:
    data = b"data: a" + end + b"event: b\ndata: c" + end
    assert split_frames(data) == [b"data: a" + end, b"event: b\ndata: c" + end]
    assert end_of_frames(bytearray(data + b"data: half"), 0) == len(data)
    assert split_frames(data + b"data: half")[2:] == [b"data: half"]


@given(st.lists(st.sampled_from([b"data: x", b"event: y", b": z", b"\n", b"\r\n"]), max_size=12).map(b"".join))
def test_each_part_has_the_event_that_ends_there(data: bytes) -> None:
    parts = split_frames(data)
    assert b"".join(parts) == data
    assert [event for part in parts for event in read(part)] == read(data)
    assert all(len(read(part)) <= 1 for part in parts)


def test_an_event_in_pieces_may_be_as_large_as_one_that_comes_at_once() -> None:
    event = b"data: " + b"x" * 900 + b"\n\n"
    for size in (len(event), 300, 7):
        reader = SseReader(1000)
        frames = [frame for start in range(0, len(event), size) for frame in reader.feed(event[start : start + size])]
        assert frames == [(b"", b"x" * 900)]
