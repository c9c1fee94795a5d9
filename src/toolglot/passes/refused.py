"""Remove content that the target's wire format can express but its API rejects (names in `can.limits.refused_content`).

A client of the target's own dialect knows what its model accepts, unless the model was replaced. Rejections that depend
on the API's version (`FOR_EVERYONE`) apply to all clients.
"""

from __future__ import annotations

from toolglot import features
from toolglot.ir import (
    Block,
    Media,
    Message,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    native_of,
    replace,
    with_native,
)
from toolglot.passes import Context, RequestPass
from toolglot.passes.blocks import Place, has_results, rewrite_message, rewrite_messages, with_messages
from toolglot.passes.media import marker
from toolglot.passes.reasoning import UNSIGNED
from toolglot.plan import runs_on

FOR_EVERYONE = frozenset(
    {"assistant_documents", "user_citations", "calls_without_reasoning", "user_after_results", "unsigned_calls"}
)
"""Rejections that a client of the target's own dialect may not know: the upstream has another version, or another model
answered a turn."""


def _triggers(context: Context) -> int:
    bits = 0
    for name, (trigger, _) in REMOVERS.items():
        bits |= trigger if name in context.can.limits.refused_content else 0
    return bits


@runs_on(_triggers)
def fit(request: Request, context: Context) -> Request:
    own = context.source == context.target and not context.aliased
    for name, (trigger, remove) in REMOVERS.items():
        if (
            context.features & trigger
            and name in context.can.limits.refused_content
            and (name in FOR_EVERYONE or not own)
        ):
            request = remove(request, context)
    return request


def _without_assistant_documents(request: Request, context: Context) -> Request:
    def replace_document(block: Block, place: Place) -> tuple[Block, ...]:
        if not isinstance(block, Media) or block.kind != "document":
            return (block,)
        context.receipt.loss(str(place), block.kind, "the target takes no documents from the assistant")
        return (marker(block, "left out: it cannot be shown here"),)

    def rewrite(message: Message, number: int) -> Message:
        return rewrite_message(message, number, replace_document, Media) if message.role == "assistant" else message

    return rewrite_messages(request, rewrite)


def _without_user_citations(request: Request, context: Context) -> Request:
    def drop_citations(block: Block, place: Place) -> tuple[Block, ...]:
        if not isinstance(block, Text) or not block.citations:
            return (block,)
        context.receipt.note(str(place), f"{len(block.citations)} citations", "the target takes none on a user's text")
        return (replace(block, citations=()),)

    def rewrite(message: Message, number: int) -> Message:
        return rewrite_message(message, number, drop_citations, Text) if message.role == "user" else message

    return rewrite_messages(request, rewrite)


def _without_top_p_beside_temperature(request: Request, context: Context) -> Request:
    """Keep one of the two. A value at its default can go; otherwise the temperature stays, since clients set it more
    deliberately."""
    if request.temperature is None or request.top_p is None:
        return request
    if request.temperature == 1 and request.top_p != 1:
        context.receipt.note(
            "temperature", "temperature 1", "the target takes it or top_p; this is what it does anyway"
        )
        return replace(request, temperature=None)
    report = context.receipt.note if request.top_p == 1 else context.receipt.loss
    report("top_p", f"top_p {request.top_p}", "the target takes it or a temperature, not both")
    return replace(request, top_p=None)


def _without_blank_stops(request: Request, context: Context) -> Request:
    kept = tuple(sequence for sequence in request.stop if sequence.strip())
    if len(kept) == len(request.stop):
        return request
    context.receipt.loss("stop", "a stop sequence of only spaces", "the target refuses it")
    return replace(request, stop=kept)


def _without_spaces_at_the_end(request: Request, context: Context) -> Request:
    """Strip trailing spaces from a prefilled answer that the model continues."""
    last = request.messages[-1] if request.messages else None
    if last is None or last.role != "assistant" or not last.content:
        return request
    block = last.content[-1]
    if not isinstance(block, Text) or not block.text.strip() or block.text == block.text.rstrip():
        return request
    place = Place(len(request.messages) - 1, len(last.content) - 1)
    context.receipt.note(str(place), "spaces at the end", "the target refuses them in an answer that it continues")
    content = (*last.content[:-1], replace(block, text=block.text.rstrip()))
    return with_messages(request, (*request.messages[:-1], replace(last, content=content)))


