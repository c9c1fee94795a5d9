"""A whole answer that is restored without the event passes is the one that they make, and so is the receipt."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import PER_PAIR
from tests.exchanges import PAIRS
from tests.strategies import responses
from toolglot.errors import ToolglotError
from toolglot.ir import Message, Request, Response, Stop, Text, Tool, ToolCall, replace
from toolglot.textcalls.settings import TextCalls
from toolglot.translate import ExchangeCore

REQUEST = Request(
    model="model",
    messages=(Message(role="user", content=(Text(text="Go on."),)),),
    tools=(
        Tool(name="read"),
        Tool(name="write", namespace="files"),
        Tool(name="a b"),
        Tool(name="patch", kind="custom"),
    ),
)

IN_TEXT = '<tool_call>{"name": "read", "arguments": {"a": 1}}</tool_call>'

calls = st.builds(
    ToolCall,
    id=st.sampled_from(["call_1", "call_2", "", "x" * 70, "call 3"]),
    name=st.sampled_from(["read", "files__write", "a_b", "patch", "unknown", ""]),
    arguments=st.sampled_from(["{}", '{"a":1}', "", " ", "{", "[]", '{"input":"x"}']),
    complete=st.booleans(),
    namespace=st.sampled_from([None, "files"]),
)
stops = st.builds(
    Stop,
    st.sampled_from(["end", "tool_calls", "length", "refusal", "filtered", "malformed_call", "other", "stop_sequence"]),
    raw=st.none() | st.just("said"),
    detail=st.none() | st.just("why"),
)
plain = st.builds(
    Response,
    id=st.sampled_from(["", "answer_1"]),
    model=st.sampled_from(["", "model"]),
    content=st.lists(calls | st.builds(Text, text=st.sampled_from(["", "Hello", IN_TEXT])), max_size=3).map(tuple),
    stop=stops,
)


def restored(client: str, upstream: str, response: Response, text_calls: TextCalls | None) -> tuple[Any, str]:
    exchange = ExchangeCore(
        client,
        upstream,
        model="other",
        created=7,
        answer_id="answer",
        clock=lambda: 9.0,
        text_calls=text_calls,
    )
    exchange.rewrite(REQUEST)
    try:
        return exchange.restore(response), str(exchange.receipt)
    except ToolglotError as error:
        return str(error), str(exchange.receipt)


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
@PER_PAIR
@given(response=plain | responses(), text_calls=st.sampled_from([None, TextCalls(format="hermes_json")]))
def test_an_answer_restored_without_the_event_passes_is_the_same_as_with_them(
    client: str, upstream: str, response: Response, text_calls: TextCalls | None
) -> None:
    for answer in (response, replace(response, content=response.content[:1])):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("toolglot.translate.restore_content", lambda *_: None)
            expected = restored(client, upstream, answer, text_calls)
        assert restored(client, upstream, answer, text_calls) == expected
