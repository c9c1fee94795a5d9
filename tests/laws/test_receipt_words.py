"""Receipts speak to people: they name things as the APIs do, and never as this code does."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

import toolglot
from tests.case_files import CASES
from toolglot import ir
from toolglot.dialects import DIALECTS
from toolglot.ir import Block, Media, Opaque, Source, Text, Thinking, ToolCall, ToolResult
from toolglot.receipt import Receipt, describe_block
from toolglot.translate import ExchangeCore

CLASSES = {name for name, value in vars(ir).items() if inspect.isclass(value) and issubclass(value, Struct)}
PLAIN_WORDS = {
    "Struct",
    "Text",
    "Message",
    "Tool",
    "Request",
    "Response",
    "Usage",
    "Source",
    "Cache",
    "Reasoning",
    "Stop",
}
"""Words that are also those of people, or of an API."""
INTERNAL = re.compile(rf"\b({'|'.join(sorted(CLASSES - PLAIN_WORDS))}|IR|native|opaque|NoneType)\b")
CODE = Path(toolglot.__file__).parent


def words_of_receipts(file: Path) -> Iterator[str]:
    """The literal texts that stand in calls of `loss` and `note`."""
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        for argument in node.args if node.func.attr in ("loss", "note") else ():
            for part in ast.walk(argument):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def names_a_class(file: Path) -> bool:
    lines = file.read_text().splitlines()
    return any(("receipt" in line or "loss(" in line) and "__name__" in line for line in lines)


FILES = sorted(CODE.rglob("*.py"))


def test_no_text_of_a_receipt_has_a_word_of_the_code() -> None:
    found = [f"{file.name}: {text}" for file in FILES for text in words_of_receipts(file) if INTERNAL.search(text)]
    assert not found


def test_no_receipt_names_a_class() -> None:
    assert not [file.name for file in FILES if names_a_class(file)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.dialect}/{case.name}")
def test_no_receipt_of_a_case_has_a_word_of_the_code(case: object) -> None:
    folder: Path = case.folder  # type: ignore[attr-defined]
    found = [line for file in folder.glob("*.receipt.txt") for line in file.read_text().splitlines()]
    assert not [line for line in found if INTERNAL.search(line)]


BLOCKS: tuple[tuple[Block, str], ...] = (
    (Media(kind="document", source=Source("text", "x")), "a document"),
    (Media(kind="image", source=Source("text", "x")), "an image"),
    (Opaque("novel", {"type": "hologram"}), "hologram"),
    (Opaque("novel", 7), "content of novel"),
    (Text(text="x"), "text"),
    (Thinking(text="x"), "reasoning"),
    (ToolCall(id="1", name="f"), "a tool call"),
    (ToolResult(call_id="1"), "a tool result"),
)


@pytest.mark.parametrize(("block", "words"), BLOCKS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_block_is_called_what_it_is(block: Block, words: str) -> None:
    assert describe_block(block) == words


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_encoder_names_what_it_leaves_out(dialect: str) -> None:
    receipt = Receipt()
    foreign = (Opaque("novel", {"type": "hologram"}), Media(kind="video", source=Source("text", "x")))
    result = ToolResult(call_id="1", name="f", content=foreign)
    messages = (ir.Message(role="user", content=foreign), ir.Message(role="tool", content=(result,)))
    DIALECTS[dialect].encode_request(ir.Request(model="m", messages=messages), receipt)
    assert not [str(line) for line in receipt if INTERNAL.search(str(line))]


PYTHON = re.compile(r"\b(True|False|None)\b|[\[{(]'|nan\b")
"""Values as Python spells them, and JSON does not."""
SETTINGS: dict[str, object] = {
    "parallel_tool_calls": False,
    "store": False,
    "logprobs": True,
    "top_logprobs": 3,
    "seed": 7,
    "n": 2,
    "presence_penalty": 0.5,
    "temperature": 1.9,
    "top_k": 3,
    "service_tier": "flex",
    "reasoning_effort": "high",
    "metadata": {"a": "b"},
    "stream_options": {"include_usage": True},
    "prediction": {"type": "content", "content": None},
    "modalities": ["text", "audio"],
    "web_search_options": {},
    "stop": ["x"],
}


@pytest.mark.parametrize("upstream", list(DIALECTS))
def test_values_are_spelled_as_in_json(upstream: str) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "default": None}}}
    messages = [{"role": "user", "content": "x"}]
    exchange = ExchangeCore("openai_chat", upstream)
    exchange.request({"model": "m", "messages": messages, "tools": [tool], **SETTINGS})
    assert not [str(line) for line in exchange.receipt if PYTHON.search(str(line))]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.dialect}/{case.name}")
def test_no_receipt_of_a_case_has_a_value_as_python_spells_it(case: object) -> None:
    folder: Path = case.folder  # type: ignore[attr-defined]
    found = [line for file in folder.glob("*.receipt.txt") for line in file.read_text().splitlines()]
    assert not [line for line in found if PYTHON.search(line)]


def test_paths_of_answers_are_those_of_the_wire() -> None:
    parts = {"role": "model", "parts": [{"text": "a"}]}
    first = {"content": {**parts, "novel": 1}, "finishReason": "STOP", "groundingMetadata": {"x": 1}}
    exchange = ExchangeCore("openai_chat", "gemini")
    exchange.response({"candidates": [first, {"content": parts}]})
    assert {str(line) for line in exchange.receipt} >= {
        "loss: candidates[0].content.novel: openai_chat has no known equivalent",
        "loss: candidates[1]: further answers: the client's API carries one answer, and gets the first",
    }
    message = {"role": "assistant", "content": "a", "novel": 1}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    exchange = ExchangeCore("anthropic", "openai_chat")
    exchange.response({"id": "x", "model": "m", "choices": [{**choice, "other": 1}, choice]})
    assert {str(line) for line in exchange.receipt} >= {
        "loss: choices[0].message.novel: anthropic has no known equivalent",
        "loss: choices[0].other: anthropic has no known equivalent",
        "loss: choices[1]: further answers: the client's API carries one answer, and gets the first",
    }


def test_the_path_of_a_member_beside_a_function_is_that_of_its_tool() -> None:
    tool = {"type": "function", "function": {"name": "f"}, "novel": 1}
    exchange = ExchangeCore("openai_chat", "anthropic")
    exchange.request({"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [tool]})
    assert "loss: tools[0].novel: anthropic has no known equivalent" in list(map(str, exchange.receipt))


@pytest.mark.parametrize("upstream", [name for name in DIALECTS if name != "openai_chat"])
def test_the_reason_for_an_unknown_member_does_not_claim_that_the_clients_api_has_it(upstream: str) -> None:
    exchange = ExchangeCore("openai_chat", upstream)
    exchange.request({"model": "m", "messages": [{"role": "user", "content": "x"}], "novel": 1})
    assert [str(line) for line in exchange.receipt if "novel" in str(line)] == [
        f"loss: novel: {upstream} has no known equivalent"
    ]
