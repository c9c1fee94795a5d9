from __future__ import annotations

import json

import pytest

from toolglot import Exchange
from toolglot.capabilities import Capabilities, change_capabilities
from toolglot.ir import Reasoning, Tool, replace
from toolglot.passes import effort, parameters

from .targets import ANTHROPIC, BUDGET_ONLY, CHAT, GEMINI, asked, lines, to, user

ALWAYS = change_capabilities(ANTHROPIC, reasoning_off=False, reasoning_budget=False)


@pytest.mark.parametrize(
    ("can", "wanted", "expected", "severity"),
    [
        (CHAT, Reasoning(effort="high"), Reasoning(effort="high"), []),
        (CHAT, Reasoning(mode="off", effort="none"), Reasoning(mode="off", effort="none"), []),
        (ANTHROPIC, Reasoning(effort="minimal"), Reasoning(effort="low"), ["loss"]),
        (ANTHROPIC, Reasoning(effort="xhigh"), Reasoning(effort="high"), ["loss"]),
        (GEMINI, Reasoning(effort="max"), Reasoning(effort="high"), ["loss"]),
        (GEMINI, Reasoning(mode="off", effort="none"), Reasoning(mode="off"), []),
        (ALWAYS, Reasoning(mode="off"), Reasoning(effort="low"), ["loss"]),
        (change_capabilities(CHAT, reasoning_off=False), Reasoning(mode="off"), Reasoning(effort="minimal"), ["loss"]),
        (
            change_capabilities(CHAT, reasoning_off=False, efforts=()),
            Reasoning(mode="off", budget_tokens=9),
            Reasoning(),
            ["loss"],
        ),
        (
            BUDGET_ONLY,
            Reasoning(mode="off", effort="high", budget_tokens=9),
            Reasoning(mode="off", budget_tokens=9),
            ["note"],
        ),
        (CHAT, Reasoning(mode="off", effort="high", budget_tokens=9), Reasoning(mode="off", effort="high"), []),
        (ALWAYS, Reasoning(effort="none"), Reasoning(effort="low"), ["loss"]),
        (CHAT, Reasoning(mode="on", budget_tokens=1024), Reasoning(mode="on", effort="low"), ["loss"]),
        (CHAT, Reasoning(mode="on", budget_tokens=8000), Reasoning(mode="on", effort="medium"), ["loss"]),
        (CHAT, Reasoning(mode="on", budget_tokens=31999), Reasoning(mode="on", effort="xhigh"), ["loss"]),
        (CHAT, Reasoning(mode="on", budget_tokens=10**6), Reasoning(mode="on", effort="max"), ["loss"]),
        (BUDGET_ONLY, Reasoning(effort="medium"), Reasoning(mode="on", budget_tokens=8192), ["note"]),
        (BUDGET_ONLY, Reasoning(mode="on", budget_tokens=5), Reasoning(mode="on", budget_tokens=5), []),
        (ANTHROPIC, Reasoning(effort="ultra"), Reasoning(), ["loss"]),
    ],
)
def test_reasoning_is_said_in_the_words_of_the_target(
    can: Capabilities, wanted: Reasoning, expected: Reasoning, severity: list[str]
) -> None:
    context = to(can)
    assert effort.fit(asked(user(), reasoning=wanted), context).reasoning == expected
    assert [line.severity for line in context.receipt] == severity


def test_a_budget_leaves_half_of_the_output_for_the_answer() -> None:
    request = effort.fit(asked(user(), reasoning=Reasoning(effort="high"), max_output_tokens=8000), to(BUDGET_ONLY))
    assert request.reasoning == Reasoning(mode="on", budget_tokens=4000)


SMALL_BUDGETS = change_capabilities(BUDGET_ONLY, min_budget=1024)
BUDGET_AND_EFFORT = change_capabilities(SMALL_BUDGETS, efforts=("low", "high"), reasons_by_budget=True)


