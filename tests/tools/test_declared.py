"""Tools found by the bytes of their declarations."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec import Raw

from toolglot.dialects.gemini import GEMINI
from toolglot.errors import DecodeError
from toolglot.ir import Opaque, Tool
from toolglot.tools.declared import DECLARED, ROOM, DeclaredTools
from toolglot.tools.remembered import written

Tools = tuple[Tool | Opaque, ...]


def declarations(*names: str, **more: Any) -> bytes:
    return json.dumps([{"name": name, "schema": {"type": "object"}, **more} for name in names]).encode()


def decode(data: bytes) -> Tools:
    return tuple(Tool(name=one["name"], parameters=one["schema"]) for one in json.loads(data))


def read(memory: DeclaredTools, data: bytes, dialect: str = "one", by: Callable[[bytes], Tools] = decode) -> Tools:
    return memory.read(dialect, data, by, lambda tools: tools)


def test_the_same_bytes_give_the_same_tools() -> None:
    memory = DeclaredTools()
    first = read(memory, declarations("a", "b"))
    assert read(memory, declarations("a", "b")) is first
    assert memory.read("one", Raw(declarations("a", "b")), decode, lambda tools: tools) is first


def test_bytes_that_differ_only_at_the_beginning_are_told_apart() -> None:
    memory = DeclaredTools()
    for name in "abab":
        (tool,) = read(memory, declarations(name, padding="x" * 200))
        assert isinstance(tool, Tool)
        assert tool.name == name
    assert len(memory) == 1


def test_each_dialect_reads_the_same_bytes_in_its_own_way() -> None:
    memory = DeclaredTools()
    one = read(memory, declarations("a"))
    assert read(memory, declarations("a"), "other", lambda data: ()) == ()
    assert read(memory, declarations("a")) is one


def test_what_cannot_be_read_is_not_remembered() -> None:
    def refuse(data: bytes) -> Tools:
        raise DecodeError("$.tools", "no")

    memory = DeclaredTools()
    with pytest.raises(DecodeError):
        read(memory, b"[]", by=refuse)
    assert len(memory) == 0


def test_there_is_room_for_two_generations_and_what_is_used_stays() -> None:
    memory = DeclaredTools(room=1000)
    kept = read(memory, declarations("kept"))
    for number in range(1000):
        read(memory, declarations(f"tool_{number}"))
        assert read(memory, declarations("kept")) is kept
        assert len(memory) <= 2 * 1000 // len(declarations("a"))
    assert isinstance(kept[0], Tool)
    assert memory.written(kept[0].parameters) == Raw(b'{"type":"object"}')


def test_declarations_larger_than_the_room_are_read_each_time() -> None:
    memory = DeclaredTools(room=50)
    assert read(memory, declarations("a" * 100)) == read(memory, declarations("a" * 100))
    assert len(memory) == 0


def test_a_schema_is_written_once_and_only_if_it_is_remembered() -> None:
    memory = DeclaredTools()
    (tool,) = read(memory, declarations("a"))
    assert isinstance(tool, Tool)
    assert memory.written(tool.parameters) is memory.written(tool.parameters)
    assert memory.written({"type": "object"}) is None
    assert memory.written(None) is None


def test_encoders_find_the_schemas_of_a_request() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    tools = [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": schema}]}]
    (tool,) = GEMINI.decode_request(json.dumps({"contents": [], "tools": tools}).encode()).tools
    assert isinstance(tool, Tool)
    assert written(tool.parameters) == Raw(json.dumps(schema, separators=(",", ":")).encode())


def test_threads_share_the_memory() -> None:
    memory = DeclaredTools(room=2000)

    def work(start: int) -> list[str]:
        found = [read(memory, declarations(f"tool_{(start + number) % 97}"))[0] for number in range(1000)]
        return [tool.name for tool in found if isinstance(tool, Tool)]

    with ThreadPoolExecutor(4) as pool:
        for start, names in enumerate(pool.map(work, range(4))):
            assert names == [f"tool_{(start + number) % 97}" for number in range(1000)]


def test_the_memory_of_the_process_is_bounded() -> None:
    for number in range(3000):
        tool = {"description": "x" * 1000, "name": f"tool_{number}"}
        body = {"contents": [], "tools": [{"functionDeclarations": [tool]}]}
        GEMINI.decode_request(json.dumps(body).encode())
    assert len(DECLARED) * 1000 <= 2 * ROOM
