from __future__ import annotations

from toolglot.ir import Message, ResponseFormat, Text, replace
from toolglot.passes import formats

from .targets import ANTHROPIC, CHAT, asked, lines, texts, to, user

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def test_a_format_that_the_target_knows_stays() -> None:
    request = asked(user(), response_format=ResponseFormat(kind="json_schema", schema=SCHEMA))
    assert formats.fit(request, to(ANTHROPIC)) is request


def test_json_is_asked_for_behind_the_system_prompt() -> None:
    context = to(ANTHROPIC)
    system = Message(role="system", content=(Text(text="Be kind"),))
    request = formats.fit(asked(system, user(), response_format=ResponseFormat(kind="json")), context)
    assert [message.role for message in request.messages] == ["system", "system", "user"]
    assert "JSON" in texts(request.messages[1])[0]
    assert request.response_format is None
    assert lines(context) == ["loss response_format"]


def test_a_schema_is_told_in_full() -> None:
    request = asked(user(), response_format=ResponseFormat(kind="json_schema", schema=SCHEMA))
    fitted = formats.fit(request, to(replace(CHAT, response_formats=frozenset({"text"}))))
    assert '{"type":"object","properties":{"a":{"type":"string"}}}' in texts(fitted.messages[0])[0]


def test_plain_text_needs_no_word() -> None:
    context = to(replace(CHAT, response_formats=frozenset()))
    assert formats.fit(asked(user(), response_format=ResponseFormat(kind="text")), context) == asked(user())
    assert not context.receipt
