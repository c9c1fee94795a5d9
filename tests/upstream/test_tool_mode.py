"""How a model is given tools, and how it is noticed that it does not take them."""

from __future__ import annotations

import pytest

from toolglot.dialects import find
from toolglot.errors import ApiError, kind_of_status
from toolglot.ir import Message, Request, Text, Tool, ToolCall
from toolglot.routing import Target
from toolglot.textcalls.settings import TextCalls
from toolglot.upstream.demo.stream import NO_PAUSES
from toolglot.upstream.demo.transport import DemoTransport
from toolglot.upstream.tool_mode import KnownToolMode, refuses_tools, text_calls_for, uses_tools
from toolglot.upstream.upstream import Upstream

CHAT = find("openai_chat")
UPSTREAM = Upstream(
    name="up",
    dialect=CHAT,
    base_url="http://127.0.0.1:1/v1",
    transport=DemoTransport(CHAT, pace=NO_PAUSES),
    without_tools=("gemma-3*",),
)


def target(model: str = "qwen3-coder", **fields: object) -> Target:
    return Target(upstream="up", model=model, asked=model, rule="a test", **fields)  # type: ignore[arg-type]


CHOICES: list[tuple[Target, KnownToolMode | None, TextCalls | None]] = [
    (target(), None, None),
    (target(), "native", None),
    (target(), "text", TextCalls(format="qwen3_coder")),
    (target("unheard-of"), "text", TextCalls(format="hermes_json")),
    (target("gemma-3-27b-it"), None, TextCalls(format="markdown_json")),
    (target("gemma-3-27b-it"), "native", None),
    (target("gemma-3-27b-it", tools="native"), None, None),
    (target(tools="native"), "text", None),
    (target(tools="react", bad_calls="ask"), None, TextCalls(format="react", bad_calls="ask")),
    (target(tools="react"), "native", TextCalls(format="react")),
    (target(tools="hermes"), None, TextCalls(format="hermes_json")),
    (target(rescue="qwen"), None, TextCalls(format="hermes_json", rescue=True)),
    (target(rescue="auto"), None, TextCalls(format="auto", rescue=True)),
    (target(bad_calls="fail"), "text", TextCalls(format="qwen3_coder", bad_calls="fail")),
    (target(rescue=True), None, TextCalls(format="qwen3_coder", rescue=True)),
    (target(rescue="hermes_json"), None, TextCalls(format="hermes_json", rescue=True)),
    (target(rescue="hermes_json"), "text", TextCalls(format="qwen3_coder")),
    (target(tools="native", rescue=True), "text", TextCalls(format="qwen3_coder", rescue=True)),
    (target(tools="deepchat", rescue=True), None, TextCalls(format="deepchat")),
    (target("demo-text"), "text", TextCalls(format="hermes_json")),
    (target("demo-text-react"), "text", TextCalls(format="react")),
]


@pytest.mark.parametrize(("wanted", "known", "expected"), CHOICES)
def test_the_configuration_counts_then_what_was_found_out_then_native(
    wanted: Target, known: KnownToolMode | None, expected: TextCalls | None
) -> None:
    assert text_calls_for(UPSTREAM, wanted, known) == expected


REFUSALS = [
    # https://github.com/ollama/ollama/issues/6027
    (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
    (400, "stablelm2:latest does not support tools"),
    # https://github.com/ggml-org/llama.cpp, before it had --jinja by default
    (500, "tools param requires --jinja flag"),
    (500, "tools param is not fully supported yet"),
    # https://docs.vllm.ai/en/latest/features/tool_calling.html
    (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
    (404, "No endpoints found that support tool use. To learn more about provider routing, visit: https://…"),
    # https://github.com/sbintuitions/flexeval/pull/242
    (400, "tools is not supported in this model. For a list of supported models, refer to https://platform.openai.com"),
    (400, "`tools` is not supported with this model"),
    (400, "`tool calling` is not supported with this model"),
    (400, "Function calling is not enabled for models/gemma-3-27b-it"),
    (400, "This model doesn't support tool use."),
    (422, "The model does not support function calling"),
    (404, "Unrecognized request argument supplied: tools"),
    (503, "No connected provider supports tool calling for this model."),
    (400, "tools are not supported by this model"),
    # https://docs.pydantic.dev/latest/errors/validation_errors/#extra_forbidden
    (422, "Extra inputs are not permitted: tools"),
    (400, "body -> tools: Extra inputs are not permitted"),
    (400, "unknown field tools"),
    (400, 'json: unknown field "tools"'),
    (422, "unknown field `tools`, expected one of `model`, `messages`"),
]
OTHERS = [
    (400, "tool_choice is not supported"),
    (400, "This model does not support tool_choice 'required'"),
    (400, "Thinking mode does not support this tool_choice"),
    (400, "tools are not supported with response_format"),
    (400, "tools[0].function.strict: extra inputs are not permitted"),
    (400, "tools.0.custom.strict: Extra inputs are not permitted"),
    (400, "Extra inputs are not permitted: tools[0].function.strict"),
    (400, "unknown field tools[0].function.strict"),
    (400, "unknown field toolset"),
    (400, "Invalid schema for function 'f'"),
    (400, "tools: 200 of at most 128"),
    (401, "the key does not support tools"),
    (429, "does not support tools at this rate"),
    (400, "does not support toolsets of this kind"),
    (400, ""),
    (500, "Internal server error"),
    (400, "x" * 100_000),
    (400, "tools " * 20_000),
]


def error(status: int, message: str) -> ApiError:
    return ApiError(kind=kind_of_status(status), status=status, message=message)


@pytest.mark.parametrize(("status", "message"), REFUSALS)
def test_a_refusal_of_tools_is_recognised(status: int, message: str) -> None:
    assert refuses_tools(error(status, message))


@pytest.mark.parametrize(("status", "message"), OTHERS)
def test_no_other_error_is_taken_for_one(status: int, message: str) -> None:
    assert not refuses_tools(error(status, message))


def test_a_request_uses_tools_when_it_has_some_or_had_some() -> None:
    hello = Message(role="user", content=(Text(text="Hello"),))
    called = Message(role="assistant", content=(ToolCall(id="1", name="f", arguments="{}"),))
    assert not uses_tools(Request(model="m", messages=(hello,)))
    assert uses_tools(Request(model="m", messages=(hello,), tools=(Tool(name="f"),)))
    assert uses_tools(Request(model="m", messages=(hello, called, hello)))
