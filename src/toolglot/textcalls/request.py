"""The request pass for models that write calls as text: tools, tool choice, calls and results become text.

The placement of each part suits prompt caches, which need a prefix that does not change:

- the tools follow the client's own text in the system prompt, and depend on the tools alone;
- instructions for one turn (a forced call, no call, an answer format) follow the last message;
- calls and results stay in place, and depend on nothing after them.

Everything that the user, a tool or the assistant wrote is escaped, so that none of it is read as a call or a result.
The same applies to untrusted text: file names, tool descriptions. The system prompt is the client's own and stays
unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolglot.capabilities import Capabilities, change_capabilities
from toolglot.ir import Cache, Message, Opaque, Request, Text, Tool, ToolCall, ToolChoice, ToolResult, replace
from toolglot.passes import Context, TextCallContext, custom, deferred, formats, history, ids, names
from toolglot.passes.blocks import blocks, leading
from toolglot.passes.choice import ANY_TOOL, NO_TOOLS
from toolglot.passes.foreign import find_lost_fields
from toolglot.passes.instructions import instruct
from toolglot.passes.parameters import with_one_candidate
from toolglot.passes.schema import wrap_parameters
from toolglot.textcalls import find_format
from toolglot.textcalls.prompts.render import escape_marks, stop_strings, tool_instructions
from toolglot.textcalls.render_turns import ESCAPED, TurnRenderer
from toolglot.textcalls.unescape import Escapes

NOT_ENFORCED = "nothing enforces it where calls are text; a line of text asks for it"
ONLY_VENDOR = "only its vendor runs this tool; a model cannot call it in text"

_EARLIER_PASSES = (ids.derive, history.repair, deferred.offer, names.shorten, custom.wrap)
"""Changes that the passes before this one have already made, unless they skip a dialect's own requests."""

_NAME_RULES = {"python": r"[A-Za-z0-9_]+"}
"""Characters of tool names by kind of body, if they differ from those that every API allows."""


def text_capabilities(can: Capabilities, format_name: str) -> Capabilities:
    """Return the target's capabilities when tools are text: any schema, long names, only functions."""
    bodies = {call.body for call in find_format(format_name).calls}
    pattern = next((_NAME_RULES[body] for body in bodies if body in _NAME_RULES), r"[A-Za-z0-9_-]+")
    return change_capabilities(
        can,
        name_pattern=pattern,
        name_start=r"[A-Za-z_]",
        name_length=128,
        custom_tools=False,
        namespaces=False,
        deferred_tools=False,
        schema="any",
        max_tools=None,
    )


def render(request: Request, context: Context) -> Request:
    """Return the request without tools, calls and results: all of them are written in the exchange's text format.
    `context.text.tools` gets the callable tools, for the parser of the answer."""
    text = context.text
    if text is None or text.calls is None:
        return request
    settings, text.client_messages = text.calls, request.messages
    if settings.rescue:
        if request.tools:
            text.tools = {tool.name: tool.parameters for tool in _function_tools(request)}
        return request
    if not _uses_tools(request):
        return _without_empty_tools(request)
    apart = _separate_context(context)
    if context.source == context.target:
        for earlier in _EARLIER_PASSES:
            request = earlier(request, apart)
    request = wrap_parameters(request, context)
    tools, choice = _offered_tools(request, context), request.tool_choice
    closed = choice is not None and choice.mode == "none"
    text.tools = {} if closed else {tool.name: tool.parameters for tool in tools}
    text.call_count = sum(isinstance(block, ToolCall) for block, _ in blocks(request))
    if text.tools:
        # A server that enforces an answer format could not let the model write a call.
        unbound = replace(apart, can=change_capabilities(apart.can, format_with_tools=False))
        request = _merge_turn_line(formats.fit(request, unbound, may_call=True), request)
    past, begun = _split_prefill(request.messages)
    text.is_in_reasoning = _ends_in_reasoning(begun, settings.format)
    text.escapes = Escapes()
    turns = TurnRenderer(settings.format, context.receipt, tools, text.escapes)
    request = replace(request, messages=(*turns.render(past), *begun))
    if tools:
        request = _with_tools(request, tools, settings.format, text.escapes, context)
        request = _with_choice(request, choice, apart, tools, settings.format)
    request = _without_empty_tools(replace(request, tools=(), tool_choice=None, parallel_tool_calls=None))
    if not text.tools:
        return request
    request = with_one_candidate(request, context.receipt, "calls as text are read in one answer")
    return _with_stops(request, text, settings.format, context.can)


