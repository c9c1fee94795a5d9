"""`generationConfig` <-> sampling, response format and reasoning."""

from __future__ import annotations

from typing import Any, Literal

from toolglot.dialects.gemini.native import NAME
from toolglot.dialects.gemini.tools import decode_schema, encode_schema
from toolglot.ir import Reasoning, Request, ResponseFormat, native_of
from toolglot.receipt import Receipt
from toolglot.wire.reader import Reader, expected, keep

_NUMBERS = {
    "temperature": "temperature",
    "top_p": "topP",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
_INTEGERS = {
    "max_output_tokens": "maxOutputTokens",
    "top_k": "topK",
    "candidates": "candidateCount",
    "top_logprobs": "logprobs",
    "seed": "seed",
}

_FORMATS: dict[str, Literal["text", "json"]] = {"application/json": "json", "text/plain": "text"}
_LEVELS = frozenset({"minimal", "low", "medium", "high"})


def decode_settings(config: Reader) -> dict[str, Any]:
    """The fields of `Request` that stand in `generationConfig`; what it does not know stays in the reader."""
    fields: dict[str, Any] = {field: config.number(key) for field, key in _NUMBERS.items()}
    fields |= {field: config.integer(key) for field, key in _INTEGERS.items()}
    fields["logprobs"] = config.flag("responseLogprobs")
    if config.peek("stopSequences"):
        fields["stop"] = _texts(config, "stopSequences")
    fields["response_format"] = _decode_format(config)
    thinking = config.object("thinkingConfig")
    fields["reasoning"] = _decode_reasoning(thinking) if thinking is not None else None
    return fields


def _texts(reader: Reader, key: str) -> tuple[str, ...]:
    values = reader.array(key) or []
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise expected(f"{reader.at(key)}[{index}]", "a string", value)
    return tuple(values)


def encode_settings(request: Request, receipt: Receipt) -> dict[str, Any]:
    """The members of `generationConfig` that the IR holds."""
    members: dict[str, Any] = {}
    for field, key in (_NUMBERS | _INTEGERS).items():
        if (value := getattr(request, field)) is not None:
            members[key] = value
    if request.logprobs is not None:
        members["responseLogprobs"] = request.logprobs
    if request.stop:
        members["stopSequences"] = list(request.stop)
    if request.response_format is not None:
        wants_openapi = bool(native_of(request, NAME).get("$openapi_schema"))
        members |= _encode_format(request.response_format, wants_openapi, receipt)
    if request.reasoning is not None:
        members["thinkingConfig"] = _encode_reasoning(request.reasoning, receipt)
    return members


# Response format


def _decode_format(config: Reader) -> ResponseFormat | None:
    mime = config.peek("responseMimeType")
    if mime is not None and not (isinstance(mime, str) and mime in _FORMATS):
        return None  # text/x.enum and whatever comes next: nothing that another API has a word for
    # The Python SDK once wrote its field of JSON Schema with an underscore.
    plain = "_responseJsonSchema" if "_responseJsonSchema" in config else "responseJsonSchema"
    if plain not in config and "responseSchema" not in config:
        if mime is None:
            return None
        config.take("responseMimeType")
        return ResponseFormat(kind=_FORMATS[mime])
    if mime == "text/plain":
        return None
    config.take("responseMimeType")
    schema, notes = decode_schema(config, plain, "responseSchema")
    if plain.startswith("_"):
        notes = {plain: notes.get(plain, schema)}
    notes["mime"] = "absent" if mime is None else None
    kept = {f"${name}": value for name, value in notes.items() if value is not None}
    return ResponseFormat(kind="json_schema", schema=schema, native={NAME: kept} if kept else {})


def _encode_format(form: ResponseFormat, wants_openapi: bool, receipt: Receipt) -> dict[str, Any]:
    if form.kind != "json_schema":
        return {"responseMimeType": "text/plain" if form.kind == "text" else "application/json"}
    notes = native_of(form, NAME)
    plain = "_responseJsonSchema" if "$_responseJsonSchema" in notes else "responseJsonSchema"
    for present, what in ((form.name, "name"), (form.description, "description")):
        if present is not None:
            receipt.note(f"response_format.{what}", what, "Gemini has no name for a response schema")
    mime = {} if notes.get("$mime") == "absent" else {"responseMimeType": "application/json"}
    keys = (plain, "responseSchema", "response_format.schema")
    return {**mime, **encode_schema(form, form.schema, *keys, wants_openapi, receipt)}


# Reasoning


def _decode_reasoning(thinking: Reader) -> Reasoning:
    show = thinking.flag("includeThoughts")
    level = thinking.peek("thinkingLevel")
    effort = level.lower() if isinstance(level, str) and level.lower() in _LEVELS else None
    if effort is not None:
        thinking.take("thinkingLevel")
    budget = thinking.peek("thinkingBudget")
    mode: Literal["on", "off", "auto"] | None = "on" if effort is not None else None
    if type(budget) is int and budget >= -1:
        thinking.take("thinkingBudget")
        mode = {0: "off", -1: "auto"}.get(budget, "on")  # type: ignore[assignment]
    else:
        budget = None
    notes = {
        "level": level if effort is not None and level != effort.upper() else None,
        "both": True if effort is not None and budget is not None else None,
    }
    tokens = budget if budget is not None and budget > 0 else None
    native = keep(NAME, thinking, **notes)
    return Reasoning(mode=mode, effort=effort, budget_tokens=tokens, show=show, native=native)


def _encode_reasoning(reasoning: Reasoning, receipt: Receipt) -> dict[str, Any]:
    notes = native_of(reasoning, NAME)
    members: dict[str, Any] = {}
    if reasoning.show is not None:
        members["includeThoughts"] = reasoning.show
    effort, budget = reasoning.effort, reasoning.budget_tokens
    if reasoning.mode == "off":
        budget = 0
    elif reasoning.mode is not None and budget is None and (effort is None or notes.get("$both")):
        budget = -1
    if budget is not None:
        members["thinkingBudget"] = budget
    if effort is not None and (budget is None or notes.get("$both")):
        if effort not in _LEVELS:
            receipt.loss("reasoning.effort", f"effort {effort}", "Gemini has no such thinking level")
        else:
            noted = notes.get("$level")
            members["thinkingLevel"] = noted if noted is not None and noted.lower() == effort else effort.upper()
    elif effort is not None and budget:
        # "You can only set one of thinking budget and thinking level."
        receipt.loss("reasoning.effort", f"effort {effort}", "Gemini takes either a budget or a level")
    return {**{key: value for key, value in notes.items() if not key.startswith("$")}, **members}
