"""Change a request that an upstream refused for a known reason, so that it can be sent again. Pure.

The features that an API accepts differ by model, version and vendor, and change without notice. If an error names a
rejected feature, the request is rebuilt without it, by the same passes that adapt it to its dialect. They assume that
the target supports less than before, so that they can still express a setting in words. Every change is in the receipt.

Only refusals with one clear remedy have a row. Others go to the client, which knows how to handle them: images for a
model without vision, invalid schemas, histories that are too long.

The result replaces `ExchangeCore.sent`. It is written with the dialect's `encode_request`, not from the original bytes.
Servers name one problem at a time, so the caller may apply remedies to the next refusals too, a few times.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from toolglot.dialect import capabilities
from toolglot.dialects import ByDialect, find
from toolglot.errors import CONTEXT_OVERFLOW, ApiError, ErrorKind
from toolglot.forwarding import OWN_CODES
from toolglot.ir import Request
from toolglot.manifest import load
from toolglot.passes import Context
from toolglot.passes import remedies as fixes
from toolglot.passes.remedies import NO_REMEDIES, Fix, RefusedRequest, Remedies, Remedy, remedy
from toolglot.receipt import Note, Receipt, ReceiptLine
from toolglot.translate import ExchangeCore

MAX_REMEDIES = 3
"""Maximum remedies for one request. Servers that refuse several fields name one at a time."""
MAX_ERROR_CHARS = 8000
"""Maximum characters of an error message that are searched."""


REFUSING_KINDS: frozenset[ErrorKind] = frozenset({"bad_request", "not_found", "server", "overloaded"})
"""Kinds of errors that may be a refusal. Servers answer with any status: Ollama and llama.cpp with 500, OpenRouter with
404. The others are about the caller, or about waiting."""


class RemediedRequest(NamedTuple):
    request: Request
    lines: tuple[ReceiptLine, ...]
    """Receipt lines. Strict mode refuses if one of them is a loss."""

    @property
    def has_loss(self) -> bool:
        return any(line.severity == "loss" for line in self.lines)


# A name as errors quote it: 'x', "x", `x`, x; with a path before it: body.x, tools[0].x, tools.0.x
_PATH = r"[\"'`]?(?<!\w)([A-Za-z_$][\w.$\[\]-]{0,100})[\"'`]?"

VALIDATORS = (remedy(r"['\"]loc['\"]: ?[\[(]|\[type=\w+, input_value=", fixes.fix_fields),)
"""Error lists of validators: vLLM, SGLang, Mistral and everything built on FastAPI."""

GENERAL: tuple[Remedy, ...] = (
    # A list of fields (LiteLLM)
    remedy(r"does not support parameters: \[(?P<listed>[^\]]{1,400})\]", fixes.remove_listed_fields),
    # Reasoning effort
    remedy(r"effort.{1,200}(supported values|must be one of|one of)(?P<values>.{2,200})", fixes.nearest_effort),
    remedy(r"(supported values|must be one of|one of)(?P<values>.{2,200})effort", fixes.nearest_effort),
    remedy(
        r"unsupported value: '(?P<refused>\w+)' is not supported with .{1,80}supported values are:(?P<values>.{2,200})",
        fixes.nearest_effort,
    ),
    remedy(r"level .{1,12} not supported, valid levels:(?P<values>.{2,200})", fixes.nearest_effort),
    remedy(r"invalid (think|reasoning) value.{1,40}must be(?P<values>.{2,200})", fixes.nearest_effort),
    remedy(r"think value .{1,12} is not supported for this model", fixes.remove_fields("effort")),
    remedy(r"thinking level is not supported|adaptive thinking is not supported", fixes.think_by_budget),
    remedy(r"thinking\.type\.enabled\W{1,3}is not supported|thinking budget is not supported", fixes.think_by_effort),
    remedy(r"only works in thinking mode|thinking can(no|')t be disabled", fixes.think_anyway),
    remedy(
        r"thinking is not (enabled|supported)|include_?thoughts is only enabled|does not support thinking",
        fixes.remove_fields("reasoning"),
    ),
    remedy(
        r"does not support (the effort parameter|`?reasoning[_ ]effort)|parameter reasoning_?effort",
        fixes.remove_fields("effort"),
    ),
    remedy(r"verified to (generate|stream) reasoning summar", fixes.remove_fields("summary")),
    # Tool choice
    remedy(r"config is set without function_declarations", fixes.remove_fields("tool_choice")),
    remedy(
        r"tool_?choice.{1,120}(support|must|allowed|may not)|(support|may not|must|cannot).{1,80}tool_?choice",
        fixes.choose_freely,
    ),
    # Output length
    remedy(r"max_tokens: \d+ > (?P<most>\d+)", fixes.write_less),
    remedy(r"supports at most (?P<most>\d+) (completion|output)? ?tokens", fixes.write_less),
    remedy(r"max_?(output_?)?tokens.{1,80}\[1, ?(?P<most>\d+)\]", fixes.write_less),
    remedy(r"max_?output_?tokens.{1,120}to (?P<limit>\d+) \(exclusive\)", fixes.write_less),
    remedy(
        r"max_\w{0,12}tokens\W{1,3}integer above maximum value\. expected a value <= (?P<most>\d+)", fixes.write_less
    ),
    remedy(
        r"integer above maximum value\. expected a value <= (?P<most>\d+)[^\n]{0,200}\nmax_\w{0,12}tokens\b",
        fixes.write_less,
    ),
    remedy(r"max_\w{0,12}tokens\W{1,3}must be less than or equal to \W?(?P<most>\d+)", fixes.write_less),
    remedy(r"maximum tokens you requested exceeds the model limit of (?P<most>\d+)", fixes.write_less),
    remedy(rf"\b{CONTEXT_OVERFLOW}\b", fixes.fit_window),
    # Sampling
    remedy(r"temperature\W.{1,40}and.{1,10}top_p\W.{1,20}cannot both", fixes.one_of_temperature_and_top_p),
    remedy(
        r"temperature\W.{1,60}(less than or equal to |range: -?\d+\.\.)(?P<most>\d+(\.\d+)?)", fixes.lower_temperature
    ),
    remedy(r"\bpenalty is not enabled", fixes.remove_fields("presence_penalty", "frequency_penalty")),
    remedy(r"\blogprobs is not enabled", fixes.remove_fields("logprobs", "top_logprobs")),
    # Message roles (mistral-common #169)
    remedy(r"unexpected role 'user' after role 'tool'", fixes.bridge_results),
    remedy(r"conversation roles must alternate|system message must be at the beginning", fixes.alternate_roles),
    remedy(
        r"(unknown variant|does not support) .?developer|unexpected message role|unexpected role '(system|developer)'"
        r"|developer.{1,20}not supported"
        r"|role.{1,30}does not support .?system|role.{1,6}system.{1,6}is not supported|system role not supported"
        r"|developer instruction is not enabled",
        fixes.other_roles,
    ),
    remedy(r"assistant message prefill|conversation must end with a user", fixes.end_with_user),
    # Schemas of tools (aichat #1049, ha-mcp #2361)
    remedy(r"array schema missing items", fixes.add_items),
    remedy(r"must match json schema draft 2020-12", fixes.modernize_schemas),
    # Media (claude-code #35234, #13131, #8184)
    remedy(
        r"media type, but the image appears to be|image does not match the provided media type"
        r"|media_type: input should be",
        fixes.correct_media_types,
    ),
    # A single field
    remedy(
        r"(unsupported|unknown|unrecognized) (request )?(parameter|argument)s?( supplied)?: " + _PATH,
        fixes.remove_named_field,
    ),
    remedy(r"unsupported value: " + _PATH + " does not support", fixes.remove_named_field),
    remedy(_PATH + r": extra inputs are not permitted", fixes.remove_named_field),
    remedy(r"property " + _PATH + " is unsupported", fixes.remove_named_field),
    remedy(r"unknown name " + _PATH + r"( at '(?P<at>[\w.\[\]]+)')?: cannot find field", fixes.remove_named_field),
    remedy(
        r"(does not support parameter|argument not supported on this model:|unsupported param:) ?" + _PATH,
        fixes.remove_named_field,
    ),
    remedy(
        _PATH + r" (is deprecated|is not supported|may only be set|must be unset|must be greater)",
        fixes.remove_named_field,
    ),
    remedy(r"\b(unsupported_parameter|unknown_parameter|unsupported_value)\b", fixes.remove_named_field),
)
"""The first row that matches and changes something is used. The texts are those of OpenAI, Anthropic, Google, vLLM,
DeepSeek, Mistral, Groq, xAI, Alibaba and GitHub, as quoted in public issues."""


def apply_remedies(
    request: Request, dialect: str, error: ApiError, *, in_advance: bool = False
) -> RemediedRequest | None:
    """Return the request without the parts that this upstream refused; None if no remedy applies.

    Args:
        request: the sent request (`ExchangeCore.sent`).
        dialect: name of the upstream's dialect.
        error: the upstream's answer.
        in_advance: it is the answer to an earlier request; this one was not sent yet.
    """
    if error.kind not in REFUSING_KINDS or error.code in OWN_CODES:
        return None
    text = "\n".join(part for part in (error.message[:MAX_ERROR_CHARS], error.param, error.code) if part)
    text = text.replace("\\", "")  # proxies nest the quoted error of another server
    own = remedies_of(dialect)
    for pattern, fix in (*VALIDATORS, *own.refusals, *GENERAL):
        for match in pattern.finditer(text):
            if (mended := _apply_fix(request, dialect, error, match, fix, own)) is not None:
                what, why = _IN_ADVANCE if in_advance else _AGAIN
                return mended._replace(lines=(*mended.lines, Note("request", what, why)))
    return None


def encode_remedied(exchange: ExchangeCore, error: ApiError) -> bytes | None:
    """Return the exchange's request without the refused parts, as bytes; None if no remedy applies. The receipt says
    what changed. Raises `LossError` if the exchange is strict and something is lost."""
    assert exchange.sent is not None
    remedied = apply_remedies(exchange.sent, exchange.upstream.name, error)
    if remedied is None:
        return None
    exchange.receipt.add(remedied.lines)
    return exchange.resend(remedied.request)


_AGAIN = ("sent a second time", "the upstream refused it as it was")
_IN_ADVANCE = ("changed before it was sent", "the upstream refused an earlier one for the same reason")

_REFERENCES = ByDialect(lambda manifest: manifest.remedies)


def remedies_of(dialect: str) -> Remedies:
    """Return the known refusals of this dialect only."""
    reference = _REFERENCES.get(dialect)
    found: Remedies = NO_REMEDIES if reference is None else load(reference)
    return found


def _apply_fix(
    request: Request, dialect: str, error: ApiError, match: re.Match[str], fix: Fix, own: Remedies
) -> RemediedRequest | None:
    receipt = Receipt()
    # A changed model makes the passes also process requests in the upstream's own dialect.
    context = Context(
        source=dialect, target=dialect, can=capabilities(find(dialect), request.model), receipt=receipt, aliased=True
    )
    changed = fix(RefusedRequest(request, dialect, error, match, context, own))
    if changed == request:
        return None
    return RemediedRequest(changed, tuple(receipt))
