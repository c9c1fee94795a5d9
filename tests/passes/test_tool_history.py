"""Passes that look only at the calls and results of a conversation do what they would do if they saw all of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from tests.examples import examples
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError
from toolglot.features import survey
from toolglot.ir import Message, Request, Text, ToolCall, ToolResult, replace
from toolglot.passes import Context, history, ids, names, tool_history
from toolglot.passes.blocks import blocks
from toolglot.passes.pipeline import REQUEST_PASSES, prepare
from toolglot.passes.tool_history import ToolHistory, collect
from toolglot.receipt import Receipt

PAIRS = [pair for pair in product(sorted(DIALECTS), repeat=2) if "warp" not in pair]

PLAIN = Request(
    model="model",
    messages=(
        Message(role="user", content=(Text(text="Read it."),)),
        Message(role="assistant", content=(ToolCall(id="call_1", name="read", arguments="{}"),)),
        Message(role="tool", content=(ToolResult(call_id="call_1", name="read", content=(Text(text="done"),)),)),
    ),
)


def context(source: str, target: str) -> Context:
    client = DIALECTS[source]
    return Context(
        source=source,
        target=target,
        can=DIALECTS[target].can,
        receipt=Receipt(),
        source_can=client.can,
        slots=client.state,
    )


def suspicious(*_: Any) -> ToolHistory:
    """One that may hold calls inside of results, so that no pass takes a short way."""
    history = collect(*_)
    history.is_flat = False
    return history


def never(*_: Any) -> bool:
    return False


def the_long_way(work: Callable[[], Any]) -> Any:
    def find(request: Request, _: Context) -> ToolHistory:
        return suspicious(request.messages)

    with pytest.MonkeyPatch.context() as patch:
        for module in (ids, names):
            patch.setattr(module, "tool_history", find)
        patch.setattr(history, "_is_paired", never)
        return work()


def prepared(request: Request, source: str, target: str) -> tuple[Any, ...]:
    exchange = context(source, target)
    try:
        sent: Any = prepare(request, exchange)
    except DecodeError as error:
        sent = str(error)
    return sent, str(exchange.receipt), exchange.tools, exchange.call_ids


@examples(5)
@given(strategies.requests() | strategies.tool_requests(), st.sampled_from(PAIRS))
def test_what_passes_skip_would_have_changed_nothing(request_: Request, pair: tuple[str, str]) -> None:
    assert prepared(request_, *pair) == the_long_way(lambda: prepared(request_, *pair))


@given(strategies.requests())
def test_the_survey_finds_the_calls_and_results_that_a_walk_over_all_blocks_finds(request_: Request) -> None:
    for found in (collect(request_.messages), survey(request_, "openai_chat", DIALECTS["openai_chat"].can.receipt)[1]):
        every = [(block, place) for block, place in blocks(request_) if place.inner < 0]
        calls = [(block, (place.message, place.block)) for block, place in every if isinstance(block, ToolCall)]
        results = [(block, (place.message, place.block)) for block, place in every if isinstance(block, ToolResult)]
        assert list(zip(found.calls, found.call_places, strict=True)) == calls
        assert list(zip(found.results, found.places, strict=True)) == results
        inner = [block for block, place in blocks(request_) if place.inner >= 0]
        assert found.is_flat == (not any(isinstance(block, ToolCall | ToolResult) for block in inner))


@pytest.mark.parametrize("rewrite", REQUEST_PASSES, ids=lambda rewrite: f"{rewrite.__module__}.{rewrite.__name__}")
def test_a_pass_that_has_nothing_to_do_returns_the_request_itself(rewrite: Any) -> None:
    assert rewrite(PLAIN, context("openai_responses", "openai_chat")) is PLAIN


def test_calls_and_results_are_collected_again_when_the_messages_have_changed() -> None:
    exchange = context("openai_responses", "openai_chat")
    first = tool_history.tool_history(PLAIN, exchange)
    assert tool_history.tool_history(replace(PLAIN, model="another"), exchange) is first
    shorter = tool_history.tool_history(replace(PLAIN, messages=PLAIN.messages[:1]), exchange)
    assert (len(first.calls), len(shorter.calls)) == (1, 0)


def test_a_finished_rewrite_holds_on_to_no_history() -> None:
    exchange = context("openai_responses", "openai_chat")
    prepare(PLAIN, exchange)
    assert exchange.tool_history is None


def test_a_call_inside_of_a_result_is_no_flat_history() -> None:
    inside = ToolResult(call_id="call_1", content=(ToolCall(id="call_2", name="read"),))
    assert not collect((Message(role="tool", content=(inside,)),)).is_flat


def test_many_results_in_one_message_are_named_in_one_step() -> None:
    calls = tuple(ToolCall(id=f"call_{number}", name="read", arguments="{}") for number in range(20_000))
    results = tuple(ToolResult(call_id=call.id, content=(Text(text="done"),)) for call in calls)
    messages = (Message(role="assistant", content=calls), Message(role="user", content=results))
    sent = ids.unique(replace(PLAIN, messages=messages), context("anthropic", "gemini"))
    assert {result.name for result in sent.messages[1].content if isinstance(result, ToolResult)} == {"read"}
