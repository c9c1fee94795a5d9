"""A protocol linter for anybody's recording of a stream: what would break some client, and where.

Two layers. Each dialect's wire rules look at the events as they stand in the recording; they come from what the
official SDKs and real agents refuse or silently misread. Then the dialect's own decoder reads the recording and the
event grammar is checked, which finds what no rule foresaw; it is told only where the rules found nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from toolglot.dialect import Dialect
from toolglot.dialects import find
from toolglot.errors import ApiError, StreamError
from toolglot.events import Checker, Event, Fault
from toolglot.lint import anthropic, gemini, openai_chat, openai_responses
from toolglot.lint.report import COMMON_RULES, Breach, Frame, Report, check_common, split
from toolglot.receipt import Receipt

__all__ = ["RULES", "Breach", "lint"]

_Check = Callable[[list[Frame], Report], None]

_CHECKS: dict[str, tuple[dict[str, str], _Check]] = {
    "openai_chat": (openai_chat.RULES, openai_chat.check),
    "openai_responses": (openai_responses.RULES, openai_responses.check),
    "anthropic": (anthropic.RULES, anthropic.check),
    "gemini": (gemini.RULES, gemini.check),
}
_COMMON_RULES = {"warp": {name: rule for name, rule in COMMON_RULES.items() if name != "readable"}}
"""For dialects whose events are not JSON, the common rules that they have."""

_GENERIC_RULES = {
    "grammar": "a stream must be Start, blocks, then Finish or an error",
    "meaning": "a reader of the dialect must understand the stream to its end",
}

RULES: dict[str, dict[str, str]] = {
    **{name: {**COMMON_RULES, **rules, **_GENERIC_RULES} for name, (rules, _) in _CHECKS.items()},
    **{name: {**rules, **_GENERIC_RULES} for name, rules in _COMMON_RULES.items()},
}
"""For each dialect the rules and their sentences."""


def lint(dialect: Dialect | str, chunks: Iterable[bytes]) -> list[Breach]:
    """The breaches of a recorded stream, in the order of its events; none when it is sound.

    A stream that ends in the dialect's own error is sound too.
    """
    dialect = find(dialect)
    frames = split(b"".join(chunks))
    rules, check = _CHECKS.get(dialect.name, ({}, lambda frames, report: None))
    report = Report({**COMMON_RULES, **rules, **_GENERIC_RULES}, frames)
    check_common(frames, report, in_json=dialect.name not in _COMMON_RULES, bare_errors=bool(dialect.stream.apart))
    check(frames, report)
    told = {breach.event for breach in report.breaches}
    generic = Report(_GENERIC_RULES, frames)
    _check_meaning(dialect, frames, generic)
    found = report.breaches + [breach for breach in generic.breaches if breach.event not in told]
    return sorted(found, key=lambda breach: breach.event)


_OUR_CODES = ("upstream_truncated", "upstream_unreadable")


def _check_meaning(dialect: Dialect, frames: list[Frame], report: Report) -> None:
    decoder = dialect.stream_decoder(Receipt())
    checker = Checker()
    for frame in frames:
        if not _check_events(decoder.feed(frame.raw), checker, frame, report):
            return
    if _check_events(decoder.close(), checker, None, report):
        try:
            checker.close()
        except StreamError as error:
            report.breach("grammar", None, str(error))


def _is_on_the_wire(error: ApiError, frame: Frame | None) -> bool:
    """Does the stream tell this error itself, because whoever wrote it met one?"""
    return frame is not None and (error.code or "").encode() in frame.raw


def _check_events(events: list[Event], checker: Checker, frame: Frame | None, report: Report) -> bool:
    """False once something is wrong: what follows would only repeat it."""
    for event in events:
        try:
            checker.add(event)
        except StreamError as error:
            report.breach("grammar", frame, str(error))
            return False
        if isinstance(event, Fault) and event.error.code in _OUR_CODES and not _is_on_the_wire(event.error, frame):
            report.breach("meaning", frame, event.error.message)
            return False
    return True
