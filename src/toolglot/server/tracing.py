"""OpenTelemetry: one span for each request that asks a model, by the conventions for generative AI (`gen_ai.*`).

An extra: `pip install .[otel]`. It is active when `OTEL_EXPORTER_OTLP_ENDPOINT` (or the variable for traces only) or
`OTEL_TRACES_EXPORTER` says where spans go. OpenTelemetry's own variables control the rest: the sampler, the headers,
the service's name. A span contains no conversation and no key; it is built from the request's `RequestRecord` when the
request ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from time import time_ns
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from toolglot.config.addresses import DEMO_URL, is_replay
from toolglot.config.schema import UpstreamConfig
from toolglot.gateway.request_record import RequestRecord
from toolglot.server.routes import ROUTES

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

log = logging.getLogger("toolglot.server")

EXTRA = ".[otel]"

Attributes: TypeAlias = dict[str, str | int | float | bool | list[str]]

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

PROVIDERS = {
    "anthropic": "anthropic",
    "azure": "azure.ai.openai",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "gemini": "gcp.gemini",
    "groq": "groq",
    "mistral": "mistral_ai",
    "openai": "openai",
    "xai": "x_ai",
}
"""Names of vendors in the conventions. Other vendors keep their names."""

OPERATIONS = {route.path: route.operation for route in ROUTES if route.action == "generate"}
"""The operation of each route that calls a model. Other routes (counting tokens, listing models) get no span."""

FINISH_REASONS = {"end": "stop", "stop_sequence": "stop", "tool_calls": "tool_call", "filtered": "content_filter"}
"""Names of stop reasons in the conventions. `length` and others are the same there, or have no name."""


class Tracing:
    """`observe` is an observer of the service; `close` sends the remaining spans at shutdown.

    Args:
        provider: creates the spans.
        upstream: finds an upstream's configuration by name, for its address and vendor.
        now: the wall clock, in nanoseconds.
    """

    def __init__(
        self,
        provider: TracerProvider,
        upstream: Callable[[str], UpstreamConfig | None],
        now: Callable[[], int] = time_ns,
    ) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        from toolglot import __version__

        self._provider = provider
        self._tracer = provider.get_tracer("toolglot", __version__)
        self._propagator = TraceContextTextMapPropagator()
        self._upstream = upstream
        self._now = now

    def observe(self, record: RequestRecord) -> None:
        """Create the span of a finished request."""
        from opentelemetry.trace import SpanKind, Status, StatusCode

        operation = OPERATIONS.get(record.route)
        if operation is None or record.model is None:
            return
        # The record's clock is monotonic; a span needs the time of day.
        end = self._now()
        start = end - round(record.seconds * 1e9)
        parent = {} if record.traceparent is None else {"traceparent": record.traceparent}
        upstream = self._upstream(record.upstream) if record.upstream is not None else None
        span = self._tracer.start_span(
            f"{operation} {record.model}",
            context=self._propagator.extract(parent),
            kind=SpanKind.CLIENT,
            attributes=build_attributes(record, operation, upstream),
            start_time=start,
        )
        if failure := error_attributes(record):
            span.set_attributes(failure)
            span.set_status(Status(StatusCode.ERROR))
        span.end(end)

    def close(self) -> None:
        self._provider.shutdown()


def build_attributes(record: RequestRecord, operation: str, upstream: UpstreamConfig | None) -> Attributes:
    """Attributes of the conventions, and those of translation with the prefix `toolglot.`."""
    found: dict[str, Any] = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": _provider_name(record, upstream),
        "gen_ai.request.model": record.model,
        "gen_ai.request.stream": record.stream,
        "gen_ai.response.model": record.upstream_model if _has_answer(record) else None,
        "gen_ai.response.finish_reasons": None if record.stop is None else [_finish_reason(record.stop)],
        **_server_attributes(upstream),
        **_usage_attributes(record),
        "http.response.status_code": record.status or None,
        "toolglot.request.id": record.id,
        "toolglot.client.dialect": record.client,
        "toolglot.upstream": record.upstream,
        "toolglot.upstream.dialect": record.upstream_dialect,
        "toolglot.attempts": record.attempts or None,
        "toolglot.fallbacks": record.fallbacks or None,
        "toolglot.mended": record.mended or None,
        "toolglot.asked_again": record.asked_again or None,
        "toolglot.losses": record.losses or None,
    }
    if record.stream and record.first_byte is not None:
        found["gen_ai.response.time_to_first_chunk"] = record.first_byte - record.started
    return {name: value for name, value in found.items() if value is not None}


def error_attributes(record: RequestRecord) -> Attributes:
    """Return `error.type` of a failed request: the kind of the client's error, or `cancelled` if the client
    disconnected."""
    kind = "cancelled" if record.cancelled else record.error
    return {} if kind is None else {"error.type": kind}


def _has_answer(record: RequestRecord) -> bool:
    return record.error is None and record.status == 200


def _provider_name(record: RequestRecord, upstream: UpstreamConfig | None) -> str:
    vendor = upstream.vendor if upstream is not None else None
    return PROVIDERS.get(vendor, vendor) if vendor else record.upstream or "unknown"


def _finish_reason(reason: str) -> str:
    return FINISH_REASONS.get(reason, reason)


def _server_attributes(upstream: UpstreamConfig | None) -> Attributes:
    if upstream is None or upstream.base_url is None or upstream.base_url == DEMO_URL or is_replay(upstream.base_url):
        return {}
    parts = urlsplit(upstream.base_url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return {"server.address": parts.hostname or "", **({"server.port": port} if port else {})}


def _usage_attributes(record: RequestRecord) -> Attributes:
    usage = record.usage
    if usage is None:
        return {}
    counts = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        # Zero is the common case and not interesting.
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens or None,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens or None,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens or None,
    }
    return {name: count for name, count in counts.items() if count is not None}


# ── setting up ───────────────────────────────────────────────────────────────────────────────────────────────────────


def find_exporter(environ: Mapping[str, str]) -> str | None:
    """Find the exporter that the environment selects: `otlp` or `console`; None if tracing is off."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    named = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    if named:
        return None if named == "none" else named
    return "otlp" if any(environ.get(name) for name in ENDPOINTS) else None


def set_up(environ: Mapping[str, str], upstream: Callable[[str], UpstreamConfig | None]) -> Tracing | None:
    """Set up the tracing that the environment selects; None if it is off, or not available, which is logged."""
    exporter = find_exporter(environ)
    if exporter is None:
        return None
    if exporter not in _EXPORTERS:
        log.warning("no traces: OTEL_TRACES_EXPORTER must be otlp, console or none")
        return None
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        log.warning("no traces: the environment asks for them, and they need `pip install %s`", EXTRA)
        return None
    if environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http").startswith("grpc"):
        log.warning("traces go out as http/protobuf: OTEL_EXPORTER_OTLP_PROTOCOL=grpc is not supported")
    return Tracing(_make_provider(_EXPORTERS[exporter](), environ), upstream)


def _make_provider(exporter: SpanExporter, environ: Mapping[str, str]) -> TracerProvider:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = environ.get("OTEL_SERVICE_NAME") or "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = Resource.create({} if named else {"service.name": "toolglot"})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _make_otlp_exporter() -> SpanExporter:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _make_console_exporter() -> SpanExporter:
    import sys

    from opentelemetry.sdk.trace.export import ConsoleSpanExporter

    return ConsoleSpanExporter(out=sys.stderr)


_EXPORTERS: Mapping[str, Callable[[], SpanExporter]] = {"otlp": _make_otlp_exporter, "console": _make_console_exporter}
