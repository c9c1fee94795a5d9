"""Reads the error documents of all vendors.

Servers that imitate an API answer with errors of many forms: the API's own envelope, the bare error object, FastAPI's
`detail`, Apigee's `fault`, Azure's `statusCode`, MiniMax's `base_resp`, a list around any of them. They arrive with an
HTTP error status, with status 200, or as a frame of a stream. `find_error` recognizes the form; each dialect then
interprets the members.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolglot.errors import ApiError, DecodeError, ErrorKind
from toolglot.ir import replace
from toolglot.wire import json, retry_after

_ANSWER_MEMBERS = ("choices", "output", "candidates", "content", "delta")
"""Members of answers. A document with one of them is not an error, even if it has a `message` or `detail`."""

_STATUS_MEMBERS = ("status_code", "statusCode", "http_status", "status", "code")
_MESSAGE_MEMBERS = ("message", "Message", "detail", "msg", "faultstring", "title")
_CODE_MEMBERS = ("code", "status_code", "statusCode", "error_code")

_SUCCESS_CODES = ("0", "200")
"""Codes of documents whose `msg` reports no error."""

_TYPE_MARKS = ("error", "exception")
"""Substrings of a `type` that only errors have: `rate_limit_error`, `BadRequestError`, `ThrottlingException`."""

_PROBLEM_TYPES = ("about:", "http:", "https:")
"""Prefixes of the `type` in RFC 9457's problem details."""

LONGEST_PROVIDER_WORDS = 2000
"""Maximum characters of a provider's reply that are appended to the message."""

LONGEST_UNREAD = 1000
"""Maximum characters of a document without a message that become the message."""


class ErrorDocument(Struct, frozen=True):
    """An error document: the members of the error itself, and those of the document around it."""

    fields: dict[str, Any]
    outer: dict[str, Any]
    is_enveloped: bool
    """True if the error is an object in the member `error`, the form that all APIs share and their clients expect."""

    @property
    def status(self) -> int:
        """The HTTP status that the document names; 0 if it names none."""
        named = (members.get(name) for members in (self.fields, self.outer) for name in _STATUS_MEMBERS)
        return next((status for value in named if (status := _http_status(value))), 0)

    @property
    def message(self) -> str:
        """The error's message, followed by the reply of a provider or model that it passes on. Without a message, the
        members as JSON."""
        said = next((self.fields[name] for name in _MESSAGE_MEMBERS if self.fields.get(name)), None)
        if said is None:
            return json.encode_text(self.fields)[:LONGEST_UNREAD]
        own = said if isinstance(said, str) else json.encode_text(said)
        raw = self._provider_reply or self._failed_generation
        if not raw:
            return own
        return f"{own}: {raw if isinstance(raw, str) else json.encode_text(raw)}"[
            : len(own) + 2 + LONGEST_PROVIDER_WORDS
        ]

    @property
    def _provider_reply(self) -> Any:
        """The reply of the provider that OpenRouter called. OpenRouter's own message is only "Provider returned
        error"."""
        metadata = self.fields.get("metadata")
        raw = metadata.get("raw") if isinstance(metadata, dict) else None
        return raw if isinstance(raw, (str, dict)) else None

    @property
    def _failed_generation(self) -> str | None:
        """The call that Groq could not read. Its message only names the member that holds it."""
        written = self.fields.get("failed_generation")
        return written if isinstance(written, str) else None

    @property
    def innermost(self) -> dict[str, Any]:
        """The members of the provider's error if this error passes one on, otherwise its own."""
        raw = self._provider_reply
        if isinstance(raw, str):
            try:
                raw = json.decode_frame(raw.encode("utf-8", "replace"))
            except DecodeError:
                raw = None
        found = _find_in_object(raw)
        return self.fields if found is None else found.fields


def find_error(value: Any) -> ErrorDocument | None:
    """Find the error in a JSON value or in a list of values; None if there is none."""
    if isinstance(value, list):
        found = next((found for item in value if (found := _find_in_object(item)) is not None), None)
        return None if found is None else replace(found, is_enveloped=False)
    return _find_in_object(value)


