"""Tools found by the bytes of their declarations."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count, product
from typing import Any

import pytest
from msgspec import Raw

from toolglot.dialects import DIALECTS
from toolglot.dialects.gemini.dialect import GEMINI
from toolglot.errors import DecodeError
from toolglot.ir import Message, Request, Text, Tool
from toolglot.receipt import Receipt
from toolglot.tools.declared import CACHE_BYTES, DECLARED, DeclaredTools, Tools, schema_json
from toolglot.translate import ExchangeCore

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
    exchanges = [ExchangeCore(client, upstream) for _ in range(3)]
    first, *others = [exchange.request(raw, model="model") for exchange in exchanges]
    assert others == [first, first]
    assert len({str(exchange.receipt) for exchange in exchanges}) == 1
    assert DIALECTS[client].decode_request(raw).tools == before


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
    (tool,) = kept
    assert isinstance(tool, Tool)
    assert memory.derive_from_schema(tool.parameters, "length", lambda: len(tool.parameters)) == 1


def test_declarations_larger_than_the_room_are_read_each_time() -> None:
    memory = DeclaredTools(room=50)
    assert read(memory, declarations("a" * 100)) == read(memory, declarations("a" * 100))
    assert len(memory) == 0


def test_what_is_made_of_a_schema_is_made_once_and_only_if_it_is_remembered() -> None:
    memory = DeclaredTools()
    (tool,) = read(memory, declarations("a"))
    assert isinstance(tool, Tool)
    counter = count(1)
    for _ in range(3):
        assert memory.derive_from_schema(tool.parameters, "count", lambda: next(counter)) == 1
    assert memory.derive_from_schema({"type": "object"}, "count", lambda: 7) is None
    assert memory.derive_from_schema(None, "count", lambda: 7) is None


def test_what_is_made_of_remembered_tools_is_made_once_for_each_owner() -> None:
    memory, counter = DeclaredTools(), count(1)
    tools, owners = read(memory, declarations("a")), [object(), object()]
    assert [memory.derive(tools, "count", owner, lambda: next(counter)) for owner in (*owners, *owners)] == [1, 2, 1, 2]
    assert memory.derive(tools, "other", owners[0], lambda: next(counter)) == 3
    assert memory.derive(tuple(tools), "count", owners[0], lambda: 9) == 1
    assert [memory.derive((*tools, *tools), "count", owners[0], lambda: next(counter)) for _ in range(2)] == [4, 5]


def test_tools_that_were_made_of_remembered_ones_are_remembered_too() -> None:
    memory, counter = DeclaredTools(), count(1)
    tools = read(memory, declarations("a", "b"))
    for _ in range(3):
        made = memory.rewrite(tools, "first", None, lambda _: tools[:1], Receipt())
        assert len(made) == 1
        assert memory.derive(made, "count", None, lambda: next(counter)) == 1


def test_what_is_written_of_remembered_tools_takes_room() -> None:
    memory = DeclaredTools(room=1000)
    tools = read(memory, declarations("a"))
    for number in range(100):
        other = read(memory, declarations(f"tool_{number}"))
        written = memory.write(other, "form", lambda _: ["x" * 200], Receipt())
        assert isinstance(written, Raw)
        assert len(memory) <= 2 * 1000 // 200
    assert memory.write(tools, "form", lambda _: ["y"], Receipt()) == ["y"]


def test_lines_on_remembered_tools_are_in_every_receipt() -> None:
    memory = DeclaredTools()

    def encode(receipt: Receipt) -> list[str]:
        receipt.loss("tools[0]", "a", "why")
        return ["x"]

    for tools in (read(memory, declarations("a")), read(memory, declarations("a")), ()):
        receipt = Receipt()
        written = memory.write(tools, "form", encode, receipt)
        assert (bytes(written) if isinstance(written, Raw) else written) in (b'["x"]', ["x"])
        assert str(receipt) == "loss: tools[0]: a: why"


def test_tools_that_are_used_without_their_declarations_stay() -> None:
    memory, counter = DeclaredTools(room=1000), count(1)
    kept = read(memory, declarations("kept"))
    for number in range(1000):
        read(memory, declarations(f"tool_{number}"))
        assert memory.derive(kept, "count", None, lambda: next(counter)) == 1


def test_tools_that_were_forgotten_are_remembered_again_when_they_come_back() -> None:
    memory, counter = DeclaredTools(room=1000), count(1)
    kept = read(memory, declarations("kept"))
    for number in range(100):
        read(memory, declarations(f"tool_{number}"))
    memory.adopt(kept, 100)
    memory.adopt(kept, 100)
    assert [memory.derive(kept, "count", None, lambda: next(counter)) for _ in range(2)] == [1, 1]
    for number in range(100):
        other = read(DeclaredTools(), declarations(f"tool_{number}"))
        memory.adopt(other, 100)
        assert len(memory) <= 2 * 1000 // 50
    memory.adopt((), 100)
    memory.adopt(kept, 2000)
    assert memory.derive(kept, "count", None, lambda: next(counter)) == 2


def test_derived_things_are_bounded() -> None:
    memory = DeclaredTools()
    tools = read(memory, declarations("a"))
    for number in range(1000):
        made = memory.rewrite(tools, str(number), None, lambda _: (*tools, *tools), Receipt())
        memory.derive(made, "size", None, lambda: 1)
    declared = next(iter(memory._young.by_key.values()))
    assert len(declared.known) <= 20
    assert all(len(known.derived) <= 16 for known in declared.known.values())


def test_encoders_find_the_schemas_of_a_request() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    tools = [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": schema}]}]
    (tool,) = GEMINI.decode_request(json.dumps({"contents": [], "tools": tools}).encode()).tools
    assert isinstance(tool, Tool)
    assert schema_json(tool.parameters) == Raw(json.dumps(schema, separators=(",", ":")).encode())


def test_a_known_schema_is_written_as_the_text_that_it_is() -> None:
    raw = DIALECTS["anthropic"].encode_request(REQUEST, Receipt())
    tool = DIALECTS["anthropic"].decode_request(raw).tools[0]
    assert isinstance(tool, Tool)
    assert isinstance(text := schema_json(tool.parameters), Raw)
    assert bytes(text) == json.dumps(SCHEMA, separators=(",", ":")).encode()
    assert schema_json(SCHEMA) is SCHEMA
    assert schema_json(None) is None


def test_threads_share_the_memory() -> None:
    memory = DeclaredTools(room=2000)

    def work(start: int) -> list[str]:
        found = [read(memory, declarations(f"tool_{(start + number) % 97}"))[0] for number in range(1000)]
        return [tool.name for tool in found if isinstance(tool, Tool)]

    with ThreadPoolExecutor(4) as pool:
        for start, names in enumerate(pool.map(work, range(4))):
            assert names == [f"tool_{(start + number) % 97}" for number in range(1000)]


@pytest.mark.parametrize("length", [0, 1000])
def test_the_memory_of_the_process_is_bounded(length: int) -> None:
    for number in range(9000):
        tool = {"description": "x" * length, "name": f"tool_{number}"}
        body = {"contents": [], "tools": [{"functionDeclarations": [tool]}]}
        GEMINI.decode_request(json.dumps(body).encode())
    assert len(DECLARED) * 1024 <= 2 * CACHE_BYTES
