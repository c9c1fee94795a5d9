"""A `response` object <-> `Response`.

A response from this API has the note `$response` and is written back with its original fields. Any other is
completed to what the official clients' types require, including a copy of the request's settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET, Raw, Struct

from toolglot.dialects.openai_responses.blocks import default_members, own_members, without_nulls
from toolglot.dialects.openai_responses.errors import decode_failure
from toolglot.dialects.openai_responses.native import NAME
from toolglot.dialects.openai_responses.output import ItemIds, decode_output_item, encode_output
from toolglot.dialects.openai_responses.request import original_instructions, request_fields
from toolglot.dialects.openai_responses.tools import encode_tool_list
from toolglot.dialects.openai_responses.usage import decode_usage, encode_usage
from toolglot.dialects.openai_responses.wire import OutputItem, ResponseHead
from toolglot.errors import DecodeError, UpstreamError, expected
from toolglot.events import Start
from toolglot.ir import (
    Native,
    Refusal,
    Request,
    Response,
    Stop,
    StopReason,
    ToolCall,
    Usage,
    native_of,
    replace,
)
from toolglot.receipt import Receipt
from toolglot.tools.declared import DECLARED, Tools
from toolglot.wire import json
from toolglot.wire.error_documents import find_error
from toolglot.wire.native import make_native
from toolglot.wire.typed import ValueReader

_STOP_REASONS: dict[str, StopReason] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "length": "length",
    "": "length",  # vLLM gives no reason: its incomplete answers were cut by the limit
    "content_filter": "filtered",
}
_INCOMPLETE_REASONS: dict[StopReason, str] = {
    "length": "max_output_tokens",
    "context_full": "max_output_tokens",
    "filtered": "content_filter",
    "malformed_call": "content_filter",  # an answer of the API has no other reason on which Codex asks again
}

# Settings of the request that a response repeats, and the API's defaults.
_REQUEST_DEFAULTS: dict[str, Any] = {
    "background": False,
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
_ENCODED_DEFAULTS = {key: Raw(json.encode(value)) for key, value in _REQUEST_DEFAULTS.items()}


# Members that add nothing to the IR: they repeat the request, or the end of the response. They become a note.
REDUNDANT_MEMBERS = frozenset(_REQUEST_DEFAULTS) | {
    "completed_at",
    "conversation",
    "error",
    "image",
    "incomplete_details",
    "object",
    "output",
    "prompt",
    "prompt_cache_options",
    "prompt_cache_retention",
    "status",
}

NO_ID = "resp_0"
"""The id of a response that has none. Clients require an id."""


_OUTPUTS = ValueReader(list[OutputItem])


class ResponseEnvelope(Struct, frozen=True):
    """A response object without its output."""

    id: str
    model: str
    created: int | None
    usage: Usage | None
    status: str
    reason: str | None
    native: Native
    service_tier: str | None


def decode_response(data: bytes) -> Response:
    """Decode a response.

    Raises:
        DecodeError: it is not a response.
        UpstreamError: the response failed, or it is an error envelope.
    """
    body = json.decode_answer(data)
    if not _is_completed(body) and (find_error(body) is not None or (isinstance(body, dict) and has_no_answer(body))):
        raise UpstreamError(decode_failure(body))
    if not isinstance(body, dict):
        raise expected("$", "an object", body)
    if "output" not in body:
        raise DecodeError("$.output", "this array is required")
    items = _OUTPUTS.read_value(body.pop("output"), "$.output") if body["output"] else ()
    envelope = decode_envelope(body, "$")
    blocks = [block for place, item in enumerate(items) for block in decode_output_item(item, place)]
    return Response(
        id=envelope.id,
        model=envelope.model,
        content=tuple(blocks),
        stop=decode_stop(
            envelope,
            called=ToolCall in map(type, blocks),
            refused=Refusal in map(type, blocks),
        ),
        usage=envelope.usage,
        created=envelope.created,
        service_tier=envelope.service_tier,
        native=envelope.native,
    )


_ERROR_MEMBERS = frozenset({"fault", "base_resp", "type", "errors"})
"""Members of errors that no response has. If one is present, `find_error` must check it."""


def _is_completed(body: Any) -> bool:
    """Return whether this response certainly ended well: a quick check that nearly all of them pass."""
    if type(body) is not dict or body.get("status") != "completed" or body.get("object") != "response":
        return False
    return not body.get("error") and _ERROR_MEMBERS.isdisjoint(body)


_NO_ANSWER_STATUSES = ("failed", "cancelled", "queued", "in_progress")


def has_no_answer(response: dict[str, Any]) -> bool:
    """Return whether the response failed or is unfinished. An unfinished one is valid if it runs in the background."""
    status = response.get("status")
    return status in list(_NO_ANSWER_STATUSES) and (status == "failed" or response.get("background") is not True)


def decode_envelope(body: dict[str, Any], where: str) -> ResponseEnvelope:
    """Decode a response at this path without its output. The members are consumed; an empty output is noted with the
    rest."""
    lacking = None
    if not body.keys() >= _HEAD_NAMES:
        lacking = [name for name in _HEAD_MEMBERS if name not in body]
    head = _read_head(body, where)
    created = None if head.created_at is UNSET else int(head.created_at)
    if type(head.created_at) is float:
        body["created_at"] = head.created_at  # with a fraction of a second
    details, status, tier = body.get("incomplete_details"), body.get("status"), body.get("service_tier")
    reason = details.get("reason") if isinstance(details, dict) else None
    if body.keys() <= REDUNDANT_MEMBERS:
        redundant, body = body, {}
    else:
        redundant = {name: body.pop(name) for name in list(body) if name in REDUNDANT_MEMBERS}
    return ResponseEnvelope(
        id=head.id or "",
        model=head.model or "",
        created=created,
        usage=None if head.usage is UNSET else decode_usage(head.usage, f"{where}.usage"),
        status=status if isinstance(status, str) else "completed",
        reason=reason if isinstance(reason, str) else None,
        native=make_native(NAME, body, response=redundant, absent=lacking),
        service_tier=tier if isinstance(tier, str) else None,
    )


_HEADS = ValueReader(ResponseHead)
_HEAD_MEMBERS = ("id", "model", "created_at", "usage")
_HEAD_NAMES = frozenset(_HEAD_MEMBERS)
_HEAD_TYPES = (str, str, int, dict)


def _read_head(body: dict[str, Any], where: str) -> ResponseHead:
    """Take the members that the IR understands out of the body. Nulls stay."""
    given = {name: body.pop(name) for name in _HEAD_MEMBERS if body.get(name) is not None}
    if len(given) == len(_HEAD_TYPES) and tuple(map(type, given.values())) == _HEAD_TYPES:
        return ResponseHead(**given)
    return _HEADS.read_value(given, where)


def decode_stop(envelope: ResponseEnvelope, *, called: bool, refused: bool) -> Stop:
    """Decode the stop reason. The wire does not say that the model waits for tool results; the calls imply it."""
    if envelope.status == "incomplete":
        return Stop(_STOP_REASONS.get(envelope.reason or "", "other"), envelope.reason or envelope.status)
    if envelope.status != "completed":
        return Stop("other", envelope.status)
    return Stop("tool_calls" if called else "refusal" if refused else "end", envelope.status)


def repeat_request(request: Request | None) -> dict[str, Any]:
    """Return the settings of the request that the response repeats. They are encoded once, because a stream writes them
    three times.
    """
    if request is None:
        return dict(_ENCODED_DEFAULTS)
    settings = replace(request, messages=(), tools=())
    if (choice := request.tool_choice) is not None and choice.names:  # the tools determine the kind of the choice
        fields = _repeat_settings(replace(settings, tools=request.tools))
    else:
        fields = dict(_cached_settings(settings))
    if (instructions := original_instructions(request)) is not None:
        fields["instructions"] = Raw(json.encode(instructions))
    if tools := request.tools:
        written = DECLARED.write(tools, _REPEATED_TOOLS, _repeat_tools(tools), Receipt())
        if written is not None:
            fields["tools"] = written if type(written) is Raw else Raw(json.encode(written))
    return fields


_REPEATED_TOOLS = f"{NAME} repeated"
_MOST_SETTINGS, _LONGEST_SETTINGS = 64, 4096
_settings: dict[bytes, dict[str, Raw]] = {}
"""Repeated settings by the JSON of the request. A client's settings are nearly always the same."""


