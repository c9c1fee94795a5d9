"""What has been said: what models are told of it, and what is written to a file."""

from __future__ import annotations

import json

import pytest

from toolglot.chat.actions import as_html, as_lines, as_markdown, writer_for
from toolglot.chat.conversation import LOST, NO_TOOL, STOPPED, STOPPED_HERE, ChatConversation, complete_results
from toolglot.ir import Block, Message, Text, Thinking, ToolCall, ToolResult


def assistant(*blocks: Block | str) -> Message:
    return Message(
        role="assistant", content=tuple(Text(text=each) if isinstance(each, str) else each for each in blocks)
    )


def call(name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(id=f"id_{name}", name=name, arguments=arguments)


def result(name: str, text: str, *, is_error: bool = False) -> ToolResult:
    return ToolResult(call_id=f"id_{name}", name=name, content=(Text(text=text),), is_error=is_error)


def tool(*results: ToolResult) -> Message:
    return Message(role="tool", content=results)


def missing(name: str, why: str) -> ToolResult:
    return result(name, why, is_error=True)


SETTLED: dict[str, tuple[list[Message], list[ToolResult], str, str, list[Message]]] = {
    "a whole answer stays": ([assistant("a")], [], "", NO_TOOL, [assistant("a")]),
    "rounds stay": (
        [assistant(call("a")), tool(result("a", "1")), assistant("b")],
        [],
        "",
        NO_TOOL,
        [assistant(call("a")), tool(result("a", "1")), assistant("b")],
    ),
    "a tool that does not exist": (
        [assistant(call("x"))],
        [],
        "",
        NO_TOOL,
        [assistant(call("x")), tool(missing("x", NO_TOOL))],
    ),
    "one that does beside it": (
        [assistant(call("a"), call("x")), tool(result("a", "1"))],
        [],
        "",
        NO_TOOL,
        [assistant(call("a"), call("x")), tool(result("a", "1"), missing("x", NO_TOOL))],
    ),
    "calls that were stopped": (
        [assistant(call("a"), call("b"))],
        [result("a", "1")],
        "",
        STOPPED,
        [assistant(call("a"), call("b")), tool(result("a", "1"), missing("b", STOPPED)), assistant(STOPPED_HERE)],
    ),
    "a text that was stopped": ([], [], "Half a", STOPPED, [assistant("Half a")]),
    "a text that broke off behind results": (
        [assistant(call("a")), tool(result("a", "1"))],
        [result("a", "1")],
        "Half",
        LOST,
        [assistant(call("a")), tool(result("a", "1")), assistant("Half")],
    ),
    "nothing at all": ([], [], " ", STOPPED, []),
}


@pytest.mark.parametrize(("messages", "results", "rest", "why", "kept"), SETTLED.values(), ids=SETTLED)
def test_every_call_that_is_kept_has_a_result(
    messages: list[Message], results: list[ToolResult], rest: str, why: str, kept: list[Message]
) -> None:
    assert complete_results(messages, results, rest, why) == kept


def a_conversation() -> ChatConversation:
    conversation = ChatConversation("Be brief.")
    conversation.add_user_text("Roll a die.")
    conversation.add_answer(
        [
            assistant(Thinking(text="A die.\nYes."), call("example__roll", '{"count":1}')),
            tool(result("example__roll", "4")),
        ],
        "demo",
    )
    conversation.add_answer([assistant(Thinking(), "A four.")], "demo-gemini")
    conversation.add_user_text("Weigh it.")
    conversation.add_answer(
        [assistant(call("weigh", "{oops")), tool(result("weigh", "```broken```", is_error=True))], "demo"
    )
    conversation.add_failure("the upstream is overloaded", "demo")
    return conversation


def test_models_are_told_all_but_failures_with_the_system_text_first() -> None:
    request = a_conversation().request("other", effort="low")
    assert [message.role for message in request.messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
        "tool",
    ]
    assert (request.model, request.stream, request.reasoning and request.reasoning.effort) == ("other", True, "low")


def test_a_conversation_can_be_forgotten_but_for_its_system_text() -> None:
    conversation = a_conversation()
    conversation.clear()
    assert [message.role for message in conversation.messages] == ["system"]


def test_a_conversation_as_a_page_tells_who_said_what() -> None:
    page = as_markdown(a_conversation())
    places = [
        page.index(mark)
        for mark in (
            "**System:**\n\nBe brief.",
            "**User:**\n\nRoll a die.",
            "**Assistant (demo):**\n\n> [Reasoning]",
            "[Tool Use: example__roll]",
            "[Tool Result: example__roll]",
            "**Assistant (demo-gemini):**",
            "[Tool Error: weigh]",
            "````\n```broken```\n````",
            "**Error (demo):**\n\nthe upstream is overloaded",
        )
    ]
    assert places == sorted(places)
    html = as_html(a_conversation())
    assert "<h2>Assistant (demo-gemini)</h2>" in html


def test_a_conversation_as_lines_is_a_history_that_can_be_read_again() -> None:
    lines = [json.loads(line) for line in as_lines(a_conversation()).splitlines()]
    assert lines[0] == {"system": "Be brief."}
    assert [line["role"] for line in lines[1:]] == ["user", "assistant"] * 2 + ["user", "assistant", "user"]
    called = {"type": "tool_use", "id": "id_example__roll", "name": "example__roll", "input": {"count": 1}}
    assert lines[2]["content"] == [called]


@pytest.mark.parametrize(
    ("name", "form"), [("a.md", as_markdown), ("A.JSONL", as_lines), ("a.html", as_html), ("a.txt", None), ("md", None)]
)
def test_the_end_of_a_name_tells_the_form(name: str, form: object) -> None:
    assert writer_for(name) is form
