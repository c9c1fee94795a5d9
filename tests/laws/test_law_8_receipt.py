"""Law 8: what is not carried over stands in the receipt, and the receipt of a same-dialect path is empty."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_files import MODELS, Case, cases_with
from tests.documents import DOCUMENTS
from tests.exchanges import FOREIGN_PAIRS, NAMES, through
from tests.forms import form, forwards, is_json, text_of
from tests.laws.mutations import Path, at, paths, without
from tests.strategies import legal_ids, legal_names, tool_requests
from toolglot.dialects import DIALECTS
from toolglot.errors import ENDED_EARLY, DecodeError, UpstreamError
from toolglot.ir import (
    Block,
    Cache,
    Citation,
    Media,
    Message,
    Opaque,
    Reasoning,
    Refusal,
    Request,
    Response,
    ResponseFormat,
    Source,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
    replace,
)
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore
from toolglot.wire.json import escape_line_separators

NEEDLE = "n33dl3"


class Probe(NamedTuple):
    """A request with one thing in it that can be recognised: in the target's bytes, or in the receipt by its name."""

    field: str
    request: Request
    needles: tuple[str, ...]


TOOL = Tool(name="get_weather", parameters={"type": "object", "properties": {}})
BASE = Request(
    model="some-model",
    tools=(TOOL,),
    max_output_tokens=77,
    messages=(Message(role="user", content=(Text(text="Hello"),)),),
)


def in_user(*blocks: Any) -> Request:
    return replace(BASE, messages=(Message(role="user", content=(Text(text="Hello"), *blocks)),))


def in_assistant(*blocks: Any) -> Request:
    spoken = Message(role="assistant", content=(Text(text="Well"), *blocks))
    return replace(BASE, messages=(*BASE.messages, spoken, Message(role="user", content=(Text(text="So?"),))))


def in_result(**fields: Any) -> Request:
    call = Message(role="assistant", content=(ToolCall(id="call_1", name="get_weather", arguments="{}"),))
    result = Message(role="tool", content=(ToolResult(call_id="call_1", name="get_weather", **fields),))
    return replace(BASE, messages=(*BASE.messages, call, result))


def image(**fields: Any) -> Media:
    return Media(kind="image", source=Source("base64", NEEDLE, "image/png"), **fields)