def _find_in_object(value: Any) -> ErrorDocument | None:
    if not isinstance(value, dict):
        return None
    error = value.get("error")
    if error:
        if isinstance(error, dict):
            return ErrorDocument(error, value, is_enveloped=True)
        return ErrorDocument({**value, "message": _message_or_error(value, error)}, value, is_enveloped=False)
    if isinstance(fault := value.get("fault"), dict):
        return ErrorDocument(_fault_fields(fault), value, is_enveloped=False)
    if isinstance(base := value.get("base_resp"), dict) and base.get("status_code") and not value.get("choices"):
        return ErrorDocument(_minimax_fields(base), value, is_enveloped=False)
    if value.get("object") == "error" or value.get("type") == "error" or _is_flat(value):
        return ErrorDocument(value, value, is_enveloped=False)
    errors = value.get("errors")
    if isinstance(errors, list) and errors and not _is_answer(value):
        first = errors[0]
        return ErrorDocument(first if isinstance(first, dict) else {"message": first}, value, is_enveloped=False)
    return None


def read_error_document(value: Any) -> ErrorDocument:
    """Read a value that is known to be an error, in any form."""
    found = find_error(value)
    if found is not None:
        return found
    text = value if isinstance(value, str) else json.encode_text(value)[:LONGEST_UNREAD]
    fields = value if isinstance(value, dict) else {"message": text}
    return ErrorDocument(fields, fields, is_enveloped=False)


_WEB_PAGE = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_TITLE = re.compile(rb"<title[^<>]{0,200}>([^<]{1,200})", re.IGNORECASE)
_PAGE_TEXT = re.compile(rb">\s*+([^<>{\s][^<>{]{0,199})<")


def is_web_page(body: bytes) -> bool:
    """Return whether the body is HTML: a proxy's page, a login page, or a website in place of an API."""
    return _WEB_PAGE.match(body) is not None


def describe_web_page(body: bytes, status: int, upstream: str = "") -> str:
    """Return the message for an error whose body is a web page: its title or its first text, without the markup."""
    title = _TITLE.search(body) or _PAGE_TEXT.search(body)
    shown = f" ({' '.join(title[1].decode('utf-8', 'replace').split())!r})" if title else ""
    name = f" {upstream!r}" if upstream else ""
    return f"The upstream{name} answered with status {status} and a web page{shown}; is its base URL right?"


def message_of_text(body: bytes, status: int, limit: int = 2000) -> str:
    """Return the message of an error whose body is not JSON."""
    if is_web_page(body):
        return describe_web_page(body, status)
    return body.decode("utf-8", "replace").strip()[:limit] or f"HTTP status {status}"


def add_retry_after(error: ApiError, headers: Mapping[str, str], fields: Mapping[str, Any]) -> ApiError:
    """Add the retry delay from the headers (names in lower case), Google's details or the message, and the value of
    `x-should-retry`."""
    seconds, date = retry_after.seconds_in(headers), retry_after.date_in(headers)
    if seconds is None:
        seconds = google_retry_delay(fields)
    if seconds is None and date is None and error.retryable:
        seconds = retry_after.seconds_in_message(error.message)
    should_retry = retry_after.should_retry_in(headers)
    return replace(error, retry_after=seconds, retry_after_date=date, should_retry=should_retry)


def _message_or_error(value: dict[str, Any], error: Any) -> Any:
    """Return `message`, or `error` if there is none. Spring writes `{"error": "Not Found", "message": "No route"}`."""
    message = value.get("message")
    return message if isinstance(message, str) and message else error


def _is_answer(value: dict[str, Any]) -> bool:
    return any(value.get(name) is not None for name in _ANSWER_MEMBERS)


def _is_flat(value: dict[str, Any]) -> bool:
    """Return whether this is the error object itself, without an envelope."""
    if _is_answer(value) or value.get("object"):
        return False
    status = next((value[name] for name in _STATUS_MEMBERS if type(value.get(name)) is int), None)
    if status is not None and 100 <= status < 400:
        return False
    says = value.get("detail") is not None or _is_text(value.get("message")) or _is_failure(value)
    return says and _may_be_error(value.get("type"), value)


def _is_failure(value: dict[str, Any]) -> bool:
    """Whether this is `{"code": 500, "msg": "…", "success": false}`. Z.ai's proxies write it, even with status 200."""
    return _is_text(value.get("msg")) and str(value.get("code") or 0) not in _SUCCESS_CODES


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _may_be_error(kind: Any, value: dict[str, Any]) -> bool:
    """Whether a document may be an error. Stream events also have a `type`, usually with a dot, and may have a
    `message`."""
    if not isinstance(kind, str) or not kind:
        return True
    if any(mark in kind.lower() for mark in _TYPE_MARKS):
        return True
    is_problem = kind.startswith(_PROBLEM_TYPES)
    return is_problem or ("." not in kind and any(value.get(name) is not None for name in _CODE_MEMBERS))


