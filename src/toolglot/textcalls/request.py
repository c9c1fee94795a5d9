"""The request pass for models that write their calls as text: tools, choice, calls and results become prose.

Where each part stands is chosen for prompt caches, which live on a prefix that does not change:

- the tools stand in the system prompt behind the client's own text, and depend on the tools alone;
- what is wished for one turn only (a forced call, no call, a format of the answer) stands behind what was said last;
- calls and results stand where they stood, and depend on nothing behind them.

Whatever the user, a tool or the assistant is said to have written is escaped, so that none of it reads as a call or as
a result; so is what strangers may have written: names of files, descriptions of tools. The system's text is the
client's own and stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolglot.dialect import Capabilities
from toolglot.ir import Cache, Message, Opaque, Request, Text, Tool, ToolCall, ToolChoice, ToolResult, replace
from toolglot.passes import Context, custom, deferred, formats, history, ids, names
from toolglot.passes.blocks import blocks, leading
from toolglot.passes.choice import ANY_TOOL, NO_TOOLS
from toolglot.passes.foreign import missed
from toolglot.passes.instructions import instruct
from toolglot.textcalls import find_format
from toolglot.textcalls.escapes import Escapes
from toolglot.textcalls.prompts.render import escaped, instructions, stop_strings
from toolglot.textcalls.turns import ESCAPED, Turns

ENFORCED_BY_NOBODY = "nothing enforces it where calls are text; a line of text asks for it"

_BEFORE = (ids.derive, history.repair, deferred.offer, names.shorten, custom.wrap)
"""What the passes before this one have done already, unless they leave a dialect's own requests alone."""

_NAMES = {"python": r"[A-Za-z0-9_]+"}
"""By kind of body, what a tool's name may consist of, where that is not what every API allows."""


