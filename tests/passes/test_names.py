from __future__ import annotations

import re

import pytest

from toolglot.ir import Message, Request, Tool, ToolCall, ToolChoice, ToolResult
from toolglot.passes import OriginalTool, names

from .targets import ANTHROPIC, CHAT, GEMINI, RESPONSES, answered, asked, calls, lines, result, to, tool, user


def declared(request: Request) -> list[str]:
    return [tool.name for tool in request.tools if isinstance(tool, Tool)]


def test_legal_names_stay_and_are_written_down_for_the_way_back() -> None:
    context = to(CHAT)
    request = asked(user(), tools=(tool("look"),))
    assert names.shorten(request, context) is request
    assert context.tools == {"look": OriginalTool("look")}
    assert not context.receipt


def test_a_name_is_the_same_in_definition_choice_call_and_result() -> None:
    context = to(CHAT)
    request = asked(
        user(),
        calls("c", name="mcp.look up"),
        answered(result("c", name="mcp.look up")),
        tools=(tool("mcp.look up"),),
        tool_choice=ToolChoice(mode="required", names=("mcp.look up",)),
    )
    renamed = names.shorten(request, context)
    call, answer = renamed.messages[1].content[0], renamed.messages[2].content[0]
    assert isinstance(call, ToolCall)
    assert isinstance(answer, ToolResult)
    assert renamed.tool_choice is not None
    assert [*declared(renamed), call.name, answer.name, *renamed.tool_choice.names] == ["mcp_look_up"] * 4
    assert context.tools["mcp_look_up"] == OriginalTool("mcp.look up")
    assert lines(context) == ["note tools[0]"]


def test_long_names_that_begin_alike_stay_apart() -> None:
    stem = "search_" + "x" * 80
    renamed = declared(names.shorten(asked(user(), tools=(tool(f"{stem}_1"), tool(f"{stem}_2"))), to(CHAT)))
    assert len(set(renamed)) == 2
    assert all(len(name) == 64 and name.startswith("search_xxx") for name in renamed)


def test_names_that_are_equal_after_cleaning_stay_apart_and_the_legal_one_keeps_its_name() -> None:
    context = to(CHAT)
    renamed = declared(names.shorten(asked(user(), tools=(tool("a.b"), tool("a b"), tool("a_b"))), context))
    assert renamed[2] == "a_b"
    assert len(set(renamed)) == 3
    assert {context.tools[name].name for name in renamed} == {"a.b", "a b", "a_b"}


@pytest.mark.parametrize(
    ("name", "expected"), [("2fast", "_2fast"), ("größe", "gr__e"), ("dots.are:fine", "dots.are:fine")]
)
def test_gemini_names_start_with_a_letter_or_an_underscore(name: str, expected: str) -> None:
    assert declared(names.shorten(asked(user(), tools=(tool(name),)), to(GEMINI))) == [expected]


def test_a_namespace_is_flattened_and_restored() -> None:
    context = to(ANTHROPIC, source="openai_responses")
    call = ToolCall(id="c", name="look", namespace="mcp__wx")
    request = asked(
        user(),
        Message(role="assistant", content=(call,)),
        tools=(tool("look", namespace="mcp__wx"), tool("look")),
        tool_choice=ToolChoice(mode="required", names=("look",)),
    )
    renamed = names.shorten(request, context)
    assert declared(renamed) == ["mcp__wx__look", "look"]
    assert renamed.messages[1].content[0] == ToolCall(id="c", name="mcp__wx__look")
    assert renamed.tool_choice == ToolChoice(mode="required", names=("look",))
    assert context.tools["mcp__wx__look"] == OriginalTool("look", "mcp__wx")


def test_a_name_that_has_its_namespace_in_front_is_not_prefixed_again() -> None:
    request = asked(user(), tools=(tool("wx__look", namespace="wx"),))
    assert declared(names.shorten(request, to(CHAT))) == ["wx__look"]


def test_a_call_without_its_namespace_or_with_the_flat_name_means_the_same_tool() -> None:
    history = (calls("1", name="look"), calls("2", name="wx__look"))
    renamed = names.shorten(asked(user(), *history, tools=(tool("look", namespace="wx"),)), to(CHAT))
    assert [m.content[0].name for m in renamed.messages[1:] if isinstance(m.content[0], ToolCall)] == ["wx__look"] * 2


def test_namespaces_stay_where_the_target_has_them() -> None:
    request = asked(user(), tools=(tool("look", namespace="wx"), tool("look", namespace="db")))
    context = to(RESPONSES)
    assert names.shorten(request, context) is request
    assert context.tools == {}


def test_a_tool_that_only_the_history_knows_gets_a_legal_name_that_no_other_has() -> None:
    context = to(CHAT)
    request = asked(user(), calls("1", name="old tool"), calls("2", name="a_b"), tools=(tool("a.b"),))
    renamed = names.shorten(request, context)
    found = [m.content[0].name for m in renamed.messages[1:] if isinstance(m.content[0], ToolCall)]
    assert found[0] == "old_tool"
    assert re.fullmatch(r"a_b_[0-9a-f]{8}", found[1])
    assert context.tools["a_b"].name == "a.b"


def test_a_choice_of_a_tool_that_nobody_declared_is_renamed_at_its_own_place() -> None:
    context = to(CHAT)
    request = asked(user(), tool_choice=ToolChoice(mode="required", names=("a b",)))
    assert names.shorten(request, context).tool_choice == ToolChoice(mode="required", names=("a_b",))
    assert lines(context) == ["note tool_choice"]


def test_a_name_that_is_declared_twice_is_declared_once() -> None:
    context = to(ANTHROPIC)
    renamed = names.shorten(asked(user(), tools=(tool("look"), tool("look", description="another"))), context)
    assert declared(renamed) == ["look"]
    assert lines(context) == ["loss tools[1]"]


def test_a_kind_is_written_down() -> None:
    context = to(ANTHROPIC)
    names.shorten(asked(user(), tools=(Tool(name="patch", kind="custom"),)), context)
    assert context.tools["patch"] == OriginalTool("patch", None, "custom")


def test_a_second_run_keeps_what_was_written_down() -> None:
    context = to(ANTHROPIC)
    once = names.shorten(asked(user(), tools=(tool("look", namespace="wx"), tool("a b"))), context)
    remembered = dict(context.tools)
    assert names.shorten(once, context) is once
    assert context.tools == remembered
