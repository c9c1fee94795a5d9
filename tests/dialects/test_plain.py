"""What is read in one look is read as it is member by member."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from toolglot.dialects import DIALECTS
from toolglot.dialects.openai_chat import blocks as chat_blocks
from toolglot.dialects.openai_chat import messages as chat_messages
from toolglot.dialects.openai_chat import request as chat_request
from toolglot.dialects.openai_responses import items as responses_items
from toolglot.dialects.openai_responses import request as responses_request
from toolglot.errors import DecodeError
from toolglot.ir import Request
from toolglot.receipt import Receipt

LOOKS: list[tuple[Any, str]] = [
    (chat_blocks, "count_members"),
    (chat_messages, "count_members"),
    (chat_request, "encode_simple_message"),
    (responses_items, "count_members"),
    (responses_request, "encode_simple_items"),
]


@contextmanager
def member_by_member() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module, name in LOOKS:
            patch.setattr(module, name, lambda *_: None)
        yield


def read(dialect: str, raw: bytes) -> Request | str:
    try:
        return DIALECTS[dialect].decode_request(raw)
    except DecodeError as error:
        return str(error)


SPOILT = st.sampled_from([None, "", 7, True, [], {}, "text", {"type": "text", "text": "x"}, ["x"]])


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every member of every object and array in it."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        node = waiting.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        found += [(node, key) for key in keys]
        waiting += [node[key] for key in keys]
    return found


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
@given(data=st.data(), said=strategies.requests() | strategies.tool_requests())
def test_a_look_reads_what_reading_member_by_member_does(dialect: str, data: st.DataObject, said: Request) -> None:
    body = json.loads(DIALECTS[dialect].encode_request(said, Receipt()))
    for _ in range(data.draw(st.integers(0, 2))):
        node, key = data.draw(st.sampled_from(places(body)))
        if data.draw(st.booleans()):
            node[key] = data.draw(SPOILT)
        elif isinstance(node, dict):
            node["more"] = data.draw(SPOILT)
    raw = json.dumps(body).encode()
    looked = read(dialect, raw)
    with member_by_member():
        assert read(dialect, raw) == looked


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
@given(said=strategies.requests() | strategies.tool_requests())
def test_a_look_writes_what_writing_member_by_member_does(dialect: str, said: Request) -> None:
    looked = DIALECTS[dialect].encode_request(said, told := Receipt())
    with member_by_member():
        assert DIALECTS[dialect].encode_request(said, again := Receipt()) == looked
        assert str(again) == str(told)
