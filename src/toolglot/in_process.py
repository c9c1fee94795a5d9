"""Use any vendor's model from another vendor's SDK, in one process and without a server.

    transport = toolglot.httpx_transport("anthropic", model="claude-sonnet-4-5")
    client = OpenAI(api_key="unused", http_client=httpx2.Client(transport=transport))

The transport takes the place of the network: it translates each request that the SDK sends, sends it to the upstream,
and translates the answer back. It works for synchronous and asynchronous clients, of httpx2 and of httpx: the library
that made the SDK's request also sends the upstream's. Retries are the SDK's own; a request that the upstream refuses
for a known reason is fixed and sent once more.

A generator of upstream calls (`_answer_steps`) handles a request, so that synchronous and asynchronous clients share
everything except the calls themselves.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self, TypeAlias

from msgspec import Struct

from toolglot.config.addresses import url_problem
from toolglot.dialect import Dialect, UnsignedCall
from toolglot.dialects import DIALECTS, STORED, DialectName, find
from toolglot.errors import (
    ApiError,
    DecodeError,
    HttpError,
    LossError,
    MissingExtraError,
    MisuseError,
    RefusedError,
    UnknownDialectError,
    UpstreamError,
)
from toolglot.exchange import Exchange
from toolglot.gateway.features.responses_turn import ResponsesTurn
from toolglot.gateway.upstream_errors import decode_refusal, is_answer
from toolglot.ir import replace
from toolglot.models import LATEST, ModelInfo
from toolglot.nearest import nearest
from toolglot.receipt import Receipt
from toolglot.server import routes
from toolglot.server.asgi_request import guess_client_dialect
from toolglot.streaming import StreamTranslation
from toolglot.textcalls.settings import TextCalls, to_text_calls
from toolglot.translate import ExchangeCore
from toolglot.upstream.remedies import MAX_REMEDIES, encode_remedied
from toolglot.upstream.upstream import join_url
from toolglot.upstream.vendors import VENDORS
from toolglot.wire import json

if TYPE_CHECKING:
    import httpx
    import httpx2

    # Both are base classes, because a client of either library accepts only its own transports. Without one of them,
    # its bases are `Any`.
    class _LibraryTransport(
        httpx2.BaseTransport, httpx2.AsyncBaseTransport, httpx.BaseTransport, httpx.AsyncBaseTransport
    ):
        def handle_request(self, request: Any) -> Any: ...

        async def handle_async_request(self, request: Any) -> Any: ...

else:
    _LibraryTransport = object

MAX_EXCHANGES = 100
"""Maximum number of exchanges that a transport keeps."""
EXTENSION = "toolglot_exchange"
"""The extension of an httpx response that holds its `Exchange`."""


class HttpxTransport(_LibraryTransport):
    """Translates the requests of SDK clients for one upstream.

    Args:
        upstream: name of a vendor (`anthropic`, `openai`, `gemini`, `groq`, `ollama` …) or of a dialect.
        dialect: the upstream's dialect, if it is not the vendor's default.
        base_url: the upstream's address, if it is not the vendor's own. A dialect requires one.
        key: the upstream's credential. By default, the vendor's environment variable.
        model: the upstream's model, if it is not the one that the SDK requests.
        headers: further headers of every upstream request.
        strict: refuse requests and answers that would lose data.
        text_calls: how the model writes tool calls as text, if it has no native calls: the name of a format, or its
            settings.
        transport: sends the upstream's requests. By default, a new transport of the SDK's own library.
        on_answer: called with each exchange when its answer is complete: for a stream, when the SDK has read it to the
        end, or has closed it early. The exchange then has `usage` and `stop`; after an error, `stop` is None.

    Raises:
        MisuseError: there is no such vendor, dialect or text format, or `base_url` is missing or no URL.
        MissingExtraError: neither httpx nor httpx2 is installed.
    """

    def __init__(
        self,
        upstream: str,
        *,
        dialect: DialectName | str | None = None,
        base_url: str | None = None,
        key: str | None = None,
        model: str | None = None,
        headers: Mapping[str, str] = {},
        strict: bool = False,
        text_calls: TextCalls | str | None = None,
        transport: Any = None,
        on_answer: Callable[[Exchange], None] | None = None,
    ) -> None:
        if find_spec("httpx2") is None and find_spec("httpx") is None:
            raise MissingExtraError("toolglot.httpx_transport", "httpx", "httpx")
        self._upstream = _find_upstream(upstream, dialect, base_url, key, headers)
        self._model = model
        self._strict = strict
        self._text_calls = to_text_calls(text_calls)
        self._on_answer = on_answer
        self._senders: dict[str, Any] = {} if transport is None else {"": transport}
        self.exchanges: deque[Exchange] = deque(maxlen=MAX_EXCHANGES)
        """The last exchanges, newest last."""

    @property
    def receipt(self) -> Receipt:
        """The receipt of the last exchange; empty before the first one. It is complete when the answer is."""
        return self.exchanges[-1].receipt if self.exchanges else Receipt()

    def handle_request(self, request: Any) -> Any:
        """Answer a request of a synchronous client."""
        library = _library_of(request)
        request.read()
        sender = self._sender(library, "HTTPTransport")

        def send(call: _TransportCall) -> _UpstreamReply:
            answer = sender.handle_request(call.request(library, request))
            if call.is_stream and _is_answer(answer):
                return _UpstreamReply(answer, None)
            body = answer.read()
            answer.close()
            return _UpstreamReply(answer, body)

        steps = self._answer_steps(request)
        try:
            call = next(steps)
            while True:
                call = steps.send(send(call))
        except StopIteration as done:
            return _response(library, request, done.value, 0, send)

    async def handle_async_request(self, request: Any) -> Any:
        """Answer a request of an asynchronous client."""
        library = _library_of(request)
        await request.aread()
        sender = self._sender(library, "AsyncHTTPTransport")

        async def send(call: _TransportCall) -> _UpstreamReply:
            answer = await sender.handle_async_request(call.request(library, request))
            if call.is_stream and _is_answer(answer):
                return _UpstreamReply(answer, None)
            body = await answer.aread()
            await answer.aclose()
            return _UpstreamReply(answer, body)

        steps = self._answer_steps(request)
        try:
            call = next(steps)
            while True:
                call = steps.send(await send(call))
        except StopIteration as done:
            return _response(library, request, done.value, 1, send)

    def _sender(self, library: ModuleType, kind: str) -> Any:
        """Return the transport that sends the upstream's requests."""
        if "" in self._senders:
            return self._senders[""]
        name = f"{library.__name__}.{kind}"
        if name not in self._senders:
            self._senders[name] = getattr(library, kind)()
        return self._senders[name]

    def _answer_steps(self, request: Any) -> _Steps:
        """Yield the upstream calls for an SDK's request, and return its answer."""
        match = routes.find(request.method, request.url.path)
        usual = self._upstream.dialect.name
        if isinstance(match, routes.NoMatch):
            return _Answer(find(match.dialect or match.nearest or usual).encode_error(match.error))
        client = find(guess_client_dialect(match, request.headers))
        if match.route.action in ("models", "model"):
            return (yield from self._list_models(client, match, request))
        if match.route.action != "generate":
            message = f"{request.url.path}: this transport only answers requests to models and lists of models"
            error = ApiError(kind="not_found", status=404, code="unknown_path", message=message)
            return _Answer(client.encode_error(error))
        core = ExchangeCore(
            client,
            self._upstream.dialect,
            strict=self._strict,
            model=self._model,
            created=int(time.time()),
            clock=time.time,
            text_calls=self._text_calls,
            can_cut=True,
        )
        sent = _SentExchange(core, Exchange.of(core), self._upstream, self._on_answer)
        self.exchanges.append(sent.exchange)
        try:
            body = core.request(
                _without_store(client, request.content), model=match.values.get("model"), stream=match.route.streams
            )
        except _AnsweredError as refused:
            return _Answer(refused.answer, sent)
        except (DecodeError, LossError, RefusedError) as error:
            return _Answer(core.refusal(error), sent)
        return (yield from sent.answer_steps(body))

    def _list_models(self, client: Dialect, match: routes.Match, request: Any) -> _Steps:
        """Return the upstream's models, or one of them, in the form of the client's list."""
        listing = client.listing
        if self._upstream.listed:
            models = [ModelInfo(name=name) for name in self._upstream.listed]
        else:
            reply = yield _TransportCall(self._upstream, client, self._upstream.dialect.listing.path, method="GET")
            if not _is_answer(reply.answer):
                exchange, refused = ExchangeCore(client, self._upstream.dialect), self._upstream.decode_error(reply)
                return _Answer(exchange.encode_error(refused, dict(reply.answer.headers)))
            try:
                models = self._upstream.dialect.listing.decode_models(reply.body or b"")
            except DecodeError as error:
                message = f"The upstream's list of models cannot be read: {error}"
                return _Answer(client.encode_error(ApiError(kind="server", status=502, message=message)))
        if match.route.action == "models":
            return _Answer(HttpError(200, _JSON, listing.encode_models(models, dict(request.url.params))))
        name = match.values.get("model") or listing.decode_name(request.content)
        found = next((model for model in models if model.name in (name, name + LATEST)), None)
        if found is None:
            message = f"the upstream has no model {name!r}"
            missing = ApiError(kind="not_found", status=404, code="model_not_found", message=message)
            return _Answer(client.encode_error(missing))
        return _Answer(HttpError(200, _JSON, listing.encode_model(found)))

    def close(self) -> None:
        """Close the connections to the upstream."""
        for sender in self._senders.values():
            if hasattr(sender, "close"):
                sender.close()

    async def aclose(self) -> None:
        """Close the connections to the upstream."""
        for sender in self._senders.values():
            if hasattr(sender, "aclose"):
                await sender.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()


