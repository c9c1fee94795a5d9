"""What crosses the gateway unchanged, what is changed and says so, and what does not cross."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.client_errors import error_told
from tests.server.client_errors import frames as documents_of
from tests.server.gateway import Body, at, gateway, request
from tests.server.stage import (
    DIALECTS,
    FOREIGN,
    PAIRS,
    Call,
    Stage,
    Turn,
    events_of,
    frames_of,
    model_of,
    stage,
    whole_of,
)
from tests.upstream.bad_server import BadServer, expect, reply, stream
from toolglot.config.schema import ModelConfig, ServerConfig

OK = Turn("Yes.", (Call("call_1", "f", {"a": 1}),))
ALIASES = {f"my-{dialect}-*": ModelConfig(upstream=f"to_{dialect}", model=f"{dialect}-model") for dialect in DIALECTS}
STRICT = {f"strict-{dialect}": ModelConfig(upstream=f"to_{dialect}", strict=True) for dialect in DIALECTS}


@pytest.fixture(scope="module")
def scene() -> Iterator[Stage]:
    with stage(models={**ALIASES, **STRICT}) as running:
        yield running


# The receipt.

LOSSY: dict[str, Body] = {
    "openai_chat": {"messages": [{"role": "user", "content": "Hi"}], "logit_bias": {"50256": -100}},
    "openai_responses": {"input": "Hi", "tools": [{"type": "image_generation"}], "store": False},
    "anthropic": {"max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}], "container": "c_1"},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}], "safetySettings": [{"category": "X"}]},
    "ollama": {"messages": [{"role": "user", "content": "Hi"}], "options": {"num_ctx": 4096, "mirostat": 2}},
}
"""Requests with something in them that no other dialect has a place for."""


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(("client", "upstream"), FOREIGN)
def test_a_loss_stands_in_the_short_receipt_and_in_the_whole_one(
    scene: Stage, client: str, upstream: str, streams: bool
) -> None:
    scene.play(upstream, OK)
    answer = scene.ask(client, upstream, body=LOSSY[client], stream=streams)
    assert answer.status == 200, answer.body
    receipt = scene.running.receipt(answer)
    lost = [line for line in receipt["lines"] if line["severity"] == "loss"]
    assert lost
    assert all(line["where"] and line["what"] and line["why"] for line in lost)
    short = answer.headers["x-toolglot-receipt"]
    assert short.startswith(f"losses={len(lost)}; ")
    assert lost[0]["where"] in short
    assert {key: receipt[key] for key in ("client", "upstream", "upstream_dialect", "model")} == {
        "client": client,
        "upstream": f"to_{upstream}",
        "upstream_dialect": upstream,
        "model": model_of(upstream),
    }


@pytest.mark.parametrize("dialect", DIALECTS)
def test_where_nothing_is_lost_the_receipt_says_so(scene: Stage, dialect: str) -> None:
    scene.play(dialect, OK)
    answer = scene.ask(dialect, dialect, body=LOSSY[dialect])
    assert answer.headers["x-toolglot-receipt"] == "losses=0; notes=0"
    assert scene.running.receipt(answer)["lines"] == []


def test_the_newest_receipt_is_listed_first_and_an_unknown_one_is_a_404(scene: Stage) -> None:
    scene.play("openai_chat", OK)
    answer = scene.ask("anthropic", "openai_chat")
    scene.running.receipt(answer)
    listed = scene.running.call("GET", "/debug/receipts").json()["receipts"]
    assert listed[0]["id"] == answer.headers["x-request-id"]
    assert scene.running.call("GET", "/debug/receipts/req_none").status == 404


def test_a_receipt_is_shown_to_the_key_that_asked_and_to_no_other() -> None:
    keys = [{"authorization": f"Bearer a-key-of-{name}-with-length"} for name in ("mine", "yours")]
    server = ServerConfig(keys=tuple(key["authorization"].removeprefix("Bearer ") for key in keys))
    with gateway(server=server) as running:
        answer = running.ask("anthropic", model="demo", headers=keys[0])
        assert answer.status == 200
        receipt = running.receipt(answer, keys[0])
        path = f"/debug/receipts/{answer.headers['x-request-id']}"
        assert [running.call("GET", path, headers=key).status for key in (*keys, {})] == [200, 404, 401]
        assert running.call("GET", "/debug/receipts", headers=keys[1]).json() == {"receipts": []}
        assert "a-key-of" not in json.dumps(receipt)


# Strict.


@pytest.mark.parametrize("way", ["header", "model"])
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(("client", "upstream"), FOREIGN)
def test_strict_refuses_what_would_be_lost_before_anybody_is_asked(
    scene: Stage, client: str, upstream: str, streams: bool, way: str
) -> None:
    scene.play(upstream, OK)
    headers, model = ({"x-toolglot-strict": "1"}, model_of(upstream)) if way == "header" else ({}, f"strict-{upstream}")
    answer = scene.running.ask(client, stream=streams, model=model, body=LOSSY[client], headers=headers)
    assert answer.status == 400
    assert "would lose" in error_told(client, answer).message
    assert answer.headers["x-toolglot-receipt"].startswith("losses=")
    assert not answer.headers["x-toolglot-receipt"].startswith("losses=0")
    assert not scene.upstream.requests


@pytest.mark.parametrize(("client", "upstream"), FOREIGN)
def test_strict_lets_through_what_loses_nothing(scene: Stage, client: str, upstream: str) -> None:
    scene.play(upstream, OK)
    assert scene.ask(client, upstream, headers={"x-toolglot-strict": "1"}).status == 200
    assert scene.ask(client, upstream, body=LOSSY[client], headers={"x-toolglot-strict": "0"}).status == 200


def test_strict_ends_a_stream_that_brings_what_would_be_lost(scene: Stage) -> None:
    events = events_of("anthropic", Turn("Yes."))
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    events[1:1] = [
        {"type": "content_block_start", "index": 0, "content_block": search},
        {"type": "content_block_stop", "index": 0},
    ]
    for event in events[3:6]:
        event["index"] = 1
    scene.steps(streamed=stream(*frames_of("anthropic", events)))
    assert scene.ask("openai_chat", "anthropic", stream=True).body.endswith(b"data: [DONE]\n\n")
    scene.steps(streamed=stream(*frames_of("anthropic", events)))
    strict = scene.ask("openai_chat", "anthropic", stream=True, headers={"x-toolglot-strict": "1"})
    assert b"would lose" in strict.body
    assert b"[DONE]" not in strict.body


# Headers.

OWN: dict[str, dict[str, str]] = {
    "openai_chat": {"openai-organization": "org-1", "openai-project": "proj-1", "openai-beta": "x=1"},
    "openai_responses": {"openai-organization": "org-1", "openai-project": "proj-1", "x-client-request-id": "abc"},
    "anthropic": {"anthropic-version": "2026-10-21", "anthropic-beta": "claude-code-20250219,unheard-of-2099-01-01"},
    "gemini": {},
    "ollama": {},
}
OTHERS = {
    "authorization": "Bearer of-the-client",
    "x-api-key": "of-the-client",
    "x-goog-api-key": "of-the-client",
    "cookie": "a=of-the-client",
    "x-forwarded-for": "10.0.0.1",
    "x-claude-code-session-id": "of-the-client",
    "x-stainless-lang": "python",
    "user-agent": "of-the-client/1.0",
}


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_a_dialects_headers_go_to_an_upstream_of_the_same_dialect_and_to_no_other(
    scene: Stage, client: str, upstream: str
) -> None:
    scene.play(upstream, OK)
    assert scene.ask(client, upstream, headers={**OWN[client], **OTHERS}).status == 200
    received = scene.received.headers
    passed = {name: received[name] for name in OWN[client] if name in received}
    assert passed == (OWN[client] if client == upstream else {})
    # Anthropic's API wants a version, also where the client has none.
    assert ("anthropic-version" in received) == (upstream == "anthropic")
    assert b"of-the-client" not in scene.received.head
    assert not {"x-forwarded-for", "cookie", "x-stainless-lang"} & received.keys()


def test_a_beta_that_is_asked_for_in_the_query_is_told_to_anthropic_alone(scene: Stage) -> None:
    for upstream, query in (("anthropic", "?beta=true"), ("openai_chat", "")):
        scene.play(upstream, OK)
        body = request("anthropic", model=model_of(upstream))[1]
        assert scene.running.call("POST", "/v1/messages?beta=true&evil=1", body).status == 200
        assert scene.received.target.endswith(("/messages" + query, "/chat/completions"))
        assert "evil" not in scene.received.target


LIMITS: dict[str, dict[str, str]] = {
    "openai_chat": {"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "59"},
    "openai_responses": {"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "59"},
    "anthropic": {"anthropic-ratelimit-requests-limit": "60", "anthropic-ratelimit-requests-remaining": "59"},
    "gemini": {},
    "ollama": {},
}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_rate_limits_are_told_in_the_clients_words(scene: Stage, client: str, upstream: str, streams: bool) -> None:
    told = {**LIMITS[upstream], "set-cookie": "a=b", "server": "secret/1.0", "x-internal": "1"}
    turn = frames_of(upstream, events_of(upstream, OK))
    scene.steps(streamed=stream(*turn, headers=told), whole=reply(whole_of(upstream, OK), headers=told))
    answer = scene.ask(client, upstream, stream=streams)
    assert answer.status == 200
    limits = {name: value for name, value in answer.headers.items() if "ratelimit" in name}
    assert limits == (LIMITS[client] if LIMITS[upstream] else {})
    assert not {"set-cookie", "server", "x-internal"} & answer.headers.keys()


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic"])
def test_other_headers_of_a_dialect_come_back_as_they_are(scene: Stage, dialect: str) -> None:
    own = {"anthropic": {"anthropic-organization-id": "org", "request-id": "req_up"}}.get(
        dialect, {"openai-processing-ms": "17", "openai-version": "2020-10-01"}
    )
    scene.steps(whole=reply(whole_of(dialect, OK), headers=own))
    answer = scene.ask(dialect, dialect)
    assert {name: answer.headers[name] for name in own} == own


REQUEST_IDS = {
    "openai_chat": "x-request-id",
    "openai_responses": "x-request-id",
    "anthropic": "request-id",
    "gemini": "x-request-id",
    "ollama": "x-request-id",
}
"""The header in which each vendor's SDK reads the id of a request."""


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_every_answer_has_the_requests_id_where_its_sdk_reads_it(
    scene: Stage, client: str, upstream: str, streams: bool
) -> None:
    name, refused = REQUEST_IDS[client], reply(b'{"error":{"message":"No"}}', 400)
    scene.steps(streamed=stream(*frames_of(upstream, events_of(upstream, OK))), whole=reply(whole_of(upstream, OK)))
    good = scene.ask(client, upstream, stream=streams)
    scene.steps(streamed=refused, whole=refused)
    bad = scene.ask(client, upstream, stream=streams)
    assert (good.status, bad.status) == (200, 400)
    for answer in (good, bad):
        assert answer.headers[name] == answer.headers["x-request-id"]
        assert answer.headers[name].startswith("req_")
    assert good.headers[name] != bad.headers[name]


