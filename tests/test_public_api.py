"""The library as its users see it: names, types, what it accepts, and what its errors say."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, get_args

import pytest
from msgspec import Struct

import toolglot
from tests import user_program
from toolglot import DIALECTS, DialectName, Exchange, Loss, Note, Receipt, UnknownDialectError
from toolglot.lint import lint
from toolglot.textcalls import TextCalls, parser
from toolglot.translate import ExchangeCore

CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 10}
FRAMES: list[Any] = [
    {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hel"}}]},
    {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}]},
]


def test_the_names_of_dialects_are_those_that_come_with_toolglot() -> None:
    assert get_args(DialectName) == tuple(DIALECTS._built_in)


def test_a_users_program_does_what_its_types_say() -> None:
    assert user_program.translate("anthropic") == ["seed"]
    assert json.loads(user_program.exchange_one())["content"][0]["text"] == "Hi"
    usage, stop = user_program.stream_one()
    assert usage is None or usage.output_tokens is not None
    assert stop is not None
    assert stop.reason == "end"
    assert user_program.read_calls('<tool_call>{"name": "weather", "arguments": {"a": 1') == ["weather", "cut 0"]
    transport = toolglot.httpx_transport("anthropic", key="k")
    assert [type(client).__name__ for client in user_program.make_clients(transport)] == ["Client", "Client"]
    with pytest.raises(TypeError):
        user_program.refuse()


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat"])
def test_an_answer_names_the_model_that_the_client_requested(dialect: DialectName) -> None:
    exchange = Exchange(dialect, "openai_chat", model="gpt-4.1")
    exchange.request({**CHAT, "model": "mine"})
    assert json.loads(exchange.response(user_program.ANSWER))["model"] == "mine"


@pytest.mark.parametrize(
    ("name", "suggestions"),
    [
        ("anthropc", ("anthropic",)),
        ("Gemini", ("gemini",)),
        ("claude", ("anthropic",)),
        ("google", ("gemini",)),
        ("openai", ("openai_chat", "openai_responses")),
        ("morse", ()),
    ],
)
def test_an_unknown_dialect_is_an_error_with_the_nearest_name(name: str, suggestions: tuple[str, ...]) -> None:
    with pytest.raises(UnknownDialectError) as raised:
        Exchange(name, "gemini")
    error = raised.value
    assert isinstance(error, KeyError)
    assert (error.name, error.known, error.suggestions) == (name, tuple(DIALECTS), suggestions)
    assert all(f"{each!r}" in str(error) for each in suggestions)
    assert ("did you mean" in str(error)) == bool(suggestions)


@pytest.mark.parametrize("dialect", [None, 7, b"gemini", Exchange])
def test_something_that_is_no_dialect_is_a_type_error(dialect: Any) -> None:
    with pytest.raises(TypeError, match="expected a dialect or its name, not"):
        toolglot.translate_request(CHAT, dialect, "gemini")


class Model:
    """An object like those of the SDKs."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def model_dump(self, **options: Any) -> dict[str, Any]:
        return self.fields


FORMS: dict[str, Any] = {
    "bytes": json.dumps(CHAT).encode(),
    "a bytearray": bytearray(json.dumps(CHAT).encode()),
    "a memoryview": memoryview(json.dumps(CHAT).encode()),
    "text": json.dumps(CHAT),
    "parsed JSON": CHAT,
    "an SDK's object": Model(**CHAT),
    "an SDK's object inside": {**CHAT, "messages": [Model(role="user", content="Hello")]},
}


@pytest.mark.parametrize("document", FORMS.values(), ids=FORMS)
def test_a_document_is_accepted_in_any_form_whose_meaning_is_clear(document: Any) -> None:
    plain = toolglot.translate_request(json.dumps(CHAT), "openai_chat", "anthropic").data
    assert toolglot.translate_request(document, "openai_chat", "anthropic").data == plain


