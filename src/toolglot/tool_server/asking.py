"""The tool `ask_model`: a question to any model that the gateway's configuration knows. No tools, bounded in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from secrets import token_hex
from typing import Any

from msgspec import UNSET, UnsetType

from toolglot.dialects import DEFAULT, find
from toolglot.errors import DecodeError, LossError, MissingExtraError, RefusedError, StreamError, UpstreamError
from toolglot.events import Close, Delta, Event, Finish, Fold, Open
from toolglot.gateway.errors import FailedError
from toolglot.ir import Message, Refusal, Request, Response, Stop, Text, Usage
from toolglot.routing import UnknownModelError
from toolglot.server.gateway import Gateway
from toolglot.server.model import GatewayModel
from toolglot.server.record import Record
from toolglot.server.security import redact
from toolglot.tool_server import arguments as forms
from toolglot.tool_server.arguments import AskModel, CallError
from toolglot.tool_server.tools import Told, cut
from toolglot.tool_server.translating import bytes_of, short

NAME = "ask_model"
CLIENT = DEFAULT
"""The dialect that stands for whoever asks; it has no forms of its own in plain text."""
AT_ONCE = 8
"""Questions that are asked at the same time; the others wait, within their own time."""
MAX_ANSWER = 1_000_000
"""Characters of an answer."""
TELLS = 0.5
"""Seconds between two words on how far an answer is."""
MAX_NAMES = 50
"""Models that the description of the tool names."""

Progress = Callable[[float, str], Awaitable[None]]


class Asking:
    """Questions to the models of one gateway. `observe` is told of each when it is over."""

    def __init__(
        self, gateway: Gateway, timeout: float, observe: Callable[[Record], None] = lambda record: None
    ) -> None:
        self._gateway = gateway
        self._timeout = timeout
        self._observe = observe
        self._places = asyncio.Semaphore(AT_ONCE)

    @property
    def description(self) -> str:
        names = self._gateway.router.names()
        told = ", ".join(names[:MAX_NAMES]) + (" …" if len(names) > MAX_NAMES else "")
        return (
            "Asks another language model and returns its answer: the text, why it stopped, and its usage. It gets no "
            f"tools, and has {self._timeout:g} seconds. Models known by name: {told}; any other name that the "
            "configuration routes will do."
        )

    async def ask(self, arguments: Mapping[str, Any], progress: Progress) -> Told:
        """The model's answer. Raises `CallError`."""
        call = forms.read(arguments, AskModel)
        request = _request(call)
        loop = asyncio.get_running_loop()
        record = Record(id=f"req_{token_hex(12)}", method="MCP", path=NAME, route=NAME, started=loop.time())
        record.model, record.stream, record.client = call.model, True, CLIENT
        try:
            async with asyncio.timeout(self._timeout), self._places:
                result = await self._answer(request, record, progress)
            record.status = 200
            return result
        except TimeoutError:
            raise self._failed(record, "timeout", f"no whole answer came within {self._timeout:g} seconds") from None
        except FailedError as error:
            raise self._failed(record, error.error.kind, error.error.message) from None
        except UnknownModelError as error:
            raise self._failed(record, "not_found", f"model: {error}") from None
        except (DecodeError, LossError, RefusedError, UpstreamError, MissingExtraError, StreamError) as error:
            raise self._failed(record, "bad_request", str(error)) from None
        except asyncio.CancelledError:
            record.cancelled = True
            raise
        finally:
            record.ended = loop.time()
            self._observe(record)

    def _failed(self, record: Record, kind: str, message: str) -> CallError:
        """What went wrong, without a secret that somebody may have repeated."""
        message = short(redact(message, self._gateway.secrets))
        record.error, record.message = kind, message
        return CallError(message)

    async def _answer(self, request: Request, record: Record, progress: Progress) -> Told:
        model = GatewayModel(self._gateway, find(CLIENT), record)
        heard = Heard()
        loop = asyncio.get_running_loop()
        next_word = loop.time() + TELLS
        async with aclosing(model.ask(request)) as answer:
            async for events in answer:
                heard.add(events)
                if heard.length > MAX_ANSWER:
                    heard.cut()
                    break
                if loop.time() >= next_word:
                    next_word = loop.time() + TELLS
                    await progress(float(heard.length), f"{heard.length} characters so far")
        response = heard.response()
        record.usage, record.stop = response.usage, response.stop.reason
        return _told(response, record.upstream_model or request.model, heard.cut_off)


class Heard:
    """An answer as it comes, up to a length."""

    def __init__(self) -> None:
        self.length = 0
        """Characters, those of reasoning too."""
        self.cut_off = ""
        self._fold = Fold()
        self._open: dict[int, None] = {}

    def add(self, events: Sequence[Event]) -> None:
        for event in events:
            self._fold.add(event)
            match event:
                case Open(index=index):
                    self._open[index] = None
                case Close(index=index):
                    self._open.pop(index, None)
                case Delta(text=text):
                    self.length += len(text)

    def cut(self) -> None:
        """What follows is not listened to."""
        self.cut_off = f"the answer had more than {MAX_ANSWER} characters, and was not read to its end"
        for index in self._open:
            self._fold.add(Close(index=index))
        self._fold.add(Finish(stop=Stop("length")))

    def response(self) -> Response:
        """Raises `FailedError` for an answer that has ended in an error."""
        if self._fold.fault is not None:
            raise FailedError(self._fold.fault)
        return self._fold.response()


def _request(call: AskModel) -> Request:
    said = [(each.role, each.content) for each in call.messages]
    said += [("user", call.prompt)] if call.prompt else []
    if not said:
        raise CallError("prompt: it is empty, and there are no messages")
    if said[-1][0] != "user":
        raise CallError("messages: the last one must be the user's, or give a prompt")
    system = [("system", call.system)] if call.system else []
    bytes_of([text for _, text in (*system, *said)], "prompt, system and messages")
    messages = tuple(Message(role=role, content=(Text(text=text),)) for role, text in (*system, *said))
    return Request(model=call.model, messages=messages, max_output_tokens=call.max_output_tokens or None, stream=True)


def _told(response: Response, model: str, cut_off: str) -> Told:
    text = "".join(block.text for block in response.content if isinstance(block, (Text, Refusal)))
    result = forms.Answered(text, response.stop.reason, response.model or model, _spent(response.usage), cut_off)
    ended = () if response.stop.reason == "end" else (f"Stop reason: {response.stop.reason}.",)
    missing = (f"Cut off: {cut_off}.",) if cut_off else ()
    return Told(result, (cut(text), *ended, *missing))


def _spent(usage: Usage | None) -> forms.Spent | UnsetType:
    if usage is None:
        return UNSET
    counts = {name: getattr(usage, name) for name in forms.Spent.__struct_fields__}
    return forms.Spent(**{name: count for name, count in counts.items() if count is not None})
