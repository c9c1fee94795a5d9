"""Responses of `generateContent` <-> `Response`, and functions that streams share."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from msgspec import UNSET, MsgspecError, Raw, Struct, UnsetType
from msgspec.json import Decoder

from toolglot.dialects.gemini.blocks import (
    decode_parts,
    encode_call,
    encode_media,
    encode_result,
    encode_text,
    is_own_cut_call,
    join_signatures,
    keep,
    parts_shape,
    split_signature,
)
from toolglot.dialects.gemini.errors import read_error
from toolglot.dialects.gemini.grounding import (
    MEMBER,
    ORIGINAL,
    keep_grounding,
    read_grounding,
    restore_grounding,
    write_grounding,
)
from toolglot.dialects.gemini.logprobs import AVERAGE, RESULT, average_logprob, read_logprobs, write_logprobs
from toolglot.dialects.gemini.native import NAME
from toolglot.dialects.gemini.usage import decode_usage, encode_usage, tier_of
from toolglot.dialects.gemini.wire import ANSWERS, Candidate, Content, GeminiAnswer
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
from toolglot.wire.bad_arguments import describe_bad_arguments, note_repeated_keys, show_bad_call
from toolglot.wire.citation_spans import cut_span, shift_span, with_span
from toolglot.wire.error_documents import find_error
from toolglot.wire.native import fill_members
from toolglot.wire.structs import as_json, member_reader, members_without
from toolglot.wire.text_separator import separator_between
from toolglot.wire.timestamps import LAST_YEAR, format_utc
from toolglot.wire.typed import UnsoundError

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
    "TOO_MANY_TOOL_CALLS": "malformed_call",  # nothing indicates that the turn can be sent back to continue
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


# Decoding


def decode_response(data: bytes) -> Response:
    """Decode a whole response.

    Raises:
        DecodeError: the document is not a response.
        UpstreamError: the document is an error.
    """
    try:
        return _decode_answer(_read_answer(data))
    except (DecodeError, UnsoundError) as error:
        json.decode_answer(data)  # errors of the JSON itself come first
        if isinstance(error, UnsoundError):
            raise DecodeError("$", "the document cannot be read") from None
        raise


def _read_answer(data: bytes) -> GeminiAnswer:
    try:
        answer = ANSWERS.read(data, factor=json.ANSWER_FACTOR)
    except DecodeError:
        _raise_error(json.decode_answer(data))
        raise
    if answer.rest is not UNSET:
        _raise_error(as_json(answer))
        if (unwrapped := _unwrap_answer(answer, data)) is not None:
            return _read_answer(unwrapped)
    return answer


class _WrappedAnswer(Struct, frozen=True):
    """The form of Code Assist, the API behind Gemini CLI's sign-in: the answer is a member beside its `traceId`."""

    response: dict[str, Raw]


_wrapped_answers = Decoder(_WrappedAnswer)


def _unwrap_answer(answer: GeminiAnswer, data: bytes) -> bytes | None:
    """Return the answer with the members next to it; None if it is not wrapped."""
    if answer.candidates is not UNSET:
        return None
    try:
        wrapped = _wrapped_answers.decode(data)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    beside = {name: value for name, value in as_json(answer).items() if name != "response"}
    return json.encode({**beside, **wrapped.response})


def read_frame(data: bytes) -> Iterator[GeminiAnswer]:
    """Read the answers in one frame of a stream. Some servers send several in an array.

    Raises:
        DecodeError: the frame is not an answer.
        UpstreamError: the frame is an error.
    """
    try:
        answer = ANSWERS.read_frame(data)
    except DecodeError:
        value = json.decode_frame(data)
        _raise_error(value)
        if not isinstance(value, list):
            raise
        for one in json.decode_typed(data, _LIST):
            yield ANSWERS.read_frame(bytes(one))
        return
    if answer.rest is not UNSET:
        _raise_error(as_json(answer))
        if (unwrapped := _unwrap_answer(answer, data)) is not None:
            yield from read_frame(unwrapped)
            return
    yield answer


_LIST = Decoder(list[Raw])


def _raise_error(value: Any) -> None:
    if find_error(value) is not None:
        raise UpstreamError(read_error(value))


