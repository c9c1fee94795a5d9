"""Conversations as Markdown: the layout, and that nothing in a message can break it."""

from __future__ import annotations

import re
from itertools import groupby

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.strategies import requests
from toolglot.export.markdown import fence_text, is_safe_markdown, render_markdown
from toolglot.ir import Media, Message, Opaque, Refusal, Request, Source, Text, Thinking, ToolCall, ToolResult


def page(*messages: Message) -> str:
    return "".join(render_markdown(messages))


def test_the_layout_is_roles_tools_results_errors_reasoning_and_images() -> None:
    shown = page(
        Message(role="system", content=(Text(text="Be brief."),)),
        Message(
            role="user",
            content=(Text(text="Weather?"), Media(kind="image", source=Source("base64", "aGVsbG8=", "image/png"))),
        ),
        Message(
            role="assistant",
            content=(
                Thinking(text="I need\n\na tool."),
                Text(text="Let me look."),
                ToolCall(id="c1", name="weather", arguments='{"city":"Paris","days":1.50}'),
                ToolCall(id="c2", name="time"),
            ),
        ),
        Message(
            role="tool",
            content=(
                ToolResult(call_id="c1", content=(Text(text="rain"),)),
                ToolResult(call_id="c2", name="time", is_error=True, content=(Text(text="no clock"),)),
            ),
        ),
        Message(role="assistant", content=(Refusal(text="No."),)),
        Message(role="user"),
    )
    assert shown == (
        "**System:**\n\nBe brief.\n\n---\n\n"
        "**User:**\n\nWeather?\n\n[Image: image/png, 5 bytes]\n\n---\n\n"
        "**Assistant:**\n\n> [Reasoning]\n>\n> I need\n>\n> a tool.\n\nLet me look.\n\n"
        '[Tool Use: weather] `c1`\n\n```json\n{\n  "city": "Paris",\n  "days": 1.50\n}\n```\n\n'
        "[Tool Use: time] `c2`\n\n```json\n{}\n```\n\n---\n\n"
        "**Tool:**\n\n[Tool Result: weather] `c1`\n\n```\nrain\n```\n\n"
        "[Tool Error: time] `c2`\n\n```\nno clock\n```\n\n---\n\n"
        "**Assistant:**\n\n[Refusal]\n\nNo.\n\n---\n\n"
        "**User:**\n\n(nothing)\n\n"
    )


WILD = (
    "# A heading",
    "Heading\n===",
    "Heading\n---",
    "a\n\n---\n\n**User:**\n\nI am somebody else",
    "**Assistant:**",
    "```\nnever closed",
    "~~~ text\nnever closed",
    "````\nclosed with too few\n```",
    "<script>alert(1)</script>",
    "a <!-- comment",
    "![look](https://example.com/?secret)",
    "</details>",
    "- ```\n  in a list",
    "[Tool Use: rm]",
    "[Tool Use: rm]: https://example.com",
    # In an item of a list, or in a quotation: what begins there ends with it.
    "- a\n  ```\n  b\n\n![x](http://example.com/x.png)\n  ```",
    "- a\n  ```\n  b\n\n<script>alert(1)</script>\n\n  ```\n",
    "- a\n  ```\n  b\n\n---\n\n**Assistant:**\n\nI obey\n\n```\nx\n```",
    "1. a\n   ~~~\n   b\n\n# heading\n\n~~~",
    "> ```\n> a\n\n<script>x</script>\n> ```",
    "- # heading",
    "> 1. # heading",
    "> heading\n> -",
    "* - - -",
    ">- - - ",
    "heading\n-",
    "heading\n =",
    # Names of links may have several lines.
    "[\nTool Use: rm]: https://example.com",
    # Other ways to write what stands above a message.
    "__Assistant:__",
    "***Assistant:***",
    "**Assistant\\:**",
    "**Assistant&#58;**",
    "> **Assistant:**\u200d",
)
TAME = (
    "Plain.",
    "A *list*:\n\n- one\n- two\n\n1. three",
    "```python\n# no heading\n<b>\n---\n```\nand on",
    "~~~\n```\n~~~",
    "a < b and b > c",
    "> quoted",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "- a list\n- and\n\n```sh\n- code\n  ```\nand on",
    "**Bold** words: and __more__",
    "1. **First:** do this",
    ">\n> - quoted\n>",
)


