"""The Responses API's memory over HTTP: upstreams that remember nothing, clients that count on it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.server.client_needs import frames
from tests.server.gateway import Answer, at, gateway
from tests.server.stage import DIALECTS, Call, Stage, Turn, events_of, frames_of, in_turn, model_of, stage, whole_of
from tests.upstream.bad_server import BadServer, Gate, expect, gone, pause, reply, stream, tell
from tests.waiting import until
from toolglot.config.schema import BreakerConfig, ServerConfig
from toolglot.store import StoreError
from toolglot.store.sqlite import MEMORY, SqliteStore

TOOL = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
CALLS = Turn("Let me look.", (Call("call_1", "f", {"a": 1}), Call("call_2", "f", {"a": 2})))


@contextmanager
def stored(path: Path | str = MEMORY) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    try:
        yield store
    finally:
        asyncio.run(store.close())


@pytest.fixture(scope="module")
def scene() -> Iterator[Stage]:
    with stored() as store, stage(store=store) as running:
        yield running


class Client:
    """Asks for responses of one upstream, streamed or not."""

    def __init__(self, scene: Stage, upstream: str = "openai_chat", *, streams: bool = False) -> None:
        self.scene = scene
        self.upstream = upstream
        self.streams = streams

    def ask(self, turn: Turn, **fields: Any) -> Any:
        """The response that the client ends up with."""
        self.scene.play(self.upstream, turn)
        answer = self.raw(**fields)
        assert answer.status == 200, answer.body
        if not self.streams:
            return answer.json()
        events = [json.loads(data) for _, data in frames(answer.body)]
        ids = {event["response"]["id"] for event in events if "response" in event}
        assert len(ids) == 1, "a response has one id from its first event to its last"
        return events[-1]["response"]

    def raw(self, **fields: Any) -> Answer:
        return self.scene.ask("openai_responses", self.upstream, body=fields, stream=self.streams)

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        answer = self.scene.running.call(method, path, data, {"content-type": "application/json"})
        return answer.status, answer.json()


EACH = pytest.mark.parametrize(
    ("upstream", "streams"), [(upstream, streams) for upstream in DIALECTS for streams in (False, True)]
)


def texts(sent: Any) -> list[str]:
    """What was said, in order, in whatever dialect."""
    found: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, list):
            for one in value:
                walk(one)
        elif isinstance(value, dict):
            for key in ("content", "parts", "text", "arguments", "args", "input", "output", "response", "tool_calls"):
                walk(value.get(key))
            for key in ("function", "functionCall", "functionResponse"):
                walk(value.get(key))
        elif isinstance(value, str) and value:
            found.append(value)

    walk(sent.get("messages") or sent.get("contents") or sent.get("input"))
    return found


@EACH
def test_a_conversation_goes_on_from_the_last_response(scene: Stage, upstream: str, streams: bool) -> None:
    client = Client(scene, upstream, streams=streams)
    first = client.ask(CALLS, input="The question.", tools=[TOOL], instructions="Be brief.")
    assert first["status"] == "completed"
    assert first["store"] is True
    results = [
        {"type": "function_call_output", "call_id": "call_1", "output": "result one"},
        {"type": "function_call_output", "call_id": "call_2", "output": "result two"},
    ]
    second = client.ask(Turn("The answer."), input=results, previous_response_id=first["id"], tools=[TOOL])
    assert second["previous_response_id"] == first["id"]
    assert second["id"] != first["id"]
    said = " ".join(texts(scene.sent))
    order = ["The question.", "Let me look.", "result one", "result two"]
    assert [said.count(words) for words in order] == [1, 1, 1, 1]
    assert sorted(order, key=said.index) == order
    # Instructions are not inherited: the API says so.
    assert "Be brief." not in json.dumps(scene.sent)
    third = client.ask(Turn("Done."), input="And now?", previous_response_id=second["id"])
    said = " ".join(texts(scene.sent))
    assert all(words in said for words in (*order, "The answer.", "And now?"))
    assert third["previous_response_id"] == second["id"]
    assert "previous_response_id" not in scene.sent


def test_two_responses_can_go_on_from_the_same_one(scene: Stage) -> None:
    client = Client(scene)
    first = client.ask(Turn("One."), input="Begin.")
    for words in ("Left.", "Right."):
        client.ask(Turn("Yes."), input=words, previous_response_id=first["id"])
        assert texts(scene.sent) == ["Begin.", "One.", words]


def test_a_response_that_is_not_there_is_told_in_the_words_that_clients_look_for(scene: Stage) -> None:
    client = Client(scene)
    scene.steps()
    for streams in (False, True):
        client.streams = streams
        answer = client.raw(input="Go on.", previous_response_id="resp_none")
        assert answer.status == 400
        error = answer.json()["error"]
        assert (error["code"], error["param"]) == ("previous_response_not_found", "previous_response_id")
    assert not scene.upstream.requests


@pytest.mark.parametrize("streams", [False, True])
def test_what_is_not_to_be_stored_is_not(scene: Stage, streams: bool) -> None:
    client = Client(scene, streams=streams)
    kept = client.ask(Turn("Kept."), input="Keep this.")
    told = client.ask(Turn("Gone."), input="Forget this.", store=False, previous_response_id=kept["id"])
    assert told["store"] is False
    assert texts(scene.sent) == ["Keep this.", "Kept.", "Forget this."]
    assert client.call("GET", f"/v1/responses/{told['id']}")[0] == 404
    assert client.raw(input="Go on.", previous_response_id=told["id"]).status == 400


@EACH
def test_a_stored_response_is_retrieved_as_it_was_told(scene: Stage, upstream: str, streams: bool) -> None:
    client = Client(scene, upstream, streams=streams)
    response = client.ask(CALLS, input="The question.", tools=[TOOL], metadata={"a": "b"})
    assert client.call("GET", f"/v1/responses/{response['id']}") == (200, response)
    assert client.call("GET", f"/responses/{response['id']}") == (200, response)
    status, listed = client.call("GET", f"/v1/responses/{response['id']}/input_items")
    assert status == 200
    assert listed["object"] == "list"
    (item,) = listed["data"]
    assert (item["role"], texts({"messages": item["content"]})) == ("user", ["The question."])


def test_input_items_are_the_history_and_the_requests_own_newest_first_unless_asked_otherwise(scene: Stage) -> None:
    client = Client(scene)
    first = client.ask(Turn("One."), input="A.")
    second = client.ask(Turn("Two."), input="B.", previous_response_id=first["id"])
    path = f"/v1/responses/{second['id']}/input_items"
    newest = client.call("GET", path)[1]["data"]
    oldest = client.call("GET", path + "?order=asc")[1]["data"]
    assert [texts({"messages": item["content"]}) for item in oldest] == [["A."], ["One."], ["B."]]
    assert newest == oldest[::-1]
    page = client.call("GET", f"{path}?order=asc&limit=1&after={oldest[0]['id']}")[1]
    assert (page["data"], page["has_more"]) == ([oldest[1]], True)


def test_a_deleted_response_is_gone_and_so_is_what_would_go_on_from_it(scene: Stage) -> None:
    client = Client(scene)
    first = client.ask(Turn("One."), input="A.")
    path = f"/v1/responses/{first['id']}"
    assert client.call("DELETE", path) == (200, {"id": first["id"], "object": "response", "deleted": True})
    assert client.call("DELETE", path)[0] == 404
    status, body = client.call("GET", path)
    assert (status, body["error"]["code"]) == (404, "response_not_found")
    assert client.raw(input="B.", previous_response_id=first["id"]).status == 400


def test_what_has_ended_cannot_be_cancelled(scene: Stage) -> None:
    client = Client(scene)
    first = client.ask(Turn("One."), input="A.")
    status, body = client.call("POST", f"/v1/responses/{first['id']}/cancel")
    assert (status, body["error"]["type"]) == (400, "invalid_request_error")
    assert client.call("POST", "/v1/responses/resp_none/cancel")[0] == 404
    refused = client.raw(input="A.", background=True)
    assert (refused.status, refused.json()["error"]["param"]) == (400, "background")


def test_a_stored_response_can_be_streamed_again(scene: Stage) -> None:
    client = Client(scene)
    first = client.ask(CALLS, input="A.", tools=[TOOL])
    answer = scene.running.call("GET", f"/v1/responses/{first['id']}?stream=true")
    events = [json.loads(data) for _, data in frames(answer.body)]
    assert events[-1]["response"]["output"] == first["output"]
    assert events[-1]["response"]["id"] == first["id"]
    rest = scene.running.call("GET", f"/v1/responses/{first['id']}?stream=true&starting_after=3")
    assert json.loads(frames(rest.body)[0][1])["sequence_number"] == 4


# Conversations.


@EACH
def test_a_conversation_remembers_what_was_said_in_it(scene: Stage, upstream: str, streams: bool) -> None:
    client = Client(scene, upstream, streams=streams)
    items = [{"type": "message", "role": "user", "content": "From before."}]
    status, conversation = client.call("POST", "/v1/conversations", {"items": items, "metadata": {"topic": "x"}})
    assert (status, conversation["object"], conversation["metadata"]) == (200, "conversation", {"topic": "x"})
    name = conversation["id"]
    first = client.ask(Turn("One."), input="A.", conversation=name)
    assert first["conversation"] == {"id": name}
    client.ask(Turn("Two."), input="B.", conversation={"id": name}, store=False)
    assert texts(scene.sent) == ["From before.", "A.", "One.", "B."]
    status, listed = client.call("GET", f"/v1/conversations/{name}/items?order=asc")
    assert [texts({"messages": item["content"]}) for item in listed["data"]] == [
        ["From before."],
        ["A."],
        ["One."],
        ["B."],
        ["Two."],
    ]
    item = listed["data"][1]["id"]
    assert client.call("GET", f"/v1/conversations/{name}/items/{item}")[1]["id"] == item
    assert client.call("DELETE", f"/v1/conversations/{name}/items/{item}")[0] == 200
    client.ask(Turn("Three."), input="C.", conversation=name)
    assert texts(scene.sent) == ["From before.", "One.", "B.", "Two.", "C."]
    assert client.call("POST", f"/v1/conversations/{name}", {"metadata": {}})[1]["metadata"] == {}
    assert client.call("DELETE", f"/v1/conversations/{name}")[1]["deleted"] is True
    assert client.raw(input="D.", conversation=name).status == 404


def test_a_conversation_and_a_previous_response_are_one_too_many(scene: Stage) -> None:
    client = Client(scene)
    first = client.ask(Turn("One."), input="A.")
    _, conversation = client.call("POST", "/v1/conversations", {})
    refused = client.raw(input="B.", conversation=conversation["id"], previous_response_id=first["id"])
    assert refused.status == 400


# What is kept, and for how long.


def test_a_restart_forgets_nothing(tmp_path: Path) -> None:
    file = tmp_path / "state" / "toolglot.sqlite3"
    with stored(file) as store, stage(store=store) as running:
        client = Client(running, streams=True)
        first = client.ask(CALLS, input="The question.", tools=[TOOL])
        _, conversation = client.call("POST", "/v1/conversations", {})
        client.ask(Turn("Yes."), input="In a conversation.", conversation=conversation["id"])
    with stored(file) as store, stage(store=store) as running:
        client = Client(running, "anthropic")
        assert client.call("GET", f"/v1/responses/{first['id']}") == (200, first)
        output = [{"type": "function_call_output", "call_id": f"call_{n}", "output": f"result {n}"} for n in (1, 2)]
        client.ask(Turn("Good."), input=output, previous_response_id=first["id"], tools=[TOOL])
        assert texts(running.sent)[0] == "The question."
        assert "result 2" in texts(running.sent)
        client.ask(Turn("Good."), input="Again.", conversation=conversation["id"])
        assert texts(running.sent) == ["In a conversation.", "Yes.", "Again."]


@pytest.mark.parametrize("upstream", DIALECTS)
def test_a_stream_that_was_cut_is_not_stored(scene: Stage, upstream: str) -> None:
    whole = frames_of(upstream, events_of(upstream, Turn("Some words, and then")))
    begun = whole[: next(index for index, frame in enumerate(whole) if b"Some words" in frame) + 1]
    begun = [frame.replace(b"finishReason", b"ignored") for frame in begun]
    seen = Gate()
    scene.steps(streamed=in_turn(stream(*begun, complete=False), pause(seen)))
    talk = scene.running.begin("openai_responses", stream=True, model=model_of(upstream), body={"input": "A."})
    talk.until(b"Some words")
    seen.open()
    events = [json.loads(data) for _, data in frames(talk.rest().body)]
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["store"] is False
    name = events[0]["response"]["id"]
    client = Client(scene, upstream)
    assert client.call("GET", f"/v1/responses/{name}")[0] == 404
    assert client.raw(input="B.", previous_response_id=name).status == 400


def test_a_stream_whose_client_has_gone_is_not_stored() -> None:
    with stored() as store, stage(store=store) as scene:
        _leave_a_stream(scene)


def _leave_a_stream(scene: Stage) -> None:
    whole = frames_of("openai_chat", events_of("openai_chat", Turn("Some words, and then")))
    left = Gate()
    scene.steps(streamed=in_turn(stream(*whole[:2], complete=False), gone(left)))
    talk = scene.running.begin("openai_responses", stream=True, model=model_of("openai_chat"), body={"input": "A."})
    begun = talk.until(b"Some words")
    name = json.loads(frames(begun[: begun.index(b"\n\n") + 2])[0][1])["response"]["id"]
    talk.leave()
    left.wait_blocking()
    scene.running.record()
    assert Client(scene).call("GET", f"/v1/responses/{name}")[0] == 404


def test_an_error_is_not_stored_and_the_next_try_goes_on_from_the_same_place(scene: Stage) -> None:
    client = Client(scene)
    first = client.ask(Turn("One."), input="A.")
    scene.steps(whole=reply({"error": {"message": "No.", "type": "server_error"}}, 500))
    assert client.raw(input="B.", previous_response_id=first["id"]).status == 500
    client.ask(Turn("Two."), input="B.", previous_response_id=first["id"])
    assert texts(scene.sent) == ["A.", "One.", "B."]


def test_an_answer_that_was_too_long_is_stored_as_far_as_it_came(scene: Stage) -> None:
    events = events_of("openai_chat", Turn("Half a"))
    for event in events:
        for choice in event["choices"]:
            choice["finish_reason"] = choice["finish_reason"] and "length"
    scene.steps(streamed=stream(*frames_of("openai_chat", events)))
    client = Client(scene, streams=True)
    answer = client.raw(input="A.")
    last = json.loads(frames(answer.body)[-1][1])
    assert last["type"] == "response.incomplete"
    client.streams = False
    client.ask(Turn("sentence."), input="Go on.", previous_response_id=last["response"]["id"])
    assert texts(scene.sent) == ["A.", "Half a", "Go on."]


def test_a_turn_is_stored_before_its_client_can_go_on_from_it(scene: Stage) -> None:
    """An agent's next request may come as soon as the last event has, before the connection is closed."""
    whole = frames_of("openai_chat", events_of("openai_chat", Turn("One.")))
    held, told = Gate(), Gate()
    scene.steps(streamed=in_turn(stream(*whole, complete=False), tell(told), pause(held)))
    talk = scene.running.begin("openai_responses", stream=True, model=model_of("openai_chat"), body={"input": "A."})
    done = talk.until(b'"type":"response.completed"')
    while not done.endswith(b"\n\n"):
        done = talk.until(b"\n\n" + done[-1:])
    name = json.loads(frames(done)[-1][1])["response"]["id"]
    Client(scene).ask(Turn("Two."), input="B.", previous_response_id=name)
    assert texts(scene.sent) == ["A.", "One.", "B."]
    held.open()
    assert talk.rest().complete


