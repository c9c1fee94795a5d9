"""One gateway for a whole module of tests, before an upstream of each dialect that plays what a test says.

    stage.play("anthropic", Turn("Hello", (Call("c1", "f", {"a": 1}),)))   # the next answers, whole or streamed
    answer = stage.ask("openai_chat", "anthropic", stream=True)             # a client's dialect, an upstream's
    stage.sent                                                              # the last request, as the upstream got it

The upstream of a dialect answers for the model `<dialect>-model`, and for nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.e2e.wires import OLLAMA, Call, Event, Turn
from tests.e2e.wires import WIRES as VENDOR_WIRES
from tests.server.gateway import Answer, Body, Running, at, gateway
from tests.upstream.bad_server import BadServer, Peer, Received, Step, expect, reply, stream
from toolglot.config.schema import Limits, ModelConfig, PriceConfig, TeamConfig
from toolglot.store import Store

__all__ = [
    "DIALECTS",
    "FOREIGN",
    "PAIRS",
    "Call",
    "Stage",
    "Turn",
    "events_of",
    "frames_of",
    "in_turn",
    "model_of",
    "stage",
    "whole_of",
]

WIRES = {**VENDOR_WIRES, "ollama": OLLAMA}
DIALECTS = tuple(WIRES)
PAIRS = tuple((client, upstream) for client in DIALECTS for upstream in DIALECTS)
FOREIGN = tuple((client, upstream) for client, upstream in PAIRS if client != upstream)


def model_of(upstream: str) -> str:
    return f"{upstream}-model"


def events_of(dialect: str, turn: Turn) -> list[Event]:
    """A turn as an upstream of this dialect streams it, with its model's name in it."""
    text = json.dumps(list(WIRES[dialect].events(turn))).replace('"scripted"', f'"{model_of(dialect)}"')
    events: list[Event] = json.loads(text)
    return events


def frames_of(dialect: str, events: Iterable[Event], *, named: bool = True) -> list[bytes]:
    """Events on the wire. Not `named`: without the `event:` lines."""
    if dialect == "ollama":
        return [json.dumps(event).encode() + b"\n" for event in events]
    lead = WIRES[dialect].named_events and named
    frames = [
        (b"event: %b\n" % event["type"].encode() if lead else b"") + b"data: %b\n\n" % json.dumps(event).encode()
        for event in events
    ]
    return [*frames, b"data: [DONE]\n\n"] if dialect == "openai_chat" else frames


def whole_of(dialect: str, turn: Turn) -> Event:
    return {
        key: model_of(dialect) if value == "scripted" else value for key, value in WIRES[dialect].whole(turn).items()
    }


class Stage:
    def __init__(self, running: Running, upstream: BadServer, script: _Script) -> None:
        self.running = running
        self.upstream = upstream
        self._script = script

    def play(self, dialect: str, turn: Turn) -> None:
        """From here on the upstreams answer with this turn, in this dialect."""
        streamed = stream(*frames_of(dialect, events_of(dialect, turn)))
        self.steps(streamed=streamed, whole=reply(whole_of(dialect, turn)))

    def steps(self, *, streamed: Step | None = None, whole: Step | None = None) -> None:
        """From here on the upstreams do this."""
        refused = reply({"error": {"message": "nothing was to be asked this way"}}, 418)
        self._script.streamed, self._script.whole = streamed or refused, whole or refused
        self.upstream.requests.clear()

    def ask(
        self,
        client: str,
        upstream: str,
        *,
        stream: bool = False,
        body: Body | None = None,
        headers: Mapping[str, str] = {},
    ) -> Answer:
        return self.running.ask(client, stream=stream, model=model_of(upstream), body=body, headers=headers)

    @property
    def received(self) -> Received:
        return self.upstream.requests[-1]

    @property
    def sent(self) -> Any:
        """The last request, as the upstream got it."""
        return self.received.json()


def in_turn(*steps: Step) -> Step:
    """Steps one after the other, as one."""

    async def step(peer: Peer) -> None:
        for one in steps:
            await one(peer)

    return step


class _Script:
    """The steps of every connection: streamed or whole, as the request asks."""

    def __init__(self) -> None:
        self.streamed: Step = reply()
        self.whole: Step = reply()

    async def __call__(self, peer: Peer) -> None:
        asked = peer.server.requests[-1]
        streams = ":streamGenerateContent" in asked.target or b'"stream":true' in asked.body.replace(b" ", b"")
        await (self.streamed if streams else self.whole)(peer)


@contextmanager
def stage(
    *,
    models: Mapping[str, ModelConfig] = {},
    store: Store | None = None,
    limits: Limits | None = None,
    dialects: Iterable[str] = DIALECTS,
    vendors: Mapping[str, str] = {},
    prices: Mapping[str, PriceConfig] = {},
    team: TeamConfig | None = None,
    **fields: Any,
) -> Iterator[Stage]:
    """`fields` are those of every upstream; `vendors` are those of single dialects."""
    script = _Script()
    with BadServer([expect(), script]) as upstream:
        upstreams = {
            f"to_{dialect}": at(
                dialect, upstream.url, models=(model_of(dialect),), vendor=vendors.get(dialect), **fields
            )
            for dialect in dialects
        }
        more: dict[str, Any] = {"limits": limits} if limits is not None else {}
        with gateway(upstreams, models=models, store=store, prices=prices, team=team, **more) as running:
            yield Stage(running, upstream, script)
