"""The MCP servers that were available to a recorded exchange: the body of the line `served.tools`."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from toolglot.errors import DecodeError
from toolglot.recordings.format import ServedTools

RECORDED_LIMITS = ("rounds", "calls", "parallel", "seconds", "result_bytes", "show")
"""The recorded limits of the configuration."""


class AvailableServer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One server, with its tools at that time as MCP defines them."""

    label: str = ""
    """The client's name of it."""
    server: str = ""
    """The name in the configuration."""
    policy: str = "ask"
    tool_policies: dict[str, str] = {}
    tools: list[dict[str, Any]] = []
    missing: str | None = None
    """The reason why it was unavailable."""


_servers = msgspec.json.Decoder(list[AvailableServer])


def write_servers(servers: list[AvailableServer]) -> bytes:
    return msgspec.json.encode(servers)


def read_servers(line: ServedTools) -> list[AvailableServer]:
    """Raises `DecodeError` if the body is not such a list."""
    try:
        return _servers.decode(line.data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError("served.tools", str(error)) from None
