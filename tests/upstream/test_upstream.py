"""An upstream that is ready to be called: its address, its credential, and the exchanges with it."""

from __future__ import annotations

from hashlib import sha256

import pytest

from toolglot.dialect import UnsignedCall
from toolglot.dialects import DIALECTS
from toolglot.ir import replace
from toolglot.routing import Target
from toolglot.upstream import exchange
from toolglot.upstream.demo.transport import DemoTransport
from toolglot.upstream.exchange import NO_CONVERSATION_STATE, ConversationState, KnownExchangeSettings
from toolglot.upstream.upstream import Upstream, join_url

UPSTREAM = Upstream(
    name="u",
    dialect=DIALECTS["openai_chat"],
    base_url="http://u.test/v1",
    transport=DemoTransport(DIALECTS["openai_chat"]),
    key="sk-0123456789abcdef",
)
TARGET = Target(asked="m", rule="r", upstream="u", model="m")


@pytest.mark.parametrize(
    "telling",
    ["sk-0123456789abcdef", "Bearer sk-0123456789abcdef", "c2stMDEyMzQ1Njc4OWFiY2RlZg==", "sk%2d0123456789abcdef"],
)
def test_a_header_that_repeats_the_credential_goes_alone(telling: str) -> None:
    headers = {"x-request-id": "req_1", "x-key": telling, "date": "Mon, 16 Nov 2026 00:00:00 GMT"}
    assert UPSTREAM.safe_headers(headers) == {name: headers[name] for name in ("x-request-id", "date")}


def test_a_credential_that_stands_in_two_headers_together_is_in_none() -> None:
    spaced = replace(UPSTREAM, key="first-half second-half")
    headers = {"x-one": "first-half", "x-two": "second-half"}
    assert spaced.safe_headers(headers) == headers


@pytest.mark.parametrize(
    ("base", "path", "whole"),
    [
        ("http://u.test", "/v1/messages", "http://u.test/v1/messages"),
        ("http://u.test/v1/", "/v1/messages", "http://u.test/v1/messages"),
        ("http://u.test/api/v4", "/v1/chat/completions", "http://u.test/api/v4/chat/completions"),
    ],
)
def test_a_version_at_the_end_of_the_base_takes_the_place_of_the_paths_own(base: str, path: str, whole: str) -> None:
    assert join_url(base, path) == whole


def test_exchanges_of_one_kind_are_made_alike_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    exchanges, client = KnownExchangeSettings(), DIALECTS["anthropic"]

    def kind(
        upstream: Upstream = UPSTREAM,
        target: Target = TARGET,
        *,
        strict: bool = False,
        told: ConversationState = NO_CONVERSATION_STATE,
    ) -> object:
        return exchanges.of_kind(client, upstream, target, text_calls=None, strict=strict, told=told, forward=True)

    first = kind()
    assert kind() is first
    others = [
        kind(strict=True),
        kind(target=replace(TARGET, strict=True)),
        kind(upstream=replace(UPSTREAM, base_url="http://other.test")),
        kind(told=ConversationState(unknown=True)),
    ]
    assert first not in others
    monkeypatch.setattr(exchange, "MAX_SETTINGS", 2)
    for number in range(5):
        kind(target=replace(TARGET, asked=str(number)))
    assert len(exchanges._made) <= 2


def test_a_dialect_that_signs_its_calls_sends_the_signature_in_place_of_the_credential() -> None:
    def sign(call: UnsignedCall) -> dict[str, str]:
        signed = f"{call.method} {call.url} {call.headers['content-type']} {call.body.decode()} {call.key}"
        return {"x-signature": sha256(signed.encode()).hexdigest()}

    dialect = DIALECTS["openai_chat"]
    signing = replace(UPSTREAM, dialect=replace(dialect, headers=replace(dialect.headers, sign=sign)))
    headers = signing.call("/v1/chat/completions", b"{}").headers
    signed = "POST http://u.test/v1/chat/completions application/json {} sk-0123456789abcdef"
    assert headers["x-signature"] == sha256(signed.encode()).hexdigest()
    assert "authorization" not in headers
