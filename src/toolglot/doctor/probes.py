"""What a model can do, found out by asking it: does it answer, stream, call tools, several at once, and see images?

Each probe is one or two small requests in the upstream's own dialect. They cost a few hundred tokens for each model.
A model that does not call tools natively is asked for calls as text, in the format that `auto` would choose for it.
"""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolglot.doctor.finding import Finding, fail, ok, warn
from toolglot.doctor.upstreams import shown
from toolglot.errors import ApiError, DecodeError, UpstreamError
from toolglot.events import Fold
from toolglot.ir import Media, Message, Request, Response, Source, Text, Tool, ToolCall, ToolResult
from toolglot.receipt import Receipt
from toolglot.routing import NATIVE, Target
from toolglot.textcalls.settings import TextCalls
from toolglot.upstream.exchange import make_exchange
from toolglot.upstream.fetch import FetchedAnswer, fetch
from toolglot.upstream.tool_mode import KnownToolMode, refuses_tools, text_calls_for
from toolglot.upstream.transport import Timeouts, TransportError
from toolglot.upstream.upstream import Upstream
from toolglot.wire import json

PATIENCE = Timeouts(connect=5.0, first_byte=120.0, idle=60.0)
MAX_ANSWER = 4 * 1024 * 1024
OUTPUT_TOKENS = 1024
"""Room for a model that thinks before it answers; most answers have ten."""

TOOL_ADVICE = {
    "vllm": "start vLLM with --enable-auto-tool-choice and the model's --tool-call-parser",
    "llamacpp": "start llama-server with --jinja, and with a chat template that knows tools",
    "ollama": "choose a model that ollama.com lists under `tools`",
    "sglang": "start SGLang with the model's --tool-call-parser",
}

ROUTE_ADVICE = "route the names that agents ask for to another model"
AUTO_ADVICE = f'`tools = "auto"` in the model\'s section, which tries calls as text; or {ROUTE_ADVICE}'
RESCUE_ADVICE = "`rescue = true` in its section, which picks such calls out of the text"
PROMPT_ADVICE = f"the tools were in its prompt alone: look into the server's log, or {ROUTE_ADVICE}"
NO_ADVICE = "nothing has to be done: clients get native calls"

WEATHER = Tool(
    name="get_weather",
    description="Tells the weather in one city.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string", "description": "The name of the city"}},
        "required": ["city"],
    },
)


class Model(Struct, frozen=True):
    """A model of an upstream, as the router describes it."""

    upstream: Upstream
    target: Target
    vendor: str | None = None
    text_calls: TextCalls | None = None
    """How its calls are written as text, if they are."""

    @property
    def title(self) -> str:
        return f"{self.upstream.name}/{self.target.model}"


class ProbeError(Exception):
    """The request failed. The message has no key in it."""

    def __init__(self, message: str, error: ApiError | None = None) -> None:
        super().__init__(message)
        self.refuses_tools = error is not None and refuses_tools(error)


class Probed(Struct, frozen=True):
    """What came of probing a model: `tools` is what is to be remembered of it, None when it is not clear."""

    model: Model
    findings: tuple[Finding, ...]
    tools: KnownToolMode | None = None


# ── asking ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def answer(model: Model, request: Request) -> Response:
    """The model's answer, whole or streamed as the request wants. Raises `ProbeError`."""
    dialect = model.upstream.dialect
    exchange = make_exchange(dialect, model.upstream, model.target, text_calls=model.text_calls)
    sent = exchange.rewrite(request)
    body = dialect.encode_request(sent, exchange.receipt)
    headers = {"accept": dialect.stream.framing.media_type} if request.stream else {}
    call = replace(model.upstream.call(exchange.path, body, headers), timeouts=PATIENCE)
    try:
        told = _read(model.upstream, await fetch(model.upstream.transport, call, MAX_ANSWER), request.stream)
        return told if model.text_calls is None else exchange.restore(told)
    except TransportError as error:
        raise ProbeError(str(error)) from None
    except UpstreamError as error:
        raise ProbeError(shown(error.error.message, model.upstream)) from None
    except DecodeError as error:
        raise ProbeError(f"the answer is no {dialect.title}: {shown(str(error), model.upstream)}") from None


