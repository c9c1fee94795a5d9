"""How streams end: where one breaks, what follows an end, what an end lacks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import product

import pytest

from tests.exchanges import FORWARDING, NAMES, PAIRS, read_events
from tests.lint.streams import ANTHROPIC, SOUND, WARP, anthropic, candidate, gemini, warp
from toolglot import Exchange, forwarding
from toolglot.dialects import DIALECTS
from toolglot.errors import ApiError
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start, fold
from toolglot.ir import Block, Message, Request, Stop, Text, Thinking, ToolCall
from toolglot.lint import lint
from toolglot.receipt import Receipt
from toolglot.streaming import StreamTranslation

RESET = ApiError(kind="server", code="upstream_reset", message="The upstream broke off")
ENDED_BY_AN_EVENT = tuple(name for name in FORWARDING if name != "gemini")
"""Gemini's streams have no last event: they are over when they are closed."""

UNREADABLE = {
    "no JSON": b"data: {oops}\n\n",
    "half a document": b'data: {"type":"ping"\n\n',
    "no UTF-8": b'data: {"type":"\xff"}\n\n',
    "too deep": b"data: " + b"[" * 100_000 + b"\n\n",
}


def frames_of(stream: bytes, dialect: str = "openai_chat") -> list[bytes]:
    end = DIALECTS[dialect].stream.framing.end
    return [frame + end for frame in stream.split(end) if frame]


def fed(translation: StreamTranslation, chunks: Iterable[bytes]) -> bytes:
    return b"".join([translation.feed(chunk) for chunk in chunks])


def forwarded(dialect: str, chunks: Iterable[bytes]) -> bytes:
    translation = Exchange(dialect, dialect).stream()
    return fed(translation, chunks) + translation.close()


# A character that is cut in two

CUT_BLOCKS: dict[str, Block] = {
    "text": Text(text=""),
    "reasoning": Thinking(),
    "arguments": ToolCall(id="call_1", name="f"),
}
WHOLE_ARGUMENTS = ("gemini", "ollama")


def cut_stream(dialect: str, block: Block, *pieces: str) -> bytes:
    """A stream that brings these pieces. `<` and `>` stand for the halves of a character."""
    encoder = DIALECTS[dialect].stream_encoder(None, Receipt())
    closes = Close(index=0, native={dialect: {"signature": "s"}} if isinstance(block, Thinking) else {})
    deltas = [Delta(0, piece) for piece in pieces]
    events: tuple[Event, ...] = (Start(id="r", model="m"), Open(0, block), *deltas, closes, Finish(stop=Stop("end")))
    written = b"".join([encoder.feed(event) for event in events])
    return written.replace(b"<", rb"\ud83d").replace(b">", rb"\ude00")


@pytest.mark.parametrize(
    ("dialect", "kind"),
    [row for row in product(FORWARDING, CUT_BLOCKS) if row[1] != "arguments" or row[0] not in WHOLE_ARGUMENTS],
)
def test_a_character_that_is_cut_between_two_deltas_is_put_together(dialect: str, kind: str) -> None:
    """Servers that write JSON in ASCII spell an emoji as two escapes, and some cut between them."""
    receipt = Receipt()
    decoder = DIALECTS[dialect].stream_decoder(receipt)
    events = decoder.feed(cut_stream(dialect, CUT_BLOCKS[kind], '{"a":"x<', "><", '>y"}')) + decoder.close()
    block = fold(events).content[0]
    text = block.arguments if isinstance(block, ToolCall) else getattr(block, "text", "")
    assert text == '{"a":"x\U0001f600\U0001f600y"}'
    assert not receipt.losses


@pytest.mark.parametrize("dialect", FORWARDING)
def test_half_a_character_is_told_where_the_other_never_comes(dialect: str) -> None:
    receipt = Receipt()
    decoder = DIALECTS[dialect].stream_decoder(receipt)
    written = cut_stream(dialect, Text(text=""), "x<", "y")
    if dialect == "openai_responses":
        written = written.replace(rb'x\ud83dy"', b'xy"')
    events = decoder.feed(written) + decoder.close()
    assert [getattr(block, "text", None) for block in fold(events).content] == ["xy"]
    assert [line.what for line in receipt.losses] == ["half a character"]


