"""Lines of a recording without secrets, but for their bodies."""

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
"""Members of lines that are redacted elsewhere, or that this program gives one of its own words: without them nobody
can read a recording, whatever a pattern matches."""
_TOLD_AS: dict[str, Callable[[Redactor, Any], Any]] = {
    "headers": Redactor.headers,
    "url": Redactor.url,
    "path": Redactor.url,
    "tool": Redactor.tool,
}


def clean(line: StructType, redactor: Redactor) -> StructType:
    """The line without secrets, but for its body, which is redacted as a whole."""
    changed: dict[str, Any] = {}
    for name, value in asdict(line).items():
        if name in _NEVER_SECRET:
            continue
        told = _TOLD_AS.get(name, _clean_value)(redactor, value)
        if told != value:
            changed[name] = told
    return replace(line, **changed) if changed else line


def _clean_value(redactor: Redactor, value: Any) -> Any:
    match value:
        case str():
            return redactor.text(value)
        case dict():
            return {name: _clean_value(redactor, each) for name, each in value.items()}
        case list():
            return [_clean_value(redactor, each) for each in value]
        case Struct():
            return clean(value, redactor)
        case _:
            return value
