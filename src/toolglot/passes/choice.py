"""Fit `tool_choice` and `parallel_tool_calls` to the target.

If the target has no such setting, an instruction in the prompt asks for it. A restriction to some tools can also be
enforced by offering only those tools.
"""

from __future__ import annotations

from itertools import compress

from toolglot import features
from toolglot.ir import Request, Tool, ToolChoice, native_of, replace
from toolglot.passes import Context
from toolglot.passes.instructions import instruct
from toolglot.passes.reasoning import reasons
from toolglot.plan import runs_on
from toolglot.receipt import describe_block

ONE_AT_A_TIME = "Call at most one tool at a time and wait for its result before you call another."
NO_TOOLS = "Do not call any tool; answer in text."
ANY_TOOL = "Respond with a call of one of the tools, not with text."


@runs_on(lambda context: features.CHOICE | features.PARALLEL, adds=features.NEIGHBOURS | features.LATER_SYSTEM)
def fit(request: Request, context: Context) -> Request:
    if not request.tools:
        return _without_tools(request, context)
    return _fit_parallel(_fit_choice(request, context), context)


def _without_tools(request: Request, context: Context) -> Request:
    # A dialect may keep its tools elsewhere, for example in a stored conversation.
    if context.source == context.target:
        return request
    for name in ("tool_choice", "parallel_tool_calls"):
        if getattr(request, name) is not None:
            context.receipt.note(name, name, "there are no tools")
    if request.tool_choice is None and request.parallel_tool_calls is None:
        return request
    return replace(request, tool_choice=None, parallel_tool_calls=None)


def _fit_choice(request: Request, context: Context) -> Request:
    choice = request.tool_choice
    if choice is None:
        return request
    if choice.mode == "opaque":
        if native_of(choice, context.target):
            return request
        context.receipt.loss("tool_choice", "a choice of its own dialect", "the target does not know it")
        return replace(request, tool_choice=None)
    if choice.mode == "none":
        return _fit_none(request, choice, context)
    request, choice = _fit_names(request, choice, context)
    if choice.mode == "required" and (why := _unforceable(request, choice, context)):
        return _ask(request, choice, why, context)
    return request if choice is request.tool_choice else replace(request, tool_choice=choice)


def _fit_none(request: Request, choice: ToolChoice, context: Context) -> Request:
    """Forbid tool calls. The tools stay: the history may contain calls to them, and they are part of the cached
    prefix."""
    if "none" in context.can.tools.choices:
        return request
    context.receipt.loss("tool_choice", "no tool", "the target has no setting for it; a line of text asks for it")
    return instruct(replace(request, tool_choice=None), NO_TOOLS, context)


def _fit_names(request: Request, choice: ToolChoice, context: Context) -> tuple[Request, ToolChoice]:
    """Keep the names if the target supports them; otherwise offer only the named tools."""
    can = context.can.tools
    if not choice.names:
        return request, choice
    forced = choice.mode == "required"
    if forced and len(choice.names) == 1:
        if "named" in can.choices:
            return request, choice
    elif "allowed" in can.choices and choice.mode in can.allowed_modes:
        return request, choice
    context.receipt.loss("tool_choice.names", ", ".join(choice.names), "the target does not accept such a choice")
    return _offer_only(request, choice, context), replace(choice, names=())


def _offer_only(request: Request, choice: ToolChoice, context: Context) -> Request:
    """Offer only the chosen tools. The receipt lists each tool that is left out."""
    names = frozenset(choice.names)
    kept = [isinstance(tool, Tool) and tool.name in names for tool in request.tools]
    if not any(kept):
        context.receipt.loss("tool_choice.names", ", ".join(choice.names), "there are no such tools")
        return request
    if all(kept):
        return request
    for index, tool in enumerate(request.tools):
        if not kept[index]:
            what = f"tool {tool.name}" if isinstance(tool, Tool) else describe_block(tool)
            why = "only the tools of the choice are offered, which costs the prompt cache"
            context.receipt.loss(f"tools[{index}]", what, why)
    return replace(request, tools=tuple(compress(request.tools, kept)))


def _unforceable(request: Request, choice: ToolChoice, context: Context) -> str | None:
    """Return the reason why the target cannot be forced to call a tool; None if it can."""
    can = context.can
    kind = "required" if not choice.names else "named" if len(choice.names) == 1 else "allowed"
    if kind not in can.tools.choices or (kind == "allowed" and "required" not in can.tools.choices):
        return "the target cannot be forced to call a tool"
    if not can.reasoning.with_forced_choice and reasons(request, context):
        return "the target cannot be forced to call a tool while it reasons"
    return None


def _ask(request: Request, choice: ToolChoice, why: str, context: Context) -> Request:
    context.receipt.loss("tool_choice", "a forced call", f"{why}; a line of text asks for it")
    line = ANY_TOOL
    names: tuple[str, ...] = ()
    if len(choice.names) == 1:
        request = _offer_only(request, choice, context)
        line = f"Respond with a call of the tool {choice.names[0]}, not with text."
    elif choice.names:
        names = choice.names if "auto" in context.can.tools.allowed_modes else ()
        request = request if names else _offer_only(request, choice, context)
    asked = replace(request, tool_choice=ToolChoice(mode="auto", names=names, native=choice.native))
    return instruct(asked, line, context)


def _fit_parallel(request: Request, context: Context) -> Request:
    wanted = request.parallel_tool_calls
    if wanted is None or "parallel_tool_calls" in context.can.parameters.fields:
        return request
    request = replace(request, parallel_tool_calls=None)
    if wanted:
        return request
    why = "the target has no setting for it; a line of text asks for it"
    context.receipt.loss("parallel_tool_calls", "one call at a time", why)
    return instruct(request, ONE_AT_A_TIME, context)
