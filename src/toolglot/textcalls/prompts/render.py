"""Write tools, calls and results as text for a model without native tool calls.

All functions are pure and give the same text for the same values, because prompt caches depend on that. Each call,
result and tool is written independently, so that a longer conversation only appends to the text of the shorter one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from toolglot.errors import MisuseError
from toolglot.ir import Tool, ToolCall, ToolChoice
from toolglot.textcalls.formats import find_format
from toolglot.textcalls.prompts.calls import write_calls, write_results
from toolglot.textcalls.prompts.escaping import break_marks
from toolglot.textcalls.prompts.json_formats import JSON_PROMPTS
from toolglot.textcalls.prompts.other_formats import OTHER_PROMPTS
from toolglot.textcalls.prompts.records import ArgumentsForm, Prompt, Result
from toolglot.textcalls.prompts.safe_tools import find_unwritable, safe_tools
from toolglot.textcalls.prompts.tagged_formats import TAGGED_PROMPTS
from toolglot.textcalls.prompts.tool_lists import write_tool_list
from toolglot.textcalls.unescape import Escapes

__all__ = [
    "PROMPTS",
    "calls_text",
    "escape_marks",
    "find_prompt",
    "result_marks",
    "results_text",
    "stop_strings",
    "tool_instructions",
    "unwritable_reason",
    "write_calls_with_notes",
]

PROMPTS: dict[str, Prompt] = {**JSON_PROMPTS, **TAGGED_PROMPTS, **OTHER_PROMPTS}

_HINTS: dict[ArgumentsForm, str] = {
    "json": "The arguments are one valid JSON object.",
    "tagged": "",
    "elements": "",
    "python": "",
    "braces": "",
}
_EXAMPLE_ARGUMENTS = '{"first": "some text", "second": 2}'
_EXAMPLE_RESULT = "what the tool returned"


def find_prompt(format_name: str) -> Prompt:
    """Return the record of a format, by its name or an alias.

    Raises:
        ValueError: there is no such format, or it is `auto`, which is only for reading.
    """
    text_format = find_format(format_name)
    if text_format.name not in PROMPTS:
        raise MisuseError(f"{format_name!r} can be read but not written: name one format")
    return PROMPTS[text_format.name]


def tool_instructions(
    format_name: str,
    tools: Sequence[Tool],
    choice: ToolChoice | None = None,
    parallel: bool | None = None,
    escapes: Escapes | None = None,
) -> str:
    """Return the text to add to the system prompt: the tools, the syntax of calls and results, and the tool choice. The
    choice, which changes between requests, comes last, so that the text before it stays the same. Empty without tools.
    Tool descriptions are untrusted, so their texts are escaped (`escape_marks`).
    """
    if not tools:
        return ""
    prompt = find_prompt(format_name)
    name = _example_name(tools)
    example, _ = write_calls(prompt, (_example_call(name),), 0)
    result = write_results(prompt.results, prompt.calls.ids, (_example_result(name),))
    hints = " ".join(hint for hint in (_HINTS[prompt.calls.body], prompt.hint) if hint)
    return "\n\n".join(
        part
        for part in (
            "# Tools",
            "You can call these tools:",
            write_tool_list(prompt.tools, safe_tools(prompt, tools, escapes), prompt.calls),
            "## How to call a tool",
            f"Write the call exactly in this form ({name} and its arguments are only an example):",
            example.strip("\n"),
            hints,
            *_several_example(prompt, name, parallel),
            "Then stop. The results come in the next message, in this form:",
            result.strip("\n"),
            "Never write a result yourself.",
            " ".join(part for part in (_count_hint(prompt, parallel), _choice_text(choice)) if part),
        )
        if part
    )


def _example_name(tools: Sequence[Tool]) -> str:
    """Return a name that no tool has."""
    taken = {tool.name for tool in tools}
    name = "example_tool"
    while name in taken:
        name += "_"
    return name


def _example_call(name: str, number: int = 1) -> ToolCall:
    return ToolCall(id=f"example0{number}", name=name, arguments=_EXAMPLE_ARGUMENTS)


def _example_result(name: str) -> Result:
    return Result(name=name, text=_EXAMPLE_RESULT, id=_example_call(name).id)


def _allows_several(prompt: Prompt, parallel: bool | None) -> bool:
    return parallel is not False and prompt.several


def _several_example(prompt: Prompt, name: str, parallel: bool | None) -> tuple[str, ...]:
    """Return an example of two calls in one answer, which in many formats are not simply concatenated."""
    if not _allows_several(prompt, parallel):
        return ()
    before, after = prompt.calls.before.strip(), prompt.calls.after.strip()
    if before.endswith("["):
        how = "all of them in one list"
    else:
        how = f"all of them between {before} and {after}" if before and after else "one after the other"
    example, _ = write_calls(prompt, (_example_call(name), _example_call(name, 2)), 0)
    may = f"You may make several calls in one answer when they do not depend on each other, {how}:"
    return may, example.strip("\n")


def _count_hint(prompt: Prompt, parallel: bool | None) -> str:
    return "" if _allows_several(prompt, parallel) else "Make at most one call in an answer."


def _choice_text(choice: ToolChoice | None) -> str:
    mode = choice.mode if choice else "auto"
    names = ", ".join(choice.names) if choice else ""
    if mode == "none":
        return "For now, do not call any tool: answer in words."
    if mode == "required" and choice and len(choice.names) == 1:
        return f"Your next answer must call the tool {names}, and no other."
    only = f" Of the tools, only these may be called now: {names}." if names else ""
    if mode == "required":
        return f"Your next answer must call a tool.{only}"
    return f"When no tool is needed, answer in words.{only}"


def calls_text(format_name: str, calls: Sequence[ToolCall], first_index: int = 0) -> str:
    """Write an answer's calls as the model itself would have written them. `first_index` is the number of earlier calls
    in the conversation, for formats that number calls."""
    return write_calls_with_notes(format_name, calls, first_index)[0]


def write_calls_with_notes(format_name: str, calls: Sequence[ToolCall], first_index: int = 0) -> tuple[str, list[str]]:
    """Write calls, and add a note for everything that the format cannot express or that may be misread."""
    return write_calls(find_prompt(format_name), calls, first_index)


def unwritable_reason(format_name: str, call: ToolCall, tools: Sequence[Tool] = ()) -> str:
    """Return the reason why a call in this format would be read as a different one; empty if it would not."""
    return find_unwritable(find_prompt(format_name), call, {tool.name: tool.parameters for tool in tools})


def results_text(
    format_name: str, results: Sequence[Result], tools: Sequence[Tool] = (), escapes: Escapes | None = None
) -> str:
    """Write the results of one turn so that the model can distinguish them. Texts, names and ids are escaped."""
    prompt = find_prompt(format_name)
    names = tuple(tool.name for tool in tools)

    def safe(text: str) -> str:
        return break_marks(prompt, text, names, escapes)

    return write_results(prompt.results, prompt.calls.ids, results, safe)


def escape_marks(
    format_name: str, text: str, tools: Sequence[Tool] = (), escapes: Escapes | None = None, *, again: bool = False
) -> str:
    """Break every mark of the format in the text of a user or a tool, so that it cannot be taken for a call or a
    result.

    A text without marks is returned unchanged. `escaping.py` explains how and why. Pass the `tools`: in some formats
    their names make a call. `escapes` records the broken marks, so that they can be restored in an answer. `again`: the
    text consists of escaped ones, and only marks that arose between them are broken.
    """
    return break_marks(find_prompt(format_name), text, tuple(tool.name for tool in tools), escapes, again=again)


def stop_strings(format_name: str) -> tuple[str, ...]:
    """Return texts at which the upstream may stop: results, which the model must not invent.

    Only formats with JSON arguments have any. All begin with a line break, which a JSON string never contains
    unescaped, so they never cut a call. A raw value between tags may contain anything.
    """
    return find_prompt(format_name).stops


def result_marks(format_name: str, tool_names: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the beginnings of results: a model that writes one after its own call has invented it. An ambiguous sign
    (a bracket) counts only with a tool's name after it. `auto` has no results.
    """
    prompt = PROMPTS.get(find_format(format_name).name)
    if prompt is None:
        return ()
    results = prompt.results
    templates = (results.before,) if len(results.before.strip()) > 1 else (results.result, results.error)
    return tuple(
        dict.fromkeys(mark for template in templates for mark in _result_openers(prompt, template, tool_names))
    )


def _result_openers(prompt: Prompt, template: str, tool_names: Sequence[str]) -> Iterator[str]:
    head, _, rest = template.strip().partition("$")
    calls = f"{prompt.calls.before}{prompt.calls.call}{prompt.calls.after}"
    marks = [mark for mark in prompt.results.marks if head.startswith(mark) and mark not in calls]
    if marks:
        yield from marks
    elif len(head.strip()) > 2:
        yield head.strip()
    elif rest.startswith("name"):
        behind = re.split(r"[$\n]", rest.removeprefix("name"))[0].rstrip()
        yield from (f"{head}{name}{behind}" for name in tool_names)
