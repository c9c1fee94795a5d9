"""Probe what a model can do: answer, stream, call tools, call several in parallel, and see images.

Each probe is one or two small requests in the upstream's own dialect. They cost a few hundred tokens per model. A model
that does not call tools natively is asked for calls as text, in the format that `auto` would choose for it.
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
from toolglot.doctor.upstreams import safe_quote
from toolglot.errors import ApiError, DecodeError, UpstreamError
from toolglot.events import Fold
from toolglot.ir import Media, Message, Request, Response, Source, Text, Tool, ToolCall, ToolResult
from toolglot.receipt import Receipt
from toolglot.routing import NATIVE, Target
from toolglot.textcalls.settings import TextCalls
from toolglot.upstream.exchange import make_exchange
from toolglot.upstream.tool_mode import KnownToolMode, refuses_tools, text_calls_for
from toolglot.upstream.transport import FetchedAnswer, Timeouts, TransportError, fetch
from toolglot.upstream.upstream import Upstream
from toolglot.wire import json

PROBE_TIMEOUT = Timeouts(connect=5.0, first_byte=120.0, idle=60.0)
MAX_ANSWER = 4 * 1024 * 1024
OUTPUT_TOKENS = 1024
"""Room for a model that thinks before it answers; most answers have ten."""

TOOL_ADVICE = {
    "vllm": "start vLLM with --enable-auto-tool-choice and the model's --tool-call-parser",
    "llamacpp": "start llama-server with --jinja, and with a chat template that knows tools",
    "ollama": "choose a model that ollama.com lists under `tools`",
    "sglang": "start SGLang with the model's --tool-call-parser",
}

ROUTE_ADVICE = "route the requested model names to another model"
AUTO_ADVICE = f'`tools = "auto"` in the model\'s section, to try text calls; or {ROUTE_ADVICE}'
RESCUE_ADVICE = "`rescue = true` in its section, to extract such calls from the text"
PROMPT_ADVICE = f"the tools were only in its prompt: check the server's log, or {ROUTE_ADVICE}"
NO_ADVICE = "no action needed: clients get native calls"

WEATHER = Tool(
    name="get_weather",
    description="Tells the weather in one city.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string", "description": "The name of the city"}},
        "required": ["city"],
    },
)


class ProbedModel(Struct, frozen=True):
    """A model of an upstream, as the router describes it."""

    upstream: Upstream
    target: Target
    vendor: str | None = None
    text_calls: TextCalls | None = None
    """The text format of its calls, if they are text."""

    @property
    def title(self) -> str:
        return f"{self.upstream.name}/{self.target.model}"


class ProbeError(Exception):
    """The request failed. The message contains no key."""

    def __init__(self, message: str, error: ApiError | None = None) -> None:
        super().__init__(message)
        self.refuses_tools = error is not None and refuses_tools(error)


class ProbeResult(Struct, frozen=True):
    """The result of probing a model. `tools` is the verdict to store; None if it is unclear."""

    model: ProbedModel
    findings: tuple[Finding, ...]
    tools: KnownToolMode | None = None


# ── asking ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def ask_model(model: ProbedModel, request: Request) -> Response:
    """Return the model's answer, whole or streamed as the request says. Raises `ProbeError`."""
    dialect = model.upstream.dialect
    exchange = make_exchange(dialect, model.upstream, model.target, text_calls=model.text_calls)
    sent = exchange.rewrite(request)
    body = dialect.encode_request(sent, exchange.receipt)
    headers = {"accept": dialect.stream.framing.media_type} if request.stream else {}
    call = replace(model.upstream.call(exchange.path, body, headers), timeouts=PROBE_TIMEOUT)
    try:
        told = _read_answer(model.upstream, await fetch(model.upstream.transport, call, MAX_ANSWER), request.stream)
        return told if model.text_calls is None else exchange.restore(told)
    except TransportError as error:
        raise ProbeError(str(error)) from None
    except UpstreamError as error:
        raise ProbeError(safe_quote(error.error.message, model.upstream)) from None
    except DecodeError as error:
        raise ProbeError(f"the answer is not {dialect.title}: {safe_quote(str(error), model.upstream)}") from None


