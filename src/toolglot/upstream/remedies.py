"""Change a request that an upstream refused for a known reason, so that it can be sent again. Pure.

What an API accepts differs by model, version and vendor, and changes without notice. If a 400 says what is not
accepted, the request is rebuilt without it, by the same passes that adapt it to its dialect. They are told that the
target supports less than assumed, so that they can still express a wish in words. Every change is in the receipt.

Only refusals with one clear remedy have a row. Others go to the client, which alone knows what to do: images for a
model without vision, invalid schemas, histories that are too long.

The result replaces `Exchange.sent`. It is written with the dialect's `encode_request`, not from the original bytes.
Apply once: a second refusal goes to the client.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from toolglot.dialect import capabilities
from toolglot.dialects import ByDialect, find
from toolglot.errors import CONTEXT_OVERFLOW, ApiError
from toolglot.ir import Request
from toolglot.manifest import load
from toolglot.passes import Context
from toolglot.passes import remedies as fixes
from toolglot.passes.remedies import NO_REMEDIES, Fix, RefusedRequest, Remedies, Remedy, remedy
from toolglot.receipt import Loss, Receipt

MAX_ERROR_CHARS = 8000
"""Characters of an error message that are searched."""


class RemediedRequest(NamedTuple):
    request: Request
    lines: tuple[Loss, ...]
    """Receipt lines. Strict mode refuses if one of them is a loss."""


# A name as errors quote it: 'x', "x", `x`, x; with a path before it: body.x, tools[0].x, tools.0.x
_PATH = r"[\"'`]?(?<!\w)([A-Za-z_$][\w.$\[\]-]{0,100})[\"'`]?"

VALIDATORS = (remedy(r"['\"]loc['\"]: ?[\[(]|\[type=\w+, input_value=", fixes.fix_fields),)
"""Error lists of validators: vLLM, SGLang, Mistral and everything built on FastAPI."""

GENERAL: tuple[Remedy, ...] = (
    # Reasoning effort
    remedy(r"effort.{1,200}(supported values|must be one of|one of)(?P<values>.{2,200})", fixes.nearest_effort),
    remedy(r"(supported values|must be one of|one of)(?P<values>.{2,200})effort", fixes.nearest_effort),
    remedy(
        r"unsupported value: '(?P<refused>\w+)' is not supported with .{1,80}supported values are:(?P<values>.{2,200})",
        fixes.nearest_effort,
    ),
    remedy(r"level .{1,12} not supported, valid levels:(?P<values>.{2,200})", fixes.nearest_effort),
    remedy(r"invalid (think|reasoning) value.{1,40}must be(?P<values>.{2,200})", fixes.nearest_effort),
    remedy(r"think value .{1,12} is not supported for this model", fixes.without("effort")),
    remedy(r"thinking level is not supported|adaptive thinking is not supported", fixes.think_by_budget),
    remedy(r"thinking\.type\.enabled\W{1,3}is not supported|thinking budget is not supported", fixes.think_by_effort),
    remedy(r"only works in thinking mode|thinking can(no|')t be disabled", fixes.think_anyway),
    remedy(
        r"thinking is not (enabled|supported)|include_?thoughts is only enabled|does not support thinking",
        fixes.without("reasoning"),
    ),
    remedy(
        r"does not support (the effort parameter|`?reasoning[_ ]effort)|parameter reasoning_?effort",
        fixes.without("effort"),
    ),
    remedy(r"verified to (generate|stream) reasoning summar", fixes.without("summary")),
    # Tool choice
    remedy(r"config is set without function_declarations", fixes.without("tool_choice")),
    remedy(
        r"tool_?choice.{1,120}(support|must|allowed|may not)|(support|may not|must|cannot).{1,80}tool_?choice",
        fixes.choose_freely,
    ),
    # Output length
    remedy(r"max_tokens: \d+ > (?P<most>\d+)", fixes.write_less),
    remedy(r"supports at most (?P<most>\d+) (completion|output)? ?tokens", fixes.write_less),
    remedy(r"max_?(output_?)?tokens.{1,80}\[1, ?(?P<most>\d+)\]", fixes.write_less),
    remedy(r"max_?output_?tokens.{1,120}to (?P<limit>\d+) \(exclusive\)", fixes.write_less),
    remedy(rf"\b{CONTEXT_OVERFLOW}\b", fixes.fit_window),
    # Sampling
    remedy(r"temperature\W.{1,40}and.{1,10}top_p\W.{1,20}cannot both", fixes.one_of_temperature_and_top_p),
    remedy(r"temperature\W.{1,60}(less than or equal to |range: -?\d+\.\.)(?P<most>\d+(\.\d+)?)", fixes.cool),
    remedy(r"\bpenalty is not enabled", fixes.without("presence_penalty", "frequency_penalty")),
    remedy(r"\blogprobs is not enabled", fixes.without("logprobs", "top_logprobs")),
    # Message roles
    remedy(
        r"(unknown variant|does not support) .?developer|unexpected message role|developer.{1,20}not supported"
        r"|role.{1,30}does not support .?system|role.{1,6}system.{1,6}is not supported|system role not supported"
        r"|system message must be at the beginning|developer instruction is not enabled",
        fixes.other_roles,
    ),
    remedy(r"assistant message prefill|conversation must end with a user", fixes.end_with_user),
    # A single field
    remedy(r"(unsupported|unknown|unrecognized) (request )?(parameter|argument)s?( supplied)?: " + _PATH, fixes.named),
    remedy(r"unsupported value: " + _PATH + " does not support", fixes.named),
    remedy(_PATH + r": extra inputs are not permitted", fixes.named),
    remedy(r"property " + _PATH + " is unsupported", fixes.named),
    remedy(r"unknown name " + _PATH + r"( at '(?P<at>[\w.\[\]]+)')?: cannot find field", fixes.named),
    remedy(
        r"(does not support parameter|argument not supported on this model:|unsupported param:) ?" + _PATH,
        fixes.named,
    ),
    remedy(_PATH + r" (is deprecated|is not supported|may only be set|must be unset|must be greater)", fixes.named),
    remedy(r"\b(unsupported_parameter|unknown_parameter|unsupported_value)\b", fixes.named),
)
"""The first row that matches and changes something is used. The texts are those of OpenAI, Anthropic, Google, vLLM,
DeepSeek, Mistral, Groq, xAI, Alibaba and GitHub, as quoted in public issues."""


def apply_remedies(request: Request, dialect: str, error: ApiError) -> RemediedRequest | None:
    """Return the request without what this upstream refused; None if no remedy applies.

    Args:
        request: what was sent (`Exchange.sent`).
        dialect: name of the upstream's dialect.
        error: the upstream's answer.
    """
    if error.kind != "bad_request":
        return None
    text = "\n".join(part for part in (error.message[:MAX_ERROR_CHARS], error.param, error.code) if part)
    text = text.replace("\\", "")  # proxies nest the quoted error of another server
    own = remedies_of(dialect)
    for pattern, fix in (*VALIDATORS, *own.refusals, *GENERAL):
        for match in pattern.finditer(text):
            if (mended := _apply_fix(request, dialect, error, match, fix, own)) is not None:
                return mended
    return None


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
    # A changed model makes the passes look at requests of the dialect itself.
    context = Context(
        source=dialect, target=dialect, can=capabilities(find(dialect), request.model), receipt=receipt, aliased=True
    )
    changed = fix(RefusedRequest(request, dialect, error, match, context, own))
    if changed == request:
        return None
    receipt.note("request", "sent a second time", "the upstream refused it as it was")
    return RemediedRequest(changed, tuple(receipt))
