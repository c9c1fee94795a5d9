"""The law of usual forms: what is read or written at once, because nearly all of it is so, is the same as what the
general functions make of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.documents import DOCUMENTS, wire
from tests.exchanges import NAMES
from tests.strategies import json_objects, json_values, requests
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError, ToolglotError
from toolglot.ir import Message, Request, Text, ToolCall, replace
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore
from toolglot.wire import json

ENCODERS = {
    "anthropic": ("request", "encode_usual_content"),
    "gemini": ("request", "GeminiContentWriter._encode_usual_part"),
    "ollama": ("request", "_encode_usual_message"),
    "openai_chat": ("request", "encode_simple_message"),
    "openai_responses": ("request", "encode_simple_items"),
}
DECODERS = {"gemini": ("blocks", "_decode_usual_part"), "ollama": ("request", "_decode_usual_message")}


def without(patch: pytest.MonkeyPatch, dialect: str, place: tuple[str, str]) -> None:
    """Let the general functions do everything."""
    module, name = place
    patch.setattr(f"toolglot.dialects.{dialect}.{module}.{name}", lambda *_: None)


def encoded(upstream: str, request: Request) -> tuple[bytes | str, list[Any]]:
    receipt = Receipt()
    try:
        return DIALECTS[upstream].encode_request(request, receipt), list(receipt)
    except ToolglotError as error:
        return str(error), list(receipt)


ARGUMENTS = (
    "",
    "{}",
    '{"a":1}',
    '{"a":1,"a":2}',
    '{"a":":"}',
    '{"a":\n1}',
    " {}",
    "[1]",
    "{",
    "null",
)


@st.composite
def sent(draw: st.DrawFn, upstream: str) -> Request:
    request = draw(requests())
    said = draw(st.sampled_from(ARGUMENTS))
    call = ToolCall(id=draw(st.sampled_from(["", "call_x"])), name="f", arguments=said)
    extra = Message(role="assistant", content=draw(st.sampled_from([(call,), (Text(text="Hm."), call), (call, call)])))
    request = replace(request, messages=(*request.messages, extra))
    client = draw(st.sampled_from(NAMES))
    return draw(st.sampled_from([request, ExchangeCore(client, upstream).rewrite(request)]))


@pytest.mark.parametrize("upstream", ENCODERS)
@given(data=st.data())
def test_a_message_is_written_at_once_as_it_is_written_block_by_block(upstream: str, data: st.DataObject) -> None:
    request = data.draw(sent(upstream))
    usual = encoded(upstream, request)
    with pytest.MonkeyPatch.context() as patch:
        without(patch, upstream, ENCODERS[upstream])
        assert encoded(upstream, request) == usual


def decoded(client: str, document: dict[str, Any]) -> Request | str:
    try:
        return DIALECTS[client].decode_request(wire(document))
    except DecodeError as error:
        return str(error)


@pytest.mark.parametrize("client", DECODERS)
@given(data=st.data())
def test_a_message_is_read_at_once_as_it_is_read_member_by_member(client: str, data: st.DataObject) -> None:
    document = data.draw(DOCUMENTS[client].requests)
    usual = decoded(client, document)
    with pytest.MonkeyPatch.context() as patch:
        without(patch, client, DECODERS[client])
        assert decoded(client, document) == usual


@given(value=json_objects | json_values | st.sampled_from([*ARGUMENTS, '{"a":"\ud800"}']))
def test_a_plain_object_is_one_about_which_there_is_nothing_to_tell(value: Any) -> None:
    text = value if isinstance(value, str) else json.encode_text(value)
    found = json.plain_object(text)
    if found is not None:
        assert found == json.object_of(text)
        assert not json.has_repeated_key(text)
    elif isinstance(value, dict):
        pytest.fail(f"{text} is plain")