def _read_answer(upstream: Upstream, told: FetchedAnswer, stream: bool) -> Response:
    if not 200 <= told.status < 300:
        error = upstream.dialect.decode_error(told.status, told.headers, told.body)
        raise ProbeError(f"status {told.status}: {safe_quote(error.message, upstream)}", error)
    if not stream:
        return upstream.dialect.decode_response(told.body)
    is_json = told.headers.get("content-type", "").startswith("application/json")
    if is_json and not upstream.dialect.stream.framing.is_stream(told.body):
        raise ProbeError("it sends a complete answer instead of a stream")
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


async def probe_answer(model: ProbedModel) -> Finding:
    response = await ask_model(model, _request(Text(text="Reply with one word: ready")))
    if not response.content:
        return warn("answers", f"the answer is empty; stop reason: {response.stop.reason!r}", subject=model.title)
    return ok("answers", "yes", model.title)


async def probe_stream(model: ProbedModel) -> Finding:
    await ask_model(model, _request(Text(text="Count from one to five, in words."), stream=True))
    return ok("streams", "yes", model.title)


async def probe_tools(model: ProbedModel) -> Finding:
    """Probe a call, and the answer after its result."""
    asked = _request(Text(text="What is the weather in Paris? Use the tool."), tools=(WEATHER,))
    response = await ask_model(model, asked)
    calls = [call for call in _calls(response) if call.name == WEATHER.name]
    if not calls:
        if WEATHER.name in _text(response):
            return _no_call_finding(model)
        return warn("tools", "it did not call the offered tool", _tool_advice(model), model.title)
    if problem := _wrong_arguments(calls[0]):
        return warn("tools", f"its call is invalid: {problem}", _tool_advice(model), model.title)
    results = tuple(ToolResult(call_id=call.id, name=call.name, content=(Text(text="sunny, 18 °C"),)) for call in calls)
    turns = (Message(role="assistant", content=response.content), Message(role="tool", content=results))
    told = await ask_model(model, replace(asked, messages=(*asked.messages, *turns)))
    if not told.content:
        return warn("tools", "it calls them but does not answer after the result", _tool_advice(model), model.title)
    how = "" if model.text_calls is None else f" as text ({model.text_calls.format})"
    return ok("tools", f"it calls them{how} and uses the result", model.title)


def _wrong_arguments(call: ToolCall) -> str | None:
    try:
        arguments = json.decode(call.arguments)
    except DecodeError:
        return "its arguments are not JSON"
    city = arguments.get("city") if isinstance(arguments, Mapping) else None
    return None if isinstance(city, str) else "its arguments do not fit the schema"


def _no_call_finding(model: ProbedModel) -> Finding:
    """Describe an answer that contains the tool's name, but no call."""
    if model.text_calls is not None:
        return warn("tools", "it names the tool, but not in the requested format", _tool_advice(model), model.title)
    ways = [_tool_advice(model), None if model.target.rescue else RESCUE_ADVICE]
    return warn("tools", "it writes its calls into the text", _join_advice(*ways), model.title)


def _tool_advice(model: ProbedModel) -> str | None:
    """Return advice for a missing call: on the format if calls are text, otherwise on the server. With `auto`, a model
    without native calls is probed with text next, which gives its own advice.
    """
    if model.text_calls is not None:
        return _other_format_advice(model.text_calls.format)
    own = TOOL_ADVICE.get(model.vendor or "")
    return _join_advice(own, AUTO_ADVICE) if model.target.tools == NATIVE else own


def _failure_advice(model: ProbedModel) -> str | None:
    """Return advice for a failed request with tools."""
    return _tool_advice(model) if model.text_calls is None else PROMPT_ADVICE


def _other_format_advice(name: str) -> str:
    other = "hermes_json" if name == "markdown_json" else "markdown_json"
    return f'try another format, such as `tools = "{other}"` in the model\'s section; if none works, {ROUTE_ADVICE}'


