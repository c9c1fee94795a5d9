"""Decodes the body of `POST /v1/responses/input_tokens`, which counts the tokens of a request."""

from __future__ import annotations

from typing import Any

from toolglot.dialect import Counting
from toolglot.dialects.openai_responses.request import decode_request as decode_generation
from toolglot.dialects.openai_responses.request import request_fields
from toolglot.ir import Request
from toolglot.receipt import Receipt
from toolglot.tokens.media import tokens_by_tiles as image_tokens
from toolglot.wire import json
from toolglot.wire.counting import read_count

__all__ = ["COUNTING", "image_tokens"]

# The members of openai's `InputTokenCountParams`; the API refuses any other as an unknown parameter.
_COUNTED_MEMBERS = frozenset(
    {"conversation", "input", "instructions", "model", "parallel_tool_calls", "personality", "previous_response_id"}
    | {"reasoning", "text", "tool_choice", "tools", "truncation"}
)


def path(request: Request) -> str:
    return "/v1/responses/input_tokens"


def decode_request(data: bytes) -> Request:
    """Decode the request. Here `input` may be missing."""
    body = json.decode(data)
    if isinstance(body, dict) and body.get("input") is None:
        data = json.replace_member(data, "input", [])
    return decode_generation(data)


def encode_request(request: Request, receipt: Receipt) -> bytes:
    fields = request_fields(request, receipt)
    # Leave out an empty input: the conversation may be stored on the server.
    return json.encode(
        {key: value for key, value in fields.items() if key in _COUNTED_MEMBERS and (key, value) != ("input", [])}
    )


def encode_count(tokens: int) -> bytes:
    counted: dict[str, Any] = {"object": "response.input_tokens", "input_tokens": tokens}
    return json.encode(counted)


def decode_count(data: bytes) -> int:
    return read_count(data, "input_tokens")


COUNTING = Counting(
    path=path,
    decode_request=decode_request,
    encode_request=encode_request,
    encode_count=encode_count,
    decode_count=decode_count,
    needs_model=False,
)
