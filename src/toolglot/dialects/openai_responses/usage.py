"""`usage` of the Responses API <-> `Usage`."""

from __future__ import annotations

from typing import Any

from toolglot.dialects.openai_responses.native import NAME
from toolglot.ir import Usage
from toolglot.wire.openai_usage import usage_names

_INPUT, _OUTPUT = "input_tokens", "output_tokens"
_NAMES = usage_names(NAME, _INPUT, _OUTPUT, tells_lifetimes=True, details_required=True)
_OTHER_NAMES = usage_names(NAME, "prompt_tokens", "completion_tokens")
"""The names of Chat Completions, which servers that imitate both APIs may use here. Clients get those of this API."""


def decode_usage(usage: Any, where: str = "$.usage") -> Usage:
    if type(usage) is dict and "completion_tokens" in usage and usage.keys().isdisjoint((_INPUT, _OUTPUT)):
        return _OTHER_NAMES.decode(usage, where)
    return _NAMES.decode(usage, where)


def encode_usage(usage: Usage | None) -> dict[str, Any] | None:
    return None if usage is None else _NAMES.encode(usage)