def _with_empty_reasoning(request: Request, context: Context) -> Request:
    """Add an empty `reasoning_content` to messages with calls. DeepSeek and Kimi require the field, and accept an empty
    one if the reasoning is lost or another model's."""

    def rewrite(message: Message, number: int) -> Message:
        if not any(isinstance(block, ToolCall) for block in message.content):
            return message
        has_field = native_of(message, context.target).get("reasoning_content") is not None
        if has_field or any(isinstance(block, Thinking) and block.text for block in message.content):
            return message
        context.receipt.note(str(Place(number)), "no reasoning", "the target requires the field, even if empty")
        return with_native(message, context.target, reasoning_content="")

    return rewrite_messages(request, rewrite)


BRIDGE = "I have read the tool results."


def _with_bridges(request: Request, context: Context) -> Request:
    """Put a short answer of the assistant between tool results and the user message after them. Mistral refuses a user
    message directly after results (mistral-common #169). Inside a result, the text would look like the tool's, and
    images are not allowed there.
    """
    messages: list[Message] = []
    for number, message in enumerate(request.messages):
        for part in _split_after_results(message):
            before = messages[-1] if messages else None
            if part.role == "user" and before is not None and has_results(before) and not has_results(part):
                why = "the target refuses it; an answer of the assistant was put between them"
                context.receipt.note(str(Place(number)), "a user's message after tool results", why)
                messages.append(Message(role="assistant", content=(Text(text=BRIDGE),)))
            messages.append(part)
    return with_messages(request, tuple(messages))


def _split_after_results(message: Message) -> tuple[Message, ...]:
    """Split a message that continues after its last result."""
    content = message.content
    count = next((end for end in range(len(content), 0, -1) if isinstance(content[end - 1], ToolResult)), len(content))
    if count == len(content):
        return (message,)
    return replace(message, content=content[:count]), replace(message, role="user", content=content[count:])


_SIGNATURE_MEMBERS = frozenset({"extra_content", "provider_specific_fields"})
"""Members of a call in which Google's server and LiteLLM have its signature."""
_DETAILS = "reasoning_details"
"""OpenRouter's signatures, in reasoning or beside it."""


def _with_placeholder_signatures(request: Request, context: Context) -> Request:
    """Add Google's placeholder to the first call of each step that has no signature. Gemini 3 requires one, also behind
    Chat Completions, and calls of other models have none."""
    messages = [*request.messages]
    is_settled = False  # a step is all that the assistant says until it gets results
    for number, message in enumerate(request.messages):
        if message.role != "assistant":
            is_settled = False
            continue
        for index, block in enumerate(message.content):
            if is_settled or not isinstance(block, ToolCall):
                continue
            is_settled = True
            if _is_signed(block, message, context):
                continue
            context.receipt.note(str(Place(number, index)), "no thought signature", "marked as another model's call")
            signed = with_native(block, context.target, extra_content={"google": {"thought_signature": UNSIGNED}})
            content = (*message.content[:index], signed, *message.content[index + 1 :])
            messages[number] = replace(message, content=content)
    return with_messages(request, tuple(messages))


def _is_signed(call: ToolCall, message: Message, context: Context) -> bool:
    mark = context.can.ids.state_mark
    if (mark and mark in call.id) or not _SIGNATURE_MEMBERS.isdisjoint(native_of(call, context.target)):
        return True
    return any(_DETAILS in native_of(node, context.target) for node in (message, *message.content))


REMOVERS: dict[str, tuple[int, RequestPass]] = {
    "assistant_documents": (features.MEDIA, _without_assistant_documents),
    "user_citations": (features.CITATIONS, _without_user_citations),
    "temperature_with_top_p": (features.SETTINGS["temperature"], _without_top_p_beside_temperature),
    "blank_stop": (features.SETTINGS["stop"], _without_blank_stops),
    "spaces_at_the_end": (features.ENDS_ODD, _without_spaces_at_the_end),
    "calls_without_reasoning": (features.CALLS, _with_empty_reasoning),
    "user_after_results": (features.CALLS, _with_bridges),
    "unsigned_calls": (features.CALLS, _with_placeholder_signatures),
}
"""Name of a rejection -> the features of requests that it may concern, and the pass that removes the content."""
