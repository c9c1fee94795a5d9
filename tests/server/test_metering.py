"""Limits and budgets at a running gateway: every dialect, whole and streamed, however a request ends."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from time import time
from typing import TypeVar

import pytest

from tests.server.gateway import CLIENTS, Running, at, gateway
from tests.server.stage import DIALECTS, Call, Stage, Turn, events_of, frames_of, in_turn, model_of, stage, whole_of
from tests.upstream.bad_server import BadServer, Gate, expect, head, pause, reply, send, stream
from tests.waiting import until
from toolglot.config.schema import ModelConfig, PriceConfig, TeamConfig
from toolglot.team import sql
from toolglot.team.administration import Administrator, KeyChanges
from toolglot.team.database import SqliteDatabase
from toolglot.team.sql import SpendRow

T = TypeVar("T")
BOTH = pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)
EVERY_UPSTREAM = pytest.mark.parametrize("upstream", DIALECTS)
PRICE = PriceConfig(input=1, output=10)
"""USD per million tokens: 1,000 nano-USD for an input token, 10,000 for an output token."""
TURN = Turn("Hello there.", (Call("c1", "f", {"a": 1}),))
TURN_TOKENS, TURN_COST = 12 + 7, 12 * 1000 + 7 * 10_000
"""Every scripted answer reports 12 and 7 tokens."""


def configured(folder: Path, limits: str | None = None) -> TeamConfig:
    return TeamConfig(enabled=True, database=str(folder / "team.sqlite3"), limits=limits)


class Desk:
    """Keys of a running gateway, and what they have spent."""

    def __init__(self, folder: Path, running: Running) -> None:
        self._path = folder / "team.sqlite3"
        self.running = running

    def create(self, name: str, **fields: object) -> dict[str, str]:
        """The header of a new key."""
        created = self._administer(
            lambda team: team.create(name, KeyChanges(**fields), time())  # type: ignore[arg-type]
        )
        return {"authorization": f"Bearer {created.secret}"}

    def revoke(self, name: str) -> None:
        self._administer(lambda team: team.set_status(name, "revoked", time()))

    def _administer(self, work: Callable[[Administrator], Awaitable[T]]) -> T:
        async def run() -> T:
            database = SqliteDatabase(self._path)
            try:
                return await work(Administrator(database, "test"))
            finally:
                await database.close()

        return asyncio.run(run())

    def spend(self, name: str, requests: int) -> SpendRow:
        """What a key has spent, once so many answers are saved."""

        def read() -> SpendRow | None:
            report = partial(sql.report_spend, "0000", "9999", (), name)
            rows = self._administer(lambda team: team.database.run(report, writes=False))
            return rows[0] if rows and rows[0].requests >= requests else None

        found = until(read, f"spend of {requests} answers")
        assert found.requests == requests
        return found

    def in_flight(self) -> int:
        team = self.running.service.team
        assert team is not None
        shared = 0 if team.shared is None else len(team.shared._holds)
        return shared + sum(counts.in_flight for counts in team.counters._keys.values())


class Site(Desk):
    def __init__(self, folder: Path, played: Stage) -> None:
        super().__init__(folder, played.running)
        self.stage = played


@pytest.fixture(scope="module", params=["memory", "redis"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A gateway whose limits are counted in its memory, and one with shared limits."""
    limits = request.getfixturevalue("redis").url if request.param == "redis" else None
    folder = tmp_path_factory.mktemp("team")
    prices = {model_of(dialect): PRICE for dialect in DIALECTS}
    models = {
        "free-first": ModelConfig(upstream="to_gemini", model="unpriced", fallbacks=("anthropic-model",)),
    }
    with stage(team=configured(folder, limits), prices=prices, models=models) as played:
        yield Site(folder, played)
        team = played.running.service.team
        assert team is not None
        assert (team.shared is not None and team.shared.is_connected) == (limits is not None)


