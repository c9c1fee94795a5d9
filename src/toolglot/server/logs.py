"""The format of log lines: text on a terminal, JSON elsewhere. They contain no conversation and no key."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, TextIO, TypeAlias, TypeVar

from toolglot.config.schema import LogConfig
from toolglot.gateway.request_record import NANO, RequestRecord
from toolglot.ir import format_tokens
from toolglot.server.log_throttle import LogThrottle
from toolglot.server.security import SecretFilter
from toolglot.wire import json

_COLOURS = {2: "32", 3: "33", 4: "33", 5: "31"}
MAX_TEXT = 300
MAX_LOST_NAMES = 5

GetSecrets: TypeAlias = Callable[[], Iterable[str]]
"""Returns the current secrets, which no line may contain."""


class JsonFormatter(logging.Formatter):
    """Formats other log lines like those of requests."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {"time": now(), "level": record.levelname.lower(), "message": record.getMessage()}
        if record.exc_info:
            # The secret filter has already set the redacted text.
            fields["traceback"] = record.exc_text or self.formatException(record.exc_info)
        return json.encode_text(fields)


def make_throttle(config: LogConfig) -> LogThrottle:
    """Make a throttle whose summaries have the level of the lines that they replace; otherwise they would not be
    logged."""
    return LogThrottle(logging.ERROR if config.level == "error" else logging.WARNING)


def is_text(config: LogConfig, stream: TextIO) -> bool:
    return config.format == "text" or (config.format == "auto" and stream.isatty())


class GatewayLogHandler(logging.StreamHandler[TextIO]):
    """Writes the log. A separate class, so that an earlier handler can be found."""


def set_up(config: LogConfig, hidden: GetSecrets, stream: TextIO = sys.stderr) -> None:
    """Send the log of this package, and warnings of others, to this stream, in the format of the request lines and
    without secrets.
    """
    handler = GatewayLogHandler(stream)
    handler.addFilter(SecretFilter(hidden))
    handler.setFormatter(logging.Formatter("%(message)s") if is_text(config, stream) else JsonFormatter())
    logger, root = logging.getLogger("toolglot"), logging.getLogger()
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel(config.level.upper())
    root.handlers = [*(each for each in root.handlers if not isinstance(each, GatewayLogHandler)), handler]
    logging.captureWarnings(True)


def format_message(message: str, level: str = "info", **fields: str) -> str:
    """Format a message that is not from a logger as a JSON log line."""
    return json.encode_text({"time": now(), "level": level, "message": message, **fields})


def format_fields(record: RequestRecord) -> dict[str, Any]:
    """Format a request's record as the fields of a JSON line, without unknown values."""
    usage = record.usage
    fields: dict[str, Any] = {
        "time": now(),
        "level": "warning" if record.error else "info",
        "message": "request",
        "id": record.id,
        "key": record.key,
        "method": record.method,
        "route": record.route or None,
        "path": None if record.route else printable(record.path),
        "status": record.status,
        "client": record.client,
        "user_agent": printable(record.user_agent),
        "model": printable(record.model),
        "upstream": record.upstream,
        "member": record.member,
        "upstream_dialect": record.upstream_dialect,
        "upstream_model": printable(record.upstream_model),
        "stream": record.stream,
        "error": record.error,
        "error_message": printable(record.message),
        "cut": record.cut or None,
        "cancelled": record.cancelled or None,
        "attempts": record.attempts or None,
        "fallbacks": record.fallbacks or None,
        "mended": record.mended or None,
        "asked_again": record.asked_again or None,
        "mcp_calls": record.served or None,
        "mcp_failed": record.served_failed or None,
        "input_tokens": usage.input_tokens if usage else None,
        "cached_tokens": usage.cached_tokens if usage else None,
        "output_tokens": usage.output_tokens if usage else None,
        "cost_usd": None if record.cost is None else record.cost / NANO,
        "unpriced": record.unpriced or None,
        "prefix_reuse": round(record.prefix_reuse[-1][1], 4) if record.prefix_reuse else None,
        "losses": record.losses,
        "seconds": round(record.seconds, 4),
        "first_byte_seconds": None if record.first_byte is None else round(record.first_byte - record.started, 4),
        "bytes_in": record.bytes_in,
        "bytes_out": record.bytes_out,
    }
    return {name: value for name, value in fields.items() if value is not None}


def format_text(record: RequestRecord, *, colour: bool = False) -> str:
    """Format a request's record as a line of text."""
    status = "gone" if record.cancelled else "cut" if record.cut else str(record.status)
    if colour:
        shade = "31" if record.error is not None and record.status < 300 else _COLOURS.get(record.status // 100, "31")
        status = f"\x1b[{shade}m{status}\x1b[0m"
    words = [datetime.now().strftime("%H:%M:%S"), status, f"{record.method} {printable(record.path)}"]
    if record.model is not None:
        member = "" if record.member is None else f"[{record.member}]"
        upstream = f"{record.upstream or '?'}{member}"
        words.append(f"{printable(record.model)} -> {upstream}/{printable(record.upstream_model or '?')}")
    if record.client is not None and record.upstream_dialect is not None:
        words.append(f"[{record.client} -> {record.upstream_dialect}{', stream' if record.stream else ''}]")
    if record.usage is not None:
        words.append(format_tokens(record.usage))
    if record.cost is not None:
        words.append(_format_cost(record.cost, record.unpriced))
    words.append(f"{record.seconds:.2f}s")
    if record.attempts > record.rounds:
        words.append(f"{record.attempts - record.rounds + 1} attempts")
    if record.served:
        calls = sum(record.served.values())
        words.append(f"{calls} MCP call{'s' if calls > 1 else ''}")
    if record.losses:
        words.append(f"lost: {_lost_names(record)}")
    if record.error is not None:
        words.append(f"{record.error}: {printable(record.message or '')}")
    return "  ".join(words)


def _format_cost(cost: int, unpriced: int) -> str:
    from toolglot.prices import format_usd  # loaded with the first price

    return f"at least {format_usd(cost)}, {unpriced} unpriced" if unpriced else format_usd(cost)


def _lost_names(record: RequestRecord) -> str:
    """Name the first things that a request lost, and count the others."""
    lines = record.receipt[1] if record.receipt is not None else ()
    names = list(dict.fromkeys(printable(line.where) for line in lines if line.severity == "loss"))
    if not names:
        return str(record.losses)
    more = len(names) - MAX_LOST_NAMES
    return f"{', '.join(names[:MAX_LOST_NAMES])}{f' and {more} more' if more > 0 else ''}"


T = TypeVar("T", str, str | None)


def printable(text: T) -> T:
    """Make text of a client or an upstream safe for the log: short, and without characters that move the cursor or
    forge a line."""
    return text if text is None else "".join(char if char.isprintable() else "?" for char in text[:MAX_TEXT])


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
