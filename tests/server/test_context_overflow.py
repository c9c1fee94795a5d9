"""An upstream whose context window is full: what clients of every dialect are told, before a stream and inside one."""

from __future__ import annotations

import json

import pytest

from tests.server.gateway import CLIENTS, at, gateway
from tests.upstream.bad_server import BadServer, Script, expect, reply, stream
from toolglot.config.schema import Retries
from toolglot.dialects import DIALECTS
from toolglot.dialects.openai_responses.response import NO_ID

VLLM = {
    "object": "error",
    "message": "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
    "type": "BadRequestError",
    "param": None,
    "code": 400,
}
EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)


def refusal(streamed: bool) -> Script:
    """The error as a reply with a status, or as the first event of a stream (LM Studio, llama.cpp)."""
    frame = b"data: " + json.dumps({"error": VLLM}).encode() + b"\n\n"
    return [expect(), stream(frame) if streamed else reply(VLLM, 500)]


@EVERY_CLIENT
@pytest.mark.parametrize("streamed", [False, True], ids=["status", "event"])
def test_a_full_context_window_is_told_to_a_streaming_client_where_it_looks_for_it(client: str, streamed: bool) -> None:
    with (
        BadServer(refusal(streamed)) as server,
        gateway(at("openai_chat", server.url, retries=Retries(attempts=3, first_wait=0))) as running,
    ):
        answer = running.ask(client, stream=True)
        assert answer.complete
        assert DIALECTS[client].answer.overflow_words.search(answer.body)
        assert len(server.requests) == 1  # the same again would be as long
        assert running.record().error == "bad_request"
        if client != "openai_responses":
            assert answer.status == 400
            return
        # Codex compacts on this event and gives up on a status of 400.
        assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        events = [json.loads(line[6:]) for line in answer.body.splitlines() if line.startswith(b"data: ")]
        assert [event["type"] for event in events][-1] == "response.failed"
        response = events[-1]["response"]
        assert response["error"]["code"] == "context_length_exceeded"
        assert (response["model"], response["store"]) == (events[0]["response"]["model"], False)
        assert response["model"]
        assert response["id"].startswith("resp_")
        assert response["id"] != NO_ID
        assert response["created_at"] > 0


@EVERY_CLIENT
def test_a_full_context_window_is_told_to_a_waiting_client_by_status(client: str) -> None:
    with BadServer(refusal(False)) as server, gateway(at("openai_chat", server.url)) as running:
        answer = running.ask(client)
        assert answer.status == 400
        assert DIALECTS[client].answer.overflow_words.search(answer.body)