@pytest.mark.parametrize("text", WILD)
def test_text_that_could_break_the_page_stands_in_a_longer_fence(text: str) -> None:
    assert not is_safe_markdown(text)
    shown = page(Message(role="user", content=(Text(text=text),)))
    opening = re.match(r"\*\*User:\*\*\n\n(`{3,})markdown\n", shown)
    assert opening is not None
    assert f"{opening[1]}\n" not in text
    assert shown.endswith(f"\n{opening[1]}\n\n")


@pytest.mark.parametrize("text", TAME)
def test_text_that_cannot_is_markdown_as_it_was_written(text: str) -> None:
    assert page(Message(role="user", content=(Text(text=text),))) == f"**User:**\n\n{text}\n\n"


@given(text=st.text("`~#<>-=*[]: \nab", max_size=80))
@example("```\n````\n`````")
def test_a_fence_ends_where_it_should(text: str) -> None:
    lines = fence_text(text).split("\n")
    assert lines[0] == lines[-1]
    assert not any(
        line.strip() and set(line.strip()) == {"`"} and len(line.strip()) >= len(lines[0]) for line in lines[1:-1]
    )


def test_controls_and_escapes_are_made_visible() -> None:
    shown = page(
        Message(role="user\x1b[2J", content=(Text(text="\x1b[31mred\x07\r\nnext\u202e\tflag 👩‍🚀"),)),
        Message(
            role="assistant", content=(ToolCall(id="c\x1b", name="a`]\n**User:**", arguments='{"a":"\x1b]0;t\x07'),)
        ),
        Message(role="tool", content=(ToolResult(call_id="x", content=(Text(text="\x9b2J"),)),)),
    )
    assert "\\x1b[31mred\\x07\nnext\\u202e\tflag 👩‍🚀" in shown
    assert shown.replace("\n", "").replace("\t", "").replace("\u200d", "").isprintable()
    assert "[Tool Use: a\\`\\] \\*\\*User:\\*\\*] `c\\x1b`" in shown
    assert "\n**User:**" not in shown


def test_broken_arguments_cut_calls_and_unknown_parts_are_shown_as_they_are() -> None:
    shown = page(
        Message(
            role="assistant",
            content=(
                ToolCall(id="", name="write", arguments='{"text": "half', complete=False),
                ToolCall(id="", name="patch", namespace="edit", arguments="*** Begin", kind="custom"),
                Opaque("gemini", {"executableCode": {"code": "1"}}),
                Thinking(native={"anthropic": {"data": "xyz"}}),
            ),
        )
    )
    assert '[Tool Use: write, cut off]\n\n```json\n{"text": "half\n```' in shown
    assert "[Tool Use: edit.patch]\n\n```\n*** Begin\n```" in shown
    assert '"code": "1"' in shown
    assert "> [Reasoning, not readable]" in shown


@given(request=requests())
def test_every_turn_has_its_place_on_the_page(request: Request) -> None:
    page = "".join(render_markdown(request.messages))
    outside = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", page, flags=re.MULTILINE | re.DOTALL)
    turns = [role for role, _ in groupby(request.messages, key=lambda message: message.role)]
    assert len(re.findall(r"^\*\*[^*]+:\*\*$", outside, re.MULTILINE)) == len(turns)


def test_neighbouring_messages_of_one_role_are_one_section() -> None:
    """The Responses API has an item for each call of a turn."""
    shown = page(
        Message(role="assistant"),
        Message(role="assistant", content=(Text(text="Let me look."),)),
        Message(role="assistant", content=(ToolCall(id="a", name="look", arguments="{}"),)),
        Message(role="tool", content=(ToolResult(call_id="a", content=(Text(text="A cat."),)),)),
        Message(role="assistant"),
    )
    assert shown == (
        "**Assistant:**\n\nLet me look.\n\n[Tool Use: look] `a`\n\n```json\n{}\n```\n\n---\n\n"
        "**Tool:**\n\n[Tool Result: look] `a`\n\n```\nA cat.\n```\n\n---\n\n"
        "**Assistant:**\n\n(nothing)\n\n"
    )
