"""The lines of a receipt where there may be any number of them: each is told once and none is kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

from toolglot.ir import replace
from toolglot.receipt import Loss

Tell: TypeAlias = Callable[[Loss], None]
"""Is given each line as it arises."""

_MESSAGE = re.compile(r"messages\[(\d+)\]")


def ignore(line: Loss) -> None:
    """For whoever does not want to know."""


def pass_on(lines: Iterable[Loss], tell: Tell, before: int) -> None:
    """Tells lines whose messages are numbered from where a part of the conversation begins."""
    for line in lines:
        tell(
            replace(line, where=_MESSAGE.sub(lambda match: f"messages[{int(match[1]) + before}]", line.where, count=1))
        )
