from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot import Exchange
from toolglot.capabilities import change_capabilities
from toolglot.dialects.anthropic import VERSIONS, anthropic_capabilities
from toolglot.ir import Citation, Media, Message, Source, Text, Thinking, replace
from toolglot.passes import Context, refused

from .targets import ANTHROPIC, CHAT, again, answered, asked, calls, lines, result, said, texts, to, user

PDF = Media(kind="document", source=Source("base64", "AAAA", "application/pdf"), name="a.pdf")


def refusing(*names: str, source: str = "elsewhere", aliased: bool = False) -> Context:
    return to(
        change_capabilities(ANTHROPIC, refuses=frozenset(names)), source=source, target="anthropic", aliased=aliased
    )


def test_documents_of_the_assistant_leave_a_marker() -> None:
    context = refusing("assistant_documents", source="anthropic")
    request = asked(Message(role="user", content=(PDF,)), Message(role="assistant", content=(Text(text="x"), PDF)))
    fitted = refused.fit(request, context)
    assert fitted.messages[0] is request.messages[0]
    assert texts(fitted.messages[1]) == ["x", "[document a.pdf left out: it cannot be shown here]"]
    assert lines(context) == ["loss messages[1].content[1]"]
    assert refused.fit(fitted, again(context)) is fitted


def test_citations_on_a_users_text_are_dropped_and_noted() -> None:
    context = refusing("user_citations", source="anthropic")
    cited = (Text(text="x", citations=(Citation(url="u"),)),)
    request = asked(Message(role="user", content=cited), Message(role="assistant", content=cited))
    fitted = refused.fit(request, context)
    assert fitted.messages[0].content == (Text(text="x"),)
    assert fitted.messages[1] is request.messages[1]
    assert lines(context) == ["note messages[0].content[0]"]


@pytest.mark.parametrize(
    ("given", "left", "told"),
    [
        ((0.2, None), (0.2, None), []),
        ((0.2, 0.9), (0.2, None), ["loss top_p"]),
        ((0.2, 1), (0.2, None), ["note top_p"]),
        ((1, 0.9), (None, 0.9), ["note temperature"]),
    ],
)
def test_a_temperature_or_a_top_p(given: Any, left: Any, told: list[str]) -> None:
    context = refusing("temperature_with_top_p")
    request = refused.fit(asked(user(), temperature=given[0], top_p=given[1]), context)
    assert (request.temperature, request.top_p) == left
    assert lines(context) == told


@pytest.mark.parametrize("source", ["anthropic", "openai_chat"])
def test_calls_without_reasoning_get_an_empty_one(source: str) -> None:
    can = change_capabilities(CHAT, refuses=frozenset({"calls_without_reasoning"}))
    context = to(can, source=source, target="openai_chat")
    thought = replace(calls("b"), content=(Thinking(text="Hm"), *calls("b").content))
    request = asked(user(), calls("a"), answered(result("a")), thought, answered(result("b")), said("So"))
    fitted = refused.fit(request, context)
    assert [message.native for message in fitted.messages] == [
        {},
        {"openai_chat": {"reasoning_content": ""}},
        {},
        {},
        {},
        {},
    ]
    assert lines(context) == ["note messages[1]"]
    assert refused.fit(fitted, again(context)) is fitted


def test_stop_sequences_of_spaces_are_dropped() -> None:
    context = refusing("blank_stop")
    assert refused.fit(asked(user(), stop=("\n", "END", " ")), context).stop == ("END",)
    assert lines(context) == ["loss stop"]


def test_an_answer_to_go_on_with_does_not_end_in_spaces() -> None:
    context = refusing("spaces_at_the_end")
    request = refused.fit(asked(user(), said("So: ")), context)
    assert texts(request.messages[1]) == ["So:"]
    assert lines(context) == ["note messages[1].content[0]"]
    several = Message(role="assistant", content=tuple(Text(text=text) for text in ("a ", "b ", "c ")))
    assert texts(refused.fit(asked(user(), several), refusing("spaces_at_the_end")).messages[1]) == ["a ", "b ", "c"]
    assert texts(refused.fit(asked(said("Hm "), user("Hi ")), refusing("spaces_at_the_end")).messages[0]) == ["Hm "]


def test_a_client_of_the_targets_dialect_knows_its_model_unless_it_is_another_one() -> None:
    request = asked(user(), stop=(" ",))
    assert refused.fit(request, refusing("blank_stop", source="anthropic")) is request
    assert refused.fit(request, refusing("blank_stop", source="anthropic", aliased=True)).stop == ()


CITATION = {"type": "char_location", "cited_text": "q", "document_index": 0, "document_title": "t", "end_char_index": 1}
OLD_STYLE: dict[str, Any] = {
    "model": "claude-opus-4-5",
    "max_tokens": 9,
    "temperature": 1,
    "top_k": 5,
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Hi", "citations": [CITATION]}]},
        {"role": "assistant", "content": [{"type": "document", "source": {"type": "text", "data": "d"}}]},
        {"role": "user", "content": "Go on"},
    ],
}


def test_a_request_is_fitted_to_the_version_of_the_upstreams_api() -> None:
    exchange = Exchange("anthropic", "anthropic", can=anthropic_capabilities("2026-10-21", "claude-opus-4-5"))
    sent = json.loads(exchange.request(OLD_STYLE))
    assert sent["messages"][0]["content"] == "Hi"
    assert sent["messages"][1]["content"] == "[document left out: it cannot be shown here]"
    assert sent.keys() == {"model", "max_tokens", "messages"}
    assert [f"{line.severity} {line.where}" for line in exchange.receipt] == [
        "note temperature",
        "loss top_k",
        "loss messages[1].content[0]",
        "note messages[0].content[0]",
    ]


def test_the_first_version_takes_everything_and_is_the_default() -> None:
    data = json.dumps(OLD_STYLE).encode()
    for version in (None, "2023-06-01", "2023-01-01"):
        can = anthropic_capabilities(version, "claude-opus-4-5") if version else None
        assert Exchange("anthropic", "anthropic", can=can).request(data) == data


def test_a_version_that_nobody_knows_is_the_last_one_before_it() -> None:
    assert list(VERSIONS) == ["2023-06-01", "2026-10-21"]
    assert anthropic_capabilities("2027-01-01", "m") == anthropic_capabilities("2026-10-21", "m")
    assert "temperature" in anthropic_capabilities("2026-10-20", "m").parameters.fields
