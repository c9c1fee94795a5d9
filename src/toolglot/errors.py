"""Errors as values, and as exceptions.

Values: an `ApiError` is an API's error independent of dialects; each dialect decodes and encodes its own form of it.

Exceptions, and who is at fault::

    ToolglotError
    ├── UnknownDialectError   there is no dialect of that name                               (the caller's)
    ├── MissingExtraError     it needs a package that is not installed                       (the caller's)
    ├── MisuseError     an argument has a wrong value, or a call comes too early             (the caller's)
    ├── DecodeError the dialect does not allow these bytes; `where` says which part (the sender's)
    │   └── UpstreamDecodeError   the same of an answer                                      (the upstream's)
    ├── LossError       strict mode found a loss; `receipt` lists all of them                (none: a refusal)
    ├── RefusedError    only an upstream of the client's own dialect can do this             (none: a refusal)
    ├── UpstreamError   the response is an error; `error` has it                             (the upstream's)
    └── StreamError     the grammar forbids this order of events                             (ours, or a lint finding)
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Literal

from msgspec import Struct

from toolglot.ir import Native, replace
from toolglot.receipt import Receipt

ErrorKind = Literal[
    "bad_request",
    "authentication",
    "billing",
    "permission",
    "not_found",
    "conflict",
    "too_large",
    "rate_limit",
    "server",
    "overloaded",
    "timeout",
]

STATUS: dict[ErrorKind, int] = {
    "bad_request": 400,
    "authentication": 401,
    "billing": 402,
    "permission": 403,
    "not_found": 404,
    "conflict": 409,
    "too_large": 413,
    "rate_limit": 429,
    "server": 500,
    "overloaded": 503,
    "timeout": 504,
}
"""The HTTP status of a kind, unless the dialect overrides it."""

_KIND_OF_STATUS: dict[int, ErrorKind] = {
    **{status: kind for kind, status in STATUS.items()},
    408: "timeout",
    422: "bad_request",
    498: "overloaded",  # Groq's flex tier has no capacity
    502: "server",
    529: "overloaded",
}

_VENDOR_STATUSES = frozenset({498})
"""Statuses that no client retries."""

RETRYABLE: frozenset[ErrorKind] = frozenset({"conflict", "rate_limit", "server", "overloaded", "timeout"})


def header_value(value: str | None) -> str | None:
    """Return the value if it is safe in an HTTP header; None if it could allow header injection."""
    return value if value and len(value) <= 256 and value.isascii() and value.isprintable() else None


def kind_of_status(status: int) -> ErrorKind:
    """Return the kind for an HTTP status, if the body does not name one."""
    if status in _KIND_OF_STATUS:
        return _KIND_OF_STATUS[status]
    return "server" if status >= 500 or status < 400 else "bad_request"


_GENERIC: frozenset[ErrorKind] = frozenset({"bad_request", "server"})
"""Kinds that only distinguish client errors from server errors."""


def kind_of_error(named: ErrorKind | None, status: int) -> ErrorKind:
    """Return the kind of an error whose body names `named`, if any, and whose reply has this status (0: none). Servers
    use generic kinds for everything, so a differing status is more specific.
    """
    if named is None or (named in _GENERIC and status >= 400):
        return kind_of_status(status or 500)
    return named


class RateLimit(Struct, frozen=True):
    """One rate limit of an API: `scope` is requests, tokens, input-tokens or output-tokens.

    `reset` stays as received (a duration like `6m0s`, or an RFC 3339 time): a conversion needs a clock, which the core
    does not have.
    """

    scope: str
    limit: str | None = None
    remaining: str | None = None
    reset: str | None = None


CONTEXT_OVERFLOW = "context_length_exceeded"
"""Error code: the conversation does not fit the model's context window."""


REQUEST_TOO_LARGE = "request_too_large"
"""Error code: the request exceeds the upstream's size limit. Another upstream may accept it."""


