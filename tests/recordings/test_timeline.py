"""A recorded exchange in the order of time: what stands beside what, and how it is shown."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.case_files import CASES, MODELS, Case
from tests.exchanges import JSON_NAMES, written
from tests.export.test_html import EXPLAINED, Page
from tests.recordings.made import as_recording, exchange, lines_of
from toolglot.columns import width_of
from toolglot.dialects import DIALECTS
from toolglot.export.markdown import render_markdown
from toolglot.export.readers import read_recordings
from toolglot.receipt import Loss
from toolglot.recordings.format import (
    UNREAD,
    AnyLine,
    ClientData,
    ClientResponse,
    ReceiptLines,
    RecordingEnd,
    ServedToolLine,
    UpstreamData,
    UpstreamEnd,
    UpstreamRequest,
    UpstreamResponse,
)
from toolglot.recordings.frame_cells import FrameSplitter, frame_cell
from toolglot.recordings.read import Recording, read_recording
from toolglot.recordings.timeline import Timeline, TimelineBanner, TimelineRow, make_timeline
from toolglot.recordings.timeline_html import render_html
from toolglot.recordings.timeline_text import TextStyle
from toolglot.recordings.timeline_text import render_lines as shown_lines

SAMPLES = Path(__file__).parent / "samples"
ASKED: dict[str, dict[str, Any]] = {
    name: {**({} if DIALECTS[name].request.model_in_path else {"model": "m", "stream": True}), **written(name, "Hi")}
    for name in JSON_NAMES
}
STREAMS = [case for case in CASES if case.has("stream")]


def sample(name: str) -> Recording:
    return read_recording((SAMPLES / f"{name}.exchange.jsonl").read_bytes())


def rows_of(timeline: Timeline) -> list[TimelineRow]:
    return [entry for entry in timeline.entries if isinstance(entry, TimelineRow)]


def banners_of(timeline: Timeline) -> list[str]:
    return [entry.text for entry in timeline.entries if isinstance(entry, TimelineBanner)]


def told(timeline: Timeline, **style: Any) -> str:
    return "\n".join(shown_lines(timeline, TextStyle(**style)))


def frames_of(data: bytes, dialect: str = "openai_chat") -> list[bytes]:
    return [frame for frame in DIALECTS[dialect].stream.framing.split(data) if frame.strip()]


@pytest.mark.parametrize("client", JSON_NAMES)
@pytest.mark.parametrize("case", STREAMS, ids=lambda case: f"{case.dialect}-{case.name}")
def test_every_frame_that_the_client_got_stands_beside_what_it_was_written_for(case: Case, client: str) -> None:
    stream = case.read("stream")
    recording = as_recording(
        exchange(client, case.dialect, ASKED[client], frames_of(stream, case.dialect), model=MODELS[case.dialect])
    )
    timeline = make_timeline(recording)
    rows = rows_of(timeline)
    cells = [cell for row in rows for cell in row.client]
    got = [frame.decode().strip("\r\n") for frame in frames_of(recording.body, client)]
    assert [_bare(cell.full) for cell in cells] == [_bare(frame) for frame in got]
    assert all(row.upstream or row.events for row in rows)
    assert [row.number for row in rows] == list(range(1, len(rows) + 1))
    assert not any("the current code" in line for line in (*timeline.totals, *timeline.requests[1].lines))
    assert sum(len(row.upstream) for row in rows) == len(frames_of(stream, case.dialect))


def _bare(frame: str) -> Any:
    """A bare document, as Gemini clients get errors, is shown on many lines."""
    return json.loads(frame) if frame.startswith("{") else frame


def test_the_frames_of_a_real_recording_are_in_their_places() -> None:
    rows = rows_of(make_timeline(sample("streamed_tool_calls")))
    third = rows[2]
    assert [cell.short for cell in third.upstream] == ['tool_calls[0]="{\\"city\\":\\"Par"']
    assert third.events[0].short.startswith("start 0: call get_weather call_")
    assert third.events[1].short == '0 + "{\\"city\\":\\"Par"'
    assert third.client[1].short == 'content_block_delta[0] "{\\"city\\":\\"Par"'
    assert [cell.short for row in rows for cell in row.client][-1] == "message_stop"


def test_lines_of_the_receipt_stand_where_they_arise() -> None:
    pieces = frames_of(Case("anthropic", "full").read("stream"))
    asked = {**ASKED["openai_chat"], "seed": 5}
    recording = as_recording(exchange("openai_chat", "anthropic", asked, pieces, model="claude-sonnet-4-5"))
    timeline = make_timeline(recording)
    placed = [line for row in rows_of(timeline) for line in row.lines]
    asked_for = timeline.requests[1].receipt
    assert placed
    assert {str(line) for line in (*asked_for, *placed)} == {str(_line(line)) for line in recording.receipt}
    assert not any("from elsewhere" in line for line in timeline.totals)


def test_the_recorded_receipt_counts_and_what_only_today_s_code_says_is_told_apart() -> None:
    pieces = frames_of(Case("anthropic", "full").read("stream"))
    asked = {**ASKED["openai_chat"], "seed": 5}
    lines = exchange("openai_chat", "anthropic", asked, pieces, model="claude-sonnet-4-5")
    other = {"severity": "loss", "where": "x", "what": "y", "why": "z"}
    kept = [replace(line, lines=[other]) if isinstance(line, ReceiptLines) else line for line in lines]
    timeline = make_timeline(as_recording(kept))
    assert timeline.requests[1].receipt == ()
    assert not any(row.lines for row in rows_of(timeline))
    assert "receipt, from elsewhere: loss: x: y: z" in timeline.totals
    assert any(line.startswith("the current code would report: ") and "seed" in line for line in timeline.totals)


def test_a_line_of_the_receipt_in_which_something_is_redacted_is_the_same_line() -> None:
    asked = {**ASKED["openai_chat"], "logit_bias": {"50256": -100}, "seed": 5}
    pieces = frames_of(Case("anthropic", "full").read("stream"))
    lines = exchange("openai_chat", "anthropic", asked, pieces, model="claude-sonnet-4-5")
    told = lines_of(lines).replace(b'"what":"seed 5"', b'"what":"seed [redacted]"')
    assert b"seed [redacted]" in told
    assert not any("the current code" in line for line in make_timeline(read_recording(told)).totals)


def _line(line: dict[str, str]) -> Loss:
    return Loss(line["where"], line["what"], line["why"], "note" if line["severity"] == "note" else "loss")


def test_a_request_says_which_passes_changed_it() -> None:
    timeline = make_timeline(sample("whole"))
    client, upstream = timeline.requests
    assert client.title == "client request: POST /v1/messages"
    assert upstream.lines == ("changed by the passes parameters.fit, cache.fit",)
    assert [line.severity for line in upstream.receipt] == ["loss", "note"]
    (row,) = rows_of(timeline)
    assert (len(row.client), len(row.upstream)) == (1, 1)
    assert row.events[-1].short == "end of answer: end, 15 tokens in, 39 out"


def test_attempts_and_errors_are_told_between_the_frames() -> None:
    timeline = make_timeline(sample("retry_and_error"))
    said = banners_of(timeline)
    assert said[0] == "attempt 1: status 503"
    assert said[1].startswith("attempt 2: POST demo:/v1/chat/completions")
    assert said[-1] == "the client gets status 529"
    rows = rows_of(timeline)
    assert [cell.kind for row in rows for cell in row.events] == ["error", "error"]
    assert rows[-1].client[0].short.startswith("error ")
    assert any(line.startswith("error overloaded: ") for line in timeline.totals)


def test_an_upstream_that_is_not_reached_or_breaks_off_is_told() -> None:
    lines = exchange("anthropic", "openai_chat", ASKED["anthropic"], [])
    before = [
        line for line in lines if not isinstance(line, UpstreamResponse | UpstreamEnd | ClientData | RecordingEnd)
    ]
    gone = [*before, UpstreamEnd(at=1.0, error="no connection"), RecordingEnd(at=1.0, error="server", cancelled=True)]
    said = banners_of(make_timeline(as_recording(gone)))
    assert said == ["attempt 1 broke off: no connection", "the client disconnected"]


@pytest.mark.parametrize("client", ["anthropic", "openai_chat"])
def test_of_a_client_that_went_away_nothing_else_is_told(client: str) -> None:
    frames = frames_of(Case("openai_chat", "thinking").read("stream"))[:3]
    lines = exchange(client, "openai_chat", ASKED[client], frames)
    left = [*lines[:6], UpstreamEnd(at=1.0, error=UNREAD), RecordingEnd(at=1.0, cancelled=True)]
    timeline = make_timeline(as_recording(left))
    assert banners_of(timeline) == ["the client disconnected"]
    assert not any(cell.kind == "error" for row in rows_of(timeline) for cell in row.events)
    unwanted = make_timeline(as_recording([*left[:-1], RecordingEnd(at=1.0)]))
    assert banners_of(unwanted) == ["attempt 1: the rest of the answer is not read"]


def test_the_fault_of_an_answer_that_breaks_off_is_told_once() -> None:
    frames = frames_of(Case("openai_chat", "thinking").read("stream"))[:3]
    timeline = make_timeline(as_recording(exchange("openai_chat", "openai_chat", ASKED["openai_chat"], frames)))
    assert [cell.kind for row in rows_of(timeline) for cell in row.events].count("error") == 1


def test_system_text_is_no_message_and_no_upstream_is_told_as_none() -> None:
    asked = {**ASKED["anthropic"], "system": "Be brief."}
    lines = exchange("anthropic", "openai_chat", asked, [])
    timeline = make_timeline(as_recording(lines))
    assert all(", 1 message and system text, " in each.about for each in timeline.requests)
    refused = make_timeline(as_recording([*lines[:2], ClientResponse(at=1.0, status=400), RecordingEnd(at=1.0)]))
    assert refused.upstream == "none called"


def test_tools_that_were_run_here_are_told() -> None:
    lines: list[AnyLine] = [
        *exchange("anthropic", "openai_chat", ASKED["anthropic"], [Case("openai_chat", "thinking").read("stream")])
    ]
    ran = ServedToolLine(at=0.2, server="files", tool="read", call="c1", arguments='{"path":"\x1b"}', seconds=0.25)
    timeline = make_timeline(as_recording([*lines[:-2], ran, *lines[-2:]]))
    assert banners_of(timeline) == ['the tool read of files ran here, 0.250 s: {"path":"\x1b"}']
    assert "1 tool run here" in timeline.totals[-3]
    assert not any("the current code" in line for line in timeline.totals)
    assert sum(len(row.client) for row in rows_of(timeline)) == len(frames_of(as_recording(lines).body))
    assert "\x1b" not in told(timeline)


def test_what_nobody_can_place_has_a_row_of_its_own() -> None:
    lines = exchange("anthropic", "openai_chat", ASKED["anthropic"], [Case("openai_chat", "thinking").read("stream")])
    place = next(number for number, line in enumerate(lines) if isinstance(line, UpstreamData))
    ping = ClientData(at=0.1, text=": keep-alive\n\n")
    timeline = make_timeline(as_recording([*lines[:place], ClientResponse(at=0.1), ping, *lines[place:]]))
    first = rows_of(timeline)[0]
    assert ([cell.short for cell in first.client], first.events, first.upstream) == ([": keep-alive"], [], [])
    assert not any("the current code" in line for line in timeline.totals)
    strange = ClientData(at=9.0, text="event: strange\ndata: {}\n\n")
    timeline = make_timeline(as_recording([*lines[:-1], strange, lines[-1]]))
    assert any("the current code writes different bytes" in line for line in timeline.totals)


def test_elements_of_an_array_and_kept_ids_are_placed_too() -> None:
    """Gemini's clients may stream an array; a response that is kept gets another id."""
    stream = frames_of(Case("openai_chat", "thinking").read("stream"))
    lines = exchange("gemini", "openai_chat", ASKED["gemini"], stream)
    written = [line for line in lines if isinstance(line, ClientData)]
    changed: list[AnyLine] = []
    for line in lines:
        if isinstance(line, ClientData):
            elements = [frame.removeprefix(b"data: ").strip() for frame in frames_of(line.data)]
            lead = "[" if line is written[0] else "\r\n,\r\n"
            line = ClientData(at=line.at, text=lead + "\r\n,\r\n".join(map(bytes.decode, elements)))
        changed.append(line)
    changed.insert(-2, ClientData(at=9.0, text="]"))
    of_array = make_timeline(as_recording(changed))
    kept: list[AnyLine] = []
    for line in exchange("openai_responses", "openai_chat", ASKED["openai_responses"], stream):
        if isinstance(line, ClientData):
            line = ClientData(at=line.at, text=line.data.decode().replace('"id":"chatcmpl-1"', '"id":"resp_000"'))
        kept.append(line)
    of_kept = make_timeline(as_recording(kept))
    for timeline in (of_array, of_kept):
        assert all(row.upstream or row.events for row in rows_of(timeline))
        assert rows_of(timeline)[-1].client
        assert not any("the current code" in line for line in timeline.totals)


