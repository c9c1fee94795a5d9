"""Convert blocks that the target has no form for: refusals, citations, truncated calls, and error results."""

from __future__ import annotations

from toolglot import features
from toolglot.ir import Block, Refusal, Request, Text, ToolCall, ToolResult, replace
from toolglot.passes import Context
from toolglot.passes.blocks import Place, rewrite_blocks
from toolglot.passes.tool_history import ToolHistory, tool_history, with_results
from toolglot.plan import runs_on
from toolglot.wire import json

ERROR = "Error: "


def _marks_cuts(context: Context) -> bool:
    """Return whether a call in the history can be marked as truncated. Wire formats with arguments as objects can only
    mark calls in answers."""
    can = context.can.calls
    return context.source == context.target or (can.incomplete and can.arguments == "text")


def _triggers(context: Context) -> int:
    can = context.can
    bits = 0 if can.messages.refusals else features.REFUSAL
    bits |= 0 if can.messages.citations else features.CITATIONS
    bits |= 0 if _marks_cuts(context) else features.CUT_CALLS
    return bits if can.calls.result_errors else bits | features.RESULT_ERRORS


@runs_on(_triggers, keeps_messages=True)
def fit(request: Request, context: Context) -> Request:
    can = context.can
    history, found = tool_history(request, context), context.features & _triggers(context)
    if found == features.RESULT_ERRORS and history.is_flat:
        return _with_plain_results(request, history, context)
    context.features |= features.BLANK
    hides_cuts = bool(found & features.CUT_CALLS)
    is_concerned: dict[type[Block], bool] = {
        Refusal: bool(found & features.REFUSAL),
        Text: bool(found & features.CITATIONS),
        ToolCall: hides_cuts,
        ToolResult: bool(found & features.RESULT_ERRORS),
    }
    kinds = [kind for kind, concerned in is_concerned.items() if concerned or not history.is_flat]
    if not kinds:
        return request

    def fit_block(block: Block, place: Place) -> tuple[Block, ...]:
        match block:
            case Refusal(text=text) if not can.messages.refusals:
                context.receipt.note(str(place), "a refusal", "the target has no block for it; it is text")
                return (Text(text=text, native=block.native),)
            case Text() if block.citations and not can.messages.citations:
                # A citation in the target's own form stays: the client knows that its server accepts it.
                own = tuple([citation for citation in block.citations if context.target in citation.native])
                if len(own) < len(block.citations):
                    lost = len(block.citations) - len(own)
                    context.receipt.loss(str(place), f"{lost} citations", "the target does not accept it")
                    return (replace(block, citations=own),)
            case ToolCall(complete=False) if hides_cuts:
                _report_cut(block, place, context)
            case ToolResult(is_error=True) if not can.calls.result_errors:
                return (_plain_result(block, place, context),)
        return (block,)

    return rewrite_blocks(request, fit_block, *kinds)


def _with_plain_results(request: Request, history: ToolHistory, context: Context) -> Request:
    """Mark error results in their text. A fast path for requests that need no other change."""
    results = [
        _plain_result(result, Place(*place), context) if result.is_error else result
        for result, place in zip(history.results, history.places, strict=True)
    ]
    return with_results(request, history, results)


def _plain_result(result: ToolResult, place: Place, context: Context) -> ToolResult:
    context.receipt.note(str(place), "a result that is an error", f"its text begins with {ERROR!r}")
    return replace(result, is_error=None, content=_prefix_error(result.content))


def _report_cut(call: ToolCall, place: Place, context: Context) -> None:
    """Report a truncated call whose mark is lost. The encoder reports arguments that are not a JSON object."""
    what = f"call of {call.name} that was cut off"
    if call.kind == "custom" or not call.arguments.strip() or json.object_of(call.arguments) is not None:
        context.receipt.loss(str(place), what, "it looks complete to the target")
    elif context.can.calls.arguments == "text":
        context.receipt.note(str(place), what, "the target has no mark for it; only its arguments show it")


def _prefix_error(content: tuple[Block, ...]) -> tuple[Block, ...]:
    if content and isinstance(first := content[0], Text):
        if first.text.startswith(ERROR):
            return content
        return (replace(first, text=ERROR + first.text), *content[1:])
    return (Text(text=ERROR.strip()), *content)