def text_capabilities(can: Capabilities, format_name: str) -> Capabilities:
    """What a target can be told of tools when they are text: any schema, long names, functions alone."""
    bodies = {call.body for call in find_format(format_name).calls}
    pattern = next((_NAMES[body] for body in bodies if body in _NAMES), r"[A-Za-z0-9_-]+")
    return replace(
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
    """The request without tools, calls and results: all of them told in the exchange's text format.

    `context.text_tools` holds what the model may call, for the reader of its answer.
    """
    settings = context.text_calls
    if settings is None:
        return request
    context.text_past = request.messages
    if settings.rescue:
        if request.tools:
            context.text_tools = {tool.name: tool.parameters for tool in _functions(request)}
        return request
    if not _in_play(request):
        return _without_empty_tools(request)
    apart = _apart(context)
    if context.source == context.target:
        for earlier in _BEFORE:
            request = earlier(request, apart)
    tools, choice = _offered(request, context), request.tool_choice
    closed = choice is not None and choice.mode == "none"
    context.text_tools = {} if closed else {tool.name: tool.parameters for tool in tools}
    context.text_called = sum(isinstance(block, ToolCall) for block, _ in blocks(request))
    if context.text_tools:
        # A server that is bound to a format of the answer could not let the model write a call.
        unbound = replace(apart, can=replace(apart.can, format_with_tools=False))
        request = _in_one_text(formats.fit(request, unbound, may_call=True), request)
    past, begun = _split(request.messages)
    context.text_thinks = _thinks(begun, settings.format)
    context.text_escapes = Escapes()
    turns = Turns(settings.format, context.receipt, tools, context.text_escapes)
    request = replace(request, messages=(*turns.rendered(past), *begun))
    if tools:
        request = _with_choice(_with_tools(request, tools, context), choice, apart, tools)
    request = _without_empty_tools(replace(request, tools=(), tool_choice=None, parallel_tool_calls=None))
    return _with_stops(request, context) if context.text_tools else request


def _in_play(request: Request) -> bool:
    return any(isinstance(tool, Tool) for tool in request.tools) or any(
        isinstance(block, (ToolCall, ToolResult)) for block, _ in blocks(request)
    )


def _without_empty_tools(request: Request) -> Request:
    """The request without the note that its tools were an empty list: a server that takes none may refuse that too."""
    native = {
        owner: {key: kept for key, value in fields.items() if (kept := _without_tools(key, value)) is not None}
        for owner, fields in request.native.items()
    }
    return request if native == request.native else replace(request, native=native)


def _without_tools(key: str, value: object) -> object:
    """A note on a request; None when it says nothing but that there are no tools."""
    if key == "$empty" and isinstance(value, dict):
        return {name: empty for name, empty in value.items() if name != "tools"} or None
    return None if key == "$no_tools" or (key == "$groups" and value == []) else value


def _in_one_text(told: Request, before: Request) -> Request:
    """The request with a line for this turn as a part of the text before it: many servers take nothing but a string."""
    if len(told.messages) != len(before.messages):
        return told
    for number, (new, old) in enumerate(zip(told.messages, before.messages, strict=True)):
        if new is not old and old.content and len(new.content) == len(old.content) + 1:
            *rest, said, line = new.content
            if isinstance(said, Text) and isinstance(line, Text) and said.cache is None and not said.citations:
                joined = replace(new, content=(*rest, replace(said, text=f"{said.text}\n\n{line.text}")))
                return replace(told, messages=(*told.messages[:number], joined, *told.messages[number + 1 :]))
    return told


def _split(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """The conversation, and the beginning of an answer, which is the model's own to go on with and stays as it is."""
    last = messages[-1] if messages else None
    if last is None or last.role != "assistant" or any(isinstance(block, ToolCall) for block in last.content):
        return messages, ()
    return messages[:-1], (last,)


def _thinks(begun: Sequence[Message], format_name: str) -> bool:
    """Does the beginning of the answer end inside its reasoning?"""
    text = "".join(block.text for message in begun for block in message.content if isinstance(block, Text))
    return any(text.rfind(opener) > text.rfind(closer) for opener, closer in find_format(format_name).thinking)


def _apart(context: Context) -> Context:
    """The same context for passes that leave a dialect's own requests alone: a text model speaks no dialect.

    Lines for one turn go into the user's message: few templates of text models take a later system message.
    """
    return replace(context, source="text", can=replace(context.can, system="leading"))


def _functions(request: Request) -> list[Tool]:
    """The tools that a leaked call can mean without doubt."""
    return [
        tool
        for tool in request.tools
        if isinstance(tool, Tool) and tool.kind == "function" and tool.namespace is None and not tool.deferred
    ]


def _offered(request: Request, context: Context) -> tuple[Tool, ...]:
    """The tools to tell the model, and in the receipt what of them cannot be told."""
    offered: list[Tool] = []
    for index, tool in enumerate(request.tools):
        where = f"tools[{index}]"
        if isinstance(tool, Opaque):
            kind = tool.value.get("type") if isinstance(tool.value, dict) else None
            context.receipt.loss(where, str(kind or "tool"), "a tool of the upstream's own cannot be told as text")
            continue
        if tool.strict:
            context.receipt.loss(f"{where}.strict", f"strict tool {tool.name}", "nothing enforces a schema on text")
        for path, key in missed(tool.native.get(context.target, {}), context.can, asked=True):
            context.receipt.loss(f"{where}.{path}", key, "it has no form as text")
        offered.append(tool)
    return tuple(offered)


def _breakpoint(tools: Sequence[Tool]) -> Cache | None:
    """The last cache breakpoint on a tool: it stands behind all of them now."""
    return next((tool.cache for tool in reversed(tools) if tool.cache is not None), None)


def _with_tools(request: Request, tools: Sequence[Tool], context: Context) -> Request:
    assert context.text_calls is not None
    format_name = context.text_calls.format
    parallel = request.parallel_tool_calls is not False
    if not parallel:
        context.receipt.loss("parallel_tool_calls", "one call at a time", ENFORCED_BY_NOBODY)
    count = "a tool" if len(tools) == 1 else f"{len(tools)} tools"
    context.receipt.note("tools", count, f"told as text, in the format {format_name}")
    escapes = Escapes() if context.text_escapes is None else context.text_escapes
    before = escapes.count
    told = instructions(format_name, tools, None, parallel, escapes)
    if escapes.count > before:
        context.receipt.note("tools", "texts of tools", ESCAPED)
    return _with_system(request, told, _breakpoint(tools))


def _with_system(request: Request, told: str, cache: Cache | None) -> Request:
    """The text behind the system prompt, in one block with its end where nothing hangs on that."""
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


def _with_choice(request: Request, choice: ToolChoice | None, apart: Context, tools: Sequence[Tool]) -> Request:
    line = _line(choice, apart)
    if choice is None or not line:
        return request
    if apart.text_calls is not None:  # names that nobody declares are whatever the client wrote
        line = escaped(apart.text_calls.format, line, tools)
    apart.receipt.loss("tool_choice", _LOST[choice.mode], ENFORCED_BY_NOBODY)
    return _in_one_text(instruct(request, line, apart), request)


_LOST = {"none": "no tool", "required": "a forced call", "auto": "a choice among fewer tools", "opaque": ""}


def _line(choice: ToolChoice | None, apart: Context) -> str:
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
            apart.receipt.loss("tool_choice", "a choice of its own dialect", "it cannot be told as text")
    return ""


def _with_stops(request: Request, context: Context) -> Request:
    """The client's stop sequences, then those with which a model that goes on writing results is stopped."""
    if "stop" not in context.can.fields:
        return request
    assert context.text_calls is not None
    most = context.can.max_stop_sequences
    new = tuple(text for text in stop_strings(context.text_calls.format) if text not in request.stop)
    context.stops = new if most is None else new[: max(most - len(request.stop), 0)]
    return replace(request, stop=(*request.stop, *context.stops)) if context.stops else request
