"""Models whose chat template or validator is stricter than the API that serves them, by name.

The rules apply to every API in front of these models: a server renders the same prompt for Chat Completions, Messages
and Responses. Weights are served under names like `Qwen/Qwen3.8-27B`, so the case of letters is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

StrictRow: TypeAlias = tuple[str, Mapping[str, Any], str]
"""A pattern of model names, the changed capabilities by their public names, and the reason."""

ONE_SYSTEM_MESSAGE: StrictRow = (
    r"(?i)qwen-?(3\.([5-9]|\d\d)|[4-9]([.:-]|$))",
    {"system": "first"},
    "templates since Qwen 3.5 refuse every system message but the first one (reported for its template in vLLM #41114)",
)

MISTRAL = r"(?i)mistral|ministral|codestral|devstral|magistral"

STRICT_TURNS: StrictRow = (
    MISTRAL,
    {"system": "first", "roles_alternate": True, "refuses": frozenset({"user_after_results"})},
    "Mistral refuses a user's message after tool results (mistral-common #169); its templates refuse two user messages"
    " in a row and a later system message",
)

NUMBERED_CALLS: StrictRow = (
    r"(?i)kimi-k2",
    {"id_form": "functions.{name}:{number}"},
    "the template of Kimi K2 writes call ids into the prompt, and other forms make its next calls unreliable (vLLM"
    " #29596); Kimi K3 takes any id (sglang #33343)",
)

STRICT_MODELS = (ONE_SYSTEM_MESSAGE, STRICT_TURNS, NUMBERED_CALLS)
