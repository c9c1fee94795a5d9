"""A pass that a request does not need would have changed nothing: neither the request, nor the receipt, nor what the
passes remember for the answer."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_files import MODELS, Case, cases_with
from tests.examples import PER_PAIR
from tests.exchanges import NAMES, PAIRS
from tests.forms import is_json
from tests.laws.mutations import spoilt
from tests.strategies import requests
from toolglot.dialects import DIALECTS
from toolglot.errors import ToolglotError
from toolglot.features import survey
from toolglot.ir import (
    Block,
    Cache,
    Citation,
    Message,
    Native,
    Opaque,
    PromptCache,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    replace,
)
from toolglot.passes import Context
from toolglot.passes.answer_state import SealedState, seal
from toolglot.passes.blocks import Place, blocks
from toolglot.passes.envelope import Envelope, pack
from toolglot.passes.pipeline import REQUEST_PASSES
from toolglot.plan import condition_of
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore
from toolglot.wire import json


def check(request: Request, client: str, upstream: str, model: str | None) -> None:
    """Go through the passes as a plan does, and try each pass that it would leave out."""
    exchange = ExchangeCore(client, upstream, model=model)
    exchange.asked = request
    request = request if model is None else replace(request, model=model)
    context = exchange._new_context(request.model)
    bits, context.tool_history = survey(request, client, context.source_can.receipt)
    for request_pass in REQUEST_PASSES:
        condition = condition_of(request_pass)
        before = request
        if bits & condition.triggers(context):
            apart = _copy(context)  # a pass that does not know the features does the same
            context.features = bits
            lines = list(context.receipt)
            request = request_pass(request, context)
            assert request_pass(before, apart) == request, request_pass
            assert [line for line in apart.receipt if line not in lines] == list(context.receipt)[len(lines) :]
            assert _memory(apart) == _memory(context), request_pass
            if request is not before:
                added = condition.adds
                if added is None:
                    added, context.tool_history = survey(request, client, context.source_can.receipt)
                bits = context.features | added
            context.features = -1
            assert not condition.in_place or _places(request) == _places(before), request_pass
            if condition.keeps_messages and len(request.messages) == len(before.messages):
                known = {id(message) for message in before.messages}
                for new, old in zip(request.messages, before.messages, strict=True):
                    assert new is old or id(new) not in known, request_pass
            continue
        apart = _copy(context)
        assert request_pass(request, apart) == request, request_pass
        assert list(apart.receipt) == [], request_pass
        assert _memory(apart) == _memory(context), request_pass


def _places(request: Request) -> list[tuple[Place, type[Block]]]:
    """Every block, those that a note in words may stand for aside."""
    return [(place, type(block)) for block, place in blocks(request) if not isinstance(block, Opaque | Text)]


def _copy(context: Context) -> Context:
    return replace(
        context, receipt=Receipt(), tools=dict(context.tools), call_ids=set(context.call_ids), tool_history=None
    )


def _memory(context: Context) -> dict[str, Any]:
    """What the passes share, but for the receipt."""
    names = (name for name in context.__struct_fields__ if name not in ("receipt", "features", "tool_history"))
    return {name: copy.copy(getattr(context, name)) for name in names}


models = st.none() | st.sampled_from([*MODELS.values(), "gpt-4o", "o3", "gemini-2.5-flash"])

_REFERENCE = Opaque("anthropic", {"type": "tool_reference", "tool_name": "a"})
ODD_BLOCKS: tuple[Block, ...] = (
    _REFERENCE,
    ToolResult(call_id="call_1", content=(_REFERENCE, Text(text=" "))),
    ToolCall(id="call_8", name="c", kind="custom", arguments="x"),
    ToolCall(id="x" * 70, name="a" * 70, namespace="files"),
    Text(text="cited", citations=(Citation(url="https://example.com"),), cache=Cache(300)),
    Text(text="cited", citations=(Citation(native={"anthropic": {"novel": 1}}), Citation(native={"gemini": {"x": 1}}))),
)
ODD_NATIVE: tuple[Mapping[str, Any], ...] = ({"$piece": True}, {"novel": 1}, {"signature": "c2ln"}, {"id": "msg_1_0"})


@st.composite
def odd_requests(draw: st.DrawFn, client: str) -> Request:
    """Requests with what most do not have: deferred and strict tools, rare blocks, fields of the client's own."""
    request = draw(requests())
    tools: tuple[Tool | Opaque, ...] = tuple(
        replace(tool, **{draw(st.sampled_from(["deferred", "strict"])): True}) if isinstance(tool, Tool) else tool
        for tool in request.tools
    )
    if draw(st.booleans()):
        tools = (*tools, Opaque("anthropic", {"type": "tool_search_tool_regex_20251119"}))
    block = draw(st.sampled_from(ODD_BLOCKS))
    if draw(st.booleans()) and not isinstance(block, Opaque):
        block = replace(block, native={client: dict(draw(st.sampled_from(ODD_NATIVE)))})
    own: Native = {client: dict(draw(st.sampled_from(ODD_NATIVE)))} if draw(st.booleans()) else {}
    odd = Message(role=draw(st.sampled_from(["assistant", "user", "system"])), content=(block,), native=own)
    place = draw(st.integers(0, len(request.messages)))
    return replace(
        request,
        tools=tools,
        messages=(*request.messages[:place], odd, *request.messages[place:]),
        prompt_cache=draw(st.sampled_from([None, PromptCache(key="k", options={"mode": "explicit"})])),
        native=own,
    )


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
@PER_PAIR
@given(data=st.data())
def test_a_pass_without_its_features_changes_nothing_in_odd_requests(
    client: str, upstream: str, data: st.DataObject
) -> None:
    check(data.draw(odd_requests(client)), client, upstream, data.draw(models))


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
@PER_PAIR
@given(request=requests(), model=models)
def test_a_pass_without_its_features_changes_nothing(
    client: str, upstream: str, request: Request, model: str | None
) -> None:
    check(request, client, upstream, model)


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
@PER_PAIR
@given(request=requests(), data=st.data())
def test_a_pass_without_its_features_changes_nothing_where_the_client_carries_state(
    client: str, upstream: str, request: Request, data: st.DataObject
) -> None:
    carried = Message(role="assistant", content=(data.draw(_carried(client)), Text(text="Hello")))
    place = data.draw(st.integers(0, len(request.messages)))
    messages = (*request.messages[:place], carried, *request.messages[place:])
    check(replace(request, messages=messages), client, upstream, data.draw(models))


