"""Tools that come again are found by the bytes of their declarations."""

from __future__ import annotations

from msgspec import Raw

from toolglot.ir import Tool
from toolglot.tools.declared import DeclaredTools
from toolglot.tools.remembered import written
from toolglot.wire import json

Tools = tuple[Tool, ...]


class Reading:
    """Reads declarations, and counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def decode(self, data: bytes) -> Tools:
        self.count += 1
        return tuple(Tool(name=one["name"], parameters=one["schema"]) for one in json.decode(data))


def declarations(name: str, size: int = 0) -> bytes:
    return json.encode([{"name": name, "schema": {"type": "object", "title": "x" * size}}])


def read(memory: DeclaredTools, reading: Reading, data: bytes, dialect: str = "d") -> Tools:
    return memory.read(dialect, Raw(data), reading.decode, lambda tools: tools)


def test_the_same_bytes_give_the_same_tools() -> None:
    memory, reading = DeclaredTools(), Reading()
    tools = read(memory, reading, declarations("a"))
    assert read(memory, reading, declarations("a")) is tools
    assert reading.count == 1


def test_other_bytes_and_other_dialects_are_read_anew() -> None:
    memory, reading = DeclaredTools(), Reading()
    tail = b" " * 100  # more than the key has of them
    assert read(memory, reading, declarations("a") + tail)[0].name == "a"
    assert read(memory, reading, declarations("b") + tail)[0].name == "b"
    read(memory, reading, declarations("b") + tail, "e")
    assert reading.count == 3


def test_declarations_that_are_used_stay_and_others_go() -> None:
    memory, reading = DeclaredTools(room=1000), Reading()
    used = read(memory, reading, declarations("used", 300))
    for number in range(20):
        read(memory, reading, declarations(f"t{number}", 300))
        assert read(memory, reading, declarations("used", 300)) is used
    assert len(memory) <= 6


def test_declarations_larger_than_the_room_are_not_kept() -> None:
    memory, reading = DeclaredTools(room=100), Reading()
    read(memory, reading, declarations("a", 200))
    assert len(memory) == 0


def test_the_schema_of_a_known_tool_is_written_once() -> None:
    memory, reading = DeclaredTools(), Reading()
    schema = read(memory, reading, declarations("a"))[0].parameters
    text = memory.written(schema)
    assert text is not None
    assert bytes(text) == json.encode(schema)
    assert memory.written(schema) is text
    assert memory.written({"type": "object"}) is None


def test_a_schema_that_no_memory_knows_is_written_as_it_is() -> None:
    schema = {"type": "object"}
    assert written(schema) is schema
