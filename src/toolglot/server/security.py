"""Who may ask this server for what. Pure but for the making of a key.

Three questions, in this order, and none of them is answered from a rebuilt URL:

1. By which name was the server called (`Host`)? A name that is not known here is a web page that let its own name
   point at this machine (DNS rebinding): 421.
2. Which web page asks (`Origin`)? Programs send none and are not concerned. A page that was not served from here must
   be in `server.origins`, whatever it asks and however: 403, and no header that would let it read the answer.
3. Which key is shown? One of `server.keys`, under any of the headers that clients of any dialect use: else 401.

A key is compared in constant time and never told: logs get its label (`key-1` is the first in the configuration).
What is stored belongs to the key itself and not to its place: other keys may come and go.
"""

from __future__ import annotations

import hmac
import logging
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from msgspec import Struct

from toolglot.config.addresses import is_loopback
from toolglot.config.schema import ServerConfig
from toolglot.errors import ApiError, ToolglotError
from toolglot.recordings.redact import replace_secrets

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
"""Places where a key stands that is not ours: a wrong one, or one meant for somebody else. What has neither letter nor
digit is none: `Bearer ...`."""


class UnsafeServerError(ToolglotError):
    """The server would be open to whoever can reach it."""


class AccessDecision(Struct, frozen=True):
    """`headers` belong on the answer, whatever it is. With an `error` there must be no other answer."""

    headers: Mapping[str, str] = {}
    error: ApiError | None = None


class Caller(Struct, frozen=True):
    """Whoever showed a key. `label` is for logs; `owner` is what belongs to this key is stored under."""

    label: str
    owner: str


def derive_owner(key: str) -> str:
    """The same for the same key, wherever it stands among others and however often the server starts; no other key has
    it. It is stored beside conversations, which is no risk: a key cannot be told from its hash unless it can be
    guessed, and `generate_key` makes none that can. The prefix makes it another hash than those that keys are
    compared by, so that it opens nothing anywhere."""
    return sha256(b"toolglot owner\0" + key.strip().encode()).hexdigest()[:32]


def generate_key() -> str:
    """A key that nobody guesses, and that can be told from other services' keys."""
    return f"tg-{secrets.token_urlsafe(32)}"


def _normalize_host(host: str) -> str:
    """A host in lower case, without port, brackets and final dot."""
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


def check_bind(server: ServerConfig) -> None:
    """Raises `UnsafeServerError` for a server beyond loopback that has no keys, and for keys that are none."""
    if any(not key.strip() for key in server.keys):
        raise UnsafeServerError("server.keys has an empty key: is a variable that it refers to not set?")
    if is_loopback(server.host) or server.keys or server.insecure:
        return
    raise UnsafeServerError(
        f"refusing to serve on {server.host!r} without keys: whoever can reach this machine could spend your accounts "
        f"and read stored conversations. Give server.keys at least one key, or serve on 127.0.0.1 alone. "
        f"`insecure = true` in [server] serves without keys all the same, to everyone on the network."
    )