def _decode_answer(answer: GeminiAnswer) -> Response:
    candidates, usage = answer.candidates, answer.usage_metadata
    rest = rest_of_answer(answer)
    if answer.response_id == "":
        rest["responseId"] = ""
    if answer.model_version == "":
        rest["modelVersion"] = ""
    feedback = decode_prompt_feedback(rest["promptFeedback"]) if "promptFeedback" in rest else None
    content: tuple[Block, ...] = ()
    stop, notes = feedback, None
    if candidates:
        content, stop, notes, others = _decode_candidate(candidates[0], feedback)
        if others:
            rest["candidate"] = others
        if len(candidates) > 1:
            rest["otherCandidates"] = as_json(candidates[1:])
    counted = None if usage is UNSET or usage is None else decode_usage(usage)
    if stop is None:
        raise DecodeError("$.candidates", "a response needs a candidate, or the reason why its prompt was blocked")
    native = keep(
        rest,
        candidates="absent" if candidates is UNSET else "empty" if not candidates else None,
        candidate=notes,
        usage="absent" if counted is None else None,
    )
    return Response(
        id=answer.response_id or "",
        model=answer.model_version or "",
        created=parse_created_at(answer.create_time),
        content=content,
        stop=stop,
        usage=counted,
        service_tier=tier_of(counted),
        native=native,
    )


def rest_of_answer(answer: GeminiAnswer) -> dict[str, Any]:
    """Return the members of an answer that the IR does not have."""
    rest = _rest_of_answer(answer)
    if answer.usage_metadata is None:
        rest["usageMetadata"] = None
    return rest


_rest_of_answer = member_reader(GeminiAnswer, "candidates", "usageMetadata", "responseId", "modelVersion")
_rest_of_candidate = member_reader(Candidate, "content", "finishReason")


def _decode_candidate(
    candidate: Candidate, feedback: Stop | None
) -> tuple[tuple[Block, ...], Stop, dict[str, Any] | None, dict[str, Any]]:
    """Decode a candidate: its blocks, its stop, notes on its shape, and its other members."""
    rest = _rest_of_candidate(candidate)
    blocks, notes = _decode_candidate_content(candidate.content, rest)
    if RESULT in rest:
        blocks, logprobs = _take_logprobs(rest, blocks)
        if logprobs is not None:
            notes["logprobs"] = logprobs
    if MEMBER in rest:
        blocks = _take_grounding(rest, blocks)
    raw = None if candidate.finish_reason is UNSET else candidate.finish_reason
    message = rest.get("finishMessage") if raw is not None or feedback is None else None
    if message is not None:
        del rest["finishMessage"]
    stop = decode_stop(raw, message, ToolCall in map(type, blocks), feedback)
    if raw is None:
        notes["finish"] = "absent"
    elif raw != _encode_finish(stop):
        notes["finish"] = raw
    if (index := rest.get("index")) is None:
        notes["index"] = "absent"
    elif index == 0:
        del rest["index"]
    return blocks, stop, notes or None, rest


def _decode_candidate_content(
    content: Content | UnsetType, rest: dict[str, Any]
) -> tuple[tuple[Block, ...], dict[str, Any]]:
    """Decode the content: blocks, and notes on the shape. Unknown members go to `rest`."""
    if content is UNSET:
        return (), {"content": "absent"}
    try:
        blocks = join_signatures(decode_parts(content.parts))
    except DecodeError as error:
        raise DecodeError(f"$.candidates[0].content{error.where}", error.what) from None
    role = content.role or ""
    if (content.rest is not UNSET or not role) and (
        others := members_without(content, "parts", *(("role",) if role else ()))
    ):
        rest["content"] = others
    notes: dict[str, Any] = {} if role == "model" else {"role": role}
    if (shape := parts_shape(content)) is not None:
        notes["parts"] = shape
    return blocks, notes


def _take_logprobs(
    candidate: dict[str, Any], blocks: tuple[Block, ...]
) -> tuple[tuple[Block, ...], dict[str, Any] | None]:
    """Move log probabilities from the candidate to the first text. Returns the blocks and the moved members.

    They stay with the candidate if they are invalid or if there is no text.
    """
    tokens = read_logprobs(candidate.get(RESULT))
    at = next((index for index, block in enumerate(blocks) if isinstance(block, Text)), None)
    if tokens is None or at is None:
        return blocks, None
    taken = {key: candidate.pop(key) for key in (RESULT, AVERAGE) if key in candidate}
    return (*blocks[:at], replace(blocks[at], logprobs=tokens), *blocks[at + 1 :]), taken


