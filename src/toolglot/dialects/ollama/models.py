"""Capabilities of Ollama, and the differences between single models."""

from __future__ import annotations

from toolglot.capabilities import (
    AnswerCapabilities,
    CallCapabilities,
    CallIdRules,
    Capabilities,
    MediaCapabilities,
    ParameterCapabilities,
    ReasoningCapabilities,
    ReceiptRules,
    RequestLimits,
    ToolCapabilities,
    ToolNameRules,
)
from toolglot.dialect import ModelRule
from toolglot.wire.strict_models import ONE_SYSTEM_MESSAGE

CAPABILITIES = Capabilities(
    parameters=ParameterCapabilities(
        fields=frozenset(
            {
                "max_output_tokens",
                "temperature",
                "top_p",
                "top_k",
                "seed",
                "presence_penalty",
                "frequency_penalty",
                "stop",
                "logprobs",
                "top_logprobs",
                "response_format",
                "reasoning",
            }
        ),
    ),
    limits=RequestLimits(window_member=("options", "num_ctx")),
    names=ToolNameRules(
        # Names and ids come back unchanged. The narrow form is safe with every model's template.
        max_length=128,
    ),
    ids=CallIdRules(required=False),
    tools=ToolCapabilities(
        choices=frozenset({"auto"}),
        strict=False,
        schema="object",
        parameters_optional=True,
    ),
    calls=CallCapabilities(
        arguments="object",
        broken="shown",
    ),
    media=MediaCapabilities(
        in_user=frozenset({"image"}),
        in_result=frozenset({"image"}),
        in_assistant=frozenset({"image"}),
        source_kinds=frozenset({"base64"}),
    ),
    reasoning=ReasoningCapabilities(
        in_history="text",
        efforts=(),
        can_hide=False,
    ),
    answers=AnswerCapabilities(rough_stops={"context_full": "length"}),
    receipt=ReceiptRules(
        containers=frozenset({"beside", "function", "message", "options"}),
        request_paths={"beside": ""},
        assumed={"num_predict": (-1,)},
        noted={"keep_alive": "how long the server keeps a model in memory"},
        cosmetic={
            "done": "the end of an answer, which each API reports in its own way",
            "role": "the message's role says it",
            **dict.fromkeys(
                ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration"), "how long an answer took"
            ),
            "index": "the place among the calls",
        },
    ),
)

MODELS = (
    ModelRule(
        r"(^|/)gpt-oss",
        {"efforts": ("low", "medium", "high"), "reasoning_off": False},
        "gpt-oss always reasons, with three efforts; for other models it is only on or off",
    ),
    ModelRule(*ONE_SYSTEM_MESSAGE),
)
