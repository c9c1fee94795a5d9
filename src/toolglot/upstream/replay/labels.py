"""The time, the id and the model of a recorded answer, on their way to the exchange that answers today.

An upstream may leave the first two to us (Anthropic tells no time, others no id). They come from a clock and from
chance, so they go with a recorded reply as headers of our own: else the same request would never get the same bytes
twice. So does the model's name: what another one has answered is told in the name of the one that was asked, and the
state that clients carry is sealed for who was recorded.

A recording of a request that is not quite the same says so, too: that is a line of the receipt, and a header.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from toolglot.receipt import Receipt
from toolglot.recordings.label import Label
from toolglot.translate import Exchange
from toolglot.upstream.upstream import Upstream

CREATED = "x-toolglot-recorded-created"
COMPLETED = "x-toolglot-recorded-completed"
ANSWER_ID = "x-toolglot-recorded-id"
MODEL = "x-toolglot-recorded-model"
ISSUER = "x-toolglot-recorded-issuer"
RECORDING = "x-toolglot-recording"
"""Told to the client: from which recording an answer is whose request was not quite the same, and in what."""

LOOSELY: Mapping[str, str] = {
    "changed": "the recorded request had other ids, dates or times",
    "redacted": "something is redacted in the recorded request, and may have been something else",
}
"""How requests may be the same without being equal."""


@runtime_checkable
class Recorded(Protocol):
    """A transport whose replies are recorded ones: of no other are these headers believed."""

    recorded: bool


def headers_of(label: Label, model: str, issuer: str = "") -> dict[str, str]:
    """The headers of an answer by this model of a server."""
    times = {CREATED: label.created, COMPLETED: label.completed}
    told = {name: str(time) for name, time in times.items() if time is not None}
    issued = {ISSUER: issuer} if issuer else {}
    return {**told, **issued, ANSWER_ID: label.answer_id, MODEL: model}


def headers_of_match(match: str, recording: str) -> dict[str, str]:
    """The header of an answer whose recorded request matches in this way; nothing where it is the same."""
    return {RECORDING: f"{recording}; match={match}"} if match in LOOSELY else {}


def put_on(exchange: Exchange, upstream: Upstream, headers: Mapping[str, str]) -> None:
    """Label the answer of a reply with these headers as the recorded one was, if it is one."""
    if ANSWER_ID in headers and isinstance(upstream.transport, Recorded):
        asked = "" if exchange.sent is None else exchange.sent.model
        renamed = headers.get(MODEL, asked) != asked
        created, completed = _time(headers, CREATED), _time(headers, COMPLETED)
        exchange.label(created, headers[ANSWER_ID], renamed=renamed, completed=completed)
        if issuer := headers.get(ISSUER):
            exchange.seal_for(issuer, headers.get(MODEL, asked))
        recording, _, match = headers.get(RECORDING, "").rpartition("; match=")
        if match in LOOSELY:
            exchange.receipt.note("model", _answered_from(recording), LOOSELY[match])


def of_recording(receipt: Receipt, headers: Mapping[str, str]) -> dict[str, str]:
    """The header that tells the client of it. It is believed where the receipt says the same: upstreams may send
    anything."""
    told = headers.get(RECORDING)
    if told is None:
        return {}
    what = _answered_from(told.rpartition("; match=")[0])
    return {RECORDING: told} if any(line.what == what and line.where == "model" for line in receipt) else {}


def _answered_from(recording: str) -> str:
    return f"answered from {recording}"


def _time(headers: Mapping[str, str], name: str) -> int | None:
    told = headers.get(name, "")
    return int(told) if told.isdecimal() else None
