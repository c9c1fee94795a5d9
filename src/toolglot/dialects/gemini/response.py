"""Responses of `generateContent` <-> `Response`, and the pieces that streams share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from toolglot.dialects.gemini.blocks import (
    Arguments,
    came_cut,
    decode_parts,
    encode_call,
    encode_media,
    encode_result,
    encode_text,
    filled,
    listed,
    response_arguments,
)
from toolglot.dialects.gemini.errors import read_error
from toolglot.dialects.gemini.logprobs import AVERAGE, RESULT, average, read_logprobs, write_logprobs
from toolglot.dialects.gemini.names import RESPONSE, normalize
from toolglot.dialects.gemini.native import NAME
from toolglot.dialects.gemini.usage import decode_usage, encode_usage, tier_of
from toolglot.errors import DecodeError, UpstreamError
from toolglot.ir import (
    Block,
    Citation,
    Media,
    Opaque,
    Refusal,
    Request,
    Response,
    Stop,
    StopReason,
    Text,
    Thinking,
    TokenLogprob,
    ToolCall,
    ToolResult,
    native_of,
    replace,
)
from toolglot.receipt import Receipt, describe_block
from toolglot.wire import json
from toolglot.wire.bad_arguments import describe_bad_arguments, show_bad_call
from toolglot.wire.error_documents import find_error
from toolglot.wire.reader import Reader, keep
from toolglot.wire.repeated_keys import note_repeated_keys
from toolglot.wire.text_separator import separator_between

FINISH: dict[str, StopReason] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    "SAFETY": "filtered",
    "RECITATION": "filtered",
    "LANGUAGE": "filtered",
    "BLOCKLIST": "filtered",
    "PROHIBITED_CONTENT": "filtered",
    "SPII": "filtered",
    "MODEL_ARMOR": "filtered",
    "IMAGE_SAFETY": "filtered",
    "IMAGE_PROHIBITED_CONTENT": "filtered",
    "IMAGE_RECITATION": "filtered",
    "MALFORMED_FUNCTION_CALL": "malformed_call",
    "UNEXPECTED_TOOL_CALL": "malformed_call",
    "MALFORMED_RESPONSE": "malformed_call",
    "TOO_MANY_TOOL_CALLS": "pause",
}

_FINISH_OF_REASON: dict[StopReason, str] = {
    "end": "STOP",
    "stop_sequence": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "context_full": "MAX_TOKENS",
    "refusal": "SAFETY",
    "filtered": "SAFETY",
    "pause": "TOO_MANY_TOOL_CALLS",
    "malformed_call": "MALFORMED_FUNCTION_CALL",
    "other": "OTHER",
}

_LAST_YEAR = 253402300799  # 9999-12-31T23:59:59Z


# Reading


def decode_response(data: bytes) -> Response:
    """A whole response.

    Raises:
        DecodeError: it is not one.
        UpstreamError: it is an error.
    """
    value = json.decode_answer(data)
    if find_error(value) is not None:
        raise UpstreamError(read_error(value))
    body = Reader(normalize(value, RESPONSE))
    arguments = response_arguments(data)
    candidates = body.array("candidates")
    usage = body.take("usageMetadata")
    response_id, model = filled(body, "responseId"), filled(body, "modelVersion")
    feedback = blocked_prompt(body.peek("promptFeedback"))
    if candidates is None and body.peek("promptFeedback") is None and usage is None:
        raise DecodeError("$.candidates", "a response needs candidates or promptFeedback")
    content: tuple[Block, ...] = ()
    stop, first, notes = feedback or Stop("other"), None, None
    if candidates:
        first = Reader(candidates[0], "$.candidates[0]")
        content, stop, notes = _decode_candidate(first, arguments[0] if arguments else (), feedback)
    shape = "absent" if candidates is None else "empty" if not candidates else None
    native = keep(NAME, body, candidates=shape, candidate=notes, usage="absent" if usage is None else None)
    if first is not None and first.rest():
        native.setdefault(NAME, {})["candidate"] = first.rest()
    if candidates is not None and len(candidates) > 1:
        native.setdefault(NAME, {})["otherCandidates"] = candidates[1:]
    counted = decode_usage(usage, "$.usageMetadata") if usage is not None else None
    return Response(
        id=response_id or "",
        model=model or "",
        created=created_at(body.peek("createTime")),
        content=content,
        stop=stop,
        usage=counted,
        service_tier=tier_of(counted),
        native=native,
    )


def _decode_candidate(
    candidate: Reader, arguments: Arguments, feedback: Stop | None
) -> tuple[tuple[Block, ...], Stop, dict[str, Any] | None]:
    """The blocks and the stop of a candidate, and notes on its shape."""
    blocks: tuple[Block, ...] = ()
    notes: dict[str, Any] = {}
    content = candidate.object("content")
    if content is None:
        notes["content"] = "absent"
    else:
        role = filled(content, "role")
        absent = content.peek("parts") is None
        parts, bare = listed(content, "parts")
        blocks = decode_parts(parts, content.at("parts"), arguments)
        notes = {
            "role": None if role == "model" else role or "",
            "parts": "absent" if absent else "object" if bare else None,
        }
        if content.rest():
            candidate.rest()["content"] = content.rest()
    blocks, notes["logprobs"] = _take_logprobs(candidate, blocks)
    raw = candidate.text("finishReason")
    message = candidate.text("finishMessage") if raw is not None or feedback is None else None
    called = any(isinstance(block, ToolCall) for block in blocks)
    stop = finish(raw, message, called, feedback)
    notes["finish"] = "absent" if raw is None else raw if raw != _encode_finish(stop) else None
    notes["index"] = "absent" if candidate.peek("index") is None else None
    if candidate.peek("index") == 0:
        candidate.take("index")
    kept = {key: note for key, note in notes.items() if note is not None}
    return blocks, stop, kept or None


def _take_logprobs(candidate: Reader, blocks: tuple[Block, ...]) -> tuple[tuple[Block, ...], dict[str, Any] | None]:
    """The blocks with log probabilities on their first text, and the members that held them. What cannot be read, and
    what there is no text for, stays with the candidate."""
    tokens = read_logprobs(candidate.peek(RESULT))
    at = next((index for index, block in enumerate(blocks) if isinstance(block, Text)), None)
    if tokens is None or at is None:
        return blocks, None
    taken = {key: candidate.rest().pop(key) for key in (RESULT, AVERAGE) if key in candidate.rest()}
    return (*blocks[:at], replace(blocks[at], logprobs=tokens), *blocks[at + 1 :]), taken


def encode_logprobs(tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
    """The members of a candidate for the tokens of its text."""
    return {AVERAGE: average(tokens), RESULT: write_logprobs(tokens)} if tokens else {}


def finish(raw: str | None, message: str | None, called: bool, feedback: Stop | None = None) -> Stop:
    """Why the model stopped. Gemini has no word for "waits for tools": that is told by the calls."""
    if raw is None and feedback is not None:
        return feedback
    reason = FINISH.get(raw or "STOP", "other")
    if reason == "end" and called:
        reason = "tool_calls"
    return Stop(reason, raw, detail=message)


def blocked_prompt(feedback: Any) -> Stop | None:
    """The stop of a prompt that was refused before the model saw it."""
    reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
    if not isinstance(reason, str):
        return None
    message = feedback.get("blockReasonMessage")
    return Stop("filtered", reason, detail=message if isinstance(message, str) else None)


# Writing


def encode_response(response: Response, request: Request | None, receipt: Receipt) -> bytes:
    notes = native_of(response, NAME)
    body: dict[str, Any] = {}
    shape = notes.get("$candidates")
    if shape is None or response.content:
        body["candidates"] = [_encode_candidate(response, receipt), *notes.get("otherCandidates", ())]
    elif shape == "empty":
        body["candidates"] = []
    usage = encode_usage(response.usage, response.service_tier)
    if response.usage is not None or (usage and notes.get("$usage") != "absent"):
        body["usageMetadata"] = usage
    created = None if "createTime" in notes else response.created
    body |= identity(response.model or (request.model if request is not None else ""), response.id, created)
    for key, value in notes.items():
        if not key.startswith("$") and key not in body and key not in ("candidate", "otherCandidates"):
            body[key] = value
    return json.encode(body)


def created_at(text: Any) -> int | None:
    """The time that `createTime` tells, in Unix seconds."""
    try:
        return int(datetime.fromisoformat(text).timestamp()) if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None


def identity(model: str, response_id: str, created: int | None) -> dict[str, Any]:
    """The members that name a response, as far as they are known."""
    fields: dict[str, Any] = {}
    if model:
        fields["modelVersion"] = model
    if response_id:
        fields["responseId"] = response_id
    if created is not None and 0 <= created <= _LAST_YEAR:
        fields["createTime"] = datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return fields


def _encode_candidate(response: Response, receipt: Receipt) -> dict[str, Any]:
    own = native_of(response, NAME)
    notes, rest = own.get("$candidate", {}), own.get("candidate", {})
    parts = [
        part
        for index, block in enumerate(_with_gaps(response.content, receipt))
        if (part := encode_part(block, f"content[{index}]", receipt)) is not None
    ]
    content: dict[str, Any] = {}
    if notes.get("parts") != "absent" or parts:
        content["parts"] = parts[0] if notes.get("parts") == "object" and len(parts) == 1 else parts
    if role := notes.get("role", "model"):
        content["role"] = role
    citations = [citation for block in response.content if isinstance(block, Text) for citation in block.citations]
    absent = notes.get("content") == "absent" and not parts
    tokens = [token for block in response.content if isinstance(block, Text) for token in block.logprobs]
    return {
        **({} if absent else {"content": {**content, **(rest.get("content") or {})}}),
        **encode_stop(response.stop, notes.get("finish")),
        **encode_citations(citations, receipt),
        **(notes["logprobs"] if "logprobs" in notes else encode_logprobs(tokens)),
        **({} if notes.get("index") == "absent" else {"index": 0}),
        **{key: value for key, value in rest.items() if key != "content" or absent},
    }


GAP_WHY = "Gemini's clients put all text of an answer together; a blank line stands where another message began"


def _with_gaps(content: tuple[Block, ...], receipt: Receipt) -> Iterator[Block]:
    said = ""
    for index, block in enumerate(content):
        if isinstance(block, Text):
            if block.new_message and (gap := separator_between(said, block.text)):
                receipt.note(f"content[{index}]", "text apart from the text before", GAP_WHY)
                yield replace(block, text=gap + block.text)
                said = block.text
                continue
            said = block.text or said
        yield block


def encode_stop(stop: Stop, noted: str | None = None) -> dict[str, Any]:
    """`finishReason`, unless the note says that there was none, and the explanation."""
    fields = {}
    if noted != "absent":
        fields["finishReason"] = stop.raw if noted is not None and noted == stop.raw else _encode_finish(stop)
    if stop.detail is not None and (noted != "absent" or stop.raw is None):
        fields["finishMessage"] = stop.detail
    return fields


def _encode_finish(stop: Stop) -> str:
    """The wire's own word where it is Gemini's, else the nearest one."""
    usual = _FINISH_OF_REASON[stop.reason]
    raw = stop.raw
    if raw is None:
        return usual
    if raw in FINISH:
        return raw if FINISH[raw] == FINISH.get(usual) else usual
    # A reason that is newer than this table is one of ours when it is spelt like one.
    return raw if stop.reason == "other" and raw.isupper() else usual


def encode_part(block: Block, where: str, receipt: Receipt) -> dict[str, Any] | None:
    """One part of an answer; None, with a line in the receipt, for what Gemini cannot say."""
    match block:
        case Text() | Refusal():
            return encode_text(block)
        case Thinking():
            if not block.text and not native_of(block, NAME):
                receipt.loss(where, "reasoning without text", "only its owner can read it")
                return None
            return encode_text(block)
        case ToolCall():
            args = json.object_of(block.arguments) if block.complete or came_cut(block) else None
            if args is None and not came_cut(block):
                why = f"{describe_bad_arguments(block.arguments)}; it is shown as text"
                receipt.loss(where, f"call of {block.name}", why)
                return {"text": show_bad_call(block.name, block.arguments)}
            note_repeated_keys(block.arguments, f"{where}.arguments", receipt)
            return encode_call(block, args)
        case ToolResult():
            return encode_result(block, block.name or block.call_id or "unknown", where, receipt)
        case Media():
            return encode_media(block, where, receipt)
        case Opaque(dialect=dialect, value=value) if dialect == NAME:
            part: dict[str, Any] = value
            return part
    receipt.loss(where, describe_block(block), "Gemini does not know its type")
    return None


def encode_citations(citations: list[Citation], receipt: Receipt) -> dict[str, Any]:
    """`citationMetadata` for citations that have a URL."""
    sources: list[dict[str, Any]] = []
    for citation in citations:
        if citation.url is None:
            receipt.loss("content", "citation", "Gemini can cite URLs only")
            continue
        if citation.quote is not None:
            receipt.loss("content.citations", "quote", "a citation marks a span of the answer and quotes no source")
        fields = {"startIndex": citation.start, "endIndex": citation.end, "uri": citation.url, "title": citation.title}
        sources.append({key: value for key, value in fields.items() if value is not None})
    return {"citationMetadata": {"citationSources": sources}} if sources else {}
