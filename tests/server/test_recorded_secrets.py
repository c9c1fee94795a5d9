"""Canaries: secrets in every place where a secret can be, and then every artefact of the gateway is searched for them.

The gateway is a process of its own, recording, with an upstream that repeats whatever it knows and a tool that tells
its environment.
"""

from __future__ import annotations

import base64
import json
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.server.client_errors import error_told
from tests.server.gateway import CLIENTS, Answer, at, gateway, request
from tests.server.process import Process, serving
from tests.server.stage import Call, Turn, events_of, frames_of, whole_of
from tests.upstream.bad_server import BadServer, Peer, chunk, expect, head, reply, send, stream
from tests.warp_server import frames, story
from tests.warp_server.messages import decode, encode
from toolglot.config.schema import RecordConfig
from toolglot.passes.envelope import Envelope, pack
from toolglot.recordings.read import read_recording

CLIENT_KEY = "canary-client+7f3a/9c2e51"
OTHER_KEY = "canary-another-5d01bb7e"
UPSTREAM_KEY = "canary-upstream-b8d04e6f17"
HEADER_SECRET = "canary-header-90ac31d7e2"
COOKIE = "canary-cookie-4471e9b3aa"
MCP_SECRET = "canary-mcp-env-20a4c1f8"
MATCHED = "canary-matched-77c1d2"
UNKNOWN = "canary-unknown-1c9e88d0"
KNOWN = (CLIENT_KEY, OTHER_KEY, UPSTREAM_KEY, HEADER_SECRET, COOKIE, MCP_SECRET, MATCHED)
"""`UNKNOWN` is known by its place alone: a header that nobody has heard of."""
ALL = " ".join(KNOWN)

CONFIG = """
[server]
keys = ["${CLIENT_KEY}", "${OTHER_KEY}"]
[upstreams.up]
dialect = "%s"
base_url = "%s"
key = "${UPSTREAM_KEY}"
headers = { x-extra = "Custom ${HEADER_SECRET}" }
retries = { attempts = 2, first_wait = 0.0 }
breaker = { failures = 1000 }
[models.m]
upstream = "up"
mcp = ["teller"]
[mcp.servers.teller]
command = "%s"
args = ["-S", "-E", "%s", "--token", "${MCP_SECRET}"]
env = { SECRET = "${MCP_SECRET}" }
policy = "auto"
[record]
directory = "recorded"
redact = ['canary-match[a-z]*-\\w+']
[log]
level = "debug"
"""

TELLER = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    method, number = asked.get("method"), asked.get("id")
    if number is None:
        continue
    told = {"error": {"code": -32601, "message": "no"}}
    if method == "initialize":
        info = {"name": "teller", "version": "1"}
        told = {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}}
    if method == "tools/list":
        told = {"result": {"tools": [{"name": "tell", "inputSchema": {"type": "object"}}]}}
    if method == "tools/call":
        said = {"secret": os.environ["SECRET"], "asked": asked["params"]["arguments"]}
        told = {"result": {"content": [{"type": "text", "text": json.dumps(said)}]}}
    print(json.dumps({"jsonrpc": "2.0", "id": number, **told}), flush=True)
