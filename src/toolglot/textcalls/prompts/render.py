"""A format's writing side: everything that a model without native tool calls is told about tools, as text.

All functions are pure and give the same text for the same values: prompt caches live on that. Each call, result and
tool is written alone, so that a longer conversation only adds to the text of the shorter one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from toolglot.ir import Tool, ToolCall, ToolChoice
from toolglot.textcalls.escapes import Escapes
from toolglot.textcalls.formats import find_format
from toolglot.textcalls.prompts import reading_back
from toolglot.textcalls.prompts.calls import written_calls, written_results
from toolglot.textcalls.prompts.escaping import without_marks
from toolglot.textcalls.prompts.json_formats import JSON_PROMPTS
from toolglot.textcalls.prompts.other_formats import OTHER_PROMPTS
from toolglot.textcalls.prompts.records import Body, Prompt, Result
from toolglot.textcalls.prompts.safe_tools import safe_tools
from toolglot.textcalls.prompts.tagged_formats import TAGGED_PROMPTS
from toolglot.textcalls.prompts.tool_lists import listed

__all__ = [
    "PROMPTS",
    "calls_described",
    "calls_text",
    "escaped",
    "find_prompt",
    "instructions",
    "result_marks",
    "results_text",
    "stop_strings",
    "unwritable",
]

PROMPTS: dict[str, Prompt] = {**JSON_PROMPTS, **TAGGED_PROMPTS, **OTHER_PROMPTS}

_HINTS: dict[Body, str] = {
    "json": "The arguments are one valid JSON object.",
    "tagged": "",
    "elements": "",
    "python": "",
    "braces": "",
}
_EXAMPLE_ARGUMENTS = '{"first": "some text", "second": 2}'
_EXAMPLE_RESULT = "what the tool returned"


def find_prompt(format_name: str) -> Prompt:
    """The record of a format, by its name or one of its aliases.

    Raises:
        ValueError: there is no such format, or it is `auto`, which is only for reading.
    """
    text_format = find_format(format_name)
    if text_format.name not in PROMPTS:
        raise ValueError(f"{format_name!r} can be read but not written: name one format")
    return PROMPTS[text_format.name]


def instructions(
    format_name: str,
    tools: Sequence[Tool],
    choice: ToolChoice | None = None,
    parallel: bool | None = None,
    escapes: Escapes | None = None,
) -> str:
    """What is added to the system prompt: the tools, how to call them, what results look like, and what is wanted.

    What changes from one request to the next (the choice) comes last, so that the text before it stays the same.
    Without tools there is nothing to tell. Whoever describes a tool may be a stranger: its texts are `escaped`.
    """
    if not tools:
        return ""
    prompt = find_prompt(format_name)
    name = _example_name(tools)
    example, _ = written_calls(prompt, (_example_call(name),), 0)
    result = written_results(prompt.results, prompt.calls.ids, (_example_result(name),))
    hints = " ".join(hint for hint in (_HINTS[prompt.calls.body], prompt.hint) if hint)
    return "\n\n".join(
        part
        for part in (
            "# Tools",
            "You can call these tools:",
            listed(prompt.tools, safe_tools(prompt, tools, escapes), prompt.calls),
            "## How to call a tool",
            f"Write the call exactly in this form ({name} and its arguments are only an example):",
            example.strip("\n"),
            hints,
            *_several(prompt, name, parallel),
            "Then stop. The results come in the next message, in this form:",
            result.strip("\n"),
            "Never write a result yourself.",
            " ".join(part for part in (_count(prompt, parallel), _choice(choice)) if part),
        )
        if part
    )


def _example_name(tools: Sequence[Tool]) -> str:
    """A name that no tool has."""
    taken = {tool.name for tool in tools}
    name = "example_tool"
    while name in taken:
        name += "_"
    return name


def _example_call(name: str, number: int = 1) -> ToolCall:
    return ToolCall(id=f"example0{number}", name=name, arguments=_EXAMPLE_ARGUMENTS)


def _example_result(name: str) -> Result:
    return Result(name=name, text=_EXAMPLE_RESULT, id=_example_call(name).id)


def _is_several(prompt: Prompt, parallel: bool | None) -> bool:
    return parallel is not False and prompt.several


def _several(prompt: Prompt, name: str, parallel: bool | None) -> tuple[str, ...]:
    """Two calls in one answer, which in many formats are more than one behind the other."""
    if not _is_several(prompt, parallel):
        return ()
    before, after = prompt.calls.before.strip(), prompt.calls.after.strip()
    if before.endswith("["):
        how = "all of them in one list"
    else:
        how = f"all of them between {before} and {after}" if before and after else "one after the other"
    example, _ = written_calls(prompt, (_example_call(name), _example_call(name, 2)), 0)
    may = f"You may make several calls in one answer when they do not depend on each other, {how}:"
    return may, example.strip("\n")


def _count(prompt: Prompt, parallel: bool | None) -> str:
    return "" if _is_several(prompt, parallel) else "Make at most one call in an answer."


def _choice(choice: ToolChoice | None) -> str:
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
    """An answer's calls as the model itself would have written them.

    `first_index` is the number of calls in the conversation before this answer, for formats whose ids count them.
    """
    return calls_described(format_name, calls, first_index)[0]


def calls_described(format_name: str, calls: Sequence[ToolCall], first_index: int = 0) -> tuple[str, list[str]]:
    """The same, with a note for everything that the format cannot hold or that may be misread in it."""
    return written_calls(find_prompt(format_name), calls, first_index)


def unwritable(format_name: str, call: ToolCall, tools: Sequence[Tool] = ()) -> str:
    """Why a call cannot be written in the format without being read as another one; empty if it can."""
    return reading_back.unwritable(find_prompt(format_name), call, {tool.name: tool.parameters for tool in tools})


def results_text(
    format_name: str, results: Sequence[Result], tools: Sequence[Tool] = (), escapes: Escapes | None = None
) -> str:
    """The results of one turn, in a form that the model can tell apart. Texts, names and ids are `escaped`."""
    prompt = find_prompt(format_name)
    names = tuple(tool.name for tool in tools)

    def safe(text: str) -> str:
        return without_marks(prompt, text, names, escapes)

    return written_results(prompt.results, prompt.calls.ids, results, safe)


def escaped(
    format_name: str, text: str, tools: Sequence[Tool] = (), escapes: Escapes | None = None, *, again: bool = False
) -> str:
    """The text of a user or a tool with every mark of the format broken, so that it cannot pass for a call or a result.

    A text without marks comes back as it is. See `escaping.py` for how and why. Give the `tools`: in some formats it is
    their names that make a call. `escapes` learns what was broken, so that it can be put back into an answer. `again`:
    the text consists of escaped ones, and only marks that came about between them are broken.
    """
    return without_marks(find_prompt(format_name), text, tuple(tool.name for tool in tools), escapes, again=again)


def stop_strings(format_name: str) -> tuple[str, ...]:
    """Texts at which the upstream may stop: results, which the model must not make up.

    Only formats with JSON arguments have any, and all begin with a line break, which no JSON string contains as it is:
    so they never cut a call. A value that stands between tags as it is may contain anything.
    """
    return find_prompt(format_name).stops


def result_marks(format_name: str, tool_names: Sequence[str] = ()) -> tuple[str, ...]:
    """How results begin: behind a call of its own, a model that writes one has made it up.

    What is no sure sign (a bracket) is none without the name of a tool behind it. `auto` knows no results.
    """
    prompt = PROMPTS.get(find_format(format_name).name)
    if prompt is None:
        return ()
    results = prompt.results
    templates = (results.before,) if len(results.before.strip()) > 1 else (results.result, results.error)
    return tuple(dict.fromkeys(mark for template in templates for mark in _openers(prompt, template, tool_names)))


def _openers(prompt: Prompt, template: str, tool_names: Sequence[str]) -> Iterator[str]:
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
