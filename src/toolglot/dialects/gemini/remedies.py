"""Refusals of the Gemini API, and the changed requests to send instead."""

from __future__ import annotations

from toolglot.dialects.gemini.native import NAME
from toolglot.ir import Message, Request, ToolCall, native_of, replace, with_native
from toolglot.passes.blocks import Place, rewrite_messages
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


REMEDIES = Remedies(
    refusals=(
        remedy(
            r"missing a `?thought_?signature|thought signature is not valid|corrupted thought", mark_calls_as_foreign
        ),
    )
)