def _carried(client: str) -> st.SearchStrategy[Block]:
    """Reasoning and calls of this client that hold another vendor's state."""
    dialect = DIALECTS[client]
    envelope = pack(Envelope(owner="gemini", state={"thoughtSignature": "Z2VtaW5p"}, text="thought"))
    sealed = seal(
        SealedState("gemini", "", (Thinking(text="thought", native={"gemini": {"thoughtSignature": "Z2VtaW5p"}}),))
    )
    blocks: list[Block] = [Thinking(text="its own")]
    if dialect.state.slot is not None:
        blocks.append(Thinking(native={client: {dialect.state.slot: envelope}}))
    if dialect.state.call_slot is not None:
        blocks.append(ToolCall(id="call_9", name="a", native={client: {dialect.state.call_slot: sealed}}))
    if dialect.state.details_slot is not None:
        blocks.append(Thinking(native={client: {dialect.state.details_slot: [{"data": sealed}]}}))
    return st.sampled_from(blocks)


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_a_pass_without_its_features_changes_nothing_in_a_long_prompt(client: str, upstream: str) -> None:
    call = ToolCall(id="call_1", name="look", arguments="{}")
    messages = (
        Message(role="system", content=(Text(text="Be brief. " * 2000),)),
        Message(role="user", content=(Text(text="Look. " * 2000),)),
        Message(role="assistant", content=(call,)),
        Message(role="tool", content=(ToolResult(call_id="call_1", content=(Text(text="Nothing. " * 2000),)),)),
    )
    check(Request(model="m", messages=messages, tools=(Tool(name="look"),)), client, upstream, MODELS[upstream])


REQUESTS = cases_with("request")


@pytest.mark.parametrize("upstream", NAMES)
@pytest.mark.parametrize("case", REQUESTS, ids=[f"{case.dialect}/{case.name}" for case in REQUESTS])
def test_a_pass_without_its_features_changes_nothing_in_the_cases(case: Case, upstream: str) -> None:
    request = DIALECTS[case.dialect].decode_request(case.read("request"))
    check(request, case.dialect, upstream, MODELS[upstream])


@pytest.mark.parametrize("upstream", NAMES)
@pytest.mark.parametrize("client", [name for name in NAMES if is_json(name)])
@given(data=st.data())
def test_a_pass_without_its_features_changes_nothing_in_spoilt_requests(
    client: str, upstream: str, data: st.DataObject
) -> None:
    case = data.draw(st.sampled_from(cases_with("request", client)))
    document = data.draw(spoilt(case.value("request")))
    try:
        request = DIALECTS[client].decode_request(json.encode(document))
    except ToolglotError:
        return
    check(request, client, upstream, data.draw(st.sampled_from([None, MODELS[upstream]])))