class ContextOverflow(Struct, frozen=True, kw_only=True):
    """Token counts of a context overflow, if the upstream names them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    """The requested output limit, if it was counted too."""
    limit: int | None = None

    @property
    def is_input_too_long(self) -> bool:
        """Whether the counts show that the input alone exceeds the window."""
        return self.input_tokens is not None and self.limit is not None and self.input_tokens > self.limit

    @property
    def output_room(self) -> int | None:
        """Output tokens that fit in addition to the input; None unless the counts show that the input fits."""
        if self.input_tokens is None or self.limit is None or self.input_tokens >= self.limit:
            return None
        return self.limit - self.input_tokens


class ApiError(Struct, frozen=True, kw_only=True):
    """An API's error, independent of dialects. `status` is 0 if there was no HTTP status."""

    kind: ErrorKind
    message: str
    status: int = 0
    code: str | None = None
    param: str | None = None
    retry_after: float | None = None
    limits: tuple[RateLimit, ...] = ()
    request_id: str | None = None
    native: Native = {}
    streamed_by: str | None = None
    """The upstream's dialect, if the error was in its stream before any part of an answer."""
    retry_after_date: str | None = None
    """An HTTP date to wait for, if there is no number of seconds."""
    should_retry: bool | None = None
    """Whether a retry makes sense, if known. OpenAI's and Anthropic's SDKs read `x-should-retry`."""
    overflow: ContextOverflow | None = None
    """The counts of a context overflow; such an error has the code `CONTEXT_OVERFLOW`."""
    in_foreign_form: bool = False
    """True if the error was in a document that clients of the upstream's own dialect do not recognize as an error."""
    is_broken_off: bool = False
    """True if the upstream's connection failed or timed out, or its stream was truncated: it sent no error itself."""
    reply_headers: Mapping[str, str] = {}
    """Headers of the upstream's reply that a client of the same dialect gets unchanged."""

    @property
    def retryable(self) -> bool:
        return self.kind in RETRYABLE


def error_status(error: ApiError) -> int:
    """Return the HTTP status of an error: its own if that is an error status, otherwise that of its kind. A retryable
    error with a vendor's own status also gets the status of its kind, because clients retry only for known statuses."""
    if error.status in _VENDOR_STATUSES and error.retryable:
        return STATUS[error.kind]
    return error.status if 400 <= error.status < 600 else STATUS[error.kind]


class HttpError(Struct, frozen=True):
    """An encoded HTTP error reply, sent before a stream begins."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def with_reply_headers(encoded: HttpError, error: ApiError) -> HttpError:
    """Add the headers of the upstream's reply to the encoded error."""
    if not error.reply_headers:
        return encoded
    return replace(encoded, headers={**error.reply_headers, **encoded.headers})


class ToolglotError(Exception):
    """Base class of all exceptions that this package raises on purpose."""


class DecodeError(ToolglotError):
    """The bytes are not valid in this dialect. `where` is the path of the invalid part."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")
        self.where = where
        self.what = what


_TYPE_NAMES = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a whole number",
    float: "a number",
    type(None): "null",
}


def expected(where: str, what: str, value: Any) -> DecodeError:
    """Return the error for a JSON value of the wrong type."""
    return DecodeError(where, f"expected {what}, got {_TYPE_NAMES.get(type(value), type(value).__name__)}")


class UpstreamDecodeError(DecodeError):
    """The upstream's answer is not valid in its dialect."""


class UnknownDialectError(ToolglotError, KeyError):
    """No dialect has this name. `known` lists the existing names, `suggestions` the most similar ones."""

    def __init__(self, name: str, known: tuple[str, ...], suggestions: tuple[str, ...] = ()) -> None:
        super().__init__(name)
        self.name = name
        self.known = known
        self.suggestions = suggestions

    def __str__(self) -> str:
        message = f"there is no dialect {self.name!r}; there are {', '.join(self.known)}"
        return f"{message}; did you mean {' or '.join(map(repr, self.suggestions))}?" if self.suggestions else message


def install_command(package: str, extra: str, prefix: str = sys.prefix) -> str:
    """Return the command that installs an extra, for the tool that installed toolglot in the environment at `prefix`.
    It installs from a clone, because toolglot is not on a package index."""
    folders = PurePath(prefix).parts
    if "pipx" in folders:
        return f"pipx inject toolglot {package}"
    if folders[-3:-1] == ("uv", "tools"):
        return f"in a clone of toolglot, uv tool install --reinstall '.[{extra}]'"
    return f"in a clone of toolglot, pip install '.[{extra}]'"


