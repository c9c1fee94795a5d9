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
from collections.abc import Callable
from typing import NamedTuple

from toolglot.dialect import capabilities
from toolglot.dialects import find
from toolglot.errors import CONTEXT_OVERFLOW, ApiError
from toolglot.ir import Request
from toolglot.passes import Context
from toolglot.receipt import Loss, Receipt
from toolglot.upstream import mends
from toolglot.upstream.mends import Refusal

ANTHROPIC, CHAT, GEMINI, RESPONSES = "anthropic", "openai_chat", "gemini", "openai_responses"

LONGEST_TEXT = 8000
"""Characters of an error that are looked at."""


class Mended(NamedTuple):
    request: Request
    lines: tuple[Loss, ...]
    """For the receipt. Strict mode refuses when one of them is a loss."""


class Row(NamedTuple):
    """A refusal that reads like `pattern` is mended by `change`, on this dialect's wire or (None) on any."""

    dialect: str | None
    pattern: re.Pattern[str]
    change: Callable[[Refusal], Request]


def row(dialect: str | None, pattern: str, change: Callable[[Refusal], Request]) -> Row:
    return Row(dialect, re.compile(pattern, re.IGNORECASE | re.DOTALL), change)


# A name in the ways that errors quote one: 'x', "x", `x`, x; with a path in front: body.x, tools[0].x, tools.0.x
_PATH = r"[\"'`]?(?<!\w)([A-Za-z_$][\w.$\[\]-]{0,100})[\"'`]?"

