"""Decide whether a model gets tools natively or as text, and recognize errors of upstreams that do not take tools.

The configuration takes precedence. If it says `auto`, these sources apply, in this order:

1. the vendor's row: models that are known not to take tools (Gemma 3 at Google) get text;
2. earlier findings: of `toolglot doctor --probe`, or from a request that the upstream refused because of its tools;
3. otherwise tools are native. Most servers accept them, and native calls are more reliable than text. A server that
   refuses gets the same request as text, and the refusal is stored.
"""

from __future__ import annotations

import re
from typing import Literal

from toolglot.errors import ApiError, error_status
from toolglot.ir import Request, ToolCall, ToolResult
from toolglot.routing import AUTO, NATIVE, Pattern, Target
from toolglot.textcalls import ALIASES
from toolglot.textcalls.model_families import family_format
from toolglot.textcalls.settings import TextCalls
from toolglot.upstream.demo.models import demo_format
from toolglot.upstream.upstream import Upstream

KnownToolMode = Literal["native", "text"]
"""Findings about a model's tool support."""

REFUSAL_TTL = 24 * 3600.0
"""Seconds to remember a refusal. The server may be restarted with other flags."""
PROBE_TTL = 30 * 24 * 3600.0
"""Seconds to remember the result of a probe."""

MAX_ERROR_CHARS = 8000
"""Maximum characters of an error message that are searched."""

_STATUSES = frozenset({400, 404, 405, 422, 500, 501, 503})

_REFUSALS = re.compile(
    "|".join(
        (
            # Ollama: `registry.ollama.ai/library/gemma:2b does not support tools`; Bedrock, Fireworks and others are
            # similar
            r"(?:does not|doesn't|do not|don't) (?:currently )?support (?:the )?(?:use of )?(?:native )?\W?"
            r"(?:tools\b|tool[ -](?:use|call)|functions?[ -]call)",
            # OpenAI: `tools is not supported in this model`; Groq: `tool calling` is not supported with this model
            r"(?:\btools|tool[ -](?:use|calls?|calling)|functions?[ -]call(?:s|ing)?)\W{1,3}(?:is|are) "
            r"(?:not (?:fully )?(?:supported|enabled)|unsupported)"
            r"(?! (?:with|when|together|in combination)(?! this model))",
            # llama.cpp with a template that does not support tools
            r"tools? param(?:eter)? (?:requires --jinja|is not fully supported)|requires? (?:the )?--jinja",
            # vLLM: `"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set`
            r"requires? (?:the )?--enable-auto-tool-choice|requires? (?:the )?--tool-call-parser",
            # OpenRouter: `No endpoints found that support tool use`
            r"no (?:endpoints?|providers?) (?:found )?(?:that |which )?supports? tool",
            r"no connected provider supports tool",
            # Azure, for older deployments
            r"unrecognized request arguments? supplied: (?:\w+, )?tools\b",
            # LiteLLM: `ollama does not support parameters: ['tools', 'tool_choice']`
            r"does not support parameters: \[[^\]]{0,200}'tools'",
            # Servers that validate the fields of a request: Pydantic's wording (`Extra inputs are not permitted:
            # tools`, `body -> tools: Extra inputs are not permitted`), and that of decoders in Go and Rust
            r"extra inputs are not permitted\W{1,4}(?:body\W{1,6})?tools\b(?![.\[])",
            r"\btools\W{1,6}extra inputs are not permitted",
            r"unknown (?:field|argument|parameter|name)s?:?\s{0,2}\W{0,2}tools\b(?![.\[])",
        )
    ),
    re.IGNORECASE,
)


def uses_tools(request: Request) -> bool:
    """Return whether the request has tools, or calls or results from earlier turns."""
    return bool(request.tools) or any(
        isinstance(block, (ToolCall, ToolResult)) for message in request.messages for block in message.content
    )


def lacks_tools(upstream: Upstream, model: str) -> bool:
    """Return whether the vendor's row says that this model does not take tools natively."""
    return any(Pattern(pattern).match(model) is not None for pattern in upstream.without_tools)


def text_format_for(target: Target) -> str:
    """Return the text format for this model when the configuration names none."""
    return demo_format(target.model) or family_format(target.model)


def text_calls_for(upstream: Upstream, target: Target, known: KnownToolMode | None = None) -> TextCalls | None:
    """Return the settings for tool calls as text for this model; None if tools are native."""
    if target.tools not in (AUTO, NATIVE):
        return _text_calls(target, target.tools)
    if target.tools == AUTO and (
        known == "text" or (known is None and upstream.without_tools and lacks_tools(upstream, target.model))
    ):
        return _text_calls(target, text_format_for(target))
    if not target.rescue:
        return None
    return _text_calls(
        target, target.rescue if isinstance(target.rescue, str) else text_format_for(target), rescue=True
    )


def _text_calls(target: Target, text_format: str, *, rescue: bool = False) -> TextCalls:
    return TextCalls(
        format=ALIASES.get(text_format, text_format),
        bad_calls=target.bad_calls,
        rescue=rescue,
        starts_in_reasoning=target.starts_in_reasoning,
    )


def refuses_tools(error: ApiError) -> bool:
    """Return whether the upstream says that this model, or its server's setup, does not support tools."""
    return error_status(error) in _STATUSES and _REFUSALS.search(error.message[:MAX_ERROR_CHARS]) is not None
