"""Addresses, taken apart."""

from __future__ import annotations

import pytest
from yarl import URL

from toolglot.upstream.http_client.rules import NO_ADDRESS, url_of
from toolglot.upstream.transport import TransportError
from toolglot.upstream.url import parse

ADDRESSES = [
    "http://a.test",
    "https://a.test/v1/models?page=2&all",
    "http://A.Test:80/",
    "https://a.test:80/%7Eme/a%2Fb?q=%20+x#part",
    "http://a.test:/x?",
    "http://a.test./x",
    "http://127.0.0.1:8080//two",
    "http://[::1]:8080/x",
    "https://[2001:DB8::1]/",
    "http://me:wo%3Ard@a.test/x",
    "http://me@a.test:81",
    "http://:word@a.test/",
]


@pytest.mark.parametrize("text", ADDRESSES)
def test_an_address_is_read_as_another_library_reads_it(text: str) -> None:
    url, other = parse(text), URL(text, encoded=True)
    assert (url.scheme, url.host, url.port) == (other.scheme, (other.host or "").lower(), other.port)
    assert (url.user, url.password) == (other.raw_user, other.raw_password)
    assert url.target == other.raw_path_qs
    assert url.authority == (other.host_port_subcomponent or "").lower()


def test_an_address_is_written_without_its_credential_and_its_fragment() -> None:
    assert str(parse("http://me:hidden@A.test:80/x?y=%20#z")) == "http://a.test/x?y=%20"
    assert str(parse("https://[::1]:8443")) == "https://[::1]:8443/"


@pytest.mark.parametrize(
    "text", ["", "a.test", "//a.test/", "ftp://a.test/", "http://", "http://:80/", "http://a:b/", "http://a:99999/"]
)
def test_what_is_no_address_on_the_web_is_refused(text: str) -> None:
    with pytest.raises(TransportError, match=NO_ADDRESS):
        url_of(text)