class Guard:
    """The answers for one configuration."""

    def __init__(self, server: ServerConfig) -> None:
        check_bind(server)
        bound = _parse_address(_normalize_host(server.host))
        # An address cannot be rebound: only whoever has it can be called by it.
        self._any_address = not _normalize_host(server.host) or (bound is not None and bound.is_unspecified)
        self._hosts = frozenset(_normalize_host(host) for host in (server.host, *server.hosts))
        self._domains = tuple(host[1:] for host in self._hosts if host.startswith("*."))
        self._origins = frozenset(origin.lower().removesuffix("/") for origin in server.origins)
        self._callers = [
            (sha256(key.strip().encode()).digest(), Caller(f"key-{number}", derive_owner(key)))
            for number, key in enumerate(server.keys, 1)
        ]

    def check(self, method: str, headers: Mapping[str, str]) -> AccessDecision:
        """Whether this server was meant and this web page may ask. An `OPTIONS` request that gets no error is
        answered with the verdict's headers alone."""
        host = headers.get("host", "")
        # A page that has let its own name point here cannot know a key.
        if not self.knows_host(host) and self.identify(headers, {})[0] is None:
            message = (
                "This server does not go by the name in the Host header: call it by its address (localhost or "
                "127.0.0.1 on the same machine), add the name to server.hosts in its configuration, or show a key"
            )
            return AccessDecision({}, ApiError(kind="permission", status=421, code="unknown_host", message=message))
        origin = headers.get("origin")
        if origin is None or origin.lower() in (f"http://{host}".lower(), f"https://{host}".lower()):
            return AccessDecision()
        if not self.allows_origin(origin):
            message = "Web pages of this origin may not call this server: add it to server.origins to let them"
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

    def identify(self, headers: Mapping[str, str], query: Mapping[str, str]) -> tuple[Caller | None, ApiError | None]:
        """Whose key was shown, or the error for none. Without configured keys all are let in, and nobody is known."""
        if not self._callers:
            return None, None
        found = None
        for shown in _find_keys(headers, query):
            digest = sha256(shown.encode("utf-8", "surrogateescape")).digest()
            for known, caller in self._callers:
                if hmac.compare_digest(digest, known):
                    found = caller
        if found is not None:
            return found, None
        message = (
            "A key of this server is needed: send it as `Authorization: Bearer ...`, `x-api-key` or `x-goog-api-key`"
        )
        return None, ApiError(kind="authentication", code="invalid_api_key", message=message)


def _cors_headers(method: str, origin: str, headers: Mapping[str, str]) -> dict[str, str]:
    """What lets a web page read the answer and, before that, ask the question. No cookies: keys are in headers."""
    allowed = {"access-control-allow-origin": origin, "access-control-expose-headers": "*", "vary": "origin"}
    if method != "OPTIONS" or "access-control-request-method" not in headers:
        return allowed
    asked = headers.get("access-control-request-headers", "")
    allowed |= {
        "access-control-allow-methods": "GET, HEAD, POST, DELETE",
        "access-control-max-age": "600",
        "vary": "origin, access-control-request-method, access-control-request-headers",
    }
    # The SDKs send a dozen headers of their own (`x-stainless-*`), more with each version: all that are asked for pass.
    if _HEADER_NAMES.fullmatch(asked):
        allowed["access-control-allow-headers"] = asked
    if headers.get("access-control-request-private-network") == "true":
        allowed["access-control-allow-private-network"] = "true"
    return allowed


def _find_keys(headers: Mapping[str, str], query: Mapping[str, str]) -> list[str]:
    """Gemini's clients may show theirs in the query."""
    shown = [headers[name] for name in _KEY_HEADERS if name in headers]
    if (bearer := _BEARER.fullmatch(headers.get("authorization", ""))) is not None:
        shown.append(bearer[1])
    return shown + ([query["key"]] if "key" in query else [])


def redact(text: str, hidden: Iterable[str]) -> str:
    """The text without these secrets, in whatever form, and without whatever stands where keys stand."""
    return replace_secrets(_KEY_PLACES.sub(rf"\1{REDACTED}", text), hidden, REDACTED)


class SecretFilter(logging.Filter):
    """Keeps secrets out of a log: message, arguments, traceback and extra fields.

    It belongs on handlers: a logger's own filters do not see what comes from loggers below it. `hidden` is asked for
    each line, because configurations are loaded again.
    """

    def __init__(self, hidden: Callable[[], Iterable[str]]) -> None:
        super().__init__()
        self._get_secrets = hidden

    def filter(self, record: logging.LogRecord) -> bool:
        hidden = tuple(self._get_secrets())
        record.msg, record.args = record.getMessage(), None
        if record.exc_info and not record.exc_text:
            # Formatters print this text rather than the exception itself.
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
