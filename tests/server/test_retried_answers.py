"""Whatever follows an answer follows the attempt that succeeds. One that fails before its first byte leaves nothing."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.lint.streams import SOUND
from tests.server.client_errors import good_end
from tests.server.gateway import CLIENTS, at, gateway
from tests.server.test_reasoning_state import CALLS, DONE, HI, TOOLS, ask, go_on, vendor_server
from tests.server.warp_loop import kept
from tests.upstream.bad_server import (
    LAST_CHUNK,
    BadServer,
    Script,
    Step,
    drip,
    expect,
    head,
    reply,
    reset,
    send,
    stream,
)
from tests.upstream.judges import Claude, DeepSeek, Gemini, Gpt, Vendor
from toolglot.config.schema import ModelConfig, Retries

AT_ONCE = Retries(attempts=3, first_wait=0)


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def data(document: Any) -> bytes:
    return f"data: {json.dumps(document)}\n\n".encode()


_RESPONSE = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-5.2", "output": []}
_THOUGHT = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "bm90IHRoaXM="}
_STARTED = event("response.created", sequence_number=0, response={**_RESPONSE, "status": "in_progress"})
_FAILED = event(
    "response.failed",
    sequence_number=3,
    response={**_RESPONSE, "status": "failed", "error": {"code": "server_error", "message": "try again"}},
)

EARLY_FAILURES: list[tuple[str, type[Vendor], Step]] = [
    ("response.failed", Gpt, stream(_STARTED + _FAILED)),
    (
        "response.failed after reasoning",
        Gpt,
        stream(
            _STARTED
            + event("response.output_item.added", sequence_number=1, output_index=0, item=_THOUGHT)
            + event("response.output_item.done", sequence_number=2, output_index=0, item=_THOUGHT)
            + _FAILED
        ),
    ),
    ("nothing", Gpt, stream(b"")),
    ("half a frame", Gpt, stream(_STARTED[:-9])),
    ("an error event", Claude, stream(event("error", error={"type": "overloaded_error", "message": "busy"}))),
    ("an error frame", Gemini, stream(data({"error": {"code": 503, "status": "UNAVAILABLE", "message": "busy"}}))),
    ("an error chunk", DeepSeek, stream(data({"error": {"message": "busy", "type": "server_error", "code": 500}}))),
    ("a reset", DeepSeek, reset()),
    ("a refusal", Claude, reply({"type": "error", "error": {"type": "api_error", "message": "no"}}, 500)),
]


_NAMES = [name for name, _, _ in EARLY_FAILURES]


@pytest.mark.parametrize(("vendor", "failure"), [case[1:] for case in EARLY_FAILURES], ids=_NAMES)
def test_reasoning_state_of_a_second_attempt_is_kept(vendor: type[Vendor], failure: Step) -> None:
    model = vendor()
    with (
        kept() as store,
        vendor_server(model, [CALLS, DONE], [failure, failure]) as server,
        gateway({"it": at(model.dialect, server.url, models=(model.model,), retries=AT_ONCE)}, store=store) as running,
    ):
        message = ask(running, HI, model.model, stream=True)
        assert len(server.requests) == 3
        ask(running, go_on(message), model.model)
        assert model.refused == []
        assert 0 in model.returned(server.requests[-1].json())


_CHUNK = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
_ROLE = data({**_CHUNK, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
_MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
}
_OPENED = event("message_start", message={**_MESSAGE, "usage": {"input_tokens": 5, "output_tokens": 1}})

SLOW_FAILURES: dict[str, tuple[str, list[bytes], list[Step]]] = {
    "response.failed": ("openai_responses", [_STARTED, _FAILED], [send(LAST_CHUNK)]),
    "an error event": (
        "anthropic",
        [_OPENED, event("error", error={"type": "overloaded_error", "message": "busy"})],
        [send(LAST_CHUNK)],
    ),
    "an error chunk": (
        "openai_chat",
        [_ROLE, data({"error": {"message": "busy", "type": "server_error", "code": 500}})],
        [send(LAST_CHUNK)],
    ),
    "a reset": ("openai_chat", [_ROLE], [reset()]),
    "an end": ("anthropic", [_OPENED], [send(LAST_CHUNK)]),
}
"""The upstream begins its stream, and fails a while later, before it has said anything."""


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("failure", SLOW_FAILURES)
def test_an_answer_that_has_said_nothing_yet_is_asked_for_again(client: str, failure: str) -> None:
    dialect, pieces, end = SLOW_FAILURES[failure]
    begins = send(head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"}))
    slow: Script = [expect(), begins, drip(*pieces, times=1), *end]
    with (
        BadServer(slow, [expect(), stream(SOUND[dialect])]) as server,
        gateway(at(dialect, server.url, retries=AT_ONCE)) as running,
    ):
        good_end(client, running.ask(client, stream=True))
    assert len(server.requests) == 2


def test_a_fallback_is_followed_in_place_of_the_first_upstream() -> None:
    """The first one fails inside its stream, the second is another vendor's: its state is kept, and nothing else."""
    claude, gpt = Claude(), Gpt()
    thinks = event("error", error={"type": "overloaded_error", "message": "busy"})
    with (
        kept() as store,
        vendor_server(claude, [], [stream(thinks)]) as first,
        vendor_server(gpt, [CALLS, DONE]) as second,
    ):
        upstreams = {"first": at("anthropic", first.url), "second": at("openai_responses", second.url)}
        models = {
            "m": ModelConfig(upstream="first", model=claude.model, fallbacks=(f"second/{gpt.model}",)),
        }
        with gateway(upstreams, models=models, store=store) as running:
            message = ask(running, HI, "m", stream=True)
            assert claude.issued == []
            ask(running, go_on(message), f"second/{gpt.model}")
        assert gpt.refused == []
        assert 0 in gpt.returned(second.requests[-1].json())