OWN_HEADERS = {
    "openai_chat": {"openai-processing-ms": "17", "x-ratelimit-remaining-project-tokens": "0"},
    "openai_responses": {"openai-organization": "org", "x-ratelimit-reset-project-requests": "1s"},
    "anthropic": {
        "anthropic-organization-id": "org",
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": "1763400000",
    },
    "gemini": {},
    "ollama": {},
}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_an_error_has_the_headers_of_its_own_dialect_only(
    scene: Stage, client: str, upstream: str, streams: bool
) -> None:
    """The rate limits of a subscription (`unified`) stand in errors, which Claude Code reads."""
    told = {**LIMITS[upstream], **OWN_HEADERS[upstream], "retry-after": "99", "x-internal": "1"}
    step = reply(b'{"error":{"type":"rate_limit_error","message":"Slow"}}', 429, headers=told)
    scene.steps(streamed=step, whole=step)
    answer = scene.ask(client, upstream, stream=streams)
    assert answer.status == 429
    limits = {name: value for name, value in answer.headers.items() if "ratelimit" in name or name in told}
    expected = LIMITS[client] if LIMITS[upstream] else {}
    if client == upstream:
        expected = {**expected, **OWN_HEADERS[upstream]}
    assert limits == {**expected, "retry-after": "99"}


