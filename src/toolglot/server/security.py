"""Access control of the server, and redaction of secrets in its log. Pure, except for the generation of a key.

Three checks, in this order. None uses a reconstructed URL:

1. `Host`: the name under which the server was called. An unknown name may be a web page that lets its own name point at
   this machine (DNS rebinding): 421.
2. `Origin`: the web page that calls. Programs send none and are not affected. A page of another origin must be in
   `server.origins`, for any request: 403, and no header that would let it read the answer.
3. The key: one of `server.keys` or of the team's keys, in any of the headers that clients of any dialect use; else 401.

A key is compared in constant time and never logged: logs get its label (`key-1` is the first in the configuration).
Stored data belongs to the key itself, not to its position: other keys may be added and removed.
"""

from __future__ import annotations

import hmac
import logging
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from toolglot.config.addresses import is_loopback
from toolglot.config.schema import ServerConfig, TeamConfig
from toolglot.errors import ApiError, ToolglotError
from toolglot.recordings.redact import replace_secrets

if TYPE_CHECKING:
    from toolglot.team.directory import Account, KeyDirectory

REDACTED = "[redacted]"

_KEY_HEADERS = ("x-api-key", "x-goog-api-key")
_BEARER = re.compile(r"bearer +(\S+) *", re.IGNORECASE)
_PORT = re.compile(r":[0-9]*$")
_HEADER_NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,8192}")

_KEY_PLACES = re.compile(
    r"((?:\bbearer +|[?&]key=|\bx-(?:goog-)?api-key['\"]?\s*[:=,]\s*b?['\"]?))"
    r"(?![^\sA-Za-z0-9]*(?:\s|$))[^\s&'\",}\])]+",
    re.IGNORECASE,
)
"""Places of keys that are not configured: a wrong key, or one for another service. Text without letters and digits is
not a key: `Bearer ...`."""


_NO_TEAM = TeamConfig()


class UnsafeServerError(ToolglotError):
    """The configuration would open the server to anyone who can reach it."""


class AccessDecision(Struct, frozen=True):
    """Decision about a client's access. `headers` are sent with any answer. An `error` must be the answer."""

    headers: Mapping[str, str] = {}
    error: ApiError | None = None


class Caller(Struct, frozen=True):
    """The owner of a valid key. `label` is for logs; `owner` identifies the key's data in the store."""

    label: str
    owner: str
    account: Account | None = None
    """What a key of the team may do; None for keys of the configuration, which may do everything."""


class Operator(Struct, frozen=True):
    """The owner of a credential for the admin API."""

    name: str
    role: Literal["viewer", "admin"]


NO_CALLER = Caller("", "")
"""The caller when no key is required."""


def derive_owner(key: str) -> str:
    """Derive the owner of stored data from a key. It depends on the key only, not on its position or the process.

    The owner is stored with conversations. This is safe: a key can be found from its hash only by guessing, which is
    infeasible for keys of `generate_key`. Because of the prefix, it differs from the hash that keys are compared by, so
    it grants no access.
    """
    return sha256(b"toolglot owner\0" + key.strip().encode()).hexdigest()[:32]


def generate_key() -> str:
    """Generate a random key, with a prefix that distinguishes it from other services' keys."""
    return f"tg-{secrets.token_urlsafe(32)}"


