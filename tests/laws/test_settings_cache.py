"""The law of cached settings: a request decodes as if it were the first one with these bytes around its
conversation."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.documents import DOCUMENTS, wire
from tests.laws.mutations import spoilt, spoilt_bytes
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError
from toolglot.ir import Message, Request, Text
from toolglot.receipt import Receipt
from toolglot.wire.settings_cache import (
    FINGERPRINT_BYTES,
    MAX_BYTES,
    MAX_ENTRY_BYTES,
    MAX_FINGERPRINTS,
    MAX_MISSES,
    MAX_PER_FINGERPRINT,
    SettingsCache,
)

HISTORY = {
    "anthropic": "messages",
    "openai_chat": "messages",
    "openai_responses": "input",
    "gemini": "contents",
    "ollama": "messages",
}
CLIENTS = tuple(HISTORY)
Known = SettingsCache[Request, Any]


def read(client: str, data: bytes, known: Known) -> Request | str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module(f"toolglot.dialects.{client}.request"), "_SETTINGS_CACHE", known)
        try:
            return DIALECTS[client].decode_request(data)
        except DecodeError as error:
            return str(error)


def read_again(client: str, data: bytes, known: Known) -> Request | str:
    """Read with what is known, as it would be read for the first time."""
    found = read(client, data, known)
    assert found == read(client, data, SettingsCache(HISTORY[client]))
    assert known.size <= MAX_BYTES
    assert len(known) <= MAX_FINGERPRINTS * MAX_PER_FINGERPRINT
    return found


def parts(client: str, document: dict[str, Any], *, history_first: bool) -> tuple[bytes, bytes]:
    """The bytes before and behind the conversation."""
    others = {name: value for name, value in document.items() if name != HISTORY[client]}
    padding = wire(
        {"user": "u", "metadata": {"padding": "x" * FINGERPRINT_BYTES}}
        if client != "gemini"
        else {"labels": {"x": "y"}}
    )
    settings = padding[1:-1] + b"," + wire(others)[1:-1] if others else padding[1:-1]
    member = b'"%b":' % HISTORY[client].encode()
    return (b"{" + member, b"," + settings + b"}") if history_first else (b"{" + settings + b"," + member, b"}")


@pytest.mark.parametrize("history_first", [True, False])
@pytest.mark.parametrize("client", CLIENTS)
@given(data=st.data())
def test_any_conversation_is_decoded_as_in_a_first_request(
    client: str, history_first: bool, data: st.DataObject
) -> None:
    requests = DOCUMENTS[client].requests
    first, second = data.draw(requests), data.draw(requests)
    before, behind = parts(client, first, history_first=history_first)
    known: Known = SettingsCache(HISTORY[client])
    for document in (first, second, first):
        history = document.get(HISTORY[client], [])
        read_again(client, before + wire(history) + behind, known)
        read_again(client, before + wire(data.draw(spoilt(history))) + behind, known)
        read_again(client, before + data.draw(spoilt_bytes(wire(history))) + behind, known)
        read_again(client, data.draw(spoilt_bytes(before + wire(history) + behind)), known)


def plain(client: str, text: str, **more: Any) -> bytes:
    request = Request(model="m", messages=(Message(role="user", content=(Text(text=text),)),), max_output_tokens=9)
    body = DIALECTS[client].encode_request(request, Receipt())
    return (
        b'{"padding":"%b",' % (b"x" * FINGERPRINT_BYTES)
        + b"".join(b"%b," % wire({key: more[key]})[1:-1] for key in more)
        + body[1:]
    )


class CountedKnown(Known):
    """Counts the requests that were read as a whole."""

    def __init__(self, history: str) -> None:
        super().__init__(history)
        self.whole = 0

    def add(self, data: bytes, settings: Callable[[], Request]) -> None:
        self.whole += 1
        super().add(data, settings)


@pytest.mark.parametrize("client", CLIENTS)
def test_the_second_request_is_read_by_its_conversation_alone(client: str) -> None:
    known = CountedKnown(HISTORY[client])
    for text in ("Hello", "Hello again", "And again"):
        read_again(client, plain(client, text), known)
    assert known.whole == 1


@pytest.mark.parametrize("client", CLIENTS)
def test_a_conversation_that_also_occurs_elsewhere_is_not_mistaken(client: str) -> None:
    known: Known = SettingsCache(HISTORY[client])
    member = HISTORY[client]
    history = json.loads(plain(client, "Hello"))[member]
    for text in ("Hello", "Other words", "Hello"):
        read_again(client, plain(client, text, metadata={member: history}), known)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_repeated_key_in_the_conversation_is_refused(client: str) -> None:
    known: Known = SettingsCache(HISTORY[client])
    data = plain(client, "Hello")
    read_again(client, data, known)
    twice = data.replace(b'"role":"user"', b'"role":"user","role":"user"')
    assert isinstance(read_again(client, twice, known), str)


@pytest.mark.parametrize("client", CLIENTS)
def test_what_only_begins_or_ends_like_a_known_request_is_read_as_a_whole(client: str) -> None:
    known: Known = SettingsCache(HISTORY[client])
    data = plain(client, "Hello")
    read_again(client, data, known)
    for length in range(1, len(data)):
        read_again(client, data[:length] + data[-FINGERPRINT_BYTES:], known)
        read_again(client, data[:FINGERPRINT_BYTES] + data[-length:], known)


def test_the_cache_is_bounded() -> None:
    known: Known = SettingsCache("messages")
    for number in range(3 * MAX_MISSES):
        read_again("openai_chat", plain("openai_chat", "x", user=f"{number}" * (MAX_ENTRY_BYTES // 4)), known)
    for number in range(2 * MAX_FINGERPRINTS):
        for _ in range(2):  # the second time it is known
            read(
                "openai_chat", plain("openai_chat", "x", user=f"{number}").replace(b"x" * 20, b"%020d" % number), known
            )
    assert len(known) <= MAX_FINGERPRINTS * MAX_PER_FINGERPRINT
    assert known.size <= MAX_BYTES


def test_what_never_comes_again_is_not_kept_for_long() -> None:
    known: Known = SettingsCache("messages")
    for number in range(20 * MAX_MISSES):
        read("openai_chat", plain("openai_chat", "x").replace(b"x" * 20, b"%020d" % number), known)
    assert len(known) <= 40
