"""A `response` object <-> `Response`.

A response that came from this API notes it (`$response`) and is written back with the fields it had. For any other
the object is filled up to what the official clients' types demand, with the client's own request repeated in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET, Raw, Struct

from toolglot.dialects.openai_responses.blocks import filled, own, present
from toolglot.dialects.openai_responses.errors import decode_failure
from toolglot.dialects.openai_responses.native import NAME
from toolglot.dialects.openai_responses.output import ItemIds, decode_output_item, encode_output
from toolglot.dialects.openai_responses.request import instructions_of, request_fields
from toolglot.dialects.openai_responses.tools import encode_list
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

_REASONS: dict[str, StopReason] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "length": "length",
    "": "length",  # vLLM tells no reason: its answers are incomplete where the limit has cut them
    "content_filter": "filtered",
}
_DETAILS: dict[StopReason, str] = {
    "length": "max_output_tokens",
    "context_full": "max_output_tokens",
    "filtered": "content_filter",
}

# What a response repeats of its request, and what the API puts there when the request was silent.
_REPEATED: dict[str, Any] = {
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
_SILENT = {key: Raw(json.encode(value)) for key, value in _REPEATED.items()}


# What says nothing that the IR does not: it repeats the request, or the end of the response. It is a note on shape.
TOLD = frozenset(_REPEATED) | {
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
"""The id of a response that came without one: clients demand that there is one."""


_OUTPUTS = ValueReader(list[OutputItem])


class Envelope(Struct, frozen=True):
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
    """The response in this document.

    Raises:
        DecodeError: it is not a response.
        UpstreamError: it is one that failed, or an error envelope.
    """
    body = json.decode_answer(data)
    if not _is_completed(body) and (find_error(body) is not None or (isinstance(body, dict) and is_no_answer(body))):
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
"""Members of errors that are none of a response, and whose value tells whether it is one."""


def _is_completed(body: Any) -> bool:
    """Is this surely a response that has ended well? One look at what nearly all of them say."""
    if type(body) is not dict or body.get("status") != "completed" or body.get("object") != "response":
        return False
    return not body.get("error") and _ERROR_MEMBERS.isdisjoint(body)


_NO_ANSWER = ("failed", "cancelled", "queued", "in_progress")


def is_no_answer(response: dict[str, Any]) -> bool:
    """Did it fail, or is it not there yet? One in the background is, for the client that asked for that."""
    status = response.get("status")
    return status in list(_NO_ANSWER) and (status == "failed" or response.get("background") is not True)


def decode_envelope(body: dict[str, Any], where: str) -> Envelope:
    """A response at this path without its output. The members are consumed; an empty output is noted with the rest."""
    lacking = None
    if not body.keys() >= _HEAD_NAMES:
        lacking = [name for name in _HEAD_MEMBERS if name not in body]
    head = _read_head(body, where)
    created = None if head.created_at is UNSET else int(head.created_at)
    if type(head.created_at) is float:
        body["created_at"] = head.created_at  # with a fraction of a second
    details, status, tier = body.get("incomplete_details"), body.get("status"), body.get("service_tier")
    reason = details.get("reason") if isinstance(details, dict) else None
    if body.keys() <= TOLD:
        told, body = body, {}
    else:
        told = {name: body.pop(name) for name in list(body) if name in TOLD}
    return Envelope(
        id=head.id or "",
        model=head.model or "",
        created=created,
        usage=None if head.usage is UNSET else decode_usage(head.usage, f"{where}.usage"),
        status=status if isinstance(status, str) else "completed",
        reason=reason if isinstance(reason, str) else None,
        native=make_native(NAME, body, response=told, absent=lacking),
        service_tier=tier if isinstance(tier, str) else None,
    )


_HEADS = ValueReader(ResponseHead)
_HEAD_MEMBERS = ("id", "model", "created_at", "usage")
_HEAD_NAMES = frozenset(_HEAD_MEMBERS)
_HEAD_TYPES = (str, str, int, dict)


def _read_head(body: dict[str, Any], where: str) -> ResponseHead:
    """The members that have a meaning elsewhere, taken out of the body. Nulls stay."""
    given = {name: body.pop(name) for name in _HEAD_MEMBERS if body.get(name) is not None}
    if len(given) == len(_HEAD_TYPES) and tuple(map(type, given.values())) == _HEAD_TYPES:
        return ResponseHead(**given)
    return _HEADS.read_value(given, where)


def decode_stop(envelope: Envelope, *, called: bool, refused: bool) -> Stop:
    """Why the model stopped. No word on the wire says that it waits for tool results: the calls themselves do."""
    if envelope.status == "incomplete":
        return Stop(_REASONS.get(envelope.reason or "", "other"), envelope.reason or envelope.status)
    if envelope.status != "completed":
        return Stop("other", envelope.status)
    return Stop("tool_calls" if called else "refusal" if refused else "end", envelope.status)


def repeated(request: Request | None) -> dict[str, Any]:
    """What the response says of its request, encoded once: a stream writes it three times."""
    if request is None:
        return dict(_SILENT)
    settings = replace(request, messages=(), tools=())
    if (choice := request.tool_choice) is not None and choice.names:  # whose kind the tools tell
        fields = _repeat_settings(replace(settings, tools=request.tools))
    else:
        fields = dict(_known_settings(settings))
    if (instructions := instructions_of(request)) is not None:
        fields["instructions"] = Raw(json.encode(instructions))
    if tools := request.tools:
        written = DECLARED.write(tools, _REPEATED_TOOLS, _repeat_tools(tools), Receipt())
        if written is not None:
            fields["tools"] = written if type(written) is Raw else Raw(json.encode(written))
    return fields


_REPEATED_TOOLS = f"{NAME} repeated"
_MOST_SETTINGS, _LONGEST_SETTINGS = 64, 4096
_settings: dict[bytes, dict[str, Raw]] = {}
"""What responses repeat of settings, by their JSON: a client's are nearly always the same."""


