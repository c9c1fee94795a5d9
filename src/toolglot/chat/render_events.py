"""Render everything except answers: calls, results, tools, receipts. The output is styled lines of safe text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from toolglot.agent.policy import call_policy
from toolglot.agent.server_records import ServerState, ServerTool
from toolglot.chat.safe_text import make_safe, one_line, reveal_all
from toolglot.config.schema import McpServerConfig
from toolglot.ir import Block, Media, Text, ToolResult, Usage, format_tokens
from toolglot.receipt import ReceiptLine
from toolglot.tools.served import ServedCall

MAX_ARGUMENTS = 200
"""Maximum characters of arguments that need no approval."""
MAX_APPROVAL_ARGUMENTS = 4_000
"""Maximum characters of arguments to show at once for approval. Longer arguments are shown by their two ends."""
APPROVAL_TAIL = 1_000
RESULT_LINES = 8
RESULT_LINE = 160
MAX_RECEIPT = 100


class StyledLine(Struct, frozen=True):
    """One line, or a few, in one style."""

    text: str
    style: tuple[str, ...] = ()


def call_line(call: ServedCall) -> StyledLine:
    """Describe a call before it runs or needs approval."""
    arguments = _arguments(call)
    short = arguments if len(arguments) <= MAX_ARGUMENTS else f"{arguments[: MAX_ARGUMENTS - 1]}…"
    return StyledLine(f"▸ {_call_name(call)} {short}".rstrip(), ("bold",))


def approval_line(call: ServedCall) -> StyledLine:
    """Describe a call for approval: the whole call, or its beginning, its end and the omitted size."""
    arguments = _arguments(call)
    if len(arguments) > MAX_APPROVAL_ARGUMENTS:
        between = f"[… {len(arguments) - MAX_APPROVAL_ARGUMENTS} characters that are not shown yet …]"
        arguments = f"{arguments[: MAX_APPROVAL_ARGUMENTS - APPROVAL_TAIL]} {between} {arguments[-APPROVAL_TAIL:]}"
    return StyledLine(f"? {_call_name(call)} {arguments}".rstrip(), ("ask",))


def hidden_arguments_line(call: ServedCall) -> StyledLine | None:
    """Return the part that `approval_line` omits; None if it omits nothing."""
    arguments = _arguments(call)
    return (
        StyledLine(arguments[MAX_APPROVAL_ARGUMENTS - APPROVAL_TAIL : -APPROVAL_TAIL], ("ask",))
        if len(arguments) > MAX_APPROVAL_ARGUMENTS
        else None
    )


def approval_question(call: ServedCall, unseen: StyledLine | None = None) -> str:
    """Return the question. `unseen` is the part that must be shown before the call can be approved."""
    name = reveal_all(call.name)
    name = name if len(name) <= 60 else f"{name[:59]}…"
    if unseen is not None:
        return f"  Run {name}? show (the other {len(unseen.text)} characters, then decide) / no: "
    return f"  Run {name}? yes / no / always for this tool: "


_STRING_OR_SPACE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[ \t\r\n]+', re.DOTALL)


def _arguments(call: ServedCall) -> str:
    """Return all of the arguments, as the tool gets them. White space between the parts of JSON is normalized; strings
    stay unchanged, and nothing is left out.
    """
    return reveal_all(
        _STRING_OR_SPACE.sub(lambda found: found[0] if found[0][0] == '"' else " ", call.arguments)
    ).strip()


def _call_name(call: ServedCall) -> str:
    return f"{reveal_all(call.server)}: {reveal_all(call.name)}"


def progress_line(call: ServedCall, message: str) -> StyledLine:
    return StyledLine(f"  … {one_line(call.name)}: {one_line(message, RESULT_LINE)}", ("faint",))


def result_line(call: ServedCall, result: ToolResult) -> StyledLine:
    """Describe the end of a call: the first lines of its result."""
    lines = [one_line(line, RESULT_LINE) for block in result.content for line in _block_lines(block)]
    lines = list(filter(None, lines)) or ["(nothing)"]
    if len(lines) > RESULT_LINES:
        lines = [*lines[: RESULT_LINES - 1], f"… {len(lines) - RESULT_LINES + 1} more lines"]
    mark, style = ("✗", "error") if result.is_error else ("✓", "faint")
    head = f"  {mark} {one_line(call.name)}: {lines[0]}"
    return StyledLine("\n".join([head, *(f"    {line}" for line in lines[1:])]), (style,))


def _block_lines(block: Block) -> list[str]:
    match block:
        case Text(text=text):
            return make_safe(text[: 4 * RESULT_LINES * RESULT_LINE]).split("\n")
        case Media(kind=kind, source=source):
            return [f"[{kind}: {source.media_type or source.kind}]"]
    return ["[content for programs only]"]


def server_lines(
    states: Sequence[ServerState],
    configs: Mapping[str, McpServerConfig],
    tools: Mapping[str, Sequence[ServerTool]],
    always: Iterable[tuple[str, str]],
) -> list[StyledLine]:
    """Describe each server, its state, and its tools with their policies."""
    agreed = set(always)
    lines: list[StyledLine] = []
    for state in states:
        why = f": {one_line(state.why, RESULT_LINE)}" if state.why and state.state != "ready" else ""
        protocol = f", MCP {one_line(state.protocol)}" if state.protocol else ""
        lines.append(StyledLine(f"{state.name}: {state.state}{why}, {_count_tools(state.tools)}{protocol}", ("bold",)))
        known = tools[state.name]
        width = max((len(one_line(tool.name, 40)) for tool in known), default=0)
        for tool in known:
            policy = "always" if (tool.server, tool.name) in agreed else call_policy(configs[state.name], tool)
            told = one_line(tool.tool.description or "", 80)
            lines.append(StyledLine(f"  {one_line(tool.name, 40):<{width}}  {policy:<6}  {told}".rstrip()))
    return lines or [StyledLine("No MCP server is attached: use --mcp-config FILE or --example-tools.")]


def receipt_lines(lines: Sequence[ReceiptLine], exchanges: int) -> list[StyledLine]:
    """Describe the losses and changes of the exchanges of one answer."""
    if not exchanges:
        return [StyledLine("No request has been sent yet.")]
    if not lines:
        return [StyledLine("Nothing was lost, and nothing changed.")]
    losses = sum(line.severity == "loss" for line in lines)
    head = StyledLine(f"{losses} lost, {len(lines) - losses} changed in form:", ("bold",))
    shown = [
        StyledLine(f"  {one_line(str(line), 500)}", ("error",) if line.severity == "loss" else ()) for line in lines
    ]
    rest = [StyledLine(f"  … and {len(lines) - MAX_RECEIPT} more")] if len(lines) > MAX_RECEIPT else []
    return [head, *shown[:MAX_RECEIPT], *rest]


def end_line(model: str, usage: Usage | None, losses: int, calls: int, seconds: float) -> StyledLine:
    """Return the line below an answer."""
    words = [one_line(model)]
    words += [format_tokens(usage)] if usage is not None else []
    words += [f"{calls} call{'s' if calls > 1 else ''}"] if calls else []
    words.append(f"{seconds:.1f} s")
    words += [f"{losses} lost in translation: /receipt"] if losses else []
    return StyledLine(f"[{' · '.join(words)}]", ("faint",))


def _count_tools(tools: int) -> str:
    return f"{tools} tool{'' if tools == 1 else 's'}"