# A frame that cannot be read

FRAMES_OF_AN_ERROR = {"gemini": 2}
"""An event, and a bare document for Google's own SDKs."""


@pytest.mark.parametrize("dialect", FORWARDING)
@pytest.mark.parametrize("broken", UNREADABLE.values(), ids=UNREADABLE)
def test_a_forwarded_stream_is_cut_before_the_frame_that_cannot_be_read(dialect: str, broken: bytes) -> None:
    sound = frames_of(SOUND[dialect], dialect)
    waits = next((number for number, frame in enumerate(sound) if b"functionCall" in frame), len(sound))
    for place in range(1, len(sound)):
        translation = Exchange(dialect, dialect).stream()
        written = translation.feed(b"".join(sound[:place]) + broken + b"".join(sound[place:]))
        before = b"".join(sound[: min(place, waits)])
        assert written.startswith(before)
        errors = frames_of(written.removeprefix(before), dialect)
        assert len(errors) == FRAMES_OF_AN_ERROR.get(dialect, 1)
        assert all(b"unreadable" in error for error in errors)
        assert isinstance(read_events(dialect, [written])[-1], Fault)
        assert translation.fault is not None
        assert translation.fault.code == "upstream_unreadable"
        assert translation.close() == b""


@pytest.mark.parametrize("dialect", FORWARDING)
def test_where_a_forwarded_stream_is_cut_does_not_depend_on_how_it_was_read(dialect: str) -> None:
    sound = frames_of(SOUND[dialect], dialect)
    stream = b"".join([*sound[:2], UNREADABLE["no JSON"], *sound[2:]])
    whole = forwarded(dialect, [stream])
    for size in (1, 2, 7, 100):
        assert forwarded(dialect, [stream[i : i + size] for i in range(0, len(stream), size)]) == whole


def test_an_error_of_our_own_goes_on_from_the_last_number_that_was_let_through() -> None:
    sound = frames_of(SOUND["openai_responses"])
    written = forwarded(
        "openai_responses", [b"".join([*sound[:4], b": a comment\n\n", b"data: {oops}\n\n", *sound[4:]])]
    )
    numbers = [json.loads(number) for number in re.findall(rb'"sequence_number":(\d+)', written)]
    assert numbers == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dialect", FORWARDING)
def test_a_forwarded_frame_that_does_not_end_is_cut(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "MAX_EVENT_BYTES", 1000)
    first = frames_of(SOUND[dialect], dialect)[0]
    translation = Exchange(dialect, dialect).stream()
    assert translation.feed(first + b"data: " + b"a" * 994) == first
    assert b"unreadable" in translation.feed(b"a")


# What follows an end


LATE = {
    "a frame": b'data: {"late":1}\n\n',
    "half a frame": b'data: {"late',
    "no frame at all": b"\xff\n\n\n",
    "another mark of the end": b"data: [DONE]\n\n",
    "a comment": b": late\n\n",
}


@pytest.mark.parametrize("dialect", ENDED_BY_AN_EVENT)
@pytest.mark.parametrize("late", [*LATE.values(), b"".join(SOUND.values())], ids=[*LATE, "another stream"])
def test_nothing_is_forwarded_after_the_end(dialect: str, late: bytes) -> None:
    sound = SOUND[dialect]
    for chunks in ([sound + late], [sound, late], [sound[:-1], sound[-1:] + late]):
        translation = Exchange(dialect, dialect).stream()
        assert fed(translation, chunks) == sound
        assert translation.ended
        assert translation.close() == translation.break_off(RESET) == b""
        assert translation.fault is None


