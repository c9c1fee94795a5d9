"""The MCP servers that were at hand for a recorded exchange: what the line `served.tools` has in its body."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from toolglot.errors import DecodeError
from toolglot.recordings.format import ServedTools

LIMITS = ("rounds", "calls", "parallel", "seconds", "result_bytes", "show")
"""What of the configuration's limits is recorded."""


class ServerAtHand(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One server, with its tools of that moment as MCP has them."""

    label: str = ""
    """The client's name of it."""
    server: str = ""
    """The configuration's."""
    policy: str = "ask"
    tool_policies: dict[str, str] = {}
    tools: list[dict[str, Any]] = []
    missing: str | None = None
    """Why it was not there."""


_servers = msgspec.json.Decoder(list[ServerAtHand])


def write_servers(servers: list[ServerAtHand]) -> bytes:
    return msgspec.json.encode(servers)


def servers_of(line: ServedTools) -> list[ServerAtHand]:
    """Raises `DecodeError` where the body is no such list."""
    try:
        return _servers.decode(line.data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError("served.tools", str(error)) from None