def test_one_key_does_not_see_what_another_has_stored() -> None:
    done = {"choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}
    names = ("the-first-key-of-two", "the-second-key-of-two")
    headers = [{"authorization": f"Bearer {name}"} for name in names]
    with (
        stored() as store,
        BadServer([expect(), reply(done)]) as upstream,
        gateway(at("openai_chat", upstream.url), server=ServerConfig(keys=names), store=store) as running,
    ):
        answer = running.ask("openai_responses", body={"input": "Mine."}, headers=headers[0]).json()
        path = f"/v1/responses/{answer['id']}"
        assert [running.call("GET", path, headers=header).status for header in headers] == [200, 404]
        more = {"input": "Yours?", "previous_response_id": answer["id"]}
        assert running.ask("openai_responses", body=more, headers=headers[1]).status == 400
        assert running.call("DELETE", path, headers=headers[1]).status == 404


def test_without_a_store_answers_are_given_and_stored_things_are_refused() -> None:
    with gateway() as running:
        assert running.ask("openai_responses", model="demo").status == 200
        refused = running.call("GET", "/v1/responses/resp_1")
        assert refused.status == 404
        for link in ({"previous_response_id": "resp_1"}, {"conversation": "conv_1"}):
            answer = running.ask("openai_responses", model="demo", body={"input": "A.", **link})
            assert answer.status == 400
            assert answer.json()["error"]["code"] == "previous_response_not_found"


STREAMS = pytest.mark.parametrize("streams", [False, True])


@STREAMS
@pytest.mark.parametrize(("fields", "told"), [({"store": True}, "loss"), ({}, "note"), ({"store": False}, None)])
def test_without_a_store_an_answer_does_not_say_that_it_is_stored(
    fields: dict[str, Any], told: str | None, streams: bool
) -> None:
    with gateway() as running:
        body = {"input": "Hi", **fields}
        answer = running.ask("openai_responses", model="demo", body=body, stream=streams)
        if streams:
            told_in_events = [json.loads(data) for _, data in frames(answer.body)]
            stored = [event["response"]["store"] for event in told_in_events if "response" in event]
        else:
            stored = [answer.json()["store"]]
        assert set(stored) == {False}
        lines = running.receipt(answer)["lines"]
        assert [line["severity"] for line in lines if line["what"] == "store"] == ([] if told is None else [told])
        losses = 1 if told == "loss" else 0
        assert answer.headers["x-toolglot-receipt"].startswith(f"losses={losses};")


@pytest.mark.parametrize(("fields", "status"), [({"store": True}, 400), ({}, 200), ({"store": False}, 200)])
def test_strict_refuses_to_be_asked_for_storing_where_nothing_is_stored(fields: dict[str, Any], status: int) -> None:
    with gateway(strict=True) as running:
        answer = running.ask("openai_responses", model="demo", body={"input": "Hi", **fields})
        assert answer.status == status
        assert status == 200 or "stores nothing" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/resp_1"),
        ("DELETE", "/v1/responses/resp_1"),
        ("GET", "/v1/responses/resp_1/input_items"),
        ("POST", "/v1/conversations"),
        ("GET", "/v1/conversations/conv_1"),
        ("GET", "/v1/conversations/conv_1/items"),
    ],
)
def test_a_gateway_that_is_to_store_nothing_says_so_and_nobody_tries_again(method: str, path: str) -> None:
    what = path.split("/")[2].removesuffix("s")
    with gateway() as running:
        answer = running.call(method, path, b"{}" if method == "POST" else None)
        assert answer.status == 404
        assert answer.json()["error"]["code"] == f"{what}_not_found"
        assert "stores nothing" in answer.json()["error"]["message"]
        running.service.store_failure = "the disk is full"
        answer = running.call(method, path, b"{}" if method == "POST" else None)
        assert answer.status == 503
        assert "could not be opened (the disk is full)" in answer.json()["error"]["message"]


