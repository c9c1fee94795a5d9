"""What toolglot writes as a request fits the official SDKs' own types, from every dialect to every dialect."""

from __future__ import annotations

import json

import pytest

from toolglot import DIALECTS, Exchange, Receipt

from .rich_requests import RICH, VARIATIONS, Body, request
from .sdk_types import check

MODELS = {
    "openai_chat": ["gpt-5.6", "deepseek-chat"],
    "openai_responses": ["gpt-5.6"],
    "anthropic": ["claude-opus-5-5", "claude-sonnet-4-5"],
    "gemini": ["gemini-3.5-pro", "gemini-2.5-flash"],
}

# The newest SDK has no names for what only older models take.
OLDER = {"claude-sonnet-4-5": {"$.temperature", "$.top_p", "$.top_k"}}
# DeepSeek's own field, and one of many servers, which the SDK of OpenAI does not know.
EXTENSIONS = ("reasoning_content", "top_k")

CASES = [
    pytest.param(source, variation, target, model, id=f"{source}-{variation}-{model}")
    for source, variations in VARIATIONS.items()
    for variation in variations
    for target, models in MODELS.items()
    for model in models
]
OWN = [pytest.param(source, name, id=f"{source}-{name}") for source, names in VARIATIONS.items() for name in names]


def encoded(body: Body) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


@pytest.mark.parametrize(("source", "variation"), OWN)
def test_the_rich_requests_themselves_fit(source: str, variation: str) -> None:
    assert check(source, request(source, variation)) == []


@pytest.mark.parametrize(("source", "variation", "target", "model"), CASES)
def test_a_translated_request_fits_the_types_of_the_sdk(source: str, variation: str, target: str, model: str) -> None:
    exchange = Exchange(source, target, model=model)
    exchange.request(encoded(request(source, variation)), model="a-model" if source == "gemini" else None)
    assert exchange.sent is not None
    # Also where both sides speak the same dialect the encoder has its say, not the client's own bytes.
    body = json.loads(DIALECTS[target].encode_request(exchange.sent, Receipt()))
    found = [line for line in check(target, body) if line.split(":")[0] not in OLDER.get(model, ())]
    if model.startswith("deepseek"):
        found = [line for line in found if not line.split(":")[0].endswith(EXTENSIONS)]
    assert found == []


@pytest.mark.parametrize(("source", "variation"), OWN)
def test_a_request_comes_back_to_its_own_dialect_unchanged(source: str, variation: str) -> None:
    body = request(source, variation)
    dialect, receipt = DIALECTS[source], Receipt()
    written = dialect.encode_request(dialect.decode_request(encoded(body)), receipt)
    assert json.loads(written) == body
    assert not receipt


# ── the check itself ─────────────────────────────────────────────────────────────────────────────────────────────────

WRONG: dict[str, list[tuple[Body, str]]] = {
    "openai_chat": [
        ({"max_output_tokens": 5}, "$.max_output_tokens: unknown"),
        ({"temperature": "0.3"}, "$.temperature: "),
        ({"stream": "yes"}, "$.stream: "),
        ({"tool_choice": {"type": "function", "name": "f"}}, "$.tool_choice"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "$.messages[0].tool_call_id: missing"),
        ({"messages": [{"role": "user", "content": [{"type": "input_text", "text": "x"}]}]}, "$.messages[0].content"),
        ({"tools": [{"type": "function", "name": "f"}]}, "$.tools[0].function: missing"),
    ],
    "openai_responses": [
        ({"max_tokens": 5}, "$.max_tokens: unknown"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "$.tools[0]"),
        ({"input": [{"type": "function_call", "name": "f", "arguments": {}}]}, "$.input[0]"),
        ({"reasoning": {"effort": "huge"}}, "$.reasoning.effort: "),
    ],
    "anthropic": [
        ({"max_tokens": None}, "$.max_tokens: "),
        ({"tool_choice": "auto"}, "$.tool_choice: "),
        ({"messages": [{"role": "tool", "content": "x"}]}, "$.messages[0].role: "),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "result": 1}]}]},
            "$.messages[0].content[0].result: unknown",
        ),
        ({"tools": [{"name": "f", "parameters": {}}]}, "$.tools[0]"),
    ],
    "gemini": [
        ({"model": "gemini-3.5-pro"}, "$.model: unknown"),
        ({"contents": [{"role": "user", "parts": [{"texts": "x"}]}]}, "$.contents.0.parts.0.texts: "),
        ({"contents": [{"role": "user", "parts": [{"functionCall": {"args": "{}"}}]}]}, "$.contents.0.parts.0"),
        ({"generationConfig": {"max_output_tokens": 5}}, "$.generationConfig.max_output_tokens: not written"),
        ({"generationConfig": {"topK": "40"}}, "$.generationConfig.topK: "),
        (
            {"tools": [{"functionDeclarations": [{"name": "f", "parameters": {"const": 1}}]}]},
            "$.tools.0.functionDeclarations.0.parameters.const",
        ),
    ],
}


@pytest.mark.parametrize(
    ("dialect", "change", "complaint"),
    [(dialect, change, complaint) for dialect, changes in WRONG.items() for change, complaint in changes],
)
def test_the_check_notices_what_is_wrong(dialect: str, change: Body, complaint: str) -> None:
    found = check(dialect, {**RICH[dialect], **change})
    assert any(line.startswith(complaint) for line in found), found
