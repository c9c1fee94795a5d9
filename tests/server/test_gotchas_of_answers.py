"""What real agents and SDKs need of an answer, each through the whole gateway, whatever the upstream's dialect is.

What they ask in ways that a gateway must be ready for is in `test_gotchas.py`; the numbers go on from one to the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.server.client_errors import break_told
from tests.server.client_needs import frames, needs
from tests.server.stage import DIALECTS, FOREIGN, Call, Stage, Turn, events_of, frames_of, in_turn, model_of, stage
from tests.upstream.bad_server import LAST_CHUNK, Gate, chunk, pause, reply, send, stream

NOT_ANTHROPIC = tuple(name for name in DIALECTS if name != "anthropic")
NOT_RESPONSES = tuple(name for name in DIALECTS if name != "openai_responses")


@pytest.fixture(scope="module")
def scene() -> Iterator[Stage]:
    with stage() as running:
        yield running


# 4: what Claude Code needs of a call.


@pytest.mark.parametrize("upstream", NOT_ANTHROPIC)
def test_gotcha_4_a_call_comes_in_deltas_and_its_block_is_closed(scene: Stage, upstream: str) -> None:
    scene.play(upstream, Turn("", (Call("call_1", "f", {"a": 1}), Call("call_2", "g", {}))))
    body = scene.ask("anthropic", upstream, stream=True).body
    assert needs("anthropic", body) == [("f", {"a": 1}), ("g", {})]
    starts = [json.loads(data) for event, data in frames(body) if event == "content_block_start"]
    assert [start["content_block"]["input"] for start in starts if start["content_block"]["type"] == "tool_use"] == [
        {},
        {},
    ]
    assert body.count(b"event: content_block_stop") == len(starts)


# 6: Codex reads finished items alone, the SDKs everything else.


@pytest.mark.parametrize("upstream", NOT_RESPONSES)
def test_gotcha_6_a_call_stands_in_its_item_and_in_the_completed_response(scene: Stage, upstream: str) -> None:
    scene.play(upstream, Turn("Both.", (Call("call_1", "f", {"a": 1}), Call("call_2", "g", {"a": 2}))))
    body = scene.ask("openai_responses", upstream, stream=True).body
    assert needs("openai_responses", body) == [("f", {"a": 1}), ("g", {"a": 2})]
    events = [json.loads(data) for _, data in frames(body)]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert [item["type"] for item in done] == ["message", "function_call", "function_call"]
    assert [item["call_id"] for item in done[1:]] == ["call_1", "call_2"]
    assert all(item["status"] == "completed" for item in done)
    assert events[-1]["type"] == "response.completed"


# 9, 10 and 11: the bytes of three dialects' streams.


@pytest.mark.parametrize("upstream", ["openai_responses", "anthropic", "gemini"])
def test_gotcha_9_chat_streams_have_index_id_type_role_and_a_reason_to_stop(scene: Stage, upstream: str) -> None:
    scene.play(upstream, Turn("Both.", (Call("call_1", "f", {"a": 1}), Call("call_2", "g", {"a": 2}))))
    body = scene.ask("openai_chat", upstream, stream=True).body
    assert needs("openai_chat", body) == [("f", {"a": 1}), ("g", {"a": 2})]
    for _, data in frames(body)[:-1]:
        for choice in json.loads(data)["choices"]:
            assert all("index" in call for call in choice["delta"].get("tool_calls", ()))


@pytest.mark.parametrize("upstream", DIALECTS)
def test_gotcha_10_gemini_streams_are_data_lines_with_a_space_and_blank_lines(scene: Stage, upstream: str) -> None:
    scene.play(upstream, Turn("One\n\ntwo: three", (Call("call_1", "f", {"a": "x\ndata: y\n\n"}),)))
    answer = scene.ask("gemini", upstream, stream=True)
    assert all(line == b"" or line.startswith(b"data: {") for line in answer.body.split(b"\n"))
    assert answer.body.endswith(b"}\n\n")
    assert answer.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize("upstream", NOT_ANTHROPIC)
def test_gotcha_11_anthropic_streams_have_event_lines_usage_and_an_end(scene: Stage, upstream: str) -> None:
    scene.play(upstream, Turn("Words."))
    body = scene.ask("anthropic", upstream, stream=True).body
    assert needs("anthropic", body) == []
    assert [event for event, _ in frames(body) if event != "ping"] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    delta = json.loads(frames(body)[-2][1])
    assert delta["usage"]["output_tokens"] == 7


# 12


@pytest.mark.parametrize("upstream", DIALECTS)
def test_gotcha_12_a_response_tells_when_it_was_made_and_by_what(scene: Stage, upstream: str) -> None:
    scene.play(upstream, Turn("Words."))
    whole = scene.ask("openai_responses", upstream).json()
    last = json.loads(frames(scene.ask("openai_responses", upstream, stream=True).body)[-1][1])["response"]
    for response in (whole, last):
        assert response["model"] == model_of(upstream)
        assert response["created_at"] > 1_700_000_000


# 14: clients that end at the first text.


@pytest.mark.parametrize(("client", "upstream"), FOREIGN)
def test_gotcha_14_no_text_is_put_before_a_call_that_has_none(scene: Stage, client: str, upstream: str) -> None:
    events = [event for event in events_of(upstream, Turn("", (Call("c1", "f", {"a": 1}),))) if not empty_text(event)]
    scene.steps(streamed=stream(*frames_of(upstream, events)))
    body = scene.ask(client, upstream, stream=True).body
    assert needs(client, body) == [("f", {"a": 1})]
    before = (
        body[: body.index(b'"name":"f"', body.rindex(b'"tools":['))]
        if client == "openai_responses"
        else (body[: body.index(b'"name":"f"')])
    )
    for words in (b'{"type":"text",', b'{"text":', b"output_text", b"content_part", b'"content":"'):
        assert words not in before.replace(b'"content":""', b""), words


def empty_text(event: Mapping[str, Any]) -> bool:
    """Frames that only say that there is a text with nothing in it."""
    if event.get("index") == 0 and "type" in event:
        return True
    if event.get("output_index") == 0 and "item" in event:
        return bool(event["item"]["type"] == "message")
    return (event.get("output_index") == 0 and "content_index" in event) or (
        "candidates" in event and event["candidates"][0]["content"]["parts"] == [{"text": ""}]
    )


# 15: what a shell will make of an argument is nobody's business on the way.


@pytest.mark.parametrize(("client", "upstream"), FOREIGN)
def test_gotcha_15_arguments_are_not_touched(scene: Stage, client: str, upstream: str) -> None:
    command = 'echo "$(ls)" && printf \'\\x1b[0m%s\\n\' "${HOME}" # ☂ \u2028 \x7f'
    scene.play(upstream, Turn("", (Call("c1", "f", {"a": command}),)))
    assert needs(client, scene.ask(client, upstream, stream=True).body) == [("f", {"a": command})]


# 16: errors, as what they are in the client's dialect, so that it retries what is worth it.

Error = Callable[[int, str], Any]
WRITTEN: dict[str, Error] = {
    "openai_chat": lambda status, kind: {"error": {"message": "No.", "type": kind, "param": None, "code": None}},
    "openai_responses": lambda status, kind: {"error": {"message": "No.", "type": kind, "param": None, "code": None}},
    "anthropic": lambda status, kind: {"type": "error", "error": {"type": kind, "message": "No."}},
    "gemini": lambda status, kind: {"error": {"code": status, "message": "No.", "status": kind}},
    "ollama": lambda status, kind: {"error": "No."},
}
UPSTREAMS_SAY = {
    "rate limit": {
        "openai_chat": (429, "rate_limit_exceeded"),
        "openai_responses": (429, "rate_limit_exceeded"),
        "anthropic": (429, "rate_limit_error"),
        "gemini": (429, "RESOURCE_EXHAUSTED"),
        "ollama": (429, ""),
    },
    "server": {
        "openai_chat": (500, "server_error"),
        "openai_responses": (500, "server_error"),
        "anthropic": (500, "api_error"),
        "gemini": (500, "INTERNAL"),
        "ollama": (500, ""),
    },
    "overloaded": {
        "openai_chat": (503, "server_error"),
        "openai_responses": (503, "server_error"),
        "anthropic": (529, "overloaded_error"),
        "gemini": (503, "UNAVAILABLE"),
        "ollama": (503, ""),
    },
    "bad request": {
        "openai_chat": (400, "invalid_request_error"),
        "openai_responses": (400, "invalid_request_error"),
        "anthropic": (400, "invalid_request_error"),
        "gemini": (400, "INVALID_ARGUMENT"),
        "ollama": (400, ""),
    },
}
CLIENTS_SEE: dict[str, Callable[[Any], str]] = {
    "openai_chat": lambda error: error["error"]["message"],
    "openai_responses": lambda error: error["error"]["message"],
    "anthropic": lambda error: error["error"]["type"],
    "gemini": lambda error: error["error"]["status"],
    "ollama": lambda error: error["error"],
}


@pytest.mark.parametrize("kind", UPSTREAMS_SAY)
@pytest.mark.parametrize(("client", "upstream"), FOREIGN)
def test_gotcha_16_an_error_has_the_clients_status_and_words(
    scene: Stage, client: str, upstream: str, kind: str
) -> None:
    status, name = UPSTREAMS_SAY[kind][upstream]
    step = reply(WRITTEN[upstream](status, name), status, {"retry-after": "7"} if kind == "rate limit" else None)
    wanted, words = UPSTREAMS_SAY[kind][client]
    for streams in (True, False):
        scene.steps(streamed=step, whole=step)
        answer = scene.ask(client, upstream, stream=streams)
        assert answer.status == wanted
        assert answer.headers["content-type"].startswith("application/json")
        told = CLIENTS_SEE[client](answer.json())
        assert told == (words if client in ("anthropic", "gemini") else "No.")
        if kind == "rate limit" and client != "gemini":
            assert answer.headers["retry-after"] == "7"


MIDDLE = {
    "openai_chat": b'data: {"error":{"message":"Too busy.","type":"server_error","code":null}}\n\n',
    "openai_responses": b'event: error\ndata: {"type":"error","code":"server_error","message":"Too busy."}\n\n',
    "anthropic": b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Too busy."}}\n\n',
    "gemini": b'data: {"error":{"code":503,"message":"Too busy.","status":"UNAVAILABLE"}}\n\n',
    "ollama": b'{"error":"Too busy."}\n',
}
LAST: dict[str, Callable[[Any], str]] = {
    "openai_chat": lambda last: last["error"]["message"],
    "openai_responses": lambda last: last["response"]["error"]["message"],
    "anthropic": lambda last: last["error"]["message"],
    "gemini": lambda last: last["error"]["message"],
    "ollama": lambda last: last["error"],
}


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize(("client", "upstream"), FOREIGN)
def test_gotcha_16_an_error_in_the_middle_is_the_streams_own_and_its_last_event(
    scene: Stage, client: str, upstream: str, cut: bool
) -> None:
    whole = frames_of(upstream, events_of(upstream, Turn("Some words, and then", (Call("c1", "f", {}),))))
    begun = whole[: next(index for index, frame in enumerate(whole) if b"Some words" in frame) + 1]
    seen, ending = Gate(), chunk(MIDDLE[upstream]) + LAST_CHUNK
    scene.steps(streamed=in_turn(stream(*begun, complete=False), pause(seen), *(() if cut else (send(ending),))))
    talk = scene.running.begin(client, stream=True, model=model_of(upstream))
    talk.until(b"Some words")
    seen.open()
    answer = talk.rest()
    assert answer.status == 200
    if cut:
        break_told(client, answer)
    else:
        assert answer.complete
        last = answer.body.rstrip().rpartition(b"\n")[2].removeprefix(b"data: ")
        assert LAST[client](json.loads(last)) == "Too busy."
    for end in (b"[DONE]", b"message_stop", b"response.completed", b"finishReason", b'"done":true'):
        assert end not in answer.body
