"""What a client may send, and what may cross: limits, heads, names and headers, asked of the whole gateway.

The numbers are those of `tests/server/fault_cases.py`. The parts have tests of their own beside this one.
"""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Callable
from contextlib import ExitStack
from math import inf
from time import process_time
from typing import Any

import pytest
from msgspec.structs import replace

from tests.exchanges import written
from tests.lint.streams import SOUND
from tests.server.client_errors import error_told, type_of
from tests.server.gateway import CLIENTS, LIMITS, at, gateway, request
from tests.server.loopback import responses_in, status_of, until_close
from tests.upstream.bad_server import BadServer, Gate, expect, gone, reply, stream
from tests.waiting import FAILSAFE
from toolglot.config.schema import ServerConfig
from toolglot.ir import Media, Message, Source, Text, Tool
from toolglot.server.headers import MAX_HOPS
from toolglot.server.routes import ROUTES
from toolglot.server.run import affordable_connections

EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)
JSON = {"content-type": "application/json"}

CHAT = "/v1/chat/completions"


def _raw(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=FAILSAFE) as connection:
        connection.sendall(data)
        return until_close(connection)


# 1 to 4: heads


HEADS: dict[str, tuple[bytes, int]] = {
    "2: a head of 100 KB": (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * 100_000 + b"\r\n\r\n", 431),
    "2: 300 fields": (b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: 1\r\n" * 300 + b"\r\n", 431),
    "3: a length twice": (
        b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        400,
    ),
    "3: a length and chunks": (
        b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
        400,
    ),
    "4: no host": (b"GET /health HTTP/1.1\r\n\r\n", 400),
    "4: two hosts": (b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
    "4: a whole URL": (b"GET http://localhost/health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "4: two dots": (b"GET /v1/%2e%2e/health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "4: two slashes": (b"GET //health HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    "14: another host": (b"GET /health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 421),
}


@pytest.mark.parametrize("case", HEADS)
def test_a_head_that_is_not_plainly_one_request_is_refused_once(case: str) -> None:
    data, status = HEADS[case]
    with gateway() as running:
        answer = _raw(running.port, data)
        assert (status_of(answer), responses_in(answer)) == (status, 1)
        assert running.call("GET", "/health").status == 200  # others are served as before


# 5 and 6: bodies


@EVERY_CLIENT
@pytest.mark.parametrize("form", ["length", "chunks", "gzip"])
def test_5_a_body_over_the_limit_is_refused_in_the_callers_dialect(client: str, form: str) -> None:
    path, _ = request(client)
    body = b'{"a":"' + b"a" * 200_000 + b'"}'
    headers = dict(JSON)
    if form == "gzip":
        body, headers = gzip.compress(body), {**JSON, "content-encoding": "gzip"}
    limits = replace(LIMITS, body=100_000)
    with gateway(limits=limits) as running:
        if form == "chunks":
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n".encode()
            head += b"Transfer-Encoding: chunked\r\n\r\n"
            answer = _raw(running.port, head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
            assert status_of(answer) == 413
        else:
            refused = running.call("POST", path, body, headers)
            assert refused.status == 413
            error_told(client, refused)
        assert running.ask(client, model="demo").status == 200


def test_6_an_unknown_compression_is_not_guessed_at() -> None:
    with gateway() as running:
        for client in ("openai_chat", "openai_responses", "anthropic"):
            answer = running.call("POST", request(client)[0], b"x", {**JSON, "content-encoding": "lzma"})
            assert answer.status == 415
            assert "gzip" in error_told(client, answer).message


# 7 and 8: documents


BAD_JSON = {
    "deep": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "a long number": b'{"model":"m","messages":[],"temperature":' + b"1" * 1_000_000 + b"}",
    "NaN": b'{"model":"m","messages":[],"temperature":NaN}',
    "not UTF-8": b'{"model":"\xff\xfe"}',
    "a lone surrogate": b'{"model":"\\ud800","messages":[{"role":"user","content":"\\udfff"}]}',
    "cut": b'{"model":"m","messages":[',
    "nothing": b"",
    "a list": b"[]",
    "words": b"Hi there",
}


@EVERY_CLIENT
@pytest.mark.parametrize("case", BAD_JSON)
def test_7_a_body_that_is_no_request_is_refused_with_its_place_and_cheaply(client: str, case: str) -> None:
    path, _ = request(client)
    with gateway() as running:
        running.call("POST", path, b"{", JSON)  # what is loaded once is not counted
        before = process_time()
        answer = running.call("POST", path, BAD_JSON[case], JSON)
        spent = process_time() - before
        told = error_told(client, answer)
        assert (answer.status, told.type) == (400, type_of(client, "bad_request"))
        assert told.message
        assert spent < 0.5


@EVERY_CLIENT
def test_8_too_many_messages_or_tools_are_refused_by_their_number(client: str) -> None:
    messages = tuple(Message(role=role, content=(Text(text="Hi"),)) for role in ("user", "assistant")) * 6
    tools = tuple(Tool(name=f"f{number}", parameters={"type": "object"}) for number in range(6))
    few = replace(LIMITS, messages=10, tools=5)
    bodies = {"messages": written(client, "", messages=messages), "tools": written(client, "Hi", tools=tools)}
    with gateway(limits=few) as running:
        for what, body in bodies.items():
            answer = running.ask(client, body=body, model="demo")
            told = error_told(client, answer)
            assert answer.status == 400
            assert what in told.message
            assert "at most" in told.message


# 11: too many at once


def test_11_requests_beyond_the_limit_are_told_to_come_back() -> None:
    seen = Gate()
    with (
        BadServer([expect(seen=seen), gone(Gate())]) as server,
        gateway(at("openai_chat", server.url), limits=replace(LIMITS, concurrent_requests=1)) as running,
    ):
        running.begin("openai_chat")
        seen.wait_blocking()
        for client in CLIENTS:
            answer = running.ask(client)
            assert error_told(client, answer).type == type_of(client, "overloaded")
            assert answer.headers["retry-after"] == "1"
        for path in ("/health", "/ready", "/metrics"):
            assert running.call("GET", path).status == 200


def test_11_whoever_watches_the_server_is_answered_when_all_connections_are_taken() -> None:
    server = ServerConfig(keys=("sk-gateway-0123456789",))
    with gateway(limits=replace(LIMITS, connections=2), server=server) as running, ExitStack() as held:
        for _ in range(100):
            held.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=FAILSAFE))
        for route in ROUTES:
            if route.reserved:
                headers = {} if route.open else {"authorization": "Bearer sk-gateway-0123456789"}
                assert running.call("GET", route.path, headers=headers).status == 200, route
        assert running.call("GET", "/metrics").status == 401
        assert running.ask("openai_chat").status == 503


@pytest.mark.parametrize(
    ("files", "connections"),
    [(inf, 10_000), (20_000, 10_000), (12_256, 10_000), (12_000, 9_744), (1024, 384), (256, 1)],
)
def test_11_no_more_connections_are_taken_than_there_are_files_for(files: float, connections: int) -> None:
    limits = replace(LIMITS, connections=10_000, upstream_connections=2_000)
    assert affordable_connections(limits, files) == connections


@EVERY_CLIENT
def test_what_only_http_has_a_word_for_keeps_its_status_in_every_dialect(client: str) -> None:
    with gateway(limits=replace(LIMITS, body_idle=0.3)) as running:
        path, body = request(client, model="demo")
        asked = [
            ("POST", body, {"host": "evil.example"}, 421),
            ("POST", body, {"x-toolglot-hops": str(MAX_HOPS)}, 508),
            ("POST", body, {"content-encoding": "br"}, 415),
            ("PUT", body, {}, 405),
            ("POST", body[:-1], {"content-length": str(len(body))}, 408),
        ]
        for method, sent, headers, status in asked:
            answer = running.call(method, path, sent, {**JSON, **headers})
            assert (answer.status, "error" in answer.json()) == (status, True)


# 13 to 19: browsers and keys (a smoke test: the rules have tests of their own)


def test_13_a_web_page_may_not_ask() -> None:
    with gateway() as running:
        preflight = running.call("OPTIONS", CHAT, headers={"origin": "https://evil.example"})
        assert "access-control-allow-origin" not in preflight.headers
        sneaky = running.call("POST", CHAT, b"{}", {"origin": "https://evil.example", "content-type": "text/plain"})
        assert sneaky.status == 403
        assert "access-control-allow-origin" not in sneaky.headers


def test_19_everything_but_health_needs_a_key() -> None:
    with gateway(server=ServerConfig(keys=("secret-key",))) as running:
        for route in ROUTES:
            path = route.path.replace("{model}", "m").replace("{id}", "x").replace("{item}", "y")
            status = running.call(route.method, path, b"{}" if route.method == "POST" else None, JSON).status
            assert (status == 401) == (not route.open), route
        assert running.call("POST", "/admin/reload", b"{}").status == 401
        assert running.call("GET", "/health").status == 200


# 21, 22 and 25: what crosses


@EVERY_CLIENT
def test_21_only_named_headers_cross_in_either_direction(client: str) -> None:
    forged = {
        "x-forwarded-for": "10.0.0.1",
        "forwarded": "for=10.0.0.1",
        "cookie": "session=1",
        "x-api-key": "client-key",
        "x-goog-api-key": "client-key",
        "authorization": "Bearer client-key",
        "proxy-authorization": "Basic abc",
        "x-internal": "1",
        "te": "trailers",
    }
    upstream_headers = {"set-cookie": "a=b", "x-internal-node": "17", "server": "secret", "x-powered-by": "php"}
    with (
        BadServer([expect(), stream(SOUND["openai_chat"], headers=upstream_headers)]) as server,
        gateway(at("openai_chat", server.url, key="upstream-key")) as running,
    ):
        answer = running.ask(client, stream=True, headers=forged)
        sent = server.requests[0].headers
        assert sent["authorization"] == "Bearer upstream-key"
        assert b"client-key" not in server.requests[0].head
        assert set(forged) & set(sent) <= {"authorization"}
        assert set(upstream_headers) & set(answer.headers) == set()


@EVERY_CLIENT
def test_22_no_address_in_a_request_is_ever_called(client: str) -> None:
    whole = {"error": {"message": "asked the right one", "type": "x", "param": None, "code": None}}
    with (
        BadServer([expect(), reply({})]) as elsewhere,
        BadServer([expect(), reply(whole, 400)]) as server,
        gateway(at("openai_chat", server.url)) as running,
    ):
        path, body = request(client)
        document = {**json.loads(body), "base_url": elsewhere.url, "api_base": elsewhere.url, "baseURL": elsewhere.url}
        headers = {**JSON, "x-base-url": elsewhere.url, "x-upstream-host": elsewhere.url, "x-portkey-custom-host": "x"}
        answer = running.call("POST", f"{path}?base_url={elsewhere.url}", json.dumps(document).encode(), headers)
        assert answer.status == 400
        assert error_told(client, answer).message
        assert elsewhere.connections == 0


IMAGES: dict[str, Callable[[str], Any]] = {
    "openai_chat": lambda url: {
        "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]
    },
    "openai_responses": lambda url: {
        "input": [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]
    },
    "anthropic": lambda url: {
        "max_tokens": 9,
        "messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": url}}]}],
    },
    "gemini": lambda url: {"contents": [{"role": "user", "parts": [{"fileData": {"fileUri": url}}]}]},
    "ollama": lambda url: {"messages": [{"role": "user", "content": "", "images": [url]}]},
}


