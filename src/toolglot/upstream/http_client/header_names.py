"""Response header names of the common vendors, so that most names need not be decoded for every answer."""

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
"""Names as received, mapped to their delivered form. Other names work as well."""
