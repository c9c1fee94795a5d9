"""Answers and usage objects of usual shape take a short way. Those that take it come out as on the long way."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import responses
from toolglot.dialects import DIALECTS
from toolglot.ir import Response, Stop, Text, ToolCall, Usage
from toolglot.receipt import Receipt

ENCODERS = {
    "anthropic": "response",
    "gemini": "response",
    "ollama": "response",
    "openai_chat": "response",
    "openai_responses": "output",
}
"""Where each dialect writes plain answers."""

texts = st.builds(Text, text=st.sampled_from(["", "Hello", " there"]), new_message=st.booleans())
calls = st.builds(
    ToolCall,
    id=st.sampled_from(["call_1", ""]),
    name=st.just("read"),
    arguments=st.sampled_from(["{}", '{"a":1}', '{"a":1,"a":2}', '{\n"a": 1}', "", " ", "{", "[]", "null"]),
    kind=st.sampled_from(["function", "custom"]),
    namespace=st.sampled_from([None, "files"]),
    complete=st.booleans(),
)
plain = st.builds(
    Response,
    id=st.sampled_from(["", "answer_1"]),
    model=st.just("model"),
    content=st.lists(texts | calls, max_size=3).map(tuple),
    stop=st.builds(Stop, st.sampled_from(["end", "tool_calls", "length", "refusal", "stop_sequence"])),
    usage=st.none() | st.builds(Usage, input_tokens=st.integers(0, 9), reasoning_tokens=st.none() | st.integers(0, 9)),
    created=st.none() | st.just(1_700_000_000),
)


def encoded(dialect: str, response: Response) -> tuple[bytes, str]:
    receipt = Receipt()
    return DIALECTS[dialect].encode_response(response, None, receipt), str(receipt)


@pytest.mark.parametrize("dialect", ENCODERS)
@given(response=plain | responses())
def test_a_plain_answer_is_encoded_as_any_other(dialect: str, response: Response) -> None:
    module = import_module(f"toolglot.dialects.{dialect}.{ENCODERS[dialect]}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_encode_plain", lambda *_, **__: None)
        expected = encoded(dialect, response)
    assert encoded(dialect, response) == expected


USAGES = {
    "anthropic": ("toolglot.dialects.anthropic.usage", "input_tokens output_tokens cache_read_input_tokens"),
    "gemini": ("toolglot.dialects.gemini.usage", "promptTokenCount candidatesTokenCount totalTokenCount trafficType"),
    "openai_chat": ("toolglot.wire.openai_usage", "prompt_tokens completion_tokens total_tokens cached_tokens"),
    "openai_responses": ("toolglot.wire.openai_usage", "input_tokens output_tokens total_tokens reasoning_tokens"),
}
GROUPS = {
    "anthropic": "cache_creation output_tokens_details",
    "gemini": "promptTokensDetails",
    "openai_chat": "prompt_tokens_details completion_tokens_details",
    "openai_responses": "input_tokens_details output_tokens_details",
}
MEMBERS = (
    "cached_tokens cache_write_tokens reasoning_tokens audio_tokens text_tokens cache_creation_tokens thinking_tokens "
    "ephemeral_5m_input_tokens ephemeral_1h_input_tokens"
)
values = st.none() | st.integers(0, 20) | st.sampled_from([-1, 2.0, 0.5, True, "", "text", [], {}])


@st.composite
def usages(draw: st.DrawFn, dialect: str) -> dict[str, Any]:
    names = [*USAGES[dialect][1].split(), "service_tier", "other", "$odd"]
    group = st.dictionaries(st.sampled_from(MEMBERS.split()), values, max_size=3)
    counts = draw(st.dictionaries(st.sampled_from(names), values, max_size=5))
    return counts | draw(st.dictionaries(st.sampled_from(GROUPS[dialect].split()), group | values, max_size=2))


def decoded(dialect: str, usage: dict[str, Any]) -> str:
    decode = import_module(f"toolglot.dialects.{dialect}.usage").decode_usage
    try:
        return repr(decode(usage))
    except Exception as error:
        return repr(error)


@pytest.mark.parametrize("dialect", USAGES)
@given(data=st.data())
def test_a_usage_object_that_is_read_in_one_look_is_read_right(dialect: str, data: st.DataObject) -> None:
    usage = data.draw(usages(dialect))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module(USAGES[dialect][0]), "read_plain", lambda *_: None)
        expected = decoded(dialect, usage)
    assert decoded(dialect, usage) == expected
