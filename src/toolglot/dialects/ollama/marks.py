"""The members that identify documents of Ollama. Much of its JSON looks like Chat Completions."""

from __future__ import annotations

from toolglot.marks import Marks

MARKS = Marks(
    request=frozenset({"options", "think", "keep_alive", "prompt", "messages[].tool_name", "messages[].images"}),
    response=frozenset({"done", "done_reason", "eval_count", "prompt_eval_count"}),
    messages=frozenset({"[].tool_name", "[].images", "messages[].tool_name", "messages[].images"}),
    result=frozenset({"tool_name", "[].tool_name", "messages[].tool_name"}),
    error=frozenset(),
    stream=frozenset({"done"}),
    message=frozenset({"tool_name", "images", "thinking"}),
    body=frozenset({"options", "think", "keep_alive", "prompt"}),
    decisive=frozenset(
        {"tool_name", "messages[].tool_name", "tool_calls[].function.arguments{}", "done_reason", "prompt_eval_count"}
    ),
    shared={
        "request": frozenset({"messages[].role=system", "messages[].role=tool", "messages[].tool_calls"})
        | frozenset({"tools[].function", "messages[].tool_call_id"}),
        "tools": frozenset({"[].function", "tools[].function"}),
        "messages": frozenset(
            {"[].tool_calls", "[].tool_call_id", "[].role=tool"}
            | {"messages[].tool_calls", "messages[].tool_call_id", "messages[].role=tool"}
        ),
        "result": frozenset({"tool_call_id", "[].tool_call_id", "role=tool", "[].role=tool", "messages[].role=tool"}),
    },
)
