"""The members that identify documents of Warp in its JSON form."""

from __future__ import annotations

from toolglot.marks import Marks

MARKS = Marks(
    message=frozenset({"input.user_inputs", "task_context"}),
    # Responses' input is a text or an array.
    body=frozenset({"input.user_inputs", "input{}", "mcp_context", "task_context"}),
    shared={
        "tools": frozenset({"[].input_schema", "tools[].input_schema"}),
        "result": frozenset({"[].role=tool", "[].tool_call_id", "messages[].role=tool", "role=tool", "tool_call_id"}),
    },
)
