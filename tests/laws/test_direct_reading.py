"""The law of reading with what is known: a request is read as if it were the first one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.documents import wire
from tests.documents.plain import WIRES, as_text, kinds, messages, twice
from tests.documents.typical import TYPICAL
from tests.laws.mutations import spoilt_bytes
from toolglot.dialects import DIALECTS
from toolglot.direct.plain import Direct, PlainRequest
from toolglot.direct.reading import Reader
from toolglot.wire.known_settings import ALIKE, CREDIT, MARK, MOST_MARKS, ROOM

CLIENTS = tuple(WIRES)


def direct_of(client: str) -> Direct:
    direct = DIALECTS[client].direct
    assert direct is not None
    return direct


def read(client: str, data: bytes) -> PlainRequest | None:
    read_request = direct_of(client).read_request
    assert read_request is not None
    return read_request(data)


class Counted:
    """A reader, and how many requests it has read as a whole."""

    def __init__(self, client: str) -> None:
        self.whole = 0
        self._client = client
        self._reader = Reader(replace(direct_of(client), read_request=self._read_request))

    def _read_request(self, data: bytes) -> PlainRequest | None:
        self.whole += 1
        return read(self._client, data)

    def read(self, data: bytes) -> PlainRequest | None:
        found = self._reader.read(data)
        assert found == read(self._client, data)
        assert self._reader.known.size <= ROOM
        assert len(self._reader.known) <= MOST_MARKS * ALIKE
        return found


def request(client: str, conversation: bytes | None = None, **more: Any) -> bytes:
    """A typical request with this conversation, and its tools behind it."""
    fields = {"model": "m", **TYPICAL[client][1], **more}
    history = fields.pop("messages")
    before = b'{"model":"m","messages":' + (wire(history) if conversation is None else conversation)
    del fields["model"]
    return before + b"," + wire(fields)[1:]


@st.composite
def conversations(draw: st.DrawFn, client: str) -> bytes:
    said = draw(messages(draw(kinds("openai_chat"))))
    text = as_text(draw, WIRES[client].messages(draw, said))
    return draw(twice(text)).encode() if draw(st.booleans()) else text.encode()


@pytest.mark.parametrize("client", CLIENTS)
@given(data=st.data())
def test_whatever_the_messages_are_they_are_read_as_in_a_first_request(client: str, data: st.DataObject) -> None:
    reader = Counted(client)
    assert reader.read(request(client)) is not None
    written = data.draw(conversations(client))
    for conversation in (written, data.draw(spoilt_bytes(written))):
        whole = reader.whole
        assert reader.read(request(client, conversation)) is None or reader.whole == whole


@pytest.mark.parametrize("client", CLIENTS)
@given(data=st.data())
def test_whatever_has_changed_around_the_messages_is_read(client: str, data: st.DataObject) -> None:
    reader = Counted(client)
    reader.read(request(client))
    for _ in range(3):
        reader.read(data.draw(spoilt_bytes(request(client))))


@pytest.mark.parametrize("client", CLIENTS)
def test_messages_that_stand_in_another_place_too_are_not_mistaken(client: str) -> None:
    reader = Counted(client)
    history = TYPICAL[client][1]["messages"]
    for conversation in (history, history, [{"role": "user", "content": "Other words"}], history):
        fields = {**TYPICAL[client][1], "messages": conversation}
        tools = fields.pop("tools")
        assert reader.read(wire({"model": "m", "metadata": {"messages": history}, **fields, "tools": tools}))


@pytest.mark.parametrize("client", CLIENTS)
def test_what_only_begins_or_ends_like_a_known_request_is_read_as_a_whole(client: str) -> None:
    reader = Counted(client)
    data = request(client)
    reader.read(data)
    behind = data[data.index(b'"tools"') :]
    assert len(behind) > MARK
    for length in range(1, len(data)):
        reader.read(data[:length] + behind)
        reader.read(data[-length:])


def test_what_is_known_is_bounded() -> None:
    reader = Counted("anthropic")
    for number in range(3 * CREDIT):
        assert reader.read(request("anthropic", metadata={"user_id": f"{number}" * 50_000}))
    for number in range(20):
        assert reader.read(request("anthropic", system="s" * (number + 1)))  # all end alike
    for number in range(2 * MOST_MARKS):
        for _ in range(2):  # the second time it is known
            assert reader.read(request("anthropic", tool_choice={"type": "tool", "name": f"tool_{number}"}))
    whole = reader.whole
    for _ in range(CREDIT):
        reader.read(request("anthropic"))
    assert reader.whole - whole < CREDIT