READS_SHOULD_RETRY = ("openai_chat", "openai_responses", "anthropic")


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_an_upstream_that_says_not_to_ask_again_is_asked_once_and_its_word_is_handed_on(
    scene: Stage, client: str, upstream: str
) -> None:
    step = reply(b'{"error":{"message":"boom"}}', 429, headers={"x-should-retry": "false"})
    scene.steps(streamed=step, whole=step)
    answer = scene.ask(client, upstream)
    assert len(scene.upstream.requests) == 1
    assert answer.headers.get("x-should-retry") == ("false" if client in READS_SHOULD_RETRY else None)


@pytest.mark.parametrize("status", [401, 402, 403])
@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_a_refused_key_is_not_retried_by_the_gateway_or_by_clients(
    scene: Stage, client: str, upstream: str, status: int
) -> None:
    step = reply(b'{"error":{"message":"no such key"}}', status)
    scene.steps(streamed=step, whole=step)
    answer = scene.ask(client, upstream)
    assert len(scene.upstream.requests) == 1
    assert answer.headers.get("x-should-retry") == ("false" if client in READS_SHOULD_RETRY else None)


@pytest.mark.parametrize("streams", [False, True])
def test_an_error_with_status_200_has_the_headers_of_its_dialect_too(scene: Stage, streams: bool) -> None:
    body = b'{"type":"error","error":{"type":"rate_limit_error","message":"Slow"}}'
    own = OWN_HEADERS["anthropic"] | {"retry-after": "99"}
    scene.steps(streamed=stream(b"event: error\ndata: " + body + b"\n\n", headers=own), whole=reply(body, headers=own))
    answer = scene.ask("anthropic", "anthropic", stream=streams)
    assert answer.status == 429
    assert answer.headers.items() >= OWN_HEADERS["anthropic"].items()


