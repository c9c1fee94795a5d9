"""Context overflow: the error texts with which vendors say that a conversation exceeds the model's context window.

Agents compact a conversation only if they recognize this error, and each knows the wording of its own API. Dialects
call `recognize_overflow` on each error that they read, so that the error carries one code and the token counts. Each
dialect writes them in the form that its clients look for.

The texts are those of the servers, from their sources or from public reports of their users.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from toolglot.errors import CONTEXT_OVERFLOW, STATUS, ApiError, ContextOverflow, ErrorKind
from toolglot.ir import replace

LONGEST_TEXT = 8000
"""Maximum characters of a message that are searched."""

# Codes and types that always mean an overflow.
_CODES = frozenset(
    {
        CONTEXT_OVERFLOW,  # OpenAI, Groq, Azure, Together and most imitators
        "exceed_context_size_error",  # llama.cpp
        "model_context_window_exceeded",  # Z.ai
        "tokens_limit_reached",  # GitHub Models
        "context_window_exceeded",
        "ContextWindowExceededError",  # LiteLLM
    }
)

_KINDS: frozenset[ErrorKind] = frozenset({"bad_request", "too_large", "server"})
"""Kinds of errors whose message is searched. Rate limits also count tokens, but waiting helps against those. Some
servers (llama.cpp, LM Studio, Ollama) answer an overflow with status 500."""

# Members with the counts (llama.cpp).
_INPUT_MEMBER, _LIMIT_MEMBER = "n_prompt_tokens", "n_ctx"


class OverflowPattern(NamedTuple):
    """One server's wording. The groups `input`, `tools`, `output`, `total` and `limit` are token counts."""

    vendor: str
    pattern: re.Pattern[str]


def _pattern(vendor: str, text: str) -> OverflowPattern:
    """Compile a pattern. `<input>` in the text matches a token count; the rest is a regular expression."""
    pattern = re.sub(r"<(input|tools|output|total|limit)>", r"(?P<\1>\\d[\\d,]{0,14})", text)
    return OverflowPattern(vendor, re.compile(pattern, re.IGNORECASE))


_MAXIMUM = r"maximum context length is <limit> tokens"