@BOTH
@EVERY_UPSTREAM
@EVERY_CLIENT
def test_every_answer_is_charged_once_with_what_the_upstream_reports(
    site: Site, client: str, upstream: str, streams: bool
) -> None:
    """LiteLLM #38176: budgets never saw /v1/messages and /v1/responses."""
    name = f"{client}.{upstream}.{streams}"
    key = site.create(name)
    site.stage.play(upstream, TURN)
    assert site.stage.ask(client, upstream, stream=streams, headers=key).status == 200
    row = site.spend(name, 1)
    assert (row.fresh_tokens, row.output_tokens, row.nano_usd) == (12, 7, TURN_COST)
    assert (row.unpriced, row.estimated, site.in_flight()) == (0, 0, 0)


@BOTH
@EVERY_CLIENT
def test_a_spent_budget_is_refused_in_every_dialect_with_the_time_of_its_renewal(
    site: Site, client: str, streams: bool
) -> None:
    key = site.create(f"budget.{client}.{streams}", usd_per_day=TURN_COST / 1e9)
    site.stage.play("openai_chat", TURN)
    assert site.stage.ask(client, "openai_chat", stream=streams, headers=key).status == 200
    asked = len(site.stage.upstream.requests)
    refused = site.stage.ask(client, "openai_chat", stream=streams, headers=key)
    assert b"has used its budget of 8.2e-05 USD per day. It renews at 20" in refused.body
    if not streams:
        assert refused.status == 429
        assert 0 < float(refused.headers["retry-after"]) <= 24 * 3600
    assert len(site.stage.upstream.requests) == asked


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"requests_per_minute": 1}, "limit of 1 requests per minute"),
        ({"tokens_per_minute": TURN_TOKENS}, "tokens per minute"),
        ({"tokens_per_day": TURN_TOKENS}, "tokens per day"),
        ({"tokens_per_month": TURN_TOKENS}, "tokens per month"),
        ({"usd_per_month": TURN_COST / 1e9}, "USD per month"),
        ({"concurrent_requests": 0}, "limit of 0 concurrent requests"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_each_limit_is_enforced_as_it_was_set(site: Site, limit: dict[str, float], words: str) -> None:
    """LiteLLM #23714, #26672: limits that were saved and not enforced."""
    key = site.create(f"limit.{next(iter(limit))}", **limit)
    site.stage.play("anthropic", TURN)
    answers = [site.stage.ask("openai_chat", "anthropic", headers=key) for _ in range(2)]
    assert answers[1].status == 429
    assert words in json.dumps(answers[1].json())
    assert answers[0].status == (429 if 0 in limit.values() else 200)


def test_a_key_without_budgets_is_never_refused_for_them(site: Site) -> None:
    """LiteLLM #22726, #20615: "exceeded" without a budget."""
    key = site.create("unlimited")
    site.stage.play("gemini", TURN)
    for _ in range(5):
        assert site.stage.ask("anthropic", "gemini", headers=key).status == 200
    assert site.spend("unlimited", 5).nano_usd == 5 * TURN_COST


def test_a_model_without_a_price_is_refused_to_a_key_with_a_budget_in_usd(tmp_path: Path) -> None:
    with BadServer([expect(), reply({})]) as bad:
        upstream = at("openai_chat", bad.url, vendor="openai")
        with gateway(upstream, team=configured(tmp_path)) as running:
            desk = Desk(tmp_path, running)
            refused = running.ask("anthropic", headers=desk.create("strict", usd_per_day=1))
            assert refused.status == 403
            assert "the price of the model up/m is unknown" in refused.json()["error"]["message"]
            assert bad.requests == []
            assert (
                running.ask("anthropic", headers=desk.create("lax", usd_per_day=1, unknown_price="allow")).status != 403
            )


ENDINGS: dict[str, Callable[[Stage, dict[str, str]], None]] = {}


def ending(function: Callable[[Stage, dict[str, str]], None]) -> Callable[[Stage, dict[str, str]], None]:
    ENDINGS[function.__name__] = function
    return function


@ending
def normal(played: Stage, key: dict[str, str]) -> None:
    played.play("openai_chat", TURN)
    assert played.ask("anthropic", "openai_chat", stream=True, headers=key).status == 200


@ending
def refused_by_the_upstream(played: Stage, key: dict[str, str]) -> None:
    played.steps(whole=reply({"error": {"message": "no"}}, 400))
    assert played.ask("anthropic", "openai_chat", headers=key).status == 400


@ending
def unreadable(played: Stage, key: dict[str, str]) -> None:
    played.steps(whole=reply({"choices": 5}))
    assert played.ask("anthropic", "openai_chat", headers=key).status == 502


@ending
def cut_in_the_middle(played: Stage, key: dict[str, str]) -> None:
    frames = frames_of("openai_chat", events_of("openai_chat", TURN))
    beginning = [send(head(200, {"content-type": "text/event-stream"})), send(b"".join(frames[:3]))]
    played.steps(streamed=in_turn(*beginning))
    played.ask("anthropic", "openai_chat", stream=True, headers=key)


@ending
def left_by_the_client(played: Stage, key: dict[str, str]) -> None:
    frames = frames_of("openai_chat", events_of("openai_chat", Turn("Hello there, dear friend.")))
    gate = Gate()
    beginning = [send(head(200, {"content-type": "text/event-stream"})), send(b"".join(frames[:3])), pause(gate)]
    played.steps(streamed=in_turn(*beginning))
    talk = played.running.begin("anthropic", stream=True, model="openai_chat-model", headers=key)
    talk.until(b"Hello")
    talk.leave()
    until(lambda: not played.running.service.in_flight, "end of the request")
    gate.open()


@ending
def left_before_an_answer(played: Stage, key: dict[str, str]) -> None:
    gate = Gate()
    played.steps(whole=pause(gate))
    talk = played.running.begin("openai_chat", model="openai_chat-model", headers=key)
    until(lambda: played.upstream.requests or None, "request at the upstream")
    talk.leave()
    until(lambda: not played.running.service.in_flight, "end of the request")
    gate.open()


@pytest.mark.parametrize("name", ["normal", *(each for each in sorted(ENDINGS) if each != "normal")])
def test_a_slot_is_free_again_however_a_request_ends(site: Site, name: str) -> None:
    """LiteLLM #27955, #20256, #30020: slots that were never released."""
    key = site.create(f"slot.{name}", concurrent_requests=1)
    for _ in range(3):
        ENDINGS[name](site.stage, key)
        until(lambda: not site.in_flight(), "free slot")
    normal(site.stage, key)


def test_a_stream_that_its_client_left_is_charged_by_an_estimate(site: Site) -> None:
    """LiteLLM PR#33736, #37558: free, or charged as one token."""
    key = site.create("left")
    left_by_the_client(site.stage, key)
    row = site.spend("left", 1)
    assert row.estimated == 1
    assert row.fresh_tokens > 5
    assert row.output_tokens > 0
    assert row.nano_usd == row.fresh_tokens * 1000 + row.output_tokens * 10_000


def test_a_stream_of_a_local_model_that_its_client_left_costs_nothing_and_is_not_unpriced(tmp_path: Path) -> None:
    with stage(team=configured(tmp_path), dialects=("openai_chat",)) as played:
        desk = Desk(tmp_path, played.running)
        left_by_the_client(played, desk.create("left"))
        row = desk.spend("left", 1)
    assert (row.nano_usd, row.unpriced, row.estimated) == (0, 0, 1)
    assert row.output_tokens > 0


@pytest.mark.parametrize("name", ["refused_by_the_upstream", "left_before_an_answer"])
def test_a_request_without_an_answer_costs_nothing(site: Site, name: str) -> None:
    key = site.create(f"nothing.{name}")
    ENDINGS[name](site.stage, key)
    normal(site.stage, key)
    assert site.spend(f"nothing.{name}", 1).nano_usd == TURN_COST


def test_a_free_model_answers_when_the_money_is_spent_and_its_paid_fallback_does_not(site: Site) -> None:
    """LiteLLM #41344, #10973."""
    key = site.create("poor", usd_per_day=0)
    site.stage.play("gemini", TURN)
    first = site.running.ask("openai_chat", model="free-first", headers=key)
    assert first.status == 200
    site.stage.steps(whole=reply({"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}, 503))
    refused = site.running.ask("openai_chat", model="free-first", headers=key)
    assert refused.status != 200
    assert all(b"anthropic" not in request.body for request in site.stage.upstream.requests)


def test_requests_at_once_cannot_spend_the_same_rest_of_a_budget(site: Site) -> None:
    gate = Gate()
    key = site.create("crowd", usd_per_day=3 * TURN_COST / 1e9)
    frames = frames_of("openai_chat", events_of("openai_chat", TURN))
    site.stage.steps(
        streamed=in_turn(send(head(200, {"content-type": "text/event-stream"})), pause(gate), send(b"".join(frames)))
    )
    talks = [site.running.begin("anthropic", stream=True, model="openai_chat-model", headers=key) for _ in range(8)]
    until(lambda: len(site.stage.upstream.requests) or None, "request")
    until(lambda: site.in_flight() and site.in_flight() == len(site.stage.upstream.requests), "requests in flight")
    gate.open()
    accepted = sum(b"message_stop" in talk.rest().body for talk in talks)
    assert 1 <= accepted < 8
    assert site.spend("crowd", accepted).nano_usd == accepted * TURN_COST


def test_a_revoked_key_begins_no_further_attempt(tmp_path: Path) -> None:
    """A request whose upstream fails would be retried or sent to its fallback."""
    gate, asked = Gate(), Gate()

    async def fail_later(peer: object) -> None:
        asked.open()
        await gate.wait()

    with (
        BadServer([expect(), fail_later, reply({"error": {"message": "busy"}}, 503)]) as first,
        BadServer([expect(), stream()]) as second,
    ):
        upstreams = {"first": at("openai_chat", first.url), "second": at("openai_chat", second.url)}
        models = {"m": ModelConfig(upstream="first", model="m", fallbacks=("second/m",))}
        with gateway(upstreams, models=models, team=configured(tmp_path)) as running:
            desk = Desk(tmp_path, running)
            talk = running.begin("openai_chat", headers=desk.create("late"))
            asked.wait_blocking()
            desk.revoke("late")
            keys = running.service.keys
            assert keys is not None
            until(lambda: any(each.key.status == "revoked" for each in keys._accounts.values()), "revocation")
            gate.open()
            answer = talk.rest()
            assert second.requests == []
            assert answer.status in (401, 503)


@pytest.mark.parametrize(("tier", "is_known"), [("default", True), ("priority", False)])
def test_a_rate_that_is_unknown_is_charged_at_the_most_that_it_may_cost(
    tmp_path: Path, tier: str, is_known: bool
) -> None:
    """The table has no rate for this model's priority tier. Costs would be 0, and the budget never spent."""
    model = "gpt-5.4-nano"
    answer = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "service_tier": tier,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }
    with BadServer([expect(), reply(answer)]) as bad:
        upstream = at("openai_chat", bad.url, vendor="openai")
        with gateway(upstream, team=configured(tmp_path)) as running:
            desk = Desk(tmp_path, running)
            assert running.ask("anthropic", model=model, headers=desk.create("anna", usd_per_day=1)).status == 200
            row = desk.spend("anna", 1)
    price = running.service.gateway.pricing.find("up", model).price
    assert price is not None
    usual = (100 * price.base.input + 10 * price.base.output) // 1_000_000
    assert row.estimated == int(not is_known)
    assert (row.nano_usd == usual) if is_known else (row.nano_usd >= usual)


ANSWER = "Hello there. " * 100
ANTHROPIC_EVENTS: tuple[tuple[str, dict[str, object]], ...] = (
    (
        "message_start",
        {
            "message": {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {"input_tokens": 25, "cache_read_input_tokens": 1000, "output_tokens": 1},
            }
        },
    ),
    ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
    *(
        ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": text}})
        for text in (ANSWER, "and ", "so ", "on")
    ),
)
ANTHROPIC_BEGINNING = b"".join(
    b"event: %b\ndata: %b\n\n" % (name.encode(), json.dumps({"type": name, **event}).encode())
    for name, event in ANTHROPIC_EVENTS
)


@pytest.mark.parametrize("leaves", [True, False], ids=["the client leaves", "the upstream breaks off"])
@EVERY_CLIENT
def test_a_stream_that_ends_early_costs_what_it_has_reported_and_an_estimate_of_its_text(
    site: Site, client: str, leaves: bool
) -> None:
    """Also where the stream is forwarded, without being translated. The first event reports one token of output."""
    name = f"early.{client}.{leaves}"
    key, gate = site.create(name), Gate()
    beginning = [send(head(200, {"content-type": "text/event-stream"})), send(ANTHROPIC_BEGINNING)]
    site.stage.steps(streamed=in_turn(*beginning, *([pause(gate)] if leaves else [])))
    talk = site.running.begin(client, stream=True, model=model_of("anthropic"), headers=key)
    if leaves:
        talk.until(b"on")
        talk.leave()
    else:
        talk.rest()
    until(lambda: not site.running.service.in_flight, "end of the request")
    gate.open()
    row = site.spend(name, 1)
    assert (row.fresh_tokens, row.cached_tokens, row.estimated) == (25, 1000, 1)
    assert len(ANSWER) // 4 <= row.output_tokens <= len(ANSWER) // 3


@BOTH
@EVERY_UPSTREAM
def test_counts_that_no_model_can_have_used_are_replaced_by_an_estimate(
    site: Site, upstream: str, streams: bool
) -> None:
    """A number of 100 bits would keep all usage of the batch out of the database."""
    name = f"huge.{upstream}.{streams}"
    key = site.create(name)
    count = re.compile(rb'(s"|count"|Count"): ?12(?=[,}])')
    frames = [count.sub(rb"\1:" + b"9" * 30, frame) for frame in frames_of(upstream, events_of(upstream, TURN))]
    whole = json.loads(count.sub(rb"\1:" + b"9" * 30, json.dumps(whole_of(upstream, TURN)).encode()))
    site.stage.steps(streamed=stream(*frames), whole=reply(whole))
    client = "openai_chat" if upstream == "anthropic" else "anthropic"
    assert site.stage.ask(client, upstream, stream=streams, headers=key).status == 200
    row = site.spend(name, 1)
    assert 0 < row.fresh_tokens < 1000
    assert row.estimated == 1


@pytest.mark.parametrize("limit", ["usd_per_day", "tokens_per_day", "tokens_per_minute"])
def test_a_request_for_a_negative_amount_of_output_lends_nothing_to_others(site: Site, limit: str) -> None:
    """Its reservation would count as money that is left."""
    amount = 3 * TURN_COST / 1e9 if limit == "usd_per_day" else 3 * TURN_TOKENS
    key, gate = site.create(f"negative.{limit}", **{limit: amount}), Gate()
    frames = frames_of("openai_chat", events_of("openai_chat", TURN))
    site.stage.steps(
        streamed=in_turn(send(head(200, {"content-type": "text/event-stream"})), pause(gate), send(b"".join(frames))),
        whole=reply(whole_of("openai_chat", TURN)),
    )
    body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": -(10**12)}
    talk = site.running.begin("openai_chat", stream=True, model=model_of("openai_chat"), body=body, headers=key)
    until(lambda: site.stage.upstream.requests or None, "request")
    answers = [site.stage.ask("anthropic", "openai_chat", headers=key).status for _ in range(6)]
    assert answers.count(200) <= 3
    gate.open()
    talk.rest()
