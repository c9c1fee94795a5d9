"""Redact the lines of a recording, except their bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from toolglot.recordings.redact import Redactor

StructType = TypeVar("StructType", bound=Struct)

_NEVER_SECRET = frozenset(
    {"text", "base64", "client", "dialect", "method", "time", "toolglot", "what", "failure"}
    | {"text_format", "bad_calls", "exact", "warp_history"}
)
"""Members that are redacted elsewhere, or that hold one of this program's own words: a recording is unreadable without
them, whatever a pattern matches."""
_REDACTIONS: dict[str, Callable[[Redactor, Any], Any]] = {
    "headers": Redactor.headers,
    "url": Redactor.url,
    "path": Redactor.url,
    "tool": Redactor.tool,
}


def redact_line(line: StructType, redactor: Redactor) -> StructType:
    """Redact a line except its body, which is redacted as a whole."""
    changed: dict[str, Any] = {}
    for name, value in asdict(line).items():
        if name in _NEVER_SECRET:
            continue
        told = _REDACTIONS.get(name, _redact_value)(redactor, value)
        if told != value:
            changed[name] = told
    return replace(line, **changed) if changed else line


def _redact_value(redactor: Redactor, value: Any) -> Any:
    match value:
        case str():
            return redactor.text(value)
        case dict():
            return {name: _redact_value(redactor, each) for name, each in value.items()}
        case list():
            return [_redact_value(redactor, each) for each in value]
        case Struct():
            return redact_line(value, redactor)
        case _:
            return value