def _uses_tools(request: Request) -> bool:
    return any(isinstance(tool, Tool) for tool in request.tools) or any(
        isinstance(block, (ToolCall, ToolResult)) for block, _ in blocks(request)
    )


def _without_empty_tools(request: Request) -> Request:
    """Remove the note that the tools were an empty list: a server that takes no tools may refuse that, too."""
    native = {
        owner: {key: kept for key, value in fields.items() if (kept := _without_tools(key, value)) is not None}
        for owner, fields in request.native.items()
    }
    return request if native == request.native else replace(request, native=native)


def _without_tools(key: str, value: object) -> object:
    """Return a note on a request; None if it only says that there are no tools."""
    if key == "$empty" and isinstance(value, dict):
        return {name: empty for name, empty in value.items() if name != "tools"} or None
    return None if key == "$no_tools" or (key == "$groups" and value == []) else value


def _merge_turn_line(told: Request, before: Request) -> Request:
    """Append a line for this turn to the text before it: many servers only accept a string."""
    if len(told.messages) != len(before.messages):
        return told
    for number, (new, old) in enumerate(zip(told.messages, before.messages, strict=True)):
        if new is not old and old.content and len(new.content) == len(old.content) + 1:
            *rest, said, line = new.content
            if isinstance(said, Text) and isinstance(line, Text) and said.cache is None and not said.citations:
                joined = replace(new, content=(*rest, replace(said, text=f"{said.text}\n\n{line.text}")))
                return replace(told, messages=(*told.messages[:number], joined, *told.messages[number + 1 :]))
    return told