def test_receipt_lines_from_elsewhere_are_told_at_the_end() -> None:
    lines = exchange("anthropic", "openai_chat", ASKED["anthropic"], [Case("openai_chat", "thinking").read("stream")])
    more = ReceiptLines(lines=[{"severity": "note", "where": "model", "what": "answered by b", "why": "a was away"}])
    timeline = make_timeline(as_recording([*lines[:-2], more, lines[-1]]))
    assert timeline.totals[0] == "receipt, from elsewhere: note: model: answered by b: a was away"


@given(data=st.data())
def test_a_recording_may_end_anywhere(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(STREAMS))
    client = data.draw(st.sampled_from(JSON_NAMES))
    stream = case.read("stream")
    whole = lines_of(exchange(client, case.dialect, ASKED[client], [stream[:700], stream[700:]]))
    second = whole.index(b"\n", whole.index(b"\n") + 1) + 1
    cut = data.draw(st.integers(second, len(whole) - 2))
    timeline = make_timeline(read_recording(whole[:cut]))
    assert any(line.startswith("the recording has no end") for line in timeline.totals)
    assert told(timeline)


def test_an_answer_that_was_cut_is_shown_as_far_as_it_goes() -> None:
    lines = exchange(
        "anthropic", "openai_chat", ASKED["anthropic"], frames_of(Case("openai_chat", "thinking").read("stream"))
    )
    begun = next(number for number, line in enumerate(lines) if isinstance(line, ClientData))
    timeline = make_timeline(as_recording(lines[: begun + 2]))
    assert banners_of(timeline) == ["the recording breaks off here"]
    assert rows_of(timeline)[0].client


