"""The writing side of the text formats: tools, calls and results for a model that has no native tool calls."""

from toolglot.textcalls.prompts.records import Prompt, Result
from toolglot.textcalls.prompts.render import (
    PROMPTS,
    calls_described,
    calls_text,
    escaped,
    find_prompt,
    instructions,
    result_marks,
    results_text,
    stop_strings,
)

__all__ = [
    "PROMPTS",
    "Prompt",
    "Result",
    "calls_described",
    "calls_text",
    "escaped",
    "find_prompt",
    "instructions",
    "result_marks",
    "results_text",
    "stop_strings",
]
