"""`usage` of Chat Completions <-> `Usage`."""

from __future__ import annotations

from typing import Any

from toolglot.dialects.openai_chat.native import NAME
from toolglot.ir import Usage
from toolglot.wire.openai_usage import usage_names
from toolglot.wire.usage import unchanged_original

_INPUT, _OUTPUT = "prompt_tokens", "completion_tokens"
_NAMES = usage_names(NAME, _INPUT, _OUTPUT, details_last=True)
_OTHER_NAMES = usage_names(NAME, "input_tokens", "output_tokens")
"""The names of the Responses API, which mlx-vlm and others use here (earendil-works/pi #2326)."""


def decode_usage(usage: Any, where: str = "$.usage") -> Usage:
    if type(usage) is dict and "output_tokens" in usage and usage.keys().isdisjoint((_INPUT, _OUTPUT)):
        return _OTHER_NAMES.decode(usage, where)
    return _NAMES.decode(usage, where)


def encode_usage(usage: Usage) -> dict[str, Any]:
    return (NAME in usage.native and unchanged_original(usage, NAME, decode_usage)) or _NAMES.encode(usage)