def test_tools_that_were_told_as_text_are_found_out() -> None:
    from toolglot.textcalls.settings import TextCalls
    from toolglot.translate import ExchangeCore

    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    asked = {**ASKED["anthropic"], "tools": [{"name": "weather", "input_schema": schema}]}
    made = ExchangeCore("anthropic", "openai_chat", model="m", text_calls=TextCalls(format="hermes_json"))
    sent = made.request(asked, stream=True)
    call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    chunk = {"id": "c", "choices": [{"index": 0, "delta": {"content": call}, "finish_reason": "stop"}]}
    lines = exchange("anthropic", "openai_chat", asked, [b"data: %b\n\ndata: [DONE]\n\n" % json.dumps(chunk).encode()])
    changed: list[AnyLine] = []
    for line in lines:
        if isinstance(line, UpstreamRequest):
            line = UpstreamRequest(upstream="a", dialect="openai_chat", model="m", stream=True, text=sent.decode())
        changed.append(line)
    timeline = make_timeline(as_recording(changed))
    assert not any("the current code makes a different" in line for line in timeline.requests[1].lines)
    assert any(cell.short.startswith("start 0: call weather") for row in rows_of(timeline) for cell in row.events)


@pytest.mark.parametrize("name", ["retry_and_error", "streamed_tool_calls", "whole"])
@pytest.mark.parametrize("width", [80, 100, 133])
@pytest.mark.parametrize("full", [False, True])
def test_lines_fit_the_terminal_and_cannot_act_on_it(name: str, width: int, full: bool) -> None:
    lines = told(make_timeline(sample(name)), width=width, full=full).split("\n")
    assert max(map(width_of, lines)) <= width
    assert all(line.isprintable() and line == line.rstrip() for line in lines)