_JSON = {"content-type": "application/json"}


class _ModelServer(Struct, frozen=True, eq=False):
    name: str
    dialect: Dialect
    base_url: str
    key: str | None
    headers: Mapping[str, str]
    listed: tuple[str, ...]
    """The upstream's models, if it has no model list endpoint."""
    key_variables: tuple[str, ...]

    def decode_error(self, reply: _UpstreamReply) -> ApiError:
        """Decode a reply that is not an answer. If the key is missing, the message says where it is expected."""
        status, headers = reply.answer.status_code, dict(reply.answer.headers)
        error = decode_refusal(self.name, self.dialect, status, headers, reply.body or b"")
        if error.kind != "authentication" or self.key is not None:
            return error
        variables = f"set {' or '.join(self.key_variables)}, or " if self.key_variables else ""
        return replace(error, message=f"The upstream {self.name!r} got no key ({variables}pass `key`): {error.message}")


class _TransportCall(Struct, frozen=True, eq=False):
    """One request to the upstream."""

    upstream: _ModelServer
    client: Dialect
    path: str
    body: bytes = b""
    method: str = "POST"
    is_stream: bool = False

    def request(self, library: ModuleType, asked: Any) -> Any:
        """Build the library's request. Only an upstream of the same dialect gets some of the SDK's headers."""
        upstream, rules = self.upstream, self.upstream.dialect.headers
        url = join_url(upstream.base_url, self.path)
        accept = upstream.dialect.stream.framing.media_type if self.is_stream else "application/json"
        headers = {"content-type": "application/json", "accept": accept, **rules.sent}
        if self.client.name == upstream.dialect.name:
            headers |= {name: asked.headers[name] for name in rules.request_headers if name in asked.headers}
        headers |= upstream.headers
        if rules.sign is not None:
            call = UnsignedCall(method=self.method, url=url, headers=headers, body=self.body, key=upstream.key)
            headers |= rules.sign(call)
        elif upstream.key:
            headers[rules.key] = f"Bearer {upstream.key}" if rules.key == "authorization" else upstream.key
        timeouts = {name: value for name, value in asked.extensions.items() if name == "timeout"}
        return library.Request(self.method, url, headers=headers, content=self.body, extensions=timeouts)