PROBES = (
    Probe("parallel_tool_calls", replace(BASE, parallel_tool_calls=False), ("parallel",)),
    Probe("temperature", replace(BASE, temperature=0.123), ("0.123",)),
    Probe("top_p", replace(BASE, top_p=0.123), ("0.123",)),
    Probe("top_k", replace(BASE, top_k=7654), ("7654",)),
    Probe("seed", replace(BASE, seed=7654), ("7654",)),
    Probe("presence_penalty", replace(BASE, presence_penalty=0.123), ("0.123",)),
    Probe("frequency_penalty", replace(BASE, frequency_penalty=0.123), ("0.123",)),
    Probe("stop", replace(BASE, stop=(NEEDLE,)), (NEEDLE,)),
    Probe("candidates", replace(BASE, candidates=3), ('"n":3', '"candidateCount":3')),
    Probe(
        "response_format",
        replace(BASE, response_format=ResponseFormat(kind="json_schema", name="a", schema={"title": NEEDLE})),
        (NEEDLE,),
    ),
    Probe(
        "response_format",
        replace(BASE, response_format=ResponseFormat(kind="json")),
        ("json_object", "/json", '"format":"json"'),
    ),
    Probe("reasoning", replace(BASE, reasoning=Reasoning(effort="high")), ("high", "HIGH", "enabled")),
    Probe("reasoning", replace(BASE, reasoning=Reasoning(mode="on", budget_tokens=4321)), ("4321",)),
    Probe(
        "reasoning",
        replace(BASE, reasoning=Reasoning(mode="off")),
        ("none", "disabled", '"thinkingBudget":0', '"think":false'),
    ),
    Probe("verbosity", replace(BASE, verbosity="low"), ('"verbosity":"low"',)),
    Probe("user", replace(BASE, user=NEEDLE), (NEEDLE,)),
    Probe("metadata", replace(BASE, metadata={"key": NEEDLE}), (NEEDLE,)),
    Probe("service_tier", replace(BASE, service_tier="priority"), ("priority",)),
    Probe("cache", replace(BASE, cache=Cache()), ("cache_control",)),
    Probe("tool_choice", replace(BASE, tool_choice=ToolChoice(mode="required")), ("required", "any", "ANY")),
    Probe(
        "tool_choice",
        replace(BASE, tool_choice=ToolChoice(mode="required", names=("get_weather",))),
        ('"tool_choice"', '"allowedFunctionNames":["get_weather"]'),
    ),
    Probe(
        "tool_choice",
        replace(BASE, tool_choice=ToolChoice(mode="opaque", native={"novel": {"x": 1}})),
        ('"tool_choice"',),
    ),
    Probe("description", replace(BASE, tools=(replace(TOOL, description=NEEDLE),)), (NEEDLE,)),
    Probe("strict", replace(BASE, tools=(replace(TOOL, strict=True),)), ('"strict":true', "VALIDATED")),
    Probe("namespace", replace(BASE, tools=(replace(TOOL, namespace=NEEDLE),)), (NEEDLE,)),
    Probe("deferred", replace(BASE, tools=(TOOL, Tool(name=NEEDLE, deferred=True))), (NEEDLE,)),
    Probe("cache", replace(BASE, tools=(replace(TOOL, cache=Cache()),)), ("cache_control",)),
    Probe(
        "format",
        replace(BASE, tools=(Tool(name="edit", kind="custom", format={"type": "grammar", "definition": NEEDLE}),)),
        (NEEDLE,),
    ),
    Probe("tools", replace(BASE, tools=(TOOL, Opaque("novel", {"type": NEEDLE}))), (NEEDLE,)),
    Probe("content", in_user(Opaque("novel", {"type": NEEDLE})), (NEEDLE,)),
    Probe("content", in_user(Text(text="x", native={"novel": {NEEDLE: 1}})), (NEEDLE,)),
    Probe("cache", in_user(Text(text="x", cache=Cache())), ("cache_control", "prompt_cache_breakpoint")),
    Probe("content", in_user(Text(text="x", citations=(Citation(url=f"https://{NEEDLE}"),))), (NEEDLE,)),
    Probe("content", in_assistant(Text(text="x", citations=(Citation(url=f"https://{NEEDLE}"),))), (NEEDLE,)),
    Probe("content", in_assistant(Text(text="x", citations=(Citation(quote=NEEDLE),))), (NEEDLE,)),
    Probe("content", in_user(image()), (NEEDLE,)),
    Probe("content", in_user(image(detail="low")), ('"detail":"low"', "MEDIA_RESOLUTION_LOW")),
    Probe("content", in_user(Media(kind="image", source=Source("url", f"https://{NEEDLE}/a.png"))), (NEEDLE,)),
    Probe("content", in_user(Media(kind="image", source=Source("file", NEEDLE))), (NEEDLE,)),
    Probe("content", in_user(Media(kind="audio", source=Source("base64", NEEDLE, "audio/wav"))), (NEEDLE,)),
    Probe("content", in_user(Media(kind="video", source=Source("base64", NEEDLE, "video/mp4"))), (NEEDLE,)),
    Probe("content", in_user(Media(kind="document", source=Source("base64", NEEDLE, "application/pdf"))), (NEEDLE,)),
    Probe(
        "content", in_user(Media(kind="document", source=Source("text", NEEDLE, "text/plain"))), (NEEDLE, "bjMzZGwz")
    ),
    Probe(
        "content",
        in_user(Media(kind="document", source=Source("base64", "JVBERi0=", "application/pdf"), name=NEEDLE)),
        (NEEDLE,),
    ),
    Probe("content", in_assistant(Thinking(text=NEEDLE)), (NEEDLE,)),
    Probe("content", in_assistant(Thinking(text="", native={"novel": {"signature": NEEDLE}})), (NEEDLE,)),
    Probe("content", in_assistant(Refusal(text=NEEDLE)), (NEEDLE,)),
    Probe("content", in_assistant(image()), (NEEDLE,)),
    Probe("content", in_result(content=(image(),)), (NEEDLE,)),
    Probe("content", in_result(content=(Text(text="x"),), is_error=True), ("is_error", '"error"', "rror:")),
    Probe("content", in_result(content=(Text(text=NEEDLE),)), (NEEDLE,)),
    Probe("content", in_result(content=(Opaque("novel", {"type": NEEDLE}),)), (NEEDLE,)),
    Probe("messages", replace(BASE, messages=(*BASE.messages, Message(role=NEEDLE))), (NEEDLE,)),
    Probe(
        "messages", replace(BASE, messages=(*BASE.messages, Message(role="x", content=(Text(text=NEEDLE),)))), (NEEDLE,)
    ),
    Probe("native", replace(BASE, native={"novel": {NEEDLE: 1}}), (NEEDLE,)),
    Probe("native", replace(BASE, messages=(replace(BASE.messages[0], native={"novel": {NEEDLE: 1}}),)), (NEEDLE,)),
    Probe("native", replace(BASE, tools=(replace(TOOL, native={"novel": {NEEDLE: 1}}),)), (NEEDLE,)),
)


