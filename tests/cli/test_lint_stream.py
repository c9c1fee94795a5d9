"""`toolglot lint-stream`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.run import run
from tests.exchanges import JSON_NAMES
from tests.lint.streams import SOUND
from toolglot.dialects import DIALECTS
from toolglot.lint import rules_of


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_sound_stream_is_told_on_standard_error_and_exits_with_0(dialect: str) -> None:
    result = run("lint-stream", "--dialect", dialect, data=SOUND[dialect])
    events = SOUND[dialect].count(DIALECTS[dialect].stream.framing.end)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"no violations in {events} events\n")


def test_one_event_is_not_many() -> None:
    recording = b'data: {"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}\n\n'
    assert run("lint-stream", "--dialect", "gemini", data=recording).stderr == "no violations in 1 event\n"


def test_nothing_in_a_recording_has_power_over_the_terminal() -> None:
    recording = b'data: {"x":"\x1b[2J\xe2\x80\xae"}\n\nwhat\x07 is this\n\n' + SOUND["openai_chat"]
    result = run("lint-stream", "--dialect", "openai_chat", data=recording)
    assert result.exit_code == 1
    assert all(character.isprintable() or character == "\n" for character in result.stdout)
    assert r"\x1b[2J\u202e" in result.stdout
    assert r"what\x07 is this" in result.stdout


def test_nothing_at_all_is_one_line_without_an_excerpt() -> None:
    result = run("lint-stream", "--dialect", "anthropic")
    assert result.exit_code == 1
    assert "event 0: not-empty: a stream must contain at least one event\n" in result.stdout
    assert not any(line.endswith((":", ": ")) for line in result.stdout.splitlines())


def test_each_breach_is_a_line_with_event_rule_and_excerpt(tmp_path: Path) -> None:
    recording = tmp_path / "stream.sse"
    recording.write_bytes(b": keepalive\n\n" + SOUND["gemini"] + b"data: [DONE]\n\n")
    result = run("lint-stream", "--dialect", "gemini", str(recording))
    assert result.exit_code == 1
    first, second = result.stdout.splitlines()
    assert first.startswith("event 1: data-only: ")
    assert first.endswith(": : keepalive")
    assert second.startswith("event 5: no-done: ")
    assert second.endswith(": data: [DONE]")


def test_an_excerpt_is_short() -> None:
    long = b'data: {"candidates":[{"content":{"parts":[{"text":"' + b"x" * 5000 + b'"}]}}]}\n\n'
    result = run("lint-stream", "--dialect", "gemini", data=long)
    assert result.exit_code == 1
    assert all(len(line) < 300 for line in result.stdout.splitlines())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_rules_can_be_listed(dialect: str) -> None:
    result = run("lint-stream", "--dialect", dialect, "--rules")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [f"{rule}: {sentence}" for rule, sentence in rules_of(dialect).items()]


def test_an_unknown_dialect_lists_the_known_ones() -> None:
    result = run("lint-stream", "--dialect", "mcp")
    assert result.exit_code == 2
    assert f"there are {', '.join(DIALECTS)}\n" in result.stderr


@pytest.mark.parametrize("told", DIALECTS)
@pytest.mark.parametrize("dialect", JSON_NAMES)
def test_a_recording_of_another_dialect_is_told_as_one(dialect: str, told: str) -> None:
    result = run("lint-stream", "--dialect", told, data=SOUND[dialect])
    line = f"toolglot: <stdin>: this looks like {dialect}, not {told}\n"
    assert (result.exit_code, result.stdout) == ((0, "") if told == dialect else (2, ""))
    assert (result.stderr == line) == (told != dialect)


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if not DIALECTS[name].stream.framing.is_bare])
@pytest.mark.parametrize("data", [b'{"choices": []}', b'{\n  "model": "m"\n}\n', b"hello\n"])
def test_what_is_no_recording_is_told_in_one_line(data: bytes, dialect: str) -> None:
    result = run("lint-stream", "--dialect", dialect, data=data)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "toolglot: <stdin>: no server-sent event in it\n"


def test_a_byte_order_mark_does_not_hide_a_recording() -> None:
    assert run("lint-stream", "--dialect", "gemini", data=b"\xef\xbb\xbf" + SOUND["gemini"]).exit_code != 2
