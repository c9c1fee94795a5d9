"""Whose words are a wish, and that a wish leads to one round of calls."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.upstream.demo.conversations import (
    AGENT_WISH,
    CLAUDE_CODE,
    CODEX,
    TIME,
    WEATHER,
    answered,
    asked,
    calls_of,
    said,
)
from toolglot.ir import Message, Request, Text, Tool, replace
from toolglot.upstream.demo.agent import answer
from toolglot.upstream.demo.turn import read_turn, without_context

REMINDER = "<system-reminder>\nThe weather in Oslo is not your business.\n</system-reminder>"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Read it", "Read it"),
        (REMINDER, ""),
        (f"{REMINDER}\n\nRead it", "Read it"),
        ("<environment_context>\n  <cwd>/x</cwd>\n</environment_context>", ""),
        ("# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>\nBe kind.\n</INSTRUCTIONS>", ""),
        ("<task>\nRead it\n</task>\n<environment_details>\n# Files\n</environment_details>", "Read it"),
        ("<user_query>Read it</user_query>", "Read it"),
        ("<system-reminder> is a tag", "<system-reminder> is a tag"),
        ("Is 1 < 2 and <b>bold</b>?", "Is 1 < 2 and <b>bold</b>?"),
        ("# Title\nRead it", "# Title\nRead it"),
    ],
)
def test_context_that_agents_add_is_no_wish(text: str, left: str) -> None:
    assert without_context(text) == left


def test_many_tags_that_are_never_closed_cost_little() -> None:
    text = "<a-b><c-d>" * 20_000
    assert without_context(text) == text


def test_the_wish_is_the_last_text_of_the_user() -> None:
    content = (Text(text=REMINDER), Text(text="What time is it?"), Text(text=REMINDER))
    request = Request(
        model="demo", messages=(said("Hi"), said("Hello!", "assistant"), Message(role="user", content=content))
    )
    assert read_turn(request).wish == "What time is it?"


def test_reminders_in_messages_of_their_own_change_nothing() -> None:
    request = asked(AGENT_WISH, *CLAUDE_CODE)
    reminded = replace(
        request, messages=(said(REMINDER), *request.messages, said(REMINDER), said("Be brief.", "system"))
    )
    assert [call.name for call in calls_of(answer(reminded))] == ["Bash", "Read"]


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("<environment_context>\n  <cwd>/home/me/x</cwd>\n</environment_context>", "/home/me/x"),
        (" - Primary working directory: /home/me/x\n - more", "/home/me/x"),
        ("Working directory: /home/me/x.", "/home/me/x"),
        ("I'm currently working in the directory: /home/me/x", "/home/me/x"),
        ("- **Workspace Directories:**\n  - /home/me/x", "/home/me/x"),
        ("The working directory is `C:\\me\\x`", "C:\\me\\x"),
        ("The working directory is clean", None),
    ],
)
def test_the_working_directory_is_found_where_agents_write_it(text: str, folder: str | None) -> None:
    request = Request(model="demo", messages=(said(text, "system"), said("Hi")))
    assert read_turn(request).folder == folder


WISHES = st.sampled_from(
    [AGENT_WISH, "The weather in Paris and Oslo, and the time", "Go on", "Hi", "", "read a.txt; read b.txt"]
)
TOOLS = st.sampled_from([(WEATHER, TIME), CLAUDE_CODE, CODEX, ()])
ASIDES = st.lists(
    st.sampled_from([REMINDER, "Please continue.", "What is the weather in Rome?", AGENT_WISH]), max_size=2
)


@given(st.lists(WISHES, min_size=1, max_size=3), TOOLS, ASIDES, st.booleans())
def test_each_wish_leads_to_one_round_of_calls_at_most(
    wishes: list[str], tools: tuple[Tool, ...], asides: list[str], apart: bool
) -> None:
    request = Request(model="demo", tools=tools)
    for wish in wishes:
        request = replace(request, messages=(*request.messages, said(wish)))
        response = answer(request)
        if calls_of(response):
            if apart:
                request = answered(request)
                request = replace(request, messages=(*request.messages, *map(said, asides)))
            else:
                request = answered(request, beside=tuple(Text(text=aside) for aside in asides))
            response = answer(request)
        assert calls_of(response) == []
        request = replace(request, messages=(*request.messages, Message(role="assistant", content=response.content)))


def test_the_next_wish_gets_calls_again() -> None:
    request = answered(asked("The weather in Paris", WEATHER), "sunny")
    request = replace(
        request,
        messages=(*request.messages, Message(role="assistant", content=answer(request).content), said("And in Oslo?")),
    )
    assert [call.arguments for call in calls_of(answer(request))] == ['{"city":"Oslo"}']