class _UpstreamReply(NamedTuple):
    """The library's response, and its body; None if it is a stream, which is still to be read."""

    answer: Any
    body: bytes | None


class _SentExchange(Struct, frozen=True, eq=False):
    """An exchange with the upstream."""

    core: ExchangeCore
    exchange: Exchange
    upstream: _ModelServer
    on_answer: Callable[[Exchange], None] | None

    def finish(self) -> None:
        if self.on_answer is not None:
            self.on_answer(self.exchange)

    def call(self, body: bytes) -> _TransportCall:
        is_stream = self.core.asked is not None and self.core.asked.stream
        return _TransportCall(self.upstream, self.core.client, self.core.path, body, is_stream=is_stream)

    def answer_steps(self, body: bytes) -> _Steps:
        """Send the request. Retry it a few times without the parts that the upstream refuses, and once if a text call
        cannot be run.
        """
        core, remedies = self.core, 0
        while True:
            reply = yield self.call(body)
            if reply.body is None:
                return _Answer(reply.answer, self, self.exchange.stream())
            try:
                if _is_answer(reply.answer):
                    translated = HttpError(200, _JSON, core.response(reply.body))
                    if core.pending_retry is not None:
                        body = core.encode_retry()
                        continue
                else:
                    refused = self.upstream.decode_error(reply)
                    remedied = None if remedies == MAX_REMEDIES else encode_remedied(core, refused)
                    if remedied is not None and remedied != body:
                        remedies, body = remedies + 1, remedied
                        continue
                    translated = core.encode_error(refused, dict(reply.answer.headers))
            except (DecodeError, LossError, UpstreamError) as error:
                translated = core.refusal(error)
            self.finish()
            return _Answer(translated, self)