def test_a_count_counts_the_history_too(scene: Stage) -> None:
    client = Client(scene)
    first = client.ask(Turn("A rather long answer, so that it weighs something. " * 20), input="A.")
    path = "/v1/responses/input_tokens"
    model = model_of("openai_chat")
    short = client.call("POST", path, {"model": model, "input": "B."})[1]["input_tokens"]
    body = {"model": model, "input": "B.", "previous_response_id": first["id"]}
    assert client.call("POST", path, body)[1]["input_tokens"] > short + 100
    assert client.call("POST", path, {**body, "previous_response_id": "resp_none"})[0] == 400


def test_other_clients_leave_no_trace_in_the_store(scene: Stage) -> None:
    scene.play("openai_chat", Turn("One."))
    answer = scene.ask("anthropic", "openai_chat").json()
    assert Client(scene).call("GET", f"/v1/responses/{answer['id']}")[0] == 404


# Upstreams that have a memory of their own.


def test_an_upstream_that_remembers_is_told_what_it_is_to_go_on_from() -> None:
    done = whole_of("openai_responses", Turn("Yes."))
    with (
        stored() as store,
        BadServer([expect(), reply(done)]) as upstream,
        gateway(at("openai_responses", upstream.url, vendor="openai", key="the-key"), store=store) as running,
    ):
        body = {"input": "Go on.", "previous_response_id": "resp_theirs"}
        answer = running.ask("openai_responses", body=body)
        assert answer.json() == done  # its id is the upstream's own
        assert upstream.requests[0].json() == {"model": "m", **body}
        asked = running.call("GET", "/v1/responses/resp_1?include=a&key=mine", headers={"openai-organization": "org"})
        assert asked.json() == done
        received = upstream.requests[1]
        assert (received.method, received.target) == ("GET", "/v1/responses/resp_1?include=a")
        assert received.headers["authorization"] == "Bearer the-key"
        assert received.headers["openai-organization"] == "org"
        running.call("DELETE", "/v1/responses/..%2F..%2Ffiles")
        running.call("POST", "/responses/resp_1/cancel", b"{}")
        assert [(one.method, one.target) for one in upstream.requests[2:]] == [
            ("POST", "/v1/responses/resp_1/cancel"),
        ]