@pytest.mark.parametrize("dialect", FORWARDING)
def test_nothing_is_forwarded_after_an_error_of_the_upstream(dialect: str) -> None:
    sound = frames_of(SOUND[dialect], dialect)
    error = b"".join(
        frames_of(Exchange(dialect, dialect).stream().fail(RESET), dialect)[-FRAMES_OF_AN_ERROR.get(dialect, 1) :]
    )
    assert forwarded(dialect, [sound[0] + error + b"".join(sound[1:])]) == sound[0] + error


# An upstream that breaks off


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_an_upstream_that_breaks_off_after_a_whole_answer_changes_nothing(client: str, upstream: str) -> None:
    broken, closed = Exchange(client, upstream).stream(), Exchange(client, upstream).stream()
    written = broken.feed(SOUND[upstream]) + broken.break_off(RESET)
    assert written == closed.feed(SOUND[upstream]) + closed.close()
    assert broken.ended
    assert broken.fault is None
    assert broken.usage is not None
    assert broken.stop == closed.stop


SAYS_WHY = {
    "openai_chat": b'"finish_reason":"',
    "openai_responses": b"response.completed",
    "anthropic": b'"stop_reason":"',
    "gemini": b"finishReason",
    "warp": warp(WARP[-1:]),
    "ollama": b"done_reason",
}


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_an_upstream_that_breaks_off_before_it_has_said_why_is_an_error(client: str, upstream: str) -> None:
    sound = frames_of(SOUND[upstream], upstream)
    reason = next(place for place, frame in enumerate(sound) if SAYS_WHY.get(upstream, sound[-1]) in frame)
    for place in range(1, reason + 1):
        translation = Exchange(client, upstream).stream()
        written = translation.feed(b"".join(sound[:place]))
        assert not translation.settled
        written += translation.break_off(RESET)
        assert translation.fault == RESET
        assert isinstance(read_events(client, [written])[-1], Fault)


CUT_AFTER_THE_REASON = {
    "openai_chat": SOUND["openai_chat"][: SOUND["openai_chat"].index(b'"usage"')],
    "anthropic": SOUND["anthropic"][: SOUND["anthropic"].index(b'{"type":"message_stop"') + 9],
    "gemini": SOUND["gemini"] + b'data: {"usageMetadata":{"promptTok',
}
"""The last frame is cut, but the reason for the end stands before it."""


@pytest.mark.parametrize(("client", "upstream"), [pair for pair in PAIRS if pair[1] in CUT_AFTER_THE_REASON])
@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "broken off"])
def test_half_a_frame_after_the_reason_for_the_end_is_left_out(client: str, upstream: str, is_closed: bool) -> None:
    translation = Exchange(client, upstream).stream()
    written = translation.feed(CUT_AFTER_THE_REASON[upstream])
    assert translation.settled
    written += translation.close() if is_closed else translation.break_off(RESET)
    assert translation.fault is None
    assert isinstance(read_events(client, [written])[-1], Finish)
    assert written.endswith(DIALECTS[client].stream.framing.end)
    assert lint(client, [written]) == []


@pytest.mark.parametrize("client", NAMES)
def test_a_reason_in_every_frame_is_none_and_an_answer_that_breaks_off_is_not_whole(client: str) -> None:
    """Servers of older models of Gemini say `STOP` from the first frame on."""
    translation = Exchange(client, "gemini").stream()
    written = translation.feed(gemini([candidate({"text": text}, finishReason="STOP") for text in ("Hel", "lo")]))
    assert not translation.settled
    written += translation.break_off(RESET)
    assert isinstance(read_events(client, [written])[-1], Fault)


@pytest.mark.parametrize("client", NAMES)
def test_a_blocked_prompt_is_a_whole_answer(client: str) -> None:
    translation = Exchange(client, "gemini").stream()
    written = translation.feed(gemini([{"promptFeedback": {"blockReason": "SAFETY"}}]))
    assert translation.settled
    written += translation.break_off(RESET)
    assert translation.fault is None
    assert translation.stop is not None
    assert translation.stop.reason == "filtered"


