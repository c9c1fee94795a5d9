"""Lists of models: what clients of each dialect get, and what upstreams of each kind tell."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError
from toolglot.models import ModelInfo
from toolglot.server import routes

KNOWN = ModelInfo(
    name="claude-x",
    title="Claude X",
    created=1_700_000_000,
    owner="anthropic",
    context_window=200_000,
    max_output_tokens=64_000,
    inputs=frozenset({"text", "image", "document"}),
    thinking=True,
)
UNKNOWN = ModelInfo(name="local")
MANY = [ModelInfo(name=f"m{index}") for index in range(45)]
NAMES = [model.name for model in MANY]


def models(name: str, listed: list[ModelInfo], **query: str) -> dict[str, Any]:
    page: dict[str, Any] = json.loads(DIALECTS[name].listing.encode_models(listed, query))
    return page


def model(name: str, info: ModelInfo) -> dict[str, Any]:
    entry: dict[str, Any] = json.loads(DIALECTS[name].listing.encode_model(info))
    return entry


def decode(name: str, document: Any) -> list[ModelInfo]:
    return DIALECTS[name].listing.decode_models(json.dumps(document).encode())


@pytest.mark.parametrize("name", ["openai_chat", "openai_responses"])
def test_openais_list_has_its_four_members_and_what_imitators_add(name: str) -> None:
    plain = {"id": "local", "object": "model", "created": 0, "owned_by": "toolglot"}
    assert models(name, [UNKNOWN]) == {"object": "list", "data": [plain]}
    assert model(name, KNOWN) == {
        "id": "claude-x",
        "object": "model",
        "created": 1_700_000_000,
        "owned_by": "anthropic",
        "name": "Claude X",
        "context_length": 200_000,
        "max_model_len": 200_000,
        "max_output_tokens": 64_000,
        "architecture": {"input_modalities": ["text", "image", "file"]},
    }


def test_anthropics_entry_has_every_capability_or_none() -> None:
    unknown = model("anthropic", UNKNOWN)
    assert unknown == {
        "type": "model",
        "id": "local",
        "display_name": "local",
        "created_at": "1970-01-01T00:00:00Z",
        "lifecycle": "active",
        "max_input_tokens": None,
        "max_tokens": None,
        "capabilities": None,
    }
    known = model("anthropic", KNOWN)
    assert known["created_at"] == "2023-11-14T22:13:20Z"
    assert (known["max_input_tokens"], known["max_tokens"]) == (200_000, 64_000)
    no, yes = {"supported": False}, {"supported": True}
    assert known["capabilities"] == {
        "batch": no,
        "citations": no,
        "code_execution": no,
        "context_management": no,
        "effort": {**yes, "low": yes, "medium": yes, "high": yes, "max": yes},
        "image_input": yes,
        "pdf_input": yes,
        "server_tools": {**no, "code_execution": no, "web_search": no},
        "structured_outputs": yes,
        "thinking": {**yes, "types": {"adaptive": yes, "enabled": yes, "disabled": yes, "between_tools": yes}},
    }
    assert model("anthropic", ModelInfo(name="x", created=10**15))["created_at"] == "9999-12-31T23:59:59Z"


@pytest.mark.parametrize(
    ("told", "image", "thinks"),
    [
        ({"inputs": frozenset({"image"})}, True, False),
        ({"thinking": False}, False, False),
        ({"thinking": True}, False, True),
    ],
)
def test_a_model_of_which_something_is_known_has_capabilities(told: dict[str, Any], image: bool, thinks: bool) -> None:
    able = model("anthropic", ModelInfo(name="x", **told))["capabilities"]
    assert (able["image_input"]["supported"], able["thinking"]["supported"]) == (image, thinks)


def test_anthropics_pages_follow_each_other_in_both_directions() -> None:
    first = models("anthropic", MANY)
    assert [entry["id"] for entry in first["data"]] == NAMES[:20]
    assert (first["has_more"], first["first_id"], first["last_id"]) == (True, "m0", "m19")
    last = models("anthropic", MANY, limit="30", after_id="m19")
    assert [entry["id"] for entry in last["data"]] == NAMES[20:]
    assert last["has_more"] is False
    before = models("anthropic", MANY, limit="5", before_id="m7")
    assert ([entry["id"] for entry in before["data"]], before["has_more"]) == (NAMES[2:7], True)
    second = models("anthropic", MANY, limit="5", before_id="m6")
    assert ([entry["id"] for entry in second["data"]], second["has_more"]) == (NAMES[1:6], True)
    start = models("anthropic", MANY, limit="5", before_id="m3")
    assert ([entry["id"] for entry in start["data"]], start["has_more"]) == (NAMES[:3], False)
    assert models("anthropic", MANY, limit="25", after_id="m19")["has_more"] is False
    assert models("anthropic", MANY, limit="24", after_id="m19")["has_more"] is True


@pytest.mark.parametrize("query", [{"after_id": "none"}, {"before_id": "none"}, {"after_id": "m44"}])
def test_a_page_that_is_not_there_is_empty_and_the_last(query: dict[str, str]) -> None:
    assert models("anthropic", MANY, **query) == {"data": [], "has_more": False, "first_id": None, "last_id": None}


def test_a_page_has_the_usual_size_when_the_asked_one_is_none() -> None:
    for size in ("0", "-3", "x", "", "9" * 400):
        assert len(models("anthropic", MANY, limit=size)["data"]) == 20
        assert len(models("gemini", MANY * 2, pageSize=size)["models"]) == 50


def test_a_page_has_a_thousand_models_at_most() -> None:
    listed = [ModelInfo(name=str(number)) for number in range(1002)]
    assert len(models("anthropic", listed, limit="5000")["data"]) == 1000
    assert len(models("gemini", listed, pageSize="5000")["models"]) == 1000


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("openai_chat", "/v1/models"),
        ("openai_responses", "/v1/models"),
        ("anthropic", "/v1/models?limit=1000"),
        ("gemini", "/v1beta/models?pageSize=1000"),
    ],
)
def test_an_upstream_is_asked_for_its_longest_page(name: str, path: str) -> None:
    assert DIALECTS[name].listing.path == path


def test_geminis_entry_names_a_resource_and_its_methods() -> None:
    assert model("gemini", KNOWN) == {
        "name": "models/claude-x",
        "version": "001",
        "displayName": "Claude X",
        "inputTokenLimit": 200_000,
        "outputTokenLimit": 64_000,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
        "thinking": True,
    }
    assert "inputTokenLimit" not in model("gemini", UNKNOWN)
    assert model("gemini", ModelInfo(name="models/x"))["name"] == "models/x"


def test_geminis_pages_are_followed_by_token_in_either_spelling() -> None:
    first = models("gemini", MANY, pageSize="30")
    assert len(first["models"]) == 30
    rest = models("gemini", MANY, page_size="30", page_token=first["nextPageToken"])
    assert [entry["name"] for entry in first["models"] + rest["models"]] == [f"models/{name}" for name in NAMES]
    assert "nextPageToken" not in rest
    assert len(models("gemini", MANY, page_size="7")["models"]) == 7
    assert "nextPageToken" not in models("gemini", MANY, pageSize="45")
    assert models("gemini", MANY, pageSize="44", pageToken="")["nextPageToken"] == "44"
    assert models("gemini", MANY, pageToken="forged") == {"models": []}


SHORT_LISTS = {"ollama"}
"""Dialects whose lists have no title and no limits of a model."""


@pytest.mark.parametrize("name", DIALECTS)
def test_what_a_dialect_writes_it_reads(name: str) -> None:
    listing = DIALECTS[name].listing
    found = listing.decode_models(listing.encode_models([KNOWN, UNKNOWN], {}))
    assert [entry.name for entry in found] == ["claude-x", "local"]
    if name not in SHORT_LISTS:
        assert (found[0].title, found[0].context_window, found[0].max_output_tokens) == ("Claude X", 200_000, 64_000)
    assert (found[1].context_window, found[1].max_output_tokens, found[1].inputs) == (None, None, frozenset())
    served = routes.find("GET", listing.path.partition("?")[0])
    assert isinstance(served, routes.Match)
    assert served.route.action == "models"


def test_a_list_in_pages_is_asked_for_in_the_longest_page() -> None:
    assert DIALECTS["gemini"].listing.path == "/v1beta/models?pageSize=1000"


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("answer", [b"", b"<html>", b"7", b'{"error":{"message":"no"}}', b'{"data":{},"models":{}}'])
def test_what_is_no_list_is_refused(name: str, answer: bytes) -> None:
    with pytest.raises(DecodeError):
        DIALECTS[name].listing.decode_models(answer)


@pytest.mark.parametrize("name", DIALECTS)
def test_entries_that_cannot_be_read_are_left_out(name: str) -> None:
    strange: list[Any] = [None, 7, "x", {}, {"id": 5, "name": 5}, {"id": "good", "name": "models/good", "created": "?"}]
    found = decode(name, {"data": strange, "models": strange})
    assert [entry.name.removeprefix("models/") for entry in found] == ["good"]


IMITATORS: dict[str, tuple[Any, dict[str, Any]]] = {
    "vLLM": (
        {"data": [{"id": "q", "object": "model", "created": 5, "owned_by": "vllm", "max_model_len": 32768}]},
        {"name": "q", "created": 5, "owner": "vllm", "context_window": 32768},
    ),
    "llama.cpp": (
        {
            "models": [{"name": "q.gguf", "model": "q.gguf", "capabilities": ["completion"]}],
            "data": [{"id": "q.gguf", "owned_by": "llamacpp", "meta": {"n_vocab": 9, "n_ctx_train": 131072}}],
        },
        {"name": "q.gguf", "owner": "llamacpp", "context_window": 131072},
    ),
    "OpenRouter": (
        {
            "data": [
                {
                    "id": "a/b",
                    "name": "A: B",
                    "context_length": 1000,
                    "architecture": {"input_modalities": ["text", "image", "file", "smell"]},
                    "top_provider": {"context_length": 900, "max_completion_tokens": 100},
                }
            ]
        },
        {
            "name": "a/b",
            "title": "A: B",
            "context_window": 1000,
            "max_output_tokens": 100,
            "inputs": frozenset({"text", "image", "document"}),
        },
    ),
    "Groq": (
        {"data": [{"id": "g", "context_window": 8192, "max_completion_tokens": 1024}]},
        {"name": "g", "context_window": 8192, "max_output_tokens": 1024},
    ),
    "Mistral": (
        {"data": [{"id": "m", "max_context_length": 32768, "capabilities": {"vision": True}}]},
        {"name": "m", "context_window": 32768, "inputs": frozenset({"text", "image"})},
    ),
    "LM Studio": (
        {"data": [{"id": "l", "type": "vlm", "max_context_length": 4096, "loaded_context_length": 2048}]},
        {"name": "l", "context_window": 2048, "inputs": frozenset({"text", "image"})},
    ),
    "Together": (
        [{"id": "t", "organization": "T", "context_length": 10}],
        {"name": "t", "owner": "T", "context_window": 10},
    ),
}


@pytest.mark.parametrize("server", IMITATORS)
def test_what_servers_add_to_openais_list_is_read(server: str) -> None:
    document, told = IMITATORS[server]
    assert decode("openai_chat", document) == [ModelInfo(**told)]


def test_models_of_gemini_that_do_not_generate_are_left_out() -> None:
    listed = [
        {"name": "models/embedding", "supportedGenerationMethods": ["embedContent"]},
        {"name": "models/gemini-x", "supportedGenerationMethods": ["generateContent"], "inputTokenLimit": 7},
    ]
    assert decode("gemini", {"models": listed}) == [ModelInfo(name="gemini-x", context_window=7)]
    assert decode("gemini", {}) == []


def test_what_anthropic_tells_of_a_model_is_read() -> None:
    entry = {
        "id": "claude-x",
        "created_at": "2026-02-04T00:00:00Z",
        "max_input_tokens": 1_000_000,
        "capabilities": {"image_input": {"supported": True}, "thinking": {"supported": False}, "pdf_input": None},
    }
    assert decode("anthropic", {"data": [entry]}) == [
        ModelInfo(
            name="claude-x",
            created=1_770_163_200,
            context_window=1_000_000,
            inputs=frozenset({"text", "image"}),
            thinking=False,
        )
    ]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, {}),
        ({"display_name": "X", "max_tokens": 5}, {"title": "X", "max_output_tokens": 5}),
        ({"display_name": 7, "created_at": 7, "capabilities": []}, {}),
        ({"created_at": "yesterday", "capabilities": {}}, {}),
        ({"capabilities": {"pdf_input": {"supported": True}}}, {"inputs": frozenset({"text", "document"})}),
        (
            {"capabilities": {"image_input": {"supported": "yes"}, "thinking": {"supported": True}}},
            {"inputs": frozenset({"text"}), "thinking": True},
        ),
    ],
)
def test_of_anthropics_entry_only_what_can_be_read_is_known(fields: dict[str, Any], told: dict[str, Any]) -> None:
    assert decode("anthropic", {"data": [{"id": "x", **fields}]}) == [ModelInfo(name="x", **told)]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, {}),
        (
            {"displayName": "X", "outputTokenLimit": 5, "thinking": True},
            {"title": "X", "max_output_tokens": 5, "thinking": True},
        ),
        ({"displayName": 7, "thinking": "yes", "supportedGenerationMethods": "all"}, {}),
    ],
)
def test_of_geminis_entry_only_what_can_be_read_is_known(fields: dict[str, Any], told: dict[str, Any]) -> None:
    assert decode("gemini", {"models": [{"name": "models/x", **fields}]}) == [ModelInfo(name="x", **told)]


@pytest.mark.parametrize(("name", "where"), [("anthropic", "$.data"), ("gemini", "$.models")])
def test_a_list_that_is_missing_is_told_with_its_place(name: str, where: str) -> None:
    with pytest.raises(DecodeError) as raised:
        decode(name, {"other": 1})
    assert raised.value.where == where
