"""Every row of the tables of the Responses API, on the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolglot import Exchange
from toolglot.dialects.openai_responses.dialect import OPENAI_RESPONSES as RESPONSES
from toolglot.errors import STATUS, ApiError, ErrorKind, UpstreamError
from toolglot.events import Close, Fault, Finish, unfold
from toolglot.ir import (
    Cache,
    Citation,
    Media,
    Message,
    Request,
    Response,
    Source,
    Stop,
    StopReason,
    Text,
    Tool,
    replace,
)
from toolglot.receipt import Receipt


def written(response: Response, request: Request | None = None) -> Any:
    return json.loads(RESPONSES.encode_response(response, request, Receipt()))


REPEATED: dict[str, Any] = {
    "background": False,
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}


def test_a_response_from_elsewhere_has_every_member_that_clients_demand() -> None:
    assert written(Response(model="m")) == {
        "id": "resp_0",
        "object": "response",
        "created_at": 0,
        "model": "m",
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "completed_at": None,
        **REPEATED,
        "output": [],
        "usage": None,
    }


def test_a_response_repeats_the_settings_of_its_request() -> None:
    said: dict[str, Any] = {
        "background": True,
        "instructions": "Be brief.",
        "max_output_tokens": 20,
        "max_tool_calls": 2,
        "metadata": {"a": "b"},
        "parallel_tool_calls": False,
        "previous_response_id": "resp_1",
        "prompt_cache_key": "k",
        "reasoning": {"effort": "low", "summary": "auto"},
        "safety_identifier": "s",
        "service_tier": "flex",
        "store": False,
        "temperature": 0.5,
        "text": {"format": {"type": "json_object"}, "verbosity": "low"},
        "tool_choice": "required",
        "tools": [{"type": "function", "name": "f", "description": "d", "parameters": {}, "strict": True}],
        "top_logprobs": 3,
        "top_p": 0.5,
        "truncation": "auto",
        "user": "u",
    }
    request = RESPONSES.decode_request(json.dumps({"model": "m", "input": "x", **said}).encode())
    shown = written(Response(model="m"), request)
    assert {key: shown[key] for key in said} == said


TOLD = (
    *REPEATED,
    *("completed_at", "conversation", "error", "image", "incomplete_details", "object", "output"),
    *("prompt", "prompt_cache_options", "prompt_cache_retention", "status"),
)


@pytest.mark.parametrize("key", TOLD)
def test_what_repeats_the_request_or_the_end_is_no_loss_elsewhere(key: str) -> None:
    whole: dict[str, Any] = {"object": "response", "status": "completed", "output": [], "model": "m"}
    body = {**whole, key: whole.get(key, REPEATED.get(key) or "something")}
    if key in ("error", "incomplete_details"):
        body[key] = None
    exchange = Exchange("anthropic", "openai_responses")
    exchange.response(json.dumps(body).encode())
    assert not exchange.receipt.losses
    response = RESPONSES.decode_response(json.dumps(body).encode())
    assert response.native["openai_responses"].keys() <= {"$response", "$absent"}
    assert written(response) == body


@pytest.mark.parametrize(
    ("status", "reason", "stop"),
    [
        ("completed", None, Stop("end", "completed")),
        ("incomplete", "max_output_tokens", Stop("length", "max_output_tokens")),
        ("incomplete", "content_filter", Stop("filtered", "content_filter")),
        ("incomplete", "novel", Stop("other", "novel")),
        ("incomplete", "length", Stop("length", "length")),
        ("incomplete", None, Stop("length", "incomplete")),
        ("novel", None, Stop("other", "novel")),
    ],
)
def test_a_stop_is_read_and_comes_back(status: str, reason: str | None, stop: Stop) -> None:
    details = {"reason": reason} if reason else None
    body: Any = {"id": "r", "model": "m", "status": status, "incomplete_details": details, "output": []}
    response = RESPONSES.decode_response(json.dumps(body).encode())
    assert response.stop == stop
    assert written(response) == body


@pytest.mark.parametrize(
    ("reason", "status", "details"),
    [
        ("end", "completed", None),
        ("stop_sequence", "completed", None),
        ("tool_calls", "completed", None),
        ("length", "incomplete", {"reason": "max_output_tokens"}),
        ("context_full", "incomplete", {"reason": "max_output_tokens"}),
        ("filtered", "incomplete", {"reason": "content_filter"}),
        ("refusal", "incomplete", {"reason": "content_filter"}),
        ("pause", "completed", None),
        ("malformed_call", "incomplete", {"reason": "content_filter"}),
        ("other", "completed", None),
    ],
)
def test_a_stop_from_elsewhere_is_written_as_a_status(reason: StopReason, status: str, details: Any) -> None:
    shown = written(Response(stop=Stop(reason)))
    assert (shown["status"], shown["incomplete_details"]) == (status, details)


@pytest.mark.parametrize("status", ["failed", "cancelled", "queued", "in_progress"])
def test_a_response_that_is_no_answer_is_an_error(status: str) -> None:
    body = {"object": "response", "status": status, "output": []}
    with pytest.raises(UpstreamError):
        RESPONSES.decode_response(json.dumps(body).encode())
    waiting = json.dumps({**body, "background": True}).encode()
    if status == "failed":
        with pytest.raises(UpstreamError):
            RESPONSES.decode_response(waiting)
    else:
        assert RESPONSES.decode_response(waiting).stop == Stop("other", status)


def test_the_end_of_a_stream_may_leave_its_status_to_the_name_of_the_event() -> None:
    for name, reason in (("incomplete", "length"), ("completed", "end")):
        decoder = RESPONSES.stream_decoder(Receipt())
        frame = {"type": f"response.{name}", "response": {"id": "r", "output": []}}
        events = decoder.feed(f"data: {json.dumps(frame)}\n\n".encode())
        assert isinstance(events[-1], Finish)
        assert events[-1].stop.reason == reason


# ── errors ──

CODES: dict[str, ErrorKind] = {
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "vector_store_timeout": "timeout",
    "previous_response_not_found": "not_found",
    "bio_policy": "permission",
    "misalignment_policy_violation": "permission",
    **dict.fromkeys(("data_residency_mismatch", "invalid_image", "invalid_image_format"), "bad_request"),
    **dict.fromkeys(("invalid_base64_image", "invalid_image_url", "image_too_large"), "bad_request"),
    **dict.fromkeys(("image_too_small", "image_parse_error", "image_content_policy_violation"), "bad_request"),
    **dict.fromkeys(("invalid_image_mode", "image_file_too_large", "image_file_not_found"), "bad_request"),
    **dict.fromkeys(("unsupported_image_media_type", "empty_image_file", "failed_to_download_image"), "bad_request"),
}


@pytest.mark.parametrize(("code", "kind"), CODES.items())
def test_the_code_of_a_failed_response_means_a_kind_and_is_written_back(code: str, kind: ErrorKind) -> None:
    failed = {"object": "response", "status": "failed", "error": {"code": code, "message": "m"}, "output": []}
    with pytest.raises(UpstreamError) as caught:
        RESPONSES.decode_response(json.dumps(failed).encode())
    error = caught.value.error
    assert (error.kind, error.status, error.code) == (kind, STATUS[kind], code)
    foreign = ApiError(kind="server", message="m", code=code)
    assert fault(foreign) == fault(error) == {"code": code, "message": "m"}


def fault(error: ApiError) -> Any:
    frames = RESPONSES.stream_encoder(None, Receipt()).feed(Fault(error)).decode().strip().split("\n\n")
    last = json.loads(frames[-1].partition("data: ")[2])
    assert last["type"] == "response.failed"
    return last["response"]["error"]


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("bad_request", "invalid_prompt"),
        ("authentication", "server_error"),
        ("billing", "insufficient_quota"),
        ("permission", "server_error"),
        ("not_found", "server_error"),
        ("conflict", "server_error"),
        ("too_large", "invalid_prompt"),
        ("rate_limit", "rate_limit_exceeded"),
        ("server", "server_error"),
        ("overloaded", "server_error"),
        ("timeout", "server_error"),
    ],
)
def test_an_error_from_elsewhere_gets_a_code_that_clients_know(kind: ErrorKind, code: str) -> None:
    assert fault(ApiError(kind=kind, message="m", code="novel")) == {"code": code, "message": "m"}
    known = ApiError(kind=kind, message="m", code="context_length_exceeded")
    assert fault(known)["code"] == "context_length_exceeded"


# ── parts ──


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            Media(kind="audio", source=Source("base64", "AA==", "audio/wav")),
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "mp3"}},
            Media(kind="audio", source=Source("base64", "AA==", "audio/mpeg")),
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "ogg"}},
            Media(kind="audio", source=Source("base64", "AA==", "audio/ogg")),
        ),
        (
            {"type": "input_file", "file_id": "f1"},
            Media(kind="document", source=Source("file", "f1")),
        ),
        (
            {"type": "input_file", "filename": "a.pdf", "file_url": "https://x/a.pdf"},
            Media(kind="document", source=Source("url", "https://x/a.pdf"), name="a.pdf"),
        ),
        (
            {"type": "input_file", "filename": "document.pdf", "file_data": "data:application/pdf;base64,AA=="},
            Media(kind="document", source=Source("base64", "AA==", "application/pdf")),
        ),
        (
            {"type": "input_file", "filename": "document.txt", "file_data": "data:text/plain;base64,eA=="},
            Media(kind="document", source=Source("text", "x")),
        ),
        (
            {"type": "input_image", "file_id": "f1", "detail": "auto"},
            Media(kind="image", source=Source("file", "f1")),
        ),
        (
            {"type": "input_image", "image_url": "https://x/a.png", "detail": "high"},
            Media(kind="image", source=Source("url", "https://x/a.png"), detail="high"),
        ),
        (
            {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "auto"},
            Media(kind="image", source=Source("base64", "AA==")),
        ),
        ({"type": "input_text", "text": "x"}, Text(text="x", native={"openai_responses": {"$absent": []}})),
    ],
)
def test_media_from_elsewhere_are_written_as_parts_and_read_again(part: Any, block: Media | Text) -> None:
    request = Request(model="m", messages=(Message(role="user", content=(block, Text(text="y"))),))
    body = json.loads(RESPONSES.encode_request(request, Receipt()))
    assert body["input"][0]["content"][0] == part
    again = RESPONSES.decode_request(json.dumps(body).encode()).messages[0].content[0]
    assert isinstance(again, type(block))
    assert json.loads(RESPONSES.encode_request(RESPONSES.decode_request(json.dumps(body).encode()), Receipt())) == body


@pytest.mark.parametrize(
    ("seconds", "ttl"), [(None, None), (300, "30m"), (1800, "30m"), (1801, "12h"), (43200, "12h"), (86400, "12h")]
)
def test_a_cache_breakpoint_gets_the_nearest_lifetime(seconds: int | None, ttl: str | None) -> None:
    block = Text(text="x", cache=Cache(seconds))
    request = Request(model="m", messages=(Message(role="user", content=(block,)),))
    body = json.loads(RESPONSES.encode_request(request, Receipt()))
    hint = body["input"][0]["content"][0]["prompt_cache_breakpoint"]
    assert hint == {"mode": "explicit", **({"ttl": ttl} if ttl else {})}
    again = RESPONSES.decode_request(json.dumps(body).encode()).messages[0].content[0]
    assert isinstance(again, Text)
    assert again.cache == Cache({"30m": 1800, "12h": 43200}[ttl] if ttl else None)


@pytest.mark.parametrize("key", ["previous_response_id", "conversation", "prompt"])
def test_input_may_be_missing_where_the_server_holds_it(key: str) -> None:
    body = {"model": "m", key: "x", "store": True}
    request = RESPONSES.decode_request(json.dumps(body).encode())
    assert request.messages == ()
    assert json.loads(RESPONSES.encode_request(request, Receipt())) == body


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("top_k", 1), ("seed", 1), ("presence_penalty", 0.5), ("frequency_penalty", 0.5), ("stop", ("x",))),
        *(("candidates", 2), ("cache", Cache())),
    ],
)
def test_a_parameter_that_the_api_has_not_is_a_loss(name: str, value: Any) -> None:
    receipt = Receipt()
    RESPONSES.encode_request(Request(model="m", **{name: value}), receipt)
    assert [line.where for line in receipt.losses] == [name]


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        *(("mcp_approval_response", "user"), ("compaction_trigger", "user"), ("configuration_update", "user")),
        *(("computer_call_output", "user"), ("computer_call", "assistant"), ("novel", "assistant")),
    ],
)
def test_an_item_that_only_this_api_knows_has_its_senders_role(kind: str, role: str) -> None:
    body = json.dumps({"model": "m", "input": [{"type": kind, "x": 1}]}).encode()
    assert RESPONSES.decode_request(body).messages[0].role == role


@pytest.mark.parametrize(
    ("model", "asks"),
    [
        *(("gpt-5", True), ("openai/gpt-5.5", True), ("gpt-12", True), ("o1", True), ("o3-mini", True)),
        *(("codex-mini", True), ("gpt-5-chat-latest", False), ("gpt-4o", False), ("foo1", False), ("llama", False)),
    ],
)
def test_encrypted_reasoning_is_asked_for_of_models_that_reason(model: str, asks: bool) -> None:
    body = json.loads(RESPONSES.encode_request(Request(model=model), Receipt()))
    assert body.get("include") == (["reasoning.encrypted_content"] if asks else None)
    assert body["store"] is False


# ── streams ──


def added(place: int = 0, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": place, "item": item}


def event(kind: str, place: int = 0, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "output_index": place, **fields}


CALL = added(type="function_call", id="fc", call_id="c", name="f", arguments="")
MESSAGE = added(type="message", id="m", role="assistant", content=[])
COMPLETED = {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}}


@pytest.mark.parametrize(
    ("frames", "line"),
    [
        ([{"type": "novel"}], ("loss", "stream", "event novel")),
        ([{"novel": 1}], ("loss", "stream", "event without a type")),
        (
            [MESSAGE, event("function_call_arguments.delta", delta="{}")],
            ("loss", "stream", "response.function_call_arguments.delta in an item of type message"),
        ),
        (
            [event("function_call_arguments.delta", delta="{}"), COMPLETED],
            ("loss", "stream", "a function_call without a name"),
        ),
        (
            [
                CALL,
                event("function_call_arguments.delta", delta='{"a":1}'),
                event("function_call_arguments.done", arguments='{ "a": 1 }'),
            ],
            ("note", "stream", "deltas and their end differ"),
        ),
        (
            [
                CALL,
                event("function_call_arguments.delta", delta='{"a":1}'),
                event("function_call_arguments.done", arguments='{"a":2}'),
            ],
            ("loss", "stream", "deltas and their end differ"),
        ),
        (
            [
                MESSAGE,
                event("output_text.delta", content_index=0, delta="ab"),
                event("output_text.done", content_index=0, text="xy"),
            ],
            ("note", "stream", "deltas and their end differ"),
        ),
    ],
)
def test_content_that_a_stream_cannot_carry_is_reported(frames: list[Any], line: tuple[str, str, str]) -> None:
    receipt = Receipt()
    decoder = RESPONSES.stream_decoder(receipt)
    for frame in frames:
        decoder.feed(f"data: {json.dumps(frame)}\n\n".encode())
    assert [(told.severity, told.where, told.what) for told in receipt] == [line]


@pytest.mark.parametrize("noise", ["[DONE]", " ", "{}"])
def test_an_end_mark_of_another_api_ends_nothing(noise: str) -> None:
    decoder = RESPONSES.stream_decoder(Receipt())
    lines = [f"data: {noise}\n\n", f"data: {json.dumps(COMPLETED)}\n\n"]
    assert isinstance(decoder.feed("".join(lines).encode())[-1], Finish)


def test_an_unsupported_block_is_reported_with_its_path_in_a_stream_too() -> None:
    foreign = Citation(title="T")
    response = Response(content=(Text(text="a"), Text(text="b", citations=(foreign,))))
    for write in ("response", "stream"):
        receipt = Receipt()
        if write == "response":
            RESPONSES.encode_response(response, None, receipt)
        else:
            encoder = RESPONSES.stream_encoder(None, receipt)
            for out in unfold(response):
                encoder.feed(out)
        assert [told.where for told in receipt.losses] == ["content[1].citations[0]"]


CUSTOM = added(type="custom_tool_call", id="ct", call_id="c", name="f", input="")
INCOMPLETE = {"type": "response.incomplete", "response": {"id": "r", "status": "incomplete", "output": []}}


@pytest.mark.parametrize(
    ("frames", "end", "complete"),
    [
        ([CALL, event("function_call_arguments.delta", delta="{}")], COMPLETED, True),
        ([CALL, event("function_call_arguments.delta", delta='{"a')], COMPLETED, False),
        ([CALL, event("function_call_arguments.delta", delta="{}")], INCOMPLETE, False),
        ([CUSTOM, event("custom_tool_call_input.delta", delta="x")], COMPLETED, False),
        ([CUSTOM, event("custom_tool_call_input.done", input="x")], COMPLETED, True),
        ([CUSTOM, event("custom_tool_call_input.delta", delta="x")], INCOMPLETE, False),
        ([MESSAGE, event("output_text.delta", content_index=0, delta="x")], COMPLETED, True),
        ([MESSAGE, event("output_text.delta", content_index=0, delta="x")], INCOMPLETE, True),
    ],
)
def test_an_item_without_an_end_is_closed_at_the_end(frames: list[Any], end: Any, complete: bool) -> None:
    decoder = RESPONSES.stream_decoder(Receipt())
    events = [out for frame in (*frames, end) for out in decoder.feed(f"data: {json.dumps(frame)}\n\n".encode())]
    assert isinstance(events[-1], Finish)
    assert [out.complete for out in events if isinstance(out, Close)] == [complete]


@pytest.mark.parametrize(
    ("frame", "word", "code"),
    [
        ({"type": "error", "message": "m", "code": "server_error"}, "server_error", "server_error"),
        ({"type": "error", "error": {"type": "novel_error", "message": "m", "code": "x"}}, "novel_error", "x"),
        ({"error": {"type": "novel_error", "message": "m"}}, "novel_error", None),
        ({"type": "response.error", "message": "m"}, "response.error", None),
    ],
)
def test_the_type_of_an_event_is_no_word_for_the_kind_of_an_error(frame: Any, word: str, code: str | None) -> None:
    decoder = RESPONSES.stream_decoder(Receipt())
    last = decoder.feed(f"data: {json.dumps(frame)}\n\n".encode())[-1]
    assert isinstance(last, Fault)
    shown = json.loads(RESPONSES.encode_error(last.error).body)["error"]
    assert shown == {"message": "m", "type": word, "param": None, "code": code}


COUNTED: dict[str, Any] = {
    "model": "m",
    "input": "x",
    "conversation": "c",
    "instructions": "s",
    "parallel_tool_calls": True,
    "personality": "p",
    "previous_response_id": "r",
    "reasoning": {"effort": "low"},
    "text": {"verbosity": "low"},
    "tool_choice": "auto",
    "tools": [{"type": "novel"}],
    "truncation": "auto",
}


def test_a_counting_request_has_only_the_counted_members() -> None:
    counting = RESPONSES.counting
    assert counting is not None
    asking = {**COUNTED, "max_output_tokens": 9, "stream": True, "temperature": 1, "store": False, "novel": 1}
    request = counting.decode_request(json.dumps(asking).encode())
    assert json.loads(counting.encode_request(request, Receipt())) == COUNTED


SILENT = (
    *("response.in_progress", "response.queued", "response.web_search_call.searching", "response.mcp_call.completed"),
    *("response.file_search_call.searching", "response.code_interpreter_call_code.delta", "response.metadata"),
    *("response.image_generation_call.partial_image", "response.shell_call_output.delta", "response.compaction.done"),
    *("response.apply_patch_call_operation_diff.delta", "response.tool_search_call.done", "keepalive", "ping"),
    *("codex.rate_limits", "response.reasoning_summary_part.added", "response.reasoning_summary_part.done"),
)


@pytest.mark.parametrize("kind", SILENT)
def test_an_event_without_content_is_not_reported(kind: str) -> None:
    receipt = Receipt()
    decoder = RESPONSES.stream_decoder(receipt)
    assert decoder.feed(f"data: {json.dumps({'type': kind, 'output_index': 0})}\n\n".encode()) == []
    assert not receipt


PLAIN: dict[str, Any] = {"type": "function", "name": "f", "parameters": {}, "strict": True}


@pytest.mark.parametrize(
    "tool",
    [
        {**PLAIN, "novel": 1},
        {"type": "function", "name": "f"},
        {"type": "custom", "name": "g", "description": "d", "format": {"type": "text"}, "novel": 1},
        {**PLAIN, "defer_loading": True},
        {**PLAIN, "defer_loading": False},
        {"type": "namespace", "name": "n", "description": "d", "tools": [PLAIN, {**PLAIN, "name": "h"}], "novel": 1},
        {"type": "namespace", "name": "n", "tools": [PLAIN]},
        {"type": "namespace", "name": "n", "description": "", "tools": [PLAIN]},
        {"type": "namespace", "name": "n", "tools": []},
        {"type": "namespace", "name": "n", "tools": [{"type": "novel"}]},
        {"type": "namespace", "tools": [PLAIN]},
        {"type": "web_search"},
    ],
    ids=str,
)
def test_unknown_members_of_a_tool_are_written_back(tool: Any) -> None:
    body = {"model": "m", "input": [], "store": True, "tools": [tool, tool]}
    request = RESPONSES.decode_request(json.dumps(body).encode())
    assert json.loads(RESPONSES.encode_request(request, Receipt())) == body


@pytest.mark.parametrize(
    ("kind", "deferred", "offered"),
    [
        ("additional_tools", False, False),
        ("additional_tools", True, True),
        ("tool_search_output", False, False),
        ("tool_search_output", True, False),
    ],
)
def test_tools_that_items_bring_are_offered_and_written_once(kind: str, deferred: bool, offered: bool) -> None:
    tool = {**PLAIN, **({"defer_loading": True} if deferred else {})}
    item = {"type": kind, "tools": [tool, {"type": "namespace", "name": "n", "tools": [tool]}, {"type": "novel"}]}
    body = {"model": "m", "input": [item], "store": True}
    request = RESPONSES.decode_request(json.dumps(body).encode())
    tools = [tool for tool in request.tools if isinstance(tool, Tool)]
    assert [(tool.namespace, tool.name, tool.deferred) for tool in tools] == [(None, "f", offered), ("n", "f", offered)]
    assert json.loads(RESPONSES.encode_request(request, Receipt())) == body


def test_a_tool_that_was_deferred_and_then_brought_is_deferred_no_longer() -> None:
    deferred = {**PLAIN, "defer_loading": True}
    item = {"type": "tool_search_output", "tools": [deferred]}
    body = {"model": "m", "input": [item], "store": True, "tools": [deferred, {**deferred, "name": "g"}]}
    request = RESPONSES.decode_request(json.dumps(body).encode())
    assert [tool.deferred for tool in request.tools if isinstance(tool, Tool)] == [False, True]
    assert json.loads(RESPONSES.encode_request(request, Receipt())) == body


@pytest.mark.parametrize(
    ("wire", "mode", "names"),
    [
        *((mode, mode, ()) for mode in ("auto", "none", "required")),
        ({"type": "function", "name": "f"}, "required", ("f",)),
        ({"type": "custom", "name": "f"}, "required", ("f",)),
        *(
            ({"type": "allowed_tools", "mode": mode, "tools": [{"type": "function", "name": "f"}]}, mode, ("f",))
            for mode in ("auto", "required")
        ),
        ({"type": "allowed_tools", "mode": "novel", "tools": [{"type": "function", "name": "f"}]}, "opaque", ()),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "custom", "name": "f"}, {"type": "mcp"}]},
            "auto",
            ("f",),
        ),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp"}]}, "opaque", ()),
        ({"type": "web_search"}, "opaque", ()),
        ({"type": "mcp", "name": "f", "server_label": "s"}, "opaque", ()),
        ({"type": "function"}, "opaque", ()),
        ("novel", "opaque", ()),
    ],
)
def test_a_tool_choice_is_read_and_comes_back(wire: Any, mode: str, names: tuple[str, ...]) -> None:
    body = {"model": "m", "input": [], "store": True, "tool_choice": wire}
    request = RESPONSES.decode_request(json.dumps(body).encode())
    assert request.tool_choice is not None
    assert (request.tool_choice.mode, request.tool_choice.names) == (mode, names)
    assert json.loads(RESPONSES.encode_request(request, Receipt())) == body


@pytest.mark.parametrize(
    ("status", "shown"), [(400, 400), (599, 599), (399, 500), (600, 500), ("429", 429), ("4_9", 500)]
)
def test_an_error_event_may_have_a_status(status: Any, shown: int) -> None:
    decoder = RESPONSES.stream_decoder(Receipt())
    frame = {"type": "error", "status": status, "message": "m"}
    last = decoder.feed(f"data: {json.dumps(frame)}\n\n".encode())[-1]
    assert isinstance(last, Fault)
    assert last.error.status == shown


@pytest.mark.parametrize(
    ("frame", "where"),
    [
        (event("output_text.annotation.added", annotation=5), "$.annotation"),
        (event("content_part.added", part=5), "$.part"),
        (event("content_part.done", part=5), "$.part"),
        (event("output_item.added", item=5), "$.item"),
        (event("output_item.done", item=5), "$.item"),
        (event("created", response=5), "$.response"),
        (event("completed", response=5), "$.response"),
    ],
)
def test_an_error_in_an_event_has_its_path(frame: Any, where: str) -> None:
    decoder = RESPONSES.stream_decoder(Receipt())
    last = decoder.feed(f"data: {json.dumps(frame)}\n\n".encode())[-1]
    assert isinstance(last, Fault)
    assert f"unreadable: {where}: " in last.error.message


def test_a_string_input_is_written_back_as_a_string_only_if_it_can_carry_everything() -> None:
    request = RESPONSES.decode_request(b'{"model": "m", "input": "x", "store": true}')
    for blocks, listed in (
        ((Text(text="y"),), False),
        ((Text(text="y"), Text(text="z")), True),
        ((Text(text="y", cache=Cache()),), True),
        ((Media(kind="image", source=Source("url", "https://x")),), True),
    ):
        changed = replace(request, messages=(Message(role="user", content=blocks),))
        body = json.loads(RESPONSES.encode_request(changed, Receipt()))
        assert isinstance(body["input"], list) is listed
