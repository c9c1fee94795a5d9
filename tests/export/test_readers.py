"""The conversation in what somebody has: whose dialect it is, and what of it there is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.case_files import Case, cases_with
from tests.exchanges import JSON_NAMES
from tests.recordings.made import as_recording, exchange, lines_of
from tests.warp_server.messages import encode
from toolglot.dialect import Dialect
from toolglot.errors import DecodeError, MissingExtraError
from toolglot.export.byte_lines import split_lines as split
from toolglot.export.readers import SourceConversation, read_conversation, read_recordings
from toolglot.ir import Message, Text, ToolCall, ToolResult
from toolglot.recordings.format import AnyLine, ClientData, RecordedClientRequest, RecordingEnd
from toolglot.recordings.read import Recording, read_recording

SAMPLES = Path(__file__).parent.parent / "recordings" / "samples"
STREAM = (Path(__file__).parent.parent / "cases/openai_chat/text_and_two_calls/stream.sse").read_bytes()
ASKED = {"model": "claude", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "Weather?"}]}


def read(data: bytes, dialect: str | None = None) -> SourceConversation:
    conversation = read_conversation([data], dialect)
    conversation.messages = list(conversation.messages)
    return conversation


def said(conversation: SourceConversation) -> list[tuple[str, str]]:
    return [(message.role, _shown(message)) for message in conversation.messages]


def _shown(message: Message) -> str:
    words = []
    for block in message.content:
        match block:
            case Text(text=text):
                words.append(text)
            case ToolCall(name=name, complete=complete):
                words.append(f"{name}()" if complete else f"{name}(…")
            case ToolResult(call_id=call_id):
                words.append(f"<{call_id}>")
    return " ".join(words)


@pytest.mark.parametrize("case", [case for case in cases_with("request") if case.dialect in JSON_NAMES], ids=str)
def test_the_dialect_of_a_request_is_known_by_its_members(case: Case) -> None:
    assert read(case.read("request")).dialect == case.dialect


@pytest.mark.parametrize(
    ("document", "dialect"),
    [
        ([{"role": "user", "content": "a"}], "openai_chat"),
        ([{"role": "user", "content": "a"}, {"role": "tool", "tool_call_id": "c", "content": "b"}], "openai_chat"),
        ([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c"}]}], "anthropic"),
        ([{"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"}], "openai_responses"),
        ([{"role": "user", "parts": [{"text": "a"}]}], "gemini"),
        ({"role": "user", "parts": [{"text": "a"}]}, "gemini"),
        ({"messages": [{"role": "user", "content": "a"}]}, "openai_chat"),
        ({"messages": [{"role": "user", "content": "a"}], "system": "b"}, "anthropic"),
        ({"input": "a"}, "openai_responses"),
        ({"input": [{"role": "user", "content": "a"}]}, "openai_responses"),
        ({"contents": [{"parts": [{"text": "a"}]}]}, "gemini"),
        ({"input": {"user_inputs": {"inputs": [{"user_query": {"query": "a"}}]}}}, "warp"),
        ({"task_context": {"tasks": []}, "input": {"user_inputs": {"inputs": [{"user_query": {}}]}}}, "warp"),
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_documents_are_read_however_they_are_laid_out(document: Any, dialect: str, indent: int | None) -> None:
    conversation = read(json.dumps(document, indent=indent).encode())
    assert conversation.dialect == dialect
    assert conversation.messages


def test_lines_of_warp_s_are_known_too() -> None:
    line = json.dumps({"input": {"user_inputs": {"inputs": [{"user_query": {"query": "a"}}]}}})
    conversation = read(f"{line}\n{line}\n".encode())
    assert (conversation.dialect, said(conversation)) == ("warp", [("user", "a"), ("user", "a")])


def test_lines_are_known_by_the_first_one_that_tells() -> None:
    lines: Sequence[dict[str, Any]] = (
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "n", "input": {}}]},
    )
    data = "\r\n".join(map(json.dumps, lines)).encode()
    assert read(b"\xef\xbb\xbf" + data + b"\n\n").dialect == "anthropic"
    assert read(data, "openai_chat").dialect == "openai_chat"


def test_system_text_has_a_line_of_its_own() -> None:
    data = b'{"system":[{"type":"text","text":"Be brief."}]}\n{"role":"user","content":"a"}\n'
    assert said(read(data)) == [("system", "Be brief."), ("user", "a")]


def test_lines_are_cut_anywhere_and_none_is_too_long() -> None:
    data = b'{"a":1}\r\n\n{"b":"\xe2\x80\xa8"}'
    for size in (1, 2, 7):
        chunks = [data[start : start + size] for start in range(0, len(data), size)]
        assert list(split(chunks)) == [b'{"a":1}', b"", b'{"b":"\xe2\x80\xa8"}']
    for long in ([b"x" * 11], [b"x" * 6, b"x" * 6], [b"a\n", b"x" * 11 + b"\n"]):
        with pytest.raises(DecodeError, match="more than 10 bytes"):
            list(split(long, 10))


@pytest.mark.parametrize(
    ("name", "wanted", "missing"),
    [
        ("streamed_tool_calls", [("user", "What"), ("assistant", "get_weather() get_time()")], []),
        ("whole", [("system", "Be"), ("user", "Say"), ("assistant", "You said")], []),
        ("retry_and_error", [("user", "demo:error")], ["no answer"]),
    ],
)
def test_a_recording_is_its_request_and_its_answer(
    name: str, wanted: list[tuple[str, str]], missing: list[str]
) -> None:
    conversation = read((SAMPLES / f"{name}.exchange.jsonl").read_bytes())
    assert conversation.dialect == "anthropic"
    found = said(conversation)
    assert [role for role, _ in found] == [role for role, _ in wanted]
    assert all(text.startswith(begins) for (_, text), (_, begins) in zip(found, wanted, strict=True))
    assert [line.what for line in conversation.lines] == missing


def test_of_a_recording_that_breaks_off_there_is_what_was_said() -> None:
    lines = exchange("anthropic", "openai_chat", ASKED, [STREAM])
    answers = [line for line in lines if isinstance(line, ClientData)]
    before: list[AnyLine] = [line for line in lines if not isinstance(line, ClientData | RecordingEnd)]
    body = b"".join(line.data for line in answers)
    cut = body[: body.index(b"partial_json") + 20]
    conversation = read(lines_of([*before, ClientData(at=1.0, text=cut.decode())])[:-1])
    assert said(conversation)[-1][1].endswith("(…")
    assert [line.why for line in conversation.lines] == ["the recording breaks off"]


def _turn(messages: list[dict[str, Any]], number: int) -> list[AnyLine]:
    request = {"model": "claude", "max_tokens": 9, "messages": messages}
    answer = {
        "id": "x",
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": f"Answer {number}"}, "finish_reason": "stop"}
        ],
    }
    return exchange(
        "anthropic", "openai_chat", request, json.dumps(answer).encode(), time=f"2026-01-01T00:00:0{number}"
    )


def test_of_several_recordings_the_longest_conversation_is_taken() -> None:
    first: list[dict[str, Any]] = [{"role": "user", "content": "One"}]
    answered = {"role": "assistant", "content": [{"type": "text", "text": "Answer 1"}]}
    second: list[dict[str, Any]] = [*first, answered, {"role": "user", "content": "Two"}]
    other: list[dict[str, Any]] = [{"role": "user", "content": "Somebody else"}]
    named = [(str(number), as_recording(_turn(each, number))) for number, each in enumerate((other, first, second))]
    conversation = read_recordings(named)
    wanted = [("user", "One"), ("assistant", "Answer 1"), ("user", "Two"), ("assistant", "Answer 2")]
    assert said(conversation) == wanted
    assert (conversation.name, conversation.all, conversation.lines) == ("2", ("0", "2"), [])
    assert said(read_recordings(named, "0")) == [("user", "Somebody else"), ("assistant", "Answer 0")]
    assert said(read_recordings(named, "1")) == wanted[:2]
    with pytest.raises(DecodeError):
        read_recordings([])


def test_what_a_server_keeps_is_found_in_the_recordings_before() -> None:
    def turn(text: str, before: str | None, answer_id: str) -> list[AnyLine]:
        request: dict[str, Any] = {"model": "gpt-5", "instructions": "Be brief.", "input": text}
        if before is not None:
            request["previous_response_id"] = before
        item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"Re: {text}"}]}
        answer = {"id": answer_id, "object": "response", "status": "completed", "model": "gpt-5", "output": [item]}
        return exchange("openai_responses", "openai_responses", request, json.dumps(answer).encode())

    first, second = turn("One", None, "resp_1"), turn("Two", "resp_1", "resp_2")
    alone = read_recordings([("b", as_recording(second))])
    assert [line.where for line in alone.lines] == ["previous_response_id"]
    both = read_recordings([("a", as_recording(first)), ("b", as_recording(second))])
    wanted = ["Be brief.", "One", "Re: One", "Two", "Re: Two"]
    assert [text for _, text in said(both)] == wanted
    assert both.lines == []


def test_a_recording_that_cannot_be_read_does_not_hide_the_others() -> None:
    bad = as_recording(_turn([{"role": "user", "content": "One"}], 1))
    bad.request = RecordedClientRequest(text="{}")
    good = as_recording(_turn([{"role": "user", "content": "Two"}], 2))
    conversation = read_recordings([("bad", bad), ("good", good)])
    assert said(conversation)[0] == ("user", "Two")
    assert [line.where for line in conversation.lines] == ["bad"]
    with pytest.raises(DecodeError, match="cannot be read"):
        read_recordings([("bad", bad)])


def test_of_conversations_that_differ_in_reasoning_or_system_text_the_richer_is_taken_and_each_is_one() -> None:
    def turn(answer: list[dict[str, Any]], system: str) -> Recording:
        request = {
            "model": "claude",
            "max_tokens": 9,
            "system": system,
            "messages": [{"role": "user", "content": "Hi"}],
        }
        body: dict[str, Any] = {"id": "x", "type": "message", "role": "assistant", "model": "m", "content": answer}
        body |= {"stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}
        return as_recording(exchange("anthropic", "anthropic", request, json.dumps(body).encode()))

    thinking: dict[str, Any] = {"type": "thinking", "thinking": "They say hi.", "signature": "s"}
    text: dict[str, Any] = {"type": "text", "text": "Hello."}
    rich, poor = turn([thinking, text], "Be brief."), turn([text], "Be brief.")
    conversation = read_recordings([("rich", rich), ("poor", poor)])
    assert (conversation.name, conversation.all) == ("rich", ("rich", "poor"))
    assert read_recordings([("poor", poor), ("rich", rich)]).name == "rich"
    other = read_recordings([("brief", poor), ("other", turn([text], "Be as long-winded as you can."))])
    assert (other.name, other.all) == ("other", ("brief", "other"))
    assert read_recordings([("first", poor), ("again", poor)]).all == ("again",)


def test_a_branch_is_a_conversation_and_a_repeated_question_is_none() -> None:
    def talk(*texts: str) -> list[dict[str, Any]]:
        roles = ("user", "assistant")
        return [
            {"role": roles[place % 2], "content": [{"type": "text", "text": text}]} for place, text in enumerate(texts)
        ]

    turns = [talk("One"), talk("One"), talk("One", "Answer 1", "Two"), talk("One", "Answer 1", "Three")]
    named = [(str(number), as_recording(_turn(each, number))) for number, each in enumerate(turns)]
    conversation = read_recordings(named)
    assert (conversation.name, conversation.all) == ("3", ("2", "3"))


def test_a_request_in_protobuf_is_read_as_it_is() -> None:
    inputs = {"inputs": [{"user_query": {"query": "Hi"}}]}
    history = {"tasks": [{"id": "t", "messages": [{"id": "m", "user_query": {"query": "Hello"}}]}]}
    data = encode("Request", {"task_context": history, "input": {"user_inputs": inputs}})
    assert data.startswith(b"\n")
    for dialect in (None, "warp"):
        conversation = read(data, dialect)
        assert (conversation.dialect, said(conversation)) == ("warp", [("user", "Hello"), ("user", "Hi")])
    with pytest.raises(DecodeError, match="gemini is JSON"):
        read(data, "gemini")
    with pytest.raises(DecodeError, match="neither JSON nor a request of Warp"):
        read(b"\x89PNG\r\n\x1a\n")


def test_a_recording_tells_its_dialect_itself() -> None:
    with pytest.raises(DecodeError, match="states its dialect"):
        read((SAMPLES / "whole.exchange.jsonl").read_bytes(), "gemini")


def test_a_recording_is_read_from_lines_as_well() -> None:
    data = (SAMPLES / "whole.exchange.jsonl").read_bytes()
    assert read_recording(data.splitlines()).whole


def test_where_a_package_is_missing_any_bytes_are_not_taken_for_what_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Dialect:
        raise MissingExtraError(f"the dialect {name}", "protobuf", "warp")

    monkeypatch.setattr("toolglot.export.readers.find", missing)
    with pytest.raises(DecodeError, match="this is not text; if it is a request of Warp: the dialect warp"):
        read_conversation([b"SQLite format 3\0"])
    with pytest.raises(MissingExtraError):
        read_conversation([b"SQLite format 3\0"], "warp")


def test_conversations_of_different_lengths_that_differ_in_their_system_text_are_two() -> None:
    def turn(system: str, number: int, *texts: str) -> tuple[str, Recording]:
        roles = ("user", "assistant")
        said = [{"role": roles[place % 2], "content": text} for place, text in enumerate(texts)]
        request = {"model": "m", "messages": [{"role": "system", "content": system}, *said]}
        message = {"role": "assistant", "content": f"Answer {len(texts)}"}
        body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
        answer = json.dumps(body | {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}).encode()
        time = f"2026-01-02T03:04:{number:02}Z"
        return f"{number}", as_recording(exchange("openai_chat", "openai_chat", request, answer, time=time))

    brief = turn("Be brief.", 1, "One"), turn("Be brief.", 2, "One", "Answer 1", "Two")
    rude = turn("Be rude.", 3, "One")
    for order in ([*brief, rude], [rude, *brief]):
        assert set(read_recordings(order).all) == {"2", "3"}
    again = turn("Be rude.", 4, "One", "Answer 1", "Two")
    assert read_recordings([*brief, rude, again]).all == ("2", "4")
    dated = turn("It is 2026-01-02.", 5, "One"), turn("It is 2026-01-03.", 6, "One", "Answer 1", "Two")
    assert read_recordings(dated).all == ("6",)
    growing = turn("You know nothing.", 7, "One"), turn("You know: One.", 8, "One", "Answer 1", "Two")
    assert read_recordings(growing).all == ("8",), "one of which each turn was recorded once"
    answered_otherwise = turn("You know: One.", 9, "One", "Another answer", "Two")
    assert read_recordings([growing[0], answered_otherwise]).all == ("7", "9")
