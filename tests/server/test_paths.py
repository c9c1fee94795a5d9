"""Where clients knock, the wrong doors included."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.server.gateway import Answer, Talk, at, gateway, request
from tests.server.stage import DIALECTS, FOREIGN, Call, Stage, Turn, model_of, stage
from tests.upstream.bad_server import BadServer, Gate, chunk, expect, head, pause, reply, send, stream
from toolglot.config.schema import ServerConfig
from toolglot.server.routes import ROUTES, Match, NoMatch, find

TURN = Turn("Hello", (Call("c1", "f", {"a": 1}),))


@pytest.fixture(scope="module")
def scene() -> Iterator[Stage]:
    with stage() as running:
        yield running


GEMINI = "models/{model}:generateContent"
PATHS = {
    "openai_chat": (
        "/v1/chat/completions",
        "/chat/completions",
        "/v1/v1/chat/completions",
        "/v1/chat/completions/",
        "/openai/v1/chat/completions",
        "/openai/chat/completions",
        "/v1/chat/completions?api-version=2026-01-01",
    ),
    "openai_responses": (
        "/v1/responses",
        "/responses",
        "/v1/v1/responses",
        "/openai/v1/responses",
        "/openai/responses",
    ),
    "anthropic": (
        "/v1/messages",
        "/v1/messages?beta=true",
        "/messages",
        "/v1/v1/messages?beta=true",
        "/anthropic/v1/messages",
        "/anthropic/messages?beta=true",
    ),
    "gemini": (
        f"/v1beta/{GEMINI}",
        f"/v1/{GEMINI}",
        f"/v1alpha/{GEMINI}",
        f"/{GEMINI}",
        f"/v1beta/v1beta/{GEMINI}",
        f"/v1/v1beta/{GEMINI}",
        f"/gemini/v1beta/{GEMINI}",
        f"/gemini/{GEMINI}",
        f"/google/v1beta/{GEMINI}",
        f"/v1beta/models/{GEMINI}",
        f"/v1beta/{GEMINI}?key=a-key-that-nobody-asked-for",
    ),
    "ollama": ("/api/chat", "/api/chat/", "/ollama/api/chat"),
}


@pytest.mark.parametrize(("client", "path"), [(client, path) for client, paths in PATHS.items() for path in paths])
def test_a_request_is_answered_however_the_base_url_was_written(scene: Stage, client: str, path: str) -> None:
    upstream = "anthropic" if client != "anthropic" else "openai_chat"
    scene.play(upstream, TURN)
    body = request(client, model=model_of(upstream))[1]
    answer = scene.running.call("POST", path.format(model=model_of(upstream)), body)
    assert answer.status == 200, answer.body
    assert b"Hello" in answer.body


@pytest.mark.parametrize("path", ["/v1beta/models/m", "/v1/models/m", "/models/m", "/gemini/v1beta/models/m"])
def test_gemini_streams_at_every_version_of_its_path(path: str) -> None:
    frame = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]}
    with (
        BadServer([expect(), stream(b"data: " + json.dumps(frame).encode() + b"\n\n")]) as upstream,
        gateway(at("gemini", upstream.url + "/v1")) as running,
    ):
        body = request("gemini")[1]
        answer = running.call("POST", path + ":streamGenerateContent?alt=sse", body)
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        # The version in the upstream's base URL is the upstream's.
        assert upstream.requests[0].target == "/v1/models/m:streamGenerateContent?alt=sse"


def test_a_models_name_may_have_slashes_and_a_tag_in_it() -> None:
    done = {"choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}
    with BadServer([expect(), reply(done)]) as upstream, gateway(at("openai_chat", upstream.url)) as running:
        for path in ("vendor/name:latest", "vendor%2Fname:latest", "vendor%2Fname%3Alatest"):
            answer = running.call("POST", f"/v1beta/models/{path}:generateContent", request("gemini")[1])
            assert answer.status == 200, answer.body
            assert upstream.requests[-1].json()["model"] == "vendor/name:latest"
            assert answer.json()["modelVersion"] == "vendor/name:latest"


def test_head_is_answered_as_get_without_a_body(scene: Stage) -> None:
    for path in ("/", "/health", "/ready", "/v1/models", "/v1/models/demo", "/metrics"):
        head = scene.running.call("HEAD", path)
        assert (head.status, head.body) == (200, b""), path
        assert int(head.headers["content-length"]) > 0


def test_probes_of_agents_are_answered_plainly(scene: Stage) -> None:
    # Claude Code asks for this one when its telemetry is on, and takes any answer.
    assert scene.running.call("HEAD", "/api/hello").status == 404
    refused = scene.running.call("HEAD", "/v1/messages")
    assert (refused.status, refused.body, refused.headers["allow"]) == (405, b"", "POST")


ERRORS: dict[str, Callable[[Any], str]] = {
    "openai_chat": lambda body: body["error"]["message"],
    "openai_responses": lambda body: body["error"]["message"],
    "anthropic": lambda body: body["error"]["message"] if body["type"] == "error" else "",
    "gemini": lambda body: body["error"]["message"] if body["error"]["status"] else "",
    "ollama": lambda body: body["error"],
}
"""Where the message of an error stands, and what else tells the dialect."""

WRONG_METHODS = [
    ("GET", "/v1/chat/completions", "openai_chat", "POST"),
    ("PUT", "/v1/messages", "anthropic", "POST"),
    ("GET", "/v1/messages/count_tokens", "anthropic", "POST"),
    ("DELETE", "/v1beta/models/m:generateContent", "gemini", "POST"),
    ("GET", "/v1beta/models/m:generateContent", "gemini", "POST"),
    ("GET", "/v1beta/models/qwen3:8b:countTokens", "gemini", "POST"),
    ("POST", "/v1beta/models", "gemini", "GET, HEAD"),
    ("PATCH", "/v1/responses/resp_1", "openai_responses", "GET, HEAD, DELETE"),
    ("POST", "/anthropic/v1/models", "anthropic", "GET, HEAD"),
    ("GET", "/api/chat", "ollama", "POST"),
    ("POST", "/api/tags", "ollama", "GET, HEAD"),
]


@pytest.mark.parametrize(("method", "path", "dialect", "allowed"), WRONG_METHODS)
def test_a_wrong_method_is_told_the_right_one(scene: Stage, method: str, path: str, dialect: str, allowed: str) -> None:
    answer = scene.running.call(method, path, b"{}")
    assert answer.status == 405
    assert answer.headers["allow"] == allowed
    assert allowed.partition(",")[0] in ERRORS[dialect](answer.json())


WRONG_PATHS = [
    ("/v1/chat/completion", "openai_chat", "/v1/chat/completions"),
    ("/v1/completions", "openai_chat", "/v1/chat/completions"),
    ("/v1/message", "anthropic", "/v1/messages"),
    ("/v1/messages/count_token", "anthropic", "/v1/messages/count_tokens"),
    ("/v1/response", "openai_responses", "/v1/responses"),
    ("/v1beta/model/m:generateContent", "gemini", "/v1beta/models/{model}:generateContent"),
    ("/v1beta/models/m:generate", "gemini", "/v1beta/models/{model}:generateContent"),
    ("/anthropic/v1/what", "anthropic", "/v1/messages"),
    ("/what/is/this", "openai_chat", "/v1/chat/completions"),
    ("/v1/chat", "openai_chat", "did you mean /v1/chat/completions?"),
    ("/v1/responses/resp_1/input", "openai_responses", "did you mean /v1/responses/{id}/input_items?"),
    ("/v1beta/models/a/b:8b:generat", "gemini", "did you mean /v1beta/models/{model}:generateContent?"),
]


@pytest.mark.parametrize(("path", "dialect", "right"), WRONG_PATHS)
def test_a_wrong_path_is_told_the_right_one_in_the_askers_dialect(
    scene: Stage, path: str, dialect: str, right: str
) -> None:
    answer = scene.running.call("POST", path, b"{}")
    assert answer.status == 404
    assert right in ERRORS[dialect](answer.json())


@pytest.mark.parametrize(
    "path", ["/helth", "/v1/interactions", "/v1beta/models/m:bogus", "/v1/metric", "/v1/" + "messages" * 500]
)
def test_a_path_that_is_like_no_other_gets_no_silly_suggestion(path: str) -> None:
    found = find("POST", path)
    assert isinstance(found, NoMatch)
    assert "did you mean" not in found.error.message
    assert "models answer at /v1" in found.error.message


@pytest.mark.parametrize(
    ("path", "what", "dialect"),
    [
        ("/v1/embeddings", "embeddings", "openai_chat"),
        ("/v1/images/generations", "images", "openai_chat"),
        ("/openai/v1/audio/speech", "audio", "openai_chat"),
        ("/v1/files/file_1", "files", "openai_chat"),
        ("/v1/messages/batches", "batches", "anthropic"),
        ("/v1/responses/compact", "compaction", "openai_responses"),
        ("/v1beta/models/m:embedContent", "embeddings", "gemini"),
    ],
)
def test_an_endpoint_that_is_known_and_not_served_is_called_so(
    scene: Stage, path: str, what: str, dialect: str
) -> None:
    answer = scene.running.call("POST", path, b"{}")
    assert answer.status == 404
    assert f"There is nothing at {path}: toolglot does not serve {what}; models answer at" in ERRORS[dialect](
        answer.json()
    )


def test_a_path_that_is_not_there_is_not_called_a_model(scene: Stage) -> None:
    def told(path: str, body: bytes = b"{}") -> Any:
        return scene.running.call("POST", path, body).json()["error"]["code"]

    assert told("/v1/embeddings") == "unknown_path"
    assert told("/v1/models") == "method_not_allowed"
    assert told("/v1/chat/completions", request("openai_chat", model="unheard-of")[1]) == "model_not_found"


@pytest.mark.parametrize(
    ("header", "dialect"), [("anthropic-version", "anthropic"), ("x-goog-api-key", "gemini"), ("accept", "openai_chat")]
)
def test_where_the_path_tells_no_dialect_the_headers_do(scene: Stage, header: str, dialect: str) -> None:
    answer = scene.running.call("POST", "/nowhere", b"{}", {header: "2023-06-01"})
    assert answer.status == 404
    assert ERRORS[dialect](answer.json())


def test_the_headers_tell_more_than_a_path_that_merely_looks_like_another(scene: Stage) -> None:
    for path in ("/v1/interactions", "/v1/conversation", "/v1/files", "/v1/models/m:embedContent"):
        answer = scene.running.call("POST", path, b"{}", {"x-goog-api-key": "k"})
        assert answer.status == 404
        assert answer.json()["error"]["status"] == "NOT_FOUND"


@pytest.mark.parametrize(("client", "upstream"), FOREIGN)
def test_an_unknown_model_is_a_404_in_the_askers_dialect(scene: Stage, client: str, upstream: str) -> None:
    near = model_of(upstream)[:-1]
    for streams in (False, True):
        answer = scene.running.ask(client, stream=streams, model=near)
        assert answer.status == 404
        assert model_of(upstream) in ERRORS[client](answer.json())  # it suggests the one that was meant


FIELDS = {"openai_chat": "messages", "openai_responses": "input", "anthropic": "messages", "gemini": "contents"}
FIELDS["ollama"] = "messages"


def test_a_body_that_is_no_request_is_a_400_that_says_where() -> None:
    with gateway() as running:
        for client in DIALECTS:
            path, _ = request(client)
            for body, where in (
                (b"{", "$"),
                (b"[]", "$"),
                (b'{"model":"demo","max_tokens":1,"messages":7,"input":7,"contents":7}', FIELDS[client]),
            ):
                answer = running.call("POST", path, body)
                assert answer.status == 400, (client, body, answer.body)
                assert where in ERRORS[client](answer.json())


# Keys, in every place where a client of some dialect puts one.

KEYED = ServerConfig(keys=("the-key-of-the-gateway",))
PLACES: dict[str, tuple[str, dict[str, str]]] = {
    "bearer": ("", {"authorization": "Bearer the-key-of-the-gateway"}),
    "x-api-key": ("", {"x-api-key": "the-key-of-the-gateway"}),
    "x-goog-api-key": ("", {"x-goog-api-key": "the-key-of-the-gateway"}),
    "query": ("key=the-key-of-the-gateway", {}),
}


def test_a_key_is_taken_wherever_clients_put_it_and_goes_no_further() -> None:
    done = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]}
    with (
        BadServer([expect(), reply(done)]) as upstream,
        gateway(at("gemini", upstream.url, key="the-key-of-the-upstream"), server=KEYED) as running,
    ):
        for client in DIALECTS:
            path, body = request(client)
            assert running.call("POST", path, body).status == 401
            for query, headers in PLACES.values():
                upstream.requests.clear()
                answer = running.call("POST", f"{path}?{query}", body, headers)
                assert answer.status == 200, answer.body
                (received,) = upstream.requests
                assert received.headers["x-goog-api-key"] == "the-key-of-the-upstream"
                assert b"the-key-of-the-gateway" not in received.head


# Gemini's streams as one JSON array.


def array_of(scene: Stage, upstream: str, query: str = "", model: str | None = None) -> Answer:
    path = f"/v1beta/models/{model or model_of(upstream)}:streamGenerateContent{query}"
    return scene.running.call("POST", path, request("gemini")[1])


@pytest.mark.parametrize("query", ["", "?alt=json", "?key=k"])
@pytest.mark.parametrize("upstream", DIALECTS)
def test_without_alt_sse_gemini_streams_one_json_array_of_the_same_frames(
    scene: Stage, upstream: str, query: str
) -> None:
    scene.play(upstream, TURN)
    answer = array_of(scene, upstream, query)
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json; charset=UTF-8"
    scene.play(upstream, TURN)
    events = array_of(scene, upstream, "?alt=sse")
    assert events.headers["content-type"].startswith("text/event-stream")
    frames = [json.loads(line[6:]) for line in events.body.splitlines() if line]
    assert without_times(answer.json()) == without_times(frames)


def without_times(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what differs between two answers of an upstream that tells no times and ids."""
    return [{key: frame[key] for key in frame if key not in ("createTime", "responseId")} for frame in frames]


