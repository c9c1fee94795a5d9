"""The cost of each answer: from the upstream's own usage to the record, the log, the header and the metrics."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from tests.agent.hosting import everyday_over_http
from tests.server.gateway import CLIENTS, Running, at, gateway
from tests.server.stage import DIALECTS, Stage, Turn, events_of, frames_of, model_of, stage, whole_of
from tests.server.test_text_calls import call, chunks
from tests.upstream.bad_server import BadServer, Gate, Script, expect, pause, reply, stream
from toolglot.config.schema import LogConfig, McpConfig, McpServerConfig, ModelConfig, PriceConfig
from toolglot.server.logs import format_fields, format_text
from toolglot.server.metrics import Metrics
from toolglot.server.request_log import RequestLog

BOTH = pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)
EVERY_UPSTREAM = pytest.mark.parametrize("upstream", DIALECTS)
TURN = Turn("Hello there.")


class Tokens(NamedTuple):
    """Counts that do not overlap."""

    fresh: int
    read: int
    written: int
    long: int
    output: int


Rates = tuple[str, str, str, str, str]
"""USD per million tokens, in the order of `Tokens`."""


class Vendor(NamedTuple):
    """A model, its rates as its vendor publishes them, and its usage as an upstream reports it."""

    vendor: str | None
    model: str
    above: int
    rates: Mapping[tuple[bool, str], Rates]
    """By whether the input is above the size, and the service tier."""
    usage: Callable[[Tokens, str], dict[str, Any]]
    read: Callable[[dict[str, Any]], Tokens]
    """Reads the counts back from the usage."""
    tier: str | None = None
    """The member of an answer with the service tier, if it is not in the usage."""


def anthropic_usage(tokens: Tokens, tier: str) -> dict[str, Any]:
    lifetimes = {"ephemeral_5m_input_tokens": tokens.written, "ephemeral_1h_input_tokens": tokens.long}
    return {
        "input_tokens": tokens.fresh,
        "cache_read_input_tokens": tokens.read,
        "cache_creation_input_tokens": tokens.written + tokens.long,
        "cache_creation": lifetimes,
        "output_tokens": tokens.output,
        "service_tier": tier,
    }


def anthropic_tokens(usage: dict[str, Any]) -> Tokens:
    lifetimes = usage["cache_creation"]
    return Tokens(
        usage["input_tokens"],
        usage["cache_read_input_tokens"],
        lifetimes["ephemeral_5m_input_tokens"],
        lifetimes["ephemeral_1h_input_tokens"],
        usage["output_tokens"],
    )


def openai_usage(names: tuple[str, str]) -> Callable[[Tokens, str], dict[str, Any]]:
    before, after = names

    def usage(tokens: Tokens, tier: str) -> dict[str, Any]:
        whole = tokens.fresh + tokens.read + tokens.written
        return {
            before: whole,
            f"{before}_details": {"cached_tokens": tokens.read, "cache_write_tokens": tokens.written},
            after: tokens.output,
            f"{after}_details": {"reasoning_tokens": tokens.output // 2},
            "total_tokens": whole + tokens.output,
        }

    return usage


def openai_tokens(names: tuple[str, str]) -> Callable[[dict[str, Any]], Tokens]:
    before, after = names

    def tokens(usage: dict[str, Any]) -> Tokens:
        details = usage[f"{before}_details"]
        read, written = details["cached_tokens"], details["cache_write_tokens"]
        return Tokens(usage[before] - read - written, read, written, 0, usage[after])

    return tokens


def gemini_usage(tokens: Tokens, tier: str) -> dict[str, Any]:
    whole = tokens.fresh + tokens.read + tokens.written + tokens.long
    thoughts = tokens.output // 3
    return {
        "promptTokenCount": whole,
        "cachedContentTokenCount": tokens.read,
        "candidatesTokenCount": tokens.output - thoughts,
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": whole + tokens.output,
        "trafficType": {"default": "ON_DEMAND", "flex": "ON_DEMAND_FLEX", "priority": "ON_DEMAND_PRIORITY"}[tier],
    }


def gemini_tokens(usage: dict[str, Any]) -> Tokens:
    read = usage["cachedContentTokenCount"]
    output = usage["candidatesTokenCount"] + usage["thoughtsTokenCount"]
    return Tokens(usage["promptTokenCount"] - read, read, 0, 0, output)


GPT: dict[tuple[bool, str], Rates] = {
    (False, "default"): ("2", "0.2", "2.5", "0", "10"),
    (False, "flex"): ("1", "0.1", "1.25", "0", "5"),
    (False, "priority"): ("4", "0.4", "5", "0", "20"),
    (True, "default"): ("4", "0.4", "5", "0", "15"),
    (True, "flex"): ("2", "0.2", "2.5", "0", "7.5"),
    (True, "priority"): ("8", "0.8", "10", "0", "30"),
}
CHAT_NAMES, RESPONSES_NAMES = ("prompt_tokens", "completion_tokens"), ("input_tokens", "output_tokens")

VENDORS = {
    "openai_chat": Vendor(
        "openai", "gpt-6-sol", 272_000, GPT, openai_usage(CHAT_NAMES), openai_tokens(CHAT_NAMES), "service_tier"
    ),
    "openai_responses": Vendor(
        "openai",
        "gpt-6-sol",
        272_000,
        GPT,
        openai_usage(RESPONSES_NAMES),
        openai_tokens(RESPONSES_NAMES),
        "service_tier",
    ),
    "anthropic": Vendor(
        "anthropic",
        "claude-haiku-5-5",
        100_000,
        {
            (False, "standard"): ("0.1", "0.01", "0.125", "0.2", "0.5"),
            (True, "standard"): ("0.5", "0.05", "0.625", "1", "2.5"),
        },
        anthropic_usage,
        anthropic_tokens,
    ),
    "gemini": Vendor(
        "gemini",
        "gemini-3.1-pro-preview",
        200_000,
        {
            (False, "default"): ("2", "0.2", "0", "0", "12"),
            (False, "flex"): ("1", "0.2", "0", "0", "6"),
            (False, "priority"): ("3.6", "0.36", "0", "0", "21.6"),
            (True, "default"): ("4", "0.4", "0", "0", "18"),
            (True, "priority"): ("7.2", "0.72", "0", "0", "32.4"),
        },
        gemini_usage,
        gemini_tokens,
    ),
    "ollama": Vendor(
        None,
        "qwen3",
        0,
        {(True, ""): ("0.3", "0", "0", "0", "1.1")},
        lambda tokens, tier: {"prompt_eval_count": sum(tokens[:4]), "eval_count": tokens.output},
        lambda usage: Tokens(usage["prompt_eval_count"], 0, 0, 0, usage["eval_count"]),
    ),
}
TIERS = {dialect: sorted({tier for _, tier in row.rates}) for dialect, row in VENDORS.items()}
COUNTS = [
    Tokens(1, 0, 0, 0, 1),
    Tokens(1200, 3400, 560, 780, 900),
    Tokens(0, 9999, 0, 0, 0),
    Tokens(90_000, 150_000, 40_000, 10_000, 3000),
    Tokens(1, 100_000, 100_000, 100_000, 77),
]


def expected(row: Vendor, usage: dict[str, Any], tier: str) -> int | None:
    """The cost in nano-USD, from the usage as the upstream wrote it."""
    tokens = row.read(usage)
    rates = row.rates.get((sum(tokens[:4]) > row.above, tier))
    if rates is None:
        return None
    total = sum((count * Decimal(rate) for count, rate in zip(tokens, rates, strict=True)), Decimal())
    return int((total * 1000).to_integral_value("ROUND_HALF_UP"))


def with_usage(dialect: str, value: Any, usage: dict[str, Any], tier: str) -> Any:
    """A document of an upstream with this usage and service tier in place of its own."""
    if isinstance(value, list):
        return [with_usage(dialect, each, usage, tier) for each in value]
    if not isinstance(value, dict):
        return value
    changed = {name: with_usage(dialect, inner, usage, tier) for name, inner in value.items()}
    for name in ("usage", "usageMetadata"):
        if value.get(name) and "input_tokens" in value[name] and "output_tokens" in value[name]:
            changed[name] = {**usage, "output_tokens": 1} if value[name]["output_tokens"] == 1 else usage
        elif value.get(name):  # the end of a Messages stream counts the output alone
            only = set(value[name]) == {"output_tokens"}
            changed[name] = {"output_tokens": usage["output_tokens"]} if only else usage
    if "eval_count" in value:
        changed |= usage
    if (field := VENDORS[dialect].tier) is not None and changed.get("object") in _ANSWERS:
        changed[field] = tier
    return changed


_ANSWERS = ("chat.completion", "chat.completion.chunk", "response")


@pytest.fixture(scope="module")
def costs() -> Iterator[Stage]:
    models = {
        model_of(dialect): ModelConfig(upstream=f"to_{dialect}", model=row.model) for dialect, row in VENDORS.items()
    }
    vendors = {dialect: row.vendor for dialect, row in VENDORS.items() if row.vendor is not None}
    prices = {"to_ollama/qwen3": PriceConfig(input=0.3, output=1.1)}
    with stage(models=models, vendors=vendors, prices=prices) as played:
        yield played


def dollars(nano: int) -> Decimal:
    return Decimal(nano) / 10**9


@EVERY_CLIENT
@EVERY_UPSTREAM
@BOTH
def test_the_cost_is_that_of_the_upstreams_own_usage(costs: Stage, client: str, upstream: str, streams: bool) -> None:
    """BerriAI/litellm#9812, #14849 (cache counted twice), #11789 (only in streams), #33772 (OpenAI's cache writes
    dropped), #27781 (an hour at the rate of five minutes), #18988 and Helicone/helicone#5766 (writes of large
    requests), PR#30450 (service tier of large requests)."""
    row = VENDORS[upstream]
    for tokens in COUNTS:
        for tier in TIERS[upstream]:
            usage = row.usage(tokens, tier)
            events = with_usage(upstream, events_of(upstream, TURN), usage, tier)
            costs.steps(
                streamed=stream(*frames_of(upstream, events)),
                whole=reply(with_usage(upstream, whole_of(upstream, TURN), usage, tier)),
            )
            answer = costs.ask(client, upstream, stream=streams)
            assert answer.status == 200, answer.body
            record, cost = costs.running.record(), expected(row, usage, tier)
            assert (record.cost, record.unpriced) == (cost, int(cost is None)), (tokens, tier)
            assert [(charge.upstream, charge.model) for charge in record.charges] == [(f"to_{upstream}", row.model)]
            told = answer.headers.get("x-toolglot-cost")
            assert told == (None if streams or cost is None else format(dollars(cost).normalize(), "f"))


