"""What a client is told of whatever ended the work on its request, before its answer has begun or in the middle."""

from __future__ import annotations

import asyncio
import logging

from toolglot.errors import (
    ApiError,
    DecodeError,
    LossError,
    MissingExtraError,
    RefusedError,
    UpstreamError,
    api_error,
)
from toolglot.gateway.errors import FailedError
from toolglot.gateway.flow import StoppedError
from toolglot.routing import UnknownModelError
from toolglot.server.incoming import ClientLeftError
from toolglot.server.ingress import IngressError
from toolglot.server.record import Record

log = logging.getLogger("toolglot.server")

DRAINING = ApiError(
    kind="overloaded",
    status=503,
    code="draining",
    message="toolglot is shutting down; ask again in a moment",
    retry_after=1.0,
)


def told(failure: BaseException, record: Record) -> ApiError | None:
    """The error to tell; None when nobody is left to hear it, and the failure goes on its way.

    A cancellation that does not come from the client comes from the server, whose time to drain is over.
    """
    match failure:
        case FailedError() | IngressError() | StoppedError():
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