def _normalize_host(host: str) -> str:
    """Return the host in lower case, without the port, brackets and final dot."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    if host.count(":") < 2:
        host = _PORT.sub("", host)
    return host.removesuffix(".")


def _parse_address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def check_bind(server: ServerConfig, *, needs_key: bool = False) -> None:
    """Raises `UnsafeServerError` for a server beyond loopback without keys, and for empty keys. `needs_key`: the team's
    keys are required in any case."""
    if any(not key.strip() for key in server.keys):
        raise UnsafeServerError("server.keys has an empty key: is a variable that it refers to not set?")
    if is_loopback(server.host) or server.keys or needs_key or server.insecure:
        return
    raise UnsafeServerError(
        f"refusing to serve on {server.host!r} without keys: anyone who can reach this machine could spend money from "
        f"your accounts and read stored conversations. Set server.keys, use `serve --key-env NAME`, or serve on "
        f"127.0.0.1 only. With `insecure = true` in [server], it serves everyone on the network without keys."
    )


class Guard:
    """Checks access for one configuration."""

    def __init__(self, server: ServerConfig, team: TeamConfig = _NO_TEAM) -> None:
        check_bind(server, needs_key=team.enabled)
        self._needs_key = team.enabled or bool(server.keys)
        self._has_team = team.enabled
        operators = [(key, Operator(name, "viewer")) for name, key in team.viewers.items()]
        operators += [(key, Operator(name, "admin")) for name, key in team.admins.items()]
        self._operators = [(sha256(key.strip().encode()).digest(), operator) for key, operator in operators]
        bound = _parse_address(_normalize_host(server.host))
        # DNS rebinding needs a name: an IP address in the Host header is safe.
        self._any_address = not _normalize_host(server.host) or (bound is not None and bound.is_unspecified)
        self._hosts = frozenset(_normalize_host(host) for host in (server.host, *server.hosts))
        self._domains = tuple(host[1:] for host in self._hosts if host.startswith("*."))
        self._origins = frozenset(origin.lower().removesuffix("/") for origin in server.origins)
        self._callers = [
            (sha256(key.strip().encode()).digest(), Caller(f"key-{number}", derive_owner(key)))
            for number, key in enumerate(server.keys, 1)
        ]

    def check(self, method: str, headers: Mapping[str, str], keys: KeyDirectory | None = None) -> AccessDecision:
        """Check `Host` and `Origin`. An `OPTIONS` request without an error is answered with the decision's headers
        only."""
        host = headers.get("host", "")
        # A web page that attacks by DNS rebinding does not know a key.
        if not self.knows_host(host) and self.identify(headers, {}, keys)[0] is None:
            message = (
                "This server does not serve the name in the Host header: use its address (localhost or 127.0.0.1 on "
                "the same machine), add the name to server.hosts in its configuration, or send a key"
            )
            return AccessDecision({}, ApiError(kind="permission", status=421, code="unknown_host", message=message))
        origin = headers.get("origin")
        if origin is None or origin.lower() in (f"http://{host}".lower(), f"https://{host}".lower()):
            return AccessDecision()
        if not self.allows_origin(origin):
            message = "Web pages of this origin may not call this server: add it to server.origins to allow them"
            return AccessDecision(
                {"vary": "origin"}, ApiError(kind="permission", code="unknown_origin", message=message)
            )
        return AccessDecision(_cors_headers(method, origin, headers))

    def knows_host(self, host: str) -> bool:
        name = _normalize_host(host)
        if name in self._hosts or "*" in self._hosts or is_loopback(name):
            return True
        return (self._any_address and _parse_address(name) is not None) or name.endswith(self._domains)

    def allows_origin(self, origin: str) -> bool:
        return origin.lower() in self._origins or "*" in self._origins

    def find_operator(self, headers: Mapping[str, str]) -> Operator | None:
        """Find the operator by its credential."""
        found = None
        for shown in find_keys(headers, {}) if self._operators else ():
            digest = sha256(shown.encode("utf-8", "surrogateescape")).digest()
            for known, operator in self._operators:
                if hmac.compare_digest(digest, known):
                    found = operator
        return found

    def check_role(self, role: str, operator: Operator | None, caller: Caller | None) -> ApiError | None:
        """Check access to a route that is not for clients. Without a team, every key opens it."""
        if not self._has_team or (role == "monitor" and caller is not None and caller.account is None):
            return None
        if operator is None:
            message = "A credential of the admin API is needed: one of `team.admins` or `team.viewers`"
            return ApiError(kind="authentication", code="invalid_api_key", message=message)
        if role == "admin" and operator.role != "admin":
            message = f"The credential {operator.name!r} may only read"
            return ApiError(kind="permission", code="read_only", message=message)
        return None

    def identify(
        self, headers: Mapping[str, str], query: Mapping[str, str], keys: KeyDirectory | None = None
    ) -> tuple[Caller | None, ApiError | None]:
        """Find the caller by its key, or the error. If no key is required, every client is admitted, without a caller.
        `keys` are those of the team.
        """
        if not self._needs_key:
            return None, None
        found = None
        why = ""
        for shown in find_keys(headers, query):
            if keys is not None and (account := keys.find(shown)) is not None:
                return Caller(account.key.name, account.owner, account), None
            why = why or ("" if keys is None else keys.explain(shown))
            digest = sha256(shown.encode("utf-8", "surrogateescape")).digest()
            for known, caller in self._callers:
                if hmac.compare_digest(digest, known):
                    found = caller
        if found is not None:
            return found, None
        message = why or (
            "This server requires a key: send it as `Authorization: Bearer ...`, `x-api-key` or `x-goog-api-key`"
        )
        return None, ApiError(kind="authentication", code="invalid_api_key", message=message)


def _cors_headers(method: str, origin: str, headers: Mapping[str, str]) -> dict[str, str]:
    """CORS headers that permit a web page to send the request and read the answer. No cookies: keys are in headers."""
    allowed = {"access-control-allow-origin": origin, "access-control-expose-headers": "*", "vary": "origin"}
    if method != "OPTIONS" or "access-control-request-method" not in headers:
        return allowed
    asked = headers.get("access-control-request-headers", "")
    allowed |= {
        "access-control-allow-methods": "GET, HEAD, POST, DELETE",
        "access-control-max-age": "600",
        "vary": "origin, access-control-request-method, access-control-request-headers",
    }
    # SDKs send a dozen headers of their own (`x-stainless-*`), more with each version: all requested ones are allowed.
    if _HEADER_NAMES.fullmatch(asked):
        allowed["access-control-allow-headers"] = asked
    if headers.get("access-control-request-private-network") == "true":
        allowed["access-control-allow-private-network"] = "true"
    return allowed


def find_keys(headers: Mapping[str, str], query: Mapping[str, str]) -> list[str]:
    """Find all keys of a request. Gemini's clients may send theirs in the query."""
    shown = [headers[name] for name in _KEY_HEADERS if name in headers]
    if (bearer := _BEARER.fullmatch(headers.get("authorization", ""))) is not None:
        shown.append(bearer[1])
    return shown + ([query["key"]] if "key" in query else [])


