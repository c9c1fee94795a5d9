"""Proxies from the environment."""

from __future__ import annotations

import pytest

from toolglot.upstream.proxy_env import ProxySettings
from toolglot.upstream.transport import TransportError
from toolglot.upstream.url import parse


@pytest.mark.parametrize(
    ("environment", "url", "expected"),
    [
        ({"HTTP_PROXY": "proxy:1"}, "http://a.test/", "http://proxy:1"),
        ({"HTTP_PROXY": "http://proxy:1"}, "https://a.test/", None),
        ({"HTTPS_PROXY": "http://proxy:1", "ALL_PROXY": "http://other"}, "https://a.test/", "http://proxy:1"),
        ({"ALL_PROXY": "http://other"}, "https://a.test/", "http://other"),
        ({"http_proxy": "http://lower", "HTTP_PROXY": "http://upper"}, "http://a.test/", "http://lower"),
        ({"HTTP_PROXY": " "}, "http://a.test/", None),
        ({"HTTPS_PROXY": "https://me:word@proxy"}, "https://a.test/", "https://proxy"),
        ({"ALL_PROXY": "http://p"}, "http://localhost:8000/", None),
        ({"ALL_PROXY": "http://p"}, "http://models.localhost/", None),
        ({"ALL_PROXY": "http://p"}, "http://127.9.9.9/", None),
        ({"ALL_PROXY": "http://p"}, "http://[::1]:8000/", None),
        ({"ALL_PROXY": "http://p"}, "http://[::ffff:127.0.0.1]:8000/", None),
        ({"ALL_PROXY": "http://p"}, "http://localhost.:8000/", None),
        ({"ALL_PROXY": "http://p"}, "http://localhost.test/", "http://p"),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "*"}, "http://a.test/", None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "x.test, test"}, "http://a.test/", None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": ".a.test"}, "http://b.a.test/", None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": ".a.test"}, "http://a.test/", None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "a.test"}, "http://banana.test/", "http://p"),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "a.test"}, "http://ba.test/", "http://p"),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "A.TEST"}, "http://a.test/", None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "a.test:8080"}, "http://a.test:8080/", None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "a.test:8080"}, "http://a.test/", "http://p"),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8"}, "http://10.1.2.3/", None),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8,junk/x"}, "http://11.1.2.3/", "http://p"),
        ({"ALL_PROXY": "http://p", "NO_PROXY": "192.168.1.7"}, "http://192.168.1.7/", None),
    ],
)
def test_the_proxy_is_the_one_that_the_variables_name(
    environment: dict[str, str], url: str, expected: str | None
) -> None:
    proxy = ProxySettings(environment).find(parse(url))
    assert (None if proxy is None else str(proxy.url)) == (None if expected is None else f"{expected}/")


@pytest.mark.parametrize("value", ["socks5://me:hidden@proxy:1080", "http://", "http://proxy:hidden"])
def test_a_proxy_that_cannot_be_used_is_an_error_and_not_gone_around(value: str) -> None:
    with pytest.raises(TransportError, match="ALL_PROXY") as caught:
        ProxySettings({"ALL_PROXY": value}).find(parse("https://a.test/"))
    assert caught.value.failure == "connect"
    assert "hidden" not in str(caught.value)
