"""Streams and answers that break, do not end or explode, and what clients of every dialect are told of it.

The numbers are those of `tests/server/fault_cases.py`.
"""

from __future__ import annotations

import gzip
import re

import pytest
from msgspec.structs import replace

from tests.exchanges import NAMES, PAIRS, error_frames
from tests.lint.streams import SOUND, WHOLE_CALLS
from tests.server.client_errors import break_told, error_told, fault_told, gateway_status, good_end, mid_call, type_of
from tests.server.gateway import CLIENTS, LIMITS, at, gateway
from tests.upstream.bad_server import (
    LAST_CHUNK,
    BadServer,
    Gate,
    Script,
    Step,
    chunk,
    close,
    expect,
    gone,
    head,
    pause,
    reply,
    reset,
    send,
    send_each,
    send_for_ever,
    stream,
)
from tests.warp_server import frames
from toolglot.config.schema import Retries
from toolglot.dialects import DIALECTS
from toolglot.gateway import callback_driver, flow, sweep
from toolglot.wire.sse import MAX_EVENT_BYTES

STREAM_HEAD = head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked", "connection": "close"})
BOTH = pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
EVERY_CLIENT = pytest.mark.parametrize("client", CLIENTS)
EVERY_PAIR = pytest.mark.parametrize(("client", "upstream"), [pair for pair in PAIRS if pair[0] in CLIENTS])


# 30: the stream dies


DEATHS: dict[str, Script] = {
    "reset": [reset()],
    "closed inside a chunked body": [close()],
    "ended without its end": [send(LAST_CHUNK)],
    "inside a frame": [send(chunk(b'data: {"id":"chatcm')), close()],
    "inside a frame, ended": [send(chunk(b'data: {"id":"chatcm')), send(LAST_CHUNK)],
}


def _dies(client: str, upstream: str, death: Script) -> None:
    """The client has seen the beginning of a call when the upstream dies."""
    seen = Gate()
    script = [expect(), send(STREAM_HEAD), send(chunk(mid_call(upstream))), pause(seen), *death]
    with BadServer(script) as server, gateway(at(upstream, server.url, retries=Retries(first_wait=0))) as running:
        talk = running.begin(client, stream=True)
        talk.until(b"Hel")
        seen.open()
        answer = talk.rest()
        break_told(client, answer)
        if client == "anthropic":  # a call that was cut stays open: nobody runs it
            assert answer.body.count(b"event: content_block_start") > answer.body.count(b"event: content_block_stop")
        # What came is not taken back, but for a piece that may end a call's arguments: it waits for the call's end.
        if not WHOLE_CALLS & {client, upstream} and (client == upstream or upstream != "openai_responses"):
            assert b'\\"a\\":' in answer.body
        record = running.record()
        assert (record.error, record.attempts, len(server.requests)) == ("server", 1, 1)
        assert (record.cut, record.cancelled) == (DIALECTS[client].stream.broken == "cut", False)


@EVERY_PAIR
def test_30_a_stream_that_dies_inside_a_call_ends_in_an_error_or_a_cut_connection(client: str, upstream: str) -> None:
    _dies(client, upstream, [reset()])


@EVERY_CLIENT
@pytest.mark.parametrize("death", DEATHS)
def test_30_however_a_stream_dies_it_is_never_a_good_end(client: str, death: str) -> None:
    _dies(client, "openai_chat", DEATHS[death])
    _dies(client, client, DEATHS[death])


ERROR_EVENTS = {name: error_frames(name, "Out of memory") for name in NAMES} | {
    "openai_chat": b'data: {"error":{"message":"Out of memory","type":"server_error","param":null,"code":"oom"}}\n\n',
    "openai_responses": b'event: error\ndata: {"type":"error","sequence_number":11,"code":"oom",'
    b'"message":"Out of memory","param":null}\n\n',
    "anthropic": b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"Out of memory"}}\n\n',
    "gemini": b'data: {"error":{"code":500,"message":"Out of memory","status":"INTERNAL"}}\n\n',
    "warp": frames.frame({"finished": {"internal_error": {"message": "Out of memory"}}}),
}
SAID = {"warp": "Warp's server failed: Out of memory"}
"""What is told, where that is not the upstream's words alone."""


