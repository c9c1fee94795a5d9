from __future__ import annotations

from toolglot.ir import Media, Message, Source, Text
from toolglot.passes import system

from .targets import ANTHROPIC, CHAT, GEMINI, asked, lines, said, texts, to, user


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


def test_media_in_the_system_prompt_leaves_a_marker() -> None:
    context = to(ANTHROPIC)
    image = Media(kind="image", source=Source("base64", "AAAA", "image/png"), name="map.png")
    request = system.fit(asked(Message(role="system", content=(Text(text="See"), image)), user()), context)
    assert texts(request.messages[0]) == ["See", "[image map.png left out: system messages hold text alone]"]
    assert lines(context) == ["loss messages[0].content[1]"]


def test_an_unknown_role_is_a_users_elsewhere_and_stays_at_home() -> None:
    request = asked(user(), instruction("?", "critic"))
    context = to(ANTHROPIC)
    assert system.fit(request, context).messages[1].role == "user"
    assert lines(context) == ["loss messages[1]"]
    assert system.fit(request, to(CHAT, source="openai_chat")) is request
