"""Keys that must never be seen again: a gateway is used and misused with them, and then every artefact is searched.

The number is that of `tests/server/fault_cases.py`. The gateway is a process of its own.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lint.streams import SOUND
from tests.server.gateway import CLIENTS, Answer
from tests.server.process import Process, serving
from tests.server.told import error_told
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
        running.until_logged("last good")
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
