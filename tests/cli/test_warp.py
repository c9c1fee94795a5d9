"""`toolglot warp`."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.cli.run import run
from tests.warp_server import frames
from tests.warp_server.messages import encode
from tests.warp_server.scripts import SCRIPTS

TREE = {"input": {"user_inputs": {"inputs": [{"user_query": {"query": "Hi"}}]}}}
RAW = encode("Request", TREE)
STREAM = SCRIPTS["three parallel calls"].body


@pytest.mark.parametrize("data", [RAW, base64.b64encode(RAW), base64.urlsafe_b64encode(RAW).rstrip(b"=") + b"\n"])
def test_a_request_is_shown_whatever_it_is_wrapped_in(data: bytes) -> None:
    result = run("warp", "decode", data=data)
    assert (result.exit_code, json.loads(result.stdout)) == (0, TREE)


def test_a_request_goes_there_and_back() -> None:
    shown = run("warp", "decode", "--message", "Request", data=RAW).stdout
    assert run("warp", "encode", data=shown).stdout_bytes == RAW
    assert base64.b64decode(run("warp", "encode", "--to", "base64", data=shown).stdout) == RAW


def test_a_stream_is_a_line_for_each_event_and_back() -> None:
    shown = run("warp", "decode", data=STREAM)
    assert len(shown.stdout.splitlines()) == len(frames.payloads(STREAM))
    again = run("warp", "encode", "--to", "sse", data=shown.stdout).stdout_bytes
    assert frames.events_of(again) == frames.events_of(STREAM)


def test_an_indented_stream_goes_back() -> None:
    shown = run("warp", "decode", "--pretty", data=STREAM).stdout
    assert len(shown.splitlines()) > 2 * len(frames.payloads(STREAM))
    again = run("warp", "encode", "--to", "sse", data=shown).stdout_bytes
    assert frames.events_of(again) == frames.events_of(STREAM)


def test_a_byte_order_mark_may_stand_before_a_stream() -> None:
    assert run("warp", "decode", data=b"\xef\xbb\xbf" + STREAM).stdout == run("warp", "decode", data=STREAM).stdout


def test_a_request_of_tasks_alone_is_not_taken_for_the_beginning_of_a_stream() -> None:
    tree = {"task_context": {"tasks": [{"id": "t", "messages": [{"id": "m", "user_query": {"query": "q"}}]}]}}
    assert json.loads(run("warp", "decode", data=encode("Request", tree)).stdout) == tree
    init = {"init": {"conversation_id": "c", "request_id": "r"}}
    assert json.loads(run("warp", "decode", data=encode("ResponseEvent", init)).stdout) == init


def test_a_whole_number_that_is_rounded_is_told() -> None:
    schema = {"tools": [{"name": "f", "input_schema": {"maximum": 2**53 + 1}}]}
    result = run("warp", "encode", data=json.dumps({"mcp_context": schema}))
    assert result.exit_code == 0
    assert result.stdout_bytes
    assert result.stderr == (
        "toolglot: <stdin>: $.mcp_context.tools[0].input_schema: an integer is rounded: numbers in a Struct are "
        "doubles\n"
    )
    schema["tools"][0]["input_schema"] = {"maximum": 2**53}
    assert run("warp", "encode", data=json.dumps({"mcp_context": schema})).stderr == ""


def test_a_file_may_be_named_and_the_output_indented(tmp_path: Path) -> None:
    (tmp_path / "request.bin").write_bytes(RAW)
    result = run("warp", "decode", "--pretty", str(tmp_path / "request.bin"))
    assert json.loads(result.stdout) == TREE


@pytest.mark.parametrize(
    ("arguments", "data", "told"),
    [
        (["decode"], b"", "<stdin>: it is empty"),
        (["decode"], b"\xff\xff", "<stdin>: $: this is neither Request nor ResponseEvent in protobuf"),
        (["decode", "--message", "Task"], b"\xff\xff", "<stdin>: $: this is no Task in protobuf"),
        (["decode", "--message", "Nothing"], RAW, "message: there is no message 'Nothing'"),
        (["decode", "--from", "sse"], RAW, "$: a stream of events is expected, and there is none"),
        (["decode", "--from", "base64"], RAW, "$: the data of an event is not base64"),
        (["decode"], b"data: CgA=\n\ndata: ???\n\n", "events[1]: the data of an event is not base64"),
        (["decode"], b"data: CgA=\n\ndata: ////\n\n", "events[1]: this is no ResponseEvent in protobuf"),
        (["decode"], b"data: CgA=\n\nev", "events[1]: the stream ends in the middle of it"),
        (
            ["encode", "--message", "RequestCost"],
            b'{"exact": 1e300}',
            "$.exact: the number is too large for this field",
        ),
        (["encode"], b"{", "<stdin>: $"),
        (["encode"], b'{"inputs": {}}', "<stdin>: $.inputs: Request has no such field"),
        (["encode"], b'{}\n{"input": 1}', "document 2: $.input: an object is expected, for Input"),
        (["encode"], b"{}\n{}", "$: 2 documents: only a stream has room for several"),
        (["encode", "--to", "sse", "--message", "Request"], b"{}", "$[0]: a stream has messages ResponseEvent"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(arguments: list[str], data: bytes, told: str) -> None:
    result = run("warp", *arguments, data=data)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr
    assert result.stderr.startswith("toolglot: ")
    assert result.stderr.count("\n") == 1
