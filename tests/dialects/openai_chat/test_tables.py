"""Every row of the tables of Chat Completions, on the wire, and the places that receipts and faults name."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest

from toolglot import Exchange
from toolglot.dialects.openai_chat.dialect import OPENAI_CHAT as CHAT
from toolglot.events import Event, Fault, Finish, fold
from toolglot.ir import Cache, Media, Message, Request, Response, Source, Stop, StopReason, Text, Thinking, ToolChoice
from toolglot.receipt import Receipt
from toolglot.wire import stream_budget


def written(response: Response) -> Any:
    return json.loads(CHAT.encode_response(response, None, Receipt()))


def body_of(request: Request) -> Any:
    return json.loads(CHAT.encode_request(request, Receipt()))


def asked(*blocks: Any) -> Any:
    return body_of(Request(model="m", messages=(Message(role="user", content=blocks),)))["messages"][0]["content"]


def test_a_response_from_elsewhere_has_every_member_that_clients_demand() -> None:
    assert written(Response(id="i", model="m", content=(Text(text="x"),))) == {
        "id": "i",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "x", "refusal": None},
                "finish_reason": "stop",
                "logprobs": None,
            }
        ],
    }


FINISH: dict[str, StopReason] = {
    "stop": "end",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "filtered",
    "novel": "other",
}


@pytest.mark.parametrize(("word", "reason"), FINISH.items())
def test_a_finish_reason_is_read_and_comes_back(word: str, reason: StopReason) -> None:
    body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": word}]}
    response = CHAT.decode_response(json.dumps(body).encode())
    assert response.stop == Stop(reason, word)
    assert written(response)["choices"] == body["choices"]
    assert stream({"delta": {"content": "x"}, "finish_reason": word})[-1] == Finish(stop=Stop(reason, word))


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("end", "stop"),
        ("stop_sequence", "stop"),
        ("tool_calls", "tool_calls"),
        ("length", "length"),
        ("context_full", "length"),
        ("refusal", "content_filter"),
        ("filtered", "content_filter"),
        ("pause", "stop"),
        ("malformed_call", "stop"),
        ("other", "stop"),
    ],
)
def test_a_reason_from_elsewhere_gets_the_nearest_word(reason: StopReason, word: str) -> None:
    assert written(Response(stop=Stop(reason, "x")))["choices"][0]["finish_reason"] == word


@pytest.mark.parametrize(
    ("media", "part"),
    [
        (
            Media(kind="image", source=Source("url", "https://x"), detail="low"),
            {"type": "image_url", "image_url": {"url": "https://x", "detail": "low"}},
        ),
        (
            Media(kind="image", source=Source("base64", "AA==")),
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
        ),
        (
            Media(kind="audio", source=Source("base64", "AA==", "audio/wav")),
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
        ),
        (
            Media(kind="audio", source=Source("base64", "AA==", "audio/mpeg")),
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "mp3"}},
        ),
        (
            Media(kind="audio", source=Source("base64", "AA==", "audio/mp3")),
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "mp3"}},
        ),
        (
            Media(kind="audio", source=Source("base64", "AA==", "audio/ogg")),
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "ogg"}},
        ),
        (
            Media(kind="document", source=Source("file", "f"), name="a.pdf"),
            {"type": "file", "file": {"file_id": "f", "filename": "a.pdf"}},
        ),
        (
            Media(kind="document", source=Source("base64", "AA==", "text/html")),
            {"type": "file", "file": {"file_data": "data:text/html;base64,AA==", "filename": "document.html"}},
        ),
    ],
)
def test_media_from_elsewhere_are_written_as_parts_and_read_again(media: Media, part: Any) -> None:
    assert asked(media)[0] == part
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": [part]}]}).encode()
    again = CHAT.decode_request(body)
    found = again.messages[0].content[0]
    assert isinstance(found, Media)
    assert (found.kind, found.source.kind, found.source.data) == (media.kind, media.source.kind, media.source.data)
    assert body_of(again) == json.loads(body)


@pytest.mark.parametrize(("name", "media_type"), [("wav", "audio/wav"), ("mp3", "audio/mpeg"), ("ogg", "audio/ogg")])
def test_a_format_of_audio_is_a_media_type(name: str, media_type: str) -> None:
    part = {"type": "input_audio", "input_audio": {"data": "AA==", "format": name}}
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": [part]}]}).encode()
    found = CHAT.decode_request(body).messages[0].content[0]
    assert isinstance(found, Media)
    assert found.source.media_type == media_type


@pytest.mark.parametrize(
    ("seconds", "ttl"), [(None, None), (300, "30m"), (1800, "30m"), (1801, "12h"), (43200, "12h"), (86400, "12h")]
)
def test_a_cache_breakpoint_gets_the_nearest_lifetime(seconds: int | None, ttl: str | None) -> None:
    part = asked(Text(text="x", cache=Cache(seconds)))[0]
    assert part["prompt_cache_breakpoint"] == {"mode": "explicit", **({"ttl": ttl} if ttl else {})}
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": [part]}]}).encode()
    found = CHAT.decode_request(body).messages[0].content[0]
    assert isinstance(found, Text)
    assert found.cache == Cache({"30m": 1800, "12h": 43200}[ttl] if ttl else None)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        *(
            (name, "max_completion_tokens")
            for name in ("gpt-5", "openai/gpt-5.5", "gpt-10", "o1", "chatgpt-4o", "codex")
        ),
        *((name, "max_tokens") for name in ("gpt-4o", "llama", "not-gpt-5", "foo1", "gpt-oss")),
    ],
)
def test_the_limit_has_the_name_that_the_model_takes(model: str, name: str) -> None:
    body = body_of(Request(model=model, max_output_tokens=9))
    assert {key: value for key, value in body.items() if key.startswith("max_")} == {name: 9}


def test_a_stream_for_another_dialect_asks_for_usage() -> None:
    assert body_of(Request(model="m", stream=True)) == {
        "model": "m",
        "messages": [],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert "stream" not in body_of(Request(model="m"))


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_comes_back_in_the_field_it_came_in(field: str) -> None:
    message = {"role": "assistant", field: "Hm.", "content": "x"}
    request = CHAT.decode_request(json.dumps({"model": "m", "messages": [message]}).encode())
    assert isinstance(request.messages[0].content[0], Thinking)
    assert body_of(request)["messages"] == [message]
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    response = CHAT.decode_response(json.dumps({"choices": choices}).encode())
    assert written(response)["choices"] == choices


function_f: Any = {"type": "function", "function": {"name": "f"}}
custom_g: Any = {"type": "custom", "custom": {"name": "g"}}
MODES: tuple[Literal["auto", "required"], ...] = ("auto", "required")


def allowed(mode: str, *tools: Any) -> Any:
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": list(tools)}}


@pytest.mark.parametrize(
    ("wire", "choice"),
    [
        *((mode, ToolChoice(mode=mode)) for mode in ("auto", "none", "required")),
        (function_f, ToolChoice(mode="required", names=("f",))),
        (custom_g, ToolChoice(mode="required", names=("g",))),
        *((allowed(mode, function_f, custom_g), ToolChoice(mode=mode, names=("f", "g"))) for mode in MODES),
        (allowed("novel", function_f), ToolChoice(mode="opaque")),
        (allowed("auto"), ToolChoice(mode="opaque")),
        (allowed("auto", {"type": "novel"}), ToolChoice(mode="opaque")),
        ("novel", ToolChoice(mode="opaque")),
        ({"type": "novel"}, ToolChoice(mode="opaque")),
    ],
)
def test_a_tool_choice_is_read_and_comes_back(wire: Any, choice: ToolChoice) -> None:
    request = CHAT.decode_request(json.dumps({"model": "m", "messages": [], "tool_choice": wire}).encode())
    found = request.tool_choice
    assert found is not None
    assert (found.mode, found.names) == (choice.mode, choice.names)
    assert body_of(request)["tool_choice"] == wire


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": "x", "novel": 1},
        {"type": "refusal", "refusal": "x", "novel": 1},
        {"type": "image_url", "image_url": {"url": "https://x", "novel": 1}, "novel": 2},
        {"type": "image_url", "image_url": "https://x", "novel": 2},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav", "novel": 1}, "novel": 2},
        {"type": "input_audio", "input_audio": {"data": "AA=="}},
        {"type": "file", "file": {"file_data": "data:text/plain;base64,AA==", "novel": 1}, "novel": 2},
        {"type": "file", "file": {"file_data": "AA==", "file_id": "f", "filename": "n"}},
        {"type": "file", "file": {"file_id": "f", "novel": 1}},
        {"type": "file", "file": {"filename": "n"}, "novel": 1},
        {"type": "novel", "novel": 1},
        {"type": "text"},
        {"type": "text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "1h"}},
        {"type": "text", "text": "x", "prompt_cache_breakpoint": {"mode": "novel"}},
        {"type": "text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit", "novel": 1}},
    ],
    ids=str,
)
def test_unknown_members_of_a_part_are_written_back(part: Any) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": [part]}]}
    assert body_of(CHAT.decode_request(json.dumps(body).encode())) == body


@pytest.mark.parametrize(
    "call",
    [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}", "novel": 1}, "novel": 2},
        {"id": "a", "type": "custom", "custom": {"name": "f", "input": "x", "novel": 1}, "novel": 2},
        {"type": "function", "function": {"name": "f", "arguments": ""}},
        {"id": "a", "function": {"name": "f", "arguments": "{}"}},
        {"id": "a", "type": "custom", "function": {"name": "f", "arguments": "{}"}},
        {"id": "a", "type": "novel", "novel": {}},
    ],
    ids=str,
)
def test_unknown_members_of_a_call_are_written_back(call: Any) -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [call], "novel": 1}
    body = {"model": "m", "messages": [message]}
    assert body_of(CHAT.decode_request(json.dumps(body).encode())) == body
    choices = [{"index": 0, "message": message, "finish_reason": "tool_calls", "novel": 1}]
    assert written(CHAT.decode_response(json.dumps({"choices": choices}).encode()))["choices"] == choices


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function", "function": {"name": "f", "novel": 1}, "novel": 2},
        {"type": "custom", "custom": {"name": "f", "format": {"type": "text"}, "novel": 1}, "novel": 2},
        {
            "type": "custom",
            "custom": {"name": "f", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}}},
        },
        {"type": "novel", "novel": 1},
        {"type": "function"},
    ],
    ids=str,
)
def test_unknown_members_of_a_tool_are_written_back(tool: Any) -> None:
    body = {"model": "m", "messages": [], "tools": [tool]}
    assert body_of(CHAT.decode_request(json.dumps(body).encode())) == body


def test_an_unknown_entry_of_tool_calls_is_reported_by_its_type() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "type": "novel", "novel": {}}]}
    exchange = Exchange("openai_chat", "anthropic")
    exchange.request({"model": "m", "messages": [{"role": "user", "content": "x"}, message]})
    assert [(line.where, line.what) for line in exchange.receipt.losses] == [("messages[1].content[0]", "novel")]


# ── streams ──


def stream(*choices: Any, receipt: Receipt | None = None, **extra: Any) -> list[Event]:
    decoder = CHAT.stream_decoder(receipt if receipt is not None else Receipt())
    chunks = [json.dumps({"choices": [{"index": 0, **choice}], **extra}) for choice in choices]
    return decoder.feed("".join(f"data: {chunk}\n\n" for chunk in (*chunks, "[DONE]")).encode())


def function(**fields: Any) -> Any:
    return {"delta": {"tool_calls": [{"index": 0, **fields}]}}


def test_a_call_that_never_gets_a_name_is_a_fault() -> None:
    events = stream(function(id="a", function={"arguments": "{}"}))
    assert isinstance(events[-1], Fault)
    assert events[-1].error.code == "malformed_tool_call"
    assert sum(isinstance(event, Fault) for event in events) == 1
    assert not any(isinstance(event, Finish) for event in events)


def test_arguments_after_their_end_are_a_fault_unless_they_are_space() -> None:
    whole = function(id="a", function={"name": "f", "arguments": "{}"})
    text = {"delta": {"content": "x"}}
    events = stream(whole, text, function(function={"arguments": "y"}))
    assert isinstance(events[-1], Fault)
    assert "$.choices[0].delta.tool_calls" in events[-1].error.message
    assert isinstance(stream(whole, text, function(function={"arguments": " \n"}))[-1], Finish)


NOTHING: list[Any] = [None, False, "", [], {}]


@pytest.mark.parametrize(
    ("choices", "lines"),
    [
        ([{"delta": {"content": "x"}, "logprobs": {"content": [1]}}], ["loss choices[0].logprobs"]),
        ([{"delta": {"content": "x"}}, {"index": 1, "delta": {"content": "x"}}], ["loss choices[1]"]),
        ([{"delta": {"reasoning": [1]}}], ["loss choices[0].delta.reasoning"]),
        ([{"delta": {"content": [{"type": "novel"}]}}], ["loss choices[0].delta.content"]),
        ([{"delta": {"content": "x", "annotations": [{"type": "novel"}]}}], ["loss choices[0].delta.annotations"]),
        ([{"delta": {"content": "x"}, "message": {"content": "x"}}], ["note choices[0].message"]),
        ([{"delta": {"content": "x"}, "message": {}}], []),
        ([{"delta": {"novel": 1}}], ["loss choices[0].delta.novel"]),
        ([{"message": {"novel": 1}}], ["loss choices[0].message.novel"]),
        ([{"delta": {}}, {"index": 2, "novel": 1}], ["loss choices[2].novel", "loss choices[2]"]),
        ([{"delta": {"function_call": {"name": "f", "novel": 1}}}], ["loss choices[0].delta.function_call.novel"]),
        ([function(id="a", novel=1, function={"name": "f"})], ["loss choices[0].delta.tool_calls[].novel"]),
        (
            [function(id="a", function={"name": "f", "novel": 1})],
            ["loss choices[0].delta.tool_calls[].function.novel"],
        ),
        ([function(id="a", custom={"name": "f", "novel": 1})], ["loss choices[0].delta.tool_calls[].custom.novel"]),
        *(([{"delta": {"content": "x", "novel": nothing}}], []) for nothing in NOTHING),
        (
            [
                function(id="a", function={"name": "f", "arguments": "{}"}),
                {"delta": {"content": "x"}},
                function(extra_content={"a": 1}),
            ],
            ["loss choices[0].delta.tool_calls[].extra_content"],
        ),
        ([function(id="a", function={"name": "f", "arguments": "{}"}, extra_content={"a": 1})], []),
    ],
)
def test_content_that_a_stream_cannot_carry_is_reported_with_its_path(choices: list[Any], lines: list[str]) -> None:
    receipt = Receipt()
    stream(*choices, {"delta": {}, "finish_reason": "stop"}, receipt=receipt)
    assert [f"{line.severity} {line.where}" for line in receipt] == lines


def test_an_unknown_member_of_a_chunk_is_reported() -> None:
    receipt = Receipt()
    stream({"delta": {"content": "x"}}, receipt=receipt, novel=1, service_tier="default", system_fingerprint="f")
    assert [line.where for line in receipt.losses] == ["novel"]


def test_the_buffer_of_a_call_without_a_name_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_budget, "MAX_HELD_CHARACTERS", 10)
    for length, fails in ((10, False), (11, True)):
        decoder = CHAT.stream_decoder(Receipt())
        chunk = {"choices": [{"index": 0, **function(id="a", function={"arguments": "x" * length})}]}
        events = decoder.feed(f"data: {json.dumps(chunk)}\n\n".encode())
        assert any(isinstance(event, Fault) for event in events) is fails


def test_thinking_in_parts_is_put_together() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"text": "a"}, {"text": "b"}, 5, {"text": 5}]},
        {"type": "text", "text": "c"},
    ]
    events = stream({"delta": {"content": parts}, "finish_reason": "stop"})
    thought = Thinking(text="ab", native={"openai_chat": {"$part": True}})
    assert fold(events).content == (thought, Text(text="c"))


def test_buffered_text_that_was_written_no_longer_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_budget, "MAX_HELD_CHARACTERS", 10)
    frames = [
        {"delta": {"tool_calls": [{"index": place, **fields}]}}
        for place in range(3)
        for fields in ({"id": f"c{place}", "function": {"arguments": '{"a":1}'}}, {"function": {"name": "f"}})
    ]
    events = stream(*frames, {"delta": {}, "finish_reason": "tool_calls"})
    assert isinstance(events[-1], Finish)
    assert len(fold(events).content) == 3


@pytest.mark.parametrize("arguments", ["", "{}", "x"])
def test_a_deprecated_call_comes_back_as_it_was(arguments: str) -> None:
    message = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": arguments}}
    body = {"model": "m", "messages": [message]}
    assert body_of(CHAT.decode_request(json.dumps(body).encode())) == body
