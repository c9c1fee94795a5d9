"""What the text so far says about the place where reading goes on."""

from __future__ import annotations


class Line:
    """The current line of the answer: `blank` while it has only white space, `in_code` inside single backticks."""

    __slots__ = ("blank", "in_code")

    def __init__(self) -> None:
        self.fresh()

    def fresh(self) -> None:
        """A new line, or what is as good as one: behind a call, or behind the reasoning."""
        self.blank = True
        self.in_code = False

    def add(self, text: str) -> None:
        start = text.rfind("\n") + 1
        if start:
            self.fresh()
            text = text[start:]
        if self.blank and text and not text.isspace():
            self.blank = False
        if "`" in text:
            self.in_code ^= text.count("`") % 2 == 1
