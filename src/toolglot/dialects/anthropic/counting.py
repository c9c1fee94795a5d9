"""`POST /v1/messages/count_tokens`: the body of a request without settings that concern only the answer."""

from __future__ import annotations

from toolglot.dialect import Counting
from toolglot.dialects.anthropic import request as messages
from toolglot.ir import Request
from toolglot.receipt import Receipt
from toolglot.tokens.media import tokens_by_area as image_tokens
from toolglot.wire import json
from toolglot.wire.counting import read_count, select_members

__all__ = ["COUNTING", "image_tokens"]

# The members of anthropic's `MessageCountTokensParams` and its beta twin. The API refuses others, also `max_tokens`.
_TAKEN = frozenset(
    {"cache_control", "compaction", "context_management", "mcp_servers", "messages", "model", "output_config"}
    | {"speed", "system", "thinking", "tool_choice", "tools"}
)


def path(request: Request) -> str:
    return "/v1/messages/count_tokens"


def encode_request(request: Request, receipt: Receipt) -> bytes:
    return select_members(messages.encode_request(request, receipt), _TAKEN)


def encode_count(tokens: int) -> bytes:
    return json.encode({"input_tokens": tokens})


def decode_count(data: bytes) -> int:
    return read_count(data, "input_tokens")


COUNTING = Counting(
    path=path,
    decode_request=messages.decode_request,
    encode_request=encode_request,
    encode_count=encode_count,
    decode_count=decode_count,
)
