"""Receipt lines of a long conversation: each is reported once and none is kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

from toolglot.ir import replace
from toolglot.receipt import ReceiptLine

ReportLoss: TypeAlias = Callable[[ReceiptLine], None]
"""Called with each line as it arises."""

_MESSAGE = re.compile(r"messages\[(\d+)\]")


def ignore_loss(line: ReceiptLine) -> None:
    """Discard the line."""


def report_losses(lines: Iterable[ReceiptLine], tell: ReportLoss, before: int) -> None:
    """Report lines, adding the offset of a part of the conversation to their message numbers."""
    for line in lines:
        tell(
            replace(line, where=_MESSAGE.sub(lambda match: f"messages[{int(match[1]) + before}]", line.where, count=1))
        )
