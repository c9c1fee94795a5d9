"""Law: content that replaces what was decoded is on the wire of the same dialect, whatever empty members came with it.

Passes replace content: a call that was read out of the text, the rounds of tools that the gateway served. Members that
were received, `"tool_calls": []` or `"content": null`, only fill in what the encoder did not write.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.case_files import Case, cases_with
from tests.laws.mutations import at
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError, UpstreamError
from toolglot.ir import Block, Message, Text, ToolCall, replace
from toolglot.json_forms import JSON_FORMS
from toolglot.receipt import Receipt

NEW: tuple[Block, ...] = (Text(text="Look."), ToolCall(id="call_1", name="f", arguments='{"a":1}'))
EMPTY: tuple[Any, ...] = (None, "", [], {})
NAMES_OF_CONTENT = ("content", "parts", "response", "tool_calls", "function_call", "refusal", "images", "annotations")
NAMES_OF_REASONING = ("thinking", "reasoning", "reasoning_content")
ROLES = ("assistant", "model")
HISTORIES = ("messages", "contents", "input")


def variations(document: Any, places: list[tuple[str | int, ...]]) -> Iterator[bytes]:
    """The document, and copies of it with an empty member at each place."""
    yield json.dumps(document).encode()
    for place in places:
        for name in {*at(document, place), *NAMES_OF_CONTENT, *NAMES_OF_REASONING}:
            for value in EMPTY:
                changed = copy.deepcopy(document)
                at(changed, place)[name] = value
                yield json.dumps(changed).encode()


def read_again(blocks: tuple[Block, ...]) -> list[Any]:
    """The text and the calls of these blocks; other blocks whole, so that they do not compare equal to anything."""
    return [
        (block.id, block.name, json.loads(block.arguments))
        if isinstance(block, ToolCall)
        else (block.text if isinstance(block, Text) else block)
        for block in blocks
    ]


SAID = read_again(NEW)


def json_cases(kind: str) -> list[Case]:
    return [case for case in cases_with(kind) if case.dialect not in JSON_FORMS]


def name_case(case: Case) -> str:
    return f"{case.dialect}/{case.name}"


@pytest.mark.parametrize("case", json_cases("response"), ids=name_case)
def test_new_content_of_an_answer_is_written_whatever_empty_members_came(case: Case) -> None:
    document, dialect = case.value("response"), DIALECTS[case.dialect]
    inner: tuple[tuple[str | int, ...], ...] = (("message",), ("choices", 0, "message"), ("candidates", 0, "content"))
    for raw in variations(document, [(), *(place for place in inner if has_object(document, place))]):
        try:
            response = dialect.decode_response(raw)
        except (DecodeError, UpstreamError):
            continue
        written = dialect.encode_response(replace(response, content=NEW), None, Receipt())
        assert read_again(dialect.decode_response(written).content) == SAID, raw


@pytest.mark.parametrize("case", json_cases("request"), ids=name_case)
def test_new_content_of_a_message_is_written_whatever_empty_members_came(case: Case) -> None:
    document, dialect = case.value("request"), DIALECTS[case.dialect]
    places: list[tuple[str | int, ...]] = [
        (name, index)
        for name in HISTORIES
        if isinstance(document.get(name), list)
        for index, message in enumerate(document[name])
        if isinstance(message, dict) and message.get("role") in ROLES
    ]
    for raw in variations(document, places):
        try:
            request = dialect.decode_request(raw)
        except DecodeError:
            continue
        messages = tuple([replace(one, content=NEW) if is_said(one) else one for one in request.messages])
        written = dialect.encode_request(replace(request, messages=messages), Receipt())
        again = [read_again(one.content) for one in dialect.decode_request(written).messages if is_said(one)]
        assert [block for blocks in again for block in blocks] == SAID * sum(map(is_said, messages)), raw


def is_said(message: Message) -> bool:
    return message.role == "assistant"


def has_object(document: Any, place: tuple[str | int, ...]) -> bool:
    try:
        return isinstance(at(document, place), dict)
    except (KeyError, IndexError, TypeError):
        return False
