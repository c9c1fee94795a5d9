"""The gateway's own ways over the network as the conformance suite takes them, both held to all of it."""

from __future__ import annotations

from tests.upstream.conformance import ways

LEAN = ways.LEAN[0]
AIOHTTP = ways.AIOHTTP._replace(is_exact=True)