def _read(upstream: Upstream, told: FetchedAnswer, stream: bool) -> Response:
    if not 200 <= told.status < 300:
        error = upstream.dialect.decode_error(told.status, told.headers, told.body)
        raise ProbeError(f"status {told.status}: {shown(error.message, upstream)}", error)
    if not stream:
        return upstream.dialect.decode_response(told.body)
    is_json = told.headers.get("content-type", "").startswith("application/json")
    if is_json and not upstream.dialect.stream.framing.is_stream(told.body):
        raise ProbeError("it answers as a whole where a stream was asked for")
    decoder, fold = upstream.dialect.stream_decoder(Receipt()), Fold()
    for event in (*decoder.feed(told.body), *decoder.close()):
        fold.add(event)
    if fold.fault is not None:
        raise UpstreamError(fold.fault)
    return fold.response()


def _request(*content: Text | Media, tools: tuple[Tool, ...] = (), stream: bool = False) -> Request:
    message = Message(role="user", content=content)
    return Request(model="", messages=(message,), tools=tools, stream=stream, max_output_tokens=OUTPUT_TOKENS)


def _text(response: Response) -> str:
    return "".join(block.text for block in response.content if isinstance(block, Text)).strip()


def _calls(response: Response) -> list[ToolCall]:
    return [block for block in response.content if isinstance(block, ToolCall) and block.complete]


# ── the probes ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def answers(model: Model) -> Finding:
    response = await answer(model, _request(Text(text="Reply with one word: ready")))
    if not response.content:
        return warn("answers", f"with nothing; it stopped for the reason {response.stop.reason!r}", subject=model.title)
    return ok("answers", "yes", model.title)


async def streams(model: Model) -> Finding:
    await answer(model, _request(Text(text="Count from one to five, in words."), stream=True))
    return ok("streams", "yes", model.title)


async def calls_tools(model: Model) -> Finding:
    """A call, and the answer once the result is there."""
    asked = _request(Text(text="What is the weather in Paris? Use the tool."), tools=(WEATHER,))
    response = await answer(model, asked)
    calls = [call for call in _calls(response) if call.name == WEATHER.name]
    if not calls:
        if WEATHER.name in _text(response):
            return _named_in_text(model)
        return warn("tools", "it was offered one and did not call it", _tool_advice(model), model.title)
    if problem := _wrong_arguments(calls[0]):
        return warn("tools", f"its call is wrong: {problem}", _tool_advice(model), model.title)
    results = tuple(ToolResult(call_id=call.id, name=call.name, content=(Text(text="sunny, 18 °C"),)) for call in calls)
    turns = (Message(role="assistant", content=response.content), Message(role="tool", content=results))
    told = await answer(model, replace(asked, messages=(*asked.messages, *turns)))
    if not told.content:
        return warn("tools", "it calls them, and says nothing to the result", _tool_advice(model), model.title)
    how = "" if model.text_calls is None else f" as text ({model.text_calls.format})"
    return ok("tools", f"it calls them{how}, and takes the result", model.title)


def _wrong_arguments(call: ToolCall) -> str | None:
    try:
        arguments = json.decode(call.arguments)
    except DecodeError:
        return "its arguments are not JSON"
    city = arguments.get("city") if isinstance(arguments, Mapping) else None
    return None if isinstance(city, str) else "its arguments do not fit the schema"


def _named_in_text(model: Model) -> Finding:
    """The tool's name is in the answer, and no call."""
    if model.text_calls is not None:
        return warn("tools", "it names the tool, and not in the form it was told", _tool_advice(model), model.title)
    ways = [_tool_advice(model), None if model.target.rescue else RESCUE_ADVICE]
    return warn("tools", "it writes its calls into the text", _either(*ways), model.title)


def _tool_advice(model: Model) -> str | None:
    """What to do when no call comes: about the format where calls are text, else about the server.

    With `auto` a model without native calls is asked for text next, and what is to be done then is told there.
    """
    if model.text_calls is not None:
        return _another_format(model.text_calls.format)
    own = TOOL_ADVICE.get(model.vendor or "")
    return _either(own, AUTO_ADVICE) if model.target.tools == NATIVE else own


def _failure_advice(model: Model) -> str | None:
    """What to do when the request with tools fails."""
    return _tool_advice(model) if model.text_calls is None else PROMPT_ADVICE


def _another_format(name: str) -> str:
    other = "hermes_json" if name == "markdown_json" else "markdown_json"
    return f'try another format, such as `tools = "{other}"` in the model\'s section; if none works, {ROUTE_ADVICE}'


