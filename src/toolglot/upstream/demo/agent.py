"""The demo agent: it answers a request by rule, always in the same way. `__init__.py` lists the rules."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolglot.ir import Block, Request, Response, Stop, Text, Thinking, Tool, ToolCall, replace
from toolglot.passes.digest import digest
from toolglot.upstream.demo.fault_injection import without_fault_words
from toolglot.upstream.demo.hints import Hints, shell_command
from toolglot.upstream.demo.reply_text import answer_without_tools, reasoning_text, report_results
from toolglot.upstream.demo.schema_sample import sample_value
from toolglot.upstream.demo.tool_choice import FEW_TOOLS, SHELLS, Pick, choose_tools, first_harmless
from toolglot.upstream.demo.turn import DemoTurn, read_turn
from toolglot.upstream.demo.usage import estimate_usage
from toolglot.upstream.demo.wish import parse_clause, split_clauses, words_of
from toolglot.wire import json

_SMALL_TALK = re.compile(r"(?:hi|hello|hey|thanks?|thank you|good \w+|bye|ok(?:ay)?|yes|no)\b.{0,20}$", re.IGNORECASE)


def answer(request: Request) -> Response:
    """Return the answer to the last turn of this conversation."""
    turn = read_turn(request)
    turn = replace(turn, wish=without_fault_words(turn.wish))
    tools = _callable_tools(request)
    calls = _choose_calls(request, turn, tools)
    content: list[Block] = [Thinking(text=reasoning_text(turn, calls))] if _wants_thinking(request) else []
    stop = Stop("tool_calls" if calls else "end")
    if calls:
        content += calls
    else:
        text, stop = _apply_limits(_reply_text(request, turn, tools), request)
        content.append(Text(text=text))
    identity = digest(request.model, len(request.messages), *map(repr, content))
    response = Response(id=f"demo_{identity[:24]}", model=request.model, content=tuple(content), stop=stop)
    return replace(response, usage=estimate_usage(request, response))


# Tools


def _callable_tools(request: Request) -> list[Tool]:
    """Return the tools that may be called."""
    choice = request.tool_choice
    if choice and choice.mode == "none":
        return []
    tools = [tool for tool in request.tools if isinstance(tool, Tool) and not tool.deferred]
    return [tool for tool in tools if not choice or not choice.names or tool.name in choice.names]


def _choose_calls(request: Request, turn: DemoTurn, tools: list[Tool]) -> list[ToolCall]:
    choice = request.tool_choice
    demanded = choice is not None and choice.mode == "required"
    begun = bool(turn.calls or turn.results)
    if begun and demanded:
        done = {call.name for call in turn.calls} | {result.name for result in turn.results}
        tools = [tool for tool in tools if tool.name not in done]
    if not tools:
        return []
    picks = _picks_for_round(choose_tools(tools, split_clauses(turn.wish)), 0 if demanded else turn.rounds)
    if begun and not demanded and not turn.rounds:
        picks = []  # the results of the first round are still missing
    if not picks and (demanded or not begun) and (tool := _fallback_tool(turn, tools, demanded)):
        picks = [Pick(tool, parse_clause(turn.wish))]
    if demanded and choice and len(choice.names) == 1:
        # A single tool forced by `tool_choice` shapes the answer: it is called again only for a second item of the same
        # kind.
        picks = [pick for at, pick in enumerate(picks) if at == 0 or pick.clause.is_value]
    calls = _without_duplicates(_make_calls(picks, turn))
    calls = calls[:1] if request.parallel_tool_calls is False else calls
    return [replace(call, id=_call_id(request, at, call)) for at, call in enumerate(calls)]


def _picks_for_round(picks: Sequence[Pick], rounds: int) -> list[Pick]:
    """Return the calls after this many rounds: a wish that says "then" runs step by step."""
    steps = sorted({pick.clause.step for pick in picks})
    return [pick for pick in picks if steps[rounds:] and pick.clause.step == steps[rounds]]


def _fallback_tool(turn: DemoTurn, tools: list[Tool], demanded: bool) -> Tool | None:
    """Return the tool to call if the wish seems to mean none."""
    if demanded:
        return first_harmless(tools) or tools[0]
    if not turn.wish or len(tools) > FEW_TOOLS or _SMALL_TALK.match(turn.wish):
        return None
    return first_harmless(tools)


def _call_id(request: Request, at: int, call: ToolCall) -> str:
    return "call_" + digest(len(request.messages), at, call.name, call.arguments)[:24]


def _without_duplicates(calls: Sequence[ToolCall]) -> list[ToolCall]:
    return list({(call.namespace, call.name, call.arguments): call for call in calls}.values())


# Arguments


def _make_calls(picks: Sequence[Pick], turn: DemoTurn) -> list[ToolCall]:
    whole = parse_clause(turn.wish)
    calls: list[ToolCall] = []
    for pick in picks:
        tool = pick.tool
        if _is_script(tool):
            alike = [other for other in picks if other.tool is tool]
            written = _javascript([shell_command(other.clause, turn.folder) for other in alike])
            hints = Hints(clause=replace(whole, quoted=(written,)), wish=whole)
        else:
            hints = Hints(clause=pick.clause, wish=whole, folder=turn.folder)
        arguments = _make_free_text(tool, hints) if tool.kind == "custom" else _make_arguments(tool, hints)
        calls.append(
            ToolCall(id="", name=tool.name, arguments=arguments, kind=tool.kind, namespace=tool.namespace),
        )
    return calls


def _make_arguments(tool: Tool, hints: Hints) -> str:
    schema = tool.parameters
    if isinstance(schema, dict) and not schema.keys() & {"type", "$ref", "allOf", "anyOf", "oneOf"}:
        schema = {**schema, "type": "object"}
    arguments = sample_value(schema, hints) if isinstance(schema, dict) else {}
    return json.encode_text(arguments if isinstance(arguments, dict) else {})


def _make_free_text(tool: Tool, hints: Hints) -> str:
    is_shell = words_of(tool.name) & SHELLS and not _is_script(tool)
    return shell_command(hints.clause, hints.folder) if is_shell else hints.candidates("text")[0]


def _is_script(tool: Tool) -> bool:
    """Whether the tool is Codex's `exec`, which takes JavaScript in which its other tools are functions."""
    return "javascript" in (tool.description or "").lower() and bool(words_of(tool.name) & SHELLS)