@EVERY_PAIR
def test_30_an_error_event_of_the_upstream_is_told_in_the_clients_words(client: str, upstream: str) -> None:
    seen = Gate()
    script = [
        expect(),
        stream(mid_call(upstream), complete=False),
        pause(seen),
        send(chunk(ERROR_EVENTS[upstream]), LAST_CHUNK),
    ]
    with BadServer(script) as server, gateway(at(upstream, server.url)) as running:
        talk = running.begin(client, stream=True)
        talk.until(b"Hel")
        seen.open()
        assert fault_told(client, talk.rest()).message == SAID.get(upstream, "Out of memory")
        assert running.record().error == "server"


@EVERY_PAIR
def test_30_an_error_event_before_anything_else_is_an_error_of_the_request(client: str, upstream: str) -> None:
    with BadServer([expect(), stream(ERROR_EVENTS[upstream])]) as server, gateway(at(upstream, server.url)) as running:
        answer = running.ask(client, stream=True)
        if client == upstream == "openai_responses":  # whose clients know it inside a stream alone
            assert fault_told(client, answer).message == "Out of memory"
            return
        status = 500 if upstream != "warp" else gateway_status(client)  # whose errors in streams have no number
        assert (answer.status, error_told(client, answer).message) == (status, SAID.get(upstream, "Out of memory"))


UNREADABLE = b'data: {"type":"\xff"}\n\n'


@EVERY_PAIR
def test_30_nothing_goes_out_behind_a_frame_that_cannot_be_read(client: str, upstream: str) -> None:
    """Not even where the end of a good answer came in the same read."""
    seen, begin = Gate(), mid_call(upstream)
    rest = UNREADABLE + SOUND[upstream].removeprefix(begin)
    script = [expect(), stream(begin, complete=False), pause(seen), send(chunk(rest), LAST_CHUNK)]
    with BadServer(script) as server, gateway(at(upstream, server.url)) as running:
        talk = running.begin(client, stream=True)
        talk.until(b"Hel")
        seen.open()
        told = fault_told(client, talk.rest())
        assert "unreadable" in told.message
        assert running.record().error == "server"


# 31: the end of a stream


MARKED_PAIRS = pytest.mark.parametrize(("client", "upstream"), [pair for pair in PAIRS if pair[1] != "gemini"])
"""Gemini's streams have no last event: they are over when they are closed."""


@MARKED_PAIRS
def test_31_what_comes_after_the_end_changes_nothing(client: str, upstream: str) -> None:
    seen = Gate()
    late = chunk(b'data: {"late":"frame"}\n\n')
    script = [expect(), stream(SOUND[upstream], complete=False), pause(seen), send(late, late, LAST_CHUNK)]
    with BadServer(script) as server, gateway(at(upstream, server.url)) as running:
        answer = running.ask(client, stream=True)
        seen.open()
        good_end(client, answer)
        assert running.record().error is None


@MARKED_PAIRS
def test_31_nor_does_what_comes_after_the_end_in_the_same_read(client: str, upstream: str) -> None:
    script = [expect(), stream(SOUND[upstream] + b'data: {"late":"frame"}\n\n' + SOUND[upstream])]
    with BadServer(script) as server, gateway(at(upstream, server.url)) as running:
        answer = running.ask(client, stream=True)
        good_end(client, answer)
        assert b"late" not in answer.body


