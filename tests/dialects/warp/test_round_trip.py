"""Warp to Warp: nothing is lost, unknown fields included, and the second time not a byte changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dialects.warp.conversations import WARP, events_of
from tests.documents import DOCUMENTS
from tests.documents.warp import messages as any_message
from tests.forms import form
from tests.strategies import requests, responses
from tests.warp_server import frames, story
from tests.warp_server.messages import encode
from tests.warp_server.scripts import SCRIPTS
from tests.warp_server.state import added_up
from toolglot.events import Fault
from toolglot.ir import Request, Response
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

REQUEST, RESPONSE = form("warp", "request"), form("warp", "response")


@given(document=DOCUMENTS["warp"].requests)
def test_a_request_comes_back_as_it_was(document: Any) -> None:
    raw, receipt = REQUEST.write(document), Receipt()
    again = WARP.encode_request(WARP.decode_request(raw), receipt)
    assert REQUEST.said(again) == REQUEST.said(raw)
    assert not receipt
    assert WARP.encode_request(WARP.decode_request(again), Receipt()) == again


@given(document=DOCUMENTS["warp"].responses)
def test_a_response_comes_back_as_it_was(document: Any) -> None:
    raw, receipt = RESPONSE.write(document), Receipt()
    again = WARP.encode_response(WARP.decode_response(raw), None, receipt)
    assert RESPONSE.said(again) == RESPONSE.said(raw)
    assert not receipt


def encode_again(raw: bytes) -> bytes:
    encoder = WARP.stream_encoder(None, Receipt())
    return b"".join(encoder.feed(event) for event in events_of(raw))


TAKEN_BACK = "a transaction that is rolled back"
NOVEL = "an update of a field that nobody knows"
"""It changes nothing, and the scripted server's own sum shows an empty object for it."""
COMPLETE = [name for name, script in SCRIPTS.items() if script.error is None and name not in (TAKEN_BACK, NOVEL)]


@pytest.mark.parametrize("name", COMPLETE)
def test_a_stream_adds_up_to_the_same_tasks_again(name: str) -> None:
    raw = SCRIPTS[name].body
    first, second = added_up(frames.events_of(raw)), added_up(frames.events_of(encode_again(raw)))
    assert second.tasks == first.tasks
    assert (second.init, second.finished) == (first.init, first.finished)


@given(pieces=st.lists(st.lists(st.text(min_size=1), min_size=1, max_size=3), max_size=3), others=st.data())
def test_any_stream_adds_up_to_the_same_tasks_again(pieces: list[list[str]], others: st.DataObject) -> None:
    events = story.opening()
    for number, texts in enumerate(pieces):
        events += story.spoken(*texts, number=10 + number)
        message = others.draw(any_message)
        if not {"user_query", "tool_call_result"} & message.keys():
            events.append(story.add({**message, "id": f"m-{number}-other", "task_id": story.ROOT}))
    raw = frames.stream([*events, story.finished()])
    assert added_up(frames.events_of(encode_again(raw))).tasks == added_up(frames.events_of(raw)).tasks


@pytest.mark.parametrize("reason", ["quota_limit", "context_window_exceeded", "internal_error", "other"])
def test_an_error_at_the_end_comes_back_as_it_was(reason: str) -> None:
    why: Any = {"why": {"message": "boom"}} if reason == "internal_error" else {}
    raw = frames.stream([*story.opening(), *story.spoken("Hi"), story.finished(reason, **why, x_new={"a": 1})])
    assert isinstance(events_of(raw)[-1], Fault)
    again = added_up(frames.events_of(encode_again(raw)))
    assert again.finished == added_up(frames.events_of(raw)).finished
    assert again.tasks == added_up(frames.events_of(raw)).tasks


@given(request=requests())
def test_what_is_written_of_any_request_is_read_and_written_the_same(request: Request) -> None:
    raw, receipt = WARP.encode_request(request, Receipt()), Receipt()
    assert WARP.encode_request(WARP.decode_request(raw), receipt) == raw
    assert not receipt


@given(response=responses())
def test_what_is_written_of_any_response_is_read_and_written_the_same(response: Response) -> None:
    raw, receipt = WARP.encode_response(response, None, Receipt()), Receipt()
    assert WARP.encode_response(WARP.decode_response(raw), None, receipt) == raw
    assert not receipt


def test_an_exchange_reads_and_writes_anew_and_loses_nothing() -> None:
    request = {
        "input": {"user_inputs": {"inputs": [{"user_query": {"query": "hi", "mode": {}, "x_new": [1]}}]}},
        "settings": {"model_config": {"base": "auto"}, "supported_tools": [2, 9, 300]},
        "x_unknown": "kept",
    }
    exchange = ExchangeCore("warp", "warp")
    raw = encode("Request", request)
    assert REQUEST.said(exchange.request(raw)) == REQUEST.said(raw)
    assert not exchange.verbatim
    assert not exchange.receipt
