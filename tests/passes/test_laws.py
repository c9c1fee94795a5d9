"""Laws that hold for every pass, every target and every request."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import awkward_messages, conversations, ids, names, requests, tool_lists
from toolglot.capabilities import Capabilities
from toolglot.ir import Block, Message, Opaque, Request, Text, Tool, ToolCall, ToolResult, replace
from toolglot.passes.blocks import Place, rewrite_blocks
from toolglot.passes.pipeline import REQUEST_PASSES, prepare

from .targets import TARGETS, again, to

targets = pytest.mark.parametrize("can", TARGETS.values(), ids=TARGETS)


@targets
@given(request=requests())
def test_a_pass_that_ran_has_nothing_more_to_do(can: Capabilities, request: Request) -> None:
    context = to(can)
    for request_pass in REQUEST_PASSES:
        request = request_pass(request, context)
        written = list(context.receipt)
        assert request_pass(request, context) == request, request_pass
        assert list(context.receipt) == written, request_pass


@targets
@given(request=requests())
def test_what_was_prepared_is_legal_and_needs_no_second_preparation(can: Capabilities, request: Request) -> None:
    context = to(can)
    once = prepare(request, context)
    second = again(context)
    assert prepare(once, second) == once
    assert not second.receipt.losses


def _at_home(request: Request, name: str) -> Request:
    """Without what other dialects keep on its blocks, as a decoder of this one gives it."""

    def own(block: Block, place: Place) -> tuple[Block, ...]:
        if isinstance(block, Opaque) or not block.native:
            return (block,)
        return (replace(block, native={owner: kept for owner, kept in block.native.items() if owner == name}),)

    return rewrite_blocks(request, own)


@targets
@given(request=requests())
def test_a_legal_request_of_the_targets_own_dialect_stays_as_it_is(can: Capabilities, request: Request) -> None:
    name = to(can).target
    legal = _at_home(prepare(request, to(can)), name)
    home = to(can, source=name, target=name)
    assert prepare(legal, home) == legal
    assert not home.receipt


@targets
@given(request=requests())
def test_every_call_has_its_result_right_behind_its_batch(can: Capabilities, request: Request) -> None:
    prepared = prepare(request, to(can))
    waiting: list[tuple[str, str | None]] = []
    seen: set[str] = set()
    speaking = False
    for message in prepared.messages:
        if message.role == "assistant" and not speaking:
            assert not waiting
        speaking = message.role == "assistant"
        for block in message.content:
            if isinstance(block, ToolCall):
                assert block.id not in seen
                seen.add(block.id)
                waiting.append((block.id, block.name))
            elif isinstance(block, ToolResult):
                assert (block.call_id, block.name) == waiting.pop(0)
            elif not speaking:
                assert not waiting
    assert not waiting


@targets
@given(request=requests())
def test_names_and_ids_are_legal_and_the_way_back_is_known(can: Capabilities, request: Request) -> None:
    context = to(can)
    prepared = prepare(request, context)
    declared = [(tool.namespace, tool.name) for tool in prepared.tools if isinstance(tool, Tool)]
    assert len(set(declared)) == len(declared)
    for namespace, name in declared:
        assert len(name) <= can.names.max_length
        assert re.fullmatch(can.names.pattern, name)
        assert re.match(can.names.start, name)
        assert (namespace is None and name in context.tools) or can.tools.namespaces
    for message in prepared.messages:
        for block in message.content:
            if isinstance(block, ToolCall):
                assert len(block.id) <= can.ids.max_length
                assert re.fullmatch(can.ids.pattern, block.id)
                assert block.id in context.call_ids
    known = {(tool.namespace, tool.name) for tool in request.tools if isinstance(tool, Tool)}
    back = {(context.tools[name].namespace, context.tools[name].name) for ns, name in declared if ns is None}
    assert back <= known


@targets
@given(request=requests())
def test_turns_have_the_form_that_the_target_demands(can: Capabilities, request: Request) -> None:
    prepared = prepare(request, to(can))
    talk = [message for message in prepared.messages if message.role not in ("system", "developer")]
    if can.messages.roles_alternate:
        assert all(first.role != second.role for first, second in pairwise(talk))
    if can.messages.starts_with_user:
        assert talk[0].role == "user"
    if not can.messages.prefill:
        assert not prepared.messages or prepared.messages[-1].role != "assistant"
    if can.messages.system == "leading":
        assert talk == list(prepared.messages[len(prepared.messages) - len(talk) :])
    for message in prepared.messages:
        roles = {can.calls.results_role} if any(isinstance(b, ToolResult) for b in message.content) else {message.role}
        assert message.role in roles
        if not can.messages.empty_text:
            assert message.content
            assert all(block.text.strip() for block in message.content if isinstance(block, Text))


@targets
@given(data=st.data())
def test_one_more_turn_extends_the_same_prefix(can: Capabilities, data: st.DataObject) -> None:
    tools = data.draw(tool_lists(names))
    messages = data.draw(conversations(tools, ids))
    strange = data.draw(awkward_messages)
    history = (*messages[:1], strange, *messages[1:])
    if history[-1].role == "assistant":
        history = messages
    more = data.draw(conversations(tools, ids).filter(lambda m: m[0].role == "user"))
    turn = (Message(role="assistant", content=(Text(text="So"),)), *more)
    request = Request(model="m", messages=history, tools=tools, max_output_tokens=100)
    shorter = prepare(request, to(can)).messages
    longer = prepare(replace(request, messages=(*history, *turn)), to(can)).messages
    assert longer[: len(shorter)] == shorter
