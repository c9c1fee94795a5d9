"""The group of commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.run import on_terminal, run
from toolglot.cli.app import COMMANDS


@pytest.mark.parametrize(
    ("wrong", "right"), [("serv", "serve"), ("lanch", "launch"), ("lint_stream", "lint-stream"), ("models", "doctor")]
)
def test_a_command_that_is_nearly_right_is_told_the_right_one(wrong: str, right: str) -> None:
    result = run(wrong, "--port", "1")
    assert result.exit_code == 2
    assert f"there is no command {wrong!r}; did you mean `{right}`?" in result.stderr


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (["recrod"], "serve --record"),
        (["record", "DIR"], "serve --record"),
        (["check"], "config check"),
        (["config", "chek"], "check"),
        (["warp", "deocde"], "decode"),
    ],
)
def test_so_are_words_that_mean_a_command_and_commands_of_a_group(words: list[str], right: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert f"did you mean `{right}`?" in result.stderr


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["launch", "cluade"], "`claude`"),
        (["launch", "claude-code"], "`claude`"),
        (["export", "--format", "md", "x"], "`markdown`"),
        (["export", "--format", "json", "x"], "`jsonl`"),
        (["export", "--dialect", "openai", "x"], "`openai_chat` or `openai_responses`"),
        (["replay", "x", "--client", "claude"], "`anthropic`"),
        (["explain", "x", "--from", "antropic", "--to", "gemini"], "`anthropic`"),
    ],
)
def test_values_that_are_nearly_right_are_told_the_right_one(words: list[str], meant: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert f"did you mean {meant}?" in " ".join(result.stderr.split())


def test_a_command_that_is_like_no_other_gets_no_suggestion() -> None:
    result = run("bake")
    assert result.exit_code == 2
    assert "No such command 'bake'" in result.stderr
    assert "mean" not in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_can_be_imported_and_explains_itself(command: str) -> None:
    assert run(command, "--help").exit_code == 0


FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="there is no device that is always full")
@pytest.mark.parametrize("command", ["dialects", "export {cases}/openai_chat/tool_round_trip/request.json", "--help"])
def test_output_that_cannot_be_written_is_told(tmp_path: Path, command: str) -> None:
    written = command.format(cases=Path(__file__).parent.parent / "cases")
    shown = on_terminal(f"set +e; toolglot {written} 2>told >/dev/full; echo $?; tail -n 1 told", tmp_path)
    assert shown.output == "2\ntoolglot: the output cannot be written: No space left on device\n"
    assert "Traceback" not in (tmp_path / "told").read_text()


def test_whoever_reads_the_output_may_stop(tmp_path: Path) -> None:
    shown = on_terminal("set +o pipefail; toolglot dialects | true", tmp_path)
    assert shown.output == ""
