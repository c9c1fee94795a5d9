"""What the demo calls, with which arguments, and what it says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.upstream.demo.conversations import (
    AGENT_WISH,
    CLAUDE_CODE,
    CODEX,
    GEMINI_CLI,
    TIME,
    WEATHER,
    answered,
    asked,
    called,
    said,
    text_of,
    tool,
)
from toolglot.ir import (
    Media,
    Message,
    Reasoning,
    ResponseFormat,
    Source,
    Stop,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    replace,
)
from toolglot.upstream.demo.agent import answer


@pytest.mark.parametrize(
    ("wish", "calls"),
    [
        ("What is the weather in Paris?", [("get_weather", "Paris")]),
        ("weather in paris", [("get_weather", "paris")]),
        ("What is the weather in Paris and Oslo?", [("get_weather", "Paris"), ("get_weather", "Oslo")]),
        (
            "Compare the weather in Paris, New York, and Rome.",
            [("get_weather", "Paris"), ("get_weather", "New York"), ("get_weather", "Rome")],
        ),
        ("What's the weather in San Francisco, CA?", [("get_weather", "San Francisco, CA")]),
        ("What's the weather and the time in Paris?", [("get_weather", "Paris"), ("local_time", "Paris")]),
        (
            "Tell me the weather in Paris, and what time it is in Tokyo.",
            [("get_weather", "Paris"), ("local_time", "Tokyo")],
        ),
        ("Umbrella in Oslo?", [("get_weather", "Oslo")]),
        ("How late is it in Berlin?", [("local_time", "Berlin")]),
        ("What\u2019s the weather like in São Paulo today?", [("get_weather", "São Paulo")]),
        ("Call get_weather", [("get_weather", "Paris")]),
        ("Don't tell me the weather in Paris. What time is it in Rome?", [("local_time", "Rome")]),
    ],
)
def test_tools_are_called_that_the_wish_means(wish: str, calls: list[tuple[str, str]]) -> None:
    assert called(asked(wish, WEATHER, TIME)) == [(name, {"city": city}) for name, city in calls]


@pytest.mark.parametrize("wish", ["Hi!", "hello there", "Thanks!"])
def test_small_talk_is_answered_without_tools(wish: str) -> None:
    response = answer(asked(wish, WEATHER, TIME))
    assert response.stop == Stop("end")
    assert "get_weather and local_time" in text_of(response)


def test_with_few_tools_one_is_called_even_when_none_is_meant() -> None:
    assert called(asked("Surprise me", WEATHER, TIME)) == [("get_weather", {"city": "Paris"})]
    assert called(asked("Surprise me", tool("delete_everything"))) == []


def test_with_many_tools_none_is_called_unless_it_is_meant() -> None:
    assert called(asked("What do you think of this project?", *CLAUDE_CODE)) == []


def test_one_call_is_made_where_parallel_calls_are_unwanted() -> None:
    request = asked("The weather in Paris and Oslo", WEATHER, parallel_tool_calls=False)
    assert called(request) == [("get_weather", {"city": "Paris"})]


def test_calls_stop_for_their_results_and_have_different_ids() -> None:
    response = answer(asked("The weather in Paris and Oslo", WEATHER))
    ids = [block.id for block in response.content if isinstance(block, ToolCall)]
    assert response.stop == Stop("tool_calls")
    assert len(set(ids)) == 2


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (ToolChoice(mode="none"), []),
        (ToolChoice(mode="auto"), ["get_weather"]),
        (ToolChoice(mode="required"), ["get_weather"]),
        (ToolChoice(mode="required", names=("local_time",)), ["local_time"]),
        (ToolChoice(mode="auto", names=("local_time",)), ["local_time"]),
        (ToolChoice(mode="required", names=("no_such_tool",)), []),
    ],
)
def test_the_choice_of_tools_is_obeyed(choice: ToolChoice, names: list[str]) -> None:
    request = asked("What is the weather in Paris?", WEATHER, TIME, tool_choice=choice)
    assert [name for name, _ in called(request)] == names


def test_a_forced_tool_shapes_the_whole_wish_into_one_call() -> None:
    person = tool("Person", "A person.", name="string", age="integer")
    choice = ToolChoice(mode="required", names=("Person",))
    request = asked("Jason is 25 years old. He is a person and lives in Boston.", person, tool_choice=choice)
    assert called(request) == [("Person", {"name": "Jason", "age": 25})]


def test_a_demand_for_calls_is_met_with_each_tool_once_and_then_ends() -> None:
    request = asked("The weather in Paris", WEATHER, TIME, tool_choice=ToolChoice(mode="required"))
    assert [name for name, _ in called(request)] == ["get_weather"]
    request = answered(request)
    assert [name for name, _ in called(request)] == ["local_time"]
    assert called(answered(request)) == []


@pytest.mark.parametrize(
    ("wish", "rounds"),
    [
        (
            "The weather in Paris and Oslo, then the time in Rome",
            [[("get_weather", "Paris"), ("get_weather", "Oslo")], [("local_time", "Rome")]],
        ),
        (
            "What time is it in Rome? Then tell me the weather there.",
            [[("local_time", "Rome")], [("get_weather", "Rome")]],
        ),
        (
            "The weather in Paris and then in Oslo, then in Rome.",
            [[("get_weather", "Paris")], [("get_weather", "Oslo")], [("get_weather", "Rome")]],
        ),
        ("First think, then tell me the weather in Paris, then report.", [[("get_weather", "Paris")]]),
        ("What was the weather in Paris back then?", [[("get_weather", "Paris")]]),
    ],
)
def test_a_wish_that_says_then_is_fulfilled_step_by_step(wish: str, rounds: list[list[tuple[str, str]]]) -> None:
    request = asked(wish, WEATHER, TIME)
    for calls in rounds:
        assert called(request) == [(name, {"city": city}) for name, city in calls]
        request = answered(request)
    assert called(request) == []
    assert text_of(answer(request)).count("\n- ") == sum(map(len, rounds))


def test_deferred_tools_are_not_called() -> None:
    assert called(asked("The weather in Paris", replace(WEATHER, deferred=True))) == []


# Coding agents

ECHO = "echo 'hello from the demo upstream'"
SCRIPT = Tool(name="exec", kind="custom", namespace="functions", description="Runs raw JavaScript.")


@pytest.mark.parametrize(
    ("system", "tools", "calls"),
    [
        (
            "# Environment\n - Primary working directory: /home/me/project\n - Platform: linux",
            CLAUDE_CODE,
            [("Bash", {"command": ECHO}), ("Read", {"file_path": "/home/me/project/hello.txt"})],
        ),
        (
            "You are a coding agent.",
            CODEX,
            [("exec_command", {"cmd": ECHO}), ("exec_command", {"cmd": "cat hello.txt"})],
        ),
        (
            "",
            GEMINI_CLI,
            [("run_shell_command", {"command": ECHO}), ("read_file", {"file_path": "hello.txt"})],
        ),
        (
            "",
            (SCRIPT,),
            [
                (
                    "exec",
                    f'text(await tools.exec_command({{"cmd":"{ECHO}"}}))\n'
                    'text(await tools.exec_command({"cmd":"cat hello.txt"}))',
                )
            ],
        ),
        (
            "",
            (tool("shell", command={"type": "array", "items": {"type": "string"}}),),
            [("shell", {"command": ["bash", "-lc", ECHO]}), ("shell", {"command": ["bash", "-lc", "cat hello.txt"]})],
        ),
    ],
    ids=["Claude Code", "Codex", "Gemini CLI", "Codex with scripts", "a list of words"],
)
def test_coding_agents_get_the_calls_they_ask_for(system: str, tools: tuple[Tool, ...], calls: Any) -> None:
    assert called(asked(AGENT_WISH, *tools, before=(said(system, "system"),))) == calls


@pytest.mark.parametrize(
    ("wish", "command"),
    [
        ("Run `ls -la src`", "ls -la src"),
        ("Run the command 'echo foo bar'", "echo foo bar"),
        ("run pwd", "pwd"),
        ("Run `rm -rf /`", ECHO),
        ("Run rm -rf /srv/x", ECHO),
        ("Run `echo hi; rm x`", ECHO),
        ("Run `echo $(rm x)`", ECHO),
        ("Run `date -s 2001-01-01`", "date"),
        ("Run echo hi > hello.txt", ECHO),
        ("Run echo it's", "echo 'it'\"'\"'s'"),
    ],
)
def test_a_shell_is_asked_for_harmless_commands_only(wish: str, command: str) -> None:
    bash = tool("Bash", command="string")
    assert called(asked(wish, bash)) == [("Bash", {"command": command})]


def test_a_tool_that_changes_something_is_called_only_for_a_wish_with_its_verb() -> None:
    assert [name for name, _ in called(asked("What about hello.txt?", *CLAUDE_CODE))] == ["Read"]
    assert called(asked('Write "hi" to hello.txt', *CLAUDE_CODE)) == [
        ("Write", {"file_path": "hello.txt", "content": "hi"})
    ]
    assert called(asked("Please do not write hello.txt", *CLAUDE_CODE)) == []


def test_free_text_tools_get_text() -> None:
    note = Tool(name="note", kind="custom", description="Takes a note.")
    assert called(asked('Note "buy milk"', note)) == [("note", "buy milk")]


# Values


@pytest.mark.parametrize(
    ("wish", "schema", "value"),
    [
        ("weather, in fahrenheit", {"enum": ["celsius", "fahrenheit"]}, "fahrenheit"),
        ("weather", {"enum": ["celsius", "fahrenheit"]}, "celsius"),
        ("weather", {"enum": ["celsius", "kelvin"], "default": "kelvin"}, "kelvin"),
        ("weather for 5 days", {"type": "integer", "minimum": 1, "maximum": 3}, 3),
        ("weather for 2 days", {"type": "integer"}, 2),
        ("weather", {"type": "boolean"}, False),
        ("weather", {"type": ["string", "null"]}, None),
        ("weather", {"type": "string", "format": "date"}, "2025-01-01"),
        ("weather", {"type": "string", "default": "soon"}, "soon"),
    ],
)
def test_a_parameter_gets_what_the_wish_says_or_the_plainest_thing(wish: str, schema: Any, value: Any) -> None:
    assert called(asked(wish, tool("weather", detail=schema))) == [("weather", {"detail": value})]


def test_numbers_go_to_the_parameters_in_order() -> None:
    assert called(asked("add 2 and 3", tool("add", a="number", b="number"))) == [("add", {"a": 2, "b": 3})]


def test_an_optional_parameter_is_given_only_when_the_wish_has_it() -> None:
    schema = {"city": {"type": "string"}, "unit": {"enum": ["celsius", "kelvin"]}, "days": {"type": "integer"}}
    offered = Tool(name="weather", parameters={"type": "object", "properties": schema, "required": ["city"]})
    assert called(asked("weather in Rome", offered)) == [("weather", {"city": "Rome"})]
    assert called(asked("weather in Rome in kelvin", offered)) == [("weather", {"city": "Rome", "unit": "kelvin"})]


def test_a_list_gets_all_the_values() -> None:
    offered = tool("flights", cities={"type": "array", "items": {"type": "string"}})
    assert called(asked("flights from Oslo to Rome", offered)) == [("flights", {"cities": ["Oslo", "Rome"]})]


def test_a_tool_without_parameters_is_called_with_an_empty_object() -> None:
    assert called(asked("ping", Tool(name="ping"))) == [("ping", {})]


# Answers


def test_results_are_quoted_with_what_was_asked() -> None:
    request = asked("The weather in Paris and Oslo", WEATHER)
    calls = [block for block in answer(request).content if isinstance(block, ToolCall)]
    picture = Media(kind="image", source=Source(kind="base64", data="AAAA" * 400, media_type="image/png"))
    request = answered(
        request,
        ToolResult(call_id=calls[0].id, content=(Text(text="18 °C and sunny"), picture)),
        ToolResult(call_id=calls[1].id, content=(Text(text="no such city"),), is_error=True),
    )
    assert text_of(answer(request)) == (
        "Here is what the tools returned:\n\n"
        "- get_weather (Paris): 18 °C and sunny; an image (image/png, 1.2 KB)\n"
        "- get_weather (Oslo) failed: no such city"
    )


def test_results_without_ids_belong_to_the_calls_in_their_order() -> None:
    calls = tuple(ToolCall(id="", name="get_weather", arguments=f'{{"city":"{city}"}}') for city in ("Rome", "Oslo"))
    results = tuple(
        ToolResult(call_id="", name="get_weather", content=(Text(text=text),)) for text in ("sunny", "snow")
    )
    request = asked("The weather in Rome and Oslo", WEATHER)
    request = replace(
        request,
        messages=(
            *request.messages,
            Message(role="assistant", content=calls),
            Message(role="user", content=results),
        ),
    )
    assert text_of(answer(request)).endswith("- get_weather (Rome): sunny\n- get_weather (Oslo): snow")


def test_a_plain_answer_repeats_what_was_understood() -> None:
    assert "You said: “What is up?”" in text_of(answer(asked("What is up?")))


def test_a_picture_is_noticed() -> None:
    picture = Media(kind="image", source=Source(kind="url", data="https://example.com/cat.png"))
    request = asked("What is this?")
    message = replace(request.messages[0], content=(*request.messages[0].content, picture))
    assert "an image (https://example.com/cat.png)" in text_of(answer(replace(request, messages=(message,))))


def test_a_json_answer_keeps_to_its_schema() -> None:
    schema = {
        "type": "object",
        "properties": {"complexity_reasoning": {"type": "string"}, "complexity_score": {"type": "integer"}},
        "required": ["complexity_reasoning", "complexity_score"],
    }
    request = asked("Fix it", response_format=ResponseFormat(kind="json_schema", schema=schema))
    assert json.loads(text_of(answer(request))) == {"complexity_reasoning": "Fix it", "complexity_score": 1}
    assert "answer" in json.loads(text_of(answer(asked("Fix it", response_format=ResponseFormat(kind="json")))))


@pytest.mark.parametrize(
    ("reasoning", "thinks"),
    [
        (None, False),
        (Reasoning(mode="on"), True),
        (Reasoning(effort="high"), True),
        (Reasoning(effort="none"), False),
        (Reasoning(mode="off"), False),
        (Reasoning(mode="on", show=False), False),
    ],
)
def test_thinking_is_shown_where_it_is_asked_for(reasoning: Reasoning | None, thinks: bool) -> None:
    content = answer(asked("The weather in Paris", WEATHER, reasoning=reasoning)).content
    assert isinstance(content[0], Thinking) is thinks


def test_limits_and_stop_sequences_end_the_text() -> None:
    response = answer(asked("Hello", max_output_tokens=2))
    assert (text_of(response), response.stop) == ("You said", Stop("length"))
    response = answer(asked("Hello", stop=("“",)))
    assert (text_of(response), response.stop) == ("You said: ", Stop("stop_sequence", sequence="“"))


def test_the_same_request_gets_the_same_answer_and_usage_is_counted() -> None:
    request = asked("The weather in Paris", WEATHER)
    response = answer(request)
    assert response == answer(request)
    assert response.model == "demo"
    assert response.usage is not None
    assert response.usage.input_tokens is not None
    assert response.usage.output_tokens is not None
    assert response.usage.input_tokens > 10
    assert 5 < response.usage.output_tokens < 50  # get_weather{"city":"Paris"}, and what stands around a call
