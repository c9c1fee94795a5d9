"""Requests that go on from stored responses, and what is put into and kept of their answers."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.server.responses_turns import HELLO, body, in_memory, message, refused, response, take_turn
from tests.store.turns import using
from toolglot.errors import RefusedError
from toolglot.gateway.features import responses_history
from toolglot.gateway.features.responses_history import (
    ExpandedRequest,
    add_state_members,
    expand,
    expand_unstored,
    make_id,
    store_turn,
)
from toolglot.store import StoredConversation, StoredItem, StoreError
from toolglot.store.sqlite import SqliteStore
from toolglot.translate import ExchangeCore


def test_a_request_without_state_keeps_its_bytes() -> None:
    async def work(store: SqliteStore) -> None:
        request = b'{ "model": "m",  "input": "hi", "temperature": 1e0 }'
        expanded = await expand(request, store, "me")
        assert expanded.body is request
        assert expanded.is_local
        assert expanded.store
        assert expanded.id.startswith("resp_")

    in_memory(work)


def test_the_history_stands_before_the_input_and_the_links_are_gone() -> None:
    async def work(store: SqliteStore) -> None:
        _, first = await take_turn(store, body(input="Hello", instructions="Be kind"), response(message("Hi")))
        asked = body(previous_response_id=first, input=[{"role": "user", "content": "And now?"}], store=True)
        expanded, _ = await take_turn(store, asked, response(message("Well", "msg_2")))
        assert json.loads(expanded.body) == {
            "model": "m",
            "input": [HELLO, message("Hi"), {"role": "user", "content": "And now?"}],
        }
        assert expanded.previous == first

    in_memory(work)


def test_what_is_not_about_state_keeps_its_spelling() -> None:
    async def work(store: SqliteStore) -> None:
        _, first = await take_turn(store, body(input="Hello"), response(message("Hi")))
        asked = b'{"temperature":1.50,"previous_response_id":"%b","input":[{"role":"user","content":1e2}]}'
        expanded = await expand(asked % first.encode(), store, "me")
        assert expanded.body.startswith(b'{"temperature":1.50,"input":[')
        assert expanded.body.endswith(b'{"role":"user","content":1e2}]}')

    in_memory(work)


def test_a_response_can_be_gone_on_from_without_any_input() -> None:
    async def work(store: SqliteStore) -> None:
        _, first = await take_turn(store, body(input="Hello"), response(message("Hi")))
        expanded = await expand(body(previous_response_id=first), store, "me")
        assert json.loads(expanded.body)["input"] == [HELLO, message("Hi")]

    in_memory(work)


def test_two_turns_may_go_on_from_the_same_response() -> None:
    async def work(store: SqliteStore) -> None:
        _, root = await take_turn(store, body(input="Hello"), response(message("Hi")))
        _, left = await take_turn(store, body(previous_response_id=root, input="left"), response(message("L")))
        _, right = await take_turn(store, body(previous_response_id=root, input="right"), response(message("R")))
        texts = {}
        for branch in (left, right):
            expanded = await expand(body(previous_response_id=branch, input="?"), store, "me")
            texts[branch] = [item["content"] for item in json.loads(expanded.body)["input"] if item["role"] == "user"]
        assert texts == {left: ["Hello", "left", "?"], right: ["Hello", "right", "?"]}

    in_memory(work)


def test_an_unknown_response_is_refused_as_the_api_does() -> None:
    async def work(store: SqliteStore) -> None:
        error = await refused(body(previous_response_id="resp_x", input="hi"), store)
        told = ExchangeCore("openai_responses", "openai_chat").refusal(error)
        assert told.status == 400
        assert json.loads(told.body) == {
            "error": {
                "message": "Previous response with id 'resp_x' not found.",
                "type": "invalid_request_error",
                "param": "previous_response_id",
                "code": "previous_response_not_found",
            }
        }

    in_memory(work)


def test_another_keys_response_is_not_found() -> None:
    async def work(store: SqliteStore) -> None:
        _, first = await take_turn(store, body(input="Hello"), response(message("Hi")))
        error = await refused(body(previous_response_id=first, input="hi"), store, "you")
        assert error.code == "previous_response_not_found"

    in_memory(work)


def test_a_gap_in_the_history_is_told_instead_of_answering_without_it() -> None:
    async def work(store: SqliteStore) -> None:
        _, first = await take_turn(store, body(input="Hello"), response(message("Hi")))
        _, second = await take_turn(store, body(previous_response_id=first, input="?"), response(message("Ho")))
        await store.delete_turn("me", first)
        error = await refused(body(previous_response_id=second, input="hi"), store)
        assert error.code == "previous_response_not_found"
        assert f"It goes on from '{first}', which is gone." in error.message

    in_memory(work)


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"previous_response_id": "a", "conversation": "b"}, "previous_response_id", "mutually_exclusive_parameters"),
        ({"previous_response_id": 5}, "previous_response_id", "invalid_type"),
        ({"conversation": {"id": 5}}, "conversation", "invalid_type"),
        ({"conversation": {}}, "conversation", "invalid_type"),
        ({"conversation": "conv_x"}, "conversation", "conversation_not_found"),
        ({"background": True}, "background", "unsupported_parameter"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_parameter(fields: dict[str, Any], param: str, code: str) -> None:
    async def work(store: SqliteStore) -> None:
        error = await refused(body(input="hi", **fields), store)
        assert (error.param, error.code) == (param, code)

    in_memory(work)


def test_a_history_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses_history, "MAX_HISTORY_BYTES", 100)

    async def work(store: SqliteStore) -> None:
        _, first = await take_turn(store, body(input="Hello"), response(message("Hi")))
        error = await refused(body(previous_response_id=first, input="hi"), store)
        assert error.code == "context_length_exceeded"

    in_memory(work)


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"input":5}', b'{"input":{}}', b"\xff"])
def test_bytes_that_are_no_request_are_left_to_the_decoder(data: bytes) -> None:
    async def work(store: SqliteStore) -> None:
        assert await expand(data, store, "me") == ExpandedRequest(body=data)

    in_memory(work)


@pytest.mark.parametrize(
    "fields", [{}, {"previous_response_id": "resp_x"}, {"conversation": "c"}, {"background": True}]
)
def test_an_upstream_with_state_gets_the_request_as_it_is(fields: dict[str, Any]) -> None:
    async def work(store: SqliteStore) -> None:
        request = body(input="hi", **fields)
        expanded = await expand(request, store, "me", upstream_keeps_state=True)
        assert expanded.body is request
        assert not expanded.is_local
        answer = response(message("Hi"))
        assert add_state_members(expanded, answer) is answer
        assert not await store_turn(expanded, answer, store, "me", now=1.0)

    in_memory(work)


def test_a_chain_that_began_here_goes_on_here_also_at_an_upstream_with_state() -> None:
    async def work(store: SqliteStore) -> None:
        _, first = await take_turn(store, body(input="Hello"), response(message("Hi")))
        request = body(previous_response_id=first, input="?")
        expanded = await expand(request, store, "me", upstream_keeps_state=True)
        assert expanded.is_local
        assert "previous_response_id" not in json.loads(expanded.body)
        error = await refused(
            body(previous_response_id=first, input="?", background=True), store, upstream_keeps_state=True
        )
        assert error.param == "background"

    in_memory(work)


def test_the_answer_says_what_the_upstream_cannot_know() -> None:
    async def work(store: SqliteStore) -> None:
        _, first = await take_turn(store, body(input="Hello"), response(message("Hi")))
        expanded = await expand(body(previous_response_id=first, input="?"), store, "me", random=bytes)
        told = add_state_members(
            expanded, b'{"id":"x","object":"response","output":[],"temperature":1.50,"store":false}'
        )
        assert told == (
            b'{"id":"resp_%b","object":"response","output":[],"temperature":1.50,"store":true,'
            b'"previous_response_id":"%b"}' % (b"00" * 24, first.encode())
        )

    in_memory(work)


def test_an_error_in_the_place_of_an_answer_is_left_alone() -> None:
    expanded = ExpandedRequest(body=b"", id="resp_1", is_local=True, store=True)
    for data in (b'{"error":{"message":"no"}}', b"<html>", b"[]"):
        assert add_state_members(expanded, data) is data


def test_what_is_not_stored_is_passed_on_as_it_is() -> None:
    async def work(store: SqliteStore) -> None:
        expanded = await expand(body(input="hi", store=False), store, "me")
        answer = response(message("Hi"))
        assert add_state_members(expanded, answer) is answer
        assert not await store_turn(expanded, answer, store, "me", now=1.0)
        assert (await store.size()).bytes == 0

    in_memory(work)


@pytest.mark.parametrize(
    ("status", "kept"),
    [("completed", True), ("incomplete", True), ("failed", False), ("cancelled", False), ("in_progress", False)],
)
def test_only_settled_turns_are_kept(status: str, kept: bool) -> None:
    async def work(store: SqliteStore) -> None:
        expanded = await expand(body(input="hi"), store, "me")
        assert await store_turn(expanded, response(message("Hi"), status=status), store, "me", now=1.0) is kept
        assert (await store.turn("me", expanded.id) is not None) is kept

    in_memory(work)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"status":"completed","output":5}'])
def test_what_is_no_response_is_not_kept(data: bytes) -> None:
    async def work(store: SqliteStore) -> None:
        expanded = await expand(body(input="hi"), store, "me")
        assert not await store_turn(expanded, data, store, "me", now=1.0)

    in_memory(work)


@pytest.mark.parametrize("shape", ["text", "object"])
def test_a_conversation_gets_the_items_of_each_turn(shape: str) -> None:
    link = "conv_1" if shape == "text" else {"id": "conv_1"}
    greeting = {"type": "message", "role": "developer", "content": "Be brief"}

    async def work(store: SqliteStore) -> None:
        new = StoredConversation(id="conv_1", owner="me", created=1.0)
        await store.create_conversation(new, [StoredItem("msg_0", json.dumps(greeting).encode())])
        expanded, first = await take_turn(store, body(input="Hello", conversation=link), response(message("Hi")))
        assert json.loads(expanded.body) == {"model": "m", "input": [greeting, HELLO]}
        expanded, _ = await take_turn(store, body(input="Hello", conversation=link), response(message("Ho")))
        assert json.loads(expanded.body)["input"] == [greeting, HELLO, message("Hi"), HELLO]
        # A turn of the conversation can be gone on from on its own: then with what the conversation was at its time.
        expanded = await expand(body(input="?", previous_response_id=first), store, "me")
        assert [item["content"] for item in json.loads(expanded.body)["input"]] == [
            "Be brief",
            "Hello",
            message("Hi")["content"],
            "?",
        ]

    in_memory(work)


def test_a_conversation_remembers_a_turn_whose_response_is_not_stored() -> None:
    async def work(store: SqliteStore) -> None:
        await store.create_conversation(StoredConversation(id="conv_1", owner="me", created=1.0))
        request = body(input="Hello", conversation="conv_1", store=False)
        expanded, told = await take_turn(store, request, response(message("Hi")))
        assert told == expanded.id
        assert await store.turn("me", told) is None
        history = await store.conversation_history("me", "conv_1", max_bytes=9999)
        assert [json.loads(item.item) for item in history.items] == [HELLO, message("Hi")]

    in_memory(work)


def test_the_answer_names_its_conversation() -> None:
    expanded = ExpandedRequest(body=b"", id="resp_1", is_local=True, store=True, conversation="conv_1")
    assert json.loads(add_state_members(expanded, response()))["conversation"] == {"id": "conv_1"}


def test_an_item_that_is_only_named_is_put_in() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}

    async def work(store: SqliteStore) -> None:
        await take_turn(store, body(input="Hello"), response(message("Hi"), call))
        named = [{"type": "item_reference", "id": "msg_1"}, {"type": "item_reference", "id": "fc_1"}]
        expanded = await expand(body(input=[HELLO, *named, HELLO]), store, "me")
        assert json.loads(expanded.body)["input"] == [HELLO, message("Hi"), call, HELLO]
        error = await refused(body(input=[{"type": "item_reference", "id": "msg_9"}]), store)
        assert (error.kind, error.param, error.message) == ("not_found", "input", "Item with id 'msg_9' not found.")
        assert (await refused(body(input=named), store, "you")).code == "item_not_found"

    in_memory(work)


def test_text_that_speaks_of_references_is_no_reference() -> None:
    async def work(store: SqliteStore) -> None:
        request = body(input=[{"role": "user", "content": "What is an item_reference?"}])
        assert (await expand(request, store, "me")).body is request

    in_memory(work)


@pytest.mark.parametrize("named", [{}, {"id": None}, {"id": ""}, {"id": 5}])
def test_a_reference_to_nothing_is_refused(named: dict[str, Any]) -> None:
    async def work(store: SqliteStore) -> None:
        error = await refused(body(input=[HELLO, {"type": "item_reference", **named}]), store)
        assert (error.status, error.param) == (400, "input[1].id")
        assert error.message == "input[1].id: the id of an earlier item is expected, as a string"

    in_memory(work)


def test_a_store_out_of_reach_fails_only_those_who_need_it(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"

    async def work(store: SqliteStore) -> None:
        _, first = await take_turn(store, body(input="Hello"), response(message("Hi")))
        await store.close()
        error = await refused(body(previous_response_id=first, input="?"), store)
        assert (error.status, error.retry_after) == (503, 1.0)
        assert (await expand(body(input="Hello"), store, "me")).is_local
        request = body(previous_response_id=first, input="?")
        assert (await expand(request, store, "me", upstream_keeps_state=True)).body is request

    using(path, work)


def test_a_turn_that_cannot_be_kept_is_told_to_the_caller(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"

    async def work(store: SqliteStore) -> None:
        expanded = await expand(body(input="hi"), store, "me")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError) as raised:
            await store_turn(expanded, response(message("Hi")), store, "me", now=1.0)
        assert raised.value.failure == "locked"
        other.close()

    using(path, work, busy_timeout=0.01)


def test_turns_at_once_in_one_conversation_are_all_kept() -> None:
    async def work(store: SqliteStore) -> None:
        await store.create_conversation(StoredConversation(id="conv_1", owner="me", created=1.0))
        request = body(input="Hello", conversation="conv_1")
        await asyncio.gather(*(take_turn(store, request, response(message("Hi"))) for _ in range(20)))
        history = await store.conversation_history("me", "conv_1", max_bytes=1 << 20)
        assert len(history.items) == 40
        assert len({item.id for item in history.items}) == 40

    in_memory(work)


def test_ids_are_minted_from_the_random_bytes_that_are_given() -> None:
    assert make_id(b"\x01\xff") == "resp_01ff"
    assert make_id(b"\x01\xff", "conv") == "conv_01ff"


@pytest.mark.parametrize(
    ("request_body", "param"),
    [
        ({"input": "Hi", "previous_response_id": "resp_1"}, "previous_response_id"),
        ({"input": "Hi", "conversation": {"id": "conv_1"}}, "conversation"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input"),
    ],
)
def test_where_nothing_is_stored_nothing_can_be_gone_on_from(request_body: dict[str, object], param: str) -> None:
    with pytest.raises(RefusedError) as told:
        expand_unstored(json.dumps({"model": "m", **request_body}).encode())
    assert told.value.error.param == param
    expand_unstored(b'{"model": "m", "input": "Hi"}')
