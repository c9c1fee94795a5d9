"""OpenAI's two APIs: a member that both have under the same meaning is carried from the one to the other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot import translate_request
from toolglot.dialects import DIALECTS
from toolglot.dialects.openai_chat import wire as chat
from toolglot.dialects.openai_responses import wire as responses
from toolglot.receipt import Receipt

MODEL = "gpt-4.1"
BASE: dict[str, dict[str, Any]] = {
    "openai_chat": {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}]},
    "openai_responses": {"model": MODEL, "input": [{"role": "user", "content": "Hello"}]},
}
PAIRS = (("openai_chat", "openai_responses"), ("openai_responses", "openai_chat"))
REASONING_MODEL = "gpt-5.6"

SHARED: dict[str, Any] = {
    "metadata": {"team": "blue"},
    "model": MODEL,
    "moderation": {"model": "omni-moderation-latest", "policy": {"input": {"mode": "block"}}},
    "parallel_tool_calls": False,
    "prompt_cache_key": "key",
    "prompt_cache_retention": "24h",
    "safety_identifier": "someone",
    "service_tier": "flex",
    "store": True,
    "stream": True,
    "temperature": 0.5,
    "top_logprobs": 3,
    "top_p": 0.25,
    "user": "account-7",
}
"""Members that both write in one form, with a value that is not their default."""

OTHERWISE = {
    "prompt_cache_options": "it goes to newer models alone: see the test of it",
    "reasoning": "Chat's is OpenRouter's; both read it, each writes its own form",
    "stream_options": "toolglot writes the client's stream itself; the receipt has a note",
    "tool_choice": "its form differs",
    "tools": "their form differs",
}


def carried(source: str, target: str, members: dict[str, Any]) -> tuple[dict[str, Any], str]:
    result = translate_request(json.dumps(BASE[source] | members).encode(), source, target)
    return json.loads(result.data), str(result.receipt)


def test_the_table_holds_every_member_that_both_wires_have() -> None:
    both = set(chat.ChatRequestBody.__struct_fields__) & set(responses.ResponsesRequestBody.__struct_fields__) - {
        "rest"
    }
    assert both == SHARED.keys() | OTHERWISE.keys()


@pytest.mark.parametrize(("source", "target"), PAIRS)
@pytest.mark.parametrize("name", SHARED)
def test_a_member_that_both_apis_have_is_carried(source: str, target: str, name: str) -> None:
    tools = {"parallel_tool_calls": [{"type": "function", "name": "f"}]}.get(name)
    wanted = {name: SHARED[name], **({"tools": tools} if tools else {})}
    written, receipt = carried(source, target, wanted)
    # A lone identifier goes to the member that is the current one there.
    place = {"safety_identifier", "user"} & written.keys() if name in ("safety_identifier", "user") else {name}
    assert [written.get(each) for each in place] == [SHARED[name]]
    assert "loss" not in receipt


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_both_identifiers_keep_their_members(source: str, target: str) -> None:
    written, receipt = carried(source, target, {"user": "account-7", "safety_identifier": "someone"})
    assert (written["user"], written["safety_identifier"], receipt) == ("account-7", "someone", "")


@pytest.mark.parametrize("target", ["anthropic", "gemini"])
def test_other_apis_get_the_identifier_and_the_receipt_names_the_older_one(target: str) -> None:
    result = translate_request(
        json.dumps(BASE["openai_chat"] | {"user": "account-7", "safety_identifier": "someone"}).encode(),
        "openai_chat",
        target,
    )
    assert "note: legacy_user:" in str(result.receipt)
    assert b"account-7" not in result.data
    assert "account-7" not in str(result.receipt)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_prompt_cache_options_go_to_models_that_know_them(source: str, target: str) -> None:
    options = {"prompt_cache_options": {"mode": "explicit"}}
    written, _ = carried(source, target, {**options, "model": REASONING_MODEL})
    assert written["prompt_cache_options"] == {"mode": "explicit"}


ANNOTATED = "The sky is blue"
SPAN = {"url": "https://sky.example", "title": "Sky", "start_index": 4, "end_index": 7}
IN_CHAT = {"type": "url_citation", "url_citation": SPAN}
IN_RESPONSES = {"type": "url_citation", **SPAN}


def spoken(dialect: str, *texts: tuple[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """An assistant message with texts and annotations, in a request."""
    if dialect == "openai_chat":
        parts = [{"type": "text", "text": text} for text, _ in texts]
        content: Any = texts[0][0] if len(texts) == 1 else parts
        listed = [annotation for _, annotations in texts for annotation in annotations]
        message = {"role": "assistant", "content": content, "annotations": listed}
        return {"messages": [*BASE[dialect]["messages"], message]}
    said = [{"type": "output_text", "text": text, "annotations": annotations} for text, annotations in texts]
    item = {"type": "message", "role": "assistant", "content": said}
    return {"input": [*BASE[dialect]["input"], item]}


def test_annotations_of_a_chat_history_reach_responses() -> None:
    written, receipt = carried("openai_chat", "openai_responses", spoken("openai_chat", (ANNOTATED, [IN_CHAT])))
    assert written["input"][1]["content"] == [
        {"type": "output_text", "text": ANNOTATED, "annotations": [IN_RESPONSES]},
    ]
    assert receipt == ""


def test_annotations_of_a_responses_history_reach_chat() -> None:
    written, receipt = carried(
        "openai_responses", "openai_chat", spoken("openai_responses", (ANNOTATED, [IN_RESPONSES]))
    )
    assert written["messages"][1] == {"role": "assistant", "content": ANNOTATED, "annotations": [IN_CHAT]}
    assert receipt == ""


def test_a_span_counts_from_its_own_part_in_responses_and_from_the_message_in_chat() -> None:
    first, second = "So: ", ANNOTATED
    moved = {**SPAN, "start_index": len(first) + 4, "end_index": len(first) + 7}
    there, _ = carried(
        "openai_responses", "openai_chat", spoken("openai_responses", (first, []), (second, [IN_RESPONSES]))
    )
    assert there["messages"][1]["annotations"] == [{"type": "url_citation", "url_citation": moved}]
    back, _ = carried("openai_chat", "openai_responses", there)
    assert [part["annotations"] for part in back["input"][1]["content"]] == [[], [IN_RESPONSES]]


def test_a_server_that_only_imitates_openai_gets_no_annotations() -> None:
    written, receipt = carried(
        "openai_responses", "openai_chat", spoken("openai_responses", (ANNOTATED, [IN_RESPONSES])) | {"model": "llama"}
    )
    assert written["messages"][1] == {"role": "assistant", "content": ANNOTATED}
    assert "loss: messages[1].content[0]: 1 citations" in receipt


def test_an_annotation_of_an_unknown_type_is_lost_and_the_others_are_carried() -> None:
    members = spoken("openai_chat", (ANNOTATED, [{"type": "new_kind"}, IN_CHAT]))
    written, receipt = carried("openai_chat", "openai_responses", members)
    assert written["input"][1]["content"][0]["annotations"] == [IN_RESPONSES]
    assert "loss: messages[1].annotations:" in receipt


@pytest.mark.parametrize("model", ["llama", MODEL])
def test_annotations_stay_as_they_are_within_chat(model: str) -> None:
    dialect = DIALECTS["openai_chat"]
    members = spoken("openai_chat", ("So: ", []), (ANNOTATED, [{"type": "new_kind"}, IN_CHAT]))
    body = BASE["openai_chat"] | members | {"model": model}
    receipt = Receipt()
    again = dialect.encode_request(dialect.decode_request(json.dumps(body).encode()), receipt)
    assert json.loads(again) == body
    assert not receipt.losses
