"""The law: every field of the official SDKs' request types reaches the other side, or the receipt tells of it."""

from __future__ import annotations

import json
import re
from functools import lru_cache

import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from openai.types.responses.response_create_params import ResponseCreateParamsBase

from tests.dialects.test_openai_siblings import OTHERWISE, SHARED
from toolglot import DIALECTS, Exchange, ReceiptLine
from toolglot.capabilities import change_capabilities
from toolglot.dialect import Dialect
from toolglot.errors import DecodeError, RefusedError
from toolglot.ir import replace

from .request_fields import CONVERSATIONS, Body, Probe, names_of, requests

NAMES = ("openai_chat", "openai_responses", "anthropic", "gemini")

ELSEWHERE = re.compile(r"prompt_cache|cache_control|logprobs")
"""Prompt caches and probabilities have laws of their own."""

ON_BY_DEFAULT = ("parallel_tool_calls",)
"""Flags that are on unless they are set; all others are off. OpenAI pads streams unless `include_obfuscation` is false;
toolglot pads none, so that false is what a client gets."""

DEFAULTS: tuple[tuple[str, str], ...] = (
    (r"(service_tier|detail|context)=auto$", "the API decides, as it does unasked"),
    (r"mode=AUTO$", "the model decides whether to call, as it does unasked"),
    (r"(truncation=disabled|speed=standard|modalities\[\]=text|responseModalities\[\]=TEXT)$", "the default"),
    (r"(\]\((EasyInputMessageParam|Message)\)\.type=message|\(BetaToolParam\)\.type=custom)$", "the only type there"),
    (r"\(Content\)\.role=user$", "a content without a role is the user's"),
    (r"(ResponseFormatText|format\((Text|CustomFormatText))\)$", "plain text is what an API writes unasked"),
    (r"display=summarized$", "thinking is shown where it is asked for"),
    (r"include\[\]=reasoning\.encrypted_content$", "the state of other models comes in the same place"),
    (r"(json_schema\(JSONSchema\)|ResponseFormatTextJSONSchemaConfigParam\))\.strict=True$", "Gemini is always strict"),
    (r"\(FunctionCallOutput\)\.call_id=call_1$", "there is one call that it can answer"),
    (r"ToolSearchOutputItemParamParam\).*\.defer_loading=True$", "the item that brings a tool loads it"),
    (r"\(ImageGenerationCall\)\.(action|background|output_format|quality|size)(=\S+)?$", "the image itself shows it"),
    (r"\(ImageGenerationCall\)\.error\(", "an item with an image has no error"),
    (r"caller\(BetaDirectCallerParam\)$", "the model itself makes a call unless something else is said"),
    (
        r"^(reasoning|text|stream_options|metadata|output_config|context_management|generationConfig|toolConfig"
        r"|generationConfig\(GenerationConfig\)\.thinkingConfig|tools\[\])\(\w+\)$",
        "an empty object that only groups settings",
    ),
)
"""Values that say nothing, by the end of their path, each with the reason."""


def translated(source: Dialect | str, target: str, body: Body | str) -> tuple[bytes | None, frozenset[ReceiptLine]]:
    """The upstream's bytes and the receipt; no bytes for a request that is refused."""
    exchange = Exchange(source, target)
    try:
        encoded = exchange.request(body, model="some-model" if exchange.client.request.model_in_path else None)
    except (DecodeError, RefusedError):
        return None, frozenset()
    return encoded, frozenset(exchange.receipt)


_remembered = lru_cache(maxsize=4096)(translated)


def of(source: str, target: str, body: Body) -> tuple[bytes | None, frozenset[ReceiptLine]]:
    return _remembered(source, target, json.dumps(body))


def is_carried(probe: Probe, encoded: bytes, other: bytes) -> bool:
    if probe.needle is None:
        return encoded != other
    return any(form.encode() in encoded for form in probe.forms)


def is_told_as_a_whole(source: str, target: str, probe: Probe) -> bool:
    """Is a record around the field told? Then nothing of it is carried, or the receipt names its type."""
    for value, without in probe.pairs[1:]:
        encoded, lines = of(source, target, value)
        other, fewer = of(source, target, without)
        new = lines - fewer
        if encoded is None or (
            new and (encoded == other or any(f'"{line.what}"' in json.dumps(value) for line in new))
        ):
            return True
    return False


def vanishes(source: str, target: str, probe: Probe) -> bool:
    value, without = probe.pairs[0]
    encoded, lines = of(source, target, value)
    other, fewer = of(source, target, without)
    if encoded is None or other is None or lines - fewer or is_carried(probe, encoded, other):
        return False
    return not is_told_as_a_whole(source, target, probe)