# Byte for byte.

ODD = (
    '{ "z" : [1,2.50, 1e3,12345678901234567890] ,"%s":  [%s],\n\t"unheard_of": {"b": 1, "a": null},'
    '"strange_text": "\\u00e9 \\ud83d\\ude00 / \\/ é",  "model":"%s" %s}  \n'
)
MESSAGES = {
    "openai_chat": ("messages", '{"role":"user","content":"Hi","strange":true}', ""),
    "openai_responses": ("input", '{"role":"user","content":"Hi","strange":true}', ""),
    "anthropic": ("messages", '{"role":"user","content":"Hi","strange":true}', ',"max_tokens":10'),
    "gemini": ("contents", '{"role":"user","parts":[{"text":"Hi","strange":true}]}', ""),
    "ollama": ("messages", '{"role":"user","content":"Hi","strange":true}', ""),
}


def odd(dialect: str, model: str, streams: bool) -> tuple[str, bytes]:
    """A request that is legal and that nobody would write again in the same way."""
    key, message, rest = MESSAGES[dialect]
    if dialect == "gemini":
        body = (ODD % (key, message, "", rest)).replace('"model":"" ', '"labels":{} ')
        return request(dialect, stream=streams, model=model)[0], body.encode()
    if streams or dialect == "ollama":
        rest += f' , "stream" :{json.dumps(streams)}'
    return request(dialect)[0], (ODD % (key, message, model, rest)).encode()


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_request_to_an_upstream_of_the_same_dialect_goes_through_byte_for_byte(
    scene: Stage, dialect: str, streams: bool
) -> None:
    scene.play(dialect, OK)
    path, body = odd(dialect, model_of(dialect), streams)
    assert scene.running.call("POST", path, body).status == 200
    assert scene.received.body == body


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("dialect", [name for name in DIALECTS if name != "gemini"])
def test_of_an_alias_the_models_name_alone_is_changed(scene: Stage, dialect: str, streams: bool) -> None:
    scene.play(dialect, OK)
    path, body = odd(dialect, f"my-{dialect}-1", streams)
    assert scene.running.call("POST", path, body).status == 200
    assert scene.received.body == body.replace(f"my-{dialect}-1".encode(), model_of(dialect).encode())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_of_the_same_dialect_comes_back_byte_for_byte(scene: Stage, dialect: str) -> None:
    whole = json.dumps({**whole_of(dialect, OK), "unheard_of": [1.50, "\u00e9"]}, indent=3).encode() + b"\n"
    frames = odd_frames(dialect)
    scene.steps(whole=reply(whole), streamed=stream(*frames))
    assert scene.ask(dialect, dialect).body == whole
    assert scene.ask(dialect, dialect, stream=True).body == b"".join(frames)