def _either(*ways: str | None) -> str | None:
    return "; or ".join(way for way in ways if way) or None


async def calls_as_text(model: Model) -> Finding:
    """The same as `calls_tools` of a model whose calls are text."""
    assert model.text_calls is not None
    name = model.text_calls.format
    try:
        found = await calls_tools(model)
    except ProbeError as error:
        return warn("text", f"asked for calls as text ({name}), it fails: {error}", PROMPT_ADVICE, model.title)
    if found.status == "ok":
        return ok("text", f"asked for calls as text ({name}), it writes them, and takes the result", model.title)
    return warn("text", f"asked for calls as text ({name}): {found.what}", found.advice, model.title)


async def calls_in_parallel(model: Model) -> Finding:
    asked = "What is the weather in Paris and in Rome? Call the tool for both cities at once."
    calls = _calls(await answer(model, _request(Text(text=asked), tools=(WEATHER,))))
    if len(calls) > 1:
        return ok("parallel", f"{len(calls)} calls in one turn", model.title)
    return warn("parallel", "one call a turn: agents take more turns with it", subject=model.title)


async def sees_images(model: Model) -> Finding:
    picture = Media(kind="image", source=Source("base64", b64encode(png(64, (255, 0, 0))).decode(), "image/png"))
    asked = _request(picture, Text(text="Which colour is this picture? One word."))
    if "red" in _text(await answer(model, asked)).lower():
        return ok("images", "it sees them", model.title)
    return warn("images", "it takes them, and does not tell what is on them", subject=model.title)


def png(size: int, colour: tuple[int, int, int]) -> bytes:
    """A square in one colour."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes(colour) * size) * size)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", rows) + part(b"IEND", b"")


Probe: TypeAlias = Callable[[Model], Awaitable[Finding]]

PROBES: dict[str, tuple[Probe, Callable[..., Finding], str]] = {
    "answers": (answers, fail, "is the model's name right, and does the key have access to it?"),
    "streams": (streams, fail, "agents stream: choose a server or a model that does"),
    "tools": (calls_tools, fail, ""),
    "parallel": (calls_in_parallel, warn, "calls come one by one"),
    "images": (sees_images, warn, "requests with images fail: route them to another model"),
}
"""Each with what its failure is worth, and what to do then. The first one decides whether the others are tried."""


async def probe(model: Model) -> Probed:
    """All probes, in order."""
    model = replace(model, text_calls=_configured(model))
    findings: list[Finding] = []
    tools: KnownToolMode | None = None
    for check, (run, failed, advice) in PROBES.items():
        refused = False
        try:
            finding = await run(model)
        except ProbeError as error:
            refused = error.refuses_tools
            finding = failed(check, f"no: {error}", advice or _failure_advice(model), model.title)
        if check != "tools" or model.text_calls is not None or model.target.tools == NATIVE:
            findings.append(finding)
        elif finding.status == "ok":
            findings.append(finding)
            tools = "native"
        else:
            model, told, tools = await _otherwise(model, finding, refused)
            findings += told
        if check == "answers" and finding.status == "fail":
            break
    return Probed(model, tuple(findings), tools)


def _configured(model: Model) -> TextCalls | None:
    """Where the choice is left to us, native tools are tried first."""
    configured = text_calls_for(model.upstream, model.target)
    return None if configured is not None and configured.rescue else configured


async def _otherwise(
    model: Model, finding: Finding, refused: bool
) -> tuple[Model, list[Finding], KnownToolMode | None]:
    """What becomes of a model that has failed with native tools: it is tried with text."""
    as_text = replace(model, text_calls=text_calls_for(model.upstream, model.target, "text"))
    assert as_text.text_calls is not None
    followed = await calls_as_text(as_text)
    if followed.status != "ok":
        return (as_text, [finding, followed], "text") if refused else (model, [finding, followed], None)
    name = as_text.text_calls.format
    if model.upstream.native_tools and not refused:
        # The gateway believes such a vendor's row until a request is refused.
        named = f'`tools = "{name}"` in the model\'s section: calls as text work'
        return model, [replace(finding, advice=_either(finding.advice, named)), followed], None
    use = f"no native tools ({finding.what}): `auto` will use text calls in {name}"
    own = TOOL_ADVICE.get(model.vendor or "")
    advice = f"{NO_ADVICE}; for the server's own, {own}" if own else NO_ADVICE
    return as_text, [warn("tools", use, advice, model.title), followed], "text"
