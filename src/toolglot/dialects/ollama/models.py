"""Capabilities of Ollama, and the differences between single models."""

from __future__ import annotations

from toolglot.dialect import Capabilities, ModelRule

CAPABILITIES = Capabilities(
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
    # Names and ids come back unchanged. The narrow form is safe with every model's template.
    name_length=128,
    ids_required=False,
    tool_choices=frozenset({"auto"}),
    strict_tools=False,
    schema="object",
    parameters_optional=True,
    arguments="object",
    broken_calls="shown",
    media_in_user=frozenset({"image"}),
    media_in_result=frozenset({"image"}),
    media_in_assistant=frozenset({"image"}),
    source_kinds=frozenset({"base64"}),
    thinking="text",
    efforts=(),
    reasoning_shown=False,
    containers=frozenset({"beside", "function", "message", "options"}),
    request_paths={"beside": ""},
    assumed={"num_predict": (-1,)},
    rough_stops={"context_full": "length"},
    noted={"keep_alive": "how long the server keeps a model in memory"},
    cosmetic={
        "done": "the end of an answer, which each API tells in its own way",
        "role": "the message tells who speaks",
        **dict.fromkeys(
            ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration"), "how long an answer took"
        ),
        "index": "the place among the calls",
    },
)

MODELS = (
    ModelRule(
        r"(^|/)gpt-oss",
        {"efforts": ("low", "medium", "high"), "reasoning_off": False},
        "gpt-oss always reasons, with three efforts; other models are only told whether to",
    ),
)