@pytest.mark.parametrize(
    ("can", "limit", "wanted", "expected", "told"),
    [
        (SMALL_BUDGETS, 1024, Reasoning(effort="low"), None, ["loss reasoning"]),
        (SMALL_BUDGETS, 1024, Reasoning(mode="on"), None, ["loss reasoning"]),
        (SMALL_BUDGETS, 1024, Reasoning(mode="on", budget_tokens=2000), None, ["loss reasoning"]),
        (SMALL_BUDGETS, 1024, Reasoning(show=True), Reasoning(show=True), []),
        (SMALL_BUDGETS, 1024, Reasoning(mode="off"), Reasoning(mode="off"), []),
        (
            SMALL_BUDGETS,
            1025,
            Reasoning(effort="low"),
            Reasoning(mode="on", budget_tokens=1024),
            ["note reasoning.effort"],
        ),
        (BUDGET_ONLY, 100, Reasoning(mode="on", budget_tokens=50), Reasoning(mode="on", budget_tokens=50), []),
        (BUDGET_AND_EFFORT, 1024, Reasoning(effort="low"), Reasoning(mode="off", effort="low"), ["loss reasoning"]),
        (
            change_capabilities(BUDGET_AND_EFFORT, reasons_by_budget=False),
            1024,
            Reasoning(effort="low"),
            Reasoning(effort="low"),
            [],
        ),
    ],
)
def test_a_limit_without_room_for_the_smallest_budget_means_no_reasoning(
    can: Capabilities, limit: int, wanted: Reasoning, expected: Reasoning | None, told: list[str]
) -> None:
    context = to(can)
    request = effort.fit(asked(user(), reasoning=wanted, max_output_tokens=limit), context)
    assert request.reasoning == expected
    assert lines(context) == told
    assert effort.fit(request, context).reasoning == expected


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-4-5"])
@pytest.mark.parametrize(("limit", "thinks"), [(500, False), (9000, True)])
def test_a_call_is_forced_where_the_output_limit_leaves_no_room_for_thinking(
    model: str, limit: int, thinks: bool
) -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": tools, "tool_choice": "required"}
    exchange = Exchange("openai_chat", "anthropic", model=model)
    sent = json.loads(exchange.request({**body, "reasoning_effort": "high", "max_tokens": limit}))
    assert (sent.get("thinking", {}).get("type") == "enabled", sent["tool_choice"]["type"] == "any") == (
        thinks,
        not thinks,
    )
    lost = [line.where for line in exchange.receipt if line.severity == "loss"]
    assert lost == (["tool_choice"] if thinks else ["reasoning"])


def test_reasoning_is_a_loss_where_there_is_no_word_for_it() -> None:
    context = to(change_capabilities(CHAT, fields=frozenset()))
    assert effort.fit(asked(user(), reasoning=Reasoning(effort="high")), context).reasoning is None
    assert lines(context) == ["loss reasoning"]


def test_a_new_effort_of_the_targets_own_dialect_rides_along() -> None:
    request = asked(user(), reasoning=Reasoning(effort="ultra"))
    assert effort.fit(request, to(CHAT, source="openai_chat")) is request


@pytest.mark.parametrize(
    ("wanted", "told"),
    [(None, ["note reasoning"]), (Reasoning(effort="high"), ["loss reasoning"]), (Reasoning(mode="off"), [])],
)
def test_a_model_that_takes_tools_only_without_reasoning_is_told_not_to_reason(
    wanted: Reasoning | None, told: list[str]
) -> None:
    context = to(change_capabilities(CHAT, reasoning_with_tools=False))
    request = effort.fit(asked(user(), tools=(Tool(name="f"),), reasoning=wanted), context)
    assert request.reasoning is not None
    assert request.reasoning.mode == "off"
    assert lines(context) == told
    without_tools = effort.fit(
        asked(user(), reasoning=wanted), to(change_capabilities(CHAT, reasoning_with_tools=False))
    )
    assert without_tools.reasoning == wanted


def test_a_target_that_shows_reasoning_as_it_likes_is_not_told() -> None:
    context = to(change_capabilities(CHAT, reasoning_shown=False))
    request = effort.fit(asked(user(), reasoning=Reasoning(effort="high", show=True)), context)
    assert request.reasoning == Reasoning(effort="high")
    assert lines(context) == ["note reasoning.show"]