def _split_prefill(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Split off the beginning of an answer, which the model continues and which stays unchanged."""
    last = messages[-1] if messages else None
    if last is None or last.role != "assistant" or any(isinstance(block, ToolCall) for block in last.content):
        return messages, ()
    return messages[:-1], (last,)


def _ends_in_reasoning(begun: Sequence[Message], format_name: str) -> bool:
    """Return whether the beginning of the answer ends inside its reasoning."""
    text = "".join(block.text for message in begun for block in message.content if isinstance(block, Text))
    return any(text.rfind(opener) > text.rfind(closer) for opener, closer in find_format(format_name).thinking)


def _separate_context(context: Context) -> Context:
    """Return the context for passes that skip a dialect's own requests: a text model has no dialect. Lines for one turn
    go into the user's message, because few templates of text models accept a later system message."""
    return replace(context, source="text", can=change_capabilities(context.can, system="leading"))


def _function_tools(request: Request) -> list[Tool]:
    """Return the tools that a leaked call can refer to unambiguously."""
    return [
        tool
        for tool in request.tools
        if isinstance(tool, Tool) and tool.kind == "function" and tool.namespace is None and not tool.deferred
    ]


def _offered_tools(request: Request, context: Context) -> tuple[Tool, ...]:
    """Return the tools to describe to the model, and note tools that cannot be described in the receipt."""
    offered: list[Tool] = []
    for index, tool in enumerate(request.tools):
        where = f"tools[{index}]"
        if isinstance(tool, Opaque):
            kind = tool.value.get("type") if isinstance(tool.value, dict) else None
            context.receipt.loss(where, str(kind or "tool"), ONLY_VENDOR)
            continue
        if tool.strict:
            context.receipt.loss(f"{where}.strict", f"strict tool {tool.name}", "nothing enforces a schema on text")
        for path, key in find_lost_fields(tool.native.get(context.target, {}), context.can.receipt, of_request=True):
            context.receipt.loss(f"{where}.{path}", key, "it has no form as text")
        offered.append(tool)
    return tuple(offered)


def _last_breakpoint(tools: Sequence[Tool]) -> Cache | None:
    """Return the last cache breakpoint on a tool, which now applies after all tools."""
    return next((tool.cache for tool in reversed(tools) if tool.cache is not None), None)


def _with_tools(
    request: Request, tools: Sequence[Tool], format_name: str, escapes: Escapes, context: Context
) -> Request:
    parallel = request.parallel_tool_calls is not False
    if not parallel:
        context.receipt.loss("parallel_tool_calls", "one call at a time", NOT_ENFORCED)
    count = "a tool" if len(tools) == 1 else f"{len(tools)} tools"
    context.receipt.note("tools", count, f"written as text, in the format {format_name}")
    before = escapes.count
    told = tool_instructions(format_name, tools, None, parallel, escapes)
    if escapes.count > before:
        context.receipt.note("tools", "texts of tools", ESCAPED)
    return _with_system(request, told, _last_breakpoint(tools))


def _with_system(request: Request, told: str, cache: Cache | None) -> Request:
    """Append the text to the system prompt, in one block with its end if nothing depends on the border."""
    first = leading(request.messages)
    messages = request.messages
    if not first:
        return replace(request, messages=(Message(role="system", content=(Text(text=told, cache=cache),)), *messages))
    last = messages[first - 1]
    *rest, end = last.content or (Text(text=""),)
    if isinstance(end, Text) and end.cache is None and not end.citations and end.text.strip():
        content = (*rest, replace(end, text=f"{end.text}\n\n{told}", cache=cache))
    else:
        content = (*last.content, Text(text=told, cache=cache))
    return replace(request, messages=(*messages[: first - 1], replace(last, content=content), *messages[first:]))


def _with_choice(
    request: Request, choice: ToolChoice | None, apart: Context, tools: Sequence[Tool], format_name: str
) -> Request:
    line = _choice_line(choice, apart)
    if choice is None or not line:
        return request
    line = escape_marks(format_name, line, tools)  # undeclared names stay as the client wrote them
    apart.receipt.loss("tool_choice", _LOST[choice.mode], NOT_ENFORCED)
    return _merge_turn_line(instruct(request, line, apart), request)


_LOST = {"none": "no tool", "required": "a forced call", "auto": "a choice among fewer tools", "opaque": ""}


def _choice_line(choice: ToolChoice | None, apart: Context) -> str:
    if choice is None:
        return ""
    listed = ", ".join(choice.names)
    match choice.mode:
        case "none":
            return NO_TOOLS
        case "required" if len(choice.names) == 1:
            return f"Respond with a call of the tool {listed}, not with text."
        case "required":
            return f"{ANY_TOOL} Call only these: {listed}." if listed else ANY_TOOL
        case "auto":
            return f"Of the tools, call only these: {listed}." if listed else ""
        case "opaque":
            apart.receipt.loss("tool_choice", "a choice of its own dialect", "it cannot be written as text")
    return ""


def _with_stops(request: Request, text: TextCallContext, format_name: str, can: Capabilities) -> Request:
    """Add stop sequences after the client's own: they stop a model that would write results itself."""
    if "stop" not in can.parameters.fields:
        return request
    most = can.limits.max_stop_sequences
    new = tuple(stop for stop in stop_strings(format_name) if stop not in request.stop)
    text.added_stops = new if most is None else new[: max(most - len(request.stop), 0)]
    return replace(request, stop=(*request.stop, *text.added_stops)) if text.added_stops else request
