"""The transport of the demo upstream. It runs in the process and supports every dialect."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from toolglot.dialect import Dialect
from toolglot.errors import ApiError, DecodeError, HttpError, api_error
from toolglot.ir import Request, Response, Text, Thinking, ToolCall, replace, with_native
from toolglot.passes.digest import digest
from toolglot.receipt import Receipt
from toolglot.tokens import estimate
from toolglot.upstream.demo.fault_injection import NO_FAULTS, STREAM_FAULT, InjectedFaults, make_error, parse_faults
from toolglot.upstream.demo.models import demo_format
from toolglot.upstream.demo.stream import TYPING_PACE, DemoPace, stream_pieces
from toolglot.upstream.offload import offload
from toolglot.upstream.transport import TransportError, UpstreamCall
from toolglot.wire import json

COUNT_ANSWERS: dict[str, Callable[[int], dict[str, Any]]] = {
    "/count_tokens": lambda tokens: {"input_tokens": tokens},
    "/input_tokens": lambda tokens: {"object": "response.input_tokens", "input_tokens": tokens},
    ":countTokens": lambda tokens: {"totalTokens": tokens},
}
"""Path suffixes of token counting endpoints, and their answers."""

_MODEL_IN_PATH = re.compile(r"models/([^:]+):(\w+)$")
_JSON = {"content-type": "application/json"}


class DemoReply:
    """An answer that is sent at a pace. Closing it ends the rest."""

    def __init__(
        self,
        status: int,
        headers: Mapping[str, str],
        pieces: Iterable[bytes],
        *,
        pace: DemoPace,
        silence: float = 0.0,
        is_cut: bool = False,
    ) -> None:
        self.status = status
        self.headers = headers
        self._pieces = pieces
        self._pace = pace
        self._silence = silence
        self._is_cut = is_cut
        self._closed = asyncio.Event()

    async def read(self, limit: int) -> bytes:
        body = bytearray()
        async for piece in self.chunks():
            body += piece
            if len(body) > limit:
                raise TransportError("too_large", f"the demo upstream's answer has more than {limit} bytes")
        return bytes(body)

    async def chunks(self) -> AsyncIterator[bytes]:
        await self._pause(self._silence)
        for number, piece in enumerate(self._pieces):
            if number:
                await self._pause(self._pace.piece)
            yield piece
        if self._is_cut:
            raise TransportError("reset", "the demo upstream broke off, as “demo:cut” asks it to")

    def close(self) -> None:
        self._closed.set()

    async def _pause(self, seconds: float) -> None:
        if seconds:
            try:
                await asyncio.wait_for(self._closed.wait(), seconds)
            except TimeoutError:
                return
        else:
            await asyncio.sleep(0)  # lets other tasks run and notices a cancellation
        if self._closed.is_set():
            raise TransportError("reset", "the answer of the demo upstream was closed")


class DemoTransport:
    """Answers calls in one dialect. `clock` returns the Unix time for answers."""

    def __init__(
        self, dialect: Dialect, *, pace: DemoPace = TYPING_PACE, clock: Callable[[], float] = time.time
    ) -> None:
        self._dialect = dialect
        self._pace = pace
        self._clock = clock

    async def send(self, call: UpstreamCall) -> DemoReply:
        path = urlsplit(call.url).path
        if call.method != "POST":
            return self._refuse(ApiError(kind="not_found", message=f"The demo upstream has no {call.method} {path}"))
        try:
            return await offload(len(call.body), self._handle, path, call.body)
        except DecodeError as error:
            return self._refuse(api_error(error))
        except RecursionError:
            return self._refuse(api_error(DecodeError("$", json.TOO_DEEP)))

    async def close(self) -> None:
        """There is no connection to close."""

    def _handle(self, path: str, body: bytes) -> DemoReply:
        request = self._read(path, body)
        if refusal := self._dialect.request.refuse_elsewhere(request):  # the demo stores nothing
            return self._refuse(refusal)
        for end, counted in COUNT_ANSWERS.items():
            if path.endswith(end):
                return self._whole(json.encode(counted(estimate(request))))
        return self._answer(request)

    def _read(self, path: str, body: bytes) -> Request:
        """Read the request, including what Gemini's API puts in the path."""
        in_path = _MODEL_IN_PATH.search(path) if self._dialect.request.model_in_path else None
        if in_path is None:
            return self._dialect.decode_request(body)
        if in_path[2] == "countTokens" and isinstance(document := json.decode(body), dict):
            # https://ai.google.dev/api/tokens: the contents alone, or a whole request around them.
            body = json.encode(document.get("generateContentRequest", document))
        streams = in_path[2] == "streamGenerateContent"
        return replace(self._dialect.decode_request(body), model=unquote(in_path[1]), stream=streams)

    def _answer(self, request: Request) -> DemoReply:
        # Every gateway has a demo, and most never use it: the agent and the text call parser are loaded with the first
        # request.
        from toolglot.upstream.demo.agent import answer
        from toolglot.upstream.demo.text_model import answer_as_text, read_text_request
        from toolglot.upstream.demo.turn import read_turn

        text_format = demo_format(request.model)
        understood = request if text_format is None else read_text_request(request, text_format)
        faults = parse_faults(read_turn(understood).wish)
        if faults.status:
            return self._refuse(make_error(faults.status), faults)
        if faults.is_fault and not request.stream:
            return self._refuse(STREAM_FAULT, faults)
        answered = answer(request) if text_format is None else answer_as_text(request, understood, text_format)
        response = self._sign(replace(answered, created=int(self._clock())))
        if request.stream:
            encoder = self._dialect.stream_encoder(request, Receipt())
            events = {"content-type": self._dialect.stream.framing.media_type}
            return self._reply(200, events, stream_pieces(response, encoder, faults), faults)
        body = self._dialect.encode_response(response, request, Receipt())
        return self._whole(body[: len(body) // 2] if faults.is_cut else body, faults)

    def _sign(self, response: Response) -> Response:
        """Add the opaque state that answers of this dialect have, so that its round trip can be observed."""
        slot = self._dialect.state.slot
        if slot is None:
            return response
        places = _SIGNED_INDICES.get(self._dialect.name, _reasoning_indices)(response)

        content = list(response.content)
        for place in places:
            block = content[place]
            assert isinstance(block, (Thinking, ToolCall, Text))
            said = block.arguments if isinstance(block, ToolCall) else block.text
            content[place] = with_native(block, self._dialect.name, **{slot: digest("demo", said)[:44]})
        return replace(response, content=tuple(content))

    def _whole(self, body: bytes, faults: InjectedFaults = NO_FAULTS) -> DemoReply:
        return self._reply(200, {**_JSON, "content-length": str(len(body))}, [body], faults)

    def _refuse(self, error: ApiError, faults: InjectedFaults = NO_FAULTS) -> DemoReply:
        written: HttpError = self._dialect.encode_error(error)
        headers = {**_JSON, **{name.lower(): value for name, value in written.headers.items()}}
        return self._reply(written.status, headers, [written.body], faults)

    def _reply(
        self, status: int, headers: Mapping[str, str], pieces: Iterable[bytes], faults: InjectedFaults
    ) -> DemoReply:
        silence = self._pace.silence if faults.is_slow else 0.0
        return DemoReply(status, headers, pieces, pace=self._pace, silence=silence, is_cut=faults.is_cut)


def _reasoning_indices(response: Response) -> list[int]:
    return [place for place, block in enumerate(response.content) if isinstance(block, Thinking)]


def _gemini_signed_indices(response: Response) -> list[int]:
    """Return the indices of the parts that Gemini signs: the first call of a step, or the last part of an answer
    without calls. It never signs thoughts. Since its third generation, calls are signed whether thoughts are shown or
    not: https://ai.google.dev/gemini-api/docs/thought-signatures"""
    calls = [place for place, block in enumerate(response.content) if isinstance(block, ToolCall)]
    if not _reasoning_indices(response):
        return calls[:1] if _SIGNS_CALLS.search(response.model) else []
    return calls[:1] or [len(response.content) - 1]


_SIGNS_CALLS = re.compile(r"(^|/)gemini-([3-9]|\d\d)")
_SIGNED_INDICES: dict[str, Callable[[Response], list[int]]] = {"gemini": _gemini_signed_indices}
"""The location of the model's state in an API; by default on the reasoning."""