def _cached_settings(request: Request) -> dict[str, Raw]:
    key = json.encode(request)
    found = _settings.get(key)
    if found is None:
        found = _repeat_settings(request)
        if len(_settings) >= _MOST_SETTINGS:
            _settings.clear()
        if len(key) <= _LONGEST_SETTINGS:
            _settings[key] = found
    return found


def _repeat_settings(request: Request) -> dict[str, Raw]:
    """Return the repeated settings of a request without conversation."""
    said = request_fields(request, Receipt())
    return {
        name: _ENCODED_DEFAULTS[name] if said.get(name) is None else _encode_repeated(name, said[name])
        for name in _REQUEST_DEFAULTS
    }


def _encode_repeated(name: str, value: Any) -> Raw:
    default = _REQUEST_DEFAULTS[name]
    if isinstance(default, dict) and isinstance(value, dict):
        value = {**default, **value}
    return value if type(value) is Raw else Raw(json.encode(value))


def _repeat_tools(tools: Tools) -> Callable[[Receipt], list[Any]]:
    return lambda receipt: [_repeat_tool(tool) for tool in encode_tool_list(tools, receipt)]


_FUNCTION_DEFAULTS: dict[str, Any] = {"description": None, "parameters": None, "strict": None}
"""Members of a function tool that a response has even if the request left them out."""
_CREDENTIALS = ("authorization", "headers")


