from __future__ import annotations

from typing import Any

import pytest

from toolglot.capabilities import Capabilities, change_capabilities
from toolglot.ir import Reasoning
from toolglot.passes import parameters

from .targets import ANTHROPIC, CHAT, RESPONSES, asked, lines, to, tool, user


@pytest.mark.parametrize(
    ("can", "field", "value", "expected", "line"),
    [
        (CHAT, "temperature", 1.7, 1.7, None),
        (ANTHROPIC, "temperature", 1.7, 1.0, "loss temperature"),
        (CHAT, "top_k", 40, None, "loss top_k"),
        (ANTHROPIC, "seed", 7, None, "loss seed"),
        (ANTHROPIC, "presence_penalty", 0, None, "note presence_penalty"),
        (RESPONSES, "frequency_penalty", 0.5, None, "loss frequency_penalty"),
        (RESPONSES, "stop", ("END",), (), "loss stop"),
        (CHAT, "stop", tuple("abcdef"), tuple("abcd"), "loss stop"),
        (RESPONSES, "candidates", 3, None, "loss candidates"),
        (RESPONSES, "candidates", 1, None, "note candidates"),
        (ANTHROPIC, "verbosity", "low", None, "loss verbosity"),
        (ANTHROPIC, "metadata", {"a": "b"}, None, "note metadata"),
        (ANTHROPIC, "service_tier", "flex", None, "loss service_tier"),
        (RESPONSES, "max_output_tokens", 5, 16, "note max_output_tokens"),
        (ANTHROPIC, "max_output_tokens", None, 8192, "note max_output_tokens"),
    ],
)
def test_each_parameter_has_a_value_that_the_target_takes(
    can: Capabilities, field: str, value: Any, expected: Any, line: str | None
) -> None:
    context = to(can)
    fields = {"max_output_tokens": 100, field: value}
    assert getattr(parameters.fit(asked(user(), **fields), context), field) == expected
    assert lines(context) == ([line] if line else [])


SAMPLED = change_capabilities(
    CHAT, fields=CHAT.parameters.fields - {"temperature"}, fields_without_reasoning=frozenset({"temperature"})
)


@pytest.mark.parametrize(
    ("can", "fields", "is_kept"),
    [
        (SAMPLED, {"reasoning": Reasoning(mode="off", effort="none")}, True),
        (SAMPLED, {"reasoning": Reasoning(effort="none")}, True),
        (SAMPLED, {"reasoning": Reasoning(effort="low")}, False),
        (SAMPLED, {"reasoning": Reasoning(mode="on", budget_tokens=2000)}, False),
        (SAMPLED, {}, False),
        (SAMPLED, {"reasoning": Reasoning(show=True)}, False),
        (change_capabilities(SAMPLED, reasons_by_default=False), {}, True),
        (change_capabilities(SAMPLED, reasons_by_default=False), {"reasoning": Reasoning(show=True)}, True),
        (change_capabilities(SAMPLED, reasons_by_default=False), {"reasoning": Reasoning(effort="low")}, False),
        (change_capabilities(SAMPLED, reasoning_off=False), {"reasoning": Reasoning(mode="off")}, False),
        (change_capabilities(SAMPLED, reasoning_with_tools=False), {"tools": (tool(),)}, True),
        (change_capabilities(SAMPLED, reasoning_with_tools=False), {}, False),
    ],
)
def test_a_temperature_that_only_a_model_without_reasoning_takes(
    can: Capabilities, fields: dict[str, Any], is_kept: bool
) -> None:
    context = to(can)
    fitted = parameters.fit(asked(user(), temperature=0.5, max_output_tokens=100, **fields), context)
    assert fitted.temperature == (0.5 if is_kept else None)
    assert lines(context) == ([] if is_kept else ["loss temperature"])


def test_receipts_do_not_show_who_the_user_is() -> None:
    context = to(ANTHROPIC)
    parameters.fit(asked(user(), metadata={"session": "secret"}, max_output_tokens=1), context)
    assert "secret" not in str(context.receipt)


@pytest.mark.parametrize("limit", [None, 0])
def test_no_limit_and_a_limit_of_nothing_have_their_uses_in_their_own_dialect(limit: int | None) -> None:
    request = asked(user(), max_output_tokens=limit)
    assert parameters.fit(request, to(ANTHROPIC, source="anthropic")) is request


def test_more_tools_than_the_target_takes_are_told_and_stay() -> None:
    context = to(change_capabilities(CHAT, max_tools=128), target="openai_chat")
    request = asked(user(), tools=tuple(tool(f"t{index}") for index in range(129)))
    assert parameters.fit(request, context) is request
    assert lines(context) == ["loss tools"]