def _javascript(commands: Sequence[str]) -> str:
    lines = (f"text(await tools.exec_command({json.encode_text({'cmd': command})}))" for command in commands)
    return "\n".join(dict.fromkeys(lines))


# Text


def _reply_text(request: Request, turn: DemoTurn, tools: Sequence[Tool]) -> str:
    said = report_results(turn) if turn.results else answer_without_tools(turn, tools)
    form = request.response_format
    if form is None or form.kind == "text":
        return said
    if form.kind == "json_schema" and form.schema is not None:
        return json.encode_text(sample_value(form.schema, Hints.of_text(said if turn.results else turn.wish)))
    return json.encode_text({"answer": said})


def _apply_limits(text: str, request: Request) -> tuple[str, Stop]:
    """Cut the text at a stop sequence or the output limit, and return why it ends."""
    stop = Stop("end")
    for sequence in request.stop:
        if sequence and (at := text.find(sequence)) >= 0:
            text, stop = text[:at], Stop("stop_sequence", sequence=sequence)
    limit = request.max_output_tokens
    if limit is not None and len(text) > 4 * limit:
        text, stop = text[: 4 * max(limit, 0)], Stop("length")
    return text, stop


def _wants_thinking(request: Request) -> bool:
    reasoning = request.reasoning
    if reasoning is None or reasoning.mode == "off" or reasoning.show is False:
        return False
    return bool(reasoning.mode or reasoning.show or (reasoning.effort and reasoning.effort != "none"))