@EVERY_PAIR
@pytest.mark.parametrize("death", [reset(), close()], ids=["reset", "closed inside a chunked body"])
def test_31_a_stream_that_dies_when_the_answer_is_whole_ends_well(client: str, upstream: str, death: Step) -> None:
    seen = Gate()
    script = [expect(), stream(SOUND[upstream], complete=False), pause(seen), death]
    with BadServer(script) as server, gateway(at(upstream, server.url)) as running:
        talk = running.begin(client, stream=True)
        talk.until(b"Hel")
        seen.open()
        good_end(client, talk.rest())
        assert running.record().error is None


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits for the rest of a stream are short, so that a test need not wait as long as a user would."""
    for module in (flow, callback_driver):
        monkeypatch.setattr(module, "TRAILING_SECONDS", 0.05)
    monkeypatch.setattr(callback_driver, "DRAIN_SECONDS", 0.05)
    monkeypatch.setattr(sweep, "INTERVAL", 0.02)


UNMARKED = {"openai_chat": SOUND["openai_chat"].removesuffix(b"data: [DONE]\n\n"), "gemini": SOUND["gemini"]}


@pytest.mark.parametrize(("client", "upstream"), [pair for pair in PAIRS if pair[1] in UNMARKED])
@pytest.mark.usefixtures("impatient")
def test_31_a_silence_after_the_reason_for_the_end_is_short(client: str, upstream: str) -> None:
    left = Gate()
    script = [expect(), stream(UNMARKED[upstream], complete=False), gone(left)]
    with BadServer(script) as server, gateway(at(upstream, server.url)) as running:
        good_end(client, running.ask(client, stream=True))
        left.wait_blocking()
        record = running.record()
        assert (record.error, record.usage is not None) == (None, True)


@EVERY_CLIENT
def test_31_a_message_that_lacks_its_last_event_is_given_it(client: str) -> None:
    whole = SOUND["anthropic"]
    script = [expect(), stream(whole[: whole.index(b"event: message_stop")])]
    with BadServer(script) as server, gateway(at("anthropic", server.url)) as running:
        good_end(client, running.ask(client, stream=True))


@MARKED_PAIRS
@pytest.mark.usefixtures("impatient")
def test_31_a_stream_that_is_over_but_never_closed_ends_for_the_client(client: str, upstream: str) -> None:
    left = Gate()
    script = [expect(), stream(SOUND[upstream], complete=False), gone(left)]
    with BadServer(script) as server, gateway(at(upstream, server.url)) as running:
        good_end(client, running.ask(client, stream=True))
        left.wait_blocking()


@EVERY_CLIENT
def test_31_a_finished_answer_without_its_last_marker_is_whole(client: str) -> None:
    script = [expect(), stream(SOUND["openai_chat"].removesuffix(b"data: [DONE]\n\n"))]
    with BadServer(script) as server, gateway(at("openai_chat", server.url)) as running:
        good_end(client, running.ask(client, stream=True))


# 33: bytes as they fall


@EVERY_PAIR
def test_33_a_stream_in_single_bytes_is_the_same_stream(client: str, upstream: str) -> None:
    answers = []
    for script in (
        [expect(), stream(SOUND[upstream])],
        [expect(), send(head(200, {"content-type": "text/event-stream"})), send_each(SOUND[upstream]), close()],
    ):
        with BadServer(script) as server, gateway(at(upstream, server.url)) as running:
            answers.append(running.ask(client, stream=True).body)
    assert _timeless(answers[0]) == _timeless(answers[1])


def _timeless(body: bytes) -> bytes:
    """Without what differs between two answers: the second in which each began and its id, where the upstream tells
    none, and sealed state, which is bound to the upstream's address."""
    times = rb"created|created_at|completed_at|createTime"
    states = rb"data|thought_signature|signature|encrypted_content|thoughtSignature"
    body = re.sub(rb"(resp|msg|fc|rs)_[0-9a-f]{16,}", b"", body)
    return re.sub(rb'"(%b|%b)":("[^"]*"|\d+)' % (times, states), b"", body)


# 34: no end in sight


@EVERY_CLIENT
def test_34_a_stream_without_end_is_cut_at_the_limit_of_a_response(client: str) -> None:
    sent = [0]
    first, frame, *_ = (part + b"\n\n" for part in SOUND["openai_chat"].split(b"\n\n"))
    script = [expect(), send(STREAM_HEAD, chunk(first)), send_for_ever(chunk(frame * 100), sent)]
    limits = replace(LIMITS, response=200_000)
    with BadServer(script) as server, gateway(at("openai_chat", server.url), limits=limits) as running:
        assert fault_told(client, running.ask(client, stream=True)).code in ("upstream_too_large", "server_error")
        assert running.record().error == "server"