def redact(text: str, hidden: Iterable[str]) -> str:
    """Hide these secrets in a text, in any encoding, and everything in the places of keys."""
    return replace_secrets(_KEY_PLACES.sub(rf"\1{REDACTED}", text), hidden, REDACTED)


class SecretFilter(logging.Filter):
    """Keeps secrets out of a log: message, arguments, traceback and extra fields.

    Attach it to handlers: a logger's own filters do not see records of its child loggers. The secrets are read for
    each line, since a reload may change them.
    """

    def __init__(self, hidden: Callable[[], Iterable[str]]) -> None:
        super().__init__()
        self._get_secrets = hidden

    def filter(self, record: logging.LogRecord) -> bool:
        hidden = tuple(self._get_secrets())
        record.msg, record.args = record.getMessage(), None
        if record.exc_info and not record.exc_text:
            # Formatters prefer this text to the exception itself.
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        for name, value in vars(record).items():
            if name != "exc_info":
                vars(record)[name] = _redact_value(value, hidden)
        return True


def _redact_value(value: Any, hidden: tuple[str, ...]) -> Any:
    match value:
        case str():
            return redact(value, hidden)
        case dict():
            return {key: _redact_value(each, hidden) for key, each in value.items()}
        case list() | tuple():
            return [_redact_value(each, hidden) for each in value]
        case _:
            return value
