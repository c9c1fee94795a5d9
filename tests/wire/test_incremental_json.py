"""A document that is read and written in slices is the same as in one call, and no call is long."""

from __future__ import annotations

import json as standard
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from bench.growth.bodies import images, objects
from hypothesis import given
from hypothesis import strategies as st

from toolglot.errors import DecodeError
from toolglot.wire import incremental_encode, incremental_json, json

TEXTS = st.text(max_size=40) | st.sampled_from(['"\\' * 20, "\\u003a:" * 5, "\U0001f600" * 9, "é€" * 12, "ud83d\\" * 5])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(TEXTS, inner, max_size=6),
    max_leaves=30,
)
SPELLINGS: tuple[Callable[[Any], str], ...] = (
    lambda value: standard.dumps(value),
    lambda value: standard.dumps(value, ensure_ascii=False, separators=(",", ":")),
    lambda value: standard.dumps(value, indent=1),
    lambda value: f" \n{standard.dumps(value, indent=2, separators=(' , ', ' : '))}\r\t ",
)


@contextmanager
def sliced(size: int) -> Iterator[None]:
    """Slices of so many bytes, of documents of any size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incremental_json, "SLICE", size)
        patch.setattr(incremental_json, "PIECE", size)
        patch.setattr(incremental_json, "LARGE", -1)
        yield


def outcome(raw: bytes) -> Any:
    try:
        return repr(json.decode(raw))  # so that 1 is not true, and 1.0 is not 1
    except DecodeError as error:
        return (error.where, error.what)


@given(VALUES, st.sampled_from(SPELLINGS), st.integers(8, 60))
def test_slices_decode_to_the_same_document(value: Any, spelled: Callable[[Any], str], size: int) -> None:
    raw = spelled(value).encode()
    whole = outcome(raw)
    with sliced(size):
        assert outcome(raw) == whole


@given(VALUES, st.sampled_from(SPELLINGS), st.integers(8, 60), st.data())
def test_a_broken_document_is_refused_with_the_same_words_in_slices(
    value: Any, spelled: Callable[[Any], str], size: int, data: st.DataObject
) -> None:
    raw = bytearray(spelled(value).encode())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at : at + data.draw(st.integers(0, 2))] = data.draw(
        st.sampled_from([b"", b",", b"]", b"}", b'"', b"\\", b"[", b'{"a":1,"a":2}', b"\xff", b"\x00", b"1e999", b":"])
    )
    whole = outcome(bytes(raw))
    with sliced(size):
        assert outcome(bytes(raw)) == whole


@pytest.mark.parametrize("opened", [b"[", b'{"a":', b'[1,{"a":[2,'])
def test_a_deep_document_is_taken_or_refused_as_ever(opened: bytes) -> None:
    closed = opened[::-1].translate(bytes.maketrans(b"[{", b"]}"), b'"a:1,2')
    for depth in (5, 12, 150, 5000):
        raw = opened * depth + b"0" + closed * depth
        whole = outcome(raw)
        with sliced(64):
            assert outcome(raw) == whole


@given(VALUES, st.integers(1, 60))
def test_a_value_is_written_the_same_in_slices(value: Any, size: int) -> None:
    written = msgspec.json.encode(value)
    with sliced(size):
        assert incremental_encode.encode(value) == written
        assert incremental_encode.encode((value, {"raw": msgspec.Raw(written), "": ()})) == msgspec.json.encode(
            [value, {"raw": msgspec.Raw(written), "": []}]
        )


@given(st.binary(max_size=60), st.binary(max_size=4), st.integers(1, 9))
def test_joining_and_searching_in_pieces_gives_the_same_result(raw: bytes, part: bytes, size: int) -> None:
    with sliced(size):
        assert incremental_json.join_bytes(raw, part, raw) == raw + part + raw
        assert incremental_json.contains(raw, part) == (part in raw) or not raw


@given(st.dictionaries(TEXTS, VALUES, max_size=3), st.lists(VALUES, max_size=6), st.integers(32, 60))
def test_the_elements_of_one_member_are_read_in_slices(others: dict[str, Any], items: list[Any], size: int) -> None:
    others.pop("items", None)
    raw = standard.dumps({**others, "items": items}).encode()
    found: list[Any] = []
    with sliced(size):
        left = incremental_json.IncrementalReader(raw).read_members(
            "items", found, msgspec.json.decode, msgspec.json.decode
        )
    assert found == items
    assert {name: msgspec.json.decode(member) for name, member in left.items()} == others


@given(TEXTS, TEXTS, st.integers(0, 50), st.integers(1, 9))
def test_copying_in_pieces_gives_the_same_result(text: str, more: str, start: int, size: int) -> None:
    with sliced(size):
        assert incremental_json.append_text(text, more, start) == text + more[start:]
        assert incremental_json.decode_utf8(more.encode()) == more


@given(st.binary(max_size=40), st.integers(1, 9))
def test_decoding_utf8_in_pieces_gives_the_same_result(raw: bytes, size: int) -> None:
    def said() -> str | None:
        try:
            return incremental_json.decode_utf8(raw)
        except UnicodeDecodeError:
            return None

    whole = said()
    with sliced(size):
        assert said() == whole


def test_a_list_is_emptied_once_all_of_it_was_read() -> None:
    values = list(range(1000))
    read = iter(incremental_json.drain(values))
    assert next(read) == 0
    assert len(values) == 1000
    assert list(read) == list(range(1, 1000))
    assert values == []


def test_the_array_that_is_used_up_is_empty_afterwards_and_others_are_not() -> None:
    value = {"messages": [1, 2], "tools": [3, 4]}
    with sliced(8):
        assert incremental_encode.encode(value, used_up="messages") == b'{"messages":[1,2],"tools":[3,4]}'
    assert value == {"messages": [], "tools": [3, 4]}


@given(st.dictionaries(TEXTS, VALUES, max_size=3), st.lists(VALUES, max_size=6), st.integers(32, 60))
def test_members_keep_their_spelling(others: dict[str, Any], items: list[Any], size: int) -> None:
    others.pop("items", None)
    raw = standard.dumps({**others, "items": items}).encode()
    read: list[msgspec.Raw] = []
    with sliced(size):
        members = incremental_json.IncrementalReader(raw).read_members(
            "items", read, msgspec.json.Decoder(list[msgspec.Raw]).decode, msgspec.Raw
        )
    assert {key: msgspec.json.decode(value) for key, value in members.items()} == others
    assert [msgspec.json.decode(item) for item in read] == items


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda raw: raw[:-9],
    "a mark too many": lambda raw: raw.replace(b'"What is', b',"What is', 1),
    "a mark too many at the end": lambda raw: raw[:-1] + b",}",
    "something behind it": lambda raw: raw + b"x",
    "a byte that is no text": lambda raw: raw[:-90] + b"\xff" + raw[-89:],
    "half a character": lambda raw: raw.replace(b"What is", b"\\ud83d", 1),
}


@pytest.mark.parametrize("how", BROKEN)
def test_an_error_in_a_large_document_is_found_without_a_long_call(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = BROKEN[how](images(8))
    monkeypatch.setattr(incremental_json, "is_large", lambda raw: False)
    whole = outcome(raw)
    monkeypatch.undo()
    read = sizes(monkeypatch, json, "_decode_any", lambda given, made: 0, before=len)
    assert outcome(raw) == whole
    assert isinstance(whole, tuple)
    assert max(read, default=0) <= 2 * incremental_json.PIECE


def sizes(
    patch: pytest.MonkeyPatch,
    module: Any,
    name: str,
    size: Callable[[Any, Any], int],
    before: Callable[[Any], int] = lambda given: 0,
) -> list[int]:
    """How large the calls of a function of a module are, one after the other. What raises is measured before."""
    real, seen = getattr(module, name), list[int]()

    def counted(given: Any) -> Any:
        seen.append(before(given))
        made = real(given)
        seen.append(size(given, made))
        return made

    patch.setattr(module, name, counted)
    return seen


MARGIN = 64


@pytest.mark.parametrize(("make", "half"), [(objects, 36_000), (images, 8)])
def test_no_call_is_long_and_twice_as_much_takes_twice_as_many(
    make: Callable[[int], bytes], half: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = sizes(monkeypatch, incremental_json, "_decode", lambda given, made: len(given))
    written = sizes(monkeypatch, incremental_encode, "_encode", lambda given, made: len(made))
    counts = []
    for size in (half, 2 * half):
        read.clear()
        written.clear()
        value = json.decode(make(size))
        incremental_encode.encode(value)
        counts.append(len(read) + len(written))
        assert 0 < max(read + written) <= incremental_json.PIECE + MARGIN
    assert counts[1] <= 2.2 * counts[0]