def _known_settings(request: Request) -> dict[str, Raw]:
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
    """What the response says of a request without conversation."""
    said = request_fields(request, Receipt())
    return {name: _SILENT[name] if said.get(name) is None else _repeat(name, said[name]) for name in _REPEATED}


def _repeat(name: str, value: Any) -> Raw:
    default = _REPEATED[name]
    if isinstance(default, dict) and isinstance(value, dict):
        value = {**default, **value}
    return value if type(value) is Raw else Raw(json.encode(value))


def _repeat_tools(tools: Tools) -> Callable[[Receipt], list[Any]]:
    return lambda receipt: [_repeat_tool(tool) for tool in encode_list(tools, receipt)]


_OF_FUNCTION: dict[str, Any] = {"description": None, "parameters": None, "strict": None}
"""The members of a function tool that a response repeats also where the request left them out."""
_CREDENTIALS = ("authorization", "headers")


def _repeat_tool(tool: Any) -> Any:
    """A tool as a response repeats it. An MCP server's credentials are for this one request: a response, which may be
    stored, does not repeat them."""
    kind = tool.get("type") if isinstance(tool, dict) else None
    if kind == "function":
        return {**tool, **{name: value for name, value in _OF_FUNCTION.items() if name not in tool}}
    if kind == "mcp":
        return {name: value for name, value in tool.items() if name not in _CREDENTIALS}
    return tool


def encode_response(response: Response, request: Request | None, receipt: Receipt) -> bytes:
    refused = Refusal in map(type, response.content)
    cut = incomplete_reason(response.stop, refused=refused) is not None
    output = encode_output(response.content, ItemIds(response.id), receipt, cut=cut)
    repeats = repeated(request) if is_foreign(response) else {}
    return json.encode(finished(response, output, repeats, receipt, refused=refused))


def is_foreign(response: Response) -> bool:
    return not isinstance(native_of(response, NAME).get("$response"), dict)


def finished(
    response: Response, output: list[Any], repeats: dict[str, Any], receipt: Receipt, *, refused: bool
) -> dict[str, Any]:
    """The object of a response that has ended, with these items; whether a refusal is among them, its writer knows."""
    usage = encode_usage(response.usage)
    if is_foreign(response):
        head = response_head(response.id, response.created, response.model)
        end = ending(response.stop, receipt, refused=refused)
        end["completed_at"] = response.completed if end["status"] == "completed" else None
        return {**head, **end, **repeats, **served_by(response.service_tier), "output": output, "usage": usage}
    rest = {**native_of(response, NAME)["$response"], **own(response)}
    identity = filled(response, id=response.id, created_at=response.created, model=response.model)
    listed = {"output": output} if output or "output" not in rest else {}
    # The members that every response begins with stand in the same order, whoever wrote it first.
    said = {**identity, **rest}
    head = {key: said[key] for key in _HEAD if key in said}
    last = {"usage": rest.pop("usage")} if "usage" in rest else present(usage=usage)
    return {**head, **identity, **rest, **listed, **last}


def unfinished(start: Start, repeats: dict[str, Any], output: list[Any], error: Any = None) -> dict[str, Any]:
    """The object of a response that is still being made, or that failed on the way."""
    status = {"status": "in_progress" if error is None else "failed", "error": error, "incomplete_details": None}
    said = {**status, "completed_at": None, **repeats, **served_by(start.service_tier)}
    return {**response_head(start.id, start.created, start.model), **said, "output": output, "usage": None}


def served_by(tier: str | None) -> dict[str, Any]:
    """The service tier, where the upstream tells it."""
    return {} if tier is None else {"service_tier": tier}


_HEAD = ("id", "object", "created_at", "model")


def response_head(response_id: str, created: int | None, model: str) -> dict[str, Any]:
    return {"id": response_id or NO_ID, "object": "response", "created_at": created or 0, "model": model}


def ending(stop: Stop, receipt: Receipt, *, refused: bool) -> dict[str, Any]:
    """`status`, `error` and `incomplete_details`. A refusal without a refusal part (`refused`) is a filtered answer."""
    if stop.reason == "pause":
        receipt.loss("stop", "pause", "the Responses API cannot say that a turn is to be sent back to go on")
    if stop.sequence is not None:
        receipt.note("stop.sequence", "the stop sequence", "the client's API tells only that one was written")
    reason = incomplete_reason(stop, refused=refused)
    if reason is None:
        return {"status": "completed", "error": None, "incomplete_details": None}
    return {"status": "incomplete", "error": None, "incomplete_details": {"reason": reason}}


def incomplete_reason(stop: Stop, *, refused: bool) -> str | None:
    """Why the response is incomplete; None when it is not."""
    return _DETAILS.get("filtered" if stop.reason == "refusal" and not refused else stop.reason)
