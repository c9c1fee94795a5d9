"""`Exchange`: the public view of an exchange for users of the library. `ExchangeCore` does the work, and has additional
members for the gateway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolglot.capabilities import Capabilities
from toolglot.dialect import Dialect
from toolglot.dialects import AnyDialect
from toolglot.errors import ApiError, DecodeError, HttpError, LossError, RefusedError, UpstreamError
from toolglot.ir import Request, Response, Stop, Usage
from toolglot.passes import CacheMarks, RequestPass
from toolglot.receipt import Receipt
from toolglot.streaming import StreamTranslation
from toolglot.textcalls.settings import TextCalls, to_text_calls
from toolglot.translate import ExchangeCore
from toolglot.wire.json import Document

if TYPE_CHECKING:
    from toolglot.textcalls.retry_prompt import RetryPrompt


class Exchange:
    """One request and its answer, between a client's dialect and an upstream's.

    `exchange = Exchange("anthropic", "openai_chat", model="gpt-4.1"); sent = exchange.request(body)`

    Args:
        client: the client's dialect.
        upstream: the upstream's dialect.
        strict: refuse (`LossError`, or an error event once a stream has begun) instead of losing anything.
        model: the upstream's name of the model, if it differs from the client's.
        can: the upstream's capabilities, if they differ from those known for the model.
        passes: the request passes, in order, if they differ from the default ones.
        created: timestamp for an answer whose upstream sends none (Unix seconds; the core has no clock).
        answer_id: id for an answer whose upstream sends none. By default, an id is derived from the exchange.
        clock: returns the time (Unix seconds) at which an answer ends, for clients whose answers have it.
        verbatim: forward bytes unchanged if both sides speak the same dialect and nothing has to change. False decodes
            and encodes everything, for upstreams that omit data that the dialect's clients need.
        text_calls: how the model writes tool calls as text, if it has no native calls or leaks them as text: a format's
            name, or settings.
        history_format: the text format of calls in the client's own history, if it has any.
        can_cut: the caller can cut the client's connection. If the upstream's stream breaks off, the client's stream
            then ends without an error event if its dialect wants that, and `is_cut` of the translation is set.
        cache_marks: when to set prompt-cache breakpoints for clients that set none, on models that cache nothing
            without breakpoints: `auto` (in tool loops and for repeated prefixes), `always`, or `never`.
        gateway_options: further arguments of `toolglot.translate.ExchangeCore`, which only a gateway needs.

    Raises:
        UnknownDialectError: there is no dialect of that name.
        MissingExtraError: a dialect needs a package that is not installed.
        MisuseError: there is no text format of that name.
    """

    __slots__ = ("_core", "_translation")

    _core: ExchangeCore
    _translation: StreamTranslation | None

    def __init__(
        self,
        client: AnyDialect,
        upstream: AnyDialect,
        *,
        strict: bool = False,
        model: str | None = None,
        can: Capabilities | None = None,
        passes: Sequence[RequestPass] | None = None,
        created: int | None = None,
        answer_id: str = "",
        clock: Callable[[], float | None] | None = None,
        verbatim: bool = True,
        text_calls: TextCalls | str | None = None,
        history_format: str | None = None,
        can_cut: bool = False,
        cache_marks: CacheMarks = "auto",
        **gateway_options: Any,
    ) -> None:
        core = ExchangeCore(
            client,
            upstream,
            strict=strict,
            model=model,
            can=can,
            passes=passes,
            created=created,
            answer_id=answer_id,
            clock=clock,
            verbatim=verbatim,
            text_calls=to_text_calls(text_calls),
            history_format=history_format,
            can_cut=can_cut,
            cache_marks=cache_marks,
            **gateway_options,
        )
        self._hold(core)

    @classmethod
    def of(cls, core: ExchangeCore) -> Exchange:
        """Wrap an existing `ExchangeCore`."""
        exchange = cls.__new__(cls)
        exchange._hold(core)
        return exchange

    def _hold(self, core: ExchangeCore) -> None:
        object.__setattr__(self, "_core", core)
        object.__setattr__(self, "_translation", None)

    @property
    def client(self) -> Dialect:
        """The client's dialect."""
        return self._core.client

    @property
    def upstream(self) -> Dialect:
        """The upstream's dialect."""
        return self._core.upstream

    @property
    def receipt(self) -> Receipt:
        """Losses and changes of form, in both directions. Complete once the answer is complete."""
        return self._core.receipt

    @property
    def can(self) -> Capabilities:
        """Capabilities of the upstream's model."""
        return self._core.can

    @property
    def asked(self) -> Request | None:
        """The decoded request of the client; None before `request`."""
        return self._core.asked

    @property
    def sent(self) -> Request | None:
        """The request for the upstream; None before `request`."""
        return self._core.sent

    @property
    def answered(self) -> Response | None:
        """The decoded whole answer of the upstream; None before `response`, and for a stream."""
        return self._core.answered

    @property
    def usage(self) -> Usage | None:
        """The token counts of the answer; None until it is complete, or if it has none."""
        answer = self._answer
        return None if answer is None else answer.usage

    @property
    def stop(self) -> Stop | None:
        """The stop reason of the answer; None until it is complete, or if it ended with an error."""
        answer = self._answer
        return None if answer is None else answer.stop

    @property
    def fault(self) -> ApiError | None:
        """The error that ended a streamed answer, if any."""
        return None if self._translation is None else self._translation.fault

    @property
    def _answer(self) -> Response | StreamTranslation | None:
        return self._core.answered or self._translation

    @property
    def path(self) -> str:
        """Path to post the request to, below the upstream's base URL.

        Raises: MisuseError: `request` was not called yet.
        """
        return self._core.path

    def request(self, data: Document, *, model: str | None = None, stream: bool | None = None) -> bytes:
        """Translate the client's request to the upstream's. `model` and `stream` override the body's values; Gemini has
        them in the URL.

        Raises:
            DecodeError: the data is not a request of the client's dialect.
            RefusedError: it depends on state that only an upstream of the client's own dialect stores.
            LossError: strict, and something would be lost.
        """
        return self._core.request(data, model=model, stream=stream)

    def response(self, data: Document) -> bytes:
        """Translate the upstream's response to the client's. Empty if the model must be asked again (see
        `pending_retry`).

        Raises:
            UpstreamDecodeError: the data is not a response of the upstream's dialect.
            UpstreamError: it is an error instead of a response.
            LossError: strict, and something would be lost.
        """
        return self._core.response(data)

    def stream(self) -> StreamTranslation:
        """Create a translator for the upstream's byte stream: `translation.feed(chunk)`, then `translation.close()`.
        Like `response`, it also works without an earlier request, but then no names can be restored."""
        translation = self._core.stream()
        object.__setattr__(self, "_translation", translation)
        return translation

    def error(self, status: int, headers: Mapping[str, str], body: Document) -> HttpError:
        """Translate the upstream's error reply to the client's."""
        return self._core.error(status, headers, body)

    def refusal(self, error: ApiError | DecodeError | LossError | RefusedError | UpstreamError) -> HttpError:
        """Encode an error that this exchange raised, or an error of the caller (for example, no connection)."""
        return self._core.refusal(error)

    @property
    def pending_retry(self) -> RetryPrompt | None:
        """Set if the model wrote a call that cannot be run and must be asked again: `encode_retry` creates the
        request."""
        return self._core.pending_retry

    def encode_retry(self) -> bytes:
        """Create the retry request, with the model's output and its problem. Call `response` with its answer."""
        return self._core.encode_retry()

    if not TYPE_CHECKING:
        # Names that only the gateway uses were public in earlier versions. They still work, but have no types and no
        # completion.
        def __getattr__(self, name: str) -> Any:
            return getattr(self._core, name)

        def __setattr__(self, name: str, value: Any) -> None:
            setattr(self._core, name, value)
