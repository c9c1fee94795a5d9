"""`usage` of Chat Completions <-> `Usage`."""

from __future__ import annotations

from toolglot.dialects.openai_chat.native import NAME
from toolglot.wire.openai_usage import usage_names

_NAMES = usage_names(NAME, "prompt_tokens", "completion_tokens", details_last=True)

decode_usage = _NAMES.decode
encode_usage = _NAMES.encode
