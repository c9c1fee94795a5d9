"""Targets for the passes: what the four wires can express, and one with Mistral's call ids."""

from __future__ import annotations

from typing import Any

from toolglot.dialect import Capabilities
from toolglot.ir import Message, Request, Text, Tool, ToolCall, ToolResult, replace
from toolglot.passes import Context
from toolglot.receipt import Receipt

EVERY_FIELD = frozenset(
    {
        "tool_choice",
        "parallel_tool_calls",
        "max_output_tokens",
        "temperature",
        "top_p",
        "top_k",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "stop",
        "candidates",
        "response_format",
        "reasoning",
        "verbosity",
        "user",
        "metadata",
        "service_tier",
        "cache",
    }
)

CHAT = Capabilities(
    fields=EVERY_FIELD - {"top_k", "cache"},
    id_length=40,
    custom_tools=True,
    schema="any",
    strict_all_required=True,
    developer_role=True,
    media_in_user=frozenset({"image", "audio", "document"}),
    thinking="text",
    refusals=True,
    cache_lifetimes=(1800, 43200),
    cache_breakpoints=4,
    efforts=("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    max_stop_sequences=4,
)
RESPONSES = Capabilities(
    fields=EVERY_FIELD - {"top_k", "seed", "presence_penalty", "frequency_penalty", "stop", "candidates", "cache"},
    name_length=128,
    custom_tools=True,
    namespaces=True,
    deferred_tools=True,
    strict_all_required=True,
    needs_message=True,
    developer_role=True,
    calls_in_one_message=False,
    media_in_user=frozenset({"image", "document"}),
    media_in_result=frozenset({"image", "document"}),
    thinking="owned",
    refusals=True,
    citations=True,
    efforts=("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    min_output_tokens=16,
)
ANTHROPIC = Capabilities(
    fields=frozenset(
        {
            "tool_choice",
            "parallel_tool_calls",
            "max_output_tokens",
            "temperature",
            "top_p",
            "top_k",
            "stop",
            "response_format",
            "reasoning",
            "user",
            "cache",
        }
    ),
    name_length=128,
    tool_choices=frozenset({"auto", "none", "required", "named"}),
    allowed_modes=frozenset(),
    deferred_tools=True,
    arguments="object",
    system="leading",
    roles_alternate=True,
    results_role="user",
    starts_with_user=True,
    prefill=False,
    empty_text=False,
    media_in_user=frozenset({"image", "document"}),
    media_in_result=frozenset({"image", "document"}),
    source_kinds=frozenset({"base64", "url", "file", "text"}),
    image_types=frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"}),
    result_errors=True,
    citations=True,
    thinking="owned",
    cache_lifetimes=(300, 3600),
    cache_breakpoints=4,
    cache_on_parts_only=False,
    efforts=("low", "medium", "high", "max"),
    reasoning_budget=True,
    forced_choice_with_reasoning=False,
    response_formats=frozenset({"text", "json_schema"}),
    max_temperature=1.0,
    default_output_tokens=8192,
)
GEMINI = Capabilities(
    fields=EVERY_FIELD - {"parallel_tool_calls", "verbosity", "user", "metadata", "service_tier", "cache"},
    name_pattern=r"[A-Za-z0-9_.:-]+",
    name_start=r"[A-Za-z_]",
    name_length=128,
    ids_required=False,
    allowed_modes=frozenset({"required"}),
    strict_tools=False,
    schema="any",
    arguments="object",
    system="leading",
    roles_alternate=True,
    results_role="user",
    starts_with_user=True,
    empty_text=False,
    media_in_user=frozenset({"image", "audio", "video", "document"}),
    media_in_result=frozenset({"image"}),
    media_in_assistant=frozenset({"image"}),
    source_kinds=frozenset({"base64", "url"}),
    result_errors=True,
    thinking="owned",
    efforts=("minimal", "low", "medium", "high"),
    reasoning_budget=True,
)
MISTRAL = replace(CHAT, id_pattern=r"[A-Za-z0-9]+", id_length=9, custom_tools=False, prefill=False)
BUDGET_ONLY = replace(ANTHROPIC, efforts=())

TARGETS: dict[str, Capabilities] = {
    "openai_chat": CHAT,
    "openai_responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "mistral": MISTRAL,
}


def to(can: Capabilities, *, source: str = "elsewhere", target: str | None = None, **fields: Any) -> Context:
    """A context for a request that goes to this target."""
    name = target or next((name for name, other in TARGETS.items() if other == can), "target")
    return Context(source=source, target=name, can=can, receipt=Receipt(), **fields)


def again(context: Context) -> Context:
    """The same exchange with nothing remembered."""
    return Context(source=context.source, target=context.target, can=context.can, receipt=Receipt())


def asked(*messages: Message, **fields: Any) -> Request:
    return Request(model=fields.pop("model", "some-model"), messages=messages, **fields)


def user(text: str = "Hello") -> Message:
    return Message(role="user", content=(Text(text=text),))


def said(text: str) -> Message:
    return Message(role="assistant", content=(Text(text=text),))


def calls(*ids: str, name: str = "look", arguments: str = "{}") -> Message:
    return Message(role="assistant", content=tuple(ToolCall(id=i, name=name, arguments=arguments) for i in ids))


def result(call_id: str, text: str = "fine", **fields: Any) -> ToolResult:
    return ToolResult(call_id=call_id, content=(Text(text=text),) if text else (), **fields)


def answered(*results: ToolResult, role: str = "tool") -> Message:
    return Message(role=role, content=results)


def tool(name: str = "look", **fields: Any) -> Tool:
    return Tool(name=name, parameters=fields.pop("parameters", {"type": "object", "properties": {}}), **fields)


def texts(message: Message) -> list[str]:
    return [block.text for block in message.content if isinstance(block, Text)]


def lines(context: Context) -> list[str]:
    return [f"{line.severity} {line.where}" for line in context.receipt]