def test_what_such_an_upstream_answers_is_told_as_it_is() -> None:
    gone_error = {"error": {"message": "Gone.", "type": "invalid_request_error", "param": "id", "code": "x"}}
    with (
        stored() as store,
        BadServer([expect(), reply(gone_error, 404, {"openai-processing-ms": "3"})]) as upstream,
        gateway(at("openai_responses", upstream.url, vendor="openai"), store=store) as running,
    ):
        answer = running.call("GET", "/v1/responses/resp_1/input_items")
        assert (answer.status, answer.json()) == (404, gone_error)
        assert answer.headers["openai-processing-ms"] == "3"
        assert running.call("GET", "/v1/conversations/conv_1").json()["error"]["code"] == "conversation_not_found"
        assert len(upstream.requests) == 1


def test_what_is_stored_behind_one_account_is_shown_to_nobody_when_several_clients_share_it() -> None:
    keys = ("the-first-key-of-two", "the-second-key-of-two")
    with (
        stored() as store,
        BadServer([expect(), reply(whole_of("openai_responses", Turn("Yes.")))]) as upstream,
        gateway(
            at("openai_responses", upstream.url, vendor="openai"), server=ServerConfig(keys=keys), store=store
        ) as running,
    ):
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/input_items"), ("POST", "/cancel")):
            headers = {"authorization": f"Bearer {keys[1]}"}
            answer = running.call(method, f"/v1/responses/resp_theirs{path}", headers=headers)
            assert (answer.status, answer.json()["error"]["code"]) == (404, "response_not_found")
        assert not upstream.requests


