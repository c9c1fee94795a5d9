"""Queries to a gateway that is already running: whether it is toolglot, whether it accepts the key, and its JSON
reports.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from toolglot.errors import DecodeError
from toolglot.wire import json

NO_KEY = "toolglot"
"""Agents require a key even if the gateway does not."""
ANSWER_TIMEOUT = 5.0
"""Seconds to wait for an answer. Without a listener, the failure is immediate."""
MAX_ANSWER = 16 * 1024 * 1024
"""Maximum bytes. A hundred receipts of a long conversation are large."""


class GatewayAddress(Struct, frozen=True):
    """The address of a gateway that answers, and its key."""

    url: str
    key: str
    log: Path | None = None
    """Its error log, if this process started it."""


def _open(url: str, headers: Mapping[str, str] = {}, timeout: float = ANSWER_TIMEOUT) -> tuple[int, bytes]:
    """Return a status and a body, without a proxy. Raises `OSError` if nothing answers."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, headers=dict(headers)), timeout=timeout) as reply:
            return reply.status, reply.read(MAX_ANSWER)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(MAX_ANSWER)


def fetch_json(place: GatewayAddress, path: str, timeout: float = ANSWER_TIMEOUT) -> tuple[int, Any]:
    """Return a status and the JSON; None if it is not JSON, or nothing answers."""
    headers = {"authorization": f"Bearer {place.key}", "anthropic-version": "2023-06-01"}
    try:
        status, body = _open(f"{place.url}{path}", headers, timeout)
        return status, json.decode(body)
    except (OSError, ValueError, DecodeError):
        return 0, None


def fetch_welcome(url: str) -> Any:
    """Fetch the JSON document at this address; None if nothing answers."""
    try:
        body = _open(f"{url}/")[1]
    except http.client.HTTPException:  # it answers, but not in HTTP
        return ""
    except (OSError, ValueError):
        return None
    try:
        return json.decode(body)
    except DecodeError:
        return ""


def is_toolglot(url: str) -> bool:
    """Return whether a toolglot gateway answers there."""
    welcome = fetch_welcome(url)
    return isinstance(welcome, Mapping) and welcome.get("name") == "toolglot"


def accepts_key(place: GatewayAddress) -> bool:
    # Only the demo's models: for the full list, the gateway would ask its upstreams first.
    status, _ = fetch_json(place, "/v1/models/demo")
    return status not in (0, 401)