OVERFLOW_PATTERNS: tuple[OverflowPattern, ...] = (
    _pattern("Anthropic", r"prompt is too long: <input> tokens > <limit>"),
    _pattern("Anthropic", r"input length and `?max_tokens`? exceed context limit: <input> \+ <output> > <limit>"),
    _pattern("Fireworks", r"prompt is too long: <input>, model maximum context length: <limit>"),
    _pattern(
        "OpenAI, DeepSeek, vLLM",
        _MAXIMUM + r"[.,] however,? (?:you requested|your messages resulted in) <total> tokens"
        r" \(<input> in (?:the messages|your prompt)(?:[,;] <tools> in the functions)?"
        r"(?:[,;] <output> (?:in|for) the completion)?\)",
    ),
    _pattern("OpenAI, DeepSeek", _MAXIMUM + r"[.,] however,? your messages resulted in <input> tokens"),
    _pattern(
        "OpenRouter",
        _MAXIMUM + r"[.,] however,? you requested about <total> tokens"
        r" \(<input> of (?:text )?input(?:, <tools> of tool input)?(?:, <output> in the output)?",
    ),
    _pattern("OpenAI, DeepSeek, vLLM", _MAXIMUM + r"[.,] however,? you requested (?:about )?<total> tokens"),
    _pattern("vLLM", _MAXIMUM + r" and your request has <input> input tokens(?: \(<output> >)?"),
    _pattern("vLLM", _MAXIMUM + r"[.,] however,? your (?:request has|prompt contains)(?: at least)? <input> input"),
    _pattern(
        "vLLM",
        _MAXIMUM
        + r"[.,] however,? you requested <output> output tokens and your prompt contains(?: at least)? <input>",
    ),
    _pattern("vLLM", r"prompt \((?:total )?length <input>\) is longer than the maximum model length of <limit>"),
    _pattern("vLLM", r"prompt \(<input> tokens\) is too long and exceeds limit of <limit>"),
    _pattern("vLLM", r"longer than the maximum model length"),
    _pattern("SGLang", r"input \(<input> tokens\) is longer than the model'?s context length \(<limit> tokens\)"),
    _pattern(
        "SGLang",
        r"maximum context length of <limit> tokens\. you requested a total of <total> tokens: <input> tokens from the"
        r" input messages and <output> tokens for the completion",
    ),
    _pattern("SGLang", r"input length \(<input> tokens\) exceeds the maximum allowed length \(<limit> tokens\)"),
    _pattern("Poolside", r"input length <input> exceeds the maximum allowed input length of <limit>"),
    _pattern(
        "OpenAI's imitators", r"input length \(<input>\) exceeds (?:the )?model'?s maximum context length \(<limit>\)"
    ),
    _pattern(
        "SambaNova",
        r"maximum context length of \S{1,200} is <limit>\. however, answering your request will take <total>",
    ),
    _pattern("TabbyAPI", r"(?:request|prompt) length <input>(?: \+ <output>)? is greater than max_seq_len <limit>"),
    _pattern("Atlas", r"prompt too long: <input> tokens exceeds max_seq_len <limit>"),
    _pattern("llama.cpp", r"\(<input> tokens\) exceeds the available context size \(<limit> tokens\)"),
    _pattern("llama.cpp", r"exceeds the available context size|context size has been exceeded"),
    _pattern("llama-cpp-python", r"requested tokens \(<input>\) exceed context window of <limit>"),
    _pattern("LM Studio", r"\(n_keep: <input> ?>=? ?n_ctx: <limit>\)"),
    _pattern("LM Studio", r"keep the first <input> tokens when .{1,30}overflows.{1,80}context length of only <limit>"),
    _pattern("LM Studio", r"initial prompt is greater than the context length"),
    _pattern("Ollama", r"prompt too long; exceeded (?:max )?context length"),
    _pattern("Ollama", r"input length exceeds (?:the |maximum )?context length"),
    _pattern("Google", r"input token count \(<input>\) exceeds the maximum number of tokens allowed \(<limit>\)"),
    _pattern("Google", r"token count.{0,40}exceeds the maximum number of tokens allowed(?: \(?<limit>)?"),
    _pattern("Google Vertex AI", r"input token count is <input> but (?:the )?model only supports up to <limit>"),
    _pattern(
        "Amazon Bedrock", r"too many input tokens\. max input tokens: <limit>, request input token count: <input>"
    ),
    _pattern("Amazon Bedrock", r"input is too long for requested model|input tokens exceeded: "),
    _pattern("Mistral", r"prompt contains <input> tokens.{0,80}too large for model with <limit> maximum context"),
    _pattern("Mistral", r"too large for model with <limit> maximum context length"),
    _pattern(
        "Cerebras",
        r"reduce the length of the messages or completion\. current length is <input> while limit is <limit>",
    ),
    _pattern("Groq", r"reduce the length of the messages or completion"),
    _pattern("xAI", r"maximum prompt length is <limit> but the request contains <input> tokens"),
    _pattern(
        "Azure", r"input tokens exceed the configured limit of <limit> tokens\. your messages resulted in <input>"
    ),
    _pattern("OpenAI", r"(?:input|prompt|request) exceeds the context window|input tokens exceed the configured limit"),
    _pattern("GitHub Copilot", r"prompt token count of <input> exceeds the limit of <limit>"),
    _pattern("GitHub Models", r"request body too large for .{1,80} model\. max size: <limit> tokens"),
    _pattern("Moonshot", r"exceeded model token limit: <limit> \(requested: <input>\)"),
    _pattern("Moonshot", r"exceeded model token limit|input token length too long"),
    _pattern("MiniMax", r"context window exceeds limit"),
    _pattern("Z.ai", r"prompt exceeds max length|tokens in request more than max tokens allowed"),
    _pattern("Alibaba", r"range of input length should be \[\d+, ?<limit>\]"),
    _pattern(
        "TGI, Together",
        r"`inputs` tokens \+ `max_new_tokens` must be <= <limit>\. given: <input> `inputs` tokens and <output>",
    ),
    _pattern("TGI, Together", r"`inputs` must have less than <limit> tokens\. given: <input>"),
    _pattern("Cohere", r"number of tokens in the prompt cannot exceed <limit> - received <input>"),
    _pattern("Cohere", r"too many tokens: .{0,80}limit exceeded by"),
    _pattern("LiteLLM", r"ContextWindowExceededError"),
    # Wordings that many imitators share
    _pattern("others", r"maximum context (?:length|limit|window)|(?:context_length|context length) exceeded"),
    _pattern("others", r"prompt is too long|exceeds? (?:the )?(?:model'?s )?context (?:window|length|size|limit)"),
)
"""The first match wins. Patterns with counts come before those without."""


def recognize_overflow(error: ApiError, members: Mapping[str, Any] | None = None) -> ApiError:
    """Add the code and the counts of a context overflow to an error, if any vendor's wording matches.

    Args:
        error: the error that the dialect read.
        members: the error object of the wire, which has the vendor's codes, types and counts.
    """
    fields = members or {}
    words = (error.code, fields.get("code"), fields.get("type"))
    coded = any(word in _CODES for word in words if isinstance(word, str))
    if not coded and error.kind not in _KINDS:
        return error
    found = _read_counts(error.message[:LONGEST_TEXT])
    if found is None and not coded:
        return error
    overflow = found or ContextOverflow()
    if overflow.limit is None:
        overflow = ContextOverflow(
            input_tokens=_count(fields.get(_INPUT_MEMBER)), limit=_count(fields.get(_LIMIT_MEMBER))
        )
    # With another status, clients would retry, or assume that a file is too large.
    kind: ErrorKind = "bad_request"
    return replace(error, kind=kind, status=STATUS[kind], code=CONTEXT_OVERFLOW, overflow=overflow)


def _read_counts(text: str) -> ContextOverflow | None:
    """Return the counts in a message; None if no pattern matches."""
    for overflow in OVERFLOW_PATTERNS:
        if (match := overflow.pattern.search(text)) is not None:
            counts = {name: int(value.replace(",", "")) for name, value in match.groupdict().items() if value}
            sent = counts["input"] + counts.get("tools", 0) if "input" in counts else counts.get("total")
            return ContextOverflow(input_tokens=sent, output_tokens=counts.get("output"), limit=counts.get("limit"))
    return None


def _count(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None