def test_an_error_of_such_an_upstream_does_not_repeat_the_key() -> None:
    refused = {"error": {"message": "Incorrect API key provided: the-secret-key", "type": "invalid_request_error"}}
    with (
        stored() as store,
        BadServer([expect(), reply(refused, 401)]) as upstream,
        gateway(at("openai_responses", upstream.url, vendor="openai", key="the-secret-key"), store=store) as running,
    ):
        answer = running.call("GET", "/v1/responses/resp_1")
        assert answer.status == 401
        assert answer.json()["error"]["message"] == "Incorrect API key provided: (hidden)"


def test_such_an_upstream_is_left_alone_once_it_has_failed_often_enough() -> None:
    with (
        stored() as store,
        BadServer([expect(), reply({"error": {"message": "Out of order."}}, 500)]) as upstream,
        gateway(
            at("openai_responses", upstream.url, vendor="openai", breaker=BreakerConfig(failures=2, rest=1000)),
            store=store,
        ) as running,
    ):
        answers = [running.call("GET", "/v1/responses/resp_1") for _ in range(3)]
        assert [answer.status for answer in answers] == [500, 500, 503]
        assert answers[2].json()["error"]["code"] == "upstream_resting"
        assert len(upstream.requests) == 2


class FullDisk(SqliteStore):
    """A store that can be read and takes nothing more."""

    async def save(self, *arguments: Any, **named: Any) -> None:
        raise StoreError("full", "the disk or the store's file is full")


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("upstream", DIALECTS)
def test_an_answer_that_a_full_disk_cannot_keep_says_that_it_is_not_stored(upstream: str, streams: bool) -> None:
    store = FullDisk(MEMORY)
    with stage(store=store) as scene:
        client = Client(scene, upstream, streams=streams)
        told = client.ask(Turn("Hello."), input="Hi.", store=True)
        assert told["store"] is False
        assert texts({"input": told["output"]}) == ["Hello."]
        status, _ = client.call("GET", f"/v1/responses/{told['id']}")
        assert status == 404
        (receipt, *_) = until(lambda: scene.running.service.receipts.latest("", 1), "receipt")
        lines = receipt["lines"]
        told_lines = [(line["severity"], line["where"]) for line in lines if line["what"] == "store"]
        assert told_lines == [("loss", "store")]
    asyncio.run(store.close())


def test_a_history_that_is_damaged_in_the_store_is_the_stores_failure(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"
    with stored(path) as store, stage(store=store) as scene:
        client = Client(scene)
        first = client.ask(Turn("One."), input="A.")
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE responses SET response = '{\"output\": [', request_input = 'nothing'")
        connection.close()
        answer = client.raw(input="B.", previous_response_id=first["id"])
        assert answer.status == 503
        assert "not available: its content is damaged" in answer.json()["error"]["message"]