def test_a_limit_that_nobody_asked_for_leaves_the_answer_what_it_needs_and_no_more() -> None:
    can = change_capabilities(BUDGET_ONLY, default_output_tokens=32000)
    context = to(can)
    request = parameters.fit(asked(user(), reasoning=Reasoning(effort="high")), context)
    assert effort.fit(request, context).reasoning == Reasoning(mode="on", budget_tokens=24576)
    asked_for = asked(user(), reasoning=Reasoning(effort="high"), max_output_tokens=32000)
    assert effort.fit(asked_for, to(can)).reasoning == Reasoning(mode="on", budget_tokens=16000)


def test_a_budget_above_the_targets_highest_is_cut_and_told() -> None:
    can = change_capabilities(BUDGET_ONLY, max_budget=24576)
    context = to(can)
    wanted = Reasoning(mode="on", budget_tokens=60000)
    assert effort.fit(asked(user(), reasoning=wanted), context).reasoning == replace(wanted, budget_tokens=24576)
    assert lines(context) == ["loss reasoning.budget_tokens"]
    highest = effort.fit(asked(user(), reasoning=Reasoning(effort="max")), to(can)).reasoning
    assert highest == Reasoning(mode="on", budget_tokens=24576)


@pytest.mark.parametrize(("name", "less"), [("low", "minimal"), ("medium", "low"), ("high", "medium")])
def test_a_higher_effort_is_a_higher_budget_where_a_model_knows_only_budgets(name: str, less: str) -> None:
    def budget(wanted: str) -> int:
        body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": wanted}
        exchange = Exchange("openai_chat", "anthropic", model="claude-sonnet-4-5")
        return int(json.loads(exchange.request({**body, "max_tokens": 60000}))["thinking"]["budget_tokens"])

    assert budget(name) >= budget(less) >= 1024


MODEL_EFFORTS = [
    ("o3", "xhigh", "high"),
    ("o4-mini", "minimal", "low"),
    ("gpt-5", "xhigh", "high"),
    ("gpt-5-mini", "none", "minimal"),
    ("gpt-5-codex", "minimal", "low"),
    ("gpt-5-pro", "low", "high"),
    ("gpt-5.1", "minimal", "low"),
    ("gpt-5.1", "none", "none"),
    ("gpt-5.1-codex-max", "xhigh", "xhigh"),
    ("gpt-5.2", "xhigh", "xhigh"),
    ("gpt-5.2", "max", "xhigh"),
    ("openai/gpt-5.5", "max", "xhigh"),
    ("gpt-5.6-terra", "max", "max"),
    ("gpt-oss-120b", "xhigh", "high"),
    ("some-model", "xhigh", "high"),
    ("some-model", "max", "high"),
    ("some-model", "minimal", "minimal"),
]


@pytest.mark.parametrize(("model", "asked", "sent"), MODEL_EFFORTS)
def test_a_model_is_asked_for_an_effort_that_it_has(model: str, asked: str, sent: str) -> None:
    body = {"model": model, "input": "Hi", "reasoning": {"effort": asked}}
    exchange = Exchange("openai_responses", "openai_chat")
    assert json.loads(exchange.request(body))["reasoning_effort"] == sent
    assert ("reasoning" in str(exchange.receipt)) == (asked != sent)
    chat = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": asked}
    assert json.loads(Exchange("openai_chat", "openai_responses").request(chat))["reasoning"]["effort"] == sent


@pytest.mark.parametrize("effort", ["none", "minimal", "xhigh", "max", "newest"])
def test_a_client_of_the_targets_own_dialect_knows_what_its_model_takes(effort: str) -> None:
    body = {"model": "o3", "messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": effort}
    exchange = Exchange("openai_chat", "openai_chat")
    assert json.loads(exchange.request(body)) == body
    assert not exchange.receipt
    other = Exchange("openai_chat", "openai_chat", model="gpt-5").request(body)
    if effort in ("xhigh", "max"):
        assert json.loads(other)["reasoning_effort"] == "high"  # the client did not choose this model
