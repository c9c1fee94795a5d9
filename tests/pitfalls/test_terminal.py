"""Pitfalls of how an answer ends: lying stop reasons, cut streams, errors inside a 200, bytes cut anywhere."""

from __future__ import annotations

import json
from functools import partial

import pytest

from tests.exchanges import FOREIGN_PAIRS, NAMES, calls_of, check, error_frames, folded, read_events, relay, through
from tests.forms import form, is_json
from tests.laws.measure import growth
from tests.pitfalls.wires import (
    added,
    answer,
    anthropic,
    anthropic_blocks,
    anthropic_stop,
    call,
    calls,
    chat,
    chat_calls,
    data_frame,
    frames,
    gemini,
    opened,
    to,
)
from toolglot.dialects import DIALECTS
from toolglot.errors import UpstreamError
from toolglot.events import Fault, Finish
from toolglot.ir import Response, Usage
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

ONE_CALL = calls(call(0, '{"city":"Paris"}', id="a", type="function", name="get_weather"))
RATE_LIMITED = {"error": {"message": "Slow down", "type": "requests", "code": "rate_limit_exceeded"}}


def chat_response(message: dict[str, object], finish: str) -> dict[str, object]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


def test_stop_beside_a_call_is_a_tool_stop() -> None:
    """bifrost #6123: the upstream says `stop`, the client hears `end_turn`, and the agent never runs the tool."""
    assert anthropic_stop(to("anthropic", "openai_chat", chat(ONE_CALL, finish="stop"))) == "tool_use"
    whole = chat_response(
        {
            "content": None,
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        "stop",
    )
    assert answer("anthropic", "openai_chat", whole)["stop_reason"] == "tool_use"


@pytest.mark.parametrize(("finish", "wanted"), [("length", "max_tokens"), ("content_filter", "refusal")])
def test_a_call_does_not_mask_a_cut_or_a_filter(finish: str, wanted: str) -> None:
    """strands PR #3206: inferring a tool stop must not hide why the answer was cut."""
    assert anthropic_stop(to("anthropic", "openai_chat", chat(ONE_CALL, finish=finish))) == wanted


def test_a_tool_stop_without_a_call_is_an_ordinary_end() -> None:
    """opencode2api PR #27: `tool_calls` with no call leaves the client waiting for nothing."""
    assert anthropic_stop(to("anthropic", "openai_chat", chat({"content": "Done."}))) == "end_turn"
    assert (
        answer("anthropic", "openai_chat", chat_response({"content": "Done."}, "tool_calls"))["stop_reason"]
        == "end_turn"
    )


ENDS = {
    "openai_chat": b'data: {"error":{',
    "openai_responses": b"event: response.failed\n",
    "anthropic": b"event: error\n",
    "gemini": b'data: {"error":{"code":5',
    "ollama": b'{"error":"',
}


@pytest.mark.parametrize("client", NAMES)
def test_an_upstream_that_dies_ends_in_the_clients_own_error(client: str) -> None:
    """litellm #32086, #20347: a cut stream became a well-formed, empty success."""
    stream = chat({"content": "Half an"}, finish=None, done=False)
    written = relay(client, "openai_chat", [stream])
    if is_json(client):
        assert ENDS.get(client, error_frames(client, "")[:10]) in written
    else:
        assert "internal_error" in form(client, "stream").read(written)["events"][-1]["finished"]
    for clean in (b"[DONE]", b"message_stop", b"response.completed", b'finishReason":"STOP', b'finish_reason":"stop'):
        assert clean not in written


def test_no_message_stop_follows_an_error() -> None:
    """dativo-io/talon PR #254: after `event: error` nothing else is said."""
    written = relay("anthropic", "openai_chat", [chat({"content": "Half"}, finish=None, done=False)])
    assert written.rstrip().rpartition(b"\n\n")[2].startswith(b"event: error\ndata: ")


@pytest.mark.parametrize(
    "error",
    [
        {"error": {"message": "Out of memory", "type": "server_error", "code": 500}},
        {"object": "error", "message": "Out of memory", "type": "InternalServerError", "code": 500},
        {"detail": "Out of memory"},
        {"error": "Out of memory"},
        {"type": "error", "error": {"type": "api_error", "message": "Out of memory"}},
    ],
    ids=["openai", "vllm", "fastapi", "ollama", "anthropic"],
)
def test_an_error_inside_a_200_stream_is_an_error(error: dict[str, object]) -> None:
    """SHTUCodeProxy PR #4: vLLM answers 200 and sends `{"object": "error"}` or `{"detail": …}` as an event."""
    written = relay(
        "anthropic", "openai_chat", [chat({"content": "Half"}, finish=None, done=False) + data_frame(error)]
    )
    last = frames(written)[-1]
    assert last["type"] == "error"
    assert "Out of memory" in last["error"]["message"]


def test_an_error_where_a_response_should_be_is_an_error() -> None:
    """The same with status 200 and no stream."""
    with pytest.raises(UpstreamError, match="Slow down"):
        answer("anthropic", "openai_chat", RATE_LIMITED)


CUT = chat(calls(call(0, '{"path":"/srv/a","text":"half of', id="a", type="function", name="write")), finish="length")


def test_a_call_that_the_limit_cut_is_not_finished_for_the_model() -> None:
    """CLIProxyAPI 78f0c40, claude-code #1236: half of the arguments were closed and run."""
    got = to("anthropic", "openai_chat", CUT)
    assert anthropic_stop(got) == "max_tokens"
    assert "".join(anthropic_blocks(got)[0]["pieces"]) == '{"path":"/srv/a","text":"half of'


def test_a_cut_call_is_incomplete_in_responses() -> None:
    """`status: incomplete`, for the item and for the response."""
    got = to("openai_responses", "openai_chat", CUT)
    assert got[-1]["type"] == "response.incomplete"
    assert got[-1]["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    items = [item for item in got[-1]["response"]["output"] if item["type"] == "function_call"]
    assert [item["status"] for item in items] == ["incomplete"]


def test_broken_arguments_are_never_written_as_a_valid_object() -> None:
    """A wire with objects cannot hold them: they are shown as text, never as `{}`."""
    got = to("gemini", "openai_chat", CUT)
    parts = [part for frame in got for part in frame["candidates"][0]["content"]["parts"]]
    assert not any("functionCall" in part for part in parts)
    assert "half of" in json.dumps(parts)


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"])
@pytest.mark.parametrize("client", ["openai_chat", "openai_responses", "anthropic"])
def test_a_malformed_call_of_gemini_is_not_an_empty_success(client: str, reason: str) -> None:
    """litellm #40477: an empty 200 made agents retry for ever without a reason."""
    chunk = {
        "candidates": [
            {"content": {}, "finishReason": reason, "finishMessage": "Malformed function call: f(", "index": 0}
        ]
    }
    written = relay(client, "gemini", [data_frame(chunk)])
    assert reason.encode() in written or b"Malformed function call" in written or b"malformed" in written.lower()


@pytest.mark.parametrize("client", NAMES)
def test_a_prompt_that_gemini_blocks_is_told(client: str) -> None:
    """sub2api #7081: no candidates at all, only `promptFeedback`."""
    exchange = ExchangeCore(client, "gemini")
    written = through(exchange, [data_frame({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})])
    events = read_events(client, [written])
    check(events)
    last = events[-1]
    if "stop" not in [line.where for line in exchange.receipt.losses]:  # some have no such reason to stop
        assert isinstance(last, Fault) or (isinstance(last, Finish) and last.stop.reason in ("filtered", "refusal"))


@pytest.mark.parametrize("dialect", NAMES)
def test_a_keepalive_is_a_whole_frame_that_clients_ignore(dialect: str) -> None:
    """bitrouter #422: silence during long thinking; a ping inside an event would tear it apart."""
    ping = DIALECTS[dialect].stream_encoder(None, Receipt()).keepalive()
    end = DIALECTS[dialect].stream.framing.end
    assert ping.endswith(end)
    assert dialect != "gemini" or ping == b"\n\n"
    stream = relay(dialect, "openai_chat" if dialect != "openai_chat" else "anthropic", [_either(dialect)])
    expected = read_events(dialect, [stream])
    assert read_events(dialect, [stream.replace(end, end + ping, 1)]) == expected


def _either(dialect: str) -> bytes:
    if dialect != "openai_chat":
        return chat(ONE_CALL)
    return anthropic(
        opened(0, type="text", text=""),
        added(0, type="text_delta", text="Hi."),
        {"type": "content_block_stop", "index": 0},
    )


@pytest.mark.parametrize(
    ("upstream", "headers", "body"),
    [
        ("openai_chat", {"retry-after": "7"}, RATE_LIMITED),
        ("anthropic", {"Retry-After": "7"}, {"type": "error", "error": {"type": "rate_limit_error", "message": "m"}}),
        (
            "gemini",
            {},
            {
                "error": {
                    "code": 429,
                    "message": "m",
                    "status": "RESOURCE_EXHAUSTED",
                    "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}],
                }
            },
        ),
    ],
)
@pytest.mark.parametrize("client", NAMES)
def test_the_wish_to_retry_later_reaches_the_client(
    client: str, upstream: str, headers: dict[str, str], body: dict[str, object]
) -> None:
    """litellm #21553, PR #37767: `retry-after` was dropped, and clients stormed the upstream."""
    error = ExchangeCore(client, upstream).error(429, headers, json.dumps(body).encode())
    assert error.status == 429
    told = {name.lower(): value for name, value in error.headers.items()}
    assert told.get("retry-after") == "7" or b'"retryDelay":"7s"' in error.body


def test_rate_limit_headers_are_in_the_clients_own_words() -> None:
    """api7/aisix #144: they were dropped or prefixed, so that no SDK found them."""
    limits = {"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "0"}
    error = ExchangeCore("anthropic", "openai_chat").error(429, limits, json.dumps(RATE_LIMITED).encode())
    assert error.headers["anthropic-ratelimit-requests-limit"] == "60"
    assert error.headers["anthropic-ratelimit-requests-remaining"] == "0"
    back = ExchangeCore("openai_chat", "anthropic").error(429, dict(error.headers), error.body)
    assert back.headers["x-ratelimit-limit-requests"] == "60"


WIDE = '{"text":"日本語 🌍 é"}'


@pytest.mark.parametrize(("client", "upstream"), FOREIGN_PAIRS)
def test_no_letter_breaks_where_the_bytes_are_cut(client: str, upstream: str) -> None:
    """CCR PR #1672: a chunk ended inside a letter, and U+FFFD was written to disk."""
    source = chat({"content": "日本語 🌍"}, calls(call(0, WIDE, id="a", type="function", name="write")))
    stream = relay(upstream, "openai_chat", [source])
    written = relay(client, upstream, [stream[index : index + 1] for index in range(len(stream))])
    assert written == relay(client, upstream, [stream])
    response = folded(read_events(client, [written]))
    assert json.loads(calls_of(response.content)[0].arguments) == json.loads(WIDE)
    assert "\ufffd" not in written.decode()


@pytest.mark.parametrize(
    "change",
    [
        lambda stream: stream.replace(b"\n", b"\r\n"),
        lambda stream: stream.replace(b"data: ", b"data:"),
        lambda stream: b"\xef\xbb\xbf" + stream,
        lambda stream: stream.replace(b"\n\n", b"\n\n: comment\n\n"),
        lambda stream: stream.replace(b'"choices":', b'\ndata: "choices":'),
        lambda stream: stream.replace(b"data: {", b"id: 7\nretry: 1\ndata: {"),
        lambda stream: stream.removesuffix(b"\n"),
    ],
    ids=["CRLF", "no space", "BOM", "comments", "multi-line data", "id and retry", "no last line end"],
)
def test_every_legal_form_of_server_sent_events_is_read(change: object) -> None:
    """opencode #39694: readers that know one form of SSE lose the others."""
    assert callable(change)
    stream = chat({"content": "Hi."}, ONE_CALL)
    assert to("anthropic", "openai_chat", change(stream)) == to("anthropic", "openai_chat", stream)


def test_a_megabyte_of_reasoning_is_linear() -> None:
    """litellm 29c254d: the accumulated text was parsed again with each chunk, 2 s for 500 of them."""
    half = chat(*[{"reasoning_content": "x" * 50}] * 5_000, finish="stop")
    whole = chat(*[{"reasoning_content": "x" * 50}] * 10_000, finish="stop")
    small, large = (partial(relay, "anthropic", "openai_chat", [stream]) for stream in (half, whole))
    assert growth(small, large, 2.8) < 2.8


def test_usage_that_trails_the_finish_reason_reaches_the_client() -> None:
    """9router and copilot-api lost the usage chunk that follows the finish reason."""
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 75}}
    got = to("anthropic", "openai_chat", chat({"content": "Hi."}, finish="stop", usage=usage))
    said = next(event["usage"] for event in got if event["type"] == "message_delta")
    assert (said["input_tokens"], said["cache_read_input_tokens"], said["output_tokens"]) == (25, 75, 20)


def test_a_missing_usage_never_says_zero_input() -> None:
    """A zero in message_delta overwrites the true number in the official SDK."""
    stream = anthropic(opened(0, type="text", text=""), {"type": "content_block_stop", "index": 0}, stop="end_turn")
    usage = next(event["usage"] for event in frames(stream) if event["type"] == "message_delta")
    assert "input_tokens" not in usage
    got = to("openai_chat", "anthropic", stream)
    assert got[-1]["usage"]["prompt_tokens"] == 50


def test_the_finish_reason_always_comes() -> None:
    """opencode sent a turn again 192 times in 45 s when a Chat stream had no finish reason."""
    got = to("openai_chat", "gemini", gemini([{"text": "Hi."}]))
    assert [chunk["choices"][0]["finish_reason"] for chunk in got if chunk["choices"]][-1] == "stop"
    assert chat_calls(got) == []


USAGE = Usage(input_tokens=100, cached_tokens=75, cache_write_tokens=5, output_tokens=40, reasoning_tokens=10)


@pytest.mark.parametrize(("client", "upstream"), FOREIGN_PAIRS)
def test_token_counts_have_the_same_sums_in_every_direction(client: str, upstream: str) -> None:
    """ogx PR #6415, copilot-api #210: cached tokens are inside the input on some wires and beside it on others."""
    raw = DIALECTS[upstream].encode_response(Response(id="r", model="m", usage=USAGE), None, Receipt())
    heard = DIALECTS[client].decode_response(ExchangeCore(client, upstream).response(raw)).usage
    assert heard is not None
    assert (heard.input_tokens, heard.output_tokens) == (100, 40)
    is_told = all("cached_tokens" in DIALECTS[name].answer.counts for name in (client, upstream))
    assert heard.cached_tokens in ((75,) if is_told else (None, 0))


def test_cached_tokens_are_beside_the_input_of_anthropic() -> None:
    """llm-rosetta reported input 100 and cache_read 75, which is 175."""
    raw = DIALECTS["openai_chat"].encode_response(Response(id="r", model="m", usage=USAGE), None, Receipt())
    usage = json.loads(ExchangeCore("anthropic", "openai_chat").response(raw))["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (20, 75)
    assert usage["cache_creation_input_tokens"] == 5


def test_thoughts_are_beside_the_candidates_of_gemini() -> None:
    """Gemini counts thoughts apart from candidates; everybody else has them inside."""
    raw = DIALECTS["openai_chat"].encode_response(Response(id="r", model="m", usage=USAGE), None, Receipt())
    usage = json.loads(ExchangeCore("gemini", "openai_chat").response(raw))["usageMetadata"]
    assert (usage["candidatesTokenCount"], usage["thoughtsTokenCount"], usage["totalTokenCount"]) == (30, 10, 140)
