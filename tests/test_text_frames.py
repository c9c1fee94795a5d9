"""Frames that are recognised without reading them must be those that reading would take for the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot import Exchange
from toolglot.dialects import DIALECTS
from toolglot.events import Event
from toolglot.streaming import StreamTranslation
from toolglot.text_frames import TextFrames

UPSTREAMS = [name for name, dialect in DIALECTS.items() if dialect.text_of_frame is not None]
CLIENTS = ["openai_chat", "openai_responses", "anthropic", "gemini"]

TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["", " ", "a", 'say "hi"', "back\\slash", "line\nbreak", "é", "😀", "\x00", "toolglot probe"]),
)
RAW = st.sampled_from(["\\ud83d", "\\ude00", '","x":"', '"},"y":{"content":"', "\\u0041", "\\/", "\t", "\\"])
"""What may stand between the quotes of a text and is no plain text."""


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


@st.composite
def streams(draw: st.DrawFn, upstream: str) -> bytes:
    frames = list(BEGIN[upstream])
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.integers(0, 9))
        if kind < 6:
            frames.append(_delta(upstream, draw(TEXTS)))
        elif kind < 8:
            frames.append(_delta(upstream, "@").replace(b"@", draw(RAW).encode()))
        else:
            frames.append(draw(st.sampled_from(ODD[upstream])))
    ends = draw(st.sampled_from([b"\n\n", b"\n\n", b"\r\n\r\n"]))
    return b"".join(frame + ends for frame in [*frames, *END[upstream]])


def _translated(client: str, upstream: str, pieces: list[bytes], *, short: bool) -> tuple[bytes, list[str], str, Any]:
    exchange = Exchange(client, upstream, created=1, answer_id="a")
    exchange.request({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]}) if (
        client == upstream
    ) else None
    heard: list[Event] = []
    exchange.listener = heard.append
    translation = StreamTranslation(exchange)
    if not short:
        translation._texts = None
    written = b"".join([*map(translation.feed, pieces), translation.close()])
    said = "".join(getattr(event, "text", "\n") for event in heard)  # texts that come at once may be told as one
    told = sorted(map(str, exchange.receipt))  # their order depends on how the bytes were cut
    return written, told, said, (translation.usage, translation.stop, translation.fault)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("upstream", UPSTREAMS)
@given(data=st.data())
def test_the_shortest_way_of_a_text_gives_the_same_bytes(client: str, upstream: str, data: st.DataObject) -> None:
    stream = data.draw(streams(upstream))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert _translated(client, upstream, pieces, short=True) == _translated(client, upstream, pieces, short=False)


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_text_like_the_one_before_is_recognised(upstream: str) -> None:
    text_of = DIALECTS[upstream].text_of_frame
    assert text_of is not None
    frames = TextFrames(text_of)
    assert frames.body(_delta(upstream, "one")) == b""
    frames.learn(_delta(upstream, "one"), "one")
    assert frames.body(_delta(upstream, "two")) == b"two"
    assert frames.body(_delta(upstream, 'a "b"')) == b'a \\"b\\"'
    assert frames.body(BEGIN[upstream][0]) == b""


def test_random_letters_behind_a_text_do_not_hide_it() -> None:
    text_of = DIALECTS["openai_chat"].text_of_frame
    assert text_of is not None
    frames = TextFrames(text_of)
    frames.learn(_chat({"content": "one"}, obfuscation="abc"), "one")
    assert frames.body(_chat({"content": "two"}, obfuscation="defghi")) == b"two"
    assert frames.body(_chat({"content": "two"}, obfuscation="d e")) == b""
    assert frames.body(_chat({"content": "two"})) == b""


def test_a_text_that_stands_in_its_frame_twice_teaches_nothing() -> None:
    text_of = DIALECTS["openai_chat"].text_of_frame
    assert text_of is not None
    frames = TextFrames(text_of)
    frames.learn(_chat({"content": "c"}), "c")  # which is the id, too
    assert frames.body(_chat({"content": "two"})) == b""
