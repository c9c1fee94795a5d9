"""When two requests are the same."""

from __future__ import annotations

import json
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.server.gateway import request
from toolglot.recordings.redact import Redactor
from toolglot.recordings.volatile_text import normalize_volatile
from toolglot.upstream.replay.matching import fingerprint_request, operation

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
    one, other = (
        fingerprint_request("openai_chat", CHAT, chat()),
        fingerprint_request("openai_chat", "replay:x/v1/chat/completions", body),
    )
    assert one.exact == other.exact
    assert one.group == other.group


def test_a_whole_number_is_the_same_with_a_point_in_it() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"minimum": 2.0}}}]
    one = fingerprint_request("openai_chat", CHAT, chat(temperature=1.0, tools=tools))
    other = fingerprint_request(
        "openai_chat", CHAT, chat(temperature=1, tools=json.loads(json.dumps(tools).replace("2.0", "2")))
    )
    assert (one.exact, one.group) == (other.exact, other.group)
    for different in (True, 1.5, "1.0", 1e300):
        assert fingerprint_request("openai_chat", CHAT, chat(temperature=different, tools=tools)).group != one.group


@pytest.mark.parametrize(
    "members", [{"stream": False}, {"temperature": 1}, {"messages": [{"role": "user", "content": "Ho"}]}, {"tools": []}]
)
def test_everything_else_does(members: dict[str, Any]) -> None:
    assert (
        fingerprint_request("openai_chat", CHAT, chat()).group
        != fingerprint_request("openai_chat", CHAT, chat(**members)).group
    )


def test_another_dialect_or_another_path_is_another_request() -> None:
    one = fingerprint_request("openai_chat", CHAT, chat())
    assert one.group != fingerprint_request("openai_responses", CHAT, chat()).group
    assert one.group != fingerprint_request("openai_chat", CHAT.replace("completions", "other"), chat()).group


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("session 0b6c1f3e-9a1d-4a70-8f0e-0123456789ab", "session 6f9619ff-8b86-d011-b42d-00c04fc964ff"),
        ("Today's date is 2026-11-15.", "Today's date is 2027-01-02."),
        ("at 2026-11-15T10:11:12.123Z", "at 2027-01-02T03:04:05Z"),
        ("Today:\n2026-11-15", "Today:\n2027-01-02"),
        ("at 2026-11-15 10:11:12,123 +0100", "at 2027-01-02 03:04:05 +0200"),
        ("at 20261115T101112Z", "at 20270102T030405Z"),
        ("on 2026/11/15", "on 2027/01/02"),
        ("# Current Time\n11/15/2026, 9:11:12 AM (UTC+1:00)", "# Current Time\n1/2/2027, 11:04:05 PM (UTC+1:00)"),
        ("Date: Sun, 15 Nov 2026", "Date: Mon, 16 Nov 2026"),
        ("Sun Nov 15 10:11:12 UTC 2026", "Sat Jan  2 03:04:05 UTC 2027"),
        ("It is 10:11:12 now.", "It is 23:59:59.5 now."),
        ("It is 9:11 AM.", "It is 11:12 PM."),
        ("It is 9:11:12\u202fAM.", "It is 11:12:13\u202fPM."),
        ("now\n10:11:12", "now\n03:04:05"),
        ("epoch 1763201472", "epoch 1798858245"),
        ("epoch\n1763201472.", "epoch\n1798858245."),
        ('{"now": 1763201472123}', '{"now": 1798858245000}'),
        ('{"now": 1763201472.25}', '{"now": 1798858245.5}'),
        ("Chunk ID: 12ab\nWall time: 0.0512 seconds", "Chunk ID: ff00\nWall time: 1.2 seconds"),
        ('{"metadata":{"exit_code":0,"duration_seconds":0.1}}', '{"metadata":{"exit_code":0,"duration_seconds":2.5}}'),
        ("x-anthropic-billing-header: v=1; cch=00aa;\nYou are", "x-anthropic-billing-header: v=1; cch=11bb;\nYou are"),
    ],
)
def test_what_changes_from_run_to_run_makes_a_request_that_is_the_same_but_for_that(one: str, other: str) -> None:
    first, second = (
        fingerprint_request("openai_chat", CHAT, chat(messages=[{"role": "user", "content": text}]))
        for text in (one, other)
    )
    assert first.group == second.group
    assert first.exact != second.exact


