"""The time, the id and the model of a recorded answer, on their way to the exchange that answers today.

An upstream may leave the first two to us (Anthropic tells no time, others no id). They come from a clock and from
chance, so they go with a recorded reply as headers of our own: else the same request would never get the same bytes
twice. So does the model's name: what another one has answered is told in the name of the one that was asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from toolglot.recordings.label import Label
from toolglot.translate import Exchange
from toolglot.upstream.transport import Reply
from toolglot.upstream.upstream import Upstream

CREATED = "x-toolglot-recorded-created"
ANSWER_ID = "x-toolglot-recorded-id"
MODEL = "x-toolglot-recorded-model"


@runtime_checkable
class Recorded(Protocol):
    """A transport whose replies are recorded ones: of no other are these headers believed."""

    recorded: bool


def headers_of(label: Label, model: str) -> dict[str, str]:
    """The headers of an answer by this model."""
    created = {} if label.created is None else {CREATED: str(label.created)}
    return {**created, ANSWER_ID: label.answer_id, MODEL: model}


def put_on(exchange: Exchange, upstream: Upstream, reply: Reply) -> None:
    """Label the answer as the recorded one was, if it is one."""
    if isinstance(upstream.transport, Recorded) and ANSWER_ID in reply.headers:
        asked = "" if exchange.sent is None else exchange.sent.model
        renamed = reply.headers.get(MODEL, asked) != asked
        exchange.label(_created(reply.headers), reply.headers[ANSWER_ID], renamed=renamed)


def _created(headers: Mapping[str, str]) -> int | None:
    told = headers.get(CREATED, "")
    return int(told) if told.isdecimal() else None
