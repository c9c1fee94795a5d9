"""What the SDK and its transports raise when a server is not as it should be, in words."""

from __future__ import annotations

from typing import TypeAlias

import anyio
import httpx2
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from toolglot.errors import DecodeError

Faults: TypeAlias = tuple[type[Exception], ...]

NETWORK: Faults = (httpx2.HTTPError, OSError)

FAULTS: Faults = (
    *(MCPError, ValidationError, httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, DecodeError),
    *(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError, RuntimeError, ValueError),
)
"""Of a server's making. Anything else is a fault of the SDK's or ours."""


def leaf(error: BaseException) -> Exception | None:
    """The first real error in a group, which may hold groups; None where there are cancellations alone."""
    if isinstance(error, BaseExceptionGroup):
        found = (leaf(part) for part in error.exceptions)
        return next((part for part in found if part is not None), None)
    return error if isinstance(error, Exception) else None


def told(error: BaseException) -> str:
    """What is to be said of an error. It may hold secrets, and whatever characters a server has sent."""
    match leaf(error):
        case ValidationError() as invalid:
            first = invalid.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            return f"what it sent is not MCP: {where}: {first['msg']}"
        case DecodeError() as wrong:
            return f"what it sent is not MCP: {wrong}"
        case MCPError() as failed:
            return failed.error.message or f"error {failed.error.code}"
        case httpx2.HTTPError() as failed:
            return f"it cannot be reached: {failed or type(failed).__name__}"
        case OSError() as failed:
            return f"it cannot be started: {failed}"
        case None:
            return "cancelled"
        case other:
            return f"{type(other).__name__}: {other}"