@pytest.mark.parametrize(
    "text",
    [
        "You are a friend.",
        "Chunk 12 of 2026",
        "duration of a call",
        "1-2-3",
        "Sunday",
        '{"duration":3600}',
        "a picture of 16:9, at 10:30",
        "John 3:16 amen",
        "1:2:3",
        "00:11:22:33:44:55",
        "main.py:10:22:30",
        "2001:db8:10:11:12:13::1",
        "call +1234567890",
        "order 2763201472, order 176320147, order 17632014721",
        "build-1763201472 and 1763201472abc and v1.1763201472",
        "src/10/11/2026/12 and 1/2/3",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert normalize_volatile(f'"{text}"'.encode()) == f'"{text}"'.encode()


def test_an_epoch_is_no_time_of_day_and_no_date() -> None:
    """Whatever stands in the place of a time is one: what is told in another way is another request."""
    texts = ("at 1763201472", "at noon", "at 176320147")
    assert len({fingerprint_request("openai_chat", CHAT, chat(user="", messages=[text])).group for text in texts}) == 3


def test_what_changes_in_a_number_of_json_changes_nothing_else() -> None:
    one, other = (
        fingerprint_request("openai_chat", CHAT, chat(messages=[{"role": "user", "content": "Hi", "at": number}]))
        for number in (1763201472, 1798858245)
    )
    assert one.group == other.group
    assert one.exact != other.exact


@given(st.text("0123456789:-/T. \n1", max_size=60))
def test_looking_for_times_never_joins_what_stands_around_them(text: str) -> None:
    data = json.dumps(["x", text, "y"]).encode()
    assert normalize_volatile(data).startswith(b'["x", "')
    assert normalize_volatile(data).endswith(b'", "y"]')


def test_many_digits_and_colons_take_no_longer_than_others() -> None:
    began = process_time()
    for text in ("1" * 200_000, "10:" * 70_000, "1 " * 100_000, "1/" * 100_000, "1500000000" * 20_000):
        normalize_volatile(f'"{text}"'.encode())
    assert process_time() - began < 5


def test_a_bearer_token_in_a_text_is_compared_as_it_is_recorded() -> None:
    said = chat(messages=[{"role": "user", "content": "Bearer abcdefgh12345678"}])
    now = fingerprint_request("openai_chat", CHAT, said, Redactor())
    then = fingerprint_request("openai_chat", CHAT, chat(messages=[{"role": "user", "content": "Bearer [redacted]"}]))
    assert now.exact == then.exact


def test_a_request_in_protobuf_is_read() -> None:
    path, body = request("warp", model="m")
    one = fingerprint_request("warp", f"https://app.warp.dev{path}", body)
    assert one.exact == fingerprint_request("warp", f"replay:x{path}", body).exact
    assert one.exact != fingerprint_request("warp", path, request("warp", model="another")[1]).exact


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


@pytest.mark.parametrize("depth", [100, 500, 900])
def test_what_is_nested_deeply_can_be_compared(depth: int) -> None:
    body = b'{"tools": %b%b}' % (b"[" * depth, b"]" * depth)
    assert (
        fingerprint_request("openai_chat", CHAT, body).group
        == fingerprint_request("openai_chat", CHAT, b" " + body).group
    )


@given(st.binary(max_size=200))
def test_any_bytes_can_be_compared(body: bytes) -> None:
    for dialect in ("openai_chat", "warp"):
        assert fingerprint_request(dialect, CHAT, body) == fingerprint_request(dialect, CHAT, body)
