"""Convert the recorded settings of a call to values for the current code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import msgspec
from msgspec.structs import asdict, fields

from toolglot.capabilities import PLACES, find_capability_type
from toolglot.passes.history_policy import HistoryPolicy, Layer, MergedPolicy
from toolglot.recordings.format import CallSettings
from toolglot.recordings.read import Recording
from toolglot.textcalls.settings import BadCalls, TextCalls

STATE_ADDED = "was kept here for"
"""Receipt text for reasoning state that was added."""
POLICY_APPLIED = ("this upstream is sent at most", "the conversation ends with tool results")
"""Receipt texts for an applied history policy."""


def recorded_text_calls(settings: CallSettings) -> TextCalls | None:
    if settings.text_format is None:
        return None
    return TextCalls(
        format=settings.text_format,
        bad_calls=settings.bad_calls if settings.bad_calls in get_args(BadCalls) else "pass",  # type: ignore[arg-type]
        rescue=settings.rescue,
        starts_in_reasoning=settings.starts_in_reasoning,
    )


def recorded_quirks(settings: CallSettings) -> dict[str, Any]:
    """Return the recorded capabilities that still exist."""
    return _convert_known(
        settings.quirks, {name: find_capability_type(name) for name in PLACES if name in settings.quirks}
    )


def recorded_history(settings: CallSettings) -> tuple[Layer, ...]:
    """Return the history policy: limits that cut in steps, and limits that are exact."""
    said = _convert_known(settings.history, {field.name: field.type for field in fields(HistoryPolicy)})
    exact = {name: said.pop(name) for name in settings.exact if name in said}
    return Layer(HistoryPolicy(**said)), Layer(HistoryPolicy(**exact), exact=True)


def record_history(settled: MergedPolicy) -> tuple[dict[str, Any], list[str]]:
    """The inverse: return a policy, and its exact limits."""
    said = {name: value for name, value in asdict(settled.merged).items() if value is not None}
    exact = [limit.name for limit in settled.limits if limit.share == 1.0 and said.get("cut_to") != 1.0]
    return said, exact


def _convert_known(recorded: Mapping[str, Any], types: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the recorded values that have a type; drop those that do not fit it."""
    known: dict[str, Any] = {}
    for name, kind in types.items():
        if name in recorded:
            try:
                known[name] = msgspec.convert(recorded[name], kind)
            except msgspec.ValidationError:
                continue
    return known


def added_content(recording: Recording) -> str | None:
    """Describe content that was added to the requests of an exchange; None if there is none."""
    told = [attempt.request.settings for attempt in recording.attempts]
    receipt = [line.get("why", "") for line in recording.receipt]
    if any(each.state_put_back for each in told if each is not None) or any(STATE_ADDED in why for why in receipt):
        return "stored state was restored"
    if any(each.conversation_put_back for each in told if each is not None):
        return "the upstream's own earlier answers were sent to it"
    if any(line.what == "history" for line in recording.reads):
        return "it continues a stored conversation"
    return None


def missing_content(recording: Recording) -> str | None:
    """Describe content that was added to the requests of an exchange and is not in its recording; None if there is
    none. Only earlier versions did not record the store's content.
    """
    told = [attempt.request.settings for attempt in recording.attempts]
    if (put := added_content(recording)) is not None and not recording.reads:
        return f"{put}, which is not in the recording"
    if None in told and any(line.get("why", "").startswith(POLICY_APPLIED) for line in recording.receipt):
        return "a history policy was applied, and the recording does not say which one"
    return None
