"""Reasoning settings in the members of servers that imitate Chat Completions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot import Exchange

Members = dict[str, Any]


def sent(members: Members, target: str, model: str = "some-model") -> tuple[dict[str, Any], Exchange]:
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 20_000, **members}
    exchange = Exchange("openai_chat", target)
    return json.loads(exchange.request(body)), exchange


OFF: tuple[Members, ...] = (
    {"reasoning_effort": "none"},
    {"reasoning": {"effort": "none"}},
    {"reasoning": {"enabled": False}},
    {"thinking": {"type": "disabled"}},
    {"chat_template_kwargs": {"enable_thinking": False}},
    {"enable_thinking": False},
    {"chat_template_kwargs": {"thinking": False}},
)


@pytest.mark.parametrize("members", OFF, ids=str)
def test_reasoning_is_switched_off_everywhere(members: Members) -> None:
    assert sent(members, "anthropic")[0]["thinking"] == {"type": "disabled"}
    assert sent(members, "gemini")[0]["generationConfig"]["thinkingConfig"] == {"thinkingBudget": 0}
    assert sent(members, "openai_responses")[0]["reasoning"] == {"effort": "none"}


def test_an_effort_of_openrouter_is_an_effort() -> None:
    members = {"reasoning": {"effort": "high"}}
    assert sent(members, "openai_responses")[0]["reasoning"] == {"effort": "high"}
    assert sent(members, "gemini")[0]["generationConfig"]["thinkingConfig"] == {"thinkingLevel": "HIGH"}
    assert sent(members, "anthropic")[0]["output_config"] == {"effort": "high"}


@pytest.mark.parametrize(
    "members", [{"thinking": {"type": "enabled", "budget_tokens": 4000}}, {"reasoning": {"max_tokens": 4000}}], ids=str
)
def test_a_budget_is_a_budget(members: Members) -> None:
    assert sent(members, "anthropic")[0]["thinking"] == {"type": "enabled", "budget_tokens": 4000}
    assert sent(members, "gemini")[0]["generationConfig"]["thinkingConfig"] == {"thinkingBudget": 4000}
    body, exchange = sent(members, "openai_responses")
    assert body["reasoning"] == {"effort": "medium"}
    assert [line.where for line in exchange.receipt.losses] == ["reasoning.budget_tokens"]


@pytest.mark.parametrize(
    "members", [{"thinking": {"type": "enabled"}}, {"chat_template_kwargs": {"enable_thinking": True}}], ids=str
)
def test_a_reasoning_switch_without_an_equivalent_is_reported(members: Members) -> None:
    body, exchange = sent(members, "openai_responses")
    assert "reasoning" not in body
    assert [line.where for line in exchange.receipt.notes] == ["reasoning"]
    assert sent(members, "gemini")[0]["generationConfig"]["thinkingConfig"] == {"thinkingBudget": -1}


def test_other_members_of_reasoning_settings_are_reported_by_name() -> None:
    members = {"chat_template_kwargs": {"enable_thinking": False, "custom": 1}, "min_p": 0.1}
    _, exchange = sent(members, "openai_responses")
    assert [line.where for line in exchange.receipt.losses] == ["min_p", "chat_template_kwargs.custom"]


WORDS: tuple[Members, ...] = (
    *OFF,
    {"reasoning": {"effort": "high", "exclude": True, "novel": 1}},
    {"thinking": {"type": "enabled", "budget_tokens": 4000, "clear_thinking": False}},
    {"thinking": {"type": "novel"}},
    {"thinking": True, "reasoning": "high"},
    {"chat_template_kwargs": {"enable_thinking": True, "custom": 1}, "reasoning_effort": "low"},
    {"enable_thinking": True, "thinking_budget": 2000},
    {"top_k": 40, "min_p": 0.1},
)


@pytest.mark.parametrize("members", WORDS, ids=str)
@pytest.mark.parametrize("verbatim", [True, False])
def test_within_chat_the_words_stay_as_they_are(members: Members, verbatim: bool) -> None:
    body = {"model": "some-model", "messages": [{"role": "user", "content": "Hi"}], **members}
    exchange = Exchange("openai_chat", "openai_chat", verbatim=verbatim)
    assert json.loads(exchange.request(body)) == body
    assert not exchange.receipt


def test_top_k_reaches_whoever_has_it_and_not_openai() -> None:
    assert sent({"top_k": 40}, "gemini")[0]["generationConfig"]["topK"] == 40
    assert sent({"top_k": 40}, "anthropic")[0]["top_k"] == 40
    gemini = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}], "generationConfig": {"topK": 40}}
    exchange = Exchange("gemini", "openai_chat")
    assert json.loads(exchange.request(gemini, model="llama-4"))["top_k"] == 40
    exchange = Exchange("gemini", "openai_chat")
    assert "top_k" not in json.loads(exchange.request(gemini, model="gpt-4.1"))
    assert [line.where for line in exchange.receipt.losses] == ["top_k"]


OVERRULED: list[tuple[Members, str, str]] = [
    (
        {"reasoning_effort": "low", "reasoning": {"effort": "high"}},
        "reasoning.effort",
        "reasoning_effort low is also set, and wins",
    ),
    (
        {"reasoning": {"max_tokens": 4000}, "thinking_budget": 9000},
        "reasoning.thinking_budget",
        "reasoning.max_tokens 4000 is also set, and wins",
    ),
]


@pytest.mark.parametrize("target", ["anthropic", "openai_responses", "gemini"])
@pytest.mark.parametrize(("members", "where", "why"), OVERRULED)
def test_of_two_wishes_that_differ_the_receipt_names_the_one_that_wins(
    members: Members, where: str, why: str, target: str
) -> None:
    _, exchange = sent(members, target)
    assert [line.why for line in exchange.receipt.losses if line.where == where] == [why]


@pytest.mark.parametrize("members", [{"reasoning_effort": "low", "reasoning": {"effort": "low"}}, OVERRULED[0][0]])
def test_two_wishes_go_to_the_same_api_as_they_came(members: Members) -> None:
    body, exchange = sent(members, "openai_chat")
    assert {key: body[key] for key in members} == members
    assert not exchange.receipt
