"""`usage` of the Responses API <-> `Usage`."""

from __future__ import annotations

from typing import Any

from toolglot.dialects.openai_responses.native import NAME
from toolglot.ir import Usage
from toolglot.wire.openai_usage import usage_names

_NAMES = usage_names(NAME, "input_tokens", "output_tokens", tells_lifetimes=True, details_required=True)

decode_usage = _NAMES.decode


def encode_usage(usage: Usage | None) -> dict[str, Any] | None:
    return None if usage is None else _NAMES.encode(usage)