def test_costs_are_counted_by_upstream_and_model(costs: Stage) -> None:
    usage = VENDORS["anthropic"].usage(Tokens(1000, 0, 0, 0, 1000), "standard")
    costs.steps(whole=reply(with_usage("anthropic", whole_of("anthropic", TURN), usage, "standard")))
    label = 'toolglot_cost_usd_total{upstream="to_anthropic",model="claude-haiku-5-5"}'
    before = metric(costs.running, label)
    costs.ask("openai_chat", "anthropic")
    costs.running.record()
    assert metric(costs.running, label) - before == Decimal("0.0006")


def metric(running: Running, name: str) -> Decimal:
    lines = running.call("GET", "/metrics").body.decode().splitlines()
    return sum(
        (Decimal(line.rpartition(" ")[2]).quantize(Decimal("1e-12")) for line in lines if line.startswith(name)),
        Decimal(),
    )


# One upstream, one question


def chat(text: str, tokens: int, output: int = 0, *, streams: bool = False, **fields: Any) -> Script:
    """An answer of Chat Completions with this usage."""
    usage = {"prompt_tokens": tokens, "completion_tokens": output, "total_tokens": tokens + output}
    if streams:
        *frames, _, done = chunks(text)
        last = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": usage}
        return [expect(), stream(*frames, b"data: %b\n\n" % json.dumps(last).encode(), done)]
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop", **fields}
    answer = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    return [expect(), reply(answer)]