class _Answer(NamedTuple):
    """The SDK's answer: complete, or the upstream's stream with its translation."""

    answer: Any
    """An `HttpError` (which may also be a success), or the library's response for a stream."""
    sent: _SentExchange | None = None
    translation: StreamTranslation | None = None


_Steps: TypeAlias = Generator[_TransportCall, _UpstreamReply, _Answer]


def _find_upstream(
    name: str, dialect: str | None, base_url: str | None, key: str | None, headers: Mapping[str, str]
) -> _ModelServer:
    vendor = VENDORS.get(name)
    try:
        found = find(dialect or (name if vendor is None else vendor.dialect_at(base_url)))
    except UnknownDialectError as error:
        names = ", ".join(dict.fromkeys([*VENDORS, *DIALECTS]))
        near = nearest(error.name, (*VENDORS, *DIALECTS))
        hint = "" if near is None else f"; did you mean {near!r}?"
        raise MisuseError(f"there is no vendor or dialect {error.name!r}; there are {names}{hint}") from None
    address = base_url or (None if vendor is None else vendor.base_url)
    if address is None:
        raise MisuseError(f"{name}: base_url is required")
    if (problem := url_problem(address, "it", "pass `key`")) is not None:
        raise MisuseError(f"base_url {address!r}: {problem}")
    if key is None and vendor is not None:
        key = next((os.environ[each.name] for each in vendor.keys if os.environ.get(each.name)), None)
    listed, variables = ((), ()) if vendor is None else (vendor.listed, tuple(each.name for each in vendor.keys))
    return _ModelServer(name, found, address, key, dict(headers), listed, variables)


def _without_store(client: Dialect, body: bytes) -> bytes:
    """Return the request with `store: false`, because nothing is stored here. Raises `_AnsweredError` if it continues a
    stored response.
    """
    if client.name != STORED:
        return body
    begun = ResponsesTurn.begin_self_contained(body, None, "", upstream_keeps_state=False)
    if begun is None:
        message = "this transport stores no responses: send the whole conversation as `input`, or use the gateway"
        _refuse(client, ApiError(kind="bad_request", status=400, code="no_store", message=message))
    return json.replace_member(begun[1], "store", False)


class _AnsweredError(Exception):
    """An answer for the SDK that needs no upstream call."""

    def __init__(self, answer: HttpError) -> None:
        super().__init__(answer.status)
        self.answer = answer


def _refuse(client: Dialect, error: ApiError) -> NoReturn:
    raise _AnsweredError(client.encode_error(error))


def _library_of(request: Any) -> ModuleType:
    """Return the library of a request: httpx or httpx2."""
    return sys.modules[type(request).__module__.partition(".")[0]]


def _is_answer(answer: Any) -> bool:
    return is_answer(answer.status_code, answer.headers)