def _join_advice(*ways: str | None) -> str | None:
    return "; or ".join(way for way in ways if way) or None


async def probe_text_tools(model: ProbedModel) -> Finding:
    """Probe the tools as `probe_tools` does, for a model whose calls are text."""
    assert model.text_calls is not None
    name = model.text_calls.format
    try:
        found = await probe_tools(model)
    except ProbeError as error:
        return warn("text", f"text calls ({name}) fail: {error}", PROMPT_ADVICE, model.title)
    if found.status == "ok":
        return ok("text", f"text calls ({name}) work: it writes them and uses the result", model.title)
    return warn("text", f"text calls ({name}): {found.what}", found.advice, model.title)


async def probe_parallel_calls(model: ProbedModel) -> Finding:
    asked = "What is the weather in Paris and in Rome? Call the tool for both cities at once."
    calls = _calls(await ask_model(model, _request(Text(text=asked), tools=(WEATHER,))))
    if len(calls) > 1:
        return ok("parallel", f"{len(calls)} calls in one turn", model.title)
    return warn("parallel", "one call per turn: agents need more turns", subject=model.title)


async def probe_images(model: ProbedModel) -> Finding:
    picture = Media(kind="image", source=Source("base64", b64encode(make_png(64, (255, 0, 0))).decode(), "image/png"))
    asked = _request(picture, Text(text="Which colour is this picture? One word."))
    if "red" in _text(await ask_model(model, asked)).lower():
        return ok("images", "it sees them", model.title)
    return warn("images", "it accepts them but does not describe them", subject=model.title)


def make_png(size: int, colour: tuple[int, int, int]) -> bytes:
    """Return a PNG of a square in one color."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes(colour) * size) * size)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", rows) + part(b"IEND", b"")


Probe: TypeAlias = Callable[[ProbedModel], Awaitable[Finding]]

PROBES: dict[str, tuple[Probe, Callable[..., Finding], str]] = {
    "answers": (probe_answer, fail, "check the model's name and the key's access to it"),
    "streams": (probe_stream, fail, "agents need streaming: choose another server or model"),
    "tools": (probe_tools, fail, ""),
    "parallel": (probe_parallel_calls, warn, "calls arrive one at a time"),
    "images": (probe_images, warn, "requests with images fail: route them to another model"),
}
"""Each with the severity of a failure, and advice. The others run only if the first one succeeds."""


async def probe_model(model: ProbedModel) -> ProbeResult:
    """Run all probes, in order."""
    model = replace(model, text_calls=_initial_text_calls(model))
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
            model, told, tools = await _probe_as_text(model, finding, refused)
            findings += told
        if check == "answers" and finding.status == "fail":
            break
    return ProbeResult(model, tuple(findings), tools)


def _initial_text_calls(model: ProbedModel) -> TextCalls | None:
    """Return the initial mode of tool calls. With `auto`, native tools are tried first."""
    configured = text_calls_for(model.upstream, model.target)
    return None if configured is not None and configured.rescue else configured


async def _probe_as_text(
    model: ProbedModel, finding: Finding, refused: bool
) -> tuple[ProbedModel, list[Finding], KnownToolMode | None]:
    """Probe a model with text after it failed with native tools."""
    as_text = replace(model, text_calls=text_calls_for(model.upstream, model.target, "text"))
    assert as_text.text_calls is not None
    followed = await probe_text_tools(as_text)
    if followed.status != "ok":
        return (as_text, [finding, followed], "text") if refused else (model, [finding, followed], None)
    name = as_text.text_calls.format
    if model.upstream.native_tools and not refused:
        # The gateway trusts such a vendor's row until a request is refused.
        named = f'`tools = "{name}"` in the model\'s section: calls as text work'
        return model, [replace(finding, advice=_join_advice(finding.advice, named)), followed], None
    use = f"no native tools ({finding.what}): `auto` will use text calls ({name})"
    own = TOOL_ADVICE.get(model.vendor or "")
    advice = f"{NO_ADVICE}; for the server's own, {own}" if own else NO_ADVICE
    return as_text, [warn("tools", use, advice, model.title), followed], "text"
