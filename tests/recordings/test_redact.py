"""Secrets do not survive redaction, in whatever form they stand and wherever a body is cut; JSON stays JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from time import process_time
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from toolglot.passes.envelope import Envelope, pack, unpack
from toolglot.recordings.linear_regex import LinearPattern
from toolglot.recordings.redact import MAX_HELD_LINE, OVERLAP, REDACTED, Redactor

SECRETS = (
    "canary-7f3a9c2e51",
    "sk/with+odd=chars&more",
    'quote"and\\backslash',
    "ключ-от-всего",
    "two words <angle> 'quoted'",
    "AbCdEfGh01234567",
)


def _within(document: Any) -> str:
    return json.dumps(document)


FORMS: dict[str, Callable[[str], str]] = {
    "as it is": lambda secret: secret,
    "in JSON": lambda secret: _within({"a": f"x{secret}y"}),
    "in JSON as UTF-8": lambda secret: json.dumps({"a": secret}, ensure_ascii=False),
    "in JSON in JSON": lambda secret: _within({"arguments": _within({"a": secret})}),
    "in JSON thrice": lambda secret: _within(_within(_within([secret]))),
    "as encoders for web pages write it": lambda secret: (
        _within([secret]).replace("<", "\\u003c").replace("&", "\\u0026").replace("'", "\\u0027").replace("/", "\\/")
    ),
    "as .NET writes it": lambda secret: _within([secret]).replace("+", "\\u002B").replace('\\"', "\\u0022"),
    "in a URL": lambda secret: f"https://example.test/x?q={quote(secret, safe='')}",
    "in a path": lambda secret: f"https://example.test/{quote(secret)}",
    "in a form": lambda secret: f"q={quote_plus(secret)}",
    "in a URL in lower case": lambda secret: quote(secret, safe="").replace("%2F", "%2f").replace("%2B", "%2b"),
}


def _seen(secret: str, text: str) -> bool:
    """Does it stand there in any form that a program could read?"""
    told = [text, text.replace("\\", ""), *(quote(each) for each in (text,))]
    try:
        value = text
        for _ in range(4):
            value = json.loads(value)
            told.append(str(value))
            value = value["arguments"] if isinstance(value, dict) and "arguments" in value else value
    except (ValueError, TypeError):
        pass
    return any(secret in each for each in told)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_redacted_in_every_form(secret: str, form: str) -> None:
    text = FORMS[form](secret)
    redacted = Redactor([secret]).body(text.encode()).decode()
    assert REDACTED in redacted
    assert not _seen(secret, redacted)
    if form.startswith("in JSON") or form.startswith("as "):
        try:
            json.loads(text)
        except ValueError:
            return
        json.loads(redacted)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_secret_inside_of_base64_is_redacted_and_the_length_stays(secret: str, before: int, encode: Any) -> None:
    message = b"\x0a" * before + secret.encode() + b"\xff\x00rest"
    redacted = Redactor([secret]).body(b"data: " + encode(message) + b"\n\n")
    decoded = (
        base64.urlsafe_b64decode(redacted[6:-2])
        if b"-" in redacted[6:] or b"_" in redacted
        else base64.b64decode(redacted[6:-2])
    )
    assert len(decoded) == len(message)
    assert decoded.startswith(b"\x0a" * before)
    assert decoded.endswith(b"\xff\x00rest")
    inner = secret.encode()[1:-1]
    assert inner not in decoded
    assert all(inner[start : start + 6] not in decoded for start in range(len(inner) - 6))


def test_what_is_not_text_keeps_its_length() -> None:
    body = b"\x0a\x12\xff\xfecanary-7f3a9c2e51\x00"
    redacted = Redactor(["canary-7f3a9c2e51"]).body(body)
    assert redacted == b"\x0a\x12\xff\xfe[redacted]*******\x00"


def test_binary_that_looks_like_text_keeps_its_length_too() -> None:
    body = b"\x0a\x11canary-7f3a9c2e51"
    assert Redactor(["canary-7f3a9c2e51"]).body(body, binary=True) == b"\x0a\x11[redacted]*******"


@given(
    pieces=st.lists(
        st.sampled_from(
            ["canary-7f3a9c2e51", "hello ", "\n", "data: ", "é漢", "{}", "canary-", "x" * 50, '\\"', "\r\n"]
        ),
        max_size=12,
    ),
    size=st.integers(1, 40),
)
@examples(3)
def test_the_pieces_put_together_are_the_body_redacted_however_it_is_cut(pieces: list[str], size: int) -> None:
    body = "".join(pieces).encode()
    redactor = Redactor(["canary-7f3a9c2e51"])
    stream = redactor.stream()
    given_out = [piece for at in range(0, len(body), size) for piece in stream.feed(body[at : at + size])]
    given_out += stream.close()
    assert b"".join(given_out) == body.replace(b"canary-7f3a9c2e51", b"[redacted]")
    assert all(piece.endswith(b"\n") for piece in given_out[:-1])


@pytest.mark.parametrize(
    "where",
    [
        MAX_HELD_LINE - 9,
        MAX_HELD_LINE - OVERLAP - 9,
        MAX_HELD_LINE,
        2 * MAX_HELD_LINE - OVERLAP - 3,
        3 * MAX_HELD_LINE + 11,
    ],
)
def test_a_line_too_long_to_be_held_hides_a_secret_at_any_cut(where: int) -> None:
    secret = "canary-7f3a9c2e51"
    body = b"a" * where + secret.encode() + "é漢".encode() * 30_000
    for size in (1000, 4096, MAX_HELD_LINE):
        stream = Redactor([secret]).stream()
        given_out = [piece for at in range(0, len(body), size) for piece in stream.feed(body[at : at + size])]
        assert given_out, "nothing is held back without an end"
        assert b"".join([*given_out, *stream.close()]) == body.replace(secret.encode(), b"[redacted]")


@pytest.mark.parametrize("where", range(MAX_HELD_LINE - OVERLAP - 40, MAX_HELD_LINE - OVERLAP + 10, 7))
def test_what_tells_a_key_is_not_cut_off_from_it(where: int) -> None:
    body = b'"' + b"a" * where + b" Bearer abcdefghijklmnop0123 " + b"b" * MAX_HELD_LINE
    stream = Redactor([]).stream()
    given_out = [piece for at in range(0, len(body), 512) for piece in stream.feed(body[at : at + 512])]
    told = b"".join([*given_out, *stream.close()])
    assert b"abcdefghijklmnop" not in told
    assert b" Bearer [redacted] " in told


HEADERS = {
    "authorization": "Bearer something",
    "Proxy-Authorization": "Basic c29tZTpvbmU=",
    "x-api-key": "short",
    "cookie": "a=b; c=d",
    "set-cookie": "a=b",
    "x-corporate-jwt": "eyJ",
    "x-something-new": "anything",
    "x-amz-security-token": "token",
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_is_not_known_to_be_harmless_is_recorded_by_its_name_alone(name: str) -> None:
    assert Redactor().headers({name: HEADERS[name]}) == {name: REDACTED}


@pytest.mark.parametrize(
    "name",
    [
        "content-type",
        "anthropic-version",
        "anthropic-ratelimit-tokens-remaining",
        "x-ratelimit-limit-tokens",
        "x-stainless-lang",
        "user-agent",
        "retry-after",
        "x-toolglot-receipt",
        "x-request-id",
    ],
)
def test_a_harmless_header_is_recorded_without_the_secrets_in_it(name: str) -> None:
    assert Redactor(["canary-1"]).headers({name: "42 canary-1"}) == {name: "42 [redacted]"}


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("/v1beta/models/m:streamGenerateContent?alt=sse&key=abc", "?alt=sse&key=[redacted]"),
        ("https://user:pass@example.test/v1?access_token=t#x", "https://[redacted]@example.test/v1?access_token="),
        ("/v1/messages?beta=true", "/v1/messages?beta=true"),
    ],
)
def test_an_address_is_recorded_without_what_it_holds_of_credentials(url: str, told: str) -> None:
    redacted = Redactor().url(url)
    assert told in redacted
    assert "abc" not in redacted
    assert "pass@" not in redacted


@pytest.mark.parametrize(
    "text",
    [
        "curl -H 'Authorization: Bearer KEY'",
        '{"h":"x-api-key: KEY"}',
        "GET /x?key=KEY",
        r"{\"x-goog-api-key\":\"KEY\"}",
    ],
)
def test_what_stands_where_keys_stand_is_redacted_in_texts(text: str) -> None:
    key = "unknownkey0123456789"
    assert Redactor().text(text.replace("KEY", key)) == text.replace("KEY", REDACTED)


@pytest.mark.parametrize("text", ["the bearer of this letter", "a Bearer token", "press any key= now"])
def test_words_that_only_speak_of_keys_stay(text: str) -> None:
    assert Redactor().text(text) == text


JSON_CASES = [
    (r"\w+@\w+", {"a": "to\nbob@example now"}),
    (r"[\w.]+@[\w.]+", {"a": "é\u2028bob@example\\"}),
    (r'"password": "[^"]*"', {"user": "x", "password": "hunter two", "n": 1}),
    (r'"pin": [0-9]+', {"pin": 1234, "ok": True}),
    (r'"a": .*\}', {"a": [1.5, None, True, {"b": "c\td"}]}),
    (r"\d{4,}", {"number": 123456, "text": "123456"}),
    (r"\S{6}", {"a": '\\\\\\\\ " \\n /x/ ééééééé'}),
]


@pytest.mark.parametrize(("pattern", "document"), JSON_CASES)
@pytest.mark.parametrize("ensure_ascii", [False, True])
def test_json_stays_json_whatever_a_pattern_matches(pattern: str, document: Any, ensure_ascii: bool) -> None:
    text = json.dumps(document, ensure_ascii=ensure_ascii)
    redacted = Redactor(finders=[LinearPattern(pattern).find]).body(text.encode()).decode()
    assert redacted != text
    json.loads(redacted)


BROAD = [
    LinearPattern(text)
    for text in (r"\d+", r"[a-f0-9]{4,}", r"[B-Z]\w{3,}", r"\\\w\w", r"\S+@\S+", r'"[^"]*"', r'"k": .*')
]


@given(
    document=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.dictionaries(st.text(), inner) | st.lists(inner),
    ),
    pattern=st.sampled_from(BROAD),
)
@examples(2)
def test_json_of_any_kind_stays_json(document: Any, pattern: LinearPattern) -> None:
    text = json.dumps({"k": document, "nested": json.dumps([document])})
    json.loads(Redactor(finders=[pattern.find]).body(text.encode()))


def test_short_secrets_and_the_mark_itself_are_left_alone() -> None:
    assert Redactor(["abc", "redacted", ""]).text("abc [redacted]") == "abc [redacted]"


def test_the_longest_of_overlapping_secrets_is_redacted_whole() -> None:
    assert Redactor(["abcd", "abcd-efgh-ijkl"]).text("x abcd-efgh-ijkl abcd") == "x [redacted] [redacted]"


def test_a_secret_of_several_lines_is_redacted_line_by_line() -> None:
    secret = "-----BEGIN KEY-----\nMIIBVgIBADANBgkqhkiG9w0BAQ\n-----END KEY-----"
    stream = Redactor([secret]).stream()
    told = b"".join([*stream.feed(b"first\n" + secret.encode() + b"\nlast"), *stream.close()])
    assert b"MIIBVg" not in told
    escaped = Redactor([secret]).body(json.dumps({"a": secret}).encode())
    assert json.loads(escaped) == {"a": REDACTED}


@pytest.mark.parametrize("secret", ["toolglot", "glot"])
def test_a_key_that_is_a_part_of_the_seal_leaves_envelopes_and_names_alone(secret: str) -> None:
    envelope = pack(Envelope(owner="gemini", state={"thoughtSignature": "QUJD"}, text="a canary-1234567 sings"))
    redactor = Redactor([secret], [LinearPattern("tool[a-z]+|canary-[0-9]+").find])
    hidden = redactor.text(envelope)
    told = unpack(hidden)
    assert told is not None
    assert (told.state, "canary" in told.text) == ({"thoughtSignature": "QUJD"}, False)
    assert redactor.headers({"x-toolglot-hops": "1"}) == {"x-toolglot-hops": "1"}


HOSTILE_SECRETS = [
    "\\" * 40,
    "\\" * 8000,
    "\\" * 39 + "x",
    'x\\"' * 500,
    "%" * 60,
    "%5C" * 2000,
    "%25" * 40 + "!",
    "+" * 8000,
    " " * 500 + "a",
    "a" * 8000,
    "ab" * 4000 + "c",
    "…" * 500,
    "aaaaaa…" * 300,
    "漢" * 3000,
    "\\u00e9" * 500,
]
HOSTILE_TEXTS = [
    "\\" * 100_001,
    ("\\" * 39 + "y") * 3_000,
    "\\u005c" * 20_000,
    "%5C%5c\\" * 17_000,
    "%" * 100_000,
    "%25" * 100_000,
    ("+" * 7999 + "x") * 40,
    "=a+" * 100_000,
    ("a" * 7999 + "b…") * 15,
    "aaaaaa…" * 17_000,
    "…" * 100_000,
    "\\u2026" * 17_000,
    "漢" * 2999 + "字" * 100_000,
    "?" * 100_000 + "bearer" * 10_000 + "&" * 100_000,
    base64.b64encode(b"\\%5C" * 20_000).decode(),
]


@pytest.mark.parametrize("text", HOSTILE_TEXTS, ids=lambda text: str(text[:12].encode()))
def test_no_secret_and_no_text_make_a_search_slow(text: str) -> None:
    began = process_time()
    for secret in HOSTILE_SECRETS:
        Redactor([secret]).body(text.encode())
    Redactor(HOSTILE_SECRETS, [LinearPattern("ACME-[0-9]+").find, LinearPattern(r"[\w.]+@[\w.]+").find]).body(
        text.encode()
    )
    assert process_time() - began < 10


def test_time_grows_with_the_text_alone() -> None:
    redactor = Redactor(["\\" * 40, *(f"sk-{number:02}" + "aQ" * 30 for number in range(20))])

    def taken(size: int) -> float:
        text = ("sk-01aQaQ…" * 10 + "\\" * 39 + "…" * 50 + "x") * size
        began = process_time()
        redactor.text(text)
        return process_time() - began

    taken(10)
    assert taken(4_000) < 12 * max(taken(1_000), 0.02)


def test_no_address_and_no_header_make_redaction_slow() -> None:
    redactor = Redactor(["canary-1"])
    began = process_time()
    redactor.url("/v1" + "?" * 60_000)
    redactor.url("/v1?" + "&a" * 30_000)
    assert redactor.headers({"ratelimit" * 3000 + "token" * 3000 + "_": "x"})
    assert process_time() - began < 1


@pytest.mark.parametrize("count", [4, 7, 40])
@pytest.mark.parametrize("form", ["as it is", "in JSON", "in JSON in JSON", "in JSON thrice", "in a URL"])
def test_a_secret_of_backslashes_is_redacted(count: int, form: str) -> None:
    text = FORMS[form]("\\" * count)
    assert Redactor(["\\" * count]).text(text) != text


MATCHED = [
    (r"Müller-[0-9]+", "Müller-4711"),
    (r"[\w.+-]+@[\w.-]+", "jörg+x@example.com"),
    (r"PROJ/[0-9]{4}", "PROJ/1234"),
    (r'pw="[^"]+"', 'pw="hunter2 hunter2"'),
    (r"名前:\w+", "名前:太郎"),
    (r"C:\\Users\\\w+", "C:\\Users\\alice"),
    (r"Joe Miller", "Joe Miller"),
    (r"😀-\d+", "😀-12345"),
]
MATCHED_FORMS: dict[str, Callable[[str], str]] = {
    **FORMS,
    "percent-encoded twice": lambda text: quote(quote(text, safe=""), safe=""),
    "JSON in a URL": lambda text: "/x?q=" + quote(_within({"a": text}), safe=""),
    "a URL in JSON of PHP": lambda text: _within({"a": "https://x.test/" + quote(text)}).replace("/", "\\/"),
    "every character escaped": lambda text: "".join(
        f"\\u{int.from_bytes(unit, 'big'):04x}"
        for each in text
        for units in (each.encode("utf-16-be"),)
        for unit in (units[at : at + 2] for at in range(0, len(units), 2))
    ),
}


@pytest.mark.parametrize(("pattern", "text"), MATCHED)
@pytest.mark.parametrize("form", MATCHED_FORMS)
def test_what_a_pattern_matches_is_redacted_in_every_form(pattern: str, text: str, form: str) -> None:
    written = MATCHED_FORMS[form](text)
    redacted = Redactor(finders=[LinearPattern(pattern).find]).body(written.encode()).decode()
    assert REDACTED in redacted
    assert not _seen(text, redacted)
    assert text[-3:] not in redacted


ENCODERS: list[Callable[[bytes], bytes]] = [base64.b64encode, base64.urlsafe_b64encode]


@pytest.mark.parametrize(("pattern", "text"), MATCHED)
@pytest.mark.parametrize("encode", ENCODERS)
@pytest.mark.parametrize(
    "around", [(b"aa ", b" bb zz"), (b"\x0a\xff ", b" \xfe\x00"), (b'{"a":"', b'"}'), (b"a: ", b"")]
)
def test_what_a_pattern_matches_is_redacted_in_base64_and_the_length_stays(
    pattern: str, text: str, encode: Callable[[bytes], bytes], around: tuple[bytes, bytes]
) -> None:
    for inner in (text, _within(text)):
        message = around[0] + inner.encode() + around[1]
        written = encode(message)
        redacted = Redactor(finders=[LinearPattern(pattern).find]).body(b"data: " + written + b"\n")[6:-1]
        decoded = base64.b64decode(redacted.replace(b"-", b"+").replace(b"_", b"/"))
        assert len(redacted) == len(written)
        assert len(decoded) == len(message)
        assert (decoded.startswith(around[0]), decoded.endswith(around[1])) == (True, True)
        assert decoded != message
        assert text.encode()[1:-1] not in decoded


@pytest.mark.parametrize("before", [0, 1, 2, 43_000, 49_151, 65_537, 150_000, 200_001])
@pytest.mark.parametrize("size", [1000, 16_384, MAX_HELD_LINE])
@pytest.mark.parametrize("slashes", [False, True])
def test_a_pattern_is_found_in_base64_that_is_too_long_to_be_held(before: int, size: int, slashes: bool) -> None:
    message = b"x?>~" * (before // 4) + b"x" * (before % 4) + b" ACME-123456 " + b"y" * 90_000 + b" ACME-654321"
    written = b'{"a":"' + base64.b64encode(message) + b'"}'
    stream = Redactor(finders=[LinearPattern(r"ACME-[0-9]{6}").find]).stream()
    body = written.replace(b"/", b"\\/") if slashes else written
    told = [piece for at in range(0, len(body), size) for piece in stream.feed(body[at : at + size])]
    redacted = b"".join([*told, *stream.close()])
    if slashes:
        redacted = json.dumps(json.loads(redacted), separators=(",", ":")).encode()
    decoded = base64.b64decode(redacted[6:-2])
    assert b"ACME" not in decoded
    assert (len(decoded), decoded.count(b"[redacted]")) == (len(message), 2)
    assert decoded.replace(b"[redacted]*", b"") == message.replace(b"ACME-123456", b"").replace(b"ACME-654321", b"")


@given(
    secret=st.text("ab…", min_size=7, max_size=14),
    other=st.text("abc", min_size=7, max_size=14),
    text=st.lists(st.sampled_from(["a", "b", "c", "…", "ab", "x"]), max_size=30),
    length=st.integers(6, 13),
)
@examples(5)
def test_the_beginning_of_a_secret_before_a_mark_is_redacted(
    secret: str, other: str, text: list[str], length: int
) -> None:
    part = secret[: min(length, len(secret) - 1)]
    written = "".join(text) + " " + part + "… " + "".join(text)
    redacted = Redactor([secret, other]).text(written)
    assert f" {part}…" not in redacted


def test_text_before_a_mark_that_begins_no_secret_stays() -> None:
    redactor = Redactor(["my-canary-of-old", "sk-abcdefgh"])
    assert redactor.text("canary-of… sk-ab… abcdefgh… sk-abcd…") == "canary-of… sk-ab… abcdefgh… [redacted]…"


def test_escaped_letters_of_a_match_with_quotes_do_not_stay() -> None:
    redactor = Redactor(finders=[LinearPattern(r'"name": "[^"]*"').find])
    assert json.loads(redactor.text(_within({"name": "太郎", "n": 1}))) == {REDACTED: REDACTED, "n": 1}


@pytest.mark.parametrize("size", [4000, 8191, MAX_HELD_LINE - 1, MAX_HELD_LINE + 1])
@pytest.mark.parametrize("count", [65_536, 65_537, 70_002])
def test_a_long_run_of_backslashes_is_not_cut_inside_of_an_escape(count: int, size: int) -> None:
    body = _within({"a": "x" + "\\" * count + '\nJörg "Müller"'}).encode()
    stream = Redactor(finders=[LinearPattern('Jörg "Müller"').find]).stream()
    told = [piece for at in range(0, len(body), size) for piece in stream.feed(body[at : at + size])]
    redacted = json.loads(b"".join([*told, *stream.close()]))["a"]
    assert redacted.startswith("x" + "\\" * count + "\n")
    assert "J" not in redacted
    assert "ller" not in redacted
