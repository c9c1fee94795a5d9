"""Law 5: there and back through any dialect, tool calls, names, ids, arguments and results stay what they were."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.examples import PER_PAIR
from tests.exchanges import FOREIGN_PAIRS, NAMES, PAIRS, calls_of, meaning, read_events, spoken, through, write_events
from tests.strategies import (
    arguments,
    awkward_ids,
    ids,
    legal_ids,
    legal_names,
    names,
    responses,
    tool_requests,
    words,
)
from toolglot.dialects import DIALECTS
from toolglot.events import fold, unfold
from toolglot.ir import Message, Request, Response, Stop, Text, Tool, ToolCall, ToolResult, replace
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore


def calls_in(request: Request) -> list[ToolCall]:
    return [call for message in request.messages for call in calls_of(message.content)]


def results_in(request: Request) -> list[ToolResult]:
    return [block for message in request.messages for block in message.content if isinstance(block, ToolResult)]


def text_of(result: ToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, Text))


def as_heard(client: str, request: Request) -> Request:
    """The request as a client of this dialect would really have sent it."""
    dialect = DIALECTS[client]
    return replace(dialect.decode_request(dialect.encode_request(request, Receipt())), model=request.model)


def there_and_back(client: str, upstream: str, asked: Request) -> Request:
    """Translated to the upstream's dialect, and what that says translated back."""
    there = ExchangeCore(client, upstream)
    encoded = DIALECTS[upstream].encode_request(there.rewrite(asked), there.receipt)
    heard = replace(DIALECTS[upstream].decode_request(encoded), model=asked.model)
    back = ExchangeCore(upstream, client)
    return DIALECTS[client].decode_request(DIALECTS[client].encode_request(back.rewrite(heard), back.receipt))


def shape(request: Request) -> list[tuple[str, int]]:
    """Calls and results with their ids replaced by the order of their first use: who answers whom."""
    numbers: dict[str, int] = {}
    found: list[tuple[str, int]] = []
    for message in request.messages:
        for block in message.content:
            if isinstance(block, ToolCall):
                found.append(("call", numbers.setdefault(block.id, len(numbers))))
            elif isinstance(block, ToolResult):
                found.append(("result", numbers.setdefault(block.call_id, len(numbers))))
    return found


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
@PER_PAIR
@given(request=tool_requests(legal_names, legal_ids))
def test_legal_names_and_ids_come_back_as_they_were(client: str, upstream: str, request: Request) -> None:
    asked = as_heard(client, request)
    again = there_and_back(client, upstream, asked)
    said = [(call.id, call.name, meaning(call.arguments)) for call in calls_in(asked)]
    assert [(call.id, call.name, meaning(call.arguments)) for call in calls_in(again)] == said
    assert [tool.name for tool in again.tools if isinstance(tool, Tool)] == [
        tool.name for tool in asked.tools if isinstance(tool, Tool)
    ]
    before, after = results_in(asked), results_in(again)
    assert [result.call_id for result in after] == [result.call_id for result in before]
    for was, now in zip(before, after, strict=True):
        assert "".join(text_of(was).split()) in "".join(text_of(now).split())


@pytest.mark.parametrize(("client", "upstream"), FOREIGN_PAIRS)
@PER_PAIR
@given(request=tool_requests(names, ids))
def test_any_names_and_ids_keep_who_answers_whom(client: str, upstream: str, request: Request) -> None:
    asked = as_heard(client, request)
    again = there_and_back(client, upstream, asked)
    assert shape(again) == shape(_with_ids(asked))
    assert [meaning(call.arguments) for call in calls_in(again)] == [
        meaning(call.arguments) for call in calls_in(asked)
    ]


def _with_ids(request: Request) -> Request:
    """The same with an id of its own for every call and its result, as the conversation means it."""
    waiting: list[tuple[str, str, str]] = []
    messages: list[Message] = []
    count = 0
    for message in request.messages:
        content: list[Any] = []
        for block in message.content:
            if isinstance(block, ToolCall):
                waiting.append((block.id, block.name, f"own_{count}"))
                content.append(replace(block, id=f"own_{count}"))
                count += 1
            elif isinstance(block, ToolResult):
                position = next(i for i, (call_id, _, _) in enumerate(waiting) if call_id == block.call_id)
                content.append(replace(block, call_id=waiting.pop(position)[2]))
            else:
                content.append(block)
        messages.append(replace(message, content=tuple(content)))
    return replace(request, messages=tuple(messages))


