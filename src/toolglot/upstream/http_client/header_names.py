"""The headers that vendors answer with, so that the names of most need not be made anew for every answer."""

from __future__ import annotations

_COMMON = (
    "access-control-allow-origin",
    "alt-svc",
    "age",
    "cache-control",
    "cf-cache-status",
    "cf-ray",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "etag",
    "expires",
    "keep-alive",
    "openai-organization",
    "openai-processing-ms",
    "openai-version",
    "pragma",
    "request-id",
    "retry-after",
    "server",
    "set-cookie",
    "strict-transport-security",
    "transfer-encoding",
    "vary",
    "via",
    "x-content-type-options",
    "x-ratelimit-limit-requests",
    "x-ratelimit-limit-tokens",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
    "x-request-id",
)

NAMES = {spelt.encode(): name for name in _COMMON for spelt in (name, name.title())}
"""Names as they come and as they are told. Any other name is told just as well."""
