"""Carry the time, the id and the model of a recorded answer to the current exchange.

An upstream may omit the first two (Anthropic sends no time, others no id). The gateway then takes them from a clock and
from randomness, so a recorded reply carries them in headers of our own. Otherwise the same request would never get the
same bytes twice. The model's name is carried as well: an answer of another model is reported under the name of the
requested one, and client-carried state is sealed for the recorded server.

If the recorded request was not exactly the same, a receipt line and a header report it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from toolglot.receipt import Receipt
from toolglot.recordings.answer_label import AnswerLabel
from toolglot.translate import ExchangeCore
from toolglot.upstream.upstream import Upstream

CREATED = "x-toolglot-recorded-created"
COMPLETED = "x-toolglot-recorded-completed"
ANSWER_ID = "x-toolglot-recorded-id"
MODEL = "x-toolglot-recorded-model"
ISSUER = "x-toolglot-recorded-issuer"
RECORDING = "x-toolglot-recording"
"""Header for the client: the recording that the answer comes from, and the difference of its request."""

INEXACT_MATCHES: Mapping[str, str] = {
    "changed": "the recorded request had other ids, dates or times",
    "redacted": "something is redacted in the recorded request, and may have been something else",
}
"""Descriptions of matches that are not exact."""


@runtime_checkable
class RecordedTransport(Protocol):
    """A transport whose replies are recorded. These headers are trusted from no other transport."""

    recorded: bool


def label_headers(label: AnswerLabel, model: str, issuer: str = "") -> dict[str, str]:
    """Return the headers for an answer by this model and server."""
    times = {CREATED: label.created, COMPLETED: label.completed}
    told = {name: str(time) for name, time in times.items() if time is not None}
    issued = {ISSUER: issuer} if issuer else {}
    return {**told, **issued, ANSWER_ID: label.answer_id, MODEL: model}


def match_headers(match: str, recording: str) -> dict[str, str]:
    """Return the header that describes an inexact match; empty if the request is the same."""
    return {RECORDING: f"{recording}; match={match}"} if match in INEXACT_MATCHES else {}


def apply_labels(exchange: ExchangeCore, upstream: Upstream, headers: Mapping[str, str]) -> None:
    """Label the answer of a recorded reply like the recorded answer."""
    if ANSWER_ID in headers and isinstance(upstream.transport, RecordedTransport):
        asked = "" if exchange.sent is None else exchange.sent.model
        renamed = headers.get(MODEL, asked) != asked
        created, completed = _time_header(headers, CREATED), _time_header(headers, COMPLETED)
        exchange.label(created, headers[ANSWER_ID], renamed=renamed, completed=completed)
        if issuer := headers.get(ISSUER):
            exchange.seal_for(issuer, headers.get(MODEL, asked))
        recording, _, match = headers.get(RECORDING, "").rpartition("; match=")
        if match in INEXACT_MATCHES:
            exchange.receipt.note("model", _receipt_line(recording), INEXACT_MATCHES[match])


def recording_header(receipt: Receipt, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the header that informs the client. It is trusted only if the receipt agrees, because upstreams may send
    anything."""
    told = headers.get(RECORDING)
    if told is None:
        return {}
    what = _receipt_line(told.rpartition("; match=")[0])
    return {RECORDING: told} if any(line.what == what and line.where == "model" for line in receipt) else {}


def _receipt_line(recording: str) -> str:
    return f"answered from {recording}"


def _time_header(headers: Mapping[str, str], name: str) -> int | None:
    told = headers.get(name, "")
    return int(told) if told.isdecimal() else None
