"""People who administer a team in a browser: who they are, by a trusted proxy or by OpenID Connect, and their roles.

No I/O. An identity comes from one of these:

- A proxy in front of the gateway that signs people in, and sends their name in a header. The header counts only in
  requests from the proxy's own address that also carry a secret which the proxy shares with the gateway. Anybody can
  send a header.
- The authorization code flow of OpenID Connect with PKCE. The ID token comes straight from the token endpoint over TLS,
  so its signature need not be verified (OpenID Connect Core 1.0, section 3.1.3.7, point 6). Its claims are.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from ipaddress import ip_address, ip_network
from typing import Any, Literal
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

Role = Literal["viewer", "admin"]

CLOCK_SKEW = 120.0
"""Seconds by which an issuer's clock may differ."""
_NAME = re.compile(r"[^\x00-\x20\x7f,;]{1,200}")


class PeopleError(Exception):
    """Sign-in failed. The message is for the person who signs in."""


class SignIn(Struct, frozen=True):
    """A pending sign-in: the values that the browser holds until it returns."""

    state: str
    nonce: str
    verifier: str


class ProviderAddresses(Struct, frozen=True):
    """Endpoints from a provider's metadata (`/.well-known/openid-configuration`)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str


_addresses = msgspec.json.Decoder(ProviderAddresses)


def role_of(groups: Collection[str], admin_groups: Collection[str], viewer_groups: Collection[str]) -> Role | None:
    """Return the role of a person in these groups. None means no access."""
    if not set(groups).isdisjoint(admin_groups):
        return "admin"
    return "viewer" if not set(groups).isdisjoint(viewer_groups) else None


# A trusted proxy


def is_trusted_peer(peer: str | None, trusted: Iterable[str]) -> bool:
    """Whether the peer has one of these addresses, or is in one of these networks."""
    try:
        address = ip_address(peer or "")
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in ip_network(network, strict=False) for network in trusted)


def name_in_header(headers: Mapping[str, str], header: str, secret_header: str, secret: str) -> str | None:
    """Return the name that a proxy sends.

    None if the secret is missing or wrong, or if a second header differs only in underscores: some servers treat both
    as the same header (CVE-2025-64484).
    """
    names = {header, secret_header}
    if any("_" in name and name.replace("_", "-") in names for name in headers):
        return None
    shown = headers.get(secret_header, "")
    if not hmac.compare_digest(shown.encode("utf-8", "surrogateescape"), secret.encode()):
        return None
    name = headers.get(header, "").strip()
    return name if _NAME.fullmatch(name) else None


def groups_in_header(text: str) -> list[str]:
    return [group for part in text.split(",") if (group := part.strip())]


# OpenID Connect


def decode_addresses(data: bytes, issuer: str) -> ProviderAddresses:
    """Decode a provider's metadata. Raises `PeopleError`."""
    try:
        addresses = _addresses.decode(data)
    except msgspec.DecodeError:
        raise PeopleError("the identity provider's metadata cannot be read") from None
    if addresses.issuer.rstrip("/") != issuer.rstrip("/"):
        raise PeopleError("the identity provider's metadata names another issuer")
    return addresses


def authorization_url(
    addresses: ProviderAddresses, client_id: str, redirect_url: str, scope: str, begun: SignIn
) -> str:
    """Build the URL at which the browser signs in."""
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_url,
        "scope": scope,
        "state": begun.state,
        "nonce": begun.nonce,
        "code_challenge": _encode(sha256(begun.verifier.encode()).digest()),
        "code_challenge_method": "S256",
    }
    joint = "&" if "?" in addresses.authorization_endpoint else "?"
    return f"{addresses.authorization_endpoint}{joint}{urlencode(query)}"


def token_request(code: str, client_id: str, client_secret: str, redirect_url: str, begun: SignIn) -> bytes:
    """Encode the request body that exchanges the code for tokens."""
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_url,
        "client_id": client_id,
        "client_secret": client_secret,
        "code_verifier": begun.verifier,
    }
    return urlencode(fields).encode()


def read_claims(data: bytes, *, issuer: str, client_id: str, nonce: str, now: float) -> dict[str, Any]:
    """Return the claims of the ID token in a token response. Raises `PeopleError`."""
    try:
        tokens = msgspec.json.decode(data)
        _, payload, _ = tokens["id_token"].split(".")
        claims = msgspec.json.decode(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise PeopleError("the identity provider sent no ID token") from None
    if not isinstance(claims, dict):
        raise PeopleError("the ID token cannot be read")
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if str(claims.get("iss", "")).rstrip("/") != issuer.rstrip("/"):
        raise PeopleError("the ID token is from another issuer")
    if client_id not in audiences or (len(audiences) > 1 and claims.get("azp") != client_id):
        raise PeopleError("the ID token is for another client")
    expires = claims.get("exp")
    if not isinstance(expires, (int, float)) or isinstance(expires, bool) or expires + CLOCK_SKEW < now:
        raise PeopleError("the ID token has expired")
    if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
        raise PeopleError("the ID token belongs to another sign-in")
    return claims


def name_in_claims(claims: Mapping[str, Any]) -> str:
    """Return the name of a person for the audit log. An email address counts only if the provider has verified it."""
    email = claims.get("email") if claims.get("email_verified") is not False else None
    for value in (email, claims.get("preferred_username"), claims.get("sub")):
        if isinstance(value, str) and _NAME.fullmatch(value):
            return value
    raise PeopleError("the ID token names nobody")


def groups_in_claims(claims: Mapping[str, Any], claim: str) -> list[str]:
    value = claims.get(claim)
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
