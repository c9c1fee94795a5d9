"""Real spans: made by OpenTelemetry's SDK, kept in memory, or sent to a collector on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec

import pytest

from tests.cli.scripted_upstream import Said, scripted
from tests.needs import NO_SKIPS
from toolglot.config.schema import UpstreamConfig
from toolglot.gateway.request_record import RequestRecord
from toolglot.ir import Usage
from toolglot.server.tracing import ENDPOINTS, Tracing, set_up

if find_spec("opentelemetry") is None and not NO_SKIPS:
    pytest.skip("OpenTelemetry is not installed", allow_module_level=True)

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

NOW = 1_700_000_000_000_000_000
UPSTREAM = UpstreamConfig(vendor="openai", base_url="https://api.openai.com/v1", key="sk-secret")
Spans = Callable[[], tuple[ReadableSpan, ...]]


def record(
    route: str = "/v1/chat/completions",
    *,
    model: str | None = "gpt-5",
    error: str | None = None,
    status: int = 200,
    traceparent: str | None = None,
) -> RequestRecord:
    return RequestRecord(
        id="req_1",
        method="POST",
        path=route,
        route=route,
        started=5.0,
        ended=7.0,
        client="openai_chat",
        model=model,
        upstream="openai",
        upstream_model="gpt-5-mini",
        error=error,
        status=status,
        stop="end",
        usage=Usage(input_tokens=3, output_tokens=4),
        traceparent=traceparent,
    )


@pytest.fixture
def traced() -> Iterator[tuple[Tracing, Spans]]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = Tracing(provider, {"openai": UPSTREAM}.get, now=lambda: NOW)
    yield tracing, exporter.get_finished_spans
    tracing.close()


def test_a_request_becomes_one_span_with_its_own_times(traced: tuple[Tracing, Spans]) -> None:
    tracing, spans = traced
    tracing.observe(record())
    [span] = spans()
    assert (span.name, span.kind) == ("chat gpt-5", SpanKind.CLIENT)
    assert (span.start_time, span.end_time) == (NOW - 2_000_000_000, NOW)
    assert span.status.status_code == StatusCode.UNSET
    told = dict(span.attributes or {})
    assert told["gen_ai.response.finish_reasons"] == ("stop",)
    assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == (3, 4)
    assert (told["server.address"], told["gen_ai.provider.name"]) == ("api.openai.com", "openai")
    assert "sk-secret" not in str(told)


def test_the_clients_span_is_the_parent(traced: tuple[Tracing, Spans]) -> None:
    tracing, spans = traced
    tracing.observe(record(traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"))
    [span] = spans()
    assert span.context is not None
    assert span.parent is not None
    assert f"{span.context.trace_id:032x}" == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert f"{span.parent.span_id:016x}" == "00f067aa0ba902b7"


@pytest.mark.parametrize("traceparent", [None, "", "nonsense", "00-0-0-0", "00-" + "0" * 32 + "-00f067aa0ba902b7-01"])
def test_without_a_client_that_traces_the_span_is_a_root(
    traced: tuple[Tracing, Spans], traceparent: str | None
) -> None:
    tracing, spans = traced
    tracing.observe(record(traceparent=traceparent))
    assert spans()[0].parent is None


def test_a_client_that_does_not_sample_is_followed(traced: tuple[Tracing, Spans]) -> None:
    tracing, spans = traced
    tracing.observe(record(traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"))
    assert spans() == ()


def test_an_error_is_marked_with_its_kind(traced: tuple[Tracing, Spans]) -> None:
    tracing, spans = traced
    tracing.observe(record(error="rate_limit", status=429))
    [span] = spans()
    assert span.status.status_code == StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "rate_limit"


@pytest.mark.parametrize(
    ("route", "model"),
    [("/health", None), ("/v1/models", None), ("/v1/messages/count_tokens", "m"), ("/v1/messages", None), ("", None)],
)
def test_what_asks_no_model_leaves_no_span(traced: tuple[Tracing, Spans], route: str, model: str | None) -> None:
    tracing, spans = traced
    tracing.observe(record(route, model=model))
    assert spans() == ()


def test_spans_reach_a_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*ENDPOINTS, "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(name, raising=False)
    with scripted(lambda asked: Said(200, b"", "application/x-protobuf")) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        tracing = set_up({"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}, {"openai": UPSTREAM}.get)
        assert tracing is not None
        tracing.observe(record())
        tracing.close()
    [asked] = collector.asked
    assert asked.path == "/v1/traces"
    [sent] = ExportTraceServiceRequest.FromString(asked.body).resource_spans
    assert {each.key: each.value.string_value for each in sent.resource.attributes}["service.name"] == "toolglot"
    [span] = sent.scope_spans[0].spans
    assert (sent.scope_spans[0].scope.name, span.name) == ("toolglot", "chat gpt-5")


def test_the_name_of_the_service_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(lambda asked: Said(200, b"", "application/x-protobuf")) as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.url}/here")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
        environ = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.url}/here", "OTEL_SERVICE_NAME": "mine"}
        tracing = set_up(environ, lambda name: None)
        assert tracing is not None
        tracing.observe(record())
        tracing.close()
    [asked] = collector.asked
    assert asked.path == "/here"
    [sent] = ExportTraceServiceRequest.FromString(asked.body).resource_spans
    assert {each.key: each.value.string_value for each in sent.resource.attributes}["service.name"] == "mine"
