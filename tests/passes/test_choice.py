from __future__ import annotations

from typing import Any

import pytest

from toolglot.capabilities import Capabilities, change_capabilities
from toolglot.ir import Opaque, Reasoning, Request, Tool, ToolChoice
from toolglot.passes import Context, choice

from .targets import ANTHROPIC, CHAT, GEMINI, asked, lines, texts, to, tool, user

TOOLS = (tool("a"), tool("b"), tool("c"))
UNFORCED = change_capabilities(ANTHROPIC, tool_choices=frozenset({"auto", "none"}))
NOTHING = change_capabilities(CHAT, tool_choices=frozenset({"auto"}), fields=frozenset({"tool_choice"}))


def fit(can: Capabilities, wanted: ToolChoice | None, **fields: Any) -> tuple[Request, Context]:
    context = to(can, target="target")
    return choice.fit(asked(user(), tools=TOOLS, tool_choice=wanted, **fields), context), context


def offered(request: Request) -> list[str]:
    return [tool.name for tool in request.tools if isinstance(tool, Tool)]


def asks(request: Request) -> str:
    """The last line, behind what the user said."""
    last = texts(request.messages[-1])[-1]
    return last if last != "Hello" else ""


def test_what_the_target_can_say_stays() -> None:
    for wanted in (
        ToolChoice(mode="auto"),
        ToolChoice(mode="none"),
        ToolChoice(mode="required"),
        ToolChoice(mode="required", names=("a",)),
        ToolChoice(mode="required", names=("a", "b")),
        ToolChoice(mode="auto", names=("a", "b")),
    ):
        request, context = fit(CHAT, wanted)
        assert (request.tool_choice, offered(request), len(context.receipt)) == (wanted, ["a", "b", "c"], 0)


def test_a_required_call_that_cannot_be_forced_is_asked_for() -> None:
    request, context = fit(UNFORCED, ToolChoice(mode="required"))
    assert request.tool_choice == ToolChoice(mode="auto")
    assert "call of one of the tools" in asks(request)
    assert lines(context) == ["loss tool_choice"]


def test_a_named_tool_that_cannot_be_forced_is_the_only_one_offered() -> None:
    request, context = fit(UNFORCED, ToolChoice(mode="required", names=("b",)))
    assert offered(request) == ["b"]
    assert request.tool_choice == ToolChoice(mode="auto")
    assert asks(request)
    told = ["loss tool_choice.names", "loss tools[0]", "loss tools[2]", "loss tool_choice"]
    assert lines(context) == told


def test_a_named_tool_is_required_alone_where_names_are_unknown() -> None:
    request, context = fit(
        change_capabilities(CHAT, tool_choices=frozenset({"auto", "required"})),
        ToolChoice(mode="required", names=("b",)),
    )
    assert (offered(request), request.tool_choice) == (["b"], ToolChoice(mode="required"))
    assert lines(context) == ["loss tool_choice.names", "loss tools[0]", "loss tools[2]"]


@pytest.mark.parametrize("names", [("b",), ("a", "b"), ("a", "c", "b")])
@pytest.mark.parametrize("mode", ["auto", "required"])
@pytest.mark.parametrize("reasoning", [None, Reasoning(mode="on")])
@pytest.mark.parametrize("can", [CHAT, ANTHROPIC, GEMINI, UNFORCED, NOTHING])
def test_every_tool_that_a_choice_leaves_out_is_named_in_the_receipt(
    can: Capabilities, reasoning: Reasoning | None, mode: Any, names: tuple[str, ...]
) -> None:
    search = Opaque("target", {"type": "web_search"})
    context = to(can, target="target")
    wanted = ToolChoice(mode=mode, names=names)
    request = choice.fit(asked(user(), tools=(*TOOLS, search), tool_choice=wanted, reasoning=reasoning), context)
    left_out = [tool for tool in (*TOOLS, search) if tool not in request.tools]
    told = [line.what for line in context.receipt.losses if line.where.startswith("tools[")]
    assert told == [f"tool {tool.name}" if isinstance(tool, Tool) else "web_search" for tool in left_out]


def test_a_forced_call_is_asked_for_when_the_target_reasons() -> None:
    request, _ = fit(ANTHROPIC, ToolChoice(mode="required"), reasoning=Reasoning(mode="on"))
    assert request.tool_choice == ToolChoice(mode="auto")
    still, _ = fit(ANTHROPIC, ToolChoice(mode="required"), reasoning=Reasoning(mode="off"))
    assert still.tool_choice == ToolChoice(mode="required")


def test_an_allowed_subset_is_offered_alone_where_the_target_has_none() -> None:
    request, context = fit(ANTHROPIC, ToolChoice(mode="auto", names=("a", "c")))
    assert (offered(request), request.tool_choice) == (["a", "c"], ToolChoice(mode="auto"))
    assert "prompt cache" in str(context.receipt)


def test_a_mode_that_an_allowed_subset_cannot_have_is_had_by_offering_less() -> None:
    request, _ = fit(GEMINI, ToolChoice(mode="auto", names=("a", "b")))
    assert (offered(request), request.tool_choice) == (["a", "b"], ToolChoice(mode="auto"))
    kept, context = fit(GEMINI, ToolChoice(mode="required", names=("a", "b")))
    assert kept.tool_choice == ToolChoice(mode="required", names=("a", "b"))
    assert not context.receipt


def test_no_tool_keeps_the_tools() -> None:
    request, _ = fit(NOTHING, ToolChoice(mode="none"))
    assert (offered(request), request.tool_choice) == (["a", "b", "c"], None)
    assert "Do not call" in asks(request)


def test_a_choice_of_another_dialect_is_a_loss_and_the_targets_own_stays() -> None:
    foreign = ToolChoice(mode="opaque", native={"openai_responses": {"choice": {"type": "mcp"}}})
    request, context = fit(CHAT, foreign)
    assert request.tool_choice is None
    assert lines(context) == ["loss tool_choice"]
    own = ToolChoice(mode="opaque", native={"target": {"choice": "x"}})
    assert fit(CHAT, own)[0].tool_choice == own


def test_a_choice_without_tools_goes() -> None:
    context = to(CHAT)
    request = choice.fit(asked(user(), tool_choice=ToolChoice(mode="auto"), parallel_tool_calls=True), context)
    assert (request.tool_choice, request.parallel_tool_calls) == (None, None)
    assert lines(context) == ["note tool_choice", "note parallel_tool_calls"]


def test_tools_that_do_not_exist_cannot_be_offered_alone() -> None:
    request, context = fit(UNFORCED, ToolChoice(mode="required", names=("nobody",)))
    assert offered(request) == ["a", "b", "c"]
    assert context.receipt.losses


def test_one_call_at_a_time_is_asked_for_where_there_is_no_switch() -> None:
    request, context = fit(GEMINI, None, parallel_tool_calls=False)
    assert request.parallel_tool_calls is None
    assert "one tool at a time" in asks(request)
    assert lines(context) == ["loss parallel_tool_calls"]
    assert not fit(GEMINI, None, parallel_tool_calls=True)[1].receipt
    assert fit(ANTHROPIC, None, parallel_tool_calls=False)[0].parallel_tool_calls is False
