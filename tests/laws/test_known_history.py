"""The law of known conversations: a conversation decodes as if none of its elements had come before."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.documents import DOCUMENTS, wire
from tests.laws.mutations import spoilt_bytes
from tests.laws.test_settings_cache import CLIENTS, HISTORY, Known, parts, read_again
from toolglot.wire.known_history import (
    KEY_BYTES,
    MAX_BYTES,
    MAX_CHANGED,
    MAX_HISTORY_BYTES,
    MAX_PER_KEY,
    MIN_HISTORY_BYTES,
    HistoryCache,
)
from toolglot.wire.settings_cache import SettingsCache

SPACES = (b"", b" ", b"\n  ")


@pytest.mark.parametrize("client", CLIENTS)
@given(data=st.data())
def test_a_conversation_with_known_elements_is_decoded_as_in_a_first_request(client: str, data: st.DataObject) -> None:
    """It grows, loses its end, has another one, is broken anywhere."""
    document = data.draw(DOCUMENTS[client].requests)
    history = document.get(HISTORY[client], [])
    if not isinstance(history, list):
        return
    more = data.draw(DOCUMENTS[client].requests).get(HISTORY[client], [])
    elements = [*history, *(more if isinstance(more, list) else [])]
    before, behind = parts(client, document, history_first=False)
    known: Known = SettingsCache(HISTORY[client])
    space = data.draw(st.sampled_from(SPACES))
    lengths = st.integers(0, len(elements))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("toolglot.wire.known_history.MIN_HISTORY_BYTES", KEY_BYTES)
        for length in (len(history), *data.draw(st.lists(lengths, min_size=2, max_size=4))):
            said = space.join([b"[", (b"," + space).join(map(wire, elements[:length])), b"]"])
            read_again(client, before + said + behind, known)
            read_again(client, before + data.draw(spoilt_bytes(said)) + behind, known)


def conversation(*elements: str) -> bytes:
    return wire([*elements])


class Decoder:
    """Decodes texts, and counts them."""

    def __init__(self) -> None:
        self.cache: HistoryCache[Any] = HistoryCache()
        self.decoded: list[list[Any]] = []

    def read(self, *elements: str) -> list[Any]:
        """The elements that were decoded."""
        self.decoded.clear()
        assert [*(self.cache.read(conversation(*elements), self._decode) or ())] == [*elements]
        assert self.cache.size == sum(len(one.data) for histories in self.cache._known.values() for one in histories)
        assert self.cache.size <= MAX_BYTES
        return [one for decoded in self.decoded for one in decoded]

    def _decode(self, data: bytes) -> list[Any]:
        self.decoded.append(json.loads(data))
        return [*self.decoded[-1]]


FIRST = "a" * MIN_HISTORY_BYTES


@pytest.mark.parametrize(
    ("earlier", "later", "decoded"),
    [
        ((FIRST,), (FIRST, "b"), ("b",)),
        ((FIRST, "b"), (FIRST, "b", "c", "d"), ("c", "d")),
        ((FIRST, "b"), (FIRST, "b"), ()),
        ((FIRST, "b", "c"), (FIRST, "b"), ()),
        ((FIRST, "b", "c"), (FIRST, "b", "x", "d"), ("x", "d")),
        ((FIRST, "b", "c"), (FIRST, "b", "c]"), ("c]",)),
        ((FIRST, *"bcdefg"), (FIRST, "x", *"cdefg"), (FIRST, "x", *"cdefg")),
        ((FIRST,), (FIRST + "b",), (FIRST + "b",)),
        (("a", "b"), ("a", "b", "c"), ("a", "b", "c")),
    ],
)
def test_only_elements_behind_the_common_ones_are_decoded(
    earlier: tuple[str, ...], later: tuple[str, ...], decoded: tuple[str, ...]
) -> None:
    decoder = Decoder()
    decoder.read(*earlier)
    assert decoder.read(*later) == [*decoded]
    assert decoder.read(*later, "the end") == (
        ["the end"] if len(later[0]) >= MIN_HISTORY_BYTES else [*later, "the end"]
    )


def test_conversations_that_begin_alike_are_kept_apart_up_to_a_number() -> None:
    decoder = Decoder()
    for number in range(MAX_PER_KEY):
        decoder.read(FIRST, *[f"{number} {turn}" for turn in range(MAX_CHANGED + 1)])
    for number in range(MAX_PER_KEY):
        said = [f"{number} {turn}" for turn in range(MAX_CHANGED + 1)]
        assert decoder.read(FIRST, *said, "more") == ["more"]
    assert len(decoder.cache._known) == 1


def test_the_bytes_of_all_conversations_are_bounded() -> None:
    decoder = Decoder()
    size = MAX_HISTORY_BYTES - KEY_BYTES
    for number in range(2 * MAX_BYTES // size):
        decoder.read(f"{number:{KEY_BYTES}}" + "a" * (size - KEY_BYTES))
    assert decoder.cache.size > MAX_BYTES - MAX_HISTORY_BYTES
    decoder.read("b" * MAX_HISTORY_BYTES)
    assert decoder.read("b" * MAX_HISTORY_BYTES) == ["b" * MAX_HISTORY_BYTES]
