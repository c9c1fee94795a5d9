"""Keys that must never be seen again: a gateway is used and misused with them, and then every artefact is searched.

The number is that of `tests/server/fault_cases.py`. The gateway is a process of its own.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lint.streams import SOUND
from tests.server import gateway as serving_gateway
from tests.server.client_errors import error_told
from tests.server.gateway import CLIENTS, Answer, at, gateway, request
from tests.server.process import Process, serving
from tests.upstream.bad_server import BadServer, Script, expect, reply, reset, stream

CLIENT_KEY = "canary-client-7f3a9c2e51"
UPSTREAM_KEY = "canary-upstream-b8d04e6f17"
HEADER_SECRET = "canary-header-90ac31d7e2"
WRONG_KEY = "canary-wrong-4471e9b3aa"
PROMPT = "canary prompt 5d2f"
CANARIES = (CLIENT_KEY, UPSTREAM_KEY, HEADER_SECRET, WRONG_KEY)

CONFIG = """
[server]
keys = ["${CLIENT_KEY}"]
[upstreams.up]
dialect = "openai_chat"
base_url = "%s"
key = "${UPSTREAM_KEY}"
headers = { x-extra = "${HEADER_SECRET}" }
retries = { attempts = 1 }
breaker = { failures = 100 }
[log]
level = "debug"
"""

KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key", "api-key")


def _echo(status: int) -> Script:
    message = f"Incorrect API key provided: {UPSTREAM_KEY} with {HEADER_SECRET}"
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": "invalid_api_key"}
    return [expect(), reply({"error": error}, status, {"x-echo": UPSTREAM_KEY, "set-cookie": f"a={UPSTREAM_KEY}"})]


SCRIPTS: tuple[Script, ...] = (
    [expect(), stream(SOUND["openai_chat"])],
    _echo(401),
    _echo(400),
    _echo(500),
    [expect(), reset()],
    [expect(), reply(b"not JSON")],
    [expect(), reply(b"", 302, {"location": f"http://127.0.0.1:1/?key={UPSTREAM_KEY}"})],
)


def _shown(header: str, key: str) -> dict[str, str]:
    return {header: f"Bearer {key}" if header == "authorization" else key}


def _misuse(running: Process) -> Iterator[Answer]:
    for header in KEY_HEADERS:
        yield running.ask("openai_chat", headers=_shown(header, WRONG_KEY))
        yield running.call("GET", "/v1/nothing/here", headers=_shown(header, CLIENT_KEY))
    yield running.call("GET", f"/v1/models?key={WRONG_KEY}")
    yield running.call("GET", f"/v1/models?key={CLIENT_KEY}")
    yield running.call("POST", f"/v1beta/models/m:generateContent?key={WRONG_KEY}", b"{}")
    yield running.call("POST", "/v1/messages", b'{"model": "x", ', {"x-api-key": CLIENT_KEY})
    yield running.call("POST", "/v1/messages", b"{}", {"x-api-key": WRONG_KEY * 1000})


def _use(running: Process) -> Iterator[Answer]:
    for number, _ in enumerate(SCRIPTS):
        client = CLIENTS[number % len(CLIENTS)]
        header = KEY_HEADERS[number % len(KEY_HEADERS)]
        body = {"messages": [{"role": "user", "content": PROMPT}]} if client == "openai_chat" else None
        yield running.ask(client, stream=True, headers=_shown(header, CLIENT_KEY), body=body)
    authorized = _shown("authorization", CLIENT_KEY)
    for path in ("/debug/receipts", "/metrics", "/v1/models", "/", "/health", "/ready"):
        yield running.call("GET", path, headers=authorized)


@pytest.mark.parametrize("form", ["json", "text"])
def test_44_no_key_is_in_any_answer_log_metric_receipt_or_file(tmp_path: Path, form: str) -> None:
    environment = {"CLIENT_KEY": CLIENT_KEY, "UPSTREAM_KEY": UPSTREAM_KEY, "HEADER_SECRET": HEADER_SECRET}
    store = tmp_path / "store.sqlite3"
    arguments = ["--log", form, "--store", str(store)]
    with (
        BadServer(*SCRIPTS) as server,
        serving(tmp_path, CONFIG % server.url, arguments=arguments, environment=environment) as running,
    ):
        answers = [*_misuse(running), *_use(running)]
        (tmp_path / "toolglot.toml").write_text(CONFIG.replace("attempts", "atempts") % server.url)
        running.signal(signal.SIGHUP)
        running.until_logged("last valid")
        running.signal(signal.SIGTERM)
        running.wait()
        assert len(server.requests) == len(SCRIPTS)
        for request in server.requests:  # and yet they were all used
            assert request.headers["authorization"] == f"Bearer {UPSTREAM_KEY}"
            assert request.headers["x-extra"] == HEADER_SECRET
            assert CLIENT_KEY.encode() not in request.head + request.body
        seen = {
            **{f"answer {number}": f"{answer.headers} {answer.body!r}" for number, answer in enumerate(answers)},
            "log": running.log,
            **{path.name: path.read_bytes().decode("latin-1") for path in tmp_path.iterdir() if path.is_file()},
        }
    found = [(where, canary) for where, text in seen.items() for canary in CANARIES if canary in text]
    assert found == []
    assert PROMPT not in running.log
    assert all(PROMPT not in text for where, text in seen.items() if where.startswith("answer"))


def test_18_a_wrong_key_is_refused_in_the_callers_dialect_and_not_repeated(tmp_path: Path) -> None:
    environment = {"CLIENT_KEY": CLIENT_KEY, "UPSTREAM_KEY": UPSTREAM_KEY, "HEADER_SECRET": HEADER_SECRET}
    with serving(tmp_path, CONFIG % "http://127.0.0.1:1", environment=environment) as running:
        for client in CLIENTS:
            for key in (WRONG_KEY, "' OR 1=1 --", CLIENT_KEY + "x", CLIENT_KEY[:-1], ""):
                answer = running.ask(client, headers=_shown("x-api-key", key))
                told = error_told(client, answer)
                assert answer.status == 401
                assert key == "" or key not in told.message


def _named(client: str, key: str) -> Iterator[dict[str, Any]]:
    """Requests in which the key is the name of something, or a value that errors and receipts quote."""
    _, usual = request(client)
    body = {name: value for name, value in json.loads(usual).items() if name not in ("model", "stream")}
    yield {**body, key: 1}
    yield {**body, "metadata": {key: key}, "service_tier": key, "user": key, "stop": [key] * 9}
    schema = {"type": "object", "properties": {key: {"type": key, key: 1}}, key: 1}
    tool = {"name": key, "description": "d", "strict": True}
    yield {
        **body,
        "tools": {
            "openai_chat": [{"type": "function", "function": {**tool, "parameters": schema}}, {"type": key}],
            "openai_responses": [{"type": "function", **tool, "parameters": schema}, {"type": key}],
            "anthropic": [{"name": key, "input_schema": schema}, {"type": key, "name": key}],
            "gemini": [{"functionDeclarations": [{"name": key, "parameters": schema}]}, {key: {}}],
            "ollama": [{"type": "function", "function": {**tool, "parameters": schema}}, {"type": key}],
        }[client],
    }
    yield {**body, "messages": key, "input": [{"type": key}], "contents": {key: key}}
    yield {**body, "previous_response_id": key, "temperature": key}


@pytest.mark.parametrize("keyed", [True, False], ids=["with keys", "without keys"])
def test_the_callers_own_key_as_a_name_is_in_no_answer_header_receipt_or_log(tmp_path: Path, keyed: bool) -> None:
    """Without `server.keys` a client may show any key, its vendor's say, and the gateway knows it from the request."""
    config = CONFIG if keyed else CONFIG.replace('keys = ["${CLIENT_KEY}"]', "")
    environment = {"CLIENT_KEY": CLIENT_KEY, "UPSTREAM_KEY": UPSTREAM_KEY, "HEADER_SECRET": HEADER_SECRET}
    shown = {"authorization": f"Bearer {CLIENT_KEY}"}
    with (
        BadServer([expect(), stream(SOUND["openai_chat"])]) as server,
        serving(tmp_path, config % server.url, environment=environment) as running,
    ):
        answers = []
        for client in CLIENTS:
            for strict in ({}, {"x-toolglot-strict": "1"}):
                given = {**shown, **strict}
                answers += [running.ask(client, stream=True, body=b, headers=given) for b in _named(client, CLIENT_KEY)]
            answers.append(running.ask(client, stream=True, model=CLIENT_KEY, headers=shown))
            answers.append(running.ask(client, headers={**shown, "x-toolglot-mcp": CLIENT_KEY}))
        paths = (f"/v1/models/{CLIENT_KEY}", f"/v1/{CLIENT_KEY}", f"/debug/receipts/{CLIENT_KEY}")
        answers += [running.call("GET", path, headers=shown) for path in paths]
        ids = [answer.headers["x-request-id"] for answer in answers]
        receipts = [running.call("GET", f"/debug/receipts/{each}", headers=shown) for each in ids]
        receipts.append(running.call("GET", "/debug/receipts", headers=shown))
        running.signal(signal.SIGTERM)
        running.wait()
    assert sum(receipt.status == 200 and b'"lines":[{' in receipt.body for receipt in receipts) > 4
    for answer in (*answers, *receipts):
        assert CLIENT_KEY not in str(answer.headers)
    refused = [answer for answer in answers if answer.status != 200]  # others repeat settings, as the API says
    assert len(refused) > len(CLIENTS)
    for answer in (*refused, *receipts):
        assert CLIENT_KEY not in answer.body.decode("utf-8", "replace")
    assert CLIENT_KEY not in running.log


@pytest.mark.parametrize("answered_by", ["app", "connection"])
@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("client", CLIENTS)
def test_an_error_of_an_upstream_that_quotes_the_callers_key_does_not_bring_it_back(
    client: str, streams: bool, answered_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of a tool, say. In a stream it comes after the answer has begun."""
    monkeypatch.setattr(serving_gateway, "ANSWERED_BY", answered_by)
    error = {"error": {"message": f"tools: {CLIENT_KEY} is no name", "type": "server_error", "code": CLIENT_KEY}}
    begun = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
    begun += b'{"role":"assistant","content":"Hi"},"finish_reason":null}]}\n\n'
    failed = f"data: {json.dumps(error)}\n\n".encode()
    script: Script = [expect(), stream(begun, failed) if streams else reply(error, 500)]
    with BadServer(script) as server, gateway(at("openai_chat", server.url)) as running:
        answer = running.ask(client, stream=streams, headers={"x-api-key": CLIENT_KEY})
        assert b"is no name" in answer.body or streams
        assert CLIENT_KEY not in f"{answer.headers} {answer.body!r} {running.record()}"