def test_an_array_comes_piece_by_piece() -> None:
    first = {"candidates": [{"content": {"role": "model", "parts": [{"text": "One"}]}}]}
    last = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Two"}]}, "finishReason": "STOP"}]}
    gate = Gate()
    frames = [chunk(b"data: " + json.dumps(frame).encode() + b"\n\n") for frame in (first, last)]
    fields = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
    script = [expect(), send(head(200, fields), frames[0]), pause(gate), send(frames[1], b"0\r\n\r\n")]
    with BadServer(script) as upstream, gateway(at("gemini", upstream.url)) as running:
        talk = Talk(running.port).send("POST", "/v1/models/m:streamGenerateContent", {}, request("gemini")[1])
        begun = talk.until(b"One")
        assert begun.startswith(b"[{")
        assert b"Two" not in begun
        gate.open()
        assert [frame["candidates"][0]["content"]["parts"][0]["text"] for frame in talk.rest().json()] == ["One", "Two"]


@pytest.mark.parametrize("query", ["", "?alt=sse"])
def test_an_upstream_that_streams_an_array_is_read_as_well(query: str) -> None:
    """`alt=sse` is asked of every upstream; one that does not know it streams an array."""
    first = {"candidates": [{"content": {"role": "model", "parts": [{"text": "One"}]}}]}
    last = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Two"}]}, "finishReason": "STOP"}]}
    pieces = [b"[" + json.dumps(first).encode(), b"\r\n,\r\n", json.dumps(last).encode(), b"]\n"]
    with BadServer([expect(), stream(*pieces)]) as upstream, gateway(at("gemini", upstream.url)) as running:
        answer = running.call("POST", f"/v1beta/models/m:streamGenerateContent{query}", request("gemini")[1])
        assert answer.status == 200
        lines = [json.loads(line[6:]) for line in answer.body.splitlines() if line] if query else answer.json()
        said = [line["candidates"][0]["content"]["parts"][0]["text"] for line in lines]
        assert [text for text in said if text] == ["One", "Two"]
        assert lines[-1]["candidates"][0]["finishReason"] == "STOP"