@pytest.mark.parametrize(
    ("document", "named"),
    [(7, "int"), (None, "NoneType"), ({1, 2}, "set"), (Model, "the class Model"), (object(), "object")],
)
def test_anything_else_is_a_type_error_that_says_what_is_expected(document: Any, named: str) -> None:
    with pytest.raises(TypeError, match=f"expected a JSON document as bytes, a str, parsed JSON or .*, not {named}$"):
        toolglot.translate_request(document, "openai_chat", "anthropic")


def test_a_value_inside_of_a_document_that_is_no_json_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="expected JSON values or an SDK's objects, not object"):
        toolglot.translate_request({**CHAT, "user": object()}, "openai_chat", "anthropic")


def as_bytes(frames: list[Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames) + b"data: [DONE]\n\n"


STREAMS: dict[str, Any] = {
    "bytes": as_bytes(FRAMES),
    "text": as_bytes(FRAMES).decode(),
    "chunks of text": as_bytes(FRAMES).decode().splitlines(keepends=True),
    "parsed events": FRAMES,
    "objects": [Model(**frame) for frame in FRAMES],
    "a generator": (Model(**frame) for frame in FRAMES),
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
def test_a_stream_is_accepted_in_any_form_whose_meaning_is_clear(stream: Any) -> None:
    translated = toolglot.translate_stream(stream, "openai_chat", "ollama")
    written = b"".join(translated)
    assert "".join(json.loads(line)["message"]["content"] for line in written.splitlines()) == "Hello"
    assert not translated.receipt.losses
    assert translated.stop is not None
    assert translated.fault is None


def test_parsed_events_of_lines_of_json_are_accepted_too() -> None:
    lines = [*toolglot.translate_stream(FRAMES, "openai_chat", "ollama").json()]
    assert toolglot.fold(toolglot.read_stream(lines, "ollama")).content[0].text == "Hello"  # type: ignore[union-attr]


def test_a_translation_takes_text_and_parsed_events() -> None:
    translation = Exchange("ollama", "openai_chat").stream()
    written = translation.feed(FRAMES[0]) + translation.feed(f"data: {json.dumps(FRAMES[1])}\n\n") + translation.close()
    assert "".join(json.loads(line)["message"]["content"] for line in written.splitlines()) == "Hello"


async def arriving() -> AsyncIterator[Any]:
    for frame in FRAMES:
        yield frame


def test_an_asynchronous_stream_belongs_to_the_other_function() -> None:
    with pytest.raises(TypeError, match=r"not async_generator; use translate_stream_async"):
        list(toolglot.translate_stream(arriving(), "openai_chat", "ollama"))  # type: ignore[arg-type]


@pytest.mark.parametrize("asynchronous", [True, False])
def test_an_asynchronous_translation_takes_either_kind_of_stream(asynchronous: bool) -> None:
    import asyncio

    async def collect() -> tuple[list[Any], Any]:
        source = arriving() if asynchronous else FRAMES
        stream = toolglot.translate_stream_async(source, "openai_chat", "ollama")
        return [event async for event in stream.json()], stream.stop

    events, stop = asyncio.run(collect())
    assert "".join(event["message"]["content"] for event in events) == "Hello"
    assert stop.reason == "end"


def test_a_stream_that_fails_says_so_in_its_fault() -> None:
    stream = toolglot.translate_stream(as_bytes(FRAMES)[:60], "openai_chat", "anthropic")
    assert b"event: error" in b"".join(stream)
    assert stream.fault is not None
    assert stream.stop is None


def test_a_note_is_no_loss() -> None:
    receipt = Receipt()
    receipt.loss("a", "x", "it is lost")
    receipt.note("b", "y", "it is renamed")
    assert [type(line) for line in receipt] == [Loss, Note]
    assert [line.severity for line in receipt] == ["loss", "note"]
    assert (receipt.losses, receipt.notes) == ((Loss("a", "x", "it is lost"),), (Note("b", "y", "it is renamed"),))


def test_a_note_in_its_earlier_form_is_one() -> None:
    receipt = Receipt()
    receipt.add([Loss("b", "y", "it is renamed", severity="note")])
    assert receipt.notes == (Note("b", "y", "it is renamed"),)
    assert (receipt.losses, receipt.loss_count) == ((), 0)


PUBLIC = {
    "answered",
    "asked",
    "can",
    "client",
    "encode_retry",
    "error",
    "fault",
    "of",
    "path",
    "pending_retry",
    "receipt",
    "refusal",
    "request",
    "response",
    "sent",
    "stop",
    "stream",
    "upstream",
    "usage",
}


def test_an_exchange_shows_what_users_need() -> None:
    assert {name for name in dir(Exchange("gemini", "anthropic")) if not name.startswith("_")} == PUBLIC


def test_what_an_exchange_showed_before_still_works() -> None:
    exchange: Any = Exchange("anthropic", "openai_chat")
    exchange.request({**CHAT, "max_tokens": 9})
    assert exchange.verbatim is False
    assert exchange.wants_again is None
    exchange.new_listener = lambda: print
    assert all(hasattr(exchange, name) for name in ExchangeCore.__slots__)


def test_a_translated_document_becomes_an_object_of_an_sdks_class() -> None:
    class Answer(Struct):
        content: Any

        @classmethod
        def model_validate(cls, value: Any) -> Answer:
            return cls(value["content"])

    answer = toolglot.translate_response(user_program.ANSWER, "openai_chat", "anthropic").as_model(Answer)
    assert answer.content[0]["text"] == "Hi"


USED: list[Any] = [
    *FRAMES,
    {"id": "c", "model": "m", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}},
]


def test_an_exchange_has_the_usage_and_the_stop_of_a_whole_answer() -> None:
    exchange = Exchange("anthropic", "openai_chat")
    assert (exchange.usage, exchange.stop) == (None, None)
    exchange.response({**json.loads(user_program.ANSWER), "usage": USED[-1]["usage"]})
    assert exchange.usage is not None
    assert exchange.stop is not None
    assert (exchange.usage.output_tokens, exchange.stop.reason) == (2, "end")


def test_an_exchange_has_the_usage_and_the_stop_of_a_stream_once_it_has_ended() -> None:
    exchange = Exchange("anthropic", "openai_chat")
    translation = exchange.stream()
    translation.feed(as_bytes(USED)[:100])
    assert (exchange.usage, exchange.stop, exchange.fault) == (None, None, None)
    translation.feed(as_bytes(USED)[100:])
    translation.close()
    assert exchange.usage is not None
    assert exchange.stop is not None
    assert (exchange.usage.output_tokens, exchange.stop.reason, exchange.fault) == (2, "end", None)


def test_an_exchange_has_the_fault_of_a_stream() -> None:
    exchange = Exchange("anthropic", "openai_chat")
    translation = exchange.stream()
    translation.feed(as_bytes(FRAMES)[:200])
    translation.close()
    assert exchange.fault is not None
    assert exchange.stop is None


FAILED = as_bytes(
    [
        {**FRAMES[0], "object": "chat.completion.chunk", "created": 1},
        {"error": {"message": "Overloaded", "code": 503}},
    ]
)


def sdk_types() -> dict[str, Any]:
    from anthropic.types import RawMessageStreamEvent
    from google.genai.types import GenerateContentResponse
    from openai.types.chat import ChatCompletionChunk
    from openai.types.responses import ResponseStreamEvent

    return {
        "anthropic": RawMessageStreamEvent,
        "gemini": GenerateContentResponse,
        "openai_chat": ChatCompletionChunk,
        "openai_responses": ResponseStreamEvent,
    }


@pytest.mark.parametrize("target", ["anthropic", "gemini", "openai_chat", "openai_responses"])
@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_stream_of_models_that_ends_with_an_error_raises_it(target: DialectName, asynchronous: bool) -> None:
    import asyncio

    got: list[Any] = []

    async def collect() -> None:
        stream = toolglot.translate_stream_async([FAILED], "openai_chat", target)
        async for event in stream.as_models(sdk_types()[target]):
            got.append(event)  # noqa: PERF401 - those before the error count

    with pytest.raises(toolglot.UpstreamError, match="Overloaded") as raised:
        if asynchronous:
            asyncio.run(collect())
        else:
            got.extend(toolglot.translate_stream([FAILED], "openai_chat", target).as_models(sdk_types()[target]))
    assert raised.value.error.status == 503
    assert got


def test_the_name_of_a_text_format_is_enough() -> None:
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    sent = [
        Exchange("openai_chat", "openai_chat", text_calls=calls).request({**CHAT, "tools": [tool]})
        for calls in ("hermes_json", TextCalls(format="hermes_json"))
    ]
    assert sent[0] == sent[1]
    assert b"<tool_call>" in sent[0]


WRONG_TYPES: dict[str, tuple[Any, str]] = {
    "text_calls": (
        lambda: Exchange("gemini", "anthropic", text_calls=7),  # type: ignore[arg-type]
        "expected TextCalls or the name of a text format, not int",
    ),
    "a status": (
        lambda: toolglot.translate_error("500", {}, b"", "gemini", "anthropic"),  # type: ignore[arg-type]
        "expected an HTTP status as int, not str",
    ),
    "text": (lambda: parser("hermes_json").feed(b"abc"), "expected text as a str, not bytes"),  # type: ignore[arg-type]
    "a recording": (lambda: lint("gemini", 7), "expected a stream as bytes or an iterable of chunks, not int"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WRONG_TYPES)
def test_an_argument_of_a_wrong_type_is_a_type_error_that_says_what_is_expected(name: str) -> None:
    call, message = WRONG_TYPES[name]
    with pytest.raises(TypeError, match=message):
        call()


def test_a_recording_is_linted_in_any_form() -> None:
    recording = 'data: {"candidates": []}\n\ndata: [DONE]\n\n'
    found = lint("gemini", [recording.encode()])
    assert [breach.rule for breach in found] == ["no-done", "finish"]
    assert lint("gemini", recording) == lint("gemini", recording.encode()) == found


MISUSES: dict[str, tuple[Any, str]] = {
    "a vendor": (lambda: toolglot.httpx_transport("antropic"), "did you mean 'anthropic'"),
    "no base URL": (lambda: toolglot.httpx_transport("openai_chat"), "base_url is required"),
    "no scheme": (
        lambda: toolglot.httpx_transport("openai_chat", base_url="localhost:8000"),
        "must start with http://",
    ),
    "no host": (lambda: toolglot.httpx_transport("openai_chat", base_url="http:///v1"), "has no host"),
    "a format": (lambda: parser("hermes_jsn"), "did you mean 'hermes_json'"),
    "an unlike format": (lambda: parser("qqqq"), "there are auto, "),
    "an exchange's format": (lambda: Exchange("gemini", "anthropic", text_calls="hermes_jsn"), "did you mean"),
    "an early path": (lambda: Exchange("gemini", "anthropic").path, "once there is a request"),
    "an early retry": (lambda: Exchange("gemini", "anthropic").encode_retry(), "no retry is needed"),
}


@pytest.mark.parametrize("name", MISUSES)
def test_a_misuse_is_an_error_of_toolglot_and_a_value_error(name: str) -> None:
    call, message = MISUSES[name]
    with pytest.raises(toolglot.MisuseError, match=message) as raised:
        call()
    assert isinstance(raised.value, toolglot.ToolglotError)
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("wrap", [dict, lambda fields: Model(**fields)], ids=["a dict", "an SDK's object"])
def test_a_number_that_json_does_not_have_is_refused_with_its_path(number: float, wrap: Any) -> None:
    with pytest.raises(toolglot.DecodeError, match="is no number in JSON") as raised:
        toolglot.translate_request(wrap({**CHAT, "temperature": number}), "openai_chat", "anthropic")
    assert raised.value.where == "$.temperature"
    tool = {"type": "function", "function": {"name": "f", "parameters": {"enum": [1.5, number]}}}
    with pytest.raises(toolglot.DecodeError) as raised:
        toolglot.translate_request({**CHAT, "tools": [tool]}, "openai_chat", "anthropic")
    assert raised.value.where == "$.tools[0].function.parameters.enum[1]"
