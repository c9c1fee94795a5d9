"""The main thread's side of a chat, with somebody at the keyboard."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from toolglot.chat.background import BackgroundLoop, UserStoppedError
from toolglot.chat.keyboard import Keyboard
from toolglot.chat.render_events import MAX_APPROVAL_ARGUMENTS
from toolglot.chat.screen import Screen
from toolglot.chat.session import Consent
from toolglot.chat.terminal import Dialogue
from toolglot.tools.served import ServedCall

SHORT = ServedCall(id="c", server="s", name="shell", arguments='{"cmd":"ls"}')
LONG = ServedCall(
    id="c",
    server="s",
    name="shell",
    arguments="a" * MAX_APPROVAL_ARGUMENTS + "; rm -rf /" + "b" * MAX_APPROVAL_ARGUMENTS,
)


class Typist(Keyboard):
    """Types these lines, and then nothing any more."""

    def __init__(self, *lines: str) -> None:
        super().__init__(Path("none"), lambda _: [])
        self.lines = list(lines)
        self.asked: list[str] = []

    def ask(self, prompt: str) -> str:
        self.asked.append(prompt)
        if not self.lines:
            raise EOFError
        return self.lines.pop(0)

    def silent(self) -> None:
        return

    def loud(self) -> None:
        return


def consent(call: ServedCall, typist: Typist, seen: StringIO) -> Consent:
    with BackgroundLoop() as backstage:
        dialogue = Dialogue(backstage, Screen(seen, seen), {})
        dialogue.keyboard = typist
        return backstage.run(dialogue.consent(call))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("y",), "yes"),
        (("what?", "YES "), "yes"),
        (("always",), "always"),
        (("",), "no"),
        (("show", "n"), "no"),
        ((), "no"),
    ],
)
def test_the_word_on_a_call(lines: tuple[str, ...], said: Consent) -> None:
    assert consent(SHORT, Typist(*lines), StringIO()) == said


@pytest.mark.parametrize(
    ("lines", "chosen"), [(("2",), "qwen"), (("llama ",), "llama"), (("0", "3", "gpt", "", "1"), "llama")]
)
def test_a_model_is_chosen_by_its_number_or_name(lines: tuple[str, ...], chosen: str) -> None:
    typist, seen = Typist(*lines), StringIO()
    with BackgroundLoop() as backstage:
        dialogue = Dialogue(backstage, Screen(seen, seen), {})
        dialogue.keyboard = typist
        assert backstage.run(dialogue.choose_model(["llama", "qwen"])) == chosen
    assert seen.getvalue().startswith("   1  llama\n   2  qwen\n")
    assert seen.getvalue().count("enter a number or the name") == len(lines) - 1


def test_a_user_who_chooses_no_model_leaves() -> None:
    with BackgroundLoop() as backstage:
        dialogue = Dialogue(backstage, Screen(StringIO(), StringIO()), {})
        dialogue.keyboard = Typist()
        with pytest.raises(UserStoppedError):
            backstage.run(dialogue.choose_model(["llama", "qwen"]))


@pytest.mark.parametrize(
    ("lines", "said", "is_shown"),
    [
        (("yes", "always", "show", "yes"), "yes", True),
        (("s", "a"), "always", True),
        (("show", "no"), "no", True),
        (("yes", "no"), "no", False),
        (("yes",), "no", False),
    ],
)
def test_nobody_agrees_to_arguments_that_were_not_all_shown(
    lines: tuple[str, ...], said: Consent, is_shown: bool
) -> None:
    typist, seen = Typist(*lines), StringIO()
    assert consent(LONG, typist, seen) == said
    assert ("; rm -rf /" in seen.getvalue()) == is_shown
    assert "? show (the other 4010 characters" in typist.asked[0]
    assert ("? yes / no / always" in typist.asked[-1]) == is_shown


def test_a_question_that_nobody_can_have_seen_is_no() -> None:
    class Full(StringIO):
        def write(self, text: str) -> int:
            raise OSError("full")

    typist = Typist("yes")
    assert consent(SHORT, typist, Full()) == "no"
    assert typist.asked == []
