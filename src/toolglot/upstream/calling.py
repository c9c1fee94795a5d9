"""How a model is given tools: natively, or as text; and what it looks like when an upstream does not take them.

What the configuration says counts. Where it leaves the choice (`auto`), these are asked in order:

1. the vendor's row: models that are known not to take tools (Gemma 3 at Google) are text models;
2. what was found out: by `toolglot doctor --probe`, or because the upstream refused a request for its tools;
3. otherwise tools are native. Most servers take them, and text takes away what a native server does better; one that
   does not refuses, is sent the same request as text, and is remembered.
"""

from __future__ import annotations

import re
from typing import Literal

from toolglot.errors import ApiError, error_status
from toolglot.ir import Request, ToolCall, ToolResult
from toolglot.routing import AUTO, NATIVE, Pattern, Target
from toolglot.textcalls import ALIASES
from toolglot.textcalls.families import family_format
from toolglot.textcalls.settings import TextCalls
from toolglot.upstream.demo.models import demo_format
from toolglot.upstream.upstream import Upstream

Known = Literal["native", "text"]
"""What was found out about a model."""

REFUSED_FOR_A_DAY = 24 * 3600.0
"""Seconds for which a refusal is remembered: the server may be started again with other flags."""
PROBED_FOR_A_MONTH = 30 * 24 * 3600.0
"""Seconds for which the result of a probe is remembered."""

LONGEST_TEXT = 8000
"""Characters of an error that are looked at."""

_STATUSES = frozenset({400, 404, 405, 422, 500, 501, 503})

_REFUSALS = re.compile(
    "|".join(
        (
            # Ollama: `registry.ollama.ai/library/gemma:2b does not support tools`; Bedrock, Fireworks and others alike
            r"(?:does not|doesn't|do not|don't) (?:currently )?support (?:the )?(?:use of )?(?:native )?\W?"
            r"(?:tools\b|tool[ -](?:use|call)|functions?[ -]call)",
            # OpenAI: `tools is not supported in this model`; Groq: `tool calling` is not supported with this model
            r"(?:\btools|tool[ -](?:use|calls?|calling)|functions?[ -]call(?:s|ing)?)\W{1,3}(?:is|are) "
            r"(?:not (?:fully )?(?:supported|enabled)|unsupported)"
            r"(?! (?:with|when|together|in combination)(?! this model))",
            # llama.cpp without a template that knows tools
            r"tools? param(?:eter)? (?:requires --jinja|is not fully supported)|requires? (?:the )?--jinja",
            # vLLM: `"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set`
            r"requires? (?:the )?--enable-auto-tool-choice|requires? (?:the )?--tool-call-parser",
            # OpenRouter: `No endpoints found that support tool use`
            r"no (?:endpoints?|providers?) (?:found )?(?:that |which )?supports? tool",
            r"no connected provider supports tool",
            # Azure, for its older deployments
            r"unrecognized request arguments? supplied: (?:\w+, )?tools\b",
            # servers that check the fields of a request: Pydantic's words (`Extra inputs are not permitted: tools`,
            # `body -> tools: Extra inputs are not permitted`), and those of decoders in Go and Rust
            r"extra inputs are not permitted\W{1,4}(?:body\W{1,6})?tools\b(?![.\[])",
            r"\btools\W{1,6}extra inputs are not permitted",
            r"unknown (?:field|argument|parameter|name)s?:?\s{0,2}\W{0,2}tools\b(?![.\[])",
        )
    ),
    re.IGNORECASE,
)


def uses_tools(request: Request) -> bool:
    """Are there tools in it, or calls and results of earlier turns?"""
    return bool(request.tools) or any(
        isinstance(block, (ToolCall, ToolResult)) for message in request.messages for block in message.content
    )


def lacks_tools(upstream: Upstream, model: str) -> bool:
    """The vendor's row says that this model does not take tools natively."""
    return any(Pattern(pattern).match(model) is not None for pattern in upstream.without_tools)


def format_for(target: Target) -> str:
    """The text format for this model, where the configuration names none."""
    return demo_format(target.model) or family_format(target.model)


def text_calls(upstream: Upstream, target: Target, known: Known | None = None) -> TextCalls | None:
    """How calls are written as text between this model and us; None when everything is native."""
    if target.tools not in (AUTO, NATIVE):
        return _as_text(target, target.tools)
    if target.tools == AUTO and (known == "text" or (known is None and lacks_tools(upstream, target.model))):
        return _as_text(target, format_for(target))
    if not target.rescue:
        return None
    return _as_text(target, target.rescue if isinstance(target.rescue, str) else format_for(target), rescue=True)


def _as_text(target: Target, text_format: str, *, rescue: bool = False) -> TextCalls:
    return TextCalls(
        format=ALIASES.get(text_format, text_format),
        bad_calls=target.bad_calls,
        rescue=rescue,
        starts_in_reasoning=target.starts_in_reasoning,
    )


def refuses_tools(error: ApiError) -> bool:
    """Does the upstream say that this model, or the way its server was started, does not take tools?"""
    return error_status(error) in _STATUSES and _REFUSALS.search(error.message[:LONGEST_TEXT]) is not None