def odd_frames(dialect: str) -> list[bytes]:
    events = [{**event, "unheard_of": {"b": 1, "a": "\u00e9"}} for event in events_of(dialect, OK)]
    ignored = {"gemini": b"\n", "ollama": b""}.get(dialect, b": a comment\n\n")
    return [frame for frame in (ignored, *frames_of(dialect, events)) if frame]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_of_an_aliass_answer_the_models_name_alone_is_changed(scene: Stage, dialect: str) -> None:
    whole = json.dumps({**whole_of(dialect, OK), "unheard_of": [1.50, "\u00e9"]}, indent=3).encode()
    frames = b"".join(odd_frames(dialect))
    scene.steps(whole=reply(whole), streamed=stream(frames))
    asked, answers = f"my-{dialect}-1", model_of(dialect)

    def renamed(data: bytes) -> bytes:
        return data.replace(f'"{answers}"'.encode(), f'"{asked}"'.encode())

    assert scene.running.ask(dialect, model=asked).body == renamed(whole)
    assert scene.running.ask(dialect, model=asked, stream=True).body == renamed(frames)


# The model that was asked for.


def models_in(value: Any) -> set[str]:
    """Every model that an answer names, wherever it does."""
    if isinstance(value, list):
        return {name for one in value for name in models_in(one)}
    if not isinstance(value, dict):
        return set()
    own = {value[key] for key in ("model", "modelVersion") if isinstance(value.get(key), str)}
    return own | {name for one in value.values() for name in models_in(one)}


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_the_answer_names_the_model_that_was_asked_for(scene: Stage, client: str, upstream: str) -> None:
    for asked in (f"my-{upstream}-large", f"my-{upstream}-", f"to_{upstream}/{model_of(upstream)}"):
        scene.play(upstream, OK)
        whole = scene.running.ask(client, model=asked)
        assert models_in(whole.json()) == {asked}
        streamed = scene.running.ask(client, model=asked, stream=True)
        assert models_in(documents_of(streamed.body)) == {asked}
        sent = scene.received.target if upstream == "gemini" else scene.sent["model"]
        assert model_of(upstream) in sent
        assert asked not in scene.received.body.decode()


@pytest.mark.parametrize("asked", ["claude-opus-5-5", "claude-haiku-4-5-20251001", "claude-opus-4-8[1m]"])
def test_an_agents_wired_in_names_all_reach_the_one_model(asked: str) -> None:
    done = {"choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}
    with (
        BadServer([expect(), reply(done)]) as upstream,
        gateway(
            {"local": at("openai_chat", upstream.url)}, models={"claude-*": ModelConfig(upstream="local", model="qwen")}
        ) as running,
    ):
        assert running.ask("anthropic", model=asked).json()["model"] == asked
        assert upstream.requests[0].json()["model"] == "qwen"
