"""What is told beside the answers: calls, results, tools, receipts. Lines of styled pieces, made of safe text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from toolglot.agent.policy import call_policy
from toolglot.agent.server_records import ServerState, ServerTool
from toolglot.chat.safe import one_line, revealed, safe
from toolglot.config.schema import McpServerConfig
from toolglot.ir import Block, Media, Text, ToolResult, Usage, format_tokens
from toolglot.receipt import Loss
from toolglot.tools.served import ServedCall

SHORT = 200
"""Characters of arguments where they are merely told."""
WHOLE = 4_000
"""Characters of arguments that are shown at once to who is to agree to them; of longer ones, the two ends."""
TAIL = 1_000
RESULT_LINES = 8
RESULT_LINE = 160
MAX_RECEIPT = 100


class Line(Struct, frozen=True):
    """One line, or a few, in one style."""

    text: str
    style: tuple[str, ...] = ()


def called(call: ServedCall) -> Line:
    """A call that is about to be run, or asked about."""
    arguments = _arguments(call)
    short = arguments if len(arguments) <= SHORT else f"{arguments[: SHORT - 1]}…"
    return Line(f"▸ {_named(call)} {short}".rstrip(), ("bold",))


def wanted(call: ServedCall) -> Line:
    """What somebody should see who is to agree to a call: all of it, or its ends and how much stands between them."""
    arguments = _arguments(call)
    if len(arguments) > WHOLE:
        between = f"[… {len(arguments) - WHOLE} characters that are not shown yet …]"
        arguments = f"{arguments[: WHOLE - TAIL]} {between} {arguments[-TAIL:]}"
    return Line(f"? {_named(call)} {arguments}".rstrip(), ("ask",))


def rest(call: ServedCall) -> Line | None:
    """What `wanted` leaves out between the ends; None where it leaves nothing out."""
    arguments = _arguments(call)
    return Line(arguments[WHOLE - TAIL : -TAIL], ("ask",)) if len(arguments) > WHOLE else None


def question(call: ServedCall, unseen: Line | None = None) -> str:
    """`unseen`: what has to be shown before anybody can agree."""
    name = revealed(call.name)
    name = name if len(name) <= 60 else f"{name[:59]}…"
    if unseen is not None:
        return f"  Run {name}? show (the other {len(unseen.text)} characters, then decide) / no: "
    return f"  Run {name}? yes / no / always for this tool: "


_STRING_OR_SPACE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[ \t\r\n]+', re.DOTALL)


def _arguments(call: ServedCall) -> str:
    """All of the arguments, as they are run. Space between the parts of JSON means nothing; inside of strings it stays,
    and nothing there is left out."""
    return revealed(_STRING_OR_SPACE.sub(lambda found: found[0] if found[0][0] == '"' else " ", call.arguments)).strip()


def _named(call: ServedCall) -> str:
    return f"{revealed(call.server)}: {revealed(call.name)}"


def progressed(call: ServedCall, message: str) -> Line:
    return Line(f"  … {one_line(call.name)}: {one_line(message, RESULT_LINE)}", ("faint",))


def returned(call: ServedCall, result: ToolResult) -> Line:
    """How a call has ended: the first lines of its result."""
    lines = [one_line(line, RESULT_LINE) for block in result.content for line in _shown(block)]
    lines = list(filter(None, lines)) or ["(nothing)"]
    if len(lines) > RESULT_LINES:
        lines = [*lines[: RESULT_LINES - 1], f"… {len(lines) - RESULT_LINES + 1} more lines"]
    mark, style = ("✗", "error") if result.is_error else ("✓", "faint")
    head = f"  {mark} {one_line(call.name)}: {lines[0]}"
    return Line("\n".join([head, *(f"    {line}" for line in lines[1:])]), (style,))


def _shown(block: Block) -> list[str]:
    match block:
        case Text(text=text):
            return safe(text[: 4 * RESULT_LINES * RESULT_LINE]).split("\n")
        case Media(kind=kind, source=source):
            return [f"[{kind}: {source.media_type or source.kind}]"]
    return ["[something that only programs read]"]


def servers(
    states: Sequence[ServerState],
    configs: Mapping[str, McpServerConfig],
    tools: Mapping[str, Sequence[ServerTool]],
    always: Iterable[tuple[str, str]],
) -> list[Line]:
    """Each server, how it is, and its tools with their policies."""
    agreed = set(always)
    lines: list[Line] = []
    for state in states:
        why = f": {one_line(state.why, RESULT_LINE)}" if state.why and state.state != "ready" else ""
        protocol = f", MCP {one_line(state.protocol)}" if state.protocol else ""
        lines.append(Line(f"{state.name}: {state.state}{why}, {_counted(state.tools)}{protocol}", ("bold",)))
        known = tools[state.name]
        width = max((len(one_line(tool.name, 40)) for tool in known), default=0)
        for tool in known:
            policy = "always" if (tool.server, tool.name) in agreed else call_policy(configs[state.name], tool)
            told = one_line(tool.tool.description or "", 80)
            lines.append(Line(f"  {one_line(tool.name, 40):<{width}}  {policy:<6}  {told}".rstrip()))
    return lines or [Line("No MCP server is attached: --mcp-config FILE, or --example-tools, brings tools.")]


def receipt(lines: Sequence[Loss], exchanges: int) -> list[Line]:
    """What the exchanges of one answer lost or changed."""
    if not exchanges:
        return [Line("Nothing has been asked yet.")]
    if not lines:
        return [Line("Nothing was lost, and nothing changed.")]
    losses = sum(line.severity == "loss" for line in lines)
    head = Line(f"{losses} lost, {len(lines) - losses} changed in form:", ("bold",))
    shown = [Line(f"  {one_line(str(line), 500)}", ("error",) if line.severity == "loss" else ()) for line in lines]
    rest = [Line(f"  … and {len(lines) - MAX_RECEIPT} more")] if len(lines) > MAX_RECEIPT else []
    return [head, *shown[:MAX_RECEIPT], *rest]


def ended(model: str, usage: Usage | None, losses: int, calls: int, seconds: float) -> Line:
    """The line below an answer."""
    words = [one_line(model)]
    words += [format_tokens(usage)] if usage is not None else []
    words += [f"{calls} call{'s' if calls > 1 else ''}"] if calls else []
    words.append(f"{seconds:.1f} s")
    words += [f"{losses} lost in translation: /receipt"] if losses else []
    return Line(f"[{' · '.join(words)}]", ("faint",))


def _counted(tools: int) -> str:
    return f"{tools} tool{'' if tools == 1 else 's'}"
