"""Limits on a history: the latest stays, pairs stay whole, and every cut is told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import conversations, legal_ids, legal_names, tool_lists
from toolglot.dialects import DIALECTS
from toolglot.ir import Block, Message, Request, Text, Thinking, ToolCall, ToolResult
from toolglot.passes import Context
from toolglot.passes.history import repair
from toolglot.passes.limits import limit
from toolglot.receipt import Receipt


def context() -> Context:
    return Context(source="openai_chat", target="openai_chat", can=DIALECTS["openai_chat"].can, receipt=Receipt())


def user(text: str) -> Message:
    return Message(role="user", content=(Text(text=text),))


def said(text: str) -> Message:
    return Message(role="assistant", content=(Text(text=text),))


def called(*ids: str) -> Message:
    return Message(role="assistant", content=tuple(ToolCall(id=call_id, name="f", arguments="{}") for call_id in ids))


def result(call_id: str) -> Message:
    return Message(role="tool", content=(ToolResult(call_id=call_id, content=(Text(text=call_id),)),))


SYSTEM = Message(role="system", content=(Text(text="Be brief."),))


def word(block: Block) -> str:
    match block:
        case Text(text=text) | Thinking(text=text):
            return text
        case ToolCall(id=call_id) | ToolResult(call_id=call_id):
            return call_id
    raise AssertionError(block)


def shown(request: Request) -> list[str]:
    """Each message in a word: who, and what it says or calls."""
    return [f"{message.role[0]}:{'+'.join(map(word, message.content))}" for message in request.messages]


def limited(*messages: Message, **limits: int) -> tuple[list[str], Context]:
    told = context()
    return shown(limit(**limits)(Request(model="m", messages=messages), told)), told


def test_a_short_history_is_left_alone() -> None:
    request = Request(model="m", messages=(SYSTEM, user("a"), said("b"), user("c")))
    told = context()
    assert limit(3, 10)(request, told) is request
    assert not told.receipt


def test_the_latest_messages_stay_from_a_question_on_and_the_system_text_with_them() -> None:
    words, told = limited(
        SYSTEM, user("a"), called("1"), result("1"), said("b"), user("c"), said("d"), user("e"), max_history_messages=5
    )
    assert words == ["s:Be brief.", "u:c", "a:d", "u:e"]
    assert [line.where for line in told.receipt.losses] == ["messages[1..4]"]


def test_a_turn_that_is_longer_than_the_limit_loses_its_oldest_steps_and_never_its_question() -> None:
    steps = [message for number in range(5) for message in (called(f"{number}"), result(f"{number}"))]
    words, told = limited(user("old"), said("x"), user("do it"), *steps, max_history_messages=5)
    assert words == ["u:do it", "a:3", "t:3", "a:4", "t:4"]
    assert [line.where for line in told.receipt.losses] == ["messages[0..1]", "messages[3..8]"]


def test_parallel_results_that_have_just_come_stay_however_many_they_are() -> None:
    ids = [f"{number}" for number in range(6)]
    words, told = limited(user("do it"), called(*ids), *map(result, ids), max_history_messages=3, max_tool_results=2)
    assert words == ["u:do it", "a:0+1+2+3+4+5", *(f"t:{call_id}" for call_id in ids)]
    assert not told.receipt


def test_the_oldest_results_go_with_their_calls() -> None:
    words, told = limited(
        user("a"), called("1", "2"), result("1"), result("2"), called("3"), result("3"), user("b"), max_tool_results=2
    )
    assert words == ["u:a", "a:2", "t:2", "a:3", "t:3", "u:b"]
    assert [(line.where, line.what) for line in told.receipt.losses] == [("messages[2].content[0]", "result of call 1")]


def test_reasoning_that_led_to_a_call_goes_with_it() -> None:
    thinking = Message(role="assistant", content=(Thinking(text="hm"), ToolCall(id="1", name="f")))
    words, _ = limited(user("a"), thinking, result("1"), said("done"), user("b"), max_tool_results=0)
    assert words == ["u:a", "a:done", "u:b"]


def ids_of(request: Request) -> tuple[list[str], list[str]]:
    blocks = [block for message in request.messages for block in message.content]
    calls = [block.id for block in blocks if isinstance(block, ToolCall)]
    return calls, [block.call_id for block in blocks if isinstance(block, ToolResult)]


@given(data=st.data(), messages=st.integers(1, 8), results=st.integers(0, 4))
def test_pairs_are_never_torn_and_nothing_goes_untold(data: st.DataObject, messages: int, results: int) -> None:
    tools = data.draw(tool_lists(legal_names, custom=False))
    asked = Request(model="m", tools=tools, messages=data.draw(conversations(tools, legal_ids)))
    whole = repair(asked, context())
    told = context()
    fitted = limit(messages, results)(whole, told)
    calls, answers = ids_of(fitted)
    before_calls, before_answers = ids_of(whole)
    if set(before_answers) <= set(before_calls):
        assert set(answers) <= set(calls)
    if set(before_calls) <= set(before_answers):
        assert set(calls) <= set(answers)
    assert (fitted == whole) or told.receipt.losses
    assert [message for message in fitted.messages if message.role == "system"] == [
        message for message in whole.messages if message.role == "system"
    ]
    questions = [message for message in whole.messages if message.role == "user" and message.content]
    if questions and not any(isinstance(block, ToolResult) for block in questions[-1].content):
        assert questions[-1] in fitted.messages
    assert limit(messages, results)(fitted, context()) == fitted