def _take_grounding(candidate: dict[str, Any], blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Turn the sources of the answer into citations of its texts. The rest stays with the candidate."""
    text, starts = "", list[int | None]()
    for block in blocks:
        starts.append(len(text) if isinstance(block, Text) else None)
        text += block.text if isinstance(block, Text) else ""
    places = [index for index, start in enumerate(starts) if start is not None]
    grounding = read_grounding(candidate[MEMBER], text, starts) if places else None
    if grounding is None:
        return blocks
    keep_grounding(candidate, grounding.rest)
    borders = [starts[index] or 0 for index in places]
    cited: dict[int, list[Citation]] = {}
    for citation in grounding.citations:
        # A source without a span supports the answer as a whole, which ends with its last text.
        number = len(places) if citation.start is None else bisect_right(borders, citation.start)
        cited.setdefault(places[number - 1], []).append(citation)
    return tuple([_cite(block, cited.get(index), starts[index]) for index, block in enumerate(blocks)])


def _cite(block: Block, citations: list[Citation] | None, start: int | None) -> Block:
    if citations is None or start is None or not isinstance(block, Text):
        return block
    return replace(block, citations=tuple([cut_span(shift_span(one, -start), len(block.text)) for one in citations]))


def encode_logprobs(tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
    """Encode the log probabilities of a candidate's text."""
    return {AVERAGE: average_logprob(tokens), RESULT: write_logprobs(tokens)} if tokens else {}


def decode_stop(raw: str | None, message: str | None, called: bool, feedback: Stop | None = None) -> Stop:
    """Decode the reason why the model stopped. Gemini has no reason for tool calls: the calls themselves imply it."""
    if raw is None and feedback is not None:
        return feedback
    reason = FINISH.get(raw or "STOP", "other")
    if reason == "end" and called:
        reason = "tool_calls"
    return Stop(reason, raw, detail=message)


def decode_prompt_feedback(feedback: Any) -> Stop | None:
    """Decode the stop of a prompt that was blocked before the model saw it. None if it was not blocked."""
    reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
    if not isinstance(reason, str):
        return None
    message = feedback.get("blockReasonMessage")
    return Stop("filtered", reason, detail=message if isinstance(message, str) else None)


# Encoding


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
    body |= identity_members(response.model or (request.model if request is not None else ""), response.id, created)
    for key, value in notes.items():
        if not key.startswith("$") and key not in body and key not in ("candidate", "otherCandidates"):
            body[key] = value
    return json.encode(body)


def _encode_plain(content: tuple[Block, ...]) -> list[dict[str, Any]] | None:
    """Encode an answer that has only plain texts and complete calls with valid arguments.

    This is the fast path for nearly all answers. None if a block is of another form, or needs a line in the receipt.
    """
    parts: list[dict[str, Any]] = []
    for block in content:
        if NAME in block.native:
            return None
        if type(block) is Text and not (block.citations or block.logprobs or block.new_message):
            parts.append({"text": block.text})
        elif type(block) is ToolCall and block.complete:
            args = json.object_of(block.arguments)
            if args is None or json.has_repeated_key(block.arguments):
                return None
            identity = {"id": block.id} if block.id else {}
            parts.append({"functionCall": {**identity, "name": block.name, "args": args}})
        else:
            return None
    return parts


def parse_created_at(text: Any) -> int | None:
    """Parse `createTime` to Unix seconds. None if it is invalid."""
    try:
        return int(datetime.fromisoformat(text).timestamp()) if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None


def identity_members(model: str, response_id: str, created: int | None) -> dict[str, Any]:
    """Return the known ones of a response's model, id and creation time."""
    fields: dict[str, Any] = {}
    if model:
        fields["modelVersion"] = model
    if response_id:
        fields["responseId"] = response_id
    if created is not None and 0 <= created <= LAST_YEAR:
        fields["createTime"] = format_utc(created)
    return fields


def _encode_candidate(response: Response, receipt: Receipt) -> dict[str, Any]:
    own = native_of(response, NAME)
    notes, rest = own.get("$candidate", {}), own.get("candidate", {})
    if not notes and not rest and (plain := _encode_plain(response.content)) is not None:
        return {"content": {"parts": plain, "role": "model"}, **encode_stop(response.stop), "index": 0}
    blocks = tuple(_separate_messages(response.content, receipt))
    parts = [
        each
        for index, block in enumerate(blocks)
        if (part := encode_part(block, f"content[{index}]", receipt)) is not None
        for each in split_signature(block, part)
    ]
    content: dict[str, Any] = {}
    if notes.get("parts") != "absent" or parts:
        content["parts"] = parts[0] if notes.get("parts") == "object" and len(parts) == 1 else parts
    if role := notes.get("role", "model"):
        content["role"] = role
    absent = notes.get("content") == "absent" and not parts
    tokens = [token for block in response.content if isinstance(block, Text) for token in block.logprobs]
    return {
        **({} if absent else {"content": fill_members(content, rest.get("content") or {})}),
        **encode_stop(response.stop, notes.get("finish")),
        **({} if ORIGINAL in rest else write_grounding(*_citations_in_answer(blocks), receipt)),
        **(notes["logprobs"] if "logprobs" in notes else encode_logprobs(tokens)),
        **({} if notes.get("index") == "absent" else {"index": 0}),
        **{key: value for key, value in restore_grounding(rest).items() if key != "content" or absent},
    }


SEPARATOR_REASON = "Gemini's clients join all text of an answer; a blank line marks where another message began"


def _separate_messages(content: tuple[Block, ...], receipt: Receipt) -> Iterator[Block]:
    """Insert a blank line before texts that begin a new message."""
    before = ""
    for index, block in enumerate(content):
        if isinstance(block, Text):
            if block.new_message and (gap := separator_between(before, block.text)):
                receipt.note(f"content[{index}]", "text separate from the text before", SEPARATOR_REASON)
                citations = tuple([shift_span(citation, len(gap)) for citation in block.citations])
                yield replace(block, text=gap + block.text, citations=citations)
                before = block.text
                continue
            before = block.text or before
        yield block


def _citations_in_answer(blocks: tuple[Block, ...]) -> tuple[list[Citation], str]:
    """Return all citations, with spans relative to the whole text of the answer; and that text."""
    citations: list[Citation] = []
    texts: list[str] = []
    length = 0
    for block in blocks:
        if isinstance(block, Text):
            citations += [shift_span(with_span(one, len(block.text)), length) for one in block.citations]
            texts.append(block.text)
            length += len(block.text)
    return citations, "".join(texts)


def encode_stop(stop: Stop, noted: str | None = None) -> dict[str, Any]:
    """Encode `finishReason`, unless it is noted as absent, and `finishMessage`."""
    fields = {}
    if noted != "absent":
        fields["finishReason"] = stop.raw if noted is not None and noted == stop.raw else _encode_finish(stop)
    if stop.detail is not None and (noted != "absent" or stop.raw is None):
        fields["finishMessage"] = stop.detail
    return fields


def _encode_finish(stop: Stop) -> str:
    """Return the original reason if it is one of Gemini's, otherwise the nearest one."""
    usual = _FINISH_OF_REASON[stop.reason]
    raw = stop.raw
    if raw is None:
        return usual
    if raw in FINISH:
        return raw if FINISH[raw] == FINISH.get(usual) else usual
    # A reason that is newer than this table counts as Gemini's if it is spelled like one.
    return raw if stop.reason == "other" and raw.isupper() else usual


def encode_part(block: Block, where: str, receipt: Receipt) -> dict[str, Any] | None:
    """Encode one part of an answer. None, with a line in the receipt, if Gemini has no part for the block."""
    match block:
        case Text() | Refusal():
            return encode_text(block)
        case Thinking():
            if not block.text and not native_of(block, NAME):
                receipt.loss(where, "reasoning without text", "only its owner can read it")
                return None
            return encode_text(block)
        case ToolCall():
            args = json.object_of(block.arguments) if block.complete or is_own_cut_call(block) else None
            if args is None and not is_own_cut_call(block):
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
