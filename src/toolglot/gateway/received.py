"""A client's request inside the gateway."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from time import time

from msgspec import Struct

from toolglot.config.schema import Limits
from toolglot.dialect import Dialect, StreamEncoder
from toolglot.dialects import DIALECTS
from toolglot.errors import ApiError, DecodeError, ToolglotError
from toolglot.events import Start
from toolglot.gateway.errors import FailedError
from toolglot.gateway.features.recording import ExchangeRecording
from toolglot.gateway.request_record import RequestRecord
from toolglot.ir import Request, replace
from toolglot.manifest import Route
from toolglot.receipt import ReceiptLine
from toolglot.server.security import NO_CALLER, Caller
from toolglot.translate import ExchangeCore
from toolglot.upstream.http_client import Destination
from toolglot.upstream.upstream import Upstream


class CallHead(Struct, frozen=True, eq=False):
    """A call to an upstream, except for its body."""

    upstream: Upstream
    destination: Destination
    lines: bytes


class ReceivedRequest(Struct, eq=False, kw_only=True):
    """A request in the client's own bytes, and decoded."""

    client: Dialect
    request: Request
    body: bytes
    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    caller: Caller = NO_CALLER
    credentials: tuple[str, ...] = ()
    """The credentials in headers and query."""
    call_heads: dict[tuple[str, str, bool], CallHead] | None = None
    """The heads of calls for requests with these headers, by upstream, path and whether it streams; None if no other
    request shares them."""
    strict: bool = False
    can_cut: bool = False
    """True if the client can distinguish a cut connection from a complete answer."""
    encoder: Callable[[], StreamEncoder] | None = None
    """Replaces the client's encoder if the caller needs the events of an answer; no bytes are forwarded then."""
    serves: Callable[[str], bool] | None = None
    """Knows the tools that run here, by the client's names."""
    recording: ExchangeRecording | None = None
    """The recorder of this exchange, if it is recorded."""
    lines: tuple[ReceiptLine, ...] = ()
    """Receipt lines that are already known."""


def decode_request(client: Dialect, body: bytes, route: Route, values: Mapping[str, str]) -> Request:
    """Decode the request in a body that was sent to this route. `values` are the parameters in its path."""
    try:
        request = client.decode_request(body)
    except DecodeError as error:
        if error.where == f"$.{client.request.history_key}" and (others := _find_other_apis(client, body)):
            raise DecodeError(error.where, f"{error.what}; this looks like a request for {others}") from None
        raise
    if client.request.model_in_path:
        return replace(request, model=values["model"], stream=route.streams is True)
    return request


def _find_other_apis(client: Dialect, body: bytes) -> str:
    """Return the APIs that read this body as a conversation, with their paths. Cursor sends bodies of the Responses API
    to `/v1/chat/completions` (CLIProxyAPI #658). They are not answered there: the client would get either a stream of
    the wrong API or an answer without the features of the right API.
    """
    found: list[str] = []
    for dialect in DIALECTS.values():
        if dialect.name == client.name or dialect.request.history_key == client.request.history_key:
            continue
        with suppress(ToolglotError):
            request = dialect.decode_request(body)
            if request.messages:
                found.append(
                    f"{dialect.title}: POST it to {dialect.path(replace(request, model=request.model or 'MODEL'))}"
                )
    return "; or for ".join(found)


def check_request(client: Dialect, request: Request, limits: Limits) -> None:
    """Raise `FailedError` for a request that exceeds a limit or names no model."""
    for what, count, limit in (
        ("messages", len(request.messages), limits.messages),
        ("tools", len(request.tools), limits.tools),
    ):
        if count > limit:
            raise FailedError(ApiError(kind="bad_request", message=f"{what}: {count} of at most {limit}", param=what))
    require_model(request, required=client.request.needs_model)


def require_model(request: Request, *, required: bool) -> None:
    """Refuse a request that names no model. Otherwise an upstream that the client did not choose could answer it."""
    if required and not request.model.strip():
        message = "model: this string is required"
        error = ApiError(kind="bad_request", code="missing_required_parameter", message=message, param="model")
        raise FailedError(error)


def answer_id(record: RequestRecord) -> str:
    return record.id.replace("req_", "resp_")


def start_of_failure(received: ReceivedRequest, record: RequestRecord, exchange: ExchangeCore | None) -> Start:
    """Return the beginning of an answer that fails before any upstream has begun one."""
    if exchange is not None:
        return exchange.start_of_failure()
    return Start(id=answer_id(record), model=received.request.model, created=int(time()))
