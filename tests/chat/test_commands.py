"""Lines that begin with a slash."""

from __future__ import annotations

import pytest

from toolglot.chat.commands import COMMANDS, Command, CommandError, completions, help_lines, parse_line


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("hello", "hello"),
        ("a /model b", "a /model b"),
        ("//etc/passwd", "/etc/passwd"),
        ("/model", Command("model")),
        ("/model  demo-gemini ", Command("model", "demo-gemini")),
        ("/MODEL demo", Command("model", "demo")),
        ("/system Be brief.\nAnd kind.", Command("system", "Be brief.\nAnd kind.")),
        ("/system\nBe brief.", Command("system", "Be brief.")),
        ("/exit", Command("quit")),
        ("/?", Command("help")),
    ],
)
def test_a_line_is_a_command_or_a_text(line: str, said: Command | str) -> None:
    assert parse_line(line) == said


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("/modle x", "there is no command /modle: did you mean /model?"),
        ("/etc/passwd", "there is no command /etc/passwd: /help lists the commands; // starts a text with a slash"),
        ("/", "there is no command /: /help lists the commands; // starts a text with a slash"),
        ("/clear all", "no argument is allowed after /clear"),
    ],
)
def test_a_command_that_is_none_is_told(line: str, why: str) -> None:
    with pytest.raises(CommandError) as told:
        parse_line(line)
    assert str(told.value) == why


def test_the_help_names_every_command() -> None:
    text = "\n".join(help_lines())
    assert all(f"/{name}" in text for name in COMMANDS)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/m", ["/model"]),
        ("/c", ["/clear"]),
        ("/model demo-", ["/model demo-chat", "/model demo-gemini"]),
        ("hello", []),
        ("/export x", []),
    ],
)
def test_what_a_line_may_become(text: str, found: list[str]) -> None:
    assert completions(text, ["demo-chat", "demo-gemini", "other"]) == found