def _repeat_tool(tool: Any) -> Any:
    """A tool as a response repeats it. An MCP server's credentials are for this request only: a response, which may be
    stored, does not repeat them."""
    kind = tool.get("type") if isinstance(tool, dict) else None
    if kind == "function":
        return {**tool, **{name: value for name, value in _FUNCTION_DEFAULTS.items() if name not in tool}}
    if kind == "mcp":
        return {name: value for name, value in tool.items() if name not in _CREDENTIALS}
    return tool


def encode_response(response: Response, request: Request | None, receipt: Receipt) -> bytes:
    refused = Refusal in map(type, response.content)
    cut = incomplete_reason(response.stop, refused=refused) is not None
    output = encode_output(response.content, ItemIds(response.id), receipt, cut=cut)
    repeats = repeat_request(request) if is_foreign(response) else {}
    return json.encode(encode_finished(response, output, repeats, receipt, refused=refused))


def is_foreign(response: Response) -> bool:
    return not isinstance(native_of(response, NAME).get("$response"), dict)


def encode_finished(
    response: Response, output: list[Any], repeats: dict[str, Any], receipt: Receipt, *, refused: bool
) -> dict[str, Any]:
    """Encode a finished response with these items. `refused`: one of them has a refusal."""
    usage = encode_usage(response.usage)
    if is_foreign(response):
        head = response_head(response.id, response.created, response.model)
        end = encode_end(response.stop, receipt, refused=refused)
        end["completed_at"] = response.completed if end["status"] == "completed" else None
        return {**head, **end, **repeats, **tier_member(response.service_tier), "output": output, "usage": usage}
    rest = {**native_of(response, NAME)["$response"], **own_members(response)}
    identity = default_members(response, id=response.id, created_at=response.created, model=response.model)
    listed = {"output": output} if output or "output" not in rest else {}
    # The first members of every response have the same order, even if the original had a different one.
    said = {**identity, **rest}
    head = {key: said[key] for key in _FIRST_MEMBERS if key in said}
    last = {"usage": rest.pop("usage")} if "usage" in rest else without_nulls(usage=usage)
    return {**head, **identity, **rest, **listed, **last}


def encode_unfinished(start: Start, repeats: dict[str, Any], output: list[Any], error: Any = None) -> dict[str, Any]:
    """Encode a response that is in progress or has failed."""
    status = {"status": "in_progress" if error is None else "failed", "error": error, "incomplete_details": None}
    said = {**status, "completed_at": None, **repeats, **tier_member(start.service_tier)}
    return {**response_head(start.id, start.created, start.model), **said, "output": output, "usage": None}


def tier_member(tier: str | None) -> dict[str, Any]:
    """Return the member `service_tier`, if the upstream reported it."""
    return {} if tier is None else {"service_tier": tier}


_FIRST_MEMBERS = ("id", "object", "created_at", "model")


def response_head(response_id: str, created: int | None, model: str) -> dict[str, Any]:
    return {"id": response_id or NO_ID, "object": "response", "created_at": created or 0, "model": model}


def encode_end(stop: Stop, receipt: Receipt, *, refused: bool) -> dict[str, Any]:
    """`status`, `error` and `incomplete_details`. A refusal without a refusal part (`refused` is False) is a filtered
    answer."""
    if stop.reason == "pause":
        receipt.loss("stop", "pause", "the Responses API cannot say that the turn must be sent back to continue")
    if stop.sequence is not None:
        receipt.note("stop.sequence", "the stop sequence", "the client's API reports only that one was written")
    reason = incomplete_reason(stop, refused=refused)
    if reason is None:
        return {"status": "completed", "error": None, "incomplete_details": None}
    return {"status": "incomplete", "error": None, "incomplete_details": {"reason": reason}}


def incomplete_reason(stop: Stop, *, refused: bool) -> str | None:
    """Return the reason why the response is incomplete; None if it is complete."""
    return _INCOMPLETE_REASONS.get("filtered" if stop.reason == "refusal" and not refused else stop.reason)
