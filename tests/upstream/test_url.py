"""Addresses, taken apart."""

from __future__ import annotations

import pytest

from toolglot.upstream.http_client.limits import NO_ADDRESS, parse_http_url
from toolglot.upstream.transport import TransportError
from toolglot.upstream.url import parse

ADDRESSES = {
    "http://a.test": ("http", "a.test", 80, None, None, "/", "a.test"),
    "https://a.test/v1/models?page=2&all": ("https", "a.test", 443, None, None, "/v1/models?page=2&all", "a.test"),
    "http://A.Test:80/": ("http", "a.test", 80, None, None, "/", "a.test"),
    "https://a.test:80/%7Eme/a%2Fb?q=%20+x#part": (
        "https",
        "a.test",
        80,
        None,
        None,
        "/%7Eme/a%2Fb?q=%20+x",
        "a.test:80",
    ),
    "http://a.test:/x?": ("http", "a.test", 80, None, None, "/x", "a.test"),
    "http://a.test./x": ("http", "a.test.", 80, None, None, "/x", "a.test"),
    "http://127.0.0.1:8080//two": ("http", "127.0.0.1", 8080, None, None, "//two", "127.0.0.1:8080"),
    "http://[::1]:8080/x": ("http", "::1", 8080, None, None, "/x", "[::1]:8080"),
    "https://[2001:DB8::1]/": ("https", "2001:db8::1", 443, None, None, "/", "[2001:db8::1]"),
    "http://me:wo%3Ard@a.test/x": ("http", "a.test", 80, "me", "wo%3Ard", "/x", "a.test"),
    "http://me@a.test:81": ("http", "a.test", 81, "me", None, "/", "a.test:81"),
    "http://:word@a.test/": ("http", "a.test", 80, None, "word", "/", "a.test"),
}
"""Address -> scheme, host, port, user, password, target, authority."""


@pytest.mark.parametrize("text", ADDRESSES)
def test_an_address_is_taken_apart(text: str) -> None:
    url = parse(text)
    parts = (url.scheme, url.host, url.port, url.user, url.password, url.target, url.authority)
    assert parts == ADDRESSES[text]


def test_an_address_is_written_without_its_credential_and_its_fragment() -> None:
    assert str(parse("http://me:hidden@A.test:80/x?y=%20#z")) == "http://a.test/x?y=%20"
    assert str(parse("https://[::1]:8443")) == "https://[::1]:8443/"


@pytest.mark.parametrize(
    "text", ["", "a.test", "//a.test/", "ftp://a.test/", "http://", "http://:80/", "http://a:b/", "http://a:99999/"]
)
def test_what_is_no_address_on_the_web_is_refused(text: str) -> None:
    with pytest.raises(TransportError, match=NO_ADDRESS):
        parse_http_url(text)
