"""Capabilities of Warp, and the models that it documents."""

from __future__ import annotations

from toolglot.capabilities import (
    CallCapabilities,
    CallIdRules,
    Capabilities,
    MediaCapabilities,
    MessageCapabilities,
    ParameterCapabilities,
    ReasoningCapabilities,
    ReceiptRules,
    ToolCapabilities,
    ToolNameRules,
)

CAPABILITIES = Capabilities(
    parameters=ParameterCapabilities(
        fields=frozenset({"parallel_tool_calls"}),
        response_formats=frozenset({"text"}),
    ),
    names=ToolNameRules(
        # Ids and names come back unchanged; no rule is published.
        pattern=r"[A-Za-z0-9_.-]+",
    ),
    ids=CallIdRules(
        pattern=r"[!-~]+",
        max_length=256,
    ),
    tools=ToolCapabilities(
        choices=frozenset({"auto"}),
        strict=False,
        schema="object",
    ),
    calls=CallCapabilities(
        arguments="object",
        broken="shown",
        result_errors=True,
    ),
    messages=MessageCapabilities(
        system="leading",
        needs_message=True,
        prefill=False,
    ),
    media=MediaCapabilities(
        in_result=frozenset({"image"}),
        source_kinds=frozenset({"base64"}),
    ),
    reasoning=ReasoningCapabilities(in_history="text"),
    receipt=ReceiptRules(
        containers=frozenset(
            {"input", "user_query", "tool_call", "tool_call_result", "call_mcp_tool", "mcp_context", "success"}
        ),
        cosmetic={
            **dict.fromkeys(("id", "task_id", "request_id", "server_id"), "it names something in Warp's own store"),
            **dict.fromkeys(("timestamp", "server_message_data", "metadata"), "only Warp's server reads it"),
            **dict.fromkeys(("init", "finished"), "the beginning and the end of a stream, which each API has"),
            **dict.fromkeys(("settings", "intended_agent", "mode"), "what Warp's client itself can do"),
            "unknown": "the list of unknown fields names each of them",
            **dict.fromkeys(("history", "tasks", "covered"), "how a history is sent to Warp"),
        },
    ),
)

MODEL_IDS = (
    "auto",
    "auto-efficient",
    "auto-genius",
    "auto-open",
    *(
        f"gpt-{version}-{effort}"
        for version in ("5-5", "5-4", "5-3-codex", "5-2-codex", "5-2")
        for effort in ("low", "medium", "high", "xhigh")
    ),
    "claude-4-7-opus-high",
    "claude-4-7-opus-xhigh",
    "claude-4-7-opus-max",
    "claude-4-6-opus-high",
    "claude-4-6-opus-max",
    "claude-4-6-sonnet-high",
    "claude-4-6-sonnet-max",
    "claude-4-5-opus",
    "claude-4-5-opus-thinking",
    "claude-4-5-sonnet",
    "claude-4-5-sonnet-thinking",
    "claude-4-5-haiku",
    "gemini-3.1-pro",
    "glm-5-fireworks",
    "glm-5.1-fireworks",
    "kimi-k25-fireworks",
    "kimi-k26-fireworks",
    "minimax-2.7-fireworks",
    "qwen-3.6-plus-fireworks",
)
"""The ids that Warp documented in May 2026: the default list of models. Other ids are passed on unchanged."""
