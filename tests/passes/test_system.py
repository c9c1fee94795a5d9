from __future__ import annotations

import json
import time
from typing import Any

import pytest

from toolglot import Exchange
from toolglot.capabilities import change_capabilities
from toolglot.ir import Media, Message, Source, Text
from toolglot.passes import system

from .targets import ANTHROPIC, CHAT, GEMINI, again, answered, asked, calls, lines, result, said, texts, to, user


def instruction(text: str, role: str = "system") -> Message:
    return Message(role=role, content=(Text(text=text),))


def test_the_leading_run_stays_and_later_system_text_is_tagged_in_place() -> None:
    context = to(GEMINI, source="openai_chat")
    request = system.fit(
        asked(instruction("A"), instruction("B", "developer"), user(), instruction("C"), said("ok")), context
    )
    assert [message.role for message in request.messages] == ["system", "system", "user", "user", "assistant"]
    assert texts(request.messages[3]) == ["<system-reminder>\nC\n</system-reminder>"]
    assert lines(context) == ["note messages[3]"]


def test_system_text_stays_anywhere_where_the_target_allows_it() -> None:
    request = asked(instruction("A"), user(), instruction("C", "developer"))
    assert system.fit(request, to(CHAT)) is request


BEHIND_USER = change_capabilities(ANTHROPIC, system="after_user")


def test_system_text_stays_behind_a_users_turn_and_is_tagged_elsewhere() -> None:
    context = to(BEHIND_USER, source="openai_chat")
    request = asked(
        instruction("A"), user(), instruction("B"), said("ok"), instruction("C"), instruction("D"), user("Go on")
    )
    fitted = system.fit(request, context)
    assert [message.role for message in fitted.messages] == [
        "system",
        "user",
        "system",
        "assistant",
        "user",
        "user",
        "user",
    ]
    assert texts(fitted.messages[2]) == ["B"]
    assert texts(fitted.messages[5]) == ["<system-reminder>\nD\n</system-reminder>"]
    assert lines(context) == ["note messages[4]", "note messages[5]"]
    assert system.fit(fitted, again(context)) is fitted


def test_several_system_messages_behind_a_users_turn_are_one() -> None:
    context = to(BEHIND_USER, source="openai_chat")
    request = asked(user(), calls("c"), answered(result("c")), instruction("B", "developer"), instruction("C"))
    fitted = system.fit(request, context)
    assert [message.role for message in fitted.messages] == ["user", "assistant", "tool", "system"]
    assert texts(fitted.messages[3]) == ["B", "C"]
    assert lines(context) == ["note messages[4]"]
    assert system.fit(fitted, again(context)) is fitted


def test_a_user_who_says_nothing_is_no_turn_to_stand_behind() -> None:
    fitted = system.fit(asked(user(), said("ok"), user(" "), instruction("B")), to(BEHIND_USER))
    assert fitted.messages[3].role == "user"


def inline(model: str, sent_to: str | None, *messages: dict[str, str]) -> dict[str, Any]:
    body = {"model": model, "max_tokens": 9, "system": "Be kind.", "messages": messages}
    sent: dict[str, Any] = json.loads(Exchange("anthropic", "anthropic", model=sent_to).request(body))
    return sent


def test_inline_system_text_of_the_targets_dialect_is_fitted_only_to_another_model() -> None:
    messages = ({"role": "user", "content": "Hi"}, {"role": "system", "content": "Mind"})
    tagged = {"role": "user", "content": "<system-reminder>\nMind\n</system-reminder>"}
    assert inline("claude-opus-4-8", None, *messages)["messages"] == list(messages)
    assert inline("claude-opus-4-8", "claude-opus-5", *messages)["messages"] == list(messages)
    assert inline("claude-opus-4-8", "claude-sonnet-4-5", *messages)["messages"] == [messages[0], tagged]


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-5"])
def test_a_leading_inline_message_joins_the_prompt_of_another_model(model: str) -> None:
    messages = ({"role": "system", "content": "Mind"}, {"role": "user", "content": "Hi"})
    assert inline("claude-x", None, *messages)["messages"] == list(messages)
    sent = inline("claude-x", model, *messages)
    assert [block["text"] for block in sent["system"]] == ["Be kind.", "Mind"]
    assert sent["messages"] == [messages[1]]


def test_media_in_the_system_prompt_leaves_a_marker() -> None:
    context = to(ANTHROPIC)
    image = Media(kind="image", source=Source("base64", "AAAA", "image/png"), name="map.png")
    request = system.fit(asked(Message(role="system", content=(Text(text="See"), image)), user()), context)
    assert texts(request.messages[0]) == ["See", "[image map.png left out: system messages hold only text]"]
    assert lines(context) == ["loss messages[0].content[1]"]


def test_an_unknown_role_is_a_users_elsewhere_and_stays_at_home() -> None:
    request = asked(user(), instruction("?", "critic"))
    context = to(ANTHROPIC)
    assert system.fit(request, context).messages[1].role == "user"
    assert lines(context) == ["loss messages[1]"]
    assert system.fit(request, to(CHAT, source="openai_chat")) is request


def test_system_text_that_a_user_turn_follows_is_tagged_where_it_must_precede_an_answer() -> None:
    """claude-code #73821: it "must precede an 'assistant' message or end the array"."""
    user_turn, system_turn = {"role": "user", "content": "u"}, {"role": "system", "content": "s"}
    answer = {"role": "assistant", "content": "a"}

    def roles(*messages: dict[str, str]) -> list[str]:
        body = {"model": "claude-opus-4-8", "max_tokens": 9, "messages": list(messages)}
        sent = json.loads(Exchange("openai_chat", "anthropic").request(body))
        return [message["role"] for message in sent["messages"]]

    assert roles(user_turn, system_turn, user_turn) == ["user"]
    assert roles(user_turn, system_turn) == ["user", "system"]
    assert roles(user_turn, system_turn, system_turn, answer, user_turn) == ["user", "system", "assistant", "user"]


def test_a_long_run_of_system_messages_takes_linear_time() -> None:
    body = {"model": "claude-opus-5", "max_tokens": 9}
    run = [{"role": "user", "content": "u"}, *[{"role": "system", "content": "s"}] * 40_000]
    start = time.process_time()
    Exchange("openai_chat", "anthropic").request({**body, "messages": run})
    assert time.process_time() - start < 10