def key_of(path: str) -> str:
    """The name of the field that a path ends in."""
    return re.sub(r"(\([^()]*\)|\[\]|\.\*)+$", "", re.sub(r"=[^.()\[\]]*$|=\{.*\}$|=\S*$", "", path)).rpartition(".")[2]


def is_default_flag(path: str) -> bool:
    value = path.rpartition("=")[2]
    return value in ("True", "False") and value == str(key_of(path) in ON_BY_DEFAULT)


def is_exempt(path: str) -> bool:
    if ELSEWHERE.search(path) is not None or is_default_flag(path):
        return True
    return any(re.search(pattern, path) for pattern, _ in DEFAULTS)


@pytest.mark.parametrize("source", NAMES)
def test_every_field_of_a_request_is_carried_or_told(source: str) -> None:
    cosmetic = DIALECTS[source].can.receipt.cosmetic
    probes = [probe for probe in requests(source) if not is_exempt(probe.path) and key_of(probe.path) not in cosmetic]
    silent = [
        f"{source} to {target}: {probe.path}"
        for probe in probes
        for target in NAMES
        if target != source and vanishes(source, target, probe)
    ]
    assert not silent, "\n".join(silent)


TEXT = re.compile(
    r"\.(text|content|data|stdout|stderr|output|code|logs|diff|result|context|title|(queri|command)\w*\[\])$"
)
"""The members of a conversation that hold text for the model, by the end of their path."""

NOT_TOLD: tuple[tuple[str, str], ...] = (
    (r"(citations|annotations|logprobs)\[\]", "it is about a text, and the text is there"),
    (r"Thinking|Reasoning", "only its own vendor's model takes reasoning back"),
    (r"safety_checks\[\]", "the client answers it, not the model"),
    (r"ResponseFunctionWebSearch", "an item without what was found"),
    (r"ImageGenerationCall\)\.error", "an item with an image has no error"),
    (r"tools?(_changes)?(\[\])?\(", "tools are declared among the tools"),
)
"""Texts that the other side does not get, each with the reason. The receipt names them."""


@pytest.mark.parametrize("source", NAMES)
def test_text_for_the_model_reaches_every_other_dialect(source: str) -> None:
    lost = [
        f"{source} to {target}: {probe.path}"
        for probe in requests(source)
        if probe.path.startswith(CONVERSATIONS[source]) and probe.needle is not None and TEXT.search(probe.path)
        if not any(re.search(pattern, probe.path) for pattern, _ in NOT_TOLD)
        for target in NAMES
        if target != source
        for encoded in (of(source, target, probe.pairs[0].value)[0],)
        if encoded is not None and not any(form.encode() in encoded for form in probe.forms)
    ]
    assert not lost, "\n".join(lost)


def test_the_table_of_shared_members_holds_all_that_openais_two_apis_have_in_common() -> None:
    both = set(CompletionCreateParamsBase.__annotations__) & set(ResponseCreateParamsBase.__annotations__)
    assert both <= SHARED.keys() | OTHERWISE.keys()


UNTYPED = {
    "anthropic": {"anthropic_version", "anthropic_beta"},  # bodies for Bedrock and Vertex have them
    "openai_chat": {"prompt_filter_results", "content_filter_results", "content_filter_offsets"},  # Azure's answers
    "openai_responses": {"billing", "parsed", "parsed_arguments"},  # the vendor's own clients and the SDK's parser
    "gemini": {"model", "traceId"},  # the SDK has the model as an argument; Code Assist adds a trace
}
"""Cosmetic keys that the SDK's types do not have."""


@pytest.mark.parametrize("source", NAMES)
def test_each_cosmetic_key_has_a_reason_and_is_one_of_the_api(source: str) -> None:
    can = DIALECTS[source].can
    for table in (can.receipt.cosmetic, can.receipt.noted):
        assert all(len(reason.split()) >= 3 for reason in table.values())
        assert table.keys() - names_of(source) <= UNTYPED.get(source, set()) | {"client_metadata"}
    assert not can.receipt.cosmetic.keys() & can.receipt.noted.keys()


@pytest.mark.parametrize("source", NAMES)
def test_without_its_row_the_law_would_find_a_cosmetic_key(source: str) -> None:
    """A key without a row is told as a loss, so each row does something: it silences a field that stays behind."""
    dialect = DIALECTS[source]
    told = replace(dialect, can=change_capabilities(dialect.can, cosmetic={}))
    cosmetic = dialect.can.receipt.cosmetic.keys()
    set_to = [probe for probe in requests(source) if not probe.path.endswith("=False")]
    probes = {key_of(probe.path): probe for probe in set_to if not ELSEWHERE.search(probe.path)}
    for key in cosmetic & probes.keys():
        value = probes[key].pairs[0].value
        silenced = [target for target in NAMES if target != source and vanishes(source, target, probes[key])]
        assert all(translated(told, target, value)[1] - of(source, target, value)[1] for target in silenced), key