def _image(client: str, url: str) -> Any:
    image = Media(kind="image", source=Source("url", url))
    return written(client, "", messages=(Message(role="user", content=(image,)),))


@EVERY_CLIENT
@pytest.mark.parametrize("upstream", CLIENTS)
def test_23_no_address_of_an_image_is_ever_called(client: str, upstream: str) -> None:
    with (
        BadServer([expect(), reply({})]) as elsewhere,
        BadServer([expect(), reply({"error": {"message": "no", "type": "x"}}, 400)]) as server,
        gateway(at(upstream, server.url)) as running,
    ):
        for url in (f"{elsewhere.url}/a.png", f"http://[::ffff:127.0.0.1]:{elsewhere.port}/a.png"):
            body = IMAGES[client](url) if client in IMAGES else _image(client, url)
            assert running.ask(client, body=body).status == 400
        assert elsewhere.connections == 0


NAMES = ("../../secret", "a?key=1", "a#b", "a\r\nX-Evil: 1", "a%2e%2e%2fb", "é", "a b")


@pytest.mark.parametrize("name", NAMES)
def test_25_a_models_name_cannot_leave_its_place_in_the_path(name: str) -> None:
    with (
        BadServer([expect(), stream(SOUND["gemini"])]) as server,
        gateway(at("gemini", server.url)) as running,
    ):
        answer = running.ask("openai_chat", stream=True, model=name)
        assert answer.status in (200, 400, 404)
        for got in server.requests:
            assert got.target.startswith("/v1beta/models/")
            assert got.target.endswith(":streamGenerateContent?alt=sse")
            inner = got.target.removeprefix("/v1beta/models/").removesuffix(":streamGenerateContent?alt=sse")
            assert not set(inner) & set("?#/ \r\n")
            assert "x-evil" not in got.headers
