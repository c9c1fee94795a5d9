"""Finding the credentials in a request, and hiding them in texts.

A client may put its own key anywhere: in the name of a member, a tool or a model. What the gateway reports about a
request (receipt, headers, errors, log, traces) must not repeat it, although the key is the client's own: other people
read and store such texts.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from toolglot.errors import ApiError
from toolglot.ir import replace
from toolglot.receipt import ReceiptLine
from toolglot.recordings.redact import SECRET_NAMES, replace_secrets

REDACTED = "[redacted]"
MIN_KEY_LENGTH = 8
"""Minimum length of a key in characters. A client of a server without keys may send any text as its key. A shorter one
would match unrelated texts; it is hidden only in the places of keys."""
_WORD = re.compile(r"[a-z]{1,24}|[A-Z]{1,24}|[A-Z][a-z]{1,23}|(?:sk-)?[xX0*.-]+")
_PLACEHOLDERS = frozenset(
    """api-key dummy-key fake-key key-1 lm-studio my-key no-key no-key-needed no-key-required none-needed not-needed
    not-used sk-1234 sk-anything sk-dummy sk-fake sk-key sk-no-key-required sk-none sk-test sk-toolglot test-key
    your-api-key your-key""".split()  # noqa: SIM905
)
"""Placeholder keys: a plain word, or a key from an example. Clients send them where any key works (`toolglot launch`
sends `toolglot`). Keys in the configuration are always secrets."""
_KEY_NAMES = frozenset({"authorization", "x-api-key", "x-goog-api-key", "api-key", "key"})
"""Headers and query parameters that hold such a key."""


def find_credentials(headers: Mapping[str, str], query: Mapping[str, str]) -> Iterator[str]:
    """Find everything that the client sent as a credential, whether it is valid here or not."""
    for name, value in (*headers.items(), *query.items()):
        scheme, _, credential = value.strip().partition(" ")
        if not SECRET_NAMES.search(name) or (name in _KEY_NAMES and _is_placeholder(credential.strip() or scheme)):
            continue
        yield from select_long((value.strip(), credential.strip()))
        if scheme.lower() == "basic":
            yield from select_long(_decode_password(credential))
        for part in value.split(";"):  # the values of cookies
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
    """Hide secrets in a text. Most texts have none and are only searched."""
    for secret in secrets:
        if secret in text:
            return replace_secrets(text, secrets, REDACTED)
    return text


def hide_in_lines(lines: tuple[ReceiptLine, ...], secrets: Sequence[str]) -> tuple[ReceiptLine, ...]:
    """Hide secrets in the lines of a receipt."""
    if not has_secret(lines, secrets):
        return lines
    return tuple(
        replace(line, where=hide(line.where, secrets), what=hide(line.what, secrets), why=hide(line.why, secrets))
        for line in lines
    )


def has_secret(lines: Iterable[ReceiptLine], secrets: Sequence[str]) -> bool:
    """Return whether a line contains one of these secrets."""
    return bool(secrets) and any(
        secret in text for line in lines for text in (line.where, line.what, line.why) for secret in secrets
    )


def hide_in_error(error: ApiError, secrets: Sequence[str]) -> ApiError:
    """Hide secrets in an error, in any encoding."""
    texts = {name: getattr(error, name) or "" for name in ("message", "code", "param")}
    hidden = {name: replace_secrets(text, secrets, REDACTED) for name, text in texts.items()}
    own = repr(error.native) if error.native else ""
    if hidden == texts and (not own or replace_secrets(own, secrets, REDACTED) == own):
        return error
    return replace(error, **{name: text or None for name, text in hidden.items()}, native={})


def hide_more(hides: Callable[[ApiError], ApiError], secrets: Sequence[str]) -> Callable[[ApiError], ApiError]:
    """Extend a function that hides secrets in an error to these secrets."""
    return lambda error: hide_in_error(hides(error), secrets)


T = TypeVar("T")


def hide_in_json(value: T, secrets: Sequence[str]) -> T:
    """Hide secrets in a JSON value, in any encoding. Names of members are not searched."""
    if isinstance(value, str):
        return replace_secrets(value, secrets, REDACTED)  # type: ignore[return-value]
    if isinstance(value, dict):
        return {name: hide_in_json(item, secrets) for name, item in value.items()}  # type: ignore[return-value]
    if isinstance(value, list):
        return [hide_in_json(item, secrets) for item in value]  # type: ignore[return-value]
    return value
