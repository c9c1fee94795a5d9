"""The screen: two streams, and what waits while a question stands there."""

from __future__ import annotations

from io import StringIO

from toolglot.chat.screen import Screen
from toolglot.chat.telling import Line


def test_answers_and_what_is_told_beside_them_have_their_own_streams() -> None:
    answers, beside = StringIO(), StringIO()
    screen = Screen(answers, beside)
    screen.answer("text\n")
    screen.tell(Line("called", ("bold",)), "done")
    screen.thought("hm")
    assert (answers.getvalue(), beside.getvalue()) == ("text\n", "called\ndone\nhm")


def test_styles_are_for_screens_with_colour() -> None:
    seen = StringIO()
    Screen(seen, seen, colour=True).tell(Line("bad", ("error",)))
    assert seen.getvalue() == "\x1b[31mbad\x1b[0m\n"


def test_reasoning_can_be_left_out() -> None:
    seen = StringIO()
    Screen(seen, seen, thoughts=False).thought("hm")
    assert seen.getvalue() == ""


def test_what_comes_during_a_question_is_shown_behind_it() -> None:
    seen = StringIO()
    screen = Screen(seen, seen)
    screen.hold()
    screen.tell("progress")
    assert seen.getvalue() == ""
    screen.release("\n")
    assert seen.getvalue() == "\nprogress\n"
    screen.tell("more")
    assert seen.getvalue() == "\nprogress\nmore\n"


def test_a_reader_that_has_gone_is_no_error() -> None:
    class Gone(StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    Screen(Gone(), Gone()).tell("anything")
