"""Conversations as JSON lines of any dialect, and back."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterable, Iterator
from itertools import product

import pytest
from hypothesis import given

from tests.case_files import Case, cases_with
from tests.examples import examples
from tests.exchanges import JSON_NAMES, NAMES, meaning
from tests.strategies import legal_ids, legal_names, requests, tool_requests
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError
from toolglot.export.jsonl import split_history, write_jsonl
from toolglot.export.loss_report import ignore_loss
from toolglot.export.readers import read_conversation
from toolglot.fragment_forms import form_of
from toolglot.fragments import translate_messages
from toolglot.ir import Message, Request, Text, ToolCall, ToolResult
from toolglot.receipt import Receipt, ReceiptLine
from toolglot.wire import json as wire_json

PAIRS = tuple(product(NAMES, NAMES))
FEW = examples(1 / 5)
"""There are many pairs."""


def exported(messages: Iterable[Message], source: str, target: str) -> tuple[bytes, list[ReceiptLine]]:
    lines: list[ReceiptLine] = []
    return b"".join(write_jsonl(messages, source, target, lines.append)), lines


def imported(data: bytes, dialect: str | None = None) -> list[Message]:
    return list(read_conversation([data], dialect).messages)


def heard(dialect: str, request: Request) -> tuple[Message, ...]:
    """The messages as a client of this dialect would really have sent them."""
    record = DIALECTS[dialect]
    return record.decode_request(record.encode_request(request, Receipt())).messages


def calls(messages: Iterable[Message]) -> list[tuple[str, str, object]]:
    blocks = (block for message in messages for block in message.content)
    return [(call.id, call.name, meaning(call.arguments)) for call in blocks if isinstance(call, ToolCall)]


def results(messages: Iterable[Message]) -> list[tuple[str, str]]:
    blocks = [block for message in messages for block in message.content]
    return [(result.call_id, squeezed(texts(result.content))) for result in blocks if isinstance(result, ToolResult)]


def texts(content: Iterable[object]) -> str:
    return "".join(block.text for block in content if isinstance(block, Text))


def squeezed(text: str) -> str:
    return "".join(text.split())


def spoken(messages: Iterable[Message]) -> str:
    return squeezed("".join(texts(message.content) for message in messages))


@pytest.mark.parametrize(("source", "target"), PAIRS)
@FEW
@given(request=tool_requests(legal_names, legal_ids))
def test_calls_results_names_ids_and_text_survive_export_and_import(source: str, target: str, request: Request) -> None:
    told = heard(source, request)
    data, _ = exported(told, source, target)
    again = imported(data, target)
    assert calls(again) == calls(told)
    assert [call for call, _ in results(again)] == [call for call, _ in results(told)]
    for (_, was), (_, now) in zip(results(told), results(again), strict=True):
        assert was in now
    for message in told:
        assert squeezed(texts(message.content)) in spoken(again)


@pytest.mark.parametrize("dialect", JSON_NAMES)
@pytest.mark.parametrize("case", cases_with("request"), ids=lambda case: f"{case.dialect}-{case.name}")
def test_every_case_is_written_in_lines_that_its_dialect_is_known_by(case: Case, dialect: str) -> None:
    messages = DIALECTS[case.dialect].decode_request(case.read("request")).messages
    data, _ = exported(messages, case.dialect, dialect)
    assert all(isinstance(json.loads(line), dict) for line in data.splitlines())
    conversation = read_conversation([data])
    again, lines = exported(conversation.messages, conversation.dialect, dialect)
    assert (again, [line for line in lines if line.severity == "loss"]) == (data, [])


@pytest.mark.parametrize("case", [case for case in cases_with("request") if case.dialect in JSON_NAMES], ids=str)
def test_lines_of_the_own_dialect_are_the_messages_as_they_were(case: Case) -> None:
    dialect, value = DIALECTS[case.dialect], case.value("request")
    messages = value[dialect.request.history_key]
    wanted = messages if isinstance(messages, list) else [{"role": "user", "content": messages}]
    data, lines = exported(imported(case.read("request"), case.dialect), case.dialect, case.dialect)
    found = [json.loads(line) for line in data.splitlines()]
    apart = [line for line in found if dialect.request.system_key in line]
    assert [line for line in found if line not in apart] == wanted or isinstance(messages, str)
    assert [line for line in lines if line.severity == "loss"] == []


@pytest.mark.parametrize(("source", "target"), [(a, b) for a, b in PAIRS if a != b and b in JSON_NAMES])
@FEW
@given(request=tool_requests(legal_names, legal_ids))
def test_a_conversation_in_pieces_is_written_as_if_it_were_seen_whole(
    source: str, target: str, request: Request
) -> None:
    told = heard(source, request)
    data, _ = exported(told, source, target)
    record = DIALECTS[source]
    form = form_of(record)
    body = form.read(record.encode_request(request, Receipt()))
    members = {name: body[name] for name in form.history if name in body}
    whole = translate_messages(wire_json.encode(members), source, target).json()
    history = DIALECTS[target].request.history_key
    wanted = whole if isinstance(whole, list) else whole[history]
    found = [json.loads(line) for line in data.splitlines()]
    assert [line for line in found if line.keys() != {DIALECTS[target].request.system_key}] == wanted


@pytest.mark.parametrize("target", NAMES)
@FEW
@given(request=requests())
def test_whatever_a_conversation_holds_it_can_be_written_and_read_again(target: str, request: Request) -> None:
    data, _ = exported(request.messages, "openai_chat", target)
    assert isinstance(imported(data, target) if data.strip() else [], list)


@given(request=requests())
def test_pieces_are_the_conversation(request: Request) -> None:
    found = list(split_history(request.messages))
    assert tuple(message for piece in found for message in piece) == request.messages
    assert all(found)


def test_calls_without_ids_get_ids_that_differ_over_the_whole_conversation() -> None:
    turn = [
        {"role": "model", "parts": [{"functionCall": {"name": "now", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "now", "response": {"result": "noon"}}}]},
    ]
    lines = [{"role": "user", "parts": [{"text": "When?"}]}, *turn, *turn, *turn]
    data = "\n".join(map(json.dumps, lines)).encode()
    conversation = read_conversation([data])
    assert conversation.dialect == "gemini"
    told, _ = exported(conversation.messages, "gemini", "openai_chat")
    again = imported(told, "openai_chat")
    ids = [call_id for call_id, _, _ in calls(again)]
    assert len(set(ids)) == 3
    assert [call_id for call_id, _ in results(again)] == ids


def test_a_call_that_nobody_has_answered_yet_is_left_waiting() -> None:
    data = b'{"role":"user","content":"Go"}\n{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":'
    data += b'{"name":"go","arguments":"{}"}}]}\n'
    told, _ = exported(imported(data), "openai_chat", "anthropic")
    assert [json.loads(line)["role"] for line in told.splitlines()] == ["user", "assistant"]


def test_a_tool_has_one_name_in_the_whole_conversation_and_no_other_has_it() -> None:
    turns: list[Message] = []
    for number, name in enumerate(("a.b", "a_b", "c", "a.b", "a_b")):
        turns.append(Message(role="user", content=(Text(text="Go"),)))
        turns.append(Message(role="assistant", content=(ToolCall(id=f"c{number}", name=name, arguments="{}"),)))
        turns.append(Message(role="tool", content=(ToolResult(call_id=f"c{number}"),)))
    data, lines = exported(turns, "gemini", "openai_chat")
    named = [name for _, name, _ in calls(imported(data, "openai_chat"))]
    assert (named[0], named[2], named[3]) == ("a_b", "c", "a_b")
    assert named[1] == named[4] != "a_b"
    renamed = [line.where for line in lines if line.what.startswith("tool name")]
    assert renamed[:2] == ["messages[1].content[0]", "messages[4].content[0]"]


def test_a_conversation_that_has_to_be_one_document_has_an_end() -> None:
    endless = (Message(role="user", content=(Text(text="Go"),)) for _ in range(10**9))
    with pytest.raises(DecodeError, match="too long"):
        exported(endless, "openai_chat", "warp")


def test_lines_of_a_receipt_name_the_messages_of_the_whole_conversation() -> None:
    turns: list[Message] = []
    for number in range(3):
        turns.append(Message(role="user", content=(Text(text=f"{number}"),)))
        turns.append(Message(role="assistant", content=(ToolCall(id=f"c{number}", name="a.b", arguments="{}"),)))
        turns.append(Message(role="tool", content=(ToolResult(call_id=f"c{number}", is_error=True),)))
    _, lines = exported(turns, "anthropic", "openai_chat")
    assert [line.where for line in lines if "error" in line.what] == [f"messages[{n}].content[0]" for n in (2, 5, 8)]


def test_a_long_conversation_is_never_held_whole() -> None:
    text = "x" * 20_000

    def chunks() -> Iterator[bytes]:
        for number in range(150):
            yield json.dumps({"role": "user", "content": f"{number} {text}"}).encode() + b"\n"
            yield json.dumps({"role": "assistant", "content": [{"type": "text", "text": text}]}).encode() + b"\n"

    conversation = read_conversation(chunks(), "anthropic")
    tracemalloc.start()
    try:
        size = sum(map(len, write_jsonl(conversation.messages, "anthropic", "gemini", ignore_loss)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size > 6_000_000
    assert peak < 1_000_000


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "$: it is empty"),
        (b" \n\n", "$: it is empty"),
        (b"hello", "$: "),
        (b"12", "$: this is not a JSON object or array; a request's body, an array of messages"),
        (b'{"role":"user","content":"a"}\n{"role":', "line 2: "),
        (b'{"role":"user","content":"a"}\n{"content":1}\n', "line 2: "),
        (b'{"role":"user","content":"a"}\n{}],"x":[{}\n', "line 2: "),
        (b'{"role":"user","content":"a"}\n[1]\n', "line 2: "),
    ],
)
def test_what_is_no_conversation_is_told_with_its_line(data: bytes, told: str) -> None:
    with pytest.raises(DecodeError) as refused:
        imported(data)
    assert str(refused.value).startswith(told)
