"""Refusals that only OpenAI's Responses API sends, and the changed request for each."""

from __future__ import annotations

from toolglot.dialects.openai_responses.native import NAME
from toolglot.ir import Message, Request, Text, ToolCall, replace
from toolglot.passes.blocks import rewrite_messages
from toolglot.passes.native_fields import without_native
from toolglot.passes.remedies import RefusedRequest, Remedies, forget_reasoning, remedy, remove_limit


def _forget_reasoning(refusal: RefusedRequest) -> Request:
    """Remove reasoning from the history, and the ids that tie other items to it."""
    request = forget_reasoning(refusal)
    return request if request is refusal.request else _without_item_ids(request)


def _without_item_ids(request: Request) -> Request:
    """Remove item ids. The API treats an item with an id as the stored one, which requires its reasoning before it."""

    def rewrite(message: Message, number: int) -> Message:
        if message.role != "assistant":
            return message
        content = tuple(
            without_native(block, NAME, "id") if isinstance(block, (ToolCall, Text)) else block
            for block in message.content
        )
        return replace(without_native(message, NAME, "id"), content=content)

    return rewrite_messages(request, rewrite)


REMEDIES = Remedies(
    refusals=(
        remedy(
            r"invalid_encrypted_content|encrypted content.{1,200}could not be|without its required|item with id '?rs_"
            r"|reasoning input items can only be provided to",
            _forget_reasoning,
        ),
        # ChatGPT's own backend for Codex
        remedy(r"(unsupported|unknown) parameter: \W?max_output_tokens", remove_limit),
    ),
    named_fields={"max_output_tokens": remove_limit},
)
