"""The demo's models without native tools: what they read in a prompt, and how they write their calls."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from tests.exchanges import JSON_NAMES
from tests.upstream.demo.conversations import TIME, WEATHER
from toolglot.dialects import find
from toolglot.ir import Message, Request, Text, Tool, ToolCall, ToolResult, replace
from toolglot.receipt import Receipt
from toolglot.textcalls import FORMATS, parser
from toolglot.textcalls.prompts.render import PROMPTS, find_prompt, tool_instructions
from toolglot.textcalls.settings import TextCalls
from toolglot.translate import ExchangeCore
from toolglot.upstream.demo.models import demo_format
from toolglot.upstream.demo.prompt_tools import parse_prompt_tools
from toolglot.upstream.demo.stream import NO_PAUSES
from toolglot.upstream.demo.text_model import answer_as_text, read_text_request
from toolglot.upstream.demo.transport import DemoTransport
from toolglot.upstream.transport import UpstreamCall

EVERY_FORMAT = pytest.mark.parametrize("text_format", PROMPTS)
TOOLS = (WEATHER, TIME)


def asked(text: str, *, system: str = "", tools: tuple[Tool, ...] = ()) -> Request:
    said = (Message(role="system", content=(Text(text=system),)),) if system else ()
    return Request(model="demo-text", messages=(*said, Message(role="user", content=(Text(text=text),))), tools=tools)


def text_of(request: Request, text_format: str) -> str:
    response = answer_as_text(request, read_text_request(request, text_format), text_format)
    assert not any(isinstance(block, ToolCall) for block in response.content)
    assert response.usage is not None
    return "".join(block.text for block in response.content if isinstance(block, Text))


@EVERY_FORMAT
def test_the_tools_of_a_prompt_are_read_whatever_the_format(text_format: str) -> None:
    found = parse_prompt_tools("You are a helpful agent.\n\n" + tool_instructions(text_format, TOOLS))
    assert [tool.name for tool in found] == [tool.name for tool in TOOLS]
    for tool, original in zip(found, TOOLS, strict=True):
        assert set(tool.parameters["properties"]) == set(original.parameters["properties"])
        assert tool.parameters.get("required", []) == original.parameters.get("required", [])


HARD = Tool(
    name="Bash",
    description=(
        'Runs a command.\n\n## Notes\n- path (optional) is {"type": "string"}\n### Example\n'
        '{"name": "Other", "arguments": {}}\nname: value\n```json\n[1, 2]\n```\nParameters are below.'
    ),
    parameters={
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "What to run (see above)", "minLength": 1},
            "timeout": {"type": "number", "exclusiveMinimum": 0},
            "mode": {"type": "string", "enum": ["fast", "safe"]},
        },
        "required": ["command"],
    },
)


@EVERY_FORMAT
def test_a_description_may_look_like_a_list_of_tools(text_format: str) -> None:
    system = "# Rules\n\n## Style\nBe short: no more than a line.\n\n"
    found = parse_prompt_tools(system + tool_instructions(text_format, (HARD, WEATHER)))
    assert [tool.name for tool in found] == ["Bash", WEATHER.name]
    assert list(found[0].parameters["properties"]) == ["command", "timeout", "mode"]
    assert found[0].parameters["required"] == ["command"]


@EVERY_FORMAT
def test_calls_are_written_so_that_the_reader_of_the_format_finds_them(text_format: str) -> None:
    system = tool_instructions(text_format, TOOLS)
    written = text_of(asked("What is the weather in Paris and in Oslo?", system=system), text_format)
    schemas = [{"name": tool.name, "parameters": tool.parameters} for tool in TOOLS]
    reader = parser(text_format, schemas)
    events = [*reader.feed(written), *reader.finish()]
    arguments: dict[int, str] = {}
    for event in events:
        if event[0] == "args":
            arguments[event[1]] = arguments.get(event[1], "") + event[2]
    cities = [json.loads(text)["city"] for text in arguments.values()]
    assert cities == (["Paris", "Oslo"] if find_prompt(text_format).several else ["Paris"])
    assert sum(event[0] == "end" for event in events) == len(cities)


def test_native_tools_calls_and_results_are_ignored() -> None:
    request = asked("What is the weather in Paris?", tools=TOOLS)
    assert "Offer me tools" in text_of(request, "hermes_json")
    called = Message(role="assistant", content=(ToolCall(id="1", name="get_weather", arguments="{}"),))
    told = Message(role="tool", content=(ToolResult(call_id="1", content=(Text(text="sunny"),)),))
    later = replace(request, messages=(*request.messages, called, told))
    assert "sunny" not in text_of(later, "hermes_json")


@pytest.mark.parametrize("line", ["Do not call any tool; answer in text.", "You may make at most one call."])
def test_what_a_prompt_forbids_is_not_done(line: str) -> None:
    system = tool_instructions("hermes_json", TOOLS, None, parallel="most" not in line)
    written = text_of(asked(f"What is the weather in Paris and in Oslo?\n\n{line}", system=system), "hermes_json")
    assert written.count("<tool_call>") == (1 if "most" in line else 0)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("demo-text", "hermes_json"),
        ("demo-text-react", "react"),
        ("demo-text-qwen3-coder", "qwen3_coder"),
        ("DEMO-TEXT-CLINE_XML", "cline_xml"),
        ("demo-text-cline", "cline_xml"),
        ("demo-text-nothing-of-the-kind", "hermes_json"),
        ("demo", None),
        ("demo-texts", None),
    ],
)
def test_a_models_name_says_its_format(model: str, expected: str | None) -> None:
    assert demo_format(model) == expected


@pytest.mark.parametrize("dialect", JSON_NAMES)
@pytest.mark.parametrize(
    "text_format",
    ["hermes_json", "deepchat", "anthropic_xml", "cline_xml", "qwen3_coder", "markdown_json", "pythonic", "harmony"],
)
def test_a_whole_loop_runs_through_the_transport_in_every_dialect(dialect: str, text_format: str) -> None:
    assert text_format in FORMATS
    upstream = find(dialect)
    transport = DemoTransport(upstream, pace=NO_PAUSES)

    async def ask(request: Request) -> tuple[ToolCall, ...] | str:
        exchange = ExchangeCore("openai_chat", upstream, text_calls=TextCalls(format=text_format))
        body = upstream.encode_request(exchange.rewrite(request), Receipt())
        reply = await transport.send(UpstreamCall(method="POST", url=f"demo:{exchange.path}", headers={}, body=body))
        response = exchange.restore(upstream.decode_response(await reply.read(1 << 20)))
        calls = tuple(block for block in response.content if isinstance(block, ToolCall))
        assert response.stop.reason == ("tool_calls" if calls else "end")
        return calls or "".join(block.text for block in response.content if isinstance(block, Text))

    request = Request(
        model=f"demo-text-{text_format}",
        messages=(Message(role="user", content=(Text(text="What is the weather in Paris and in Oslo?"),)),),
        tools=TOOLS,
    )
    calls = asyncio.run(ask(request))
    assert isinstance(calls, tuple)
    assert len(calls) == (2 if find_prompt(text_format).several else 1)
    results = tuple(
        ToolResult(call_id=call.id, name=call.name, content=(Text(text=f"fog no. {at}"),))
        for at, call in enumerate(calls)
    )
    turns = (Message(role="assistant", content=calls), Message(role="tool", content=results))
    told = asyncio.run(ask(replace(request, messages=(*request.messages, *turns))))
    assert isinstance(told, str)
    assert all(f"fog no. {at}" in told for at in range(len(calls)))


def test_no_prompt_takes_long_to_read() -> None:
    hard = (
        "type a = (_: {\n" * 20_000,
        "declaration:a{" * 20_000,
        "## a\n" * 20_000,
        '{"a":' * 20_000,
        "TOOL_NAME: a\n" * 20_000,
        "a: b Parameters: {}" * 5_000,
        '<tool name="a" ' * 20_000,
        "[" * 100_000,
    )
    begun = time.process_time()
    for text in hard:
        parse_prompt_tools(text)
    assert time.process_time() - begun < 5.0
