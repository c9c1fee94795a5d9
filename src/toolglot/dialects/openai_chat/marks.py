"""The members by which documents of Chat Completions are recognized."""

from __future__ import annotations

from toolglot.marks import Marks

MARKS = Marks(
    request=frozenset(
        {
            "functions",
            "max_completion_tokens",
            "messages[].content[].image_url",
            "messages[].function_call",
            "messages[].role=developer",
            "messages[].role=system",
            "messages[].role=tool",
            "messages[].tool_call_id",
            "messages[].tool_calls",
            "response_format",
            "stream_options",
            "tools[].function",
        }
    ),
    response=frozenset({"choices", "object=chat.completion"}),
    tools=frozenset({"[].function", "tools[].function"}),
    # System messages do not identify Chat: Responses and Anthropic's later models also have them in the history.
    messages=frozenset(
        {
            "[].content[].image_url.url",
            "[].function_call",
            "[].role=tool",
            "[].tool_call_id",
            "[].tool_calls",
            "messages[].content[].image_url",
            "messages[].function_call",
            "messages[].role=developer",
            "messages[].role=tool",
            "messages[].tool_call_id",
            "messages[].tool_calls",
        }
    ),
    result=frozenset({"[].role=tool", "[].tool_call_id", "messages[].role=tool", "role=tool", "tool_call_id"}),
    error=frozenset({"error.param"}),
    stream=frozenset({"choices", "object=chat.completion.chunk"}),
    message=frozenset(
        {
            "content[].type=file",
            "content[].type=image_url",
            "content[].type=input_audio",
            "function_call",
            "reasoning_content",
            "role=function",
            "role=tool",
            "tool_call_id",
            "tool_calls",
        }
    ),
    body=frozenset(
        {"functions", "max_completion_tokens", "n", "response_format", "stop", "stream_options", "tools[].function"}
    ),
)
