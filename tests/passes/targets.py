"""Targets for the passes: what the four wires can express, and one with Mistral's call ids."""

from __future__ import annotations

from typing import Any

from toolglot.capabilities import (
    CacheCapabilities,
    CallCapabilities,
    CallIdRules,
    Capabilities,
    MediaCapabilities,
    MessageCapabilities,
    ParameterCapabilities,
    ReasoningCapabilities,
    RequestLimits,
    ToolCapabilities,
    ToolNameRules,
    change_capabilities,
)
from toolglot.ir import Message, Request, Text, Tool, ToolCall, ToolResult
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
    parameters=ParameterCapabilities(fields=EVERY_FIELD - {"top_k", "cache"}),
    limits=RequestLimits(max_stop_sequences=4),
    ids=CallIdRules(max_length=40),
    tools=ToolCapabilities(
        custom=True,
        schema="any",
        strict_all_required=True,
    ),
    messages=MessageCapabilities(
        developer_role=True,
        refusals=True,
    ),
    media=MediaCapabilities(in_user=frozenset({"image", "audio", "document"})),
    cache=CacheCapabilities(
        lifetimes=(1800, 43200),
        breakpoints=4,
    ),
    reasoning=ReasoningCapabilities(
        in_history="text",
        efforts=("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    ),
)
RESPONSES = Capabilities(
    parameters=ParameterCapabilities(
        fields=EVERY_FIELD - {"top_k", "seed", "presence_penalty", "frequency_penalty", "stop", "candidates", "cache"}
    ),
    limits=RequestLimits(min_output_tokens=16),
    names=ToolNameRules(max_length=128),
    tools=ToolCapabilities(
        custom=True,
        namespaces=True,
        deferred=True,
        strict_all_required=True,
    ),
    calls=CallCapabilities(in_one_message=False),
    messages=MessageCapabilities(
        needs_message=True,
        developer_role=True,
        refusals=True,
        citations=True,
    ),
    media=MediaCapabilities(
        in_user=frozenset({"image", "document"}),
        in_result=frozenset({"image", "document"}),
    ),
    reasoning=ReasoningCapabilities(
        in_history="owned",
        efforts=("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    ),
)
ANTHROPIC = Capabilities(
    parameters=ParameterCapabilities(
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
        response_formats=frozenset({"text", "json_schema"}),
    ),
    limits=RequestLimits(
        max_temperature=1.0,
        default_output_tokens=8192,
    ),
    names=ToolNameRules(max_length=128),
    tools=ToolCapabilities(
        choices=frozenset({"auto", "none", "required", "named"}),
        allowed_modes=frozenset(),
        deferred=True,
    ),
    calls=CallCapabilities(
        arguments="object",
        results_role="user",
        result_errors=True,
    ),
    messages=MessageCapabilities(
        system="leading",
        roles_alternate=True,
        starts_with_user=True,
        prefill=False,
        empty_text=False,
        citations=True,
    ),
    media=MediaCapabilities(
        in_user=frozenset({"image", "document"}),
        in_result=frozenset({"image", "document"}),
        source_kinds=frozenset({"base64", "url", "file", "text"}),
        image_types=frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"}),
    ),
    cache=CacheCapabilities(
        lifetimes=(300, 3600),
        breakpoints=4,
        on_parts_only=False,
    ),
    reasoning=ReasoningCapabilities(
        in_history="owned",
        efforts=("low", "medium", "high", "max"),
        budget=True,
        with_forced_choice=False,
    ),
)
GEMINI = Capabilities(
    parameters=ParameterCapabilities(
        fields=EVERY_FIELD - {"parallel_tool_calls", "verbosity", "user", "metadata", "service_tier", "cache"}
    ),
    names=ToolNameRules(
        pattern=r"[A-Za-z0-9_.:-]+",
        start=r"[A-Za-z_]",
        max_length=128,
    ),
    ids=CallIdRules(required=False),
    tools=ToolCapabilities(
        allowed_modes=frozenset({"required"}),
        strict=False,
        schema="any",
    ),
    calls=CallCapabilities(
        arguments="object",
        results_role="user",
        result_errors=True,
    ),
    messages=MessageCapabilities(
        system="leading",
        roles_alternate=True,
        starts_with_user=True,
        empty_text=False,
    ),
    media=MediaCapabilities(
        in_user=frozenset({"image", "audio", "video", "document"}),
        in_result=frozenset({"image"}),
        in_assistant=frozenset({"image"}),
        source_kinds=frozenset({"base64", "url"}),
    ),
    reasoning=ReasoningCapabilities(
        in_history="owned",
        efforts=("minimal", "low", "medium", "high"),
        budget=True,
    ),
)
MISTRAL = change_capabilities(CHAT, id_pattern=r"[A-Za-z0-9]+", id_length=9, custom_tools=False, prefill=False)
BUDGET_ONLY = change_capabilities(ANTHROPIC, efforts=())

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
