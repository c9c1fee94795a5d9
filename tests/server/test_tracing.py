"""What a span is made of, and when there are any. Real spans are in `tests/e2e/test_tracing.py`."""

from __future__ import annotations

import logging

import pytest

from toolglot.config.schema import UpstreamConfig
from toolglot.gateway.request_record import RequestRecord
from toolglot.ir import Usage
from toolglot.server import tracing
from toolglot.server.routes import ROUTES
from toolglot.server.tracing import OPERATIONS, PROVIDERS, build_attributes, error_attributes, find_exporter, set_up
from toolglot.upstream.vendors import VENDORS

RECORD = RequestRecord(
    id="req_1",
    method="POST",
    path="/v1/messages",
    route="/v1/messages",
    started=10.0,
    ended=12.5,
    first_byte=10.25,
    key="key-1",
    client="anthropic",
    user_agent="agent/1.0",
    model="claude-opus",
    upstream="fast",
    upstream_dialect="openai_chat",
    upstream_model="llama-3",
    stream=True,
    status=200,
    calls={"openai": 2},
    losses=1,
    usage=Usage(input_tokens=100, output_tokens=20, cached_tokens=60, reasoning_tokens=5),
    stop="tool_calls",
)
GROQ = UpstreamConfig(vendor="groq", base_url="https://api.groq.com/openai/v1", key="sk-secret")


def test_a_span_tells_what_the_conventions_ask_for() -> None:
    assert build_attributes(RECORD, "chat", GROQ) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "groq",
        "gen_ai.request.model": "claude-opus",
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "llama-3",
        "gen_ai.response.finish_reasons": ["tool_call"],
        "gen_ai.response.time_to_first_chunk": 0.25,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.reasoning.output_tokens": 5,
        "server.address": "api.groq.com",
        "server.port": 443,
        "http.response.status_code": 200,
        "toolglot.request.id": "req_1",
        "toolglot.client.dialect": "anthropic",
        "toolglot.upstream": "fast",
        "toolglot.upstream.dialect": "openai_chat",
        "toolglot.attempts": 2,
        "toolglot.losses": 1,
    }


@pytest.mark.parametrize(
    ("upstream", "provider", "server"),
    [
        (UpstreamConfig(vendor="gemini", base_url="https://generativelanguage.googleapis.com"), "gcp.gemini", 443),
        (UpstreamConfig(vendor="ollama", base_url="http://127.0.0.1:11434/v1"), "ollama", 11434),
        (UpstreamConfig(base_url="http://10.0.0.1/v1"), "fast", 80),
        (UpstreamConfig(vendor="demo", base_url="demo:"), "demo", None),
        (None, "fast", None),
    ],
)
def test_the_provider_has_the_name_that_the_conventions_give_it(
    upstream: UpstreamConfig | None, provider: str, server: int | None
) -> None:
    told = build_attributes(RECORD, "chat", upstream)
    assert (told["gen_ai.provider.name"], told.get("server.port")) == (provider, server)


def test_what_is_not_known_is_left_out() -> None:
    record = RequestRecord(
        id="req_2", method="POST", path="/v1/messages", started=1.0, model="m", status=502, error="server"
    )
    assert set(build_attributes(record, "chat", None)) == {
        "gen_ai.operation.name",
        "gen_ai.provider.name",
        "gen_ai.request.model",
        "gen_ai.request.stream",
        "http.response.status_code",
        "toolglot.request.id",
    }


@pytest.mark.parametrize(
    ("error", "cancelled", "expected"),
    [
        (None, False, {}),
        ("rate_limit", False, {"error.type": "rate_limit"}),
        (None, True, {"error.type": "cancelled"}),
    ],
)
def test_an_error_has_a_type(error: str | None, cancelled: bool, expected: dict[str, str]) -> None:
    record = RequestRecord(id="r", method="POST", path="/", started=0.0, error=error, cancelled=cancelled)
    assert error_attributes(record) == expected


def test_every_route_that_asks_a_model_has_an_operation() -> None:
    assert set(OPERATIONS) == {route.path for route in ROUTES if route.action == "generate"}


def test_every_provider_is_a_vendor() -> None:
    assert set(PROVIDERS) <= set(VENDORS)


@pytest.mark.parametrize(
    ("environ", "exporter"),
    [
        ({}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, "otlp"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, "otlp"),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console"),
        ({"OTEL_TRACES_EXPORTER": " OTLP "}, "otlp"),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, None),
        ({"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, None),
    ],
)
def test_the_environment_decides_whether_there_are_traces(environ: dict[str, str], exporter: str | None) -> None:
    assert find_exporter(environ) == exporter


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(logging.getLogger("toolglot"), "propagate", True)
    return caplog


def test_without_the_extra_there_is_a_warning_and_nothing_else(
    warnings: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "find_spec", lambda name: None)
    assert set_up({"OTEL_TRACES_EXPORTER": "otlp"}, lambda name: None) is None
    assert warnings.messages == ["no traces: the environment asks for them, and they need `pip install .[otel]`"]


def test_an_exporter_that_is_not_known_is_told(warnings: pytest.LogCaptureFixture) -> None:
    assert set_up({"OTEL_TRACES_EXPORTER": "zipkin"}, lambda name: None) is None
    assert warnings.messages == ["no traces: OTEL_TRACES_EXPORTER must be otlp, console or none"]


def test_nothing_is_loaded_when_nobody_asks() -> None:
    assert set_up({}, lambda name: None) is None
