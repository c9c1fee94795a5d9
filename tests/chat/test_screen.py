"""The screen: two streams, and what waits while a question stands there."""

from __future__ import annotations

import os
from errno import EIO, ENOSPC
from io import StringIO

from toolglot.chat.render_events import StyledLine
from toolglot.chat.screen import Screen


def test_answers_and_what_is_told_beside_them_have_their_own_streams() -> None:
    answers, beside = StringIO(), StringIO()
    screen = Screen(answers, beside)
    screen.answer("text\n")
    screen.print_lines(StyledLine("called", ("bold",)), "done")
    screen.thought("hm")
    assert (answers.getvalue(), beside.getvalue()) == ("text\n", "called\ndone\nhm")


def test_styles_are_for_screens_with_colour() -> None:
    seen = StringIO()
    Screen(seen, seen, colour=True).print_lines(StyledLine("bad", ("error",)))
    assert seen.getvalue() == "\x1b[31mbad\x1b[0m\n"


def test_reasoning_can_be_left_out() -> None:
    seen = StringIO()
    Screen(seen, seen, thoughts=False).thought("hm")
    assert seen.getvalue() == ""


def test_what_comes_during_a_question_is_shown_behind_it() -> None:
    seen = StringIO()
    screen = Screen(seen, seen)
    screen.hold()
    screen.print_lines("progress")
    assert seen.getvalue() == ""
    screen.release("\n")
    assert seen.getvalue() == "\nprogress\n"
    screen.print_lines("more")
    assert seen.getvalue() == "\nprogress\nmore\n"


def test_a_reader_that_has_gone_is_no_error() -> None:
    class Gone(StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    screen = Screen(Gone(), StringIO())
    screen.answer("anything")
    assert isinstance(screen.failure, BrokenPipeError)


def test_an_answer_that_cannot_be_written_is_remembered_and_what_is_told_beside_it_is_not() -> None:
    class Full(StringIO):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def write(self, text: str) -> int:
            raise OSError(self.number, os.strerror(self.number))

    screen = Screen(Full(ENOSPC), Full(EIO))
    screen.print_lines("beside")
    screen.answer("text")
    assert screen.failure is not None
    assert screen.failure.errno == ENOSPC


def test_a_stream_that_failed_holds_nothing_that_would_fail_again_at_the_end() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        screen = Screen(stream, StringIO())
        screen.answer("one")
        screen.answer("two")
    assert isinstance(screen.failure, BrokenPipeError)


def test_a_line_can_be_shown_in_the_middle_of_a_question() -> None:
    seen = StringIO()
    screen = Screen(seen, seen)
    screen.hold()
    screen.print_lines("progress")
    screen.print_at_once(StyledLine("rest"))
    screen.print_lines("more progress")
    assert seen.getvalue() == "progress\nrest\n"
    screen.release()
    assert seen.getvalue() == "progress\nrest\nmore progress\n"
