from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import strategies
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError
from toolglot.ir import Block, Message, Request, Text, ToolCall, ToolResult, replace
from toolglot.passes import Context, census, history, names
from toolglot.passes.blocks import blocks
from toolglot.passes.census import Census
from toolglot.passes.pipeline import REQUEST_PASSES, prepare
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
        slot=client.state.slot,
        details=client.state.details_slot,
    )


class Suspicious(Census):
    """Sees everything that there could be, so that no pass takes a short way."""

    def __init__(self, messages: tuple[Message, ...]) -> None:
        super().__init__(messages)
        self.kinds = set(get_args(Block))
        self.is_flat = False
        self.__dict__.update(has_owned_messages=True, has_empty_messages=True, has_citations=True, has_blank_text=True)


def never(*_: Any) -> bool:
    return False


def the_long_way(work: Callable[[], Any]) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(census, "Census", Suspicious)
        patch.setattr(history, "_is_paired", never)
        patch.setattr(names._Naming, "keeps_all", never)
        patch.setattr(names._Naming, "knows", never)
        return work()


def prepared(request: Request, source: str, target: str) -> tuple[Any, ...]:
    exchange = context(source, target)
    try:
        sent: Any = prepare(request, exchange)
    except DecodeError as error:
        sent = str(error)
    return sent, str(exchange.receipt), exchange.tools, exchange.call_ids


@settings(max_examples=150)
@given(strategies.requests() | strategies.tool_requests(), st.sampled_from(PAIRS))
def test_what_the_census_lets_passes_skip_would_have_changed_nothing(request_: Request, pair: tuple[str, str]) -> None:
    assert prepared(request_, *pair) == the_long_way(lambda: prepared(request_, *pair))


@given(strategies.requests())
def test_the_census_counts_what_a_walk_over_all_blocks_finds(request_: Request) -> None:
    there = Census(request_.messages)
    every = [block for block, _ in blocks(request_)]
    texts = [block for block in every if isinstance(block, Text)]
    assert sorted(map(id, there.blocks)) == sorted(map(id, every))
    assert there.kinds == set(map(type, every))
    assert len(there.owned) == sum(bool(block.native) for block in every)
    assert there.has_owned_messages == any(message.native for message in request_.messages)
    assert there.has_empty_messages == any(not message.content for message in request_.messages)
    assert there.has_citations == any(block.citations for block in texts)
    assert there.has_blank_text == any(not block.text.strip() for block in texts)
    assert there.cached == sum(getattr(block, "cache", None) is not None for block in every)


@pytest.mark.parametrize("rewrite", REQUEST_PASSES, ids=lambda rewrite: f"{rewrite.__module__}.{rewrite.__name__}")
def test_a_pass_that_has_nothing_to_do_returns_the_request_itself(rewrite: Any) -> None:
    assert rewrite(PLAIN, context("openai_responses", "openai_chat")) is PLAIN


def test_the_census_is_taken_again_when_the_messages_have_changed() -> None:
    exchange = context("openai_responses", "openai_chat")
    first = census.census(PLAIN, exchange)
    assert census.census(replace(PLAIN, model="another"), exchange) is first
    shorter = census.census(replace(PLAIN, messages=PLAIN.messages[:1]), exchange)
    assert (len(first.calls), len(shorter.calls)) == (1, 0)


def test_a_finished_rewrite_holds_on_to_no_census() -> None:
    exchange = context("openai_responses", "openai_chat")
    prepare(PLAIN, exchange)
    assert exchange.census is None


def test_a_call_inside_of_a_result_is_told() -> None:
    inside = ToolResult(call_id="call_1", content=(ToolCall(id="call_2", name="read"),))
    assert not Census((Message(role="tool", content=(inside,)),)).is_flat
