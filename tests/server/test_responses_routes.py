"""Stored responses and conversations, asked for by method and path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.server.responses_turns import HELLO, body, in_memory, message, response, take_turn
from toolglot.errors import DecodeError, RefusedError, api_error
from toolglot.server import routes
from toolglot.server.responses_routes import HANDLERS, ResponsesReply, ResponsesRequest, handle_request
from toolglot.store.sqlite import SqliteStore
from toolglot.translate import ExchangeCore

CALL = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"}
RESULT = {"type": "function_call_output", "call_id": "c", "output": "42"}


async def ask(
    store: SqliteStore,
    method: str,
    path: str,
    values: Mapping[str, str] | None = None,
    *,
    owner: str = "me",
    data: Any = None,
    **query: str,
) -> ResponsesReply:
    sent = b"" if data is None else json.dumps(data).encode()
    return await handle_request(
        method, path, ResponsesRequest(store=store, owner=owner, values=values or {}, query=query, body=sent, now=5.5)
    )


async def said(store: SqliteStore, method: str, path: str, *arguments: Any, **named: Any) -> Any:
    reply = await ask(store, method, path, *arguments, **named)
    assert reply.status == 200
    assert reply.content_type == "application/json"
    return json.loads(reply.body)


async def error_of(store: SqliteStore, method: str, path: str, *arguments: Any, **named: Any) -> tuple[int, Any]:
    """Status and error as the client gets them."""
    with pytest.raises((RefusedError, DecodeError)) as raised:
        await ask(store, method, path, *arguments, **named)
    told = ExchangeCore("openai_responses", "openai_chat").refusal(api_error(raised.value))
    return told.status, json.loads(told.body)["error"]


def test_every_route_of_stored_things_has_its_function() -> None:
    assert {(route.method, route.path) for route in routes.ROUTES if route.action == "stored"} == set(HANDLERS)


def test_a_stored_response_is_the_one_that_the_client_got() -> None:
    async def work(store: SqliteStore) -> None:
        _, name = await take_turn(store, body(input="Hello"), response(message("Hi")))
        got = await said(store, "GET", "/v1/responses/{id}", {"id": name})
        assert got == {**json.loads(response(message("Hi"))), "id": name}
        assert await error_of(store, "GET", "/v1/responses/{id}", {"id": name}, owner="you") == (
            404,
            {
                "message": f"Response with id '{name}' not found.",
                "type": "invalid_request_error",
                "param": None,
                "code": "response_not_found",
            },
        )

    in_memory(work)


def test_a_stored_response_is_replayed_as_a_stream_from_any_event_on() -> None:
    async def work(store: SqliteStore) -> None:
        _, first = await take_turn(store, body(input="Hello"), response(message("Hi")))
        _, name = await take_turn(store, body(input="?", previous_response_id=first), response(message("Ho")))
        reply = await ask(store, "GET", "/v1/responses/{id}", {"id": name}, stream="true")
        assert reply.content_type.startswith("text/event-stream")
        events = [json.loads(frame.partition(b"data: ")[2]) for frame in reply.body.split(b"\n\n") if frame]
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        objects = [event["response"] for event in events if "response" in event]
        assert {(one["id"], one["previous_response_id"]) for one in objects} == {(name, first)}
        assert objects[-1] == await said(store, "GET", "/v1/responses/{id}", {"id": name})
        rest = await ask(store, "GET", "/v1/responses/{id}", {"id": name}, stream="true", starting_after="3")
        assert reply.body.endswith(rest.body)
        assert json.loads(rest.body.split(b"\n\n")[0].partition(b"data: ")[2])["sequence_number"] == 4

    in_memory(work)


@pytest.mark.parametrize("after", ["x", "", "-", "1.5", "9" * 5000])
def test_an_event_number_that_is_none_is_refused(after: str) -> None:
    async def work(store: SqliteStore) -> None:
        _, name = await take_turn(store, body(input="Hello"), response(message("Hi")))
        path = "/v1/responses/{id}"
        status, error = await error_of(store, "GET", path, {"id": name}, stream="true", starting_after=after)
        assert (status, error["param"]) == (400, "starting_after")

    in_memory(work)


def test_a_deleted_response_is_gone() -> None:
    async def work(store: SqliteStore) -> None:
        _, name = await take_turn(store, body(input="Hello"), response(message("Hi")))
        path = "/v1/responses/{id}"
        assert (await error_of(store, "DELETE", path, {"id": name}, owner="you"))[0] == 404
        deleted = await said(store, "DELETE", path, {"id": name})
        assert deleted == {"id": name, "object": "response", "deleted": True}
        assert (await error_of(store, "DELETE", path, {"id": name}))[0] == 404
        assert (await error_of(store, "GET", path, {"id": name}))[0] == 404

    in_memory(work)


def test_a_response_that_was_never_in_the_background_cannot_be_cancelled() -> None:
    async def work(store: SqliteStore) -> None:
        _, name = await take_turn(store, body(input="Hello"), response(message("Hi")))
        path = "/v1/responses/{id}/cancel"
        assert (await error_of(store, "POST", path, {"id": name}))[0] == 400
        assert (await error_of(store, "POST", path, {"id": "resp_x"}))[0] == 404

    in_memory(work)


def test_the_input_items_of_a_response_are_all_that_it_was_made_from() -> None:
    async def work(store: SqliteStore) -> None:
        _, first = await take_turn(store, body(input="Hello"), response(CALL))
        _, name = await take_turn(store, body(input=[RESULT], previous_response_id=first), response(message("Ho")))
        listed = await said(store, "GET", "/v1/responses/{id}/input_items", {"id": name}, order="asc")
        asked, called, result = listed["data"]
        assert asked == {
            **HELLO,
            "id": asked["id"],
            "status": "completed",
            "content": [{"type": "input_text", "text": "Hello"}],
        }
        assert called == CALL
        assert result == {**RESULT, "id": result["id"], "status": "completed"}
        assert asked["id"].startswith("msg_")
        assert result["id"].startswith("fco_")
        assert listed["first_id"] == asked["id"]
        assert listed["last_id"] == result["id"]
        assert (listed["object"], listed["has_more"]) == ("list", False)
        again = await said(store, "GET", "/v1/responses/{id}/input_items", {"id": first})
        assert again["data"] == [asked]

    in_memory(work)


def test_input_items_come_page_by_page_the_newest_first() -> None:
    async def work(store: SqliteStore) -> None:
        items = [{"role": "user", "content": f"{number}"} for number in range(25)]
        _, name = await take_turn(store, body(input=items), response(message("Ho")))
        seen: list[str] = []
        query: dict[str, str] = {}
        while True:
            page = await said(store, "GET", "/v1/responses/{id}/input_items", {"id": name}, **query)
            seen += [item["content"][0]["text"] for item in page["data"]]
            if not page["has_more"]:
                break
            query = {"after": page["last_id"]}
        assert seen == [f"{number}" for number in reversed(range(25))]
        assert len((await said(store, "GET", "/v1/responses/{id}/input_items", {"id": name}, limit="3"))["data"]) == 3

    in_memory(work)


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_items_with_the_same_id_are_all_listed_page_by_page(order: str) -> None:
    """Ids of items derive from the upstream's id of the response, and some servers repeat that in every turn."""

    async def work(store: SqliteStore) -> None:
        name: str | None = None
        for turn in range(4):
            previous = {} if name is None else {"previous_response_id": name}
            asked = {**HELLO, "id": "msg_mine", "content": f"question {turn}"}
            answer = {**message(f"answer {turn}"), "id": "msg_same_0"}
            _, name = await take_turn(store, body(input=[asked], **previous), response(answer))
        assert name is not None
        seen: list[str] = []
        ids: list[str] = []
        query = {"limit": "1", "order": order}
        for _ in range(20):
            page = await said(store, "GET", "/v1/responses/{id}/input_items", {"id": name}, **query)
            seen += [item["content"][0]["text"] for item in page["data"]]
            ids += [item["id"] for item in page["data"]]
            if not page["has_more"]:
                break
            query["after"] = page["last_id"]
        wanted = [f"{kind} {turn}" for turn in range(4) for kind in ("question", "answer")][:-1]
        assert seen == (wanted if order == "asc" else wanted[::-1])
        assert len(set(ids)) == 7
        assert {"msg_mine", "msg_same_0"} < set(ids)

    in_memory(work)