def probed(request: Request, target: str) -> tuple[str, set[str]]:
    source = next(name for name in NAMES if name != target)
    exchange = ExchangeCore(source, target, model=MODELS.get(target))
    encoded = DIALECTS[target].encode_request(exchange.rewrite(request), exchange.receipt)
    return text_of(target, "request", encoded), {str(line) for line in exchange.receipt}


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: f"{probe.field}-{PROBES.index(probe)}")
def test_a_field_is_carried_or_told(probe: Probe, target: str) -> None:
    encoded, lines = probed(probe.request, target)
    carried = any(needle in encoded for needle in probe.needles)
    assert carried or lines - probed(BASE, target)[1], encoded


# Members without a meaning of their own: they say how a document is written, or what kind of thing stands beside them.
NO_MEANING = {"type", "object", "role", "index", "mode", "logprobs", "status", "model", "stream", "format"}
DEFAULTS: set[tuple[str, Any]] = {
    ("strict", False),
    ("parallel_tool_calls", True),
    ("detail", "auto"),
    ("content", ""),
    ("output", ""),
    ("candidateCount", 1),
    ("service_tier", "auto"),
    ("store", False),
    ("media_type", "image/png"),
    ("media_type", "text/plain"),
    ("tool_choice", "auto"),
}
"""What the other side assumes anyhow."""
CHOICES_OF_ALL = ({"type": "auto"}, {"mode": "AUTO"}, {"functionCallingConfig": {"mode": "AUTO"}})
"""So does a wire that has no place for a choice of tools."""


def model_in_url(dialect: str) -> str | None:
    return MODELS.get(dialect, "some-model") if DIALECTS[dialect].request.model_in_path else None


def unsigned_in_url(dialect: str) -> str | None:
    """A model that takes calls without signatures: Gemini 3 refuses them, and there a call that has none is marked."""
    return "gemini-2.5-pro" if dialect == "gemini" else model_in_url(dialect)


def request_to(case: Case, target: str, document: Any) -> tuple[bytes, set[str]]:
    exchange = ExchangeCore(case.dialect, target, model=MODELS.get(target))
    encoded = exchange.request(form(case.dialect, "request").write(document), model=model_in_url(case.dialect))
    return encoded, {str(line) for line in exchange.receipt}


def response_to(case: Case, target: str, document: Any) -> tuple[bytes, set[str]]:
    exchange = ExchangeCore(target, case.dialect)
    return exchange.response(form(case.dialect, "response").write(document)), {str(line) for line in exchange.receipt}


SPEAKING = ("init", "agent_output", "agent_reasoning", "call_mcp_tool", "finished")