def test_a_whole_document_is_not_settled_before_it_ends() -> None:
    translation = Exchange("anthropic", "openai_chat").stream()
    translation.feed(b'{"choices":[{"finish_reason":"stop"')
    assert not translation.settled
    assert b"broke off" in translation.break_off(RESET)


# What an end lacks


MESSAGE_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    "end", [b"", DONE, b"event: done\ndata:[DONE]\n\n", MESSAGE_STOP[:-2], b"event: message_st", MESSAGE_STOP]
)
def test_a_forwarded_message_always_has_its_message_stop(end: bytes) -> None:
    sound = anthropic(ANTHROPIC[:-1])
    assert forwarded("anthropic", [sound + end]) == sound + MESSAGE_STOP


@pytest.mark.parametrize("end", [b"", DONE[:-2], b"data: [DO", DONE])
def test_forwarded_chunks_always_have_their_mark_of_the_end(end: bytes) -> None:
    sound = SOUND["openai_chat"].removesuffix(DONE)
    assert forwarded("openai_chat", [sound + end]) == sound + DONE


@pytest.mark.parametrize("end", [b"", b"data: [DONE]\n\n"])
def test_a_forwarded_message_without_a_stop_reason_is_not_whole(end: bytes) -> None:
    sound = anthropic(ANTHROPIC[:-2])
    written = forwarded("anthropic", [sound + end])
    assert written.startswith(sound + b"event: error\n")
    assert b"message_stop" not in written


@pytest.mark.parametrize("mark", [b"data: [DONE]\n\n", b"data:[DONE]\r\n\r\n"])
def test_forwarded_chunks_always_have_their_finish_reason(mark: bytes) -> None:
    sound = frames_of(SOUND["openai_chat"])
    told = b"".join(frame for frame in sound[:-1] if b'"finish_reason":"' not in frame)
    written = forwarded("openai_chat", [told + mark])
    assert written.startswith(told)
    assert written.count(b'"finish_reason":"tool_calls"') == written.count(b"[DONE]") == 1


# Frames


LINE_ENDS = [
    (dialect, line_end)
    for dialect in FORWARDING
    for line_end in (b"\n", b"\r\n", b"\r")
    if line_end != b"\r" or not DIALECTS[dialect].stream.framing.is_bare
]
"""Events may have them all."""


@pytest.mark.parametrize(("dialect", "line_end"), LINE_ENDS)
def test_frames_are_let_through_as_they_are_whatever_ends_their_lines(dialect: str, line_end: bytes) -> None:
    sound = SOUND[dialect].replace(b"\n", line_end)
    for size in (1, 3, 50, len(sound)):
        translation = Exchange(dialect, dialect).stream()
        pieces = [translation.feed(sound[i : i + size]) for i in range(0, len(sound), size)]
        assert b"".join(pieces) + translation.close() == sound
        ends = line_end * len(DIALECTS[dialect].stream.framing.end)
        assert all(piece.endswith(ends) for piece in pieces if piece)


@pytest.mark.parametrize("dialect", ENDED_BY_AN_EVENT)
def test_no_mixture_of_line_ends_hides_what_follows_the_end(dialect: str) -> None:
    sound, end = SOUND[dialect], DIALECTS[dialect].stream.framing.end
    for blank in (b"\n\r", b"\r\r", b"\n\r\n", b"\r\n\r\n"):
        written = forwarded(dialect, [sound.removesuffix(end) + blank + b'data: {"late":1}\n\n'])
        assert b"late" not in written


def test_a_mark_of_byte_order_before_the_first_frame_does_not_hide_the_model_in_it() -> None:
    exchange = Exchange("openai_chat", "openai_chat", model="theirs")
    exchange.request(b'{"model": "ours", "messages": [{"role": "user", "content": "Hi"}], "stream": true}')
    frame = (
        b'\xef\xbb\xbfdata: {"id": "c", "model": "theirs", "choices": [{"index": 0, "delta": {"content": "Hi"}}]}\n\n'
    )
    assert b'"model": "ours"' in exchange.stream().feed(frame)


