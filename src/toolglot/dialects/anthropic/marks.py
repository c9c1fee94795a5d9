"""The members that identify documents of Anthropic Messages."""

from __future__ import annotations

from toolglot.marks import Marks

MARKS = Marks(
    request=frozenset(
        {
            "messages[].content[].source",
            "messages[].content[].type=tool_result",
            "messages[].content[].type=tool_use",
            "stop_sequences",
            "system",
            "tools[].input_schema",
        }
    ),
    response=frozenset({"content[].type=tool_use", "stop_reason", "type=message"}),
    tools=frozenset({"[].input_schema", "tools[].input_schema"}),
    messages=frozenset(
        {
            "[].content[].source",
            "[].content[].type=tool_result",
            "[].content[].type=tool_use",
            "messages[].content[].source",
            "messages[].content[].type=tool_result",
            "messages[].content[].type=tool_use",
            "system",
        }
    ),
    result=frozenset(
        {
            "[].content[].type=tool_result",
            "[].type=tool_result",
            "content[].type=tool_result",
            "messages[].content[].type=tool_result",
            "type=tool_result",
        }
    ),
    error=frozenset({"type=error"}),
    stream=frozenset({"message.type=message", "type=message_start"}),
    message=frozenset(
        {
            "content[].cache_control",
            "content[].source",
            "content[].type=redacted_thinking",
            "content[].type=server_tool_use",
            "content[].type=thinking",
            "content[].type=tool_result",
            "content[].type=tool_use",
            "system",
        }
    ),
    body=frozenset(
        {"anthropic_beta", "anthropic_version", "stop_sequences", "system", "thinking", "tools[].input_schema"}
    ),
)