def _fault_fields(fault: dict[str, Any]) -> dict[str, Any]:
    """Convert Apigee's `{"faultstring", "detail": {"errorcode"}}` to the usual names."""
    detail = fault.get("detail")
    code = detail.get("errorcode") if isinstance(detail, dict) else None
    message = fault.get("faultstring") or fault.get("message")
    return {**{key: value for key, value in fault.items() if key != "detail"}, "message": message, "code": code}


_MINIMAX_STATUS = {
    1001: 504,  # timeout
    1002: 429,  # requests
    1004: 401,
    1008: 402,  # balance
    1026: 400,  # sensitive input
    1027: 400,  # sensitive output
    1039: 429,  # tokens
    1041: 429,  # connections
    2013: 400,
    2049: 401,
    2056: 429,  # the limit of a plan
}
"""HTTP statuses for MiniMax's codes (https://platform.minimax.io/docs/api-reference/errorcode)."""


def _minimax_fields(base: dict[str, Any]) -> dict[str, Any]:
    """Convert MiniMax's `{"status_code", "status_msg"}` to the usual names."""
    code = base["status_code"]
    status = _MINIMAX_STATUS.get(code, 500) if type(code) is int else 500
    return {"message": base.get("status_msg"), "code": str(code), "status": status}


def _http_status(value: Any) -> int:
    if isinstance(value, str) and len(value) == 3 and value.isdecimal() and value.isascii():
        value = int(value)
    return value if type(value) is int and 400 <= value < 600 else 0


# Google's typed details


GOOGLE_KINDS: dict[str, ErrorKind] = {
    "INVALID_ARGUMENT": "bad_request",
    "FAILED_PRECONDITION": "bad_request",
    "OUT_OF_RANGE": "bad_request",
    "UNIMPLEMENTED": "bad_request",
    "UNAUTHENTICATED": "authentication",
    "PERMISSION_DENIED": "permission",
    "NOT_FOUND": "not_found",
    "ABORTED": "conflict",
    "ALREADY_EXISTS": "conflict",
    "RESOURCE_EXHAUSTED": "rate_limit",
    "INTERNAL": "server",
    "UNKNOWN": "server",
    "DATA_LOSS": "server",
    "CANCELLED": "server",
    "UNAVAILABLE": "overloaded",
    "DEADLINE_EXCEEDED": "timeout",
}
"""Names of gRPC codes in the member `status`."""

GOOGLE_KINDS_OF_REASON: dict[str, ErrorKind] = {
    # Google answers a bad key with 400 INVALID_ARGUMENT; only the detail says more.
    "API_KEY_INVALID": "authentication",
    "API_KEY_EXPIRED": "authentication",
    "BILLING_DISABLED": "billing",
}


def google_kind(fields: Mapping[str, Any]) -> ErrorKind | None:
    """Return the kind that Google's members name; None for errors of other vendors."""
    name = fields.get("status")
    of_reason = GOOGLE_KINDS_OF_REASON.get(google_reason(fields) or "")
    return of_reason or (GOOGLE_KINDS.get(name) if isinstance(name, str) else None)


def google_reason(fields: Mapping[str, Any]) -> str | None:
    return _text_of_detail(fields, "ErrorInfo", "reason")


def google_field(fields: Mapping[str, Any]) -> str | None:
    """Return the invalid field of the request."""
    violations = _detail(fields, "BadRequest").get("fieldViolations")
    first = violations[0] if isinstance(violations, list) and violations else None
    field = first.get("field") if isinstance(first, dict) else None
    return field if isinstance(field, str) else None


def google_retry_delay(fields: Mapping[str, Any]) -> float | None:
    return retry_after.seconds_of_duration(_text_of_detail(fields, "RetryInfo", "retryDelay") or "")


def _detail(fields: Mapping[str, Any], kind: str) -> dict[str, Any]:
    details = fields.get("details")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and str(detail.get("@type", "")).endswith(f".{kind}"):
            return detail
    return {}


def _text_of_detail(fields: Mapping[str, Any], kind: str, member: str) -> str | None:
    value = _detail(fields, kind).get(member)
    return value if isinstance(value, str) else None
