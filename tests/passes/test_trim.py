"""Cutting a long conversation: what goes, what never goes, and that all of it is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.passes.targets import ANTHROPIC, CHAT, TARGETS, answered, asked, calls, lines, result, said, texts, to, user
from tests.strategies import requests
from toolglot.capabilities import Capabilities
from toolglot.ir import Message, Request, Text, Thinking, ToolCall, ToolResult
from toolglot.passes import Context, RequestPass, history
from toolglot.passes.history_policy import HistoryPolicy, Layer, MergedPolicy, merge_layers, with_policy
from toolglot.passes.pipeline import REQUEST_PASSES
from toolglot.passes.trim import trim as trimming_to

SYSTEM = Message(role="system", content=(Text(text="Be brief."),))
limits = st.integers(0, 6)


def limited(messages: int, kept: int) -> MergedPolicy:
    """At most so many messages and results, cut to the brim."""
    return merge_layers((Layer(HistoryPolicy(max_messages=messages, max_tool_results=kept), exact=True),))


def trim(messages: int, kept: int) -> RequestPass:
    return trimming_to(limited(messages, kept).limits)


def rounds(count: int) -> list[Message]:
    """So many rounds of one call each."""
    return [message for n in range(count) for message in (calls(f"c{n}"), answered(result(f"c{n}", f"r{n}")))]


def results(request: Request) -> list[str]:
    return [block.call_id for message in request.messages for block in message.content if isinstance(block, ToolResult)]


def test_the_oldest_messages_go_and_each_is_told() -> None:
    context = to(CHAT)
    talk = [user("1?"), said("1."), user("2?"), said("2."), user("3?")]
    cut = trim(3, 0)(asked(SYSTEM, *talk), context)
    assert [texts(message) for message in cut.messages] == [["Be brief."], ["2?"], ["2."], ["3?"]]
    assert lines(context) == ["loss messages[1]", "loss messages[2]"]
    assert "at most 3 messages" in context.receipt.losses[0].why


def test_a_call_goes_with_its_results() -> None:
    context = to(CHAT)
    talk = [user("1?"), calls("a", "b"), answered(result("a")), answered(result("b")), said("1."), user("2?")]
    cut = trim(4, 0)(asked(*talk), context)
    assert [message.role for message in cut.messages] == ["assistant", "user"]
    assert len(lines(context)) == 4


def test_the_users_last_words_stay_however_much_came_after_them() -> None:
    talk = [user("old"), said("old."), user("Do it."), *rounds(20)]
    cut = trim(6, 0)(asked(SYSTEM, *talk), to(CHAT))
    assert texts(cut.messages[1]) == ["Do it."]
    assert results(cut) == ["c18", "c19"]
    assert len(cut.messages) == 6


def test_the_oldest_calls_go_with_their_results() -> None:
    context = to(CHAT)
    cut = trim(0, 2)(asked(user(), *rounds(4), said("Fine."), user("Thanks")), context)
    assert results(cut) == ["c2", "c3"]
    assert len(cut.messages) == 7
    assert lines(context) == ["loss messages[1].content[0]", "loss messages[3].content[0]"]
    assert context.receipt.losses[0].what == "call of look and its result"


def test_results_that_are_sent_now_stay() -> None:
    batch = [calls(*"abc"), answered(*(result(name) for name in "abc"))]
    assert results(trim(1, 1)(asked(user(), *rounds(2), *batch), to(CHAT))) == ["a", "b", "c"]


def test_text_beside_a_call_stays_and_reasoning_alone_goes() -> None:
    call = ToolCall(id="a", name="look", arguments="{}")
    spoken = Message(role="assistant", content=(Thinking(text="Hm."), Text(text="Let me see."), call))
    silent = Message(role="assistant", content=(Thinking(text="Hm."), ToolCall(id="b", name="look")))
    talk = [user(), spoken, answered(result("a")), silent, answered(result("b")), *rounds(1), said("."), user()]
    cut = trim(0, 1)(asked(*talk), to(ANTHROPIC))
    assert [len(message.content) for message in cut.messages] == [1, 2, 1, 1, 1, 1]
    assert results(cut) == ["c0"]


def test_no_limit_is_no_pass() -> None:
    assert with_policy(REQUEST_PASSES, limited(0, 0)) == REQUEST_PASSES
    trimming = with_policy(REQUEST_PASSES, limited(1, 0))
    assert len(trimming) == len(REQUEST_PASSES) + 1
    assert trimming[trimming.index(history.repair) + 2 :] == REQUEST_PASSES[REQUEST_PASSES.index(history.repair) + 1 :]


def repaired(request: Request, context: Context) -> Request:
    for request_pass in REQUEST_PASSES[: REQUEST_PASSES.index(history.repair) + 1]:
        request = request_pass(request, context)
    return request


@pytest.mark.parametrize("can", TARGETS.values(), ids=TARGETS)
@given(request=requests(), messages=limits, kept=limits)
def test_it_keeps_pairs_and_what_is_asked_and_has_nothing_to_do_twice(
    can: Capabilities, request: Request, messages: int, kept: int
) -> None:
    context = to(can)
    whole = repaired(request, context)
    told = context.receipt.loss_count
    fit = trim(messages, kept)
    cut = fit(whole, context)
    written = list(context.receipt)
    assert fit(cut, context) == cut
    assert list(context.receipt) == written
    assert (context.receipt.loss_count > told) == (cut != whole)
    called = [block.id for message in cut.messages for block in message.content if isinstance(block, ToolCall)]
    before = {block.id for message in whole.messages for block in message.content if isinstance(block, ToolCall)}
    # Of every pair both are there or neither is.
    assert {name for name in results(cut) if name in before} == {name for name in called if name in results(whole)}
    instructions = ("system", "developer")
    assert [m for m in cut.messages if m.role in instructions] == [m for m in whole.messages if m.role in instructions]
    assert cut.messages[-1:] == whole.messages[-1:]
    spoken = [m for m in whole.messages if m.role == "user" and any(not isinstance(b, ToolResult) for b in m.content)]
    assert all(message in cut.messages for message in spoken[-1:])
