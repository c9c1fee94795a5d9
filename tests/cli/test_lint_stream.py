"""`toolglot lint-stream`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.run import run
from tests.lint.streams import SOUND
from toolglot.dialects import DIALECTS
from toolglot.lint import RULES


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_sound_stream_says_nothing_and_exits_with_0(dialect: str) -> None:
    result = run("lint-stream", "--dialect", dialect, data=SOUND[dialect])
    assert (result.exit_code, result.output) == (0, "")


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
    assert result.stdout.splitlines() == [f"{rule}: {sentence}" for rule, sentence in RULES[dialect].items()]


def test_an_unknown_dialect_lists_the_known_ones() -> None:
    result = run("lint-stream", "--dialect", "mcp")
    assert result.exit_code == 2
    assert f"there are {', '.join(DIALECTS)}\n" in result.stderr