@pytest.mark.parametrize(
    ("query", "param", "status"),
    [
        ({"limit": "0"}, "limit", 400),
        ({"limit": "101"}, "limit", 400),
        ({"limit": "many"}, "limit", 400),
        ({"order": "up"}, "order", 400),
        ({"after": "msg_x"}, "after", 404),
    ],
)
def test_a_list_refuses_what_it_cannot_do(query: dict[str, str], param: str, status: int) -> None:
    async def work(store: SqliteStore) -> None:
        _, name = await take_turn(store, body(input="Hello"), response(message("Hi")))
        new = await said(store, "POST", "/v1/conversations", data={"items": [HELLO]})
        for path, wanted in (
            ("/v1/responses/{id}/input_items", name),
            ("/v1/conversations/{id}/items", new["id"]),
        ):
            told = await error_of(store, "GET", path, {"id": wanted}, **query)
            assert (told[0], told[1]["param"]) == (status, param)

    in_memory(work)


def test_own_items_are_listed_when_the_history_is_gone() -> None:
    async def work(store: SqliteStore) -> None:
        _, first = await take_turn(store, body(input="Hello"), response(message("Hi")))
        _, name = await take_turn(store, body(input="Bye", previous_response_id=first), response(message("Ho")))
        await store.delete_turn("me", first)
        listed = await said(store, "GET", "/v1/responses/{id}/input_items", {"id": name})
        assert [item["content"][0]["text"] for item in listed["data"]] == ["Bye"]
        assert (await error_of(store, "GET", "/v1/responses/{id}/input_items", {"id": first}))[0] == 404

    in_memory(work)


