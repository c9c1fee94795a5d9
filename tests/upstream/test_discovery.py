"""What is found without configuration, what is not used, and what the user is told about it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest

from tests.waiting import FAILSAFE
from toolglot.config.schema import ModelConfig, UpstreamConfig
from toolglot.upstream.discovery import Discovery, discover, local_url, probe_local
from toolglot.upstream.transport import FetchedAnswer, TransportError, UpstreamCall
from toolglot.upstream.vendors import LOCAL_SERVERS, VENDORS, Vendor

KEY = "sk-secret"


@pytest.mark.parametrize(
    ("variable", "name", "dialect"),
    [
        ("OPENAI_API_KEY", "openai", "openai_responses"),
        ("ANTHROPIC_API_KEY", "anthropic", "anthropic"),
        ("GEMINI_API_KEY", "gemini", "gemini"),
        ("GOOGLE_API_KEY", "gemini", "gemini"),
        ("OPENROUTER_API_KEY", "openrouter", "openai_chat"),
        ("DEEPSEEK_API_KEY", "deepseek", "openai_chat"),
        ("MISTRAL_API_KEY", "mistral", "openai_chat"),
        ("GROQ_API_KEY", "groq", "openai_chat"),
    ],
)
def test_a_key_is_an_upstream(variable: str, name: str, dialect: str) -> None:
    found = discover({variable: f" {KEY}\n"})
    url = VENDORS[name].base_url
    assert found.upstreams == {name: UpstreamConfig(vendor=name, dialect=dialect, base_url=url, key=KEY)}
    assert found.found == (f"{variable}: upstream {name} ({dialect} at {url})",)


def test_a_token_for_anthropic_is_a_bearer() -> None:
    upstream = discover({"ANTHROPIC_AUTH_TOKEN": KEY}).upstreams["anthropic"]
    assert (upstream.key, upstream.key_header) == (KEY, "authorization")


@pytest.mark.parametrize(
    ("environ", "lines"),
    [
        ({}, []),
        (
            {"WARP_API_KEY": KEY},
            ["WARP_API_KEY: not used: Warp is used only where the configuration has an upstream `warp`"],
        ),
        ({"OPENAI_API_KEY": ""}, ["OPENAI_API_KEY: not used: it is empty"]),
        (
            {"OPENAI_BASE_URL": f"{KEY}"},
            ["OPENAI_BASE_URL: openai is not used: a base URL must start with http:// or https://"],
        ),
        (
            {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"https://me:{KEY}@x/v1"},
            ["OPENAI_BASE_URL: openai is not used: no credentials in a URL; use `key`"],
        ),
        (
            {"AZURE_OPENAI_API_KEY": KEY},
            ["AZURE_OPENAI_API_KEY: not used: AZURE_OPENAI_ENDPOINT must hold the address"],
        ),
        (
            {"ANTHROPIC_AUTH_TOKEN": KEY, "ANTHROPIC_BASE_URL": "http://localhost:4141"},
            [
                "ANTHROPIC_BASE_URL: not used: it leads to this gateway",
                "ANTHROPIC_AUTH_TOKEN: not used: it is for this gateway",
            ],
        ),
    ],
)
def test_what_is_not_used_is_told_with_the_reason(environ: dict[str, str], lines: list[str]) -> None:
    found = discover(environ, own_port=4141)
    assert found.upstreams == {}
    assert list(found.found) == lines
    assert KEY not in repr(found)


def test_of_two_keys_of_a_vendor_the_first_is_used() -> None:
    found = discover({"GOOGLE_API_KEY": "b", "GEMINI_API_KEY": "a"})
    assert found.upstreams["gemini"].key == "a"
    assert found.found[1] == "GOOGLE_API_KEY: not used: GEMINI_API_KEY comes first"


def test_a_real_key_goes_to_the_vendor_though_the_base_url_leads_here() -> None:
    environ = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "http://127.0.0.1:4141"}
    assert discover(environ, own_port=4141).upstreams["anthropic"].base_url == "https://api.anthropic.com"
    assert discover(environ, own_port=4142).upstreams["anthropic"].base_url == "http://127.0.0.1:4141"


def test_another_address_is_that_of_a_compatible_server() -> None:
    environ = {"OPENAI_BASE_URL": "http://gpu:8000/v1/", "OPENAI_ORG_ID": "org"}
    upstream = discover(environ).upstreams["openai"]
    assert (upstream.dialect, upstream.base_url, upstream.key, upstream.headers) == (
        "openai_chat",
        "http://gpu:8000/v1",
        None,
        {},
    )


def test_headers_of_the_environment_go_to_the_vendor() -> None:
    environ = {"OPENAI_API_KEY": KEY, "OPENAI_ORG_ID": "org", "OPENAI_PROJECT_ID": "p"}
    assert discover(environ).upstreams["openai"].headers == {"openai-organization": "org", "openai-project": "p"}


def test_azure_has_an_address_of_its_own() -> None:
    environ = {"AZURE_OPENAI_API_KEY": KEY, "AZURE_OPENAI_ENDPOINT": "https://me.openai.azure.com/"}
    upstream = discover(environ).upstreams["azure"]
    assert (upstream.base_url, upstream.key_header) == ("https://me.openai.azure.com/openai/v1", "api-key")


def test_vendors_that_are_configured_are_left_out() -> None:
    assert discover({"OPENAI_API_KEY": KEY}, configured={"openai"}) == Discovery()


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("box", "http://box:11434"),
        ("box:1", "http://box:1"),
        (":1", "http://127.0.0.1:1"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:5", "http://127.0.0.1:5"),
        ("https://box", "https://box:443"),
        ("http://box:7/", "http://box:7"),
        ("[::1]", "http://[::1]:11434"),
        ("[::1]:9", "http://[::1]:9"),
    ],
)
def test_the_host_of_ollama_may_be_written_in_many_ways(host: str, url: str) -> None:
    assert local_url(VENDORS["ollama"], {"OLLAMA_HOST": host}) == url


def listed(*models: Mapping[str, Any], status: int = 200, **headers: str) -> FetchedAnswer:
    return FetchedAnswer(status, headers, json.dumps({"object": "list", "data": models}).encode())


class Told:
    """A reply that is there already."""

    def __init__(self, answer: FetchedAnswer) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._body = answer.body

    async def read(self, limit: int) -> bytes:
        return self._body

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body

    def close(self) -> None:
        """Nothing is open."""


VERSION_ANSWER = FetchedAnswer(200, {}, b'{"version": "0.13.0"}')


class Ports:
    """The ports of this machine: these answer, and no other address may be asked."""

    def __init__(self, answers: Mapping[int, FetchedAnswer], environ: Mapping[str, str]) -> None:
        self._answers = answers
        self._allowed = {f"http://127.0.0.1:{server.port}/v1/models" for server in LOCAL_SERVERS}
        ollama = local_url(VENDORS["ollama"], environ)
        self._allowed |= {f"{ollama}/v1/models", f"{ollama}/api/version"}

    async def send(self, call: UpstreamCall) -> Told:
        assert call.method == "GET"
        assert call.url in self._allowed
        assert call.timeouts.connect == 0.2
        port = int(call.url.split(":")[2].split("/")[0])
        answer = self._answers.get(port)
        if call.url.endswith("/api/version"):
            answer = VERSION_ANSWER if answer is not None and b'"library"' in answer.body else None
        if answer is None:
            raise TransportError("connect", "nobody is there")
        return Told(answer)

    async def close(self) -> None:
        raise AssertionError("whoever has opened it closes it")


def probed(answers: Mapping[int, FetchedAnswer], environ: Mapping[str, str] = {}, own_port: int = 4141) -> Discovery:
    """What is found when these ports answer."""
    return asyncio.run(probe_local(environ, own_port=own_port, transport=Ports(answers, environ)))


def test_local_servers_are_known_by_what_they_say() -> None:
    found = probed(
        {
            11434: listed({"id": "qwen3:8b", "owned_by": "library"}, {"id": "me/own", "owned_by": "me"}),
            8000: listed({"id": "qwen", "owned_by": "vllm", "max_model_len": 32768}),
            8080: listed({"id": "m.gguf", "owned_by": "llamacpp", "meta": {"n_ctx": 4096}}),
            30000: listed({"id": "s"}),
        }
    )
    assert {name: (upstream.base_url, upstream.models) for name, upstream in found.upstreams.items()} == {
        "ollama": ("http://127.0.0.1:11434", ("qwen3:8b", "me/own")),
        "vllm": ("http://127.0.0.1:8000/v1", ("qwen",)),
        "llamacpp": ("http://127.0.0.1:8080/v1", ("m.gguf",)),
        "sglang": ("http://127.0.0.1:30000/v1", ("s",)),
    }
    assert found.upstreams["ollama"].default_model is None
    assert [upstream.dialect for upstream in found.upstreams.values()] == ["ollama", *["openai_chat"] * 3]
    assert found.upstreams["vllm"].default_model == "qwen"
    assert found.models == {
        "qwen": ModelConfig(upstream="vllm", context_window=32768),
        "m.gguf": ModelConfig(upstream="llamacpp", context_window=4096),
    }
    assert found.found[0] == "Ollama at http://127.0.0.1:11434: upstream ollama (qwen3:8b, me/own)"


@pytest.mark.parametrize(
    ("answer", "name", "vendor"),
    [
        (listed({"id": "m", "owned_by": "llamacpp"}), "llamacpp", "llamacpp"),
        (listed({"id": "m"}, server="llama.cpp"), "llamacpp", "llamacpp"),
        (listed({"id": "m", "owned_by": "sglang"}), "sglang", "sglang"),
        (listed({"id": "m", "owned_by": "somebody"}), "local-8000", None),
    ],
)
def test_a_port_that_many_use_does_not_tell_who_it_is(answer: FetchedAnswer, name: str, vendor: str | None) -> None:
    found = probed({8000: answer})
    assert {key: upstream.vendor for key, upstream in found.upstreams.items()} == {name: vendor}


def test_two_servers_of_one_kind_have_two_names() -> None:
    answer = listed({"id": "m", "owned_by": "llamacpp"})
    assert list(probed({8000: answer, 8080: answer}).upstreams) == ["llamacpp", "llamacpp-8080"]


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (listed(), "not used: it has no models"),
        (listed(status=401), "not used: it requires a key; configure it as an upstream"),
        (FetchedAnswer(200, {"x-toolglot-receipt": "0"}, b"{}"), "not used: another toolglot"),
        (listed({"id": "m"}, status=500), None),
        (FetchedAnswer(200, {}, b"<html>"), None),
        (FetchedAnswer(200, {}, b'{"data": {"name": "x"}}'), None),
        (FetchedAnswer(200, {}, b"[" * 100_000), None),
        (FetchedAnswer(200, {}, b'{"data": [{"id": "\xff"}]}'), None),
    ],
)
def test_what_answers_and_is_not_used_is_told_if_it_is_a_model_server(answer: FetchedAnswer, line: str | None) -> None:
    found = probed({1234: answer})
    assert found.upstreams == {}
    assert [told.endswith(line or "") for told in found.found] == ([True] if line else [])


def test_the_gateways_own_port_is_not_asked() -> None:
    assert probed({8000: listed({"id": "m"})}, own_port=8000).upstreams == {}


def test_a_host_that_was_named_and_does_not_answer_is_told() -> None:
    assert probed({}, {"OLLAMA_HOST": "box"}).found == (
        "OLLAMA_HOST: not used: no server answers at http://box:11434; start it: `ollama serve`",
    )


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def served(handler: Handler, timeout: float = FAILSAFE) -> Discovery:
    """What is found when a real server on some loopback port answers like this."""

    async def main() -> Discovery:
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            row = Vendor(name="own", title="own", base_url=f"http://127.0.0.1:{port}/v1", port=port)
            return await probe_local({}, timeout=timeout, servers=(row,))

    return asyncio.run(main())


def answering(data: bytes) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1:")
        writer.write(data)
        await writer.drain()
        writer.close()

    return handle


BODY = b'{"data": [{"id": "m"}]}'


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY),
        b"HTTP/1.0 200 OK\r\nServer: x\r\n\r\n" + BODY,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY),
    ],
)
def test_a_real_server_is_asked_for_its_models(data: bytes) -> None:
    assert served(answering(data)).upstreams["own"].models == ("m",)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{",
        b"x" * 3_000_000,
    ],
)
def test_whatever_else_listens_there_is_passed_over(data: bytes) -> None:
    assert served(answering(data)) == Discovery()


def test_a_server_that_says_nothing_is_not_waited_for() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # to the end: until the other side has given up
        writer.close()

    assert served(silent, timeout=0.05) == Discovery()


def test_a_port_that_nobody_listens_on_is_passed_over() -> None:
    async def main() -> Discovery:
        with socket.socket() as taken:  # bound, and not listening: nobody else can begin to
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            row = Vendor(name="own", title="own", base_url=f"http://127.0.0.1:{port}/v1", port=port)
            return await probe_local({}, servers=(row,))

    assert asyncio.run(main()) == Discovery()


def test_a_proxy_is_not_asked_for_what_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Vendor(name="own", title="own", base_url="http://box.invalid:1/v1", port=1)
    proxied: list[bytes] = []

    async def main() -> Discovery:
        async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            proxied.append(await reader.readuntil(b"\r\n\r\n"))
            writer.close()

        async with await asyncio.start_server(proxy, "127.0.0.1", 0) as server:
            monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            return await probe_local(os.environ, timeout=FAILSAFE, servers=(row,))

    assert asyncio.run(main()) == Discovery()
    assert proxied == []


def test_reading_a_configuration_loads_no_http_client() -> None:
    code = "import sys, toolglot.config.load, toolglot.config.assemble; print('httptools' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.strip() == b"False"


def test_another_server_at_the_port_of_ollama_is_asked_at_its_openai_endpoint() -> None:
    upstream = probed({11434: listed({"id": "m", "owned_by": "somebody"})}).upstreams["ollama"]
    assert (upstream.dialect, upstream.base_url) == ("openai_chat", "http://127.0.0.1:11434/v1")
