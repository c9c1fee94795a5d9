"""Requests, responses and streams as clients and servers of Gemini write them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tests.documents.shared import (
    Spoken,
    answers,
    counts,
    flags,
    fractions,
    object_schemas,
    objects,
    plain_event,
    record,
    some,
    texts,
    words,
)
from tests.strategies import ids, json_values, names

signatures = st.sampled_from(["c2lnbmF0dXJl", "Z2VtaW5p"])
modifiers: dict[str, st.SearchStrategy[Any]] = {"thoughtSignature": signatures}
text_parts = record({"text": texts}, {"thought": flags, **modifiers})
inline_parts = record(
    {
        "inlineData": st.sampled_from(
            [
                {"mimeType": "image/png", "data": "aGVsbG8="},
                {"mimeType": "application/pdf", "data": "JVBERi0="},
                {"mimeType": "audio/wav", "data": "UklGRg=="},
            ]
        )
    },
    {"mediaResolution": objects},
)
file_parts = record(
    {"fileData": record({"fileUri": st.just("https://example.com/a.pdf")}, {"mimeType": st.just("application/pdf")})}
)
call_parts = record({"functionCall": record({"name": names}, {"id": ids, "args": objects})}, modifiers)
result_parts = record(
    {
        "functionResponse": record(
            {
                "name": names,
                "response": st.one_of(
                    st.builds(lambda value: {"output": value}, json_values),
                    st.builds(lambda text: {"error": text}, texts),
                    objects,
                ),
            },
            {"id": ids, "parts": some(inline_parts, at_least=1)},
        )
    }
)
code_parts = st.sampled_from(
    [
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"novel": {"x": 1}},
    ]
)
contents = st.one_of(
    record({"parts": some(text_parts, inline_parts, file_parts, code_parts)}, {"role": st.just("user")}, nulls=False),
    record({"role": st.just("model"), "parts": some(text_parts, call_parts, code_parts, at_least=1)}),
    record({"role": st.sampled_from(["user", "function"]), "parts": some(result_parts, at_least=1)}),
    record({"role": st.just("critic"), "parts": some(text_parts)}),
)

openapi_schemas = st.sampled_from(
    [
        {"type": "OBJECT", "properties": {"city": {"type": "STRING", "nullable": True}}, "required": ["city"]},
        {"type": "object", "properties": {"n": {"type": "integer", "format": "int32"}}},
        {"type": "OBJECT", "properties": {"a": {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}]}}},
    ]
)
declarations = st.one_of(
    record({"name": names, "parametersJsonSchema": object_schemas}, {"description": texts}),
    record({"name": names, "parameters": openapi_schemas}, {"description": texts, "behavior": st.just("BLOCKING")}),
    record({"name": names}, {"description": texts}),
)
tools = st.one_of(
    record({"functionDeclarations": some(declarations, at_least=1)}),
    st.sampled_from([{"googleSearch": {}}, {"codeExecution": {}}, {"novelTool": {"x": 1}}]),
)
tool_configs = record(
    {},
    {
        "functionCallingConfig": record(
            {"mode": st.sampled_from(["AUTO", "ANY", "NONE", "VALIDATED"])},
            {"allowedFunctionNames": st.lists(names, min_size=1, max_size=2, unique=True)},
        ),
        "includeServerSideToolInvocations": flags,
    },
)
thinking_configs = st.one_of(
    record({}, {"includeThoughts": flags, "thinkingBudget": st.sampled_from([0, -1, 2048])}),
    record({}, {"includeThoughts": flags, "thinkingLevel": st.sampled_from(["LOW", "HIGH"])}),
)
generation_configs = record(
    {},
    {
        "temperature": fractions,
        "topP": fractions,
        "topK": counts,
        "candidateCount": st.just(1),
        "maxOutputTokens": counts,
        "stopSequences": st.lists(words, max_size=3),
        "seed": counts,
        "presencePenalty": fractions,
        "frequencyPenalty": fractions,
        "responseMimeType": st.sampled_from(["text/plain", "application/json", "text/x.enum"]),
        "responseJsonSchema": object_schemas,
        "responseSchema": openapi_schemas,
        "thinkingConfig": thinking_configs,
        "responseModalities": st.just(["TEXT"]),
    },
)
requests = record(
    {"contents": some(contents, at_most=5)},
    {
        "systemInstruction": record({"parts": some(text_parts, at_least=1)}, {"role": st.just("user")}),
        "tools": some(tools),
        "toolConfig": tool_configs,
        "generationConfig": generation_configs,
        "safetySettings": st.just([{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]),
        "labels": st.dictionaries(words, words, max_size=2),
        "cachedContent": words,
        "serviceTier": st.sampled_from(["standard", "priority"]),
    },
)

usages = record(
    {"promptTokenCount": counts, "totalTokenCount": counts},
    {
        "candidatesTokenCount": counts,
        "cachedContentTokenCount": counts,
        "thoughtsTokenCount": counts,
        "toolUsePromptTokenCount": counts,
        "promptTokensDetails": st.just([{"modality": "TEXT", "tokenCount": 1}]),
    },
)
candidates = record(
    {
        "content": record({"role": st.just("model"), "parts": some(text_parts, call_parts, code_parts)}),
        "finishReason": st.sampled_from(["STOP", "MAX_TOKENS", "SAFETY", "NOVEL"]),
    },
    {"index": st.just(0), "safetyRatings": st.just([]), "finishMessage": texts, "citationMetadata": objects},
)
responses = record(
    {"candidates": some(candidates, at_least=1, at_most=2)},
    {
        "usageMetadata": usages,
        "modelVersion": words,
        "responseId": words,
        "promptFeedback": record({"safetyRatings": st.just([])}),
    },
)


def write_stream(answer: list[Spoken]) -> str:
    parts: list[dict[str, Any]] = []
    for block in answer:
        if block.kind == "call":
            call = {"name": block.name, "args": json.loads("".join(block.pieces) or "{}")}
            parts.append({"functionCall": call})
        else:
            thought = {"thought": True} if block.kind == "thinking" else {}
            parts += [{"text": piece, **thought} for piece in block.pieces]
    usage = {"promptTokenCount": 50, "candidatesTokenCount": 30, "totalTokenCount": 80}
    base = {"usageMetadata": usage, "modelVersion": "gemini-x", "responseId": "r1"}
    written = "".join(
        plain_event({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}], **base})
        for part in parts
    )
    end = {"content": {"role": "model", "parts": []}, "finishReason": "STOP", "index": 0}
    return written + plain_event({"candidates": [end], **base})


streams = answers().map(write_stream)
