"""Refusals that only servers of Chat Completions send, and the changed request for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolglot.dialects.openai_chat.native import NAME
from toolglot.ir import Message, Request, Thinking, ToolCall, native_of, with_native
from toolglot.passes import refused
from toolglot.passes.blocks import Place, rewrite_messages
from toolglot.passes.native_fields import without_native_anywhere
from toolglot.passes.remedies import RefusedRequest, Remedies, forget_reasoning, remedy


def add_empty_reasoning(refusal: RefusedRequest) -> Request:
    """Add empty reasoning. DeepSeek requires the field on every message with calls, and accepts an empty one for lost
    reasoning."""

    def rewrite(message: Message, number: int) -> Message:
        calls = any(isinstance(block, ToolCall) for block in message.content)
        if not calls or any(isinstance(block, Thinking) for block in message.content):
            return message
        refusal.context.receipt.note(
            str(Place(number)), "no reasoning", "the upstream requires the field, even if empty"
        )
        return with_native(message, NAME, reasoning_content="")

    return rewrite_messages(refusal.request, rewrite)


def add_placeholder_signatures(refusal: RefusedRequest) -> Request:
    """Mark the calls of other models in a history for Gemini. Signatures that it refuses are replaced."""
    request = refusal.request
    if "missing" not in refusal.match[0].lower():
        request = without_native_anywhere(request, NAME, "extra_content")
        refusal.context.receipt.loss("messages", "thought signatures", "the upstream refuses them")
    return refused.fit(request, refusal.with_capabilities(refuses=frozenset({"unsigned_calls"})))


def rename_limit(name: str) -> Callable[[RefusedRequest], Request]:
    """Send the output limit under the other of its two names."""

    def change(refusal: RefusedRequest) -> Request:
        request = refusal.request
        if request.max_output_tokens is None:
            return request
        refusal.context.receipt.note("max_output_tokens", "the output limit", f"the upstream wants it as {name}")
        return _add_notes(request, **{"$max": name})

    return change


def _add_notes(request: Request, **notes: Any) -> Request:
    """Add native notes. A request of another dialect keeps asking for usage, which native members would otherwise
    switch off."""
    if request.stream and NAME not in request.native:
        notes["stream_options"] = {"include_usage": True}
    return with_native(request, NAME, **notes)


def _without_stream_options(refusal: RefusedRequest, field: str) -> Request:
    request = refusal.request
    if not request.stream or native_of(request, NAME).get("stream_options"):
        return request
    refusal.context.receipt.loss("stream_options", "usage at the end of the stream", "the upstream cannot report it")
    return with_native(request, NAME, **{"$stream": True})


REMEDIES = Remedies(
    refusals=(
        remedy(r"reasoning_content.{1,60}must be passed back|missing `?reasoning_content", add_empty_reasoning),
        remedy(
            r"property '(reasoning|reasoning_content)' is unsupported|(assistant|messages).{1,40}reasoning(_content)?\W"
            r".{0,40}extra inputs",
            forget_reasoning,
        ),
        remedy(
            r"missing a `?thought_?signature|thought signature is not valid|corrupted thought",
            add_placeholder_signatures,
        ),
        remedy(r"max_tokens\W.{1,60}not supported.{1,40}max_completion_tokens", rename_limit("max_completion_tokens")),
        remedy(
            r"max_completion_tokens\W{1,3}[^\n]{0,40}(is not supported|not permitted|is unsupported)",
            rename_limit("max_tokens"),
        ),
        remedy(r"(unknown|unrecognized).{1,60}max_completion_tokens", rename_limit("max_tokens")),
    ),
    fields={"stream_options": _without_stream_options},
    named_fields={"max_completion_tokens": rename_limit("max_tokens")},
)