def test_a_conversation_is_made_read_changed_and_deleted() -> None:
    async def work(store: SqliteStore) -> None:
        new = await said(store, "POST", "/v1/conversations", data={"metadata": {"a": "b"}, "items": [HELLO]})
        assert new["id"].startswith("conv_")
        assert new == {"id": new["id"], "object": "conversation", "created_at": 5, "metadata": {"a": "b"}}
        values, path = {"id": new["id"]}, "/v1/conversations/{id}"
        assert await said(store, "GET", path, values) == new
        changed = await said(store, "POST", path, values, data={"metadata": {"c": "d"}})
        assert changed == {**new, "metadata": {"c": "d"}}
        for method in ("GET", "POST", "DELETE"):
            status, error = await error_of(store, method, path, values, owner="you", data={"metadata": {}})
            assert (status, error["code"]) == (404, "conversation_not_found")
        deleted = await said(store, "DELETE", path, values)
        assert deleted == {"id": new["id"], "object": "conversation.deleted", "deleted": True}
        assert (await error_of(store, "GET", path, values))[0] == 404

    in_memory(work)


def test_a_conversation_needs_no_body() -> None:
    async def work(store: SqliteStore) -> None:
        new = await said(store, "POST", "/v1/conversations")
        assert new["metadata"] == {}
        empty = await said(store, "GET", "/v1/conversations/{id}/items", {"id": new["id"]})
        assert empty == {"object": "list", "data": [], "first_id": "", "last_id": "", "has_more": False}

    in_memory(work)


def test_items_are_added_listed_read_and_deleted() -> None:
    async def work(store: SqliteStore) -> None:
        new = await said(store, "POST", "/v1/conversations", data={"items": [HELLO]})
        values, path = {"id": new["id"]}, "/v1/conversations/{id}/items"
        added = await said(store, "POST", path, values, data={"items": [CALL, RESULT]})
        assert [item["type"] for item in added["data"]] == ["function_call", "function_call_output"]
        listed = await said(store, "GET", path, values, order="asc", limit="2")
        assert [item["type"] for item in listed["data"]] == ["message", "function_call"]
        assert listed["has_more"] is True
        newest = await said(store, "GET", path, values, limit="1")
        assert newest["data"] == [added["data"][1]]
        one = {**values, "item": added["data"][1]["id"]}
        assert await said(store, "GET", f"{path}/{{item}}", one) == added["data"][1]
        assert await said(store, "DELETE", f"{path}/{{item}}", one) == new
        assert (await error_of(store, "GET", f"{path}/{{item}}", one))[1]["code"] == "item_not_found"
        assert (await error_of(store, "DELETE", f"{path}/{{item}}", one))[1]["code"] == "item_not_found"
        expanded, _ = await take_turn(store, body(input="?", conversation=new["id"]), response(message("Ho")))
        assert [item.get("type") for item in json.loads(expanded.body)["input"]] == [
            "message",
            "function_call",
            "message",
        ]

    in_memory(work)


@pytest.mark.parametrize(
    ("data", "where"),
    [
        ({"metadata": []}, "metadata"),
        ({"metadata": {"a": 5}}, "metadata.a"),
        ({"metadata": {"a": "x" * 513}}, "metadata.a"),
        ({"metadata": {"k" * 65: ""}}, "metadata"),
        ({"metadata": {f"{number}": "" for number in range(17)}}, "metadata"),
        ({"items": {}}, "items"),
        ({"items": [HELLO] * 21}, "items"),
        ({"items": [5]}, "$.items[0]"),
        ({"items": [{"type": "message", "content": "?"}]}, "$.items[0].role"),
        ([], "$"),
    ],
)
def test_a_wrong_conversation_is_refused_with_the_place(data: Any, where: str) -> None:
    async def work(store: SqliteStore) -> None:
        status, error = await error_of(store, "POST", "/v1/conversations", data=data)
        assert (status, error["param"]) == (400, where)
        assert (await store.size()).bytes == 0

    in_memory(work)


def test_a_store_out_of_reach_is_told_as_such() -> None:
    async def work(store: SqliteStore) -> None:
        await store.close()
        status, error = await error_of(store, "GET", "/v1/responses/{id}", {"id": "resp_1"})
        assert status == 503
        assert "the store is closed" in error["message"]

    in_memory(work)