def test_wide_characters_are_measured_and_colours_change_nothing_else() -> None:
    chunk = {"id": "c", "choices": [{"index": 0, "delta": {"content": "日本語のとても長い文章です。" * 9 + "\x1b[2J"}}]}
    lines = exchange("anthropic", "openai_chat", ASKED["anthropic"], [b"data: %b\n\n" % json.dumps(chunk).encode()])
    timeline = make_timeline(as_recording(lines))
    plain = told(timeline, width=90)
    assert max(map(width_of, plain.split("\n"))) <= 90
    assert "\x1b" not in plain
    painted = told(timeline, width=90, colour=True)
    assert "\x1b[1m" in painted
    bare = painted
    for code in ("0", "1", "2", "31", "33", "36"):
        bare = bare.replace(f"\x1b[{code}m", "")
    assert [line.rstrip() for line in bare.split("\n")] == plain.split("\n")


def test_some_rows_alone_can_be_shown() -> None:
    some = told(make_timeline(sample("streamed_tool_calls")), frames=range(3, 5))
    numbers = [line[:4].strip() for line in some.split("\n")]
    assert [number for number in numbers if number.isdecimal()] == ["3", "4"]
    assert "client request" not in some


def test_a_page_is_the_same_and_nothing_on_it_acts() -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J"
    chunk = {"id": evil, "model": evil, "choices": [{"index": 0, "delta": {"content": evil}}]}
    asked = {**ASKED["anthropic"], "model": evil, evil: evil}
    lines = exchange("anthropic", "openai_chat", asked, [b"data: %b\n\n" % json.dumps(chunk).encode()])
    timeline = make_timeline(as_recording(lines))
    text = "".join(render_html(timeline))
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    assert {tag for tag, _ in page.tags} <= EXPLAINED
    assert not any(
        name.startswith("on") or name in ("style", "href") for _, attributes in page.tags for name in attributes
    )
    assert "<script" not in text
    assert "\x1b" not in text
    assert text.count('<div class="number">') == len(rows_of(timeline))


