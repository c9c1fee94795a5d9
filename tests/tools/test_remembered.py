from __future__ import annotations

import copy
import json
from concurrent.futures import ThreadPoolExecutor
from itertools import count, product
from typing import Any

import pytest
from msgspec import Raw

from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError
from toolglot.ir import Message, Opaque, Request, Text, Tool
from toolglot.receipt import Receipt
from toolglot.tools import remembered
from toolglot.tools.remembered import Memory, written
from toolglot.translate import Exchange
from toolglot.wire.reader import Reader

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string", "default": None}, "depth": {"anyOf": [{"type": "integer"}]}},
    "required": ["path"],
}
REQUEST = Request(
    model="model",
    messages=(Message(role="user", content=(Text(text="Hello."),)),),
    tools=(Tool(name="read", description="Reads.", parameters=SCHEMA), Tool(name="now", parameters={"type": "object"})),
    max_output_tokens=9,
)


def declaration(name: str, **more: Any) -> Reader:
    return Reader({"name": name, **more})


def decode(reader: Reader) -> Tool:
    return Tool(name=reader.need_text("name"), parameters=reader.take("schema"))


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_tools_that_come_again_are_the_same_objects(dialect: str) -> None:
    raw = DIALECTS[dialect].encode_request(REQUEST, Receipt())
    first, second = (DIALECTS[dialect].decode_request(raw).tools for _ in range(2))
    assert first == second
    assert all(one is other for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize(("client", "upstream"), list(product(sorted(DIALECTS), repeat=2)))
def test_no_translation_changes_what_is_remembered(client: str, upstream: str) -> None:
    raw = DIALECTS[client].encode_request(REQUEST, Receipt())
    tools = DIALECTS[client].decode_request(raw).tools
    before = copy.deepcopy(tools)
    first, second = (Exchange(client, upstream).request(raw, model="model") for _ in range(2))
    assert first == second
    assert DIALECTS[client].decode_request(raw).tools == before


def test_each_dialect_reads_the_same_bytes_in_its_own_way() -> None:
    memory = Memory()
    one = memory.tool("one", declaration("x"), decode)
    other = memory.tool("other", declaration("x"), lambda _: Tool(name="y"))
    assert isinstance(one, Tool)
    assert isinstance(other, Tool)
    assert (one.name, other.name) == ("x", "y")


def test_the_order_of_members_and_the_kind_of_numbers_tell_declarations_apart() -> None:
    memory = Memory()
    schemas: list[Any] = [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1.0, "b": 2}, {"a": True, "b": 2}]
    for schema in schemas:
        tool = memory.tool("one", declaration("x", schema=schema), decode)
        assert isinstance(tool, Tool)
        assert json.dumps(tool.parameters) == json.dumps(schema)


def test_what_is_no_tool_is_not_remembered() -> None:
    memory = Memory()
    memory.tool("one", declaration("x"), lambda reader: Opaque("one", reader.rest()))
    with pytest.raises(DecodeError):
        memory.tool("one", Reader({}), decode)
    assert len(memory) == 0


def test_a_very_large_declaration_is_not_remembered() -> None:
    memory = Memory()
    memory.tool("one", declaration("x" * 100_000), decode)
    assert len(memory) == 0


def test_there_is_room_for_two_generations_and_what_is_asked_for_stays() -> None:
    memory = Memory(room=1000)
    kept = memory.tool("one", declaration("kept", schema={"type": "object"}), decode)
    for number in range(1000):
        memory.tool("one", declaration(f"tool_{number:040}"), decode)
        assert memory.tool("one", declaration("kept", schema={"type": "object"}), decode) is kept
        assert len(memory) <= 2 * 1000 // 40
    assert isinstance(kept, Tool)
    assert memory.made(kept.parameters, "length", lambda: len(kept.parameters)) == 1


def test_what_was_made_of_a_schema_is_made_once_and_only_for_remembered_ones() -> None:
    memory = Memory()
    tool = memory.tool("one", declaration("x", schema={"type": "object"}), decode)
    assert isinstance(tool, Tool)
    counter = count(1)
    for _ in range(3):
        assert memory.made(tool.parameters, "count", lambda: next(counter)) == 1
    assert memory.made({"type": "object"}, "count", lambda: 7) is None
    assert memory.made(None, "count", lambda: 7) is None


def test_a_known_schema_is_written_as_the_text_that_it_is() -> None:
    raw = DIALECTS["anthropic"].encode_request(REQUEST, Receipt())
    tool = DIALECTS["anthropic"].decode_request(raw).tools[0]
    assert isinstance(tool, Tool)
    assert isinstance(text := written(tool.parameters), Raw)
    assert bytes(text) == json.dumps(SCHEMA, separators=(",", ":")).encode()
    assert written(SCHEMA) is SCHEMA
    assert written(None) is None


def test_threads_share_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(room=2000)
    monkeypatch.setattr(remembered, "MEMORY", memory)

    def work(start: int) -> list[str]:
        names: list[str] = []
        for number in range(2000):
            tool = memory.tool("one", declaration(f"tool_{(start + number) % 97}"), decode)
            assert isinstance(tool, Tool)
            names.append(tool.name)
        return names

    with ThreadPoolExecutor(4) as pool:
        for start, names in enumerate(pool.map(work, range(4))):
            assert names == [f"tool_{(start + number) % 97}" for number in range(2000)]
    assert len(memory) <= 97
