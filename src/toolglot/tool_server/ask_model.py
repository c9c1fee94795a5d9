"""The tool `ask_model`: ask any model in the gateway's configuration. No tools, limited time."""

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
from toolglot.gateway.gateway import Gateway
from toolglot.gateway.gateway_model import GatewayModel
from toolglot.gateway.request_record import RequestRecord
from toolglot.ir import Message, Refusal, Request, Response, Stop, Text, Usage
from toolglot.routing import UnknownModelError
from toolglot.server.security import redact
from toolglot.tool_server import arguments as forms
from toolglot.tool_server.arguments import AskModel, CallError
from toolglot.tool_server.tools import ToolOutput, cut_text
from toolglot.tool_server.translate_tool import bytes_of, shorten

NAME = "ask_model"
CLIENT = DEFAULT
"""The client dialect of the exchanges; it adds nothing of its own to plain text."""
MAX_CONCURRENT = 8
"""Maximum concurrent questions; others wait, within their own time limit."""
MAX_ANSWER = 1_000_000
"""Maximum characters of an answer."""
PROGRESS_INTERVAL = 0.5
"""Seconds between two progress reports."""
MAX_NAMES = 50
"""Maximum models that the tool's description names."""

Progress = Callable[[float, str], Awaitable[None]]


class ModelAsker:
    """Sends questions to the models of one gateway. `observe` is called at the end of each."""

    def __init__(
        self, gateway: Gateway, timeout: float, observe: Callable[[RequestRecord], None] = lambda record: None
    ) -> None:
        self._gateway = gateway
        self._timeout = timeout
        self._observe = observe
        self._places = asyncio.Semaphore(MAX_CONCURRENT)

    @property
    def description(self) -> str:
        names = self._gateway.router.names()
        told = ", ".join(names[:MAX_NAMES]) + (" …" if len(names) > MAX_NAMES else "")
        return (
            "Asks another language model and returns its answer: the text, why it stopped, and its usage. It gets no "
            f"tools, and has {self._timeout:g} seconds. Models known by name: {told}; any other name that the "
            "configuration routes works too."
        )

    async def ask(self, arguments: Mapping[str, Any], progress: Progress) -> ToolOutput:
        """Return the model's answer. Raises `CallError`."""
        call = forms.read_arguments(arguments, AskModel)
        request = _request(call)
        loop = asyncio.get_running_loop()
        record = RequestRecord(id=f"req_{token_hex(12)}", method="MCP", path=NAME, route=NAME, started=loop.time())
        record.model, record.stream, record.client = call.model, True, CLIENT
        try:
            async with asyncio.timeout(self._timeout), self._places:
                result = await self._answer(request, record, progress)
            record.status = 200
            return result
        except TimeoutError:
            raise self._make_error(
                record, "timeout", f"no whole answer came within {self._timeout:g} seconds"
            ) from None
        except FailedError as error:
            raise self._make_error(record, error.error.kind, error.error.message) from None
        except UnknownModelError as error:
            raise self._make_error(record, "not_found", f"model: {error}") from None
        except (DecodeError, LossError, RefusedError, UpstreamError, MissingExtraError, StreamError) as error:
            raise self._make_error(record, "bad_request", str(error)) from None
        except asyncio.CancelledError:
            record.cancelled = True
            raise
        finally:
            record.ended = loop.time()
            self._observe(record)

    def _make_error(self, record: RequestRecord, kind: str, message: str) -> CallError:
        """Return the error for the caller, without secrets that it may repeat."""
        message = shorten(redact(message, self._gateway.secrets))
        record.error, record.message = kind, message
        return CallError(message)

    async def _answer(self, request: Request, record: RequestRecord, progress: Progress) -> ToolOutput:
        model = GatewayModel(self._gateway, find(CLIENT), record)
        heard = AnswerCollector()
        loop = asyncio.get_running_loop()
        next_word = loop.time() + PROGRESS_INTERVAL
        async with aclosing(model.ask(request)) as answer:
            async for events in answer:
                heard.add(events)
                if heard.length > MAX_ANSWER:
                    heard.cut()
                    break
                if loop.time() >= next_word:
                    next_word = loop.time() + PROGRESS_INTERVAL
                    await progress(float(heard.length), f"{heard.length} characters so far")
        response = heard.response()
        record.usage, record.stop = response.usage, response.stop.reason
        return _make_result(response, record.upstream_model or request.model, heard.cut_off)


class AnswerCollector:
    """Collects an answer as it arrives, up to a length."""

    def __init__(self) -> None:
        self.length = 0
        """Number of characters, including those of reasoning."""
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
        """Ignore further content."""
        self.cut_off = f"the answer had more than {MAX_ANSWER} characters, and was not read to its end"
        for index in self._open:
            self._fold.add(Close(index=index))
        self._fold.add(Finish(stop=Stop("length")))

    def response(self) -> Response:
        """Raises `FailedError` for an answer that ended with an error."""
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


def _make_result(response: Response, model: str, cut_off: str) -> ToolOutput:
    text = "".join(block.text for block in response.content if isinstance(block, (Text, Refusal)))
    result = forms.ModelAnswer(
        text, response.stop.reason, response.model or model, _token_usage(response.usage), cut_off
    )
    ended = () if response.stop.reason == "end" else (f"Stop reason: {response.stop.reason}.",)
    missing = (f"Cut off: {cut_off}.",) if cut_off else ()
    return ToolOutput(result, (cut_text(text), *ended, *missing))


def _token_usage(usage: Usage | None) -> forms.TokenUsage | UnsetType:
    if usage is None:
        return UNSET
    counts = {name: getattr(usage, name) for name in forms.TokenUsage.__struct_fields__}
    return forms.TokenUsage(**{name: count for name, count in counts.items() if count is not None})
