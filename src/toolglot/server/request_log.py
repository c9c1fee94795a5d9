"""Writing one log line per request: text on a terminal, JSON elsewhere.

Lines of simple requests differ in an id and in numbers, which cannot contain a secret. The rest of such a line is
encoded and redacted once for all similar requests. Lines are written in batches, ten times per second.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from time import gmtime, strftime, time
from typing import TextIO, TypeAlias

from toolglot.config.schema import LogConfig
from toolglot.gateway.request_record import NANO, RequestRecord
from toolglot.server.log_throttle import LogThrottle
from toolglot.server.logs import GetSecrets, format_fields, format_text, is_text
from toolglot.server.security import redact
from toolglot.wire import json

_QUIET_ROUTES = frozenset({"/health", "/healthz", "/livez", "/ready", "/readyz", "/metrics"})
"""Probes come every few seconds and are not interesting; they are logged at level debug."""
FLUSH_SECONDS = 0.1
MAX_PENDING = 1000
MAX_TEMPLATES = 256
"""A limit, as clients choose the names of models and their user agents."""

_VARYING = frozenset(
    """time level message id input_tokens cached_tokens output_tokens cost_usd unpriced prefix_reuse losses seconds
    first_byte_seconds bytes_in bytes_out""".split()  # noqa: SIM905
)
"""Fields that are not part of a template: numbers, and texts that the gateway chooses."""

_TemplateKey: TypeAlias = tuple[str | None, ...]


class RequestLog:
    """An observer that writes one line per request, without secrets. The `throttle` bounds the lines of requests that
    were not admitted."""

    def __init__(
        self,
        config: LogConfig,
        hidden: GetSecrets = tuple,
        stream: TextIO | None = None,
        throttle: LogThrottle | None = None,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._get_secrets = hidden
        self._throttle = throttle
        self._is_text, self._has_colour = is_text(config, self._stream), self._stream.isatty()
        self._is_debug, self._is_quiet = config.level == "debug", config.level in ("warning", "error")
        self._templates: dict[_TemplateKey, str] = {}
        self._secrets: tuple[str, ...] = ()
        """The secrets that the templates were redacted with."""
        self._pending: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._second, self._second_text = 0, ""

    def __call__(self, record: RequestRecord) -> None:
        if (record.route in _QUIET_ROUTES and not self._is_debug) or (self._is_quiet and record.error is None):
            return
        if record.is_simple and not self._is_text:
            self._pending.append(self._simple_line(record))
            if len(self._pending) >= MAX_PENDING:
                self.flush()
            elif self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)
            return
        if self._throttle is not None and not record.admitted and not self._throttle.allows(record.status):
            return
        line = (
            format_text(record, colour=self._has_colour) if self._is_text else json.encode_text(format_fields(record))
        )
        # A client may put anything into a name or a header, even its own key or an upstream's.
        self._pending.append(redact(line, self._get_secrets()))
        self.flush()

    def flush(self) -> None:
        """Write the pending lines."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._pending = self._pending, []
        if not lines:
            return
        if self._has_new_secrets():
            lines = [redact(line, self._secrets) for line in lines]
        self._stream.write("\n".join(lines) + "\n")
        self._stream.flush()

    def _has_new_secrets(self) -> bool:
        """Return whether secrets have changed: by a reload of the configuration or a renewed token."""
        secrets = _sort_secrets(self._get_secrets())
        if secrets == self._secrets:
            return False
        self._secrets = secrets
        self._templates.clear()
        return True

    def _simple_line(self, record: RequestRecord) -> str:
        kind = (
            record.key,
            record.route,
            record.client,
            record.user_agent,
            record.model,
            record.upstream,
            record.upstream_dialect,
            record.upstream_model,
            "stream" if record.stream else None,
        )
        template = self._templates.get(kind)
        if template is None:
            template = self._new_template(kind, record)
        parts = [f'{{"time":"{self._now()}","level":"info","message":"request","id":"{record.id}",{template}']
        usage = record.usage
        if usage is not None:
            if usage.input_tokens is not None:
                parts.append(f',"input_tokens":{usage.input_tokens}')
            if usage.cached_tokens is not None:
                parts.append(f',"cached_tokens":{usage.cached_tokens}')
            if usage.output_tokens is not None:
                parts.append(f',"output_tokens":{usage.output_tokens}')
        if record.charges:
            if record.cost is not None:
                parts.append(f',"cost_usd":{record.cost / NANO!r}')
            if record.unpriced:
                parts.append(f',"unpriced":{record.unpriced}')
        if record.prefix_reuse:
            parts.append(f',"prefix_reuse":{round(record.prefix_reuse[-1][1], 4)}')
        started = record.started
        parts.append(f',"losses":{record.losses},"seconds":{round((record.ended or started) - started, 4)}')
        if record.first_byte is not None:
            parts.append(f',"first_byte_seconds":{round(record.first_byte - started, 4)}')
        parts.append(f',"bytes_in":{record.bytes_in},"bytes_out":{record.bytes_out}}}')
        return "".join(parts)

    def _new_template(self, kind: _TemplateKey, record: RequestRecord) -> str:
        if not self._secrets:
            self._secrets = _sort_secrets(self._get_secrets())
        fields = {name: value for name, value in format_fields(record).items() if name not in _VARYING}
        template = redact(json.encode_text(fields), self._secrets)[1:-1]
        if len(self._templates) >= MAX_TEMPLATES:
            self._templates.clear()
        self._templates[kind] = template
        return template

    def _now(self) -> str:
        """Return the same as `logs.now`, faster for many lines per second."""
        moment = time()
        second = int(moment)
        if second != self._second:
            self._second, self._second_text = second, strftime("%Y-%m-%dT%H:%M:%S", gmtime(second))
        return f"{self._second_text}.{int((moment - second) * 1000):03d}Z"


def _sort_secrets(secrets: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(secrets)))