def _response(library: ModuleType, request: Any, result: _Answer, kind: int, send: Any) -> Any:
    """Build the library's response to the SDK. `kind` is the index of the stream type: synchronous or asynchronous."""
    answer, sent, translation = result
    extensions = {} if sent is None else {EXTENSION: sent.exchange}
    if sent is None or translation is None:
        return library.Response(
            answer.status, headers=dict(answer.headers), content=answer.body, request=request, extensions=extensions
        )
    stream = _stream_types(library)[kind](translation, answer, sent, send)
    headers = {"content-type": sent.core.client.stream.framing.media_type}
    return library.Response(200, headers=headers, stream=stream, request=request, extensions=extensions)


def _break_off(translation: StreamTranslation, message: str, *, timed_out: bool) -> bytes:
    """End the SDK's stream after the upstream's stream broke off."""
    if timed_out:
        return translation.break_off(ApiError(kind="timeout", status=504, message=message))
    return translation.break_off(ApiError(kind="server", status=502, message=message))


@cache
def _stream_types(library: ModuleType) -> tuple[Any, Any]:
    """Create the stream classes of a library, synchronous and asynchronous. A library accepts only subclasses of its
    own streams.

    Leaving one early closes the upstream's stream. If a dialect's clients expect a broken connection in place of an
    error event, the library's own error is raised. If the model wrote a text call that cannot be run, it gets one
    retry, and its second answer continues the stream.
    """

    broken = (library.TransportError, library.DecodingError)

    def end(translation: StreamTranslation, error: Exception) -> bytes:
        message = f"The upstream's stream broke off: {error or type(error).__name__}"
        return _break_off(translation, message, timed_out=isinstance(error, library.TimeoutException))

    def require_end(translation: StreamTranslation, error: Exception | None) -> None:
        """Raise where the client expects a broken connection: the error that broke the upstream's, if there is one."""
        if translation.is_cut:
            raise error or library.RemoteProtocolError("The upstream's stream ended in the middle of an answer")

    class Base:
        def __init__(self, translation: StreamTranslation, answer: Any, sent: _SentExchange, send: Any) -> None:
            self._translation, self._answer, self._sent, self._send = translation, answer, sent, send

        def refuse_retry(self, reply: _UpstreamReply) -> bytes:
            return self._translation.fail(self._sent.upstream.decode_error(reply))

    class SyncStream(Base, library.SyncByteStream):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[bytes]:
            translation, failure = self._translation, None
            try:
                yield from self._read_answer()
                while translation.pending_retry is not None:
                    self._answer.close()
                    reply = self._send(self._sent.call(translation.encode_retry()))
                    self._answer = reply.answer
                    if reply.body is None:
                        yield from self._read_answer()
                    elif data := self.refuse_retry(reply):
                        yield data
            except broken as error:
                failure = error
                if data := end(translation, error):
                    yield data
            require_end(translation, failure)

        def _read_answer(self) -> Iterator[bytes]:
            translation = self._translation
            for chunk in self._answer.iter_bytes():
                if data := translation.feed(chunk):
                    yield data
                if translation.pending_retry is not None:
                    return
            if data := translation.close():
                yield data

        def close(self) -> None:
            self._answer.close()
            self._sent.finish()

    class AsyncStream(Base, library.AsyncByteStream):  # type: ignore[misc, name-defined]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            translation, failure = self._translation, None
            try:
                async for data in self._read_answer():
                    yield data
                while translation.pending_retry is not None:
                    await self._answer.aclose()
                    reply = await self._send(self._sent.call(translation.encode_retry()))
                    self._answer = reply.answer
                    if reply.body is None:
                        async for data in self._read_answer():
                            yield data
                    elif data := self.refuse_retry(reply):
                        yield data
            except broken as error:
                failure = error
                if data := end(translation, error):
                    yield data
            require_end(translation, failure)

        async def _read_answer(self) -> AsyncIterator[bytes]:
            translation = self._translation
            async for chunk in self._answer.aiter_bytes():
                if data := translation.feed(chunk):
                    yield data
                if translation.pending_retry is not None:
                    return
            if data := translation.close():
                yield data

        async def aclose(self) -> None:
            await self._answer.aclose()
            self._sent.finish()

    return SyncStream, AsyncStream