class Silence:
    """Which members of a document vanish: without them, neither the bytes nor the receipt are others."""

    def __init__(self, case: Case, target: str, kind: str) -> None:
        self.case, self.target, self.kind = case, target, kind
        self.document = case.value(kind)
        self.translated = request_to if kind == "request" else response_to
        self.encoded, self.lines = self.translated(case, target, self.document)
        self.carried = text_of(target, kind, self.encoded)
        self.told: set[Path] = set()

    def members(self) -> list[str]:
        looked_at = [path for path in paths(self.document) if path and not self._is_bookkeeping(path)]
        silent = [path for path in looked_at if self._vanishes(path)]
        return [
            f"{self.case.name}: {'.'.join(map(str, path))} = {str(at(self.document, path))[:60]}" for path in silent
        ]

    def _is_bookkeeping(self, path: Path) -> bool:
        """Does it stand in an event by which Warp's server keeps its tasks, and which says nothing to a client?"""
        if path[0] != "events" or len(path) == 1:
            return False
        event = json.dumps(at(self.document, path[:2]))
        return not any(f'"{kind}"' in event for kind in SPEAKING)

    def _vanishes(self, path: Path) -> bool:
        value, key = at(self.document, path), path[-1]
        can = DIALECTS[self.case.dialect].can
        cosmetic = can.receipt.cosmetic
        if any(
            at(self.document, path[: end + 1]) in can.receipt.assumed.get(str(name), ())
            for end, name in enumerate(path)
        ):
            return False
        if key in can.receipt.containers and isinstance(value, dict) and value.keys() <= cosmetic.keys():
            return False
        if key in NO_MEANING or value in (None, [], {}) or not cosmetic.keys().isdisjoint(map(str, path)):
            return False
        if path[-2:] == ("functionResponse", "name"):  # the call has told it
            return False
        if value in CHOICES_OF_ALL or (key == "modelVersion" and not is_json(self.target)):
            return False
        if not isinstance(value, dict | list) and (key, value) in DEFAULTS:
            return False
        if any(path[:length] in self.told for length in range(1, len(path))) or self._stands_there(value):
            return False
        try:
            encoded, lines = self.translated(self.case, self.target, without(self.document, path))
        except (DecodeError, UpstreamError):
            return False  # nothing can be said without it
        if self.lines - lines:
            self.told.add(path)
        return encoded == self.encoded and lines == self.lines

    def _stands_there(self, value: Any) -> bool:
        """An id that the other side would have derived from its place is carried all the same."""
        return isinstance(value, str) and json.dumps(value, ensure_ascii=False) in self.carried


@pytest.mark.parametrize(("source", "target"), FOREIGN_PAIRS)
def test_no_member_of_a_request_vanishes_in_silence(source: str, target: str) -> None:
    silent = [line for case in cases_with("request", source) for line in Silence(case, target, "request").members()]
    assert not silent, "\n".join(silent)


# A response repeats what was asked and adds up its own numbers; why it stopped shows in what it holds.
REPEATED = (
    "created",
    "temperature",
    "top_p",
    "tool_choice",
    "total_tokens",
    "finish",
    "stop_reason",
    "done_reason",
    "_details = {",
)
# One of these follows from the other and the total.
BY_TOTAL = {
    "openai_chat": ("usage.prompt_tokens =", "usage.completion_tokens ="),
    "openai_responses": ("usage.input_tokens =", "usage.output_tokens ="),
}
UNNAMED = {"ollama": (": id = ", "responseId = ", "'init'")}
"""Its answers have no ids, and nothing that could be asked for by one."""
NOTHING = (" = 0", " = ", "{'a': None}", "{'safetyRatings': []}")


@pytest.mark.parametrize(("source", "target"), FOREIGN_PAIRS)
def test_no_member_of_a_response_vanishes_in_silence(source: str, target: str) -> None:
    silent = [
        line
        for case in cases_with("response", source)
        for line in Silence(case, target, "response").members()
        if not any(word in line for word in (*REPEATED, *BY_TOTAL.get(source, ()), *UNNAMED.get(target, ())))
        and not line.endswith(NOTHING)
    ]
    assert not silent, "\n".join(silent)


def are_the_same(dialect: str, kind: str, encoded: bytes, raw: bytes) -> bool:
    """To the byte where bytes are forwarded, else in what they say."""
    said = form(dialect, kind).said
    return encoded == raw if forwards(dialect) else bool(said(encoded) == said(raw))


@pytest.mark.parametrize("dialect", NAMES)
@given(data=st.data())
def test_a_same_dialect_request_is_forwarded_or_told(dialect: str, data: st.DataObject) -> None:
    """Names and ids that the API itself would refuse are changed, and that is told."""
    wire = form(dialect, "request")
    raw = wire.write(data.draw(DOCUMENTS[dialect].requests))
    exchange = ExchangeCore(dialect, dialect)
    encoded = exchange.request(raw, model=model_in_url(dialect))
    if forwards(dialect):
        assert exchange.verbatim == (encoded == raw)
        assert bool(exchange.receipt) != exchange.verbatim
    else:
        assert exchange.receipt or wire.said(encoded) == wire.said(raw)