"""

ENVIRONMENT = {
    "CLIENT_KEY": CLIENT_KEY,
    "OTHER_KEY": OTHER_KEY,
    "UPSTREAM_KEY": UPSTREAM_KEY,
    "HEADER_SECRET": HEADER_SECRET,
    "MCP_SECRET": MCP_SECRET,
}

HEADERS = {
    "authorization": f"Bearer {CLIENT_KEY}",
    "x-api-key": CLIENT_KEY,
    "x-goog-api-key": CLIENT_KEY,
    "cookie": f"session={COOKIE}; theme=dark",
    "user-agent": f"agent {CLIENT_KEY} {MATCHED}",
    "anthropic-beta": f"b-{CLIENT_KEY}",
    "x-corporate-identity": UNKNOWN,
    "x-stainless-custom": HEADER_SECRET,
}


class Upstream:
    """Answers with every canary in its head and its body: first with an error, then with a call, then with text."""

    def __init__(self, dialect: str, size: int) -> None:
        self._dialect = dialect
        self._size = size
        self.asked = 0

    async def __call__(self, peer: Peer) -> None:
        self.asked += 1
        received = peer.server.requests[-1]
        streams = b'"stream":true' in received.body.replace(b" ", b"") or ":stream" in received.target
        headers = {"x-request-id": ALL, "x-echo": ALL, "set-cookie": f"a={COOKIE}", "retry-after": "0"}
        if self.asked % 3 == 1:
            await reply({"error": {"message": f"wrong: {ALL}", "type": "overloaded"}}, 503, headers)(peer)
            return
        nested = json.dumps(
            {"deep": json.dumps({"a": ALL}), "b": base64.b64encode(ALL.encode()).decode(), "u": quote(ALL)}
        )
        calls = (Call("c1", "teller__tell", {"a": nested}),) if self.asked % 3 == 2 else ()
        turn = Turn(f"I say: {ALL} {nested}", calls)
        if not streams:
            await reply(whole_of(self._dialect, turn), 200, headers)(peer)
            return
        body = b"".join(frames_of(self._dialect, events_of(self._dialect, turn)))
        pieces = [chunk(body[at : at + self._size]) for at in range(0, len(body), self._size)]
        fields = {**headers, "content-type": "text/event-stream", "transfer-encoding": "chunked", "connection": "close"}
        await send(head(200, fields), *pieces, b"0\r\n\r\n")(peer)


def _body(client: str) -> dict[str, Any]:
    """A request with the canaries in every member that may have text."""
    tool = {"type": "object", "description": ALL, "properties": {"a": {"type": "string", "description": ALL}}}
    match client:
        case "openai_chat":
            messages = [
                {"role": "system", "content": ALL},
                {"role": "user", "content": [{"type": "text", "text": ALL}]},
            ]
            function = {"name": "f", "description": ALL, "parameters": tool}
            return {
                "messages": messages,
                "user": ALL,
                "stop": [ALL],
                "metadata": {"a": ALL},
                "tools": [{"type": "function", "function": function}],
                "unheard_of": ALL,
            }
        case "openai_responses":
            return {
                "instructions": ALL,
                "input": [{"role": "user", "content": [{"type": "input_text", "text": ALL}]}],
                "metadata": {"a": CLIENT_KEY},
                "tools": [{"type": "function", "name": "f", "description": ALL, "parameters": tool}],
                "unheard_of": ALL,
            }
        case "anthropic":
            return {
                "max_tokens": 100,
                "system": ALL,
                "messages": [{"role": "user", "content": [{"type": "text", "text": ALL}]}],
                "metadata": {"user_id": ALL},
                "stop_sequences": [ALL],
                "tools": [{"name": "f", "description": ALL, "input_schema": tool}],
                "unheard_of": ALL,
            }
        case "ollama":
            return {
                "messages": [{"role": "system", "content": ALL}, {"role": "user", "content": ALL}],
                "tools": [{"type": "function", "function": {"name": "f", "description": ALL, "parameters": tool}}],
                "options": {"stop": [ALL]},
                "unheard_of": ALL,
            }
        case _:
            return {
                "systemInstruction": {"parts": [{"text": ALL}]},
                "contents": [{"role": "user", "parts": [{"text": ALL}]}],
                "tools": [{"functionDeclarations": [{"name": "f", "description": ALL, "parameters": tool}]}],
                "labels": {"a": ALL},
            }


def _ask(running: Process, client: str, *, stream: bool, headers: Mapping[str, str]) -> Answer:
    if client == "warp":
        tree = {
            "input": {"user_inputs": {"inputs": [{"user_query": {"query": ALL}}]}},
            "settings": {"model_config": {"base": "m"}},
            "mcp_context": {"tools": [{"name": "f", "description": ALL, "input_schema": {"type": "object"}}]},
        }
        typed = {**headers, "content-type": "application/x-protobuf"}
        return running.call("POST", "/ai/multi-agent", encode("Request", tree), typed)
    path, body = request(client, stream=stream, body=_body(client))
    key = quote(CLIENT_KEY, safe="")
    query = f"{'&' if '?' in path else '?'}key={key}&access_token={UNKNOWN}"
    return running.call("POST", path + query, body, {"content-type": "application/json", **headers})


def _readable(data: bytes) -> str:
    """All that anybody could read in there: as it is, unescaped, and what is base64 decoded."""
    text = data.decode("latin-1")
    plain = text.replace("\\", "")
    found = [text, plain]
    for run in re.findall(r"[A-Za-z0-9+/_-]{24,}", plain):
        standard = run.replace("-", "+").replace("_", "/")
        found += [
            base64.b64decode(standard[at:] + "=" * (-len(standard[at:]) % 4)).decode("latin-1")
            for at in range(3)
            if len(standard[at:]) % 4 != 1
        ]
    return "\n".join(found)


def _leaks(where: Mapping[str, bytes], canaries: Sequence[str] = (*KNOWN, UNKNOWN)) -> list[tuple[str, str]]:
    forms = {form for canary in canaries for form in (canary, quote(canary, safe=""))}
    told = {name: _readable(data) for name, data in where.items()}
    return [(name, form) for name, text in told.items() for form in forms if form in text]


@pytest.mark.parametrize(("upstream", "size"), [("openai_chat", 1), ("anthropic", 100_000)], ids=["bytes", "whole"])
def test_no_canary_is_in_any_recording_log_metric_receipt_or_error(tmp_path: Path, upstream: str, size: int) -> None:
    script = tmp_path / "teller.py"
    script.write_text(TELLER)
    playing = Upstream(upstream, size)
    with BadServer([expect(), playing]) as server:
        config = CONFIG % (upstream, server.url, sys.executable, script)
        with serving(tmp_path, config, environment=ENVIRONMENT, arguments=["--log", "json"]) as running:
            answers = [
                _ask(running, client, stream=streams, headers=HEADERS)
                for client in (*CLIENTS, "warp")
                for streams in ((True,) if client == "warp" else (False, True))
            ]
            told = [
                running.call("GET", path, headers=HEADERS) for path in ("/metrics", "/debug/receipts", "/v1/models")
            ]
            running.signal(signal.SIGTERM)
            running.wait()
            log = running.log.encode()
    assert [answer.status for answer in answers] == [200] * (2 * len(CLIENTS) + 1)
    recorded = {path.name: path.read_bytes() for path in (tmp_path / "recorded").iterdir()}
    assert len(recorded) == len(answers)
    for name, data in recorded.items():
        recording = read_recording(data)
        assert recording.whole, name
        assert len(recording.attempts) == 3, name
        assert b"[redacted]" in recording.request.data
        assert b"[redacted]" in recording.attempts[2].request.data
        assert all(b"canary" not in each for each in (recording.body, recording.attempts[1].body))
    assert _leaks(recorded) == []
    # The patterns are those of recordings alone.
    others = {"log": log, **{f"told {number}": each.body for number, each in enumerate(told)}}
    assert _leaks(others, [canary for canary in (*KNOWN, UNKNOWN) if canary != MATCHED]) == []


TOKEN = "canary-warp-token-0123456789"
RENEWED = "canary-renewed-9876543210"


def test_messages_of_warp_are_redacted_inside_and_can_still_be_read(tmp_path: Path) -> None:
    """A bearer token that is renewed on the way is a secret from then on."""
    said = f"I heard {CLIENT_KEY}, {TOKEN}, {RENEWED} and {MATCHED}!"
    answer = [story.init(), *story.opening(f"Hi {CLIENT_KEY}"), *story.spoken(said, " Bye."), story.finished()]
    given = {"id_token": RENEWED, "refresh_token": "canary-refresh-later-1", "expires_in": "3600"}
    body = {"messages": [{"role": "user", "content": f"Hi {CLIENT_KEY} {MATCHED}"}]}
    with (
        BadServer([expect(), reply({}, 401)], [expect(), stream(*map(frames.frame, answer))]) as server,
        BadServer([expect(), reply(given)]) as tokens,
        gateway(
            at(
                "warp",
                server.url,
                key=TOKEN,
                refresh_url=tokens.url,
                refresh_token="canary-first",
                refresh_key="canary-k",
            ),
            record=RecordConfig(directory=str(tmp_path), redact=(r"canary-match[a-z]*-\w+",)),
        ) as running,
    ):
        told = running.ask("openai_chat", stream=True, body=body, headers={"x-api-key": CLIENT_KEY})
        assert MATCHED.encode() in told.body
        assert server.requests[1].headers["authorization"] == f"Bearer {RENEWED}"
    (name,) = tmp_path.iterdir()
    data = name.read_bytes()
    recording = read_recording(data)
    assert "Hi [redacted]" in str(decode("Request", recording.attempts[0].request.data))
    events = frames.events_of(recording.attempts[0].body)
    assert len(events) == len(answer)
    assert "I heard [redacted]" in str(events)
    assert " Bye." in str(events)
    assert _leaks({name.name: data}, [*KNOWN, TOKEN, RENEWED]) == []


def test_a_key_that_is_a_placeholder_leaves_texts_alone(tmp_path: Path) -> None:
    body = {"messages": [{"role": "user", "content": "none of it"}]}
    with (
        BadServer([expect(), reply(whole_of("openai_chat", Turn("none", ())))]) as server,
        gateway(
            at("openai_chat", server.url, key="none"),
            record=RecordConfig(directory=str(tmp_path)),
        ) as running,
    ):
        running.ask("openai_chat", body=body, headers={"authorization": "Bearer test"})
    (name,) = tmp_path.iterdir()
    recording = read_recording(name.read_bytes())
    assert b"none of it" in recording.attempts[0].request.data
    assert recording.request.headers["authorization"] == "[redacted]"
    assert recording.attempts[0].request.headers["authorization"] == "[redacted]"


@pytest.mark.parametrize("key", ["toolglot", "anything", "placeholder", "sk-none", "xxxxxxxxxxxx", "not-needed"])
def test_a_client_s_key_that_is_none_is_hidden_where_keys_stand_alone(key: str, tmp_path: Path) -> None:
    state = {
        "type": "thinking",
        "thinking": "hm",
        "signature": pack(Envelope(owner="gemini", state={"thoughtSignature": "QUJD"})),
    }
    said = f"read {key}/a.txt"
    messages = [
        {"role": "user", "content": said},
        {"role": "assistant", "content": [state, {"type": "text", "text": "ok"}]},
        {"role": "user", "content": "more"},
    ]
    with (
        BadServer([expect(), reply(whole_of("openai_chat", Turn("done", ())))]) as server,
        gateway(at("openai_chat", server.url), record=RecordConfig(directory=str(tmp_path))) as running,
    ):
        headers = {"authorization": f"Bearer {key}", "x-api-key": key, "x-toolglot-strict": "0"}
        running.ask("anthropic", body={"max_tokens": 9, "messages": messages}, headers=headers)
    (name,) = tmp_path.iterdir()
    recording = read_recording(name.read_bytes())
    assert said.encode() in recording.attempts[0].request.data
    assert state["signature"].encode() in recording.request.data
    assert {recording.request.headers[name] for name in ("authorization", "x-api-key")} == {"[redacted]"}
    assert "x-toolglot-strict" in recording.request.headers


def test_no_canary_is_in_an_error_that_clients_see(tmp_path: Path) -> None:
    script = tmp_path / "teller.py"
    script.write_text(TELLER)
    secrets = " ".join((UPSTREAM_KEY, HEADER_SECRET))
    refusal = reply({"error": {"message": f"wrong: {secrets}", "type": "invalid"}}, 400, {"x-request-id": secrets})
    with BadServer([expect(), refusal]) as server:
        config = CONFIG % ("openai_chat", server.url, sys.executable, script)
        with serving(tmp_path, config, environment=ENVIRONMENT) as running:
            for client in (*CLIENTS, "warp"):
                answer = _ask(running, client, stream=True, headers=HEADERS)
                if client != "warp":
                    assert "wrong" in error_told(client, answer).message
                assert _leaks({client: answer.body, f"{client} headers": repr(answer.headers).encode()}) == []
            running.signal(signal.SIGTERM)
            running.wait()
    assert _leaks({path.name: path.read_bytes() for path in (tmp_path / "recorded").iterdir()}) == []