def one(model: str = "gpt-6-sol", upstream: str = "up", **fields: Any) -> dict[str, ModelConfig]:
    return {"m": ModelConfig(upstream=upstream, model=model, **fields)}


@EVERY_CLIENT
@BOTH
def test_a_model_that_is_called_again_is_charged_for_each_call(client: str, streams: bool) -> None:
    """Each call has the rates of its own size: 150,000 tokens twice are not 300,000 tokens."""
    scripts = [chat(call(name), 150_000, 100, streams=streams) for name in ("h", "f")]
    models = one(tools="hermes_json", bad_calls="ask")
    with (
        BadServer(*scripts) as server,
        gateway(at("openai_chat", server.url, vendor="openai"), models=models) as running,
    ):
        assert running.ask(client, stream=streams).status == 200
        record = running.record()
    assert [charge.cost for charge in record.charges] == [301_000_000, 301_000_000]
    assert (record.cost, record.unpriced) == (602_000_000, 0)
    assert record.usage is not None
    assert record.usage.input_tokens == 300_000


@BOTH
def test_an_answer_that_cannot_be_used_costs_the_same(streams: bool) -> None:
    with (
        BadServer(chat(call("h"), 1000, streams=streams)) as server,
        gateway(
            at("openai_chat", server.url, vendor="openai"), models=one(tools="hermes_json", bad_calls="fail")
        ) as running,
    ):
        running.ask("anthropic", stream=streams)
        record = running.record()
    assert record.error is not None
    assert [charge.cost for charge in record.charges] == [None if streams else 2_000_000]


