"""Sign-in of people who administer a team: `/auth/login`, `/auth/callback`, `/auth/logout`, and their sessions.

A session is a random cookie. Its hash is in the team's database, so every gateway accepts it. Browsers send the cookie
only to this host (`__Host-`), hide it from scripts (`HttpOnly`), and omit it from other sites' requests that change
anything (`SameSite=Lax`). A request that changes anything must also come from a page of this host.
"""

from __future__ import annotations

import logging
from functools import partial
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from secrets import token_urlsafe
from time import time
from urllib.parse import parse_qsl

from toolglot.config.schema import OidcConfig, ProxyConfig
from toolglot.errors import ApiError
from toolglot.gateway.errors import FailedError
from toolglot.server.asgi_request import AsgiRequest
from toolglot.server.routes import Match
from toolglot.server.security import Operator
from toolglot.server.service import Service
from toolglot.team import people, sql
from toolglot.team.people import PeopleError, SignIn
from toolglot.team.service import Team
from toolglot.upstream.transport import Timeouts, TransportError, UpstreamCall, fetch

log = logging.getLogger("toolglot.server")

SESSION = "__Host-toolglot"
_BEGUN = "__Host-toolglot-sign-in"
_ATTRIBUTES = "; Path=/; Secure; HttpOnly; SameSite=Lax"
_BEGUN_SECONDS = 600
_MOST_BYTES = 1024 * 1024
_TIMEOUTS = Timeouts(connect=5.0, first_byte=10.0, idle=10.0)
_SAFE = ("GET", "HEAD")


async def find_person(team: Team, incoming: AsgiRequest) -> Operator | None:
    """Find the person who sent a request: by the header of a trusted proxy, or by a session. Raises `StoreError`."""
    config = team.config
    if incoming.method not in _SAFE and "origin" in incoming.headers and not _is_same_site(incoming):
        return None  # a browser sends a session, and a proxy adds a name, to requests of any page
    proxy = config.proxy
    if proxy is not None and people.is_trusted_peer(incoming.peer, proxy.peers) and not _has_twins(incoming, proxy):
        name = people.name_in_header(incoming.headers, proxy.header, proxy.secret_header, proxy.secret)
        groups = people.groups_in_header(incoming.headers.get(proxy.groups_header, ""))
        role = people.role_of(groups, config.admin_groups, config.viewer_groups)
        if name is not None and role is not None:
            return Operator(name, role)
    token = _cookies(incoming).get(SESSION, "")
    if config.oidc is None or not token:
        return None
    if incoming.method not in _SAFE and not _is_same_site(incoming):
        return None
    found = await team.database.run(partial(sql.find_session, _hash(token), round(time() * 1000)), writes=False)
    return None if found is None else Operator(found[0], "admin" if found[1] == "admin" else "viewer")


def _has_twins(incoming: AsgiRequest, proxy: ProxyConfig) -> bool:
    """Whether a header of the proxy comes twice, maybe with underscores, which some servers treat as the same header
    (CVE-2025-64484): a client may have sent one of them."""
    ours = {proxy.header, proxy.groups_header, proxy.secret_header}
    names = [name.decode("latin-1").lower().replace("_", "-") for name, _ in incoming.scope["headers"]]
    return any(names.count(name) > 1 for name in ours)


def _is_same_site(incoming: AsgiRequest) -> bool:
    """Whether a page of this host sent the request. Browsers add `Origin` to every request that changes anything."""
    origin = incoming.headers.get("origin", "").lower()
    return origin.partition("://")[2] == incoming.headers.get("host", "").lower() != ""


def _cookies(incoming: AsgiRequest) -> dict[str, str]:
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(incoming.headers.get("cookie", "")).items()}
    except CookieError:
        return {}


def _hash(token: str) -> str:
    return sha256(b"toolglot session\0" + token.encode("utf-8", "surrogateescape")).hexdigest()


# The flow


async def sign_in(service: Service, incoming: AsgiRequest, match: Match) -> None:
    """Answer a request below `/auth`."""
    team = service.team
    if team is None or team.config.oidc is None:
        message = f"{match.route.path} is disabled: set `oidc` under `team` in the configuration"
        raise FailedError(ApiError(kind="not_found", code="unknown_path", message=message))
    step = {"/auth/login": _begin, "/auth/callback": _finish, "/auth/logout": _end}[match.route.path]
    try:
        await step(team, team.config.oidc, incoming)
    except PeopleError as error:
        message = f"Sign-in failed: {error}"
        raise FailedError(ApiError(kind="permission", code="sign_in_failed", message=message)) from None
    except TransportError as error:
        log.warning("the identity provider does not answer: %s", error)
        message = "Sign-in failed: the identity provider does not answer"
        raise FailedError(ApiError(kind="overloaded", status=503, code="sign_in_failed", message=message)) from None


