"""Credentials that a request shows, and texts without them.

A client may put its own key anywhere: as the name of a member, of a tool or of the model. What the gateway tells of a
request (its receipt, headers, errors, the log, traces) must not repeat it, though the key is the client's own: such
texts are read by others, and kept.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from toolglot.errors import ApiError
from toolglot.ir import replace
from toolglot.receipt import Loss
from toolglot.recordings.redact import SECRET_NAMES, replace_secrets

REDACTED = "[redacted]"
MIN_KEY_LENGTH = 8
"""Characters. A client of a server without keys may show any: a shorter one stands in texts that have nothing to do
with it, and is hidden where keys stand alone."""
_WORD = re.compile(r"[a-z]{1,24}|[A-Z]{1,24}|[A-Z][a-z]{1,23}|(?:sk-)?[xX0*.-]+")
_PLACEHOLDERS = frozenset(
    """api-key dummy-key fake-key key-1 lm-studio my-key no-key no-key-needed no-key-required none-needed not-needed
    not-used sk-1234 sk-anything sk-dummy sk-fake sk-key sk-no-key-required sk-none sk-test sk-toolglot test-key
    your-api-key your-key""".split()  # noqa: SIM905
)
"""Keys that are none: a plain word, or what examples have in the place of one. Clients show them where any key will do
(`toolglot launch` shows `toolglot`). A key that counts here is known by the configuration, whatever it looks like."""
_KEY_NAMES = frozenset({"authorization", "x-api-key", "x-goog-api-key", "api-key", "key"})
"""The headers, and what is asked behind a `?`, in which such a key stands."""


def find_credentials(headers: Mapping[str, str], query: Mapping[str, str]) -> Iterator[str]:
    """What the client has shown as its own keys, whichever of them count here."""
    for name, value in (*headers.items(), *query.items()):
        scheme, _, credential = value.strip().partition(" ")
        if not SECRET_NAMES.search(name) or (name in _KEY_NAMES and _is_placeholder(credential.strip() or scheme)):
            continue
        yield from select_long((value.strip(), credential.strip()))
        if scheme.lower() == "basic":
            yield from select_long(_decode_password(credential))
        for part in value.split(";"):  # a cookie's
            yield from select_long((part.partition("=")[2].strip(),))


def _is_placeholder(key: str) -> bool:
    return key.lower() in _PLACEHOLDERS or _WORD.fullmatch(key) is not None


def _decode_password(credential: str) -> tuple[str, ...]:
    try:
        return (b64decode(credential).decode().partition(":")[2],)
    except (Base64Error, ValueError):
        return ()


def select_long(secrets: Iterable[str]) -> Iterator[str]:
    return (secret for secret in secrets if len(secret) >= MIN_KEY_LENGTH)


def hide(text: str, secrets: Sequence[str]) -> str:
    """The text without these secrets. Most texts have none, and are only searched."""
    for secret in secrets:
        if secret in text:
            return replace_secrets(text, secrets, REDACTED)
    return text


def hide_in_lines(lines: tuple[Loss, ...], secrets: Sequence[str]) -> tuple[Loss, ...]:
    """The lines of a receipt without these secrets."""
    if not has_secret(lines, secrets):
        return lines
    return tuple(
        Loss(hide(line.where, secrets), hide(line.what, secrets), hide(line.why, secrets), line.severity)
        for line in lines
    )


def has_secret(lines: Iterable[Loss], secrets: Sequence[str]) -> bool:
    """Does a line have one of these secrets in it?"""
    return bool(secrets) and any(
        secret in text for line in lines for text in (line.where, line.what, line.why) for secret in secrets
    )


def hide_in_error(error: ApiError, secrets: Sequence[str]) -> ApiError:
    """The error without these secrets, in whatever form they stand there."""
    said = {name: getattr(error, name) or "" for name in ("message", "code", "param")}
    hidden = {name: replace_secrets(text, secrets, REDACTED) for name, text in said.items()}
    own = repr(error.native) if error.native else ""
    if hidden == said and (not own or replace_secrets(own, secrets, REDACTED) == own):
        return error
    return replace(error, **{name: text or None for name, text in hidden.items()}, native={})


def hide_more(hides: Callable[[ApiError], ApiError], secrets: Sequence[str]) -> Callable[[ApiError], ApiError]:
    """The function that takes these secrets out of an error as well."""
    return lambda error: hide_in_error(hides(error), secrets)


T = TypeVar("T")


def hide_in_json(value: T, secrets: Sequence[str]) -> T:
    """A JSON value without these secrets, in whatever form they stand there. Names of members are not looked at."""
    if isinstance(value, str):
        return replace_secrets(value, secrets, REDACTED)  # type: ignore[return-value]
    if isinstance(value, dict):
        return {name: hide_in_json(item, secrets) for name, item in value.items()}  # type: ignore[return-value]
    if isinstance(value, list):
        return [hide_in_json(item, secrets) for item in value]  # type: ignore[return-value]
    return value