@BOTH
def test_a_fallback_is_charged_at_its_own_price_and_a_refusal_costs_nothing(streams: bool) -> None:
    with (
        BadServer([expect(), reply({"error": {"message": "busy"}}, 503)]) as first,
        BadServer(chat("Hello", 1000, streams=streams)) as second,
        gateway(
            {"up": at("openai_chat", first.url, vendor="openai"), "other": at("openai_chat", second.url, vendor="xai")},
            models=one(fallbacks=("other/grok-4.3",)),
        ) as running,
    ):
        assert running.ask("anthropic", stream=streams).status == 200
        record = running.record()
    assert [(charge.upstream, charge.model, charge.cost) for charge in record.charges] == [
        ("other", "grok-4.3", 1_250_000)
    ]


@BOTH
def test_each_round_of_mcp_tools_is_charged(streams: bool) -> None:
    """With the rates of its own size. BerriAI/litellm#38176: whole endpoints were left out."""

    def says(usage: int, message: dict[str, Any], reason: str) -> Script:
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        counts = {"prompt_tokens": usage, "completion_tokens": 0, "total_tokens": usage}
        choice = {"index": 0, "finish_reason": reason}
        if not streams:
            whole = {**head, "object": "chat.completion", "choices": [{**choice, "message": message}], "usage": counts}
            return [expect(), reply(whole)]
        parts = [{**head, "choices": [{**choice, "delta": message}]}, {**head, "choices": [], "usage": counts}]
        return [expect(), stream(*(b"data: %b\n\n" % json.dumps(part).encode() for part in parts), b"data: [DONE]\n\n")]

    function = {"name": "day__echo", "arguments": '{"text": "ping"}'}
    asks = {"role": "assistant", "tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}
    with (
        everyday_over_http() as address,
        BadServer(
            says(200_000, asks, "tool_calls"), says(272_001, {"role": "assistant", "content": "Done."}, "stop")
        ) as server,
        gateway(
            at("openai_chat", server.url, vendor="openai"),
            models=one(mcp=("day",)),
            mcp=McpConfig(servers={"day": McpServerConfig(url=address, policy="auto")}),
        ) as running,
    ):
        answer = running.ask("anthropic", stream=streams)
        assert answer.status == 200, answer.body
        record = running.record()
        counted = metric(running, "toolglot_cost_usd_total")
    assert [charge.cost for charge in record.charges] == [400_000_000, 1_088_004_000]
    assert record.cost == 1_488_004_000
    assert counted == Decimal("1.488004")
    assert answer.headers.get("x-toolglot-cost") == (None if streams else "1.488004")


@BOTH
def test_the_app_answers_with_the_same_cost(streams: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.server.gateway.ANSWERED_BY", "app")
    with (
        BadServer(chat("Hello", 1000, 5, streams=streams)) as server,
        gateway(at("openai_chat", server.url, vendor="openai"), models=one()) as running,
    ):
        answer = running.ask("anthropic", stream=streams)
        record = running.record()
    assert (record.cost, len(record.charges)) == (2_050_000, 1)
    assert answer.headers.get("x-toolglot-cost") == (None if streams else "0.00205")


@BOTH
def test_an_unknown_price_is_not_zero(streams: bool) -> None:
    with (
        BadServer(chat("Hello", 1000, streams=streams)) as server,
        gateway(at("openai_chat", server.url, vendor="openai"), models=one("gpt-5.2-codex-mini")) as running,
    ):
        answer = running.ask("openai_chat", stream=streams)
        record = running.record()
        assert metric(running, 'toolglot_unpriced_total{upstream="up",reason="price"}') == 1
    assert (record.cost, record.unpriced, len(record.charges)) == (None, 1, 1)
    assert "x-toolglot-cost" not in answer.headers
    assert "cost_usd" not in format_fields(record)
    assert format_fields(record)["unpriced"] == 1


@BOTH
def test_a_local_server_has_no_price_and_is_not_unpriced(streams: bool) -> None:
    with (
        BadServer(chat("Hello", 1000, streams=streams)) as server,
        gateway({"vllm": at("openai_chat", server.url)}, models=one("gpt-6-sol", "vllm")) as running,
    ):
        answer = running.ask("openai_chat", stream=streams)
        record = running.record()
    assert (record.cost, record.unpriced, record.charges) == (None, 0, ())
    assert "x-toolglot-cost" not in answer.headers


@BOTH
def test_a_free_model_costs_zero_if_the_configuration_says_so(streams: bool) -> None:
    with (
        BadServer(chat("Hello", 1000, 5, streams=streams)) as server,
        gateway(
            at("openai_chat", server.url, vendor="openai"),
            models=one(),
            prices={"gpt-6-sol": PriceConfig(input=0, output=0)},
        ) as running,
    ):
        answer = running.ask("openai_chat", stream=streams)
        record = running.record()
    assert (record.cost, record.unpriced) == (0, 0)
    assert answer.headers.get("x-toolglot-cost") == (None if streams else "0")


def test_a_client_that_leaves_a_stream_makes_the_usage_unknown() -> None:
    """BerriAI/litellm PR#33736, #37558: a cancelled stream was free."""
    gate = Gate()
    first = chunks("Hello")[:2]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"

    async def begin(peer: Any) -> None:
        peer.writer.write(head + b"".join(b"%x\r\n%b\r\n" % (len(frame), frame) for frame in first))
        await peer.writer.drain()

    with (
        BadServer([expect(), begin, pause(gate)]) as server,
        gateway(at("openai_chat", server.url, vendor="openai"), models=one()) as running,
    ):
        talk = running.begin("anthropic", stream=True)
        talk.until(b"Hello")
        talk.leave()
        record = running.record()
        gate.open()
        assert metric(running, 'toolglot_unpriced_total{upstream="up",reason="usage"}') == 1
    assert record.cancelled
    assert (record.cost, record.unpriced) == (None, 1)


def test_the_log_has_the_cost_in_every_form() -> None:
    with (
        BadServer(chat("Hello", 1000, 5), chat("Hello", 1000, 5)) as server,
        gateway(at("openai_chat", server.url, vendor="openai"), models=one()) as running,
    ):
        running.ask("anthropic")
        record = running.record()
    assert record.is_simple
    log = RequestLog(LogConfig(), stream=(written := io.StringIO()))
    log._pending.append(log._simple_line(record))
    log.flush()
    simple, alone = json.loads(written.getvalue()), format_fields(record)
    assert simple["cost_usd"] == alone["cost_usd"] == 0.00205
    assert list(simple) == list(alone)
    assert "  1000+5 tokens  $0.00205  " in format_text(record)


def test_costs_of_simple_requests_are_counted_as_others_are() -> None:
    with (
        BadServer(chat("Hello", 1000, 5)) as server,
        gateway(at("openai_chat", server.url, vendor="openai"), models=one()) as running,
    ):
        running.ask("anthropic")
        record = running.record()
    line = b'toolglot_cost_usd_total{upstream="up",model="gpt-6-sol"} 0.00205'
    for is_simple in (True, False):
        metrics = Metrics()
        record.is_simple = is_simple
        metrics.observe(record)
        assert line in metrics.text(0, {})