def test_the_receipt_is_that_of_the_answer_which_the_client_gets() -> None:
    """A failed attempt may bring what the client's API has no field for. Nobody gets it, so it is no loss."""
    search = {"id": "ws_1", "type": "computer_call", "call_id": "c", "status": "completed", "action": {}}
    failed = stream(
        _STARTED
        + event("response.output_item.added", sequence_number=1, output_index=0, item=search)
        + event("response.output_item.done", sequence_number=2, output_index=0, item=search)
        + _FAILED
    )
    lines = []
    for failures in ((), (failed,)):
        model = Gpt()
        with vendor_server(model, [CALLS], failures) as server:
            upstream = at("openai_responses", server.url, models=(model.model,), retries=AT_ONCE)
            with gateway({"it": upstream}) as running:
                ask(running, HI, model.model, stream=True)
                record = running.record()
                assert record.receipt is not None
                lines.append([line for line in record.receipt[1] if line.what != "answered by it"])
    assert lines[0] == lines[1]


def test_the_prefix_that_counts_is_that_of_the_request_which_was_answered() -> None:
    """A model without tools refuses them once. They are sent as text then: both turns begin alike."""
    refusal = {"error": {"message": "registry/m does not support tools", "type": "api_error"}}
    message = {"role": "assistant", "content": "Yes, of course."}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    good = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    messages = [{"role": "user", "content": "Hi"}]
    with (
        BadServer([expect(), reply(refusal, 400)], [expect(), reply(good)]) as server,
        gateway(at("openai_chat", server.url)) as running,
    ):
        shares = []
        for _ in range(2):
            assert running.ask("openai_chat", body={"messages": messages, "tools": TOOLS}).status == 200
            shares.append([share for _, share in running.record().prefix_reuse])
            messages += [message, {"role": "user", "content": "And now?"}]
        assert len(server.requests) == 3
    assert shares[0] == []
    assert shares[1][0] > 0.5
    assert len(shares[1]) == 1


@pytest.mark.parametrize("stream_it", [True, False], ids=["streamed", "whole"])
def test_what_is_stored_and_counted_is_the_answer_of_the_second_attempt(stream_it: bool) -> None:
    model = Claude()
    busy = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    failure = stream(event("error", error=busy["error"])) if stream_it else reply(busy, 529)
    with (
        kept() as store,
        vendor_server(model, [DONE], [failure]) as server,
        gateway({"it": at("anthropic", server.url, models=(model.model,), retries=AT_ONCE)}, store=store) as running,
    ):
        answer = running.ask("openai_responses", model=model.model, body={"input": "Hi"}, stream=stream_it)
        assert answer.status == 200, answer.body
        record = running.record()
        assert record.usage is not None
        assert (record.attempts, record.stop, record.error, record.losses) == (2, "end", None, 0)
        (answer_id, *_) = re.findall(r'"id": ?"(resp_[^"]+)"', answer.body.decode())
        stored = running.call("GET", f"/v1/responses/{answer_id}").json()
        assert (stored["status"], stored["error"]) == ("completed", None)
        assert [part["text"] for item in stored["output"] for part in item.get("content") or ()] == [DONE.text]
