"""What a client is told of whatever ended the work on its request, before its answer has begun or in the middle."""

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
    message="toolglot is shutting down; ask again in a moment",
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
"""Errors of ours that no dialect has a word for, but HTTP has: 408, 508, 405, 501, 421, 415, 426."""


def encode_error_reply(client: Dialect, error: ApiError, record: RequestRecord) -> HttpError:
    """The error as a reply in the client's dialect."""
    told = client.encode_error(error if error.request_id is not None else replace(error, request_id=record.id))
    told = with_reply_headers(told, error)
    return replace(told, status=error_status(error)) if error.code in OWN_STATUS else told


def is_sent_as_stream(client: Dialect, error: ApiError) -> bool:
    """Whether a client that wants a stream gets one that is only this error: some do not look at the status."""
    early = client.stream.early_failures and error.streamed_by == client.name
    return early or error.code in client.stream.error_codes


def describe_failure(failure: BaseException, record: RequestRecord) -> ApiError | None:
    """The error to tell; None when nobody is left to hear it, and the failure goes on its way.

    A cancellation that does not come from the client comes from the server, whose time to drain is over.
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
            message = f"toolglot failed on this request; its log has more under {record.id}"
            return ApiError(kind="server", message=message)
    return None
