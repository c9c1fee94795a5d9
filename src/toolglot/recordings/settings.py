"""How the gateway was set for a recorded call, as values that today's code takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, fields

from toolglot.dialect import Capabilities
from toolglot.passes.history_policy import HistoryPolicy, Layer, Settled
from toolglot.recordings.format import CallSettings
from toolglot.recordings.read import Recording
from toolglot.textcalls.settings import BadCalls, TextCalls

PUT_BACK = "was kept here for"
"""Stands in the receipt where reasoning state was put back."""
POLICIES = ("this upstream is sent at most", "results of tools come last")
"""Stand in the receipt where a history policy was kept to."""


def text_calls_of(settings: CallSettings) -> TextCalls | None:
    if settings.text_format is None:
        return None
    return TextCalls(
        format=settings.text_format,
        bad_calls=settings.bad_calls if settings.bad_calls in get_args(BadCalls) else "pass",  # type: ignore[arg-type]
        rescue=settings.rescue,
        starts_in_reasoning=settings.starts_in_reasoning,
    )


def quirks_of(settings: CallSettings) -> dict[str, Any]:
    """The capabilities that were told, as far as there still are such ones."""
    return _known(settings.quirks, Capabilities)


def layers_of(settings: CallSettings) -> tuple[Layer, ...]:
    """The history policy: what cuts in steps, and what cuts to the brim."""
    said = _known(settings.history, HistoryPolicy)
    exact = {name: said.pop(name) for name in settings.exact if name in said}
    return Layer(HistoryPolicy(**said)), Layer(HistoryPolicy(**exact), exact=True)


def told_of(settled: Settled) -> tuple[dict[str, Any], list[str]]:
    """The same the other way round: a policy, and the limits of it that cut to the brim."""
    said = {name: value for name, value in asdict(settled.said).items() if value is not None}
    exact = [limit.name for limit in settled.limits if limit.share == 1.0 and said.get("cut_to") != 1.0]
    return said, exact


def _known(told: Mapping[str, Any], kind: type[Struct]) -> dict[str, Any]:
    known: dict[str, Any] = {}
    for field in fields(kind):
        if field.name in told:
            try:
                known[field.name] = msgspec.convert(told[field.name], field.type)
            except msgspec.ValidationError:
                continue
    return known


def put_in(recording: Recording) -> str | None:
    """What went into the requests of an exchange beside what the client has sent; None if nothing."""
    told = [attempt.request.settings for attempt in recording.attempts]
    receipt = [line.get("why", "") for line in recording.receipt]
    if any(each.state_put_back for each in told if each is not None) or any(PUT_BACK in why for why in receipt):
        return "state that was kept was put back"
    if any(each.conversation_put_back for each in told if each is not None):
        return "the upstream was told what it had said itself"
    if any(line.what == "history" for line in recording.reads):
        return "it goes on from what was stored"
    return None


def why_not_again(recording: Recording) -> str | None:
    """What went into the requests of an exchange and is not in its recording; None if nothing. What the store had is
    there, but in recordings of earlier versions."""
    told = [attempt.request.settings for attempt in recording.attempts]
    if (put := put_in(recording)) is not None and not recording.reads:
        return f"{put}, which is not in the recording"
    if None in told and any(line.get("why", "").startswith(POLICIES) for line in recording.receipt):
        return "a history policy was applied, and which one the recording does not tell"
    return None
