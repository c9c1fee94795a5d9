"""Errors whose message is more specific than their status and code: unpaid bills, requests above a token limit,
conversations that a chat template refuses.

Dialects call `recognize_error` on each error that they read. It corrects the kind, which determines whether a request
is retried and which error of its own API the client gets. The texts are those of the vendors, as users quote them in
public reports.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from toolglot.errors import REQUEST_TOO_LARGE, STATUS, ApiError, ErrorKind
from toolglot.ir import replace
from toolglot.wire.context_overflow import LONGEST_TEXT, recognize_overflow

_KINDS: frozenset[ErrorKind] = frozenset({"bad_request", "permission", "rate_limit", "too_large", "server"})
"""Kinds whose message is searched. The others have a code of their own."""


class KnownError(NamedTuple):
    """A vendor's wording and the kind of error that it means."""

    vendor: str
    pattern: re.Pattern[str]
    kind: ErrorKind


def _row(vendor: str, pattern: str, kind: ErrorKind) -> KnownError:
    return KnownError(vendor, re.compile(pattern, re.IGNORECASE), kind)


KNOWN_ERRORS: tuple[KnownError, ...] = (
    # One request has more tokens than the budget of a minute: waiting never helps.
    _row("Groq, OpenAI", r"request too large for .{1,200}\btokens per min(?:ute)? \(TPM\)", "too_large"),
    _row("Anthropic", r"credit balance is too low", "billing"),  # status 400
    _row("Anthropic", r"reached your specified API usage limits", "billing"),  # status 400
    _row("DeepSeek, Z.ai", r"insufficient (?:account )?balance", "billing"),  # DeepSeek 402, Z.ai 429
    _row("SiliconFlow", r"account balance is insufficient", "billing"),  # status 403
    _row("OpenRouter", r"requires more credits|insufficient credits", "billing"),  # status 402
    _row("xAI", r"used all available credits|doesn't have any credits", "billing"),  # status 403
    # A chat template refuses the conversation: Ollama and llama.cpp answer that with status 500 (ollama #17774).
    _row("llama.cpp, LM Studio", r"\bjinja (?:exception|template)", "bad_request"),
    _row("Ollama", r"system message must be at the beginning", "bad_request"),
    _row("Mistral, llama.cpp", r"conversation roles must alternate|unexpected role '\w+' after role", "bad_request"),
)


def recognize_error(error: ApiError, members: Mapping[str, Any] | None = None) -> ApiError:
    """Correct the kind of an error by its message, and add the code and counts of a context overflow if it is one.

    Args:
        error: the error that the dialect read.
        members: the error object of the wire, which has the vendor's codes, types and counts.
    """
    return recognize_overflow(_correct_kind(error), members)


def _correct_kind(error: ApiError) -> ApiError:
    if error.kind not in _KINDS:
        return error
    text = error.message[:LONGEST_TEXT]
    kind = next((known.kind for known in KNOWN_ERRORS if known.pattern.search(text)), None)
    if kind is None or kind == error.kind:
        return error
    if kind == "too_large":
        # The vendor's status and code are those of a rate limit, and clients would wait and retry.
        return replace(error, kind=kind, status=STATUS[kind], code=REQUEST_TOO_LARGE)
    if error.kind == "server":
        # With the status, code and type of a server's failure, clients would retry.
        return replace(error, kind=kind, status=STATUS[kind], code=None, native={owner: {} for owner in error.native})
    return replace(error, kind=kind)