@pytest.mark.parametrize("blank", [b"\n\n", b"\n", b" \r\n\r\n"])
def test_a_document_behind_a_blank_line_is_one_however_it_was_cut(blank: bytes) -> None:
    """Servers that load a model send blank lines meanwhile, and then an error."""
    document = b'{"error":{"message":"The model is loading.","type":"server_error"}}'
    for pieces in ([blank + document], [blank, document], [blank, blank, document[:9], document[9:]]):
        translation = Exchange("anthropic", "openai_chat").stream()
        written = b"".join(map(translation.feed, pieces)) + translation.close()
        assert b"The model is loading." in written


# The head of an answer


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_a_head_that_is_held_back_comes_with_what_follows_it(client: str, upstream: str) -> None:
    at_once, held = (Exchange(client, upstream, created=1, holds_head=holds).stream() for holds in (False, True))
    chunks = [SOUND[upstream]] if upstream == "warp" else frames_of(SOUND[upstream])
    written, later = [at_once.feed(chunk) for chunk in chunks], [held.feed(chunk) for chunk in chunks]
    first = next(number for number, piece in enumerate(later) if piece)
    assert later[first] == b"".join(written[: first + 1])
    assert later[first + 1 :] == written[first + 1 :]
    assert held.close() == at_once.close()
    assert first > 0 or upstream not in ("openai_responses", "anthropic")


@pytest.mark.parametrize("client", NAMES)
def test_an_error_after_a_head_that_is_held_back_comes_with_it(client: str) -> None:
    for upstream in ("anthropic", "openai_responses"):
        at_once, held = (Exchange(client, upstream, created=1, holds_head=holds).stream() for holds in (False, True))
        head = frames_of(SOUND[upstream])[0]
        assert held.feed(head) == b""
        assert held.fail(RESET) == at_once.feed(head) + at_once.fail(RESET)


def test_a_failure_of_ours_repeats_the_items_that_were_forwarded() -> None:
    """The official SDKs take the output of the last event for that of the whole response."""
    frames = frames_of(SOUND["openai_responses"])
    done = [frame for frame in frames if b"response.output_item.done" in frame]
    place = frames.index(done[-1])
    translation = Exchange("openai_responses", "openai_responses").stream()
    for frame in frames[:place]:
        translation.feed(frame)
    last = json.loads(translation.break_off(RESET).partition(b"data: ")[2])
    assert last["type"] == "response.failed"
    items = [json.loads(frame.partition(b"data: ")[2])["item"] for frame in done[:-1]]
    assert last["response"]["output"] == items != []


@pytest.mark.parametrize("dialect", FORWARDING)
def test_halves_of_a_character_in_a_forwarded_stream_stay_and_the_model_has_the_clients_name(dialect: str) -> None:
    exchange = Exchange(dialect, dialect, model="theirs")
    asked = Request(model="ours", messages=(Message(role="user", content=(Text(text="Hi"),)),), stream=True)
    exchange.request(DIALECTS[dialect].encode_request(asked, Receipt()), model="ours", stream=True)
    stream = cut_stream(dialect, Text(text=""), "x<", ">y").replace(b'"m"', b'"theirs"')
    if dialect == "openai_responses":  # whose last events have the whole text
        stream = stream.partition(b"event: response.output_text.done")[0]
    translation = exchange.stream()
    written = translation.feed(stream)
    assert translation.fault is None
    assert [written.count(half) for half in (rb"\ud83d", rb"\ude00")] == [1, 1]
    assert b"theirs" not in written


# A document instead of a stream


@pytest.mark.parametrize("client", ["openai_chat", "anthropic"])
@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b'{"id":"c","choices":[]}', "a response needs at least one choice"),
        (b'{"id":"c","choices":[{"index":0,"mess', "truncated"),
        (b"null", "expected an object"),
    ],
)
def test_a_document_that_is_no_answer_is_named_as_the_reason(client: str, document: bytes, reason: str) -> None:
    translation = Exchange(client, "openai_chat").stream()
    translation.feed(document)
    translation.close()
    assert translation.fault is not None
    assert reason in translation.fault.message
