"""A protocol linter for recorded streams. It finds events that would break a client.

There are two layers. Each dialect's wire rules check the events as recorded; they are based on the events that official
SDKs and real agents reject or silently misread. Then the dialect's own decoder reads the recording and checks the event
grammar, which finds errors that no rule covers. They are reported only if the rules found nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from toolglot.dialect import Dialect
from toolglot.dialects import DIALECTS, find
from toolglot.errors import ApiError, StreamError
from toolglot.events import Checker, Event, Fault
from toolglot.lint.report import COMMON_RULES, Breach, LintFrame, LintReport, LintRules, check_common, split
from toolglot.manifest import load
from toolglot.receipt import Receipt
from toolglot.wire.chunks import Chunk, join_chunks

__all__ = ["Breach", "lint", "rules_of"]

_GENERIC_RULES = {
    "grammar": "a stream must be Start, blocks, then Finish or an error",
    "meaning": "a reader of the dialect must understand the stream to its end",
}


def rules_of(dialect: str) -> dict[str, str]:
    """Return the rules of a dialect's streams and their descriptions."""
    own = _dialect_rules(dialect)
    left_out = ("readable",) if not own.is_json else ("field",) if own.is_lines else ()
    common = {name: rule for name, rule in COMMON_RULES.items() if name not in left_out}
    return {**common, **own.rules, **_GENERIC_RULES}


def _dialect_rules(dialect: str) -> LintRules:
    reference = DIALECTS.manifests[dialect].lint
    rules: LintRules = load(reference) if reference else LintRules()
    return rules


def lint(dialect: Dialect | str, chunks: Chunk | Iterable[Chunk]) -> list[Breach]:
    """Return the breaches of a recorded stream, in the order of its events; empty if it is sound. A stream that ends in
    the dialect's own error is sound, too."""
    dialect = find(dialect)
    framing = dialect.stream.framing
    frames = split(join_chunks(chunks, framing), framing)
    own = _dialect_rules(dialect.name)
    report = LintReport({**COMMON_RULES, **own.rules, **_GENERIC_RULES}, frames)
    check_common(frames, report, in_json=own.is_json, bare_errors=bool(dialect.stream.apart), bare=framing.is_bare)
    own.check(frames, report)
    told = {breach.event for breach in report.breaches}
    generic = LintReport(_GENERIC_RULES, frames)
    _check_meaning(dialect, frames, generic)
    found = report.breaches + [breach for breach in generic.breaches if breach.event not in told]
    return sorted(found, key=lambda breach: breach.event)


_OUR_CODES = ("upstream_truncated", "upstream_unreadable")


def _check_meaning(dialect: Dialect, frames: list[LintFrame], report: LintReport) -> None:
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


def _is_on_the_wire(error: ApiError, frame: LintFrame | None) -> bool:
    """Return whether the stream itself contains this error event."""
    return frame is not None and (error.code or "").encode() in frame.raw


def _check_events(events: list[Event], checker: Checker, frame: LintFrame | None, report: LintReport) -> bool:
    """Returns False after the first error, because later events would only repeat it."""
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