@st.composite
def answered(draw: st.DrawFn, exchange: ExchangeCore) -> Response:
    """An answer in which the upstream calls the tools under the names that it was told."""
    assert exchange.sent is not None
    offered = [tool.name for tool in exchange.sent.tools if isinstance(tool, Tool)]
    calls = tuple(
        ToolCall(id=draw(ids), name=name, arguments=draw(arguments()))
        for name in draw(st.lists(st.sampled_from(offered), min_size=1, max_size=3))
    )
    return Response(id="r", model="m", created=1, content=calls, stop=Stop("tool_calls"))


@pytest.mark.parametrize(("client", "upstream"), FOREIGN_PAIRS)
@PER_PAIR
@given(data=st.data())
def test_calls_come_back_under_the_names_that_the_client_gave(client: str, upstream: str, data: st.DataObject) -> None:
    asked = as_heard(client, data.draw(tool_requests(names, legal_ids)))
    exchange = ExchangeCore(client, upstream)
    sent = exchange.rewrite(asked)
    answer = data.draw(answered(exchange))
    original = {
        now.name: was.name
        for was, now in zip(asked.tools, sent.tools, strict=True)
        if isinstance(was, Tool) and isinstance(now, Tool)
    }
    made = [(call.id, call.name, repr(meaning(call.arguments))) for call in calls_of(answer.content)]
    assume(len({*made}) == len(made))  # Gemini's servers may send a call twice in a stream: it counts once
    wanted = [(original[call.name], meaning(call.arguments)) for call in calls_of(answer.content)]

    raw = exchange.response(DIALECTS[upstream].encode_response(answer, None, Receipt()))
    whole = calls_of(DIALECTS[client].decode_response(raw).content)
    streamed_bytes = through(exchange, [write_events(upstream, unfold(answer))])
    streamed = calls_of(fold(read_events(client, [streamed_bytes])).content)
    for calls in (whole, streamed):
        assert [(call.name, meaning(call.arguments)) for call in calls] == wanted
        assert len({call.id for call in calls if call.id}) == len([call for call in calls if call.id])


@pytest.mark.parametrize("client", NAMES)
@given(data=st.data())
def test_ids_of_an_answer_are_new_in_their_conversation(client: str, data: st.DataObject) -> None:
    """Some servers call every first call `call_0`."""
    request = data.draw(tool_requests(legal_names, st.just("call_0")))
    asked = as_heard(client, request)
    for upstream in NAMES:
        exchange = ExchangeCore(client, upstream)
        exchange.rewrite(asked)
        if exchange.verbatim or not calls_in(asked):
            continue
        answer = Response(content=(ToolCall(id="call_0", name="get_weather", arguments="{}"),), stop=Stop("tool_calls"))
        calls = calls_of(exchange.restore(answer).content)
        assert calls[0].id not in {call.id for call in calls_in(asked)}


@pytest.mark.parametrize("middle", NAMES)
@pytest.mark.parametrize("client", NAMES)
@PER_PAIR
@given(response=responses(legal_names))
def test_an_answer_survives_two_translations(client: str, middle: str, response: Response) -> None:
    """upstream -> middle -> client says what the upstream said. A call that the limit cut is another matter."""
    assume(response.stop.reason != "length")
    raw = DIALECTS[middle].encode_response(response, None, Receipt())
    again = DIALECTS[client].decode_response(ExchangeCore(client, middle).response(raw))
    wanted, got = spoken(response.content), spoken(again.content)
    assert got["text"] == wanted["text"]
    assert [call[1:] for call in got["calls"]] == [call[1:] for call in wanted["calls"]]


@pytest.mark.parametrize(("client", "upstream"), FOREIGN_PAIRS)
@PER_PAIR
@given(text=words, call_id=awkward_ids)
def test_a_custom_tool_is_wrapped_and_unwrapped(client: str, upstream: str, text: str, call_id: str) -> None:
    if not DIALECTS[client].can.tools.custom:
        return
    exchange = ExchangeCore(client, upstream)
    asked = Request(
        model="gpt-5",
        tools=(Tool(name="apply_patch", kind="custom", description="Edits"),),
        messages=(Message(role="user", content=(Text(text="Go"),)),),
        max_output_tokens=10,
    )
    sent = exchange.rewrite(as_heard(client, asked))
    tool = sent.tools[0]
    assert isinstance(tool, Tool)
    written = text if tool.kind == "custom" else json.dumps({"input": text})
    call = ToolCall(id=call_id, name=tool.name, kind=tool.kind, arguments=written)
    answer = exchange.restore(Response(content=(call,), stop=Stop("tool_calls")))
    restored = calls_of(answer.content)[0]
    assert (restored.name, restored.kind, restored.arguments) == ("apply_patch", "custom", text)
