"""What the gateway tells of itself: which upstream answered, which one failed and why, and how much it remembers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.lint.streams import SOUND
from tests.server.client_errors import mid_call
from tests.server.gateway import CLIENTS, at, gateway, request
from tests.server.test_fallbacks import GOOD, refusal
from tests.upstream.bad_server import LAST_CHUNK, BadServer, Gate, chunk, expect, pause, reply, reset, send, stream
from toolglot.config.schema import BreakerConfig, ModelConfig
from toolglot.gateway.request_record import RequestRecord
from toolglot.receipt import Receipt
from toolglot.server.headers import MAX_HOPS
from toolglot.server.service import KEPT_CHARACTERS, KEPT_LINES, RecentReceipts
from toolglot.translate import ExchangeCore

FALL_BACK = {"m": ModelConfig(upstream="first", fallbacks=("second/n",))}


def test_an_answer_names_the_upstream_and_the_model_that_gave_it() -> None:
    with BadServer(GOOD) as server, gateway({"local": at("openai_chat", server.url)}) as running:
        answer = running.ask("anthropic", stream=True)
        assert answer.headers["x-toolglot-upstream"] == "local/m"


def test_an_answer_of_a_fallback_says_so_in_its_receipt() -> None:
    with (
        BadServer(refusal(500, "out of order")) as first,
        BadServer(GOOD) as second,
        gateway(
            {"first": at("openai_chat", first.url), "second": at("openai_chat", second.url)}, models=FALL_BACK
        ) as running,
    ):
        answer = running.ask("anthropic", stream=True)
        assert answer.headers["x-toolglot-upstream"] == "second/n"
        receipt = running.receipt(answer)
        assert {
            "severity": "note",
            "where": "model",
            "what": "answered by second",
            "why": "out of order",
        } in receipt["lines"]


def test_the_upstream_that_failed_is_blamed_and_not_the_one_that_rests() -> None:
    resting = at("openai_chat", "http://127.0.0.1:9", breaker=BreakerConfig(failures=1, rest=1000))
    with (
        BadServer(*[[expect(), reset()]] * 2) as first,
        gateway({"first": at("openai_chat", first.url), "second": resting}, models=FALL_BACK) as running,
    ):
        for _ in range(2):
            message = running.ask("openai_chat").json()["error"]["message"]
            assert message.startswith("The upstream 'first' failed: ") or "'second'" in message
        assert message.startswith("The upstream 'first' failed: ")


def test_whose_key_was_refused_is_told() -> None:
    with BadServer(refusal(401, "bad key")) as server, gateway({"local": at("openai_chat", server.url)}) as running:
        answer = running.ask("openai_chat")
        assert (answer.status, answer.json()["error"]["message"]) == (401, "The upstream 'local' says: bad key")
        record = running.record()
        assert (record.error, record.message) == ("authentication", "The upstream 'local' says: bad key")


def test_a_circle_of_gateways_ends() -> None:
    with gateway() as running:
        path, body = request("openai_chat", model="demo")
        headers = {"content-type": "application/json", "x-toolglot-hops": str(MAX_HOPS)}
        answer = running.call("POST", path, body, headers)
        assert "is one the upstream of another?" in answer.json()["error"]["message"]
        assert answer.status == 508


def test_each_gateway_on_the_way_counts_itself() -> None:
    with BadServer(GOOD) as server, gateway(at("openai_chat", server.url)) as running:
        path, body = request("anthropic", stream=True)
        running.call("POST", path, body, {"content-type": "application/json", "x-toolglot-hops": "3"})
        assert server.requests[0].headers["x-toolglot-hops"] == "4"


def test_any_word_but_a_no_is_strict() -> None:
    with gateway() as running:
        path, body = request("anthropic", model="demo", body={"max_tokens": 9, "top_k": 5, "messages": [HELLO]})
        for word, status in (("1", 400), ("on", 400), ("please", 400), ("0", 200), ("off", 200), ("false", 200)):
            headers = {"content-type": "application/json", "x-toolglot-strict": word}
            assert running.call("POST", path, body, headers).status == status, word


HELLO = {"role": "user", "content": "Hello"}


def test_kept_receipts_are_bounded_however_much_a_client_sends() -> None:
    exchange = ExchangeCore("anthropic", "openai_chat")
    exchange.receipt = Receipt()
    for number in range(KEPT_LINES + 50):
        exchange.receipt.loss(f"messages[{number}]", "x" * 10_000, "y")
    exchange.receipt.note("tools", "renamed", "z")
    receipts = RecentReceipts(size=2)
    for name in ("req_1", "req_2", "req_3"):
        record = RequestRecord(id=name, method="POST", path="/", started=0.0, owner="me")
        receipts.keep(record, tuple(exchange.receipt))
    assert (record.losses, record.notes) == (KEPT_LINES + 50, 1)
    assert receipts.find("me", "req_1") is None
    kept = receipts.find("me", "req_3")
    assert kept is not None
    assert (len(kept["lines"]), kept["left_out"]) == (KEPT_LINES, 51)
    assert len(kept["lines"][0]["what"]) == KEPT_CHARACTERS
    assert [entry["id"] for entry in receipts.latest("me", 10)] == ["req_3", "req_2"]
    assert receipts.latest("you", 10) == []
    assert receipts.find("you", "req_3") is None


KEY = "sk-upstream-canary"
ECHO = {"error": {"message": f"Incorrect API key: Bearer {KEY}", "type": "server_error", "code": None, "param": None}}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("status", [200, 401])
def test_a_credential_that_an_upstream_repeats_goes_no_further(client: str, streams: bool, status: int) -> None:
    repeated = {"x-request-id": KEY, "x-ratelimit-limit-requests": KEY}
    with (
        BadServer([expect(), reply(ECHO, status, repeated)]) as server,
        gateway({"local": at("openai_chat", server.url, key=KEY)}) as running,
    ):
        answer = running.ask(client, stream=streams)
        assert b"Incorrect API key" in answer.body
        assert KEY not in answer.body.decode()
        assert KEY not in str(answer.headers)


def test_headers_of_a_good_answer_do_not_repeat_a_credential_either() -> None:
    script = [expect(), stream(SOUND["openai_chat"], headers={"x-request-id": KEY, "openai-version": "1"})]
    with BadServer(script) as server, gateway({"local": at("openai_chat", server.url, key=KEY)}) as running:
        answer = running.ask("openai_chat", stream=True)
        assert answer.headers["openai-version"] == "1"
        assert KEY not in str(answer.headers)


MID = b'data: {"error": {"message": "bad key %b", "code": "%b", "param": "%b"}}\n\n' % ((KEY.encode(),) * 3)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("configured", [{"key": KEY}, {"headers": {"authorization": f"Bearer {KEY}"}}])
def test_a_credential_inside_a_stream_goes_no_further_either(client: str, configured: dict[str, Any]) -> None:
    begun = Gate()
    script = [expect(), stream(mid_call("openai_chat"), complete=False), pause(begun), send(chunk(MID), LAST_CHUNK)]
    with BadServer(script) as server, gateway({"local": at("openai_chat", server.url, **configured)}) as running:
        talk = running.begin(client, stream=True)
        talk.until(b"Hel")
        begun.open()
        body = talk.rest().body.decode()
        assert "bad key (hidden)" in body
        assert KEY not in body
        assert KEY not in (running.record().message or "")


def test_an_upstream_that_breaks_off_every_stream_is_left_alone() -> None:
    cut = [expect(), stream(mid_call("openai_chat"), complete=False), reset()]
    breaker = BreakerConfig(failures=2, rest=1000)
    with (
        BadServer(cut, cut) as server,
        gateway({"local": at("openai_chat", server.url, breaker=breaker)}) as running,
    ):
        for _ in range(2):
            assert running.ask("openai_chat", stream=True).status == 200
        answer = running.ask("openai_chat", stream=True)
        assert answer.json()["error"]["code"] == "upstream_resting"


def test_interim_heads_without_end_are_an_error() -> None:
    with (
        BadServer([expect(), send(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000)]) as server,
        gateway({"local": at("openai_chat", server.url)}) as running,
    ):
        assert "heads for one answer" in running.ask("openai_chat").json()["error"]["message"]


def test_what_an_upstream_says_cannot_forge_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    forged = "no\n12:00:00  200  POST /v1/messages\x1b[2J"
    with (
        BadServer(refusal(429, forged)) as server,
        gateway(
            {"local": at("openai_chat", server.url), "demo": at("openai_chat", "demo:")},
            models={"m": ModelConfig(upstream="local", fallbacks=("demo/demo",))},
        ) as running,
    ):
        assert running.ask("openai_chat").status == 200
    (line,) = [record.getMessage() for record in caplog.records if "local (rate_limit)" in record.getMessage()]
    assert line.isprintable()


def test_an_upstream_error_that_the_client_gets_is_told_by_the_line_of_its_request_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        BadServer(refusal(400, "not like this")) as server,
        gateway({"local": at("openai_chat", server.url)}) as running,
    ):
        running.ask("openai_chat")
        assert running.record().message == "not like this"
    assert "not like this" not in caplog.text


@pytest.mark.parametrize("client", CLIENTS)
def test_a_credential_that_is_escaped_goes_no_further_either(client: str) -> None:
    escaped = "".join(f"\\u{ord(character):04x}" for character in KEY)
    said = json.dumps({"error": {"message": f"bad key {escaped} or {KEY[:7]}%{ord(KEY[7]):02x}{KEY[8:]}"}}).encode()
    script = [expect(), reply(said, status=401)]
    with BadServer(script) as server, gateway({"local": at("openai_chat", server.url, key=KEY)}) as running:
        body = running.ask(client).body.decode()
        assert "bad key (hidden) or (hidden)" in body
        assert "(hidden)" in (running.record().message or "")
