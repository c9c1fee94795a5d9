"""What servers say, fit for logs, terminals and models: printable, short, without the secrets of the configuration."""

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

LONGEST = 500
_KEPT = 8_192
_SHOWN = 2_000
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
"""Sequences that colour text, move the cursor or set the title of a terminal."""


def secrets_of(config: McpServerConfig) -> tuple[str, ...]:
    """What must not be told of a server's configuration."""
    return tuple(_secrets(config))


def _secrets(config: McpServerConfig) -> Iterator[str]:
    yield from secrets.credentials_of(config)
    yield from config.env.values()
    yield from (value.strip() for value in config.env.values())
    yield from config.headers.values()
    # The key alone of `Bearer KEY`; and of one with a line's end behind it, which errors about illegal headers tell.
    yield from (word for value in config.headers.values() for word in value.split())
    try:
        parts = urlsplit(config.url or "")
        yield from (part for part in (parts.username, parts.password) if part)
        yield from (value for _, value in parse_qsl(parts.query))
    except ValueError:
        return


def credentials_of(config: McpServerConfig) -> tuple[str, ...]:
    """What no model may see, and what is surely no ordinary text: a folder or a number in the environment may well be
    part of a result. Each also as JSON and addresses have it; the longest first, which others may be part of."""
    forms = {form for credential in secrets.credentials_of(config) for form in _forms(credential)}
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


def _forms(credential: str) -> Iterator[str]:
    yield from (credential, quote(credential, safe=""))
    yield from (json.dumps(credential, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False))


def without(value: Json, credentials: tuple[str, ...]) -> Any:
    """The value with these taken out of all its texts."""
    if isinstance(value, str):
        for credential in credentials:
            value = value.replace(credential, REDACTED)
        return value
    if isinstance(value, list):
        return [without(item, credentials) for item in value]
    if isinstance(value, dict):
        return {without(name, credentials): without(item, credentials) for name, item in value.items()}
    return value


def printable(text: str) -> str:
    """The text in one line that can neither move a cursor nor colour anything."""
    bare = _ESCAPES.sub("", text)
    return "".join(char if char.isprintable() else " " for char in bare)


def clean(text: str, secrets: tuple[str, ...], longest: int = LONGEST) -> str:
    """The text in one printable, short line without these secrets."""
    # What is cut off first could be the half of a secret that tells it from other text: hide, and then cut.
    told = redact(printable(text[: longest + _KEPT]), secrets)
    return told if len(told) <= longest else told[: longest - 1] + "…"


class Tail:
    """The end of what a server wrote to its standard error."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._cut = False

    def add(self, data: bytes) -> None:
        self._kept += data[-_KEPT:]
        if len(self._kept) > _KEPT:
            del self._kept[:-_KEPT]
            self._cut = True

    def text(self, secrets: tuple[str, ...]) -> str:
        """Its last lines, printable and without secrets."""
        whole = self._kept.decode("utf-8", "replace")
        told = redact("\n".join(printable(line).rstrip() for line in whole.splitlines()), secrets).strip()
        # The beginning may be the rest of a secret that was cut off.
        longest = min(_SHOWN, len(told) * 3 // 4) if self._cut else _SHOWN
        return told[-longest:] if longest else ""