async def _begin(team: Team, oidc: OidcConfig, incoming: AsgiRequest) -> None:
    """Send the browser to the identity provider."""
    begun = SignIn(state=token_urlsafe(24), nonce=token_urlsafe(24), verifier=token_urlsafe(48))
    addresses = await _find_addresses(team, oidc)
    url = people.authorization_url(addresses, oidc.client_id, oidc.redirect_url, oidc.scope, begun)
    value = ".".join((begun.state, begun.nonce, begun.verifier))
    cookie = f"{_BEGUN}={value}; Max-Age={_BEGUN_SECONDS}{_ATTRIBUTES}"
    await incoming.reply(303, {"location": url, "set-cookie": cookie, "cache-control": "no-store"}, b"")


async def _finish(team: Team, oidc: OidcConfig, incoming: AsgiRequest) -> None:
    """Complete the sign-in when the browser returns: exchange its code, and start a session."""
    parts = _cookies(incoming).get(_BEGUN, "").split(".")
    query = dict(parse_qsl(incoming.scope["query_string"].decode("latin-1")))
    if len(parts) != 3 or not parts[0] or query.get("state") != parts[0]:
        raise PeopleError("it did not start in this browser, or it took too long; start again at /auth/login")
    if "error" in query or not query.get("code"):
        raise PeopleError("the identity provider refused the sign-in")
    begun = SignIn(*parts)
    addresses = await _find_addresses(team, oidc)
    body = people.token_request(query["code"], oidc.client_id, oidc.client_secret, oidc.redirect_url, begun)
    data = await _fetch(team, "POST", addresses.token_endpoint, body)
    now = time()
    claims = people.read_claims(data, issuer=oidc.issuer, client_id=oidc.client_id, nonce=begun.nonce, now=now)
    name = people.name_in_claims(claims)
    groups = people.groups_in_claims(claims, oidc.groups_claim)
    role = people.role_of(groups, team.config.admin_groups, team.config.viewer_groups)
    if role is None:
        log.warning("%s signed in but is not in any group of `team.admin_groups` or `team.viewer_groups`", name)
        raise PeopleError(f"{name} is not in any group that has access")
    token = token_urlsafe(32)
    at = round(now * 1000)
    await team.database.run(partial(sql.begin_session, _hash(token), name, role, at, at + oidc.session_seconds * 1000))
    cookie = f"{SESSION}={token}; Max-Age={oidc.session_seconds}{_ATTRIBUTES}"
    await incoming.reply(303, {"location": "/", "set-cookie": cookie, "cache-control": "no-store"}, b"")


async def _end(team: Team, oidc: OidcConfig, incoming: AsgiRequest) -> None:
    """End the session."""
    if not _is_same_site(incoming):
        raise PeopleError("this request does not come from a page of this server")
    if token := _cookies(incoming).get(SESSION, ""):
        await team.database.run(partial(sql.end_session, _hash(token)))
    cookie = f"{SESSION}=; Max-Age=0{_ATTRIBUTES}"
    await incoming.reply(200, {"content-type": "application/json", "set-cookie": cookie}, b'{"signed_out":true}')


async def _find_addresses(team: Team, oidc: OidcConfig) -> people.ProviderAddresses:
    """Fetch the provider's metadata once."""
    if team.provider is None:
        url = f"{oidc.issuer.rstrip('/')}/.well-known/openid-configuration"
        team.provider = people.decode_addresses(await _fetch(team, "GET", url), oidc.issuer)
    return team.provider


async def _fetch(team: Team, method: str, url: str, body: bytes = b"") -> bytes:
    headers = {"accept": "application/json"}
    if body:
        headers["content-type"] = "application/x-www-form-urlencoded"
    call = UpstreamCall(method=method, url=url, headers=headers, body=body, timeouts=_TIMEOUTS)
    answer = await fetch(team.transport, call, _MOST_BYTES)
    if answer.status != 200:
        raise PeopleError(f"the identity provider answers with status {answer.status}")
    return answer.body
