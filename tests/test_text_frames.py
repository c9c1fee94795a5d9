"""Frames that are recognised without reading them must be those that reading would take for the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exchanges import JSON_NAMES
from toolglot.capabilities import change_capabilities
from toolglot.dialects import DIALECTS
from toolglot.events import Event
from toolglot.streaming import StreamTranslation
from toolglot.text_frames import FrameTemplate, TextFrames, _template, decode_body, is_canonical, read_run
from toolglot.translate import ExchangeCore
from toolglot.wire.json import encode_frame
from toolglot.wire.sse import MAX_EVENT_BYTES

UPSTREAMS = [name for name, dialect in DIALECTS.items() if dialect.stream.text_of_frame is not None]
CLIENTS = JSON_NAMES

TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["", " ", "a", 'say "hi"', "back\\slash", "line\nbreak", "é", "😀", "\x00", "toolglot probe"]),
)
RAW = st.sampled_from(
    [
        "\\ud83d",
        "\\ude00",
        '","x":"',
        '"},"y":{"content":"',
        "\\u0041",
        "\\u000a",
        "\\/",
        "\\b\\f",
        "\t",
        "\\",
        "\\x",
        "\x7f",
    ]
)
"""What may stand between the quotes of a text and is no plain text."""
BROKEN = st.sampled_from([b"\xff", b"\xed\xa0\xbd", b"\xc3"])
"""What is no UTF-8."""


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _chat(delta: Any, **fields: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": fields.pop("finish_reason", None)}
    return b"data: " + _compact({"id": "c", "object": "chat.completion.chunk", "choices": [choice], **fields})


def _anthropic(kind: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b" % (kind.encode(), _compact({"type": kind, **fields}))


def _responses(kind: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b" % (kind.encode(), _compact({"type": kind, "sequence_number": 7, **fields}))


def _gemini(*parts: Any, **fields: Any) -> bytes:
    content = {"parts": parts, "role": "model"}
    candidate = {"content": content, "index": 0, **fields.pop("candidate", {})}
    return b"data: " + _compact({"candidates": [candidate], "modelVersion": "m", **fields})


def _ollama(message: Any, **fields: Any) -> bytes:
    when = fields.pop("created_at", "2026-01-01T00:00:00.1Z")
    wire = {"model": "m", "created_at": when, "message": {"role": "assistant", **message}, "done": False}
    return _compact({**wire, **fields})


_ITEM = {"item_id": "msg_1", "output_index": 0}
_MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}


def _output_text(text: str, **fields: Any) -> bytes:
    return _responses(
        "response.output_text.delta", **{**_ITEM, "content_index": 0, "delta": text, "logprobs": [], **fields}
    )


DELTAS: dict[str, Callable[[str], bytes]] = {
    "openai_chat": lambda text: _chat({"content": text}),
    "anthropic": lambda text: _anthropic("content_block_delta", index=0, delta={"type": "text_delta", "text": text}),
    "openai_responses": _output_text,
    "gemini": lambda text: _gemini({"text": text}),
    "ollama": lambda text: _ollama({"content": text}),
}
THOUGHTS: dict[str, Callable[[str], bytes]] = {
    "openai_chat": lambda text: _chat({"content": None, "reasoning_content": text}),
    "anthropic": lambda text: _anthropic(
        "content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": text}
    ),
    "openai_responses": lambda text: _responses(
        "response.reasoning_summary_text.delta", item_id="rs_1", output_index=0, summary_index=0, delta=text
    ),
    "gemini": lambda text: _gemini({"text": text, "thought": True}),
    "ollama": lambda text: _ollama({"content": "", "thinking": text}),
}


def _delta(upstream: str, text: str) -> bytes:
    return DELTAS[upstream](text)


def _thought(upstream: str, text: str) -> bytes:
    return THOUGHTS[upstream](text)


_CREATED = {"id": "r", "object": "response", "model": "m", "status": "in_progress", "output": []}
BEGIN = {
    "openai_chat": [_chat({"role": "assistant", "content": ""})],
    "anthropic": [
        _anthropic("message_start", message={"id": "m", "role": "assistant", "content": [], "model": "m"}),
        _anthropic("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    ],
    "openai_responses": [
        _responses("response.created", response=_CREATED),
        _responses("response.output_item.added", output_index=0, item=_MESSAGE),
    ],
    "gemini": [_gemini({"text": "begin"})],
    "ollama": [_ollama({"content": "begin"})],
}
BEGIN_THOUGHT = {
    **BEGIN,
    "anthropic": [
        BEGIN["anthropic"][0],
        _anthropic("content_block_start", index=0, content_block={"type": "thinking", "thinking": "", "signature": ""}),
    ],
    "openai_responses": [
        BEGIN["openai_responses"][0],
        _responses("response.output_item.added", output_index=0, item={"id": "rs_1", "type": "reasoning"}),
    ],
    "gemini": [_gemini({"text": "begin", "thought": True})],
    "ollama": [_ollama({"content": "", "thinking": "begin"})],
}
END = {
    "openai_chat": [_chat({}, finish_reason="stop"), b"data: [DONE]"],
    "anthropic": [
        _anthropic("content_block_stop", index=0),
        _anthropic("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 1}),
        _anthropic("message_stop"),
    ],
    "openai_responses": [
        _responses("response.output_item.done", output_index=0, item={**_MESSAGE, "status": "completed"}),
        _responses("response.completed", response={**_CREATED, "status": "completed"}),
    ],
    "gemini": [_gemini({"text": ""}, candidate={"finishReason": "STOP"})],
    "ollama": [_ollama({"content": ""}, done=True, done_reason="stop")],
}
ODD = {
    "openai_chat": [
        _chat({"content": "a", "refusal": "no"}),
        _chat({"content": "a"}, usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}),
        _chat({"content": "a"}, strange=1),
        _chat({"content": "a"}, obfuscation="xyz"),
        _chat({"content": "b"}, obfuscation="abcdefg"),
        _chat({"content": "b"}, obfuscation=""),
        _chat({"content": "b"}, obfuscation='a","content":"b'),
        _chat({"content": "c", "role": "assistant"}),
        _chat({"reasoning_content": "hm"}),
        _chat({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}}]}),
        b": a comment",
        b"data: {broken",
        b'data: {"choices":[{"index":0,"delta":{"content":"two"}}]}\ndata: ',
    ],
    "openai_responses": [
        _output_text("a", sequence_number=8),
        _output_text("b", sequence_number=123),
        _output_text("b", sequence_number=0),
        _output_text("b", sequence_number="x"),
        _output_text("b", obfuscation="abc"),
        _output_text("b", obfuscation="abcdefg", sequence_number=9),
        _output_text("b", logprobs=[{"token": "b", "logprob": -0.5, "bytes": [98], "top_logprobs": []}]),
        _output_text("b", content_index=1),
        _output_text("b", item_id="msg_2", output_index=1),
        _responses("response.output_text.done", **_ITEM, content_index=0, text="whatever"),
        _responses("response.refusal.delta", **_ITEM, content_index=2, delta="no"),
        THOUGHTS["openai_responses"]("hm"),
        _responses("keepalive"),
        b": a comment",
        b"data: {broken",
    ],
    "gemini": [
        _gemini({"text": "a"}, {"text": "b"}),
        _gemini({"text": "a"}, usageMetadata={"promptTokenCount": 1, "candidatesTokenCount": 2}),
        _gemini({"text": "b"}, usageMetadata={"promptTokenCount": 1, "candidatesTokenCount": 3}),
        _gemini({"text": "a", "thoughtSignature": "s"}),
        _gemini({"text": "hm", "thought": True}),
        _gemini({"functionCall": {"name": "f", "args": {}}}),
        _gemini({"text": "a"}, candidate={"finishReason": "STOP"}),
        _gemini({"text": "a"}, createTime="2026-01-01T00:00:00Z"),
        _gemini({"text": "a"}, responseId="r"),
        b": a comment",
        b"data: {broken",
        b'{"error":{"code":500,"message":"no","status":"INTERNAL"}}',
    ],
    "ollama": [
        _ollama({"content": "a"}, created_at="2026-01-01T00:00:01.123456+07:00"),
        _ollama({"content": "a"}, created_at=5),
        _ollama({"content": "a"}, created_at='a","x":"b'),
        _ollama({"content": "a", "thinking": "b"}),
        _ollama({"content": "", "thinking": "b"}),
        _ollama({"content": "a", "strange": 1}),
        _ollama({"content": "a"}, strange=1),
        _ollama({"content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}),
        b'{"error":"no"}',
        b"{",
        b"",
    ],
    "anthropic": [
        _anthropic("ping"),
        _anthropic("content_block_delta", index=0, delta={"type": "text_delta", "text": "a", "more": 1}),
        _anthropic("content_block_delta", index=1, delta={"type": "text_delta", "text": "a"}),
        _anthropic("content_block_stop", index=0),
        _anthropic("content_block_start", index=1, content_block={"type": "text", "text": ""}),
        b": a comment",
        b"data: {broken",
    ],
}


def _framed(draw: st.DrawFn, upstream: str, frames: list[bytes]) -> bytes:
    end = DIALECTS[upstream].stream.framing.end
    ends = draw(st.sampled_from([end, end, end, end.replace(b"\n", b"\r\n")]))
    return b"".join(frame + ends for frame in frames)


def _numbered(frames: list[bytes]) -> list[bytes]:
    """As servers write them whose events have numbers."""
    return [
        re.sub(rb'("sequence_number":)7([,}])', rb"\g<1>%d\g<2>" % number, frame) for number, frame in enumerate(frames)
    ]


@st.composite
def streams(draw: st.DrawFn, upstream: str) -> bytes:
    thinks = draw(st.booleans())
    frames, delta = (list(BEGIN[upstream]), _delta) if not thinks else (list(BEGIN_THOUGHT[upstream]), _thought)
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.integers(0, 10))
        if kind < 6:
            frames += [delta(upstream, draw(TEXTS))] * draw(st.integers(1, 3))
        elif kind < 8:
            frames.append(delta(upstream, "@").replace(b"@", draw(RAW).encode()))
        elif kind < 9:
            frames.append(delta(upstream, "@").replace(b"@", draw(BROKEN)))
        else:
            frames.append(draw(st.sampled_from(ODD[upstream])))
    frames += END[upstream]
    return _framed(draw, upstream, _numbered(frames) if draw(st.booleans()) else frames)


def _call(index: int | None, arguments: Any, *, identity: str | None = None, name: str | None = None) -> Any:
    function = {"name": name, "arguments": arguments} if name is not None else {"arguments": arguments}
    call: dict[str, Any] = {"index": index} if index is not None else {}
    return {**call, **({"id": identity, "type": "function"} if identity is not None else {}), "function": function}


def _arguments(text: str, index: int | None = 0, **fields: Any) -> bytes:
    return _chat({"tool_calls": [_call(index, text, **fields)]})


PIECES = st.sampled_from(
    ["{", "}", '{"a":', '"b c"', "1", ",", " ", '"x', 'y"}', '{"input":"', "\\n", "é", "😀", "\n", "{}"]
)
CALLS = st.builds(
    _arguments,
    PIECES,
    index=st.sampled_from([0, 0, 0, 1, None]),
    identity=st.sampled_from([None, None, None, "c0", "c1", ""]),
    name=st.sampled_from([None, None, None, "f", "g", ""]),
)
"""Any piece of any call."""
ODD_CALLS = [
    _chat({"tool_calls": [_call(0, "1"), _call(1, "2")]}),
    _chat({"content": "a", "tool_calls": [_call(0, "1")]}),
    _chat({"content": "", "tool_calls": [_call(0, "1")]}),
    _chat({"content": None, "role": "assistant", "tool_calls": [_call(0, "1")]}),
    _chat({"tool_calls": [_call(0, "1")]}, usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}),
    _chat({"tool_calls": [_call(0, "1")]}, obfuscation="abc"),
    _chat({"tool_calls": [_call(0, "2")]}, obfuscation="de"),
    _chat({"tool_calls": [_call(0, "1")]}, finish_reason="tool_calls"),
    _chat({"tool_calls": [{**_call(0, "1"), "extra_content": {"google": {"thought_signature": "s"}}}]}),
    _chat({"tool_calls": [{**_call(0, "1"), "strange": 1}]}),
    _chat({"tool_calls": [_call(0, {"a": 1})]}),
    _chat({"tool_calls": [{"index": 0, "custom": {"input": "1"}}]}),
    _chat({"tool_calls": []}),
    _chat({"function_call": {"arguments": "1"}}),
    _chat({"reasoning_content": "hm"}),
    b": a comment",
    b"data: {broken",
]


@st.composite
def streams_with_calls(draw: st.DrawFn) -> bytes:
    frames = list(BEGIN["openai_chat"])
    for _ in range(draw(st.integers(1, 4))):
        index, identity = draw(st.sampled_from([(0, "c0"), (1, "c1"), (0, "c2")]))
        frames.append(_arguments(draw(st.sampled_from(["", "{"])), index, identity=identity, name=draw(NAMES)))
        for _ in range(draw(st.integers(0, 8))):
            kind = draw(st.integers(0, 11))
            if kind < 7:
                frames += [_arguments(draw(PIECES), index)] * draw(st.integers(1, 3))
            elif kind < 8:
                frames.append(_arguments("@", index).replace(b"@", draw(RAW).encode()))
            elif kind < 9:
                frames.append(_arguments("@", index).replace(b"@", draw(BROKEN)))
            elif kind < 10:
                frames.append(draw(CALLS))
            elif kind < 11:
                frames.append(_delta("openai_chat", draw(TEXTS)))
            else:
                frames.append(draw(st.sampled_from(ODD_CALLS)))
    return _framed(draw, "openai_chat", [*frames, *END["openai_chat"]])


def _anthropic_call(number: int) -> tuple[list[bytes], Callable[[str], bytes], list[bytes]]:
    block = {"type": "tool_use", "id": f"t{number}", "name": "f", "input": {}}
    return (
        [_anthropic("content_block_start", index=number, content_block=block)],
        lambda text: _anthropic(
            "content_block_delta", index=number, delta={"type": "input_json_delta", "partial_json": text}
        ),
        [_anthropic("content_block_stop", index=number)],
    )


def _responses_call(number: int) -> tuple[list[bytes], Callable[[str], bytes], list[bytes]]:
    item = {"id": f"fc_{number}", "type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": ""}
    at = {"item_id": item["id"], "output_index": number}
    return (
        [_responses("response.output_item.added", output_index=number, item=item)],
        lambda text: _responses("response.function_call_arguments.delta", **at, delta=text),
        [_responses("response.output_item.done", output_index=number, item={**item, "status": "incomplete"})],
    )


CALLERS = {"anthropic": _anthropic_call, "openai_responses": _responses_call}


@st.composite
def plain_calls(draw: st.DrawFn, upstream: str) -> bytes:
    """Calls whose arguments come in pieces, sound or not; the last piece may be the end of an object."""
    frames = BEGIN[upstream][:1]
    for number in range(draw(st.integers(1, 3))):
        opening, delta, closing = CALLERS[upstream](number)
        frames += opening
        for _ in range(draw(st.integers(0, 8))):
            kind = draw(st.integers(0, 9))
            if kind < 8:
                frames += [delta(draw(PIECES))] * draw(st.integers(1, 3))
            elif kind < 9:
                frames.append(delta("@").replace(b"@", draw(RAW).encode()))
            else:
                frames.append(draw(st.sampled_from(ODD[upstream])))
        frames += closing if draw(st.booleans()) else []
    frames += END[upstream][1:]
    return _framed(draw, upstream, _numbered(frames))


NAMES = st.sampled_from(["f", "f", "patch"])
"""Of tools: the second has a text for its input, where there are such tools."""

REQUESTS: dict[str, Any] = {
    "openai_chat": {
        "model": "m",
        "max_tokens": 1,
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    },
    "openai_responses": {
        "model": "m",
        "input": "Hi",
        "tools": [
            {"type": "function", "name": "f", "parameters": {"type": "object"}},
            {"type": "custom", "name": "patch"},
        ],
    },
}
CAN = change_capabilities(DIALECTS["openai_chat"].can, custom_tools=False)


def _translated(
    client: str, upstream: str, pieces: list[bytes], *, short: bool, asked: bool = False, listens: bool = True
) -> tuple[bytes, list[str], str, Any]:
    exchange = ExchangeCore(client, upstream, created=1, answer_id="a", can=CAN if asked else None)
    if client in REQUESTS and (asked or client == upstream):
        exchange.request(REQUESTS[client])
    heard: list[Event] = []
    exchange.new_listener = (lambda: heard.append) if listens else None
    translation = StreamTranslation(exchange)
    if not short:
        translation._texts = None
    written = b"".join([*map(translation.feed, pieces), translation.close()])
    said = "".join(getattr(event, "text", "\n") for event in heard)  # texts that come at once may be told as one
    told = sorted(map(str, exchange.receipt))  # their order depends on how the bytes were cut
    return written, told, said, (translation.usage, translation.stop, translation.fault)


def _cut(data: st.DataObject, stream: bytes) -> list[bytes]:
    """Anywhere, or behind each frame."""
    if data.draw(st.booleans()):
        return stream.splitlines(keepends=True)
    if data.draw(st.booleans()):
        return stream.replace(b"\n\n", b"\n\n@@").split(b"@@")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    return [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("upstream", UPSTREAMS)
@given(data=st.data())
def test_the_shortest_way_of_a_text_gives_the_same_bytes(client: str, upstream: str, data: st.DataObject) -> None:
    pieces = _cut(data, data.draw(streams(upstream)))
    assert _translated(client, upstream, pieces, short=True) == _translated(client, upstream, pieces, short=False)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("upstream", CALLERS)
@given(data=st.data())
def test_the_shortest_way_of_plain_arguments_gives_the_same_bytes(
    client: str, upstream: str, data: st.DataObject
) -> None:
    pieces = _cut(data, data.draw(plain_calls(upstream)))
    assert _translated(client, upstream, pieces, short=True) == _translated(client, upstream, pieces, short=False)


@pytest.mark.parametrize("client", CLIENTS)
@given(data=st.data(), asked=st.booleans(), listens=st.booleans())
def test_the_shortest_way_of_arguments_gives_the_same_bytes(
    client: str, data: st.DataObject, asked: bool, listens: bool
) -> None:
    pieces = _cut(data, data.draw(streams_with_calls()))
    one, other = (
        _translated(client, "openai_chat", pieces, short=short, asked=asked, listens=listens) for short in (True, False)
    )
    assert one == other


def _learnt(upstream: str, frame: bytes, text: str) -> FrameTemplate | None:
    """What a frame teaches, without what ends it."""
    shape = DIALECTS[upstream].stream
    assert shape.text_of_frame is not None
    frames = TextFrames(shape.framing, shape.text_of_frame, shape.changing_members)
    frames.learn(frame + shape.framing.end, text)
    return frames.template


def _body(upstream: str, template: FrameTemplate | None, frame: bytes) -> bytes:
    whole = frame + DIALECTS[upstream].stream.framing.end
    return b"" if template is None else template.body_of(whole, 0, len(whole))


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_text_like_the_one_before_is_recognised(upstream: str) -> None:
    template = _learnt(upstream, _delta(upstream, "one"), "one")
    assert _body(upstream, template, _delta(upstream, "two")) == b"two"
    assert _body(upstream, template, _delta(upstream, 'a "b"')) == b'a \\"b\\"'
    assert _body(upstream, template, END[upstream][0]) == b""


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_reasoning_like_that_before_is_recognised(upstream: str) -> None:
    template = _learnt(upstream, _thought(upstream, "one"), "one")
    assert _body(upstream, template, _thought(upstream, "two")) == b"two"
    assert _body(upstream, template, _delta(upstream, "two")) == b""


def test_random_letters_behind_a_text_do_not_hide_it() -> None:
    template = _learnt("openai_chat", _chat({"content": "one"}, obfuscation="abc"), "one")
    assert _body("openai_chat", template, _chat({"content": "two"}, obfuscation="defghi")) == b"two"
    assert _body("openai_chat", template, _chat({"content": "two"}, obfuscation="d e")) == b""
    assert _body("openai_chat", template, _chat({"content": "two"})) == b""


@pytest.mark.parametrize(
    ("value", "is_known"),
    [("8", True), ("123456", True), ("0", False), ("07", False), ("-1", False), ("1.5", False), ("1\n2", False)],
)
def test_a_number_that_changes_does_not_hide_a_text(value: str, is_known: bool) -> None:
    template = _learnt("openai_responses", _delta("openai_responses", "one"), "one")
    frame = _delta("openai_responses", "two")
    other = re.sub(rb'"sequence_number":\d+', b'"sequence_number":' + value.encode(), frame)
    assert other != frame
    assert _body("openai_responses", template, other) == (b"two" if is_known else b"")


def test_a_text_that_stands_in_its_frame_twice_teaches_nothing() -> None:
    assert _learnt("openai_chat", _chat({"content": "c"}), "c") is None  # which is the id, too


def test_arguments_like_those_before_are_recognised() -> None:
    template = _learnt("openai_chat", _arguments('{"a":'), '{"a":')
    assert _body("openai_chat", template, _arguments('"b"}')) == b'\\"b\\"}'
    assert _body("openai_chat", template, _arguments("{}", 1)) == b""
    assert _body("openai_chat", template, _arguments("{}", identity="c1")) == b""


@pytest.mark.parametrize("frame", [*ODD_CALLS, _arguments("{", name="f")])
def test_arguments_beside_anything_else_are_read(frame: bytes) -> None:
    text_of_frame = DIALECTS["openai_chat"].stream.text_of_frame
    assert text_of_frame is not None
    told = {*ODD_CALLS[2:4], *ODD_CALLS[5:7], _chat({"reasoning_content": "hm"})}  # what says nothing beside them
    assert (text_of_frame(frame.removeprefix(b"data: ")) is not None) == (frame in told)


@given(st.one_of(TEXTS, RAW).map(str.encode) | BROKEN | st.binary(max_size=6))
def test_what_is_alike_is_what_would_be_written(body: bytes) -> None:
    if is_canonical(body):
        assert encode_frame(decode_body(body)) == b'"%b"' % body
    elif decode_body(body) and b"\x7f" not in body:
        assert encode_frame(decode_body(body)) != b'"%b"' % body or b"\\u" in body


RUNS = {
    "constant": (FrameTemplate(b"<(", b")>\n\n", b"<(", b")>\n\n"), ""),
    "numbered": (_template(b'<{"n":1,(', b")>\n\n", ("n",)), '{"n":%s,'),
    "both": (_template(b'<{"n":1,(', b'),"w":"a"}>\n\n', ("n", "w")), '{"n":%s,'),
}
VALUES = st.sampled_from(["1", "1", "23", "23", "x", "", "0", "1\n1"])


@pytest.mark.parametrize("kind", RUNS)
@given(
    st.lists(st.tuples(st.sampled_from("(((["), VALUES, st.one_of(TEXTS, RAW)), max_size=6),
    st.binary(max_size=4),
    st.integers(0, 3),
    st.sampled_from([b"\n", b"a"]),
)
def test_a_run_is_what_its_frames_are_one_by_one(
    kind: str, parts: list[tuple[str, str, str]], behind: bytes, start: int, held_back: bytes
) -> None:
    template, form = RUNS[kind]
    rest = b'),"w":"%b"}>\n\n' if kind == "both" else b")>\n\n"
    frames = []
    for bracket, value, text in parts:
        before = "<" + (form % value if form else "") + bracket
        frames.append(before.encode() + text.encode() + (rest % value.encode() if kind == "both" else rest))
    data = b"." * start + b"".join(frames) + behind

    def is_known(frame: bytes) -> bool:
        body = template.body_of(frame, 0, len(frame))
        return is_canonical(body) and held_back not in body

    expected = list(takewhile(is_known, frames))
    bodies, end = read_run(template, data, start, b"\n\n", held_back)
    assert bodies == [template.body_of(frame, 0, len(frame)) for frame in expected]
    assert data[start:end] == b"".join(expected)


@pytest.mark.parametrize("half", [b'data: {"id":', b"data: {broken\r", b": a comment\n", b": a comment\r"])
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_frame_behind_half_a_frame_is_a_part_of_it(upstream: str, half: bytes) -> None:
    end = DIALECTS[upstream].stream.framing.end
    frames = [frame + end for frame in [*BEGIN[upstream], *[_delta(upstream, "word")] * 3]]
    pieces = [*frames, half, frames[-1], *(frame + end for frame in END[upstream])]
    one, other = (_translated("anthropic", upstream, pieces, short=short) for short in (True, False))
    assert one == other


@pytest.mark.parametrize("kind", [_arguments, lambda text: _delta("openai_chat", text)], ids=["arguments", "text"])
def test_what_is_too_large_is_refused_also_where_its_frame_is_known(kind: Callable[[str], bytes]) -> None:
    exchange = ExchangeCore("anthropic", "openai_chat")
    translation = StreamTranslation(exchange)
    opened = [*BEGIN["openai_chat"], _arguments("{", identity="c0", name="f")] if kind is _arguments else []
    for frame in [*opened, *[kind("word")] * 3]:
        translation.feed(frame + b"\n\n")
    assert translation.fault is None
    translation.feed(kind("a" * MAX_EVENT_BYTES) + b"\n\n")
    assert translation.fault is not None


@pytest.mark.parametrize("client", CLIENTS)
def test_an_answer_that_becomes_too_long_is_refused_also_where_its_frames_are_known(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolglot.wire.stream_budget.MAX_HELD_CHARACTERS", 10_000)
    translation = StreamTranslation(ExchangeCore(client, "openai_responses", created=1, answer_id="a"))
    frames = [*BEGIN["openai_responses"], *[_output_text("some words ")] * 1500]
    written = [translation.feed(frame + b"\n\n") for frame in frames]
    assert translation.fault is not None
    assert translation.ended
    assert translation.feed(frames[-1] + b"\n\n") == b""
    assert translation.close() == b""
    assert sum(map(bool, written)) < 1500
