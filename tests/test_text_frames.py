"""Frames that are recognised without reading them must be those that reading would take for the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.exchanges import JSON_NAMES
from toolglot import Exchange
from toolglot.dialects import DIALECTS
from toolglot.events import Event
from toolglot.ir import replace
from toolglot.streaming import StreamTranslation
from toolglot.text_frames import TextFrames, is_alike, run_of, text_of
from toolglot.wire.json import encode
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


def _delta(upstream: str, text: str) -> bytes:
    if upstream == "openai_chat":
        return _chat({"content": text})
    return _anthropic("content_block_delta", index=0, delta={"type": "text_delta", "text": text})


BEGIN = {
    "openai_chat": [_chat({"role": "assistant", "content": ""})],
    "anthropic": [
        _anthropic("message_start", message={"id": "m", "role": "assistant", "content": [], "model": "m"}),
        _anthropic("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    ],
}
END = {
    "openai_chat": [_chat({}, finish_reason="stop"), b"data: [DONE]"],
    "anthropic": [
        _anthropic("content_block_stop", index=0),
        _anthropic("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 1}),
        _anthropic("message_stop"),
    ],
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


def _framed(draw: st.DrawFn, frames: list[bytes]) -> bytes:
    ends = draw(st.sampled_from([b"\n\n", b"\n\n", b"\n\n", b"\r\n\r\n"]))
    return b"".join(frame + ends for frame in frames)


@st.composite
def streams(draw: st.DrawFn, upstream: str) -> bytes:
    frames = list(BEGIN[upstream])
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.integers(0, 10))
        if kind < 6:
            frames += [_delta(upstream, draw(TEXTS))] * draw(st.integers(1, 3))
        elif kind < 8:
            frames.append(_delta(upstream, "@").replace(b"@", draw(RAW).encode()))
        elif kind < 9:
            frames.append(_delta(upstream, "@").replace(b"@", draw(BROKEN)))
        else:
            frames.append(draw(st.sampled_from(ODD[upstream])))
    return _framed(draw, [*frames, *END[upstream]])


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
    return _framed(draw, [*frames, *END["openai_chat"]])


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
CAN = replace(DIALECTS["openai_chat"].can, custom_tools=False)


def _translated(
    client: str, upstream: str, pieces: list[bytes], *, short: bool, asked: bool = False, listens: bool = True
) -> tuple[bytes, list[str], str, Any]:
    exchange = Exchange(client, upstream, created=1, answer_id="a", can=CAN if asked else None)
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
@given(data=st.data(), asked=st.booleans(), listens=st.booleans())
def test_the_shortest_way_of_arguments_gives_the_same_bytes(
    client: str, data: st.DataObject, asked: bool, listens: bool
) -> None:
    pieces = _cut(data, data.draw(streams_with_calls()))
    one, other = (
        _translated(client, "openai_chat", pieces, short=short, asked=asked, listens=listens) for short in (True, False)
    )
    assert one == other


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_text_like_the_one_before_is_recognised(upstream: str) -> None:
    text_of = DIALECTS[upstream].stream.text_of_frame
    assert text_of is not None
    frames = TextFrames()
    assert frames.body(_delta(upstream, "one")) == b""
    frames.learn(_delta(upstream, "one"), "one", text_of)
    assert frames.body(_delta(upstream, "two")) == b"two"
    assert frames.body(_delta(upstream, 'a "b"')) == b'a \\"b\\"'
    assert frames.body(BEGIN[upstream][0]) == b""


def test_random_letters_behind_a_text_do_not_hide_it() -> None:
    text_of = DIALECTS["openai_chat"].stream.text_of_frame
    assert text_of is not None
    frames = TextFrames()
    frames.learn(_chat({"content": "one"}, obfuscation="abc"), "one", text_of)
    assert frames.body(_chat({"content": "two"}, obfuscation="defghi")) == b"two"
    assert frames.body(_chat({"content": "two"}, obfuscation="d e")) == b""
    assert frames.body(_chat({"content": "two"})) == b""


def test_a_text_that_stands_in_its_frame_twice_teaches_nothing() -> None:
    text_of = DIALECTS["openai_chat"].stream.text_of_frame
    assert text_of is not None
    frames = TextFrames()
    frames.learn(_chat({"content": "c"}), "c", text_of)  # which is the id, too
    assert frames.body(_chat({"content": "two"})) == b""


def test_arguments_like_those_before_are_recognised() -> None:
    arguments_of = DIALECTS["openai_chat"].stream.arguments_of_frame
    assert arguments_of is not None
    frames = TextFrames()
    frames.learn(_arguments('{"a":'), '{"a":', arguments_of)
    assert frames.body(_arguments('"b"}')) == b'\\"b\\"}'
    assert frames.body(_arguments("{}", 1)) == b""
    assert frames.body(_arguments("{}", identity="c1")) == b""


@pytest.mark.parametrize("frame", [*ODD_CALLS, _arguments("{", name="f"), _delta("openai_chat", "a")])
def test_arguments_beside_anything_else_are_read(frame: bytes) -> None:
    arguments_of = DIALECTS["openai_chat"].stream.arguments_of_frame
    assert arguments_of is not None
    assert arguments_of(frame.removeprefix(b"data: ")) in (None, "1", "2")
    told = {*ODD_CALLS[2:4], *ODD_CALLS[5:7]}  # what says nothing beside them
    assert (arguments_of(frame.removeprefix(b"data: ")) is not None) == (frame in told)


@given(st.one_of(TEXTS, RAW).map(str.encode) | BROKEN | st.binary(max_size=6))
def test_what_is_alike_is_what_would_be_written(body: bytes) -> None:
    if is_alike(body):
        assert encode(text_of(body)) == b'"%b"' % body
    elif text_of(body) and b"\x7f" not in body:
        assert encode(text_of(body)) != b'"%b"' % body or b"\\u" in body


@given(
    st.lists(st.tuples(st.sampled_from([b"<(", b"<(", b"<(", b"<["]), st.one_of(TEXTS, RAW)), max_size=6),
    st.binary(max_size=4),
    st.integers(0, 3),
)
def test_a_run_is_what_its_frames_are_one_by_one(parts: list[tuple[bytes, str]], behind: bytes, start: int) -> None:
    frames = [(before, text.encode()) for before, text in parts]
    data = b"." * start + b"".join(b"%b%b)>\n\n" % frame for frame in frames) + behind
    bodies, end = run_of((b"<(", b")>\n\n", b"", b"", slice(2, -4)), data, start)
    expected = list(takewhile(lambda frame: frame[0] == b"<(" and is_alike(frame[1]), frames))
    assert bodies == [body for _, body in expected]
    assert data[start:end] == b"".join(b"%b%b)>\n\n" % frame for frame in expected)


@pytest.mark.parametrize("half", [b'data: {"id":', b"data: {broken\r", b": a comment\n", b": a comment\r"])
@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_frame_behind_half_a_frame_is_a_part_of_it(upstream: str, half: bytes) -> None:
    frames = [frame + b"\n\n" for frame in [*BEGIN[upstream], *[_delta(upstream, "word")] * 3]]
    pieces = [*frames, half, frames[-1], *(frame + b"\n\n" for frame in END[upstream])]
    one, other = (_translated("anthropic", upstream, pieces, short=short) for short in (True, False))
    assert one == other


@pytest.mark.parametrize("kind", [_arguments, lambda text: _delta("openai_chat", text)], ids=["arguments", "text"])
def test_what_is_too_large_is_refused_also_where_its_frame_is_known(kind: Callable[[str], bytes]) -> None:
    exchange = Exchange("anthropic", "openai_chat")
    translation = StreamTranslation(exchange)
    opened = [*BEGIN["openai_chat"], _arguments("{", identity="c0", name="f")] if kind is _arguments else []
    for frame in [*opened, *[kind("word")] * 3]:
        translation.feed(frame + b"\n\n")
    assert translation.fault is None
    translation.feed(kind("a" * MAX_EVENT_BYTES) + b"\n\n")
    assert translation.fault is not None