@EVERY_CLIENT
@pytest.mark.parametrize("forwarded", [False, True], ids=["translated", "forwarded"])
@pytest.mark.parametrize("limit", [2**20, 2**30], ids=["limit of a response", "limit of an event"])
def test_34_a_line_without_end_is_cut(client: str, forwarded: bool, limit: int) -> None:
    sent, seen = [0], Gate()
    upstream = client if forwarded else _other(client)
    script = [
        expect(),
        stream(mid_call(upstream), complete=False),
        pause(seen),
        send(chunk(b"data: ")),
        send_for_ever(chunk(b"a" * 65536), sent),
    ]
    limits = replace(LIMITS, response=limit)
    with BadServer(script) as server, gateway(at(upstream, server.url), limits=limits) as running:
        talk = running.begin(client, stream=True)
        talk.until(b"Hel")
        seen.open()
        fault_told(client, talk.rest())
        assert running.record().error == "server"
    assert sent[0] < min(limit, MAX_EVENT_BYTES) + 16 * 2**20  # what the kernel holds between the two


def _other(client: str) -> str:
    return "anthropic" if client == "openai_chat" else "openai_chat"


@EVERY_CLIENT
def test_34_a_whole_answer_without_end_is_cut_too(client: str) -> None:
    script = [
        expect(),
        send(head(200, {"content-type": "application/json"}), b'{"a":"'),
        send_for_ever(b"a" * 65536),
    ]
    limits = replace(LIMITS, response=1_000_000)
    with BadServer(script) as server, gateway(at("openai_chat", server.url), limits=limits) as running:
        answer = running.ask(client)
        assert answer.status == gateway_status(client)
        assert error_told(client, answer).code == "upstream_too_large"


# 37: what grows when it is unpacked


@EVERY_CLIENT
@BOTH
def test_37_a_compressed_answer_that_grows_without_end_is_cut(client: str, streams: bool) -> None:
    bomb = gzip.compress(b'{"a":"' + b"a" * 50_000_000)
    script = [expect(), reply(bomb, headers={"content-encoding": "gzip"})]
    limits = replace(LIMITS, response=1_000_000)
    with BadServer(script) as server, gateway(at("openai_chat", server.url), limits=limits) as running:
        answer = running.ask(client, stream=streams)
        assert answer.status == gateway_status(client)
        assert error_told(client, answer).code in ("upstream_too_large", "upstream_unreadable")
        assert server.requests[0].headers["accept-encoding"] == "identity"


# 40: arguments


@pytest.mark.parametrize("arguments", ['{\\"a\\":', "not JSON"], ids=["cut", "words"])
@EVERY_CLIENT
def test_40_arguments_that_are_no_json_are_never_silently_empty(client: str, arguments: str) -> None:
    sound = SOUND["openai_chat"].decode().replace('"arguments":"1}"', '"arguments":""')
    broken = sound.replace('"arguments":"{\\"a\\":"', f'"arguments":"{arguments}"')
    with BadServer([expect(), stream(broken)]) as server, gateway(at("openai_chat", server.url)) as running:
        answer = running.ask(client, stream=True)
        if client == "anthropic":  # pieces of an object were sent that is none
            told = error_told(client, answer)
            assert (told.type, told.code) == (type_of(client, "gateway"), "malformed_tool_call")
        elif client in ("gemini", "ollama"):  # a text in the place of the call
            assert b'"id":"call_a"' not in answer.body
            problem = "was cut off" if arguments.startswith("{") else "was not valid JSON"
            assert f"[tool call f {problem}: {arguments}]".encode() in answer.body
        else:  # what the model wrote, byte for byte
            assert f'"arguments":"{arguments}"'.encode() in answer.body
            assert b"malformed_tool_call" not in answer.body


@EVERY_CLIENT
def test_40_arguments_of_five_megabytes_arrive_whole(client: str) -> None:
    text = "x" * 5_000_000
    long = SOUND["openai_chat"].replace(b'"arguments":"1}"', b'"arguments":"\\"%s\\"}"' % text.encode())
    with BadServer([expect(), stream(long)]) as server, gateway(at("openai_chat", server.url)) as running:
        answer = running.ask(client, stream=True)
        assert text.encode() in answer.body
        good_end(client, answer)
