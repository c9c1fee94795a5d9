"""Names, web pages and keys: who is let in, who is not, and that no key is ever told."""

from __future__ import annotations

import io
import logging
from base64 import b64encode
from hashlib import sha256

import pytest

from toolglot.config.addresses import is_loopback
from toolglot.config.schema import ServerConfig
from toolglot.errors import error_status
from toolglot.server.security import (
    AccessDecision,
    Guard,
    SecretFilter,
    UnsafeServerError,
    check_bind,
    derive_owner,
    generate_key,
    redact,
)

KEY = "tg-4f9a/secret+key=="
OTHER = "tg-other-secret-key"
PAGE = "https://page.example"


def status(verdict: AccessDecision) -> int:
    return 200 if verdict.error is None else error_status(verdict.error)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.9.10", "localhost", "LOCALHOST", "::1", "[::1]", "::ffff:127.0.0.1"]
)
def test_a_loopback_host_needs_no_key(host: str) -> None:
    assert is_loopback(host)
    check_bind(ServerConfig(host=host))


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "", "192.168.1.5", "my-machine", "localhost.evil.example", "::ffff:8.8.8.8"]
)
def test_any_other_host_needs_a_key_and_the_refusal_says_what_to_do(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(UnsafeServerError) as raised:
        check_bind(ServerConfig(host=host))
    for advice in ("server.keys", "--key-env NAME", "127.0.0.1", "insecure = true", "everyone on the network"):
        assert advice in str(raised.value)
    with pytest.raises(UnsafeServerError):
        Guard(ServerConfig(host=host))
    check_bind(ServerConfig(host=host, keys=(KEY,)))
    check_bind(ServerConfig(host=host, insecure=True))


@pytest.mark.parametrize("key", ["", " ", "\n"])
def test_an_empty_key_is_refused_since_it_would_let_anybody_in(key: str) -> None:
    with pytest.raises(UnsafeServerError, match="empty key"):
        check_bind(ServerConfig(host="0.0.0.0", keys=(KEY, key)))


LOOPBACK = ServerConfig()
NAMED = ServerConfig(host="10.0.0.5", keys=(KEY,), hosts=("gateway.lan", "Toolglot.Example:443", "*.internal"))
EVERYWHERE = ServerConfig(host="0.0.0.0", keys=(KEY,))
ANY = ServerConfig(host="::", keys=(KEY,), hosts=("*",))

CALLED = [
    (LOOPBACK, "localhost", True),
    (LOOPBACK, "localhost:4141", True),
    (LOOPBACK, "LOCALHOST.:9999", True),
    (LOOPBACK, "127.0.0.1:4141", True),
    (LOOPBACK, "[::1]:4141", True),
    (LOOPBACK, "[::ffff:127.0.0.1]", True),
    (LOOPBACK, "evil.example", False),
    (LOOPBACK, "evil.example:4141", False),
    (LOOPBACK, "localhost.evil.example", False),
    (LOOPBACK, "127.0.0.1.evil.example", False),
    (LOOPBACK, "evil-localhost", False),
    (LOOPBACK, "0.0.0.0:4141", False),
    (LOOPBACK, "192.168.1.5", False),
    (LOOPBACK, "2130706433", False),
    (LOOPBACK, "", False),
    (NAMED, "10.0.0.5:4141", True),
    (NAMED, "10.0.0.6:4141", False),
    (NAMED, "gateway.lan:4141", True),
    (NAMED, "GATEWAY.LAN", True),
    (NAMED, "toolglot.example", True),
    (NAMED, "a.internal", True),
    (NAMED, "a.b.internal:80", True),
    (NAMED, "internal", False),
    (NAMED, "evil-internal", False),
    (NAMED, "localhost", True),
    (NAMED, "evil.example", False),
    (EVERYWHERE, "192.168.1.5:4141", True),
    (EVERYWHERE, "[fd00::1]:4141", True),
    (EVERYWHERE, "evil.example", False),
    (ANY, "whatever.example", True),
]


@pytest.mark.parametrize(("server", "host", "known"), CALLED)
def test_a_server_answers_to_its_own_names_alone(server: ServerConfig, host: str, known: bool) -> None:
    assert status(Guard(server).check("POST", {"host": host})) == (200 if known else 421)


def test_a_request_without_a_host_is_refused() -> None:
    assert status(Guard(LOOPBACK).check("POST", {})) == 421


def test_an_unknown_name_is_refused_before_its_page_is_looked_at() -> None:
    verdict = Guard(ServerConfig(origins=("*",))).check(
        "POST", {"host": "evil.example", "origin": "http://evil.example"}
    )
    assert status(verdict) == 421
    assert verdict.headers == {}


def test_a_program_that_sends_no_origin_is_not_concerned() -> None:
    assert Guard(LOOPBACK).check("POST", {"host": "localhost:4141"}) == AccessDecision()


FOREIGN = [
    "https://evil.example",
    "null",
    "",
    "http://localhost:3000",
    "http://127.0.0.1:8080",
    "http://localhost",
    "https://page.example.evil.example",
    "https://page.example:8443",
    "http://page.example",
    "chrome-extension://abcdef",
]


@pytest.mark.parametrize("origin", FOREIGN)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
@pytest.mark.parametrize("content_type", ["text/plain", "application/json", "application/x-www-form-urlencoded"])
def test_a_page_of_another_origin_is_refused_and_cannot_read_the_answer(
    origin: str, method: str, content_type: str
) -> None:
    guard = Guard(ServerConfig(origins=(PAGE,)))
    asked = {
        "host": "localhost:4141",
        "origin": origin,
        "content-type": content_type,
        "access-control-request-method": "POST",
    }
    verdict = guard.check(method, asked)
    assert status(verdict) == 403
    assert not [name for name in verdict.headers if name.startswith("access-control")]


def test_a_page_that_this_server_served_itself_may_ask() -> None:
    guard = Guard(LOOPBACK)
    for origin in ("http://localhost:4141", "https://LocalHost:4141"):
        assert guard.check("POST", {"host": "localhost:4141", "origin": origin}) == AccessDecision()
    assert status(guard.check("POST", {"host": "localhost:4141", "origin": "http://127.0.0.1:4141"})) == 403


@pytest.mark.parametrize("origins", [(PAGE,), ("https://Page.Example/",), ("*",)])
def test_an_allowed_page_may_ask_and_read(origins: tuple[str, ...]) -> None:
    verdict = Guard(ServerConfig(origins=origins)).check("POST", {"host": "localhost", "origin": PAGE})
    assert verdict == AccessDecision(
        {"access-control-allow-origin": PAGE, "access-control-expose-headers": "*", "vary": "origin"}
    )


def test_an_allowed_page_may_send_whatever_headers_it_asks_for() -> None:
    asked = "authorization,content-type,x-stainless-lang,x-stainless-retry-count,anthropic-version"
    verdict = Guard(ServerConfig(origins=(PAGE,))).check(
        "OPTIONS",
        {
            "host": "localhost",
            "origin": PAGE,
            "access-control-request-method": "POST",
            "access-control-request-headers": asked,
            "access-control-request-private-network": "true",
        },
    )
    assert verdict == AccessDecision(
        {
            "access-control-allow-origin": PAGE,
            "access-control-expose-headers": "*",
            "access-control-allow-methods": "GET, HEAD, POST, DELETE",
            "access-control-max-age": "600",
            "access-control-allow-headers": asked,
            "access-control-allow-private-network": "true",
            "vary": "origin, access-control-request-method, access-control-request-headers",
        }
    )


def test_what_is_no_list_of_header_names_is_not_repeated() -> None:
    asked = {"host": "localhost", "origin": PAGE, "access-control-request-method": "POST"}
    for names in ("a\r\nset-cookie: x", "<script>", "é", ""):
        verdict = Guard(ServerConfig(origins=(PAGE,))).check(
            "OPTIONS", {**asked, "access-control-request-headers": names}
        )
        assert "access-control-allow-headers" not in verdict.headers


KEYED = Guard(ServerConfig(keys=(KEY, OTHER)))

SHOWN: list[tuple[dict[str, str], dict[str, str], str]] = [
    ({"authorization": f"Bearer {KEY}"}, {}, "key-1"),
    ({"authorization": f"bearer  {KEY} "}, {}, "key-1"),
    ({"x-api-key": OTHER}, {}, "key-2"),
    ({"x-goog-api-key": KEY}, {}, "key-1"),
    ({}, {"key": OTHER}, "key-2"),
    # Some agents send a login of their own beside the key.
    ({"authorization": "Bearer sk-ant-oat01-login", "x-api-key": KEY}, {}, "key-1"),
    ({"x-api-key": "wrong"}, {"key": KEY}, "key-1"),
]


@pytest.mark.parametrize(("headers", "query", "label"), SHOWN)
def test_a_key_is_known_by_its_label_wherever_it_is_shown(
    headers: dict[str, str], query: dict[str, str], label: str
) -> None:
    caller, error = KEYED.identify(headers, query)
    assert error is None
    assert caller is not None
    assert (caller.label, caller.owner) == (label, derive_owner({"key-1": KEY, "key-2": OTHER}[label]))


def test_an_owner_is_that_of_the_key_wherever_it_stands_and_tells_nothing_of_it() -> None:
    shown = {"x-api-key": OTHER}
    owners = {
        caller.owner
        for keys in ((OTHER,), (KEY, OTHER), (OTHER, KEY), (KEY, f" {OTHER}\n"))
        if (caller := Guard(ServerConfig(keys=keys)).identify(shown, {})[0]) is not None
    }
    assert owners == {derive_owner(OTHER)}
    assert derive_owner(KEY) != derive_owner(OTHER)
    assert len(derive_owner(KEY)) == 32
    # Known to whoever has read a store: neither the key nor what keys are compared by.
    assert derive_owner(KEY) not in KEY + sha256(KEY.encode()).hexdigest()


WRONG: list[tuple[dict[str, str], dict[str, str]]] = [
    ({}, {}),
    ({"authorization": KEY}, {}),
    ({"authorization": f"Basic {KEY}"}, {}),
    ({"authorization": "Bearer "}, {}),
    ({"authorization": "Bearer"}, {}),
    ({"authorization": f"Bearer {KEY}x"}, {}),
    ({"authorization": f"Bearer {KEY[:-1]}"}, {}),
    ({"authorization": f"Bearer {KEY} {KEY}"}, {}),
    ({"x-api-key": ""}, {}),
    ({"x-api-key": KEY.upper()}, {}),
    ({"x-api-key": f"{KEY},{OTHER}"}, {}),
    ({"x-api-key": "' OR '1'='1"}, {}),
    ({"x-api-key": '"; DROP TABLE keys; --'}, {}),
    ({"x-api-key": "é\udcff\x00"}, {}),
    ({"x-api-key": "a" * 1_000_000}, {}),
    ({"x-key": KEY}, {}),
    ({}, {"key": ""}),
    ({}, {"api_key": KEY}),
]


@pytest.mark.parametrize(("headers", "query"), WRONG)
def test_a_wrong_key_gets_the_same_answer_as_none_and_is_not_told_in_it(
    headers: dict[str, str], query: dict[str, str]
) -> None:
    caller, error = KEYED.identify(headers, query)
    assert caller is None
    assert error is not None
    assert error_status(error) == 401
    assert error == KEYED.identify({}, {})[1]


def test_without_keys_any_key_will_do() -> None:
    assert Guard(LOOPBACK).identify({"authorization": "Bearer unused"}, {}) == (None, None)


def test_made_keys_are_long_and_differ() -> None:
    keys = {generate_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(key.startswith("tg-") and len(key) >= 40 for key in keys)


def test_known_secrets_are_redacted_plain_and_as_a_url_has_them() -> None:
    text = f"GET /v1beta/models?k=tg-4f9a%2Fsecret%2Bkey%3D%3D then {KEY} then {OTHER}."
    assert redact(text, [KEY, OTHER]) == "GET /v1beta/models?k=[redacted] then [redacted] then [redacted]."


def test_a_secret_inside_another_leaves_no_rest() -> None:
    assert redact("abcd-efgh abcd", ["abcd", "abcd-efgh"]) == "[redacted] [redacted]"


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer sk-unknown-key",
        "{'authorization': 'bearer sk-unknown-key'}",
        "GET /v1beta/models?key=sk-unknown-key&alt=sse",
        "GET /v1beta/models?alt=sse&key=sk-unknown-key HTTP/1.1",
        "x-api-key: sk-unknown-key",
        "X-Goog-Api-Key=sk-unknown-key",
        "{'x-api-key': 'sk-unknown-key'}",
        "(b'x-api-key', b'sk-unknown-key')",
        '{"x-goog-api-key":"sk-unknown-key"}',
    ],
)
def test_keys_that_are_not_ours_are_redacted_where_keys_stand(text: str) -> None:
    redacted = redact(text, [])
    assert "unknown" not in redacted
    assert "[redacted]" in redacted


