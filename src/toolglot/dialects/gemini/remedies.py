"""Refusals of the Gemini API, and the changed requests to send instead."""

from __future__ import annotations

from toolglot.dialects.gemini.native import NAME
from toolglot.ir import Block, Message, Request, Tool, ToolCall, ToolResult, native_of, replace, with_native
from toolglot.passes.blocks import Place, rewrite_blocks, rewrite_messages
from toolglot.passes.native_fields import without_native
from toolglot.passes.reasoning import UNSIGNED
from toolglot.passes.remedies import RefusedRequest, Remedies, remedy


def mark_calls_as_foreign(refusal: RefusedRequest) -> Request:
    """Mark the first call of every step as another model's. An invalid signature is replaced."""
    invalid = "missing" not in refusal.match[0].lower()

    def rewrite(message: Message, number: int) -> Message:
        first = next((index for index, block in enumerate(message.content) if isinstance(block, ToolCall)), None)
        if message.role != "assistant" or first is None:
            return message
        call = message.content[first]
        assert isinstance(call, ToolCall)
        if native_of(call, NAME).get("thoughtSignature") and not invalid:
            return message
        marked = with_native(call, NAME, thoughtSignature=UNSIGNED)
        if marked == call:
            return message
        report = refusal.context.receipt.loss if invalid else refusal.context.receipt.note
        report(str(Place(number, first)), "thought signature", "marked as another model's call")
        return replace(message, content=(*message.content[:first], marked, *message.content[first + 1 :]))

    return rewrite_messages(refusal.request, rewrite)


def use_openapi_schemas(refusal: RefusedRequest) -> Request:
    """Send schemas under the older members, which take OpenAPI's form only."""
    tools = tuple(
        without_native(tool, NAME, "$parametersJsonSchema") if isinstance(tool, Tool) else tool
        for tool in refusal.request.tools
    )
    request = replace(refusal.request, tools=tools)
    if request.response_format is not None:
        shape = without_native(request.response_format, NAME, "$responseJsonSchema")
        request = replace(request, response_format=shape)
    request = with_native(request, NAME, **{"$openapi_schema": True})
    if request != refusal.request:
        refusal.context.receipt.note("tools", "JSON schemas", "the upstream takes OpenAPI schemas only")
    return request


def drop_call_ids(refusal: RefusedRequest) -> Request:
    """Send calls and results without ids. The server matches them by name and order."""

    def drop(block: Block, place: Place) -> tuple[Block, ...]:
        match block:
            case ToolCall(id=old) if old:
                return (replace(block, id=""),)
            case ToolResult(call_id=old) if old:
                return (replace(block, call_id=""),)
        return (block,)

    request = rewrite_blocks(refusal.request, drop, ToolCall, ToolResult)
    if request is not refusal.request:
        refusal.context.receipt.note("messages", "call ids", "the upstream does not know them")
    return request


REMEDIES = Remedies(
    refusals=(
        remedy(r"unknown name \W?(parameters|response)_?json_?schema\b", use_openapi_schemas),
        remedy(r"unknown name \W?id\W{1,3}at '[^']{1,200}function_?(call|response)\b", drop_call_ids),
        remedy(
            r"missing a `?thought_?signature|thought signature is not valid|corrupted thought", mark_calls_as_foreign
        ),
    )
)
