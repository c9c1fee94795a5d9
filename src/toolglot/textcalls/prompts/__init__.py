"""Write tools, calls and results as text, for a model without native tool calls."""

from toolglot.textcalls.prompts.records import Prompt, Result
from toolglot.textcalls.prompts.render import (
    PROMPTS,
    calls_text,
    escape_marks,
    find_prompt,
    result_marks,
    results_text,
    stop_strings,
    tool_instructions,
    write_calls_with_notes,
)

__all__ = [
    "PROMPTS",
    "Prompt",
    "Result",
    "calls_text",
    "escape_marks",
    "find_prompt",
    "result_marks",
    "results_text",
    "stop_strings",
    "tool_instructions",
    "write_calls_with_notes",
]
