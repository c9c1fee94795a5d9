"""What receipts and readers see of arguments that are not a JSON object."""

from __future__ import annotations

import json

import pytest

from toolglot.translate import ExchangeCore
from toolglot.wire.bad_arguments import describe_bad_arguments, show_bad_call

CUT = "its arguments are cut off"
NOT_JSON = "its arguments are not valid JSON"
NOT_FINITE = "its arguments hold NaN or Infinity, which JSON does not have"
NO_OBJECT = "its arguments are JSON, but not an object"
TOO_DEEP = "its arguments are nested too deeply"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("", CUT),
        ("{}", CUT),
        ('{"a": 1', CUT),
        ('{"a": "x', CUT),
        ('{"a": "x\\', CUT),
        ('{"a": "\\u12', CUT),
        ('{"a": tru', CUT),
        ('{"a": -', CUT),
        ('{"a": Na', CUT),
        ('{"a",', NOT_JSON),
        ("{'a': 1}", NOT_JSON),
        ('{"a": 1} and more', NOT_JSON),
        ("free text", NOT_JSON),
        ('{"a": True}', NOT_JSON),
        ('{"a": NaN}', NOT_FINITE),
        ('{"a": [1, -Infinity]}', NOT_FINITE),
        ("[1]", NO_OBJECT),
        ('"text"', NO_OBJECT),
        ("NaN", NO_OBJECT),
        ("[" * 100_000, TOO_DEEP),
    ],
)
def test_each_problem_has_its_own_words(arguments: str, why: str) -> None:
    assert describe_bad_arguments(arguments) == why


def test_a_reader_sees_why_the_arguments_are_bad() -> None:
    assert show_bad_call("f", '{"a": NaN}') == '[tool call f has NaN or Infinity in its arguments: {"a": NaN}]'
    assert show_bad_call("f", '{"a":') == '[tool call f was cut off: {"a":]'


@pytest.mark.parametrize("client", ["gemini", "anthropic"])
def test_an_answer_with_nan_is_not_reported_as_cut_off(client: str) -> None:
    exchange = ExchangeCore(client, "openai_chat")
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": NaN}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
    choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
    written = exchange.response(json.dumps({**answer, "choices": choices}))
    assert b"has NaN or Infinity in its arguments" in written
    assert b"cut off" not in written
    assert [line.why for line in exchange.receipt.losses if "cut off" in line.why] == []


@pytest.mark.parametrize("upstream", ["gemini", "anthropic"])
def test_a_request_with_nan_says_why_its_arguments_are_wrapped(upstream: str) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": NaN}'}}
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
    ]
    exchange = ExchangeCore("openai_chat", upstream)
    exchange.request({"model": "m", "messages": messages})
    assert any(line.why.startswith(NOT_FINITE) and "`_raw`" in line.why for line in exchange.receipt.losses)
