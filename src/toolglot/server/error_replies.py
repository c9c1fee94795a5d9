"""Errors for the client: from an exception to an `ApiError`, and to an HTTP reply in the client's dialect."""

from __future__ import annotations

import asyncio
import logging

from toolglot.dialect import Dialect
from toolglot.errors import (
    ApiError,
    DecodeError,
    HttpError,
    LossError,
    MissingExtraError,
    RefusedError,
    UpstreamError,
    api_error,
    error_status,
    with_reply_headers,
)
from toolglot.gateway.errors import FailedError
from toolglot.gateway.flow import StoppedError
from toolglot.gateway.request_record import RequestRecord
from toolglot.ir import replace
from toolglot.routing import UnknownModelError
from toolglot.server.asgi_request import ClientLeftError
from toolglot.server.request_body import BodyError

log = logging.getLogger("toolglot.server")

DRAINING = ApiError(
    kind="overloaded",
    status=503,
    code="draining",
    message="toolglot is shutting down; try again in a moment",
    retry_after=1.0,
)


OWN_STATUS = frozenset(
    {
        "body_timeout",
        "circle",
        "method_not_allowed",
        "missing_extra",
        "unknown_host",
        "unsupported_encoding",
        "websocket_unsupported",
    }
)
"""Error codes that keep their HTTP status, since no dialect has an equivalent: 408, 508, 405, 501, 421, 415, 426."""


def encode_error_reply(client: Dialect, error: ApiError, record: RequestRecord) -> HttpError:
    """Encode an error as a reply in the client's dialect."""
    reply = client.encode_error(error if error.request_id is not None else replace(error, request_id=record.id))
    reply = with_reply_headers(reply, error)
    return replace(reply, status=error_status(error)) if error.code in OWN_STATUS else reply


def is_sent_as_stream(client: Dialect, error: ApiError) -> bool:
    """Return whether a streaming client gets this error inside a stream: some clients ignore the status."""
    early = client.stream.early_failures and error.streamed_by == client.name
    return early or error.code in client.stream.error_codes


def describe_failure(failure: BaseException, record: RequestRecord) -> ApiError | None:
    """Convert an exception to the client's error; None if the client has disconnected and the exception should
    propagate.

    A cancellation that the client did not cause comes from the server: its drain time has elapsed.
    """
    match failure:
        case FailedError() | BodyError() | StoppedError():
            return failure.error
        case UnknownModelError():
            return ApiError(kind="not_found", code="model_not_found", message=str(failure), param="model")
        case DecodeError() | LossError() | RefusedError() | UpstreamError():
            return api_error(failure)
        case MissingExtraError():
            return ApiError(kind="server", status=501, code="missing_extra", message=str(failure))
        case asyncio.CancelledError():
            return None if record.cancelled else DRAINING
        case ClientLeftError():
            return None
        case Exception():
            log.error("request %s failed", record.id, exc_info=failure)
            message = f"toolglot failed to handle this request; details are in its log under {record.id}"
            return ApiError(kind="server", message=message)
    return None
