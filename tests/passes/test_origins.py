"""Receipts count as the client's request does, whatever was cut, joined, split or moved before a line was written."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given

from tests.examples import examples
from tests.exchanges import NAMES
from tests.forms import forwards
from tests.laws.test_law_6_history import policies, sessions
from tests.passes.targets import ANTHROPIC, answered, calls, result, said, to, user
from toolglot.dialects import DIALECTS
from toolglot.ir import Block, Media, Message, Request, Text, ToolCall, ToolResult, replace
from toolglot.passes.blocks import Place, rewrite_blocks
from toolglot.passes.history_policy import HistoryPolicy, Layer, merge_layers, with_policy
from toolglot.passes.origins import Origins
from toolglot.passes.pipeline import REQUEST_PASSES
from toolglot.receipt import Receipt, ReceiptLine
from toolglot.translate import ExchangeCore

PATH = re.compile(r"messages\[(\d+)\](?:\.content\[(\d+)\](?:\.content\[(\d+)\])?)?")
ROUTES = [(client, upstream) for client in ("openai_chat", "anthropic") for upstream in NAMES]


def with_what_must_be_told(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Ids that no target allows, and images with a detail: what is told of them is told after cuts."""

    def change(block: Block, _: Place) -> tuple[Block, ...]:
        match block:
            case ToolCall(id=name):
                return (replace(block, id=f"{name}!" + "x" * 80),)
            case ToolResult(call_id=name):
                return (replace(block, call_id=f"{name}!" + "x" * 80),)
            case Media():
                return (replace(block, detail="low"),)
        return (block,)

    return rewrite_blocks(Request(model="m", messages=messages), change).messages


def stands_at(request: Request, where: str) -> Any:
    """The message, block or part with this path; None where no message is named."""
    found = PATH.match(where)
    if found is None:
        return None
    node: Any = request.messages[int(found[1])]
    for number in found.groups()[1:]:
        node = node if number is None else node.content[int(number)]
    return node


def text_bytes(block: ToolResult) -> int:
    return sum(len(part.text.encode()) for part in block.content if isinstance(part, Text))


def is_told(line: ReceiptLine, node: Any) -> bool:
    """Does the line speak of what stands there? Of other lines only the place is looked at."""
    if line.what.startswith("call of "):
        return isinstance(node, ToolCall)
    if line.what == "an image" or line.what.startswith("detail "):
        return isinstance(node, Media)
    if line.what.startswith("message of the "):
        return isinstance(node, Message) and line.what.split()[3] == node.role
    if found := re.match(r"\d+ of (\d+) bytes of the result", line.what):
        return isinstance(node, ToolResult) and text_bytes(node) == int(found[1])
    if line.what.startswith("call id "):
        return line.what.removeprefix("call id ") in (getattr(node, "id", None), getattr(node, "call_id", None))
    return True


@pytest.mark.parametrize(("client", "upstream"), ROUTES)
@examples(1 / 4)
@given(messages=sessions().map(with_what_must_be_told), policy=policies)
def test_every_line_is_told_where_the_client_said_it(
    client: str, upstream: str, messages: tuple[Message, ...], policy: HistoryPolicy
) -> None:
    passes = with_policy(REQUEST_PASSES, merge_layers((Layer(policy),)))
    request = Request(model="gpt-5", messages=messages, max_output_tokens=100)
    exchange = ExchangeCore(client, upstream, passes=passes, verbatim=forwards(upstream))
    exchange.request(DIALECTS[client].encode_request(request, Receipt()), model="gpt-5")
    assert exchange.asked is not None
    for line in exchange.receipt:
        if line.what == "a request to continue":
            assert line.where == f"messages[{len(exchange.asked.messages)}]"
        else:
            assert is_told(line, stands_at(exchange.asked, line.where)), line


def told(origins: Origins, *paths: str) -> list[str]:
    return [origins.path(path) for path in paths]


def test_what_was_cut_is_counted() -> None:
    messages = (user("1?"), said("1."), user("2?"), said("2."), user("3?"))
    origins = Origins(messages)
    origins.record_moves(messages[2:])
    assert told(origins, "messages[0]", "messages[2].content[0].cache", "messages[3]", "tools[1]", "messages") == [
        "messages[2]",
        "messages[4].content[0].cache",
        "messages[5]",
        "tools[1]",
        "messages",
    ]


def test_what_was_joined_and_what_was_made_anew_are_found_step_by_step() -> None:
    first, second = answered(result("a")), answered(result("b"), result("c"))
    origins = Origins((user(), calls("a", "b", "c"), first, second, said("Done.")))
    joined = Message(role="user", content=(*first.content, *second.content))
    origins.record_moves((calls("a", "b", "c"), joined, said("Done.")))
    renamed = replace(joined, content=(*joined.content[:2], replace(second.content[1], call_id="d")))
    origins.record_moves((calls("a", "b", "c"), renamed, said("Done.")))
    paths = [f"messages[1].content[{index}]" for index in range(3)]
    assert told(origins, *paths) == ["messages[2].content[0]", "messages[3].content[0]", "messages[3].content[1]"]


def test_what_was_made_up_is_told_where_its_neighbour_stands() -> None:
    messages = (user(), calls("a"), user("Never mind."))
    origins = Origins(messages)
    origins.record_moves((*messages[:2], answered(result("a", "interrupted")), messages[2]))
    assert told(origins, "messages[2].content[0]", "messages[3]") == ["messages[1]", "messages[2]"]


def test_a_conversation_of_the_same_objects_is_cut_at_its_beginning() -> None:
    messages = (user(), said("."), user()) * 3
    origins = Origins(messages)
    origins.record_moves(messages[-3:])
    assert told(origins, "messages[0]", "messages[2]") == ["messages[6]", "messages[8]"]


def test_a_receipt_alone_tells_what_it_is_told() -> None:
    context = to(ANTHROPIC)
    context.receipt.note("messages[4]", "this", "that")
    assert [line.where for line in context.receipt] == ["messages[4]"]
