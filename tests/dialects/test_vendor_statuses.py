"""Statuses that only one vendor has, which no client retries by itself."""

from __future__ import annotations

import pytest

from tests.exchanges import NAMES
from toolglot import Exchange
from toolglot.dialects import DIALECTS

RETRIED = (429, 503, 529)
BODIES = {
    "with a type": b'{"error":{"message":"Flex capacity exceeded","type":"capacity_exceeded"}}',
    "with a code": b'{"error":{"message":"Flex capacity exceeded","code":"capacity_exceeded"}}',
    "with another type": b'{"error":{"message":"Flex capacity exceeded","type":"invalid_request_error"}}',
    "empty": b"",
}


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("client", NAMES)
def test_a_full_flex_tier_of_groq_is_retried_by_every_client(client: str, kind: str) -> None:
    assert DIALECTS["openai_chat"].decode_error(498, {}, BODIES[kind]).retryable
    assert Exchange(client, "openai_chat").error(498, {}, BODIES[kind]).status in RETRIED
