"""Describe the errors that the SDK and its transports raise when a server misbehaves."""

from __future__ import annotations

from typing import TypeAlias

import anyio
import httpx2
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from toolglot.errors import DecodeError

ErrorTypes: TypeAlias = tuple[type[Exception], ...]

NETWORK_ERRORS: ErrorTypes = (httpx2.HTTPError, OSError)

SERVER_ERRORS: ErrorTypes = (
    *(MCPError, ValidationError, httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, DecodeError),
    *(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError, RuntimeError, ValueError),
)
"""Caused by a server. Anything else is a bug in the SDK or in this program."""


def first_error(error: BaseException) -> Exception | None:
    """Return the first real error in a group, which may contain groups; None if there are only cancellations."""
    if isinstance(error, BaseExceptionGroup):
        found = (first_error(part) for part in error.exceptions)
        return next((part for part in found if part is not None), None)
    return error if isinstance(error, Exception) else None


def error_text(error: BaseException) -> str:
    """Describe an error. The text may contain secrets, and any characters that a server has sent."""
    match first_error(error):
        case ValidationError() as invalid:
            first = invalid.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            return f"it sent invalid MCP:  {where}: {first['msg']}"
        case DecodeError() as wrong:
            return f"it sent invalid MCP:  {wrong}"
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
