"""Make servers' texts safe for logs, terminals and models: printable, short, without secrets of the configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from toolglot.config import secrets
from toolglot.config.schema import McpServerConfig
from toolglot.ir import Json
from toolglot.server.security import REDACTED, redact

MAX_CHARS = 500
_TAIL_BYTES = 8_192
_TAIL_LINES = 2_000
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
"""Sequences that color text, move the cursor or set the title of a terminal."""


def config_secrets(config: McpServerConfig) -> tuple[str, ...]:
    """Return the values of a server's configuration that must not be shown."""
    return tuple(_secrets(config))


def _secrets(config: McpServerConfig) -> Iterator[str]:
    yield from secrets.credentials_of(config)
    yield from config.env.values()
    yield from (value.strip() for value in config.env.values())
    yield from config.headers.values()
    # The key of `Bearer KEY` without its scheme, and a key with a trailing line break, which errors about illegal
    # headers show.
    yield from (word for value in config.headers.values() for word in value.split())
    try:
        parts = urlsplit(config.url or "")
        yield from (part for part in (parts.username, parts.password) if part)
        yield from (value for _, value in parse_qsl(parts.query))
    except ValueError:
        return


def config_credentials(config: McpServerConfig) -> tuple[str, ...]:
    """Return secrets that models must not see and that are certainly not ordinary text. A folder or a number in the
    environment may be part of a result. Each also as encoded in JSON and URLs; the longest first, because others may be
    part of it.
    """
    forms = {form for credential in secrets.credentials_of(config) for form in _encoded_forms(credential)}
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _encoded_forms(credential: str) -> Iterator[str]:
    yield from (credential, quote(credential, safe=""))
    yield from (json.dumps(credential, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))


def remove_credentials(value: Json, credentials: tuple[str, ...]) -> Any:
    """Remove these from all texts of the value."""
    if isinstance(value, str):
        for credential in credentials:
            value = value.replace(credential, REDACTED)
        return value
    if isinstance(value, list):
        return [remove_credentials(item, credentials) for item in value]
    if isinstance(value, dict):
        return {
            remove_credentials(name, credentials): remove_credentials(item, credentials) for name, item in value.items()
        }
    return value


def printable(text: str) -> str:
    """Return the text as one line that can neither move a cursor nor color anything."""
    bare = _ESCAPES.sub("", text)
    return "".join(char if char.isprintable() else " " for char in bare)


def safe_line(text: str, secrets: tuple[str, ...], longest: int = MAX_CHARS) -> str:
    """Return the text as one printable, short line without these secrets."""
    # Hide secrets before cutting: a cut could leave an unrecognized part of a secret.
    told = redact(printable(text[: longest + _TAIL_BYTES]), secrets)
    return told if len(told) <= longest else told[: longest - 1] + "…"


class ErrorTail:
    """The end of a server's standard error."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._cut = False

    def add(self, data: bytes) -> None:
        self._kept += data[-_TAIL_BYTES:]
        if len(self._kept) > _TAIL_BYTES:
            del self._kept[:-_TAIL_BYTES]
            self._cut = True

    def text(self, secrets: tuple[str, ...]) -> str:
        """Return its last lines, printable and without secrets."""
        whole = self._kept.decode("utf-8", "replace")
        told = redact("\n".join(printable(line).rstrip() for line in whole.splitlines()), secrets).strip()
        # The first line may contain the rest of a secret that was cut off.
        longest = min(_TAIL_LINES, len(told) * 3 // 4) if self._cut else _TAIL_LINES
        return told[-longest:] if longest else ""