class MissingExtraError(ToolglotError):
    """A feature needs a package of an extra that is not installed."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        command = install_command(package, extra)
        super().__init__(f"{what} needs the package {package}, which comes with the extra `{extra}`: {command}")
        self.package = package
        self.extra = extra


class MisuseError(ToolglotError, ValueError):
    """An argument has a value that does not exist (a vendor, a text format), or a method was called too early."""


_MAX_LISTED_LOSSES = 20
_MAX_LINE_CHARACTERS = 500


WOULD_LOSE = "refused, because it would lose"


class LossError(ToolglotError):
    """Strict mode: the translation would lose something. The message lists the first losses, the receipt all."""

    def __init__(self, receipt: Receipt) -> None:
        first = receipt.losses[:_MAX_LISTED_LOSSES]
        lines = "; ".join(f"{line.where}: {line.what} ({line.why})"[:_MAX_LINE_CHARACTERS] for line in first)
        more = receipt.loss_count - _MAX_LISTED_LOSSES
        super().__init__(f"{WOULD_LOSE}: {lines}" + (f"; and {more} more" if more > 0 else ""))
        self.receipt = receipt


class RefusedError(ToolglotError):
    """The request depends on state that only an upstream of its own dialect stores, so any answer would be wrong."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.message)
        self.error = error


class UpstreamError(ToolglotError):
    """The upstream sent an error instead of a response (some do, with status 200)."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.message)
        self.error = error


class StreamError(ToolglotError):
    """An event that the stream grammar does not allow here."""

    def __init__(self, rule: str, detail: str = "") -> None:
        super().__init__(f"{rule}: {detail}" if detail else rule)
        self.rule = rule


def api_error(error: ToolglotError) -> ApiError:
    """Convert an exception to the error that the client gets."""
    match error:
        case UpstreamError(error=value) | RefusedError(error=value):
            return value
        case UpstreamDecodeError():
            return unreadable(error)
        case DecodeError(where=where):
            return ApiError(kind="bad_request", message=str(error), param=where)
        case LossError():
            return ApiError(kind="bad_request", code="would_lose", message=str(error))
    raise TypeError(f"an error of an exchange is expected, not {type(error).__name__}")


TRUNCATED = "upstream_truncated"
ENDED_EARLY = "the upstream's stream broke off after its stop reason: later data, such as usage, may be missing"


NO_STOP = "the upstream ended its stream without a reason: it counts as a plain end"


def note_early_end(receipt: Receipt, mark: str) -> None:
    """Note that a stream is complete, except for the final event of its dialect."""
    receipt.note("stream", f"no {mark}", ENDED_EARLY)


def note_missing_stop(receipt: Receipt, member: str) -> None:
    """Note that a stream ended properly, but without a stop reason."""
    receipt.note("stream", f"no {member}", NO_STOP)


def truncated(detail: str = "") -> ApiError:
    """Return the error for a stream that ended before it was complete."""
    message = "The upstream ended the stream before the response was complete"
    if detail:
        message = f"{message}: {detail}"
    return ApiError(kind="server", status=502, code=TRUNCATED, message=message, is_broken_off=True)


def spliced() -> ApiError:
    """Return the error for a stream into which a proxy has written two answers: it lost its upstream and retried. If it
    were read as one answer, text would appear twice and calls would run twice."""
    return truncated("another answer begins in the same stream")


NAMELESS = "a call without a name"
MALFORMED_CALL = "malformed_tool_call"


def malformed_call(problem: str) -> ApiError:
    """Return the error for a tool call that cannot be run, and that the client must not take for a complete one."""
    message = f"The model tried a tool call that cannot be read ({problem})"
    return ApiError(kind="server", status=502, code=MALFORMED_CALL, message=message)


def unreadable(error: Exception) -> ApiError:
    """Return the error for upstream bytes that cannot be read."""
    message = f"The upstream's data is unreadable: {error}"
    return ApiError(kind="server", status=502, code="upstream_unreadable", message=message)
