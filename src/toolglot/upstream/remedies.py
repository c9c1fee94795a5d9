"""Requests that an upstream refused for a known reason, mended so that they can be sent once more. Pure.

What an API takes differs by model, version and imitator, and changes without notice. Where it says in its 400 what it
does not take, the request is made without that: by the same passes that fit it to its dialect, told that the target
can do less than was thought, so that what can be asked for in words still is. Whatever changes stands in the receipt.

Only refusals with one clear remedy have a row. Images that a model cannot see, schemas that are not valid, histories
that are too long: those are told to the client, who alone knows what to do.

The result is what is to be sent instead of `Exchange.sent`; it is written with the dialect's `encode_request`, not with
the bytes that came. Mend once: a second refusal goes to the client.
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
from toolglot.passes.remedies import NO_REMEDIES, Fix, Refusal, Remedies, Remedy, remedy
from toolglot.receipt import Loss, Receipt

LONGEST_TEXT = 8000
"""Characters of an error that are looked at."""


class Mended(NamedTuple):
    request: Request
    lines: tuple[Loss, ...]
    """For the receipt. Strict mode refuses when one of them is a loss."""


# A name in the ways that errors quote one: 'x', "x", `x`, x; with a path in front: body.x, tools[0].x, tools.0.x
_PATH = r"[\"'`]?(?<!\w)([A-Za-z_$][\w.$\[\]-]{0,100})[\"'`]?"

VALIDATORS = (remedy(r"['\"]loc['\"]: ?[\[(]|\[type=\w+, input_value=", fixes.fix_fields),)
"""Lists of errors of validators: vLLM, SGLang, Mistral and all that is built on FastAPI."""

GENERAL: tuple[Remedy, ...] = (
    # How much to think
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
    # Which tools to call
    remedy(r"config is set without function_declarations", fixes.without("tool_choice")),
    remedy(
        r"tool_?choice.{1,120}(support|must|allowed|may not)|(support|may not|must|cannot).{1,80}tool_?choice",
        fixes.choose_freely,
    ),
    # How much to write
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
    # Roles
    remedy(
        r"(unknown variant|does not support) .?developer|unexpected message role|developer.{1,20}not supported"
        r"|role.{1,30}does not support .?system|role.{1,6}system.{1,6}is not supported|system role not supported"
        r"|system message must be at the beginning|developer instruction is not enabled",
        fixes.other_roles,
    ),
    remedy(r"assistant message prefill|conversation must end with a user", fixes.end_with_user),
    # A field by its name
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
"""In order: the first row that fits and changes something. The texts are those of OpenAI, Anthropic, Google, vLLM,
DeepSeek, Mistral, Groq, xAI, Alibaba and GitHub, as their users quote them in public issues."""


def mend(request: Request, dialect: str, error: ApiError) -> Mended | None:
    """The request without what this upstream refused; None when there is nothing to mend.

    Args:
        request: what was sent (`Exchange.sent`).
        dialect: the name of the upstream's dialect.
        error: what it answered.
    """
    if error.kind != "bad_request":
        return None
    text = "\n".join(part for part in (error.message[:LONGEST_TEXT], error.param, error.code) if part)
    text = text.replace("\\", "")  # proxies quote the error of another server, one within the other
    own = remedies_of(dialect)
    for pattern, fix in (*VALIDATORS, *own.refusals, *GENERAL):
        for match in pattern.finditer(text):
            if (mended := _mended(request, dialect, error, match, fix, own)) is not None:
                return mended
    return None


_REFERENCES = ByDialect(lambda manifest: manifest.remedies)


def remedies_of(dialect: str) -> Remedies:
    """What is known of refusals on this dialect's wire alone."""
    reference = _REFERENCES.get(dialect)
    found: Remedies = NO_REMEDIES if reference is None else load(reference)
    return found


def _mended(
    request: Request, dialect: str, error: ApiError, match: re.Match[str], fix: Fix, own: Remedies
) -> Mended | None:
    receipt = Receipt()
    # That it is another model than was thought is what passes need to hear to look at a dialect's own requests.
    context = Context(
        source=dialect, target=dialect, can=capabilities(find(dialect), request.model), receipt=receipt, aliased=True
    )
    changed = fix(Refusal(request, dialect, error, match, context, own))
    if changed == request:
        return None
    receipt.note("request", "sent a second time", "the upstream refused it as it was")
    return Mended(changed, tuple(receipt))