@pytest.mark.parametrize("dialect", NAMES)
@given(request=tool_requests(legal_names, legal_ids))
def test_a_legal_same_dialect_request_is_forwarded(dialect: str, request: Request) -> None:
    raw = DIALECTS[dialect].encode_request(request, Receipt())
    exchange = ExchangeCore(dialect, dialect)
    assert exchange.request(raw, model=unsigned_in_url(dialect)) == raw
    assert not exchange.receipt


@pytest.mark.parametrize("case", cases_with("request"), ids=lambda case: f"{case.dialect}/{case.name}")
def test_a_same_dialect_case_is_forwarded(case: Case) -> None:
    exchange = ExchangeCore(case.dialect, case.dialect)
    raw = case.read("request")
    model = unsigned_in_url if case.name == "full" else model_in_url
    encoded = exchange.request(raw, model=model(case.dialect))
    assert are_the_same(case.dialect, "request", encoded, raw), str(exchange.receipt)
    assert not exchange.receipt


@pytest.mark.parametrize("dialect", NAMES)
@given(data=st.data())
def test_a_same_dialect_response_is_forwarded_and_has_no_receipt(dialect: str, data: st.DataObject) -> None:
    raw = form(dialect, "response").write(data.draw(DOCUMENTS[dialect].responses))
    exchange = ExchangeCore(dialect, dialect)
    assert are_the_same(dialect, "response", exchange.response(raw), raw)
    assert not exchange.receipt


@pytest.mark.parametrize("dialect", NAMES)
@given(data=st.data())
def test_a_same_dialect_stream_is_forwarded_and_has_no_receipt(dialect: str, data: st.DataObject) -> None:
    stream = data.draw(DOCUMENTS[dialect].streams).encode()
    exchange = ExchangeCore(dialect, dialect)
    # Characters that some clients take for line ends are escaped. Nothing else changes.
    assert are_the_same(dialect, "stream", through(exchange, [stream]), escape_line_separators(stream))
    # That the upstream left its last event out is told: nothing else.
    assert [line for line in exchange.receipt if line.why != ENDED_EARLY] == []


RESPONSE_PROBES = (
    Text(text="x", citations=(Citation(url=f"https://{NEEDLE}"),)),
    Text(text="x", citations=(Citation(quote=NEEDLE),)),
    Thinking(text=NEEDLE),
    Refusal(text=NEEDLE),
    Opaque("novel", {"type": NEEDLE}),
    Media(kind="image", source=Source("base64", NEEDLE, "image/png")),
)


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("block", RESPONSE_PROBES, ids=lambda block: type(block).__name__)
def test_a_block_of_a_response_is_carried_or_told(block: Block, target: str) -> None:
    source = next(name for name in NAMES if name != target)
    exchange = ExchangeCore(target, source)
    answer = Response(id="r", model="m", content=(Text(text="Well"), block), usage=Usage(input_tokens=1))
    encoded = DIALECTS[target].encode_response(exchange.restore(answer), None, exchange.receipt)
    carried = text_of(target, "response", encoded)
    assert NEEDLE in carried or exchange.receipt.losses, carried


@pytest.mark.parametrize("dialect", NAMES)
def test_an_encoder_alone_tells_what_it_cannot_write(dialect: str) -> None:
    """No pass has prepared the request: still nothing is dropped in silence."""
    foreign = Opaque("novel", {"type": NEEDLE})
    request = replace(in_user(foreign), tools=(TOOL, foreign), top_k=7654, seed=7654)
    receipt = Receipt()
    encoded = text_of(dialect, "request", DIALECTS[dialect].encode_request(request, receipt))
    assert NEEDLE not in encoded
    wheres = [line.where for line in receipt.losses]
    assert any(where.startswith("messages[0].content[1]") for where in wheres), wheres
    assert any(where.startswith("tools[1]") for where in wheres), wheres
    assert encoded.count("7654") + sum(where in ("top_k", "seed") for where in wheres) == 2
