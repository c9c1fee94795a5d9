from __future__ import annotations

from toolglot.capabilities import Capabilities, change_capabilities
from toolglot.ir import Message, ResponseFormat, Text
from toolglot.passes import formats

from .targets import ANTHROPIC, CHAT, answered, asked, calls, lines, result, said, texts, to, user

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def test_a_format_that_the_target_knows_stays() -> None:
    request = asked(user(), response_format=ResponseFormat(kind="json_schema", schema=SCHEMA))
    assert formats.fit(request, to(ANTHROPIC)) is request


def test_json_is_asked_for_behind_what_the_user_said() -> None:
    """In front of the conversation it would change the prefix that the prompt cache holds."""
    context = to(ANTHROPIC)
    system = Message(role="system", content=(Text(text="Be kind"),))
    request = formats.fit(asked(system, user(), response_format=ResponseFormat(kind="json")), context)
    assert [message.role for message in request.messages] == ["system", "user"]
    assert texts(request.messages[1])[0] == "Hello"
    assert texts(request.messages[1])[1].startswith("<system-reminder>\nAnswer with one JSON object")
    assert request.response_format is None
    assert lines(context) == ["loss response_format"]


def test_a_schema_is_told_in_full() -> None:
    request = asked(user(), response_format=ResponseFormat(kind="json_schema", schema=SCHEMA))
    fitted = formats.fit(request, to(change_capabilities(CHAT, response_formats=frozenset({"text"}))))
    assert '{"type":"object","properties":{"a":{"type":"string"}}}' in texts(fitted.messages[1])[0]


def test_the_words_that_ask_for_a_format() -> None:
    """What is said to a model is on the wire, so it stands here."""
    bare = change_capabilities(CHAT, response_formats=frozenset())
    line = "Answer with one JSON object and nothing else: no prose, no code fence."
    schema = '{"type":"object","properties":{"a":{"type":"string"}}}'
    for wanted, words in (
        (ResponseFormat(kind="json"), line),
        (ResponseFormat(kind="json_schema"), line),
        (ResponseFormat(kind="json_schema", schema=SCHEMA), f"{line} It must match this JSON Schema:\n{schema}"),
        (
            ResponseFormat(kind="json_schema", schema=SCHEMA, description="A form."),
            f"{line} It must match this JSON Schema (A form.):\n{schema}",
        ),
    ):
        fitted = formats.fit(asked(user(), response_format=wanted), to(bare))
        assert texts(fitted.messages[1]) == [words]


def test_plain_text_needs_no_word() -> None:
    context = to(change_capabilities(CHAT, response_formats=frozenset()))
    assert formats.fit(asked(user(), response_format=ResponseFormat(kind="text")), context) == asked(user())
    assert not context.receipt


def roles(can: Capabilities, *messages: Message) -> list[str]:
    request = asked(*messages, response_format=ResponseFormat(kind="json"))
    return [message.role for message in formats.fit(request, to(can, target="target")).messages]


def test_a_line_for_one_turn_stands_where_the_target_takes_it() -> None:
    system = Message(role="system", content=(Text(text="Be kind"),))
    anywhere = change_capabilities(CHAT, response_formats=frozenset())
    after_user = change_capabilities(anywhere, system="after_user")
    leading = change_capabilities(ANTHROPIC, response_formats=frozenset())
    assert roles(anywhere, user(), said("Well")) == ["user", "system", "assistant"]
    assert roles(anywhere, system) == ["system", "system"]
    assert roles(after_user, user(), system) == ["user", "system"]
    assert roles(leading, user(), calls("a"), answered(result("a"))) == ["user", "assistant", "tool", "user"]
    assert roles(leading, said("Well")) == ["system", "assistant"]