def test_an_error_in_the_middle_of_an_array_is_its_last_element() -> None:
    first = {"candidates": [{"content": {"role": "model", "parts": [{"text": "One"}]}}]}
    with (
        BadServer([expect(), stream(b"data: " + json.dumps(first).encode() + b"\n\n", complete=False)]) as upstream,
        gateway(at("gemini", upstream.url)) as running,
    ):
        path = "/v1beta/models/m:streamGenerateContent"
        said, error = running.call("POST", path, request("gemini")[1]).json()
        assert said == first
        assert (error["error"]["code"], error["error"]["status"]) == (503, "UNAVAILABLE")


def test_an_error_before_an_array_has_begun_is_its_only_element(scene: Stage) -> None:
    answer = array_of(scene, "", model="unheard-of")
    assert answer.status == 404
    (error,) = answer.json()
    assert error["error"]["status"] == "NOT_FOUND"


# The table of routes itself.


def test_every_route_is_found_by_its_own_path() -> None:
    for route in ROUTES:
        path = route.path.format(model="a/b", id="x_1", item="y_2")
        found = find(route.method, path)
        assert isinstance(found, Match)
        assert found.route.action == route.action
        if "{model}" in path:
            assert found.values["model"] == "a/b"


@pytest.mark.parametrize("route", [route for route in ROUTES if route.method == "GET"], ids=lambda route: route.path)
def test_no_route_that_reads_answers_with_a_fault_of_ours(scene: Stage, route: Any) -> None:
    answer = scene.running.call("GET", route.path.format(model="demo", id="none", item="none") + "?name=demo")
    # There is no store here, and there are no receipts yet.
    assert answer.status in (200, 404, 503), answer.body


def test_a_model_is_checked_by_its_name(scene: Stage) -> None:
    answer = scene.running.call("GET", "/debug/model?name=demo")
    assert answer.json()["upstream_model"] == "demo"
    assert answer.json()["findings"] == []
    assert scene.running.call("GET", "/debug/model").status == 400


@pytest.mark.parametrize("path", ["/metrics", "/debug/receipts", "/admin/v1/keys", "/auth/login"])
@pytest.mark.parametrize("prefix", ["/v1", "/openai", "/anthropic/v1", "/v1beta", "/"])
def test_paths_of_operators_have_no_other_spelling(path: str, prefix: str) -> None:
    """A proxy keeps them from others by their beginning."""
    assert isinstance(find("GET", path), Match)
    for other in (prefix + path, f"{path}/", path.replace("/", "//")):
        assert isinstance(find("GET", other), NoMatch)
