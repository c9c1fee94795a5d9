"""The group of commands."""

from __future__ import annotations

import pytest

from tests.cli.run import run
from toolglot.cli.app import COMMANDS


@pytest.mark.parametrize(("wrong", "right"), [("serv", "serve"), ("lanch", "launch"), ("lint_stream", "lint-stream")])
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


def test_a_command_that_is_like_no_other_gets_no_suggestion() -> None:
    result = run("bake")
    assert result.exit_code == 2
    assert "No such command 'bake'" in result.stderr
    assert "mean" not in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_can_be_imported_and_explains_itself(command: str) -> None:
    assert run(command, "--help").exit_code == 0
