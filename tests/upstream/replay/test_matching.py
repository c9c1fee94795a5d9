"""When two requests are the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.server.gateway import request
from toolglot.recordings.redact import Redactor
from toolglot.upstream.replay.matching import asked, operation, steady

CHAT = "https://api.openai.com/v1/chat/completions"
BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}


def chat(**members: Any) -> bytes:
    return json.dumps(BODY | members).encode()


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(dict(reversed(BODY.items())), indent=1).encode(),
        chat(model="another"),
        chat(user="me", metadata={"a": "1"}, prompt_cache_key="k", safety_identifier="s"),
    ],
    ids=["order", "model", "who asks"],
)
def test_what_does_not_matter_makes_no_other_request(body: bytes) -> None:
    one, other = asked("openai_chat", CHAT, chat()), asked("openai_chat", "replay:x/v1/chat/completions", body)
    assert one.exact == other.exact
    assert one.group == other.group


@pytest.mark.parametrize(
    "members", [{"stream": False}, {"temperature": 1}, {"messages": [{"role": "user", "content": "Ho"}]}, {"tools": []}]
)
def test_everything_else_does(members: dict[str, Any]) -> None:
    assert asked("openai_chat", CHAT, chat()).group != asked("openai_chat", CHAT, chat(**members)).group


def test_another_dialect_or_another_path_is_another_request() -> None:
    one = asked("openai_chat", CHAT, chat())
    assert one.group != asked("openai_responses", CHAT, chat()).group
    assert one.group != asked("openai_chat", CHAT.replace("completions", "other"), chat()).group


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("session 0b6c1f3e-9a1d-4a70-8f0e-0123456789ab", "session 6f9619ff-8b86-d011-b42d-00c04fc964ff"),
        ("Today's date is 2026-11-15.", "Today's date is 2027-01-02."),
        ("at 2026-11-15T10:11:12.123Z", "at 2027-01-02T03:04:05Z"),
        ("Today:\n2026-11-15", "Today:\n2027-01-02"),
        ("Date: Sun, 15 Nov 2026", "Date: Mon, 16 Nov 2026"),
        ("Chunk ID: 12ab\nWall time: 0.0512 seconds", "Chunk ID: ff00\nWall time: 1.2 seconds"),
        ('{"metadata":{"exit_code":0,"duration_seconds":0.1}}', '{"metadata":{"exit_code":0,"duration_seconds":2.5}}'),
        ("x-anthropic-billing-header: v=1; cch=00aa;\nYou are", "x-anthropic-billing-header: v=1; cch=11bb;\nYou are"),
    ],
)
def test_what_changes_from_run_to_run_makes_a_request_that_is_the_same_but_for_that(one: str, other: str) -> None:
    first, second = (
        asked("openai_chat", CHAT, chat(messages=[{"role": "user", "content": text}])) for text in (one, other)
    )
    assert first.group == second.group
    assert first.exact != second.exact


@pytest.mark.parametrize(
    "text", ["You are a friend.", "Chunk 12 of 2026", "duration of a call", "1-2-3", "Sunday", '{"duration":3600}']
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert steady(text.encode()) == text.encode()


def test_a_bearer_token_in_a_text_is_compared_as_it_is_recorded() -> None:
    said = chat(messages=[{"role": "user", "content": "Bearer abcdefgh12345678"}])
    now = asked("openai_chat", CHAT, said, Redactor())
    then = asked("openai_chat", CHAT, chat(messages=[{"role": "user", "content": "Bearer [redacted]"}]))
    assert now.exact == then.exact


def test_a_request_in_protobuf_is_read() -> None:
    path, body = request("warp", model="m")
    one = asked("warp", f"https://app.warp.dev{path}", body)
    assert one.exact == asked("warp", f"replay:x{path}", body).exact
    assert one.exact != asked("warp", path, request("warp", model="another")[1]).exact


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (CHAT, "completions"),
        ("https://x.azure.com/openai/deployments/d/chat/completions?api-version=1", "completions"),
        ("replay:./r/v1beta/models/gemini-3:streamGenerateContent?alt=sse", "streamGenerateContent"),
        ("demo:/v1/messages", "messages"),
        ("https://api.anthropic.com/v1/messages/count_tokens", "count_tokens"),
    ],
)
def test_the_operation_is_what_a_path_ends_with(url: str, expected: str) -> None:
    assert operation(url) == expected


@given(st.binary(max_size=200))
def test_any_bytes_can_be_compared(body: bytes) -> None:
    for dialect in ("openai_chat", "warp"):
        assert asked(dialect, CHAT, body) == asked(dialect, CHAT, body)