def test_headers_are_shown_nowhere() -> None:
    secret = {"authorization": "Bearer canary", "x-canary": "canary"}
    lines = [
        replace(line, headers=secret) if hasattr(line, "headers") else line
        for line in exchange("anthropic", "openai_chat", ASKED["anthropic"], frames_of(b"data: {}\n\ndata: [DONE]\n\n"))
    ]
    recording = as_recording(lines)
    timeline = make_timeline(recording)
    conversation = read_recordings([("a", recording)])
    shown = [told(timeline, full=True), *render_html(timeline), *render_markdown(conversation.messages)]
    assert "canary" in lines_of(lines).decode()
    assert "canary" not in "".join((*shown, *map(str, conversation.lines)))


@given(data=st.data())
def test_frames_are_the_same_however_their_bytes_are_cut(data: st.DataObject) -> None:
    stream = data.draw(st.sampled_from(STREAMS)).read("stream")
    edges = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=9)) | {0, len(stream)})
    cutter = FrameSplitter()
    found: list[bytes] = []
    for start, end in pairwise(edges):
        found += cutter.feed(stream[start:end])
    assert b"".join([*found, *cutter.close()]) == stream


@pytest.mark.parametrize(
    ("frame", "short"),
    [
        (b"data: [DONE]\n\n", "[DONE]"),
        (b": ping\n\n", ": ping"),
        (b'event: ping\ndata: {"type":"ping"}\n\n', "ping"),
        (b'event: x\ndata: {"a":\n\n', 'x {"a":'),
        (
            b'data: {"type":"response.output_text.delta","output_index":2,"delta":"a\\u001b"}\n\n',
            r'output_text.delta[2] "a\u001b"',
        ),
        (b'data: {"candidates":[{"content":{"parts":[{"text":"a"}]}}],"modelVersion":"m"}\n\n', 'text="a"'),
        (b'{"error":{"message":"no"}}', 'error.message="no"'),
        (b"<html>\x1b", "<html>\\x1b"),
    ],
)
def test_a_frame_is_told_by_what_is_particular_about_it(frame: bytes, short: str) -> None:
    assert frame_cell(frame, "openai_chat").short == short


def test_what_is_nested_absurdly_is_told_all_the_same() -> None:
    deep = b'data: {"a":%b1%b}\n\n' % (b"[" * 400, b"]" * 400)
    assert frame_cell(deep, "openai_chat").short.endswith("=[…]")


def test_what_a_client_calls_its_model_cannot_repaint_the_terminal() -> None:
    lines = next(SAMPLES.glob("*.exchange.jsonl")).read_bytes().splitlines(keepends=True)
    head = {**json.loads(lines[0]), "model": "m\x1b]0;gone\x07", "id": "\x1b[2J", "time": "\u202e"}
    recording = read_recording(json.dumps(head).encode() + b"\n" + b"".join(lines[1:]))
    text = "\n".join(shown_lines(make_timeline(recording), TextStyle(width=100, colour=False)))
    assert not set(text) & {"\x1b", "\x07", "\u202e"}