def test_text_without_secrets_stays_as_it_is() -> None:
    text = "the key=value of a, /v1/models?monkey=a, an x-api-key header"
    assert redact(text, ["", "a", "val"]) == text


def test_what_the_server_says_of_keys_stays_as_it_is() -> None:
    _, error = Guard(ServerConfig(keys=(KEY,))).identify({}, {})
    assert error is not None
    assert redact(error.message, [KEY]) == error.message


def test_known_secrets_are_redacted_whatever_of_them_is_escaped() -> None:
    forms = (
        "".join(f"\\u{ord(character):04x}" for character in KEY),
        "".join(f"\\\\u{ord(character):04x}" for character in KEY),
        "".join(f"%{ord(character):02x}" for character in KEY),
        b64encode(KEY.encode()).decode().rstrip("="),
        KEY[:12] + "…",
    )
    for form in forms:
        redacted = redact(f"bad key {form} given", [KEY])
        assert redacted in (
            "bad key [redacted] given",
            "bad key [redacted]… given",
            f"bad key [redacted]{form[-1]} given",
        )


def test_redaction_is_linear_in_the_text() -> None:
    text = "bearer " * 100_000 + "x-api-key" + " " * 100_000
    assert len(redact(text, [KEY])) > 100_000


@pytest.fixture
def log() -> tuple[logging.Logger, io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s %(headers)s", defaults={"headers": ""}))
    handler.addFilter(SecretFilter(lambda: [KEY]))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    return logger, stream


def test_no_line_of_a_log_has_a_secret_in_it(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = log
    logger.info("with %s", KEY)
    logger.info(f"with {KEY}")
    logger.info("with %(key)s", {"key": KEY})
    logger.info("extra", extra={"headers": {"a": [KEY], "b": (KEY, 1)}})
    try:
        raise ValueError(f"bad key {KEY}")
    except ValueError:
        logger.exception("failed", stack_info=True)
    written = stream.getvalue()
    assert KEY not in written
    assert written.count("[redacted]") == 6
    assert "Traceback" in written


def test_what_is_logged_without_secrets_is_written_as_it_is(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, stream = log
    logger.info("%d of %s, 100%%", 1, "2")
    logger.info("100%")
    assert stream.getvalue() == "1 of 2, 100% \n100% \n"


def test_a_guard_tells_no_key_when_it_is_printed() -> None:
    assert "secret" not in repr(KEYED)
    assert not any(KEY in str(value) for value in vars(KEYED).values())


def test_whoever_shows_a_key_may_call_the_server_by_any_name() -> None:
    guard = Guard(ServerConfig(keys=("sk-right",)))
    elsewhere = {"host": "gateway.internal:4141"}
    assert guard.check("POST", {**elsewhere, "x-api-key": "sk-right"}).error is None
    for shown in ({}, {"x-api-key": "sk-wrong"}):
        error = guard.check("POST", {**elsewhere, **shown}).error
        assert error is not None
        assert error.code == "unknown_host"
    assert Guard(ServerConfig()).check("POST", {**elsewhere, "x-api-key": "any"}).error is not None
