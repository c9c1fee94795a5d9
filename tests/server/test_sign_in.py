"""People who administer a team: signed in by an identity provider, or by a trusted proxy."""

from __future__ import annotations

import json
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.server.gateway import Answer, Running, gateway
from tests.waiting import FAILSAFE
from toolglot.config.schema import OidcConfig, ProxyConfig, ServerConfig, TeamConfig

REDIRECT = "https://box.example/auth/callback"
SESSION = "__Host-toolglot="
SECRET = "secret-of-the-proxy"


class Provider(ThreadingHTTPServer):
    """An identity provider. It checks what a provider must check, and its tokens say what a test wants."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.issuer = f"http://127.0.0.1:{self.server_port}"
        self.claims: dict[str, Any] = {}
        self.challenge = ""
        self.nonce = ""
        self.status = 200
        self.metadata: dict[str, Any] = {}

    def authorize(self, location: str) -> str:
        """What the browser does at the provider. Returns the path of the callback."""
        url = urlsplit(location)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        assert f"{url.scheme}://{url.netloc}{url.path}" == f"{self.issuer}/authorize"
        assert (query["response_type"], query["code_challenge_method"]) == ("code", "S256")
        assert (query["client_id"], query["redirect_uri"]) == ("box", REDIRECT)
        self.challenge, self.nonce = query["code_challenge"], query["nonce"]
        return f"/auth/callback?code=the-code&state={query['state']}"


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        issuer = self.server.issuer
        self._reply(
            200,
            {
                "issuer": issuer,
                "authorization_endpoint": f"{issuer}/authorize",
                "token_endpoint": f"{issuer}/token",
                **self.server.metadata,
            },
        )

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        fields = {name: values[0] for name, values in parse_qs(body).items()}
        challenge = urlsafe_b64encode(sha256(fields["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        wanted = ("the-code", "box", "client-secret-1234", REDIRECT, self.server.challenge)
        names = ("code", "client_id", "client_secret", "redirect_uri")
        if (*(fields[name] for name in names), challenge) != wanted:
            self._reply(400, {"error": "invalid_grant"})
            return
        claims = {
            "iss": self.server.issuer,
            "aud": "box",
            "exp": time() + 60,
            "nonce": self.server.nonce,
            "sub": "u1",
            "email": "anna@example.com",
            "groups": ["platform"],
            **self.server.claims,
        }
        parts = [{"alg": "none"}, {name: value for name, value in claims.items() if value is not None}]
        token = ".".join(urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
        self._reply(self.server.status, {"id_token": f"{token}.signature", "access_token": "x"})

    def _reply(self, status: int, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@contextmanager
def signing_in(folder: Path, provider: Provider) -> Iterator[Running]:
    oidc = OidcConfig(
        issuer=provider.issuer, client_id="box", client_secret="client-secret-1234", redirect_url=REDIRECT
    )
    team = TeamConfig(
        enabled=True,
        database=str(folder / "team.sqlite3"),
        admin_groups=("platform",),
        viewer_groups=("engineering",),
        oidc=oidc,
    )
    with gateway(team=team) as running:
        yield running


def cookie_of(answer: Answer) -> str:
    return answer.headers["set-cookie"].partition(";")[0]


def sign_in(running: Running, provider: Provider) -> Answer:
    begun = running.call("GET", "/auth/login")
    assert begun.status == 303
    callback = provider.authorize(begun.headers["location"])
    return running.call("GET", callback, headers={"cookie": cookie_of(begun)})


def same_page(running: Running, cookie: str) -> dict[str, str]:
    return {"cookie": cookie, "origin": running.url, "content-type": "application/json"}


def test_a_person_signs_in_administers_and_signs_out(tmp_path: Path, provider: Provider) -> None:
    with signing_in(tmp_path, provider) as running:
        signed_in = sign_in(running, provider)
        assert signed_in.status == 303
        attributes = signed_in.headers["set-cookie"]
        assert attributes.startswith(SESSION)
        assert {"Secure", "HttpOnly", "SameSite=Lax", "Path=/"} <= set(attributes.split("; "))
        cookie = cookie_of(signed_in)
        page = same_page(running, cookie)
        assert running.call("POST", "/admin/v1/keys", b'{"name": "anna"}', page).status == 201
        entries = running.call("GET", "/admin/v1/audit", headers={"cookie": cookie}).json()["entries"]
        assert [(each["actor"], each["action"]) for each in entries] == [
            ("admin:anna@example.com", "key.create"),
            ("admin:anna@example.com", "session.begin"),
        ]
        assert running.call("POST", "/auth/logout", b"", page).status == 200
        assert running.call("GET", "/admin/v1/keys", headers={"cookie": cookie}).status == 401


def test_a_session_is_no_key_for_models(tmp_path: Path, provider: Provider) -> None:
    with signing_in(tmp_path, provider) as running:
        cookie = cookie_of(sign_in(running, provider))
        assert running.ask("openai_chat", model="demo", headers={"cookie": cookie}).status == 401


@pytest.mark.parametrize("origin", [None, "https://evil.example", "null"])
def test_a_page_of_another_site_cannot_use_a_session(tmp_path: Path, provider: Provider, origin: str | None) -> None:
    with signing_in(tmp_path, provider) as running:
        cookie = cookie_of(sign_in(running, provider))
        headers = {"cookie": cookie, **({} if origin is None else {"origin": origin})}
        for path in ("/admin/v1/keys", "/auth/logout"):
            assert running.call("POST", path, b'{"name": "x"}', headers).status in (401, 403)
        assert running.call("GET", "/admin/v1/keys", headers={"cookie": cookie}).json()["keys"] == []


def test_a_viewer_reads_and_does_not_change(tmp_path: Path, provider: Provider) -> None:
    provider.claims = {"groups": ["engineering"]}
    with signing_in(tmp_path, provider) as running:
        cookie = cookie_of(sign_in(running, provider))
        assert running.call("GET", "/admin/v1/keys", headers={"cookie": cookie}).status == 200
        assert running.call("POST", "/admin/v1/keys", b'{"name": "x"}', same_page(running, cookie)).status == 403


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"groups": []}, "not in any group that has access"),
        ({"groups": None}, "not in any group that has access"),
        ({"groups": "platform-other"}, "not in any group that has access"),
        ({"iss": "https://other.example"}, "another issuer"),
        ({"aud": "other"}, "another client"),
        ({"aud": ["box", "other"]}, "another client"),
        ({"exp": 1}, "expired"),
        ({"exp": None}, "expired"),
        ({"exp": True}, "expired"),
        ({"nonce": "other"}, "another sign-in"),
        ({"nonce": None}, "another sign-in"),
        ({"sub": None, "email": "a, b"}, "names nobody"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_a_token_that_is_not_right_lets_nobody_in(
    tmp_path: Path, provider: Provider, claims: dict[str, Any], words: str
) -> None:
    provider.claims = claims
    with signing_in(tmp_path, provider) as running:
        refused = sign_in(running, provider)
        assert (refused.status, "set-cookie" in refused.headers) == (403, False)
        assert words in refused.json()["error"]["message"]


def test_an_address_that_is_not_verified_names_nobody(tmp_path: Path, provider: Provider) -> None:
    provider.claims = {"email": "boss@example.com", "email_verified": False}
    with signing_in(tmp_path, provider) as running:
        cookie = cookie_of(sign_in(running, provider))
        entries = running.call("GET", "/admin/v1/audit", headers={"cookie": cookie}).json()["entries"]
        assert entries[-1]["actor"] == "admin:u1"


def test_a_callback_counts_only_in_the_browser_that_began(tmp_path: Path, provider: Provider) -> None:
    with signing_in(tmp_path, provider) as running:
        begun = running.call("GET", "/auth/login")
        callback = provider.authorize(begun.headers["location"])
        other = cookie_of(running.call("GET", "/auth/login"))
        for cookie in ("", other, "__Host-toolglot-sign-in=..", "__Host-toolglot-sign-in="):
            assert running.call("GET", callback, headers={"cookie": cookie}).status == 403
        assert running.call("GET", "/auth/callback?state=&code=x", headers={"cookie": ""}).status == 403


@pytest.mark.parametrize("change", [{"status": 500}, {"metadata": {"issuer": "https://other.example"}}])
def test_a_provider_that_fails_lets_nobody_in(tmp_path: Path, provider: Provider, change: dict[str, Any]) -> None:
    for name, value in change.items():
        setattr(provider, name, value)
    with signing_in(tmp_path, provider) as running:
        begun = running.call("GET", "/auth/login")
        if begun.status == 303:
            begun = running.call(
                "GET", provider.authorize(begun.headers["location"]), headers={"cookie": cookie_of(begun)}
            )
        assert begun.status == 403
        assert "Sign-in failed" in begun.json()["error"]["message"]


def test_without_a_provider_there_is_no_sign_in(tmp_path: Path) -> None:
    with gateway(team=TeamConfig(enabled=True, database=str(tmp_path / "team.sqlite3"))) as running:
        assert running.call("GET", "/auth/login").status == 404


# A trusted proxy


@pytest.fixture(scope="module", params=[("127.0.0.0/8",), ("10.0.0.5",)], ids=["from the proxy", "from elsewhere"])
def behind_proxy(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Running, bool]]:
    team = TeamConfig(
        enabled=True,
        database=str(tmp_path_factory.mktemp("team") / "team.sqlite3"),
        admin_groups=("platform",),
        proxy=ProxyConfig(secret=SECRET, peers=request.param),
    )
    with gateway(team=team) as running:
        yield running, request.param == ("127.0.0.0/8",)


IDENTITY = {"x-forwarded-email": "anna@example.com", "x-forwarded-groups": "staff, platform"}
PROVEN = {**IDENTITY, "x-toolglot-proxy-secret": SECRET}


@pytest.mark.parametrize(
    ("headers", "is_right"),
    [
        (PROVEN, True),
        (IDENTITY, False),
        ({**PROVEN, "x-toolglot-proxy-secret": "wrong"}, False),
        ({**PROVEN, "x_forwarded_email": "boss@example.com"}, False),
        ({**PROVEN, "x-forwarded-email": "a, b"}, False),
        ({**PROVEN, "x-forwarded-email": ""}, False),
        ({**PROVEN, "x-forwarded-groups": "staff"}, False),
        ({**PROVEN, "x-forwarded-groups": ""}, False),
    ],
    ids=[
        "right",
        "no secret",
        "wrong secret",
        "twin with underscores",
        "two names",
        "no name",
        "other group",
        "no group",
    ],
)
def test_a_proxy_names_people_only_with_its_secret_from_its_own_address(
    behind_proxy: tuple[Running, bool], headers: dict[str, str], is_right: bool
) -> None:
    running, is_trusted = behind_proxy
    answer = running.call("GET", "/admin/v1/keys", headers=headers)
    assert answer.status == (200 if is_right and is_trusted else 401)


def status_of(running: Running, method: str, headers: list[tuple[str, str]]) -> int:
    with closing(HTTPConnection("127.0.0.1", running.port, timeout=FAILSAFE)) as connection:
        connection.putrequest(method, "/admin/v1/keys")
        for name, value in headers:
            connection.putheader(name, value)
        connection.putheader("content-length", "0")
        connection.endheaders()
        return connection.getresponse().status


@pytest.mark.parametrize(
    "twin", ["x-forwarded-email", "x-forwarded-groups", "x-toolglot-proxy-secret", "x_forwarded_groups"]
)
def test_a_header_of_the_proxy_that_comes_twice_names_nobody(behind_proxy: tuple[Running, bool], twin: str) -> None:
    """A client has sent one of them, and the proxy has added its own."""
    running, is_trusted = behind_proxy
    right = list(PROVEN.items())
    value = PROVEN[twin.replace("_", "-")]
    assert status_of(running, "GET", right) == (200 if is_trusted else 401)
    assert status_of(running, "GET", [(twin, value), *right]) == 401


@pytest.mark.parametrize("origin", ["https://chat.example", "https://box.example"])
def test_a_page_of_another_site_cannot_use_a_person_that_the_proxy_names(tmp_path: Path, origin: str) -> None:
    """The configuration allows the page to call models, with keys. The proxy adds the person to every request."""
    team = TeamConfig(
        enabled=True,
        database=str(tmp_path / "team.sqlite3"),
        admin_groups=("platform",),
        proxy=ProxyConfig(secret=SECRET, peers=("127.0.0.0/8",)),
    )
    with gateway(team=team, server=ServerConfig(hosts=("box.example",), origins=("https://chat.example",))) as running:
        sent = {**PROVEN, "host": "box.example", "origin": origin}
        answer = running.call("POST", "/admin/v1/keys", b'{"name":"x"}', headers=sent)
        assert answer.status == (201 if origin == "https://box.example" else 401)