ROWS: tuple[Row, ...] = (
    # Lists of errors of validators: vLLM, SGLang, Mistral and all that is built on FastAPI
    row(None, r"['\"]loc['\"]: ?[\[(]|\[type=\w+, input_value=", mends.fix_fields),
    # Reasoning in the history
    row(ANTHROPIC, r"expected `?thinking`? or `?redacted_thinking`?", mends.think_no_more),
    row(
        ANTHROPIC,
        r"invalid `?signature`? in `?(redacted_)?thinking|thinking\.signature|bound to a different conversation"
        r"|thinking`? (or `?redacted_thinking`? )?blocks.{1,80}cannot be modified|invalid `?data`? in `?redacted",
        mends.forget_reasoning,
    ),
    row(
        RESPONSES,
        r"invalid_encrypted_content|encrypted content.{1,200}could not be|without its required|item with id '?rs_"
        r"|reasoning input items can only be provided to",
        mends.forget_reasoning,
    ),
    row(CHAT, r"reasoning_content.{1,60}must be passed back|missing `?reasoning_content", mends.add_empty_reasoning),
    row(
        CHAT,
        r"property '(reasoning|reasoning_content)' is unsupported|(assistant|messages).{1,40}reasoning(_content)?\W"
        r".{0,40}extra inputs",
        mends.forget_reasoning,
    ),
    row(GEMINI, r"missing a `?thought_?signature|thought signature is not valid|corrupted thought", mends.mark_calls),
    # How much to think
    row(None, r"effort.{1,200}(supported values|must be one of|one of)(?P<values>.{2,200})", mends.nearest_effort),
    row(None, r"(supported values|must be one of|one of)(?P<values>.{2,200})effort", mends.nearest_effort),
    row(
        None,
        r"unsupported value: '(?P<refused>\w+)' is not supported with .{1,80}supported values are:(?P<values>.{2,200})",
        mends.nearest_effort,
    ),
    row(None, r"level .{1,12} not supported, valid levels:(?P<values>.{2,200})", mends.nearest_effort),
    row(None, r"invalid (think|reasoning) value.{1,40}must be(?P<values>.{2,200})", mends.nearest_effort),
    row(None, r"think value .{1,12} is not supported for this model", mends.without("effort")),
    row(None, r"thinking level is not supported|adaptive thinking is not supported", mends.think_by_budget),
    row(
        None, r"thinking\.type\.enabled\W{1,3}is not supported|thinking budget is not supported", mends.think_by_effort
    ),
    row(None, r"only works in thinking mode|thinking can(no|')t be disabled", mends.think_anyway),
    row(
        None,
        r"thinking is not (enabled|supported)|include_?thoughts is only enabled|does not support thinking",
        mends.without("reasoning"),
    ),
    row(
        None,
        r"does not support (the effort parameter|`?reasoning[_ ]effort)|parameter reasoning_?effort",
        mends.without("effort"),
    ),
    row(None, r"verified to (generate|stream) reasoning summar", mends.without("summary")),
    # Which tools to call
    row(None, r"config is set without function_declarations", mends.without("tool_choice")),
    row(
        None,
        r"tool_?choice.{1,120}(support|must|allowed|may not)|(support|may not|must|cannot).{1,80}tool_?choice",
        mends.choose_freely,
    ),
    # How much to write
    row(CHAT, r"max_tokens\W.{1,60}not supported.{1,40}max_completion_tokens", mends.limit_as("max_completion_tokens")),
    row(
        CHAT,
        r"max_completion_tokens\W{1,3}[^\n]{0,40}(is not supported|not permitted|is unsupported)",
        mends.limit_as("max_tokens"),
    ),
    row(CHAT, r"(unknown|unrecognized).{1,60}max_completion_tokens", mends.limit_as("max_tokens")),
    row(None, r"max_tokens: \d+ > (?P<most>\d+)", mends.write_less),
    row(None, r"supports at most (?P<most>\d+) (completion|output)? ?tokens", mends.write_less),
    row(None, r"max_?(output_?)?tokens.{1,80}\[1, ?(?P<most>\d+)\]", mends.write_less),
    row(None, r"max_?output_?tokens.{1,120}to (?P<limit>\d+) \(exclusive\)", mends.write_less),
    row(None, rf"\b{CONTEXT_OVERFLOW}\b", mends.fit_window),
    # Sampling
    row(None, r"temperature\W.{1,40}and.{1,10}top_p\W.{1,20}cannot both", mends.one_of_temperature_and_top_p),
    row(None, r"temperature\W.{1,60}(less than or equal to |range: -?\d+\.\.)(?P<most>\d+(\.\d+)?)", mends.cool),
    row(None, r"\bpenalty is not enabled", mends.without("presence_penalty", "frequency_penalty")),
    row(None, r"\blogprobs is not enabled", mends.without("logprobs", "top_logprobs")),
    # Roles
    row(
        None,
        r"(unknown variant|does not support) .?developer|unexpected message role|developer.{1,20}not supported"
        r"|role.{1,30}does not support .?system|role.{1,6}system.{1,6}is not supported|system role not supported"
        r"|system message must be at the beginning|developer instruction is not enabled",
        mends.other_roles,
    ),
    row(None, r"assistant message prefill|conversation must end with a user", mends.end_with_user),
    # A field by its name
    row(
        None, r"(unsupported|unknown|unrecognized) (request )?(parameter|argument)s?( supplied)?: " + _PATH, mends.named
    ),
    row(None, r"unsupported value: " + _PATH + " does not support", mends.named),
    row(None, _PATH + r": extra inputs are not permitted", mends.named),
    row(None, r"property " + _PATH + " is unsupported", mends.named),
    row(None, r"unknown name " + _PATH + r"( at '(?P<at>[\w.\[\]]+)')?: cannot find field", mends.named),
    row(
        None,
        r"(does not support parameter|argument not supported on this model:|unsupported param:) ?" + _PATH,
        mends.named,
    ),
    row(None, _PATH + r" (is deprecated|is not supported|may only be set|must be unset|must be greater)", mends.named),
    row(None, r"\b(unsupported_parameter|unknown_parameter|unsupported_value)\b", mends.named),
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
    for wanted, pattern, change in ROWS:
        if wanted not in (None, dialect):
            continue
        for match in pattern.finditer(text):
            if (mended := _mended(request, dialect, error, match, change)) is not None:
                return mended
    return None


def _mended(
    request: Request, dialect: str, error: ApiError, match: re.Match[str], change: Callable[[Refusal], Request]
) -> Mended | None:
    receipt = Receipt()
    # That it is another model than was thought is what passes need to hear to look at a dialect's own requests.
    context = Context(
        source=dialect, target=dialect, can=capabilities(find(dialect), request.model), receipt=receipt, aliased=True
    )
    changed = change(Refusal(request, dialect, error, match, context))
    if changed == request:
        return None
    receipt.note("request", "sent a second time", "the upstream refused it as it was")
    return Mended(changed, tuple(receipt))
