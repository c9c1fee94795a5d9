"""Exchanges that go on from what the gateway has stored, run again: with what was stored then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.recordings.made import as_recording
from tests.recordings.rerunning import again, changed, read_all
from tests.server.gateway import Running, at, gateway
from tests.upstream.bad_server import BadServer, Step, expect, reply
from toolglot.config.schema import ModelConfig, RecordConfig
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError
from toolglot.recordings.format import StoreRead
from toolglot.recordings.read import Recording
from toolglot.recordings.rerun.run import NotRerunError
from toolglot.recordings.timeline import make_timeline
from toolglot.store import History, StoredItem, StoredReplay, StoredRounds, StoredState, StoredTurn
from toolglot.store.as_json import StoredKind, decode_stored, encode_stored
from toolglot.store.sqlite import SqliteStore

OTHERS = [name for name in DIALECTS if name != "openai_responses"]


def ask(running: Running, stream: bool = False, **body: Any) -> dict[str, Any]:
    answer = running.ask("openai_responses", stream=stream, body=body)
    assert answer.status == 200, answer.body
    return {} if stream else answer.json()


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recording]:
    """Exchanges that go on from something, by how they do."""
    folder = tmp_path_factory.mktemp("recordings")
    record = RecordConfig(directory=str(folder))
    with gateway(at("gemini", "demo:"), store=SqliteStore(":memory:"), record=record) as running:
        first = ask(running, input="What is the weather in Paris?")
        second = ask(running, input="And in Rome?", previous_response_id=first["id"])
        ask(running, True, input="And in Oslo?", previous_response_id=second["id"])
        ask(running, input="And in Bonn?", previous_response_id=second["id"], store=False)
        ask(
            running,
            input=[{"type": "item_reference", "id": first["output"][0]["id"]}, {"role": "user", "content": "?"}],
        )
        begun = {"items": [{"role": "user", "content": "In Lima."}]}
        made = running.call("POST", "/v1/conversations", json.dumps(begun).encode()).json()
        ask(running, input="Where?", conversation=made["id"])
        ask(running, True, input="Where?", conversation=made["id"], store=False)
        lost = running.ask("openai_responses", body={"input": "Hi", "previous_response_id": "resp_gone"})
        assert lost.status == 400
    names = ("first", "whole", "stream", "not stored", "reference", "conversation", "not stored there", "lost")
    return dict(zip(names, read_all(folder), strict=True))


@pytest.mark.parametrize(
    "how", ["first", "whole", "stream", "not stored", "reference", "conversation", "not stored there", "lost"]
)
def test_nothing_differs_in_an_exchange_that_goes_on_from_something(linked: dict[str, Recording], how: str) -> None:
    comparison = again(linked[how])
    assert not comparison.differs, comparison


@pytest.mark.parametrize(("how", "said"), [("stream", "Paris"), ("conversation", "Lima"), ("reference", "weather")])
def test_what_was_stored_is_compared_where_it_was_sent(linked: dict[str, Recording], how: str, said: str) -> None:
    assert said.encode() in linked[how].attempts[0].request.data
    comparison = again(changed(linked[how].lines, StoreRead, said, "Berlin"))
    assert any(said in str(each) and "Berlin" in str(each) for each in comparison.requests[0]), comparison.requests


@pytest.mark.parametrize("client", OTHERS)
@pytest.mark.parametrize("how", ["stream", "conversation"])
def test_a_client_of_another_dialect_sends_the_whole_conversation(
    linked: dict[str, Recording], how: str, client: str
) -> None:
    if client == "warp" and not linked[how].head.stream:
        return  # whose clients know nothing but streams
    comparison = again(linked[how], client)
    assert comparison.answer == []
    assert comparison.breaches == []


def test_an_earlier_recording_has_not_what_was_stored(linked: dict[str, Recording]) -> None:
    for how, name in (("stream", "previous_response_id"), ("conversation", "conversation")):
        earlier = as_recording(line for line in linked[how].lines if not isinstance(line, StoreRead))
        with pytest.raises(NotRerunError, match=name):
            again(earlier)


def test_whose_it_was_is_not_recorded(linked: dict[str, Recording]) -> None:
    for recording in linked.values():
        for line in recording.reads:
            assert '"owner"' not in (line.text or "")


def test_explaining_says_why_the_request_is_another(linked: dict[str, Recording]) -> None:
    timeline = make_timeline(linked["stream"])
    assert "not made again: it continues a stored conversation" in timeline.requests[1].lines


@pytest.mark.parametrize("stores", [True, False])
@pytest.mark.parametrize("text", ["Hi", "demo:error 400"])
@pytest.mark.parametrize("upstream", ["openai_chat", "openai_responses", "warp"])
@pytest.mark.parametrize("fields", [{}, {"store": True}, {"store": False}], ids=str)
def test_whether_there_was_a_store_is_known_also_where_nothing_was_kept(
    tmp_path: Path, stores: bool, text: str, upstream: str, fields: dict[str, Any]
) -> None:
    store = SqliteStore(":memory:") if stores else None
    carried = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes?"}]},
        {"type": "message", "role": "user", "content": text},
    ]
    with gateway(at(upstream, "demo:"), store=store, record=RecordConfig(directory=str(tmp_path))) as running:
        running.ask("openai_responses", body={"input": carried, **fields})
    (recording,) = read_all(tmp_path)
    comparison = again(recording)
    assert not comparison.differs, comparison


def test_explaining_agrees_with_running_again(linked: dict[str, Recording]) -> None:
    for recording in linked.values():
        timeline = make_timeline(recording, replayed=again(recording))
        said = [*(line for asked in timeline.requests for line in asked.lines), *timeline.totals]
        assert not any("the current code" in line or "not made again" in line for line in said), said
    told = make_timeline(linked["stream"], replayed=again(linked["stream"])).requests[1].lines
    assert "with what was kept: it continues a stored conversation" in told
    other = changed(linked["stream"].lines, StoreRead, "Paris", "Berlin")
    lines = make_timeline(other, replayed=again(other)).requests[1].lines
    assert "the current code makes a different request: `toolglot replay` shows the differences" in lines


def test_explaining_names_no_differences_where_nothing_can_be_run_again(linked: dict[str, Recording]) -> None:
    earlier = as_recording(line for line in linked["stream"].lines if not isinstance(line, StoreRead))
    with pytest.raises(NotRerunError) as refusal:
        again(earlier)
    timeline = make_timeline(earlier, replayed=str(refusal.value))
    assert f"not made again: {refusal.value}" in timeline.requests[1].lines
    assert timeline.totals[-1] == f"`toolglot replay` does not run it again: {refusal.value}"
    assert not any("shows the differences" in line for line in (*timeline.requests[1].lines, *timeline.totals))


def test_what_an_upstream_had_said_of_the_conversation_is_told_to_it_again(tmp_path: Path) -> None:
    record = RecordConfig(directory=str(tmp_path))
    said: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
    with gateway(at("warp", "demo:"), store=SqliteStore(":memory:"), record=record) as running:
        for _ in range(2):
            answer = running.ask("anthropic", body={"max_tokens": 9, "messages": said}).json()
            said += [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": "And?"}]
    _, second = read_all(tmp_path)
    settings = second.attempts[0].request.settings
    assert settings is not None
    assert settings.conversation_put_back
    comparison = again(second)
    assert not comparison.differs, comparison
    earlier = as_recording(line for line in second.lines if not isinstance(line, StoreRead))
    with pytest.raises(NotRerunError, match="own earlier answers were sent to it, which is not in the recording"):
        again(earlier)


SIGNED = [{"functionCall": {"name": "look", "args": {"at": 1}}, "thoughtSignature": "U0lHTkFUVVJF"}]
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def says(*parts: dict[str, Any]) -> Step:
    return reply({"candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP"}]})


def test_each_upstream_finds_its_own_state_also_where_the_first_had_none(tmp_path: Path) -> None:
    down = reply({"error": {"code": 503, "message": "down", "status": "UNAVAILABLE"}}, status=503)
    model, record = "gemini-2.5-pro", RecordConfig(directory=str(tmp_path / "recordings"))
    with (
        BadServer([expect(), down]) as first,
        BadServer([expect(), says(*SIGNED), expect(), says({"text": "Seen."})]) as second,
        gateway(
            {"a": at("gemini", first.url), "b": at("gemini", second.url)},
            models={
                "both": ModelConfig(upstream="a", model=model, fallbacks=("other",)),
                "other": ModelConfig(upstream="b", model=model),
            },
            store=SqliteStore(tmp_path / "store"),  # a file, of which is known without reading whether it has any state
            record=record,
        ) as running,
    ):
        talk: list[dict[str, Any]] = [{"role": "user", "content": "Look."}]
        called = running.ask("openai_chat", model="other", body={"messages": talk, "tools": [LOOK]}).json()
        calls = [
            {name: call[name] for name in ("id", "type", "function")}
            for call in called["choices"][0]["message"]["tool_calls"]
        ]
        talk += [
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": calls[0]["id"], "content": "5"},
        ]
        assert running.ask("openai_chat", model="both", body={"messages": talk, "tools": [LOOK]}).status == 200
    recording = read_all(tmp_path / "recordings")[-1]
    assert [b"U0lHTkFUVVJF" in attempt.request.data for attempt in recording.attempts][-1]
    comparison = again(recording)
    assert not comparison.differs, comparison


FOUND: dict[StoredKind, Any] = {
    "history": History(
        items=(StoredItem("msg_1", b'{"type": "message"}'),),
        turns=(StoredTurn(id="resp_1", owner="", created=1.5, request_input=b"[ 1.0]", response=b'{"a":  1e2}'),),
        next=3,
    ),
    "holders": {"msg_1": b'{"output": []}'},
    "rounds": [StoredRounds("hash", b"[]")],
    "states": [StoredState(owner="", issuer="", calls="c", hash="h", value=b'["\\u00e9"]')],
    "replay": StoredReplay(owner="", upstream="", hash="h", conversation="c", value=b"{}", calls=("a", "b")),
}


@pytest.mark.parametrize("kind", FOUND)
def test_what_a_store_has_is_written_and_read_byte_for_byte(kind: StoredKind) -> None:
    assert decode_stored(kind, encode_stored(FOUND[kind])) == FOUND[kind]


def test_what_could_not_be_read_cannot_be_read_again(linked: dict[str, Recording]) -> None:
    line = StoreRead(what="history", failure="locked", message="another process has it")
    lines = (line if isinstance(each, StoreRead) else each for each in linked["whole"].lines)
    comparison = again(as_recording(lines))
    assert str(comparison.answer[0]) == "~ status: 200 -> 503"


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"turns": 7}'])
def test_a_body_that_is_something_else_is_told(linked: dict[str, Recording], body: bytes) -> None:
    line = StoreRead(what="history", text=body.decode())
    lines = (line if isinstance(each, StoreRead) else each for each in linked["whole"].lines)
    with pytest.raises(DecodeError):
        again(as_recording(lines))
