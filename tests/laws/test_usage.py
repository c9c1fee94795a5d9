"""A law of usage: each reported count reaches the client or the receipt, and no other count is made up.

The upstreams report any part of what their APIs and the servers that imitate them know, as a count, a 0 or a null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, TypeAlias

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.exchanges import read_events
from toolglot.dialects import DIALECTS
from toolglot.events import Finish
from toolglot.ir import COUNTS, Usage
from toolglot.translate import ExchangeCore

Document: TypeAlias = dict[str, Any]

# The first group of each holds the wholes, which are larger than their parts.
MEMBERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "openai_chat": (
        ("prompt_tokens", "completion_tokens", "total_tokens"),
        ("prompt_tokens_details.cached_tokens", "prompt_tokens_details.cache_write_tokens"),
        ("num_cached_tokens", "completion_tokens_details.reasoning_tokens", "cost"),
    ),
    "openai_responses": (
        ("input_tokens", "output_tokens", "total_tokens"),
        ("input_tokens_details.cached_tokens", "input_tokens_details.cache_write_tokens"),
        ("output_tokens_details.reasoning_tokens", "novel_tokens"),
    ),
    "anthropic": (
        ("input_tokens", "output_tokens"),
        ("cache_read_input_tokens", "cache_creation_input_tokens"),
        ("output_tokens_details.thinking_tokens", "server_tool_use.web_search_requests", "iterations.0.input_tokens"),
    ),
    "gemini": (
        ("promptTokenCount", "candidatesTokenCount", "totalTokenCount"),
        ("cachedContentTokenCount", "thoughtsTokenCount", "toolUsePromptTokenCount"),
        ("novelTokenCount",),
    ),
}
REPEATED = {"total_tokens", "totalTokenCount", "num_cached_tokens"}
"""Members that may say what the others say."""

WHOLES = st.none() | st.just(0) | st.integers(20_000, 90_000)
PARTS = st.none() | st.just(0) | st.integers(1, 5_000)


def build(members: dict[str, int | None]) -> Document:
    """A usage object with these members, by their dotted paths."""
    usage: Document = {}
    for path, value in members.items():
        first, *others = path.split(".")
        if first == "iterations":
            usage[first] = [{"type": "compaction", others[-1]: value}]
        elif others:
            usage.setdefault(first, {})[others[0]] = value
        else:
            usage[first] = value
    return usage


def reports(upstream: str) -> st.SearchStrategy[dict[str, int | None]]:
    wholes, *parts = MEMBERS[upstream]
    optional = {**dict.fromkeys(wholes, WHOLES), **dict.fromkeys([name for group in parts for name in group], PARTS)}
    return st.fixed_dictionaries({}, optional=optional)


def whole(upstream: str, usage: Document) -> bytes:
    documents: dict[str, Document] = {
        "openai_chat": {
            "id": "c",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
            "usage": usage,
        },
        "openai_responses": {"id": "r", "status": "completed", "output": [_MESSAGE], "usage": usage},
        "anthropic": {"content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn", "usage": usage},
        "gemini": {
            "candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}],
            "usageMetadata": usage,
        },
    }
    return json.dumps(documents[upstream]).encode()


_MESSAGE = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}


def stream(upstream: str, usage: Document) -> bytes:
    answer = json.loads(whole(upstream, usage))
    frames: dict[str, list[Document]] = {
        "openai_chat": [
            {"id": "c", "choices": [{"index": 0, "delta": {"content": "Hi"}}]},
            {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {"id": "c", "choices": [], "usage": usage},
        ],
        "openai_responses": [
            {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}},
            {"type": "response.completed", "response": answer},
        ],
        "anthropic": [
            {"type": "message_start", "message": {"id": "m"}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
            {"type": "message_stop"},
        ],
        "gemini": [answer],
    }
    body = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames[upstream])
    return (body + ("data: [DONE]\n\n" if upstream == "openai_chat" else "")).encode()


def told_whole(client: str, upstream: str, usage: Document) -> tuple[Usage, dict[str, str]]:
    exchange = ExchangeCore(client, upstream)
    answer = DIALECTS[client].decode_response(exchange.response(whole(upstream, usage)))
    return answer.usage or Usage(), _lines(exchange)


def told_streamed(client: str, upstream: str, usage: Document) -> tuple[Usage, dict[str, str]]:
    exchange = ExchangeCore(client, upstream)
    translation = exchange.stream()
    written = translation.feed(stream(upstream, usage)) + translation.close()
    end = read_events(client, [written])[-1]
    assert isinstance(end, Finish)
    return end.usage or Usage(), _lines(exchange)


def _lines(exchange: ExchangeCore) -> dict[str, str]:
    lines = [line for line in exchange.receipt if line.where.startswith("usage.")]
    return {line.where.removeprefix("usage."): line.what for line in lines}


WAYS = pytest.mark.parametrize("tell", [told_whole, told_streamed])
PAIRS = pytest.mark.parametrize(("client", "upstream"), [(a, b) for a in MEMBERS for b in MEMBERS if a != b])
Teller: TypeAlias = Callable[[str, str, Document], tuple[Usage, dict[str, str]]]

ZERO_IS_ABSENT = {"gemini"}
"""Dialects that leave zeros out, as their own APIs do."""
ZERO_IS_REQUIRED = {"openai_responses"}
"""Dialects whose types require every count: one that nobody reported is a 0."""


@WAYS
@PAIRS
@given(data=st.data())
def test_each_reported_count_reaches_the_client_or_the_receipt_and_no_other_is_made_up(
    client: str, upstream: str, tell: Teller, data: st.DataObject
) -> None:
    usage = build(data.draw(reports(upstream)))
    reported = DIALECTS[upstream].decode_response(whole(upstream, usage)).usage or Usage()
    assume(_adds_up(reported))
    heard, lines = tell(client, upstream, usage)
    nothing = all(getattr(reported, name) is None for name in COUNTS)
    for name in COUNTS:
        count, shown = getattr(reported, name), getattr(heard, name)
        if shown == count or name in lines:
            continue
        if count is None:
            assert shown == 0
            assert client in ZERO_IS_REQUIRED or (nothing and client == "anthropic") or _is_sum(name, heard)
        else:
            assert (count, shown) == (0, None)
            assert client in ZERO_IS_ABSENT or name not in DIALECTS[client].answer.counts


def _adds_up(usage: Usage) -> bool:
    """Parts are not more than their whole: otherwise the clients' own decoders take them for beside it."""
    cached = (usage.cached_tokens or 0) + (usage.cache_write_tokens or 0)
    return cached <= (usage.input_tokens or 0) and (usage.reasoning_tokens or 0) <= (usage.output_tokens or 0)


def _is_sum(name: str, heard: Usage) -> bool:
    """A count that follows from another one: none of no writes has the longer lifetime."""
    return name == "cache_write_long_tokens" and heard.cache_write_tokens is not None


@WAYS
@PAIRS
@given(data=st.data())
def test_a_report_without_one_of_its_counts_is_told_in_another_way(
    client: str, upstream: str, tell: Teller, data: st.DataObject
) -> None:
    members = data.draw(reports(upstream))
    usage = build(members)
    reported = DIALECTS[upstream].decode_response(whole(upstream, usage)).usage or Usage()
    assume(_adds_up(reported))
    assume(not reported.cached_tokens or reported.cached_tokens != reported.input_tokens)
    assume(not reported.reasoning_tokens or reported.reasoning_tokens != reported.output_tokens)
    for path in _telling(members):
        less = build({name: value for name, value in deepcopy(members).items() if name != path})
        assert tell(client, upstream, usage) != tell(client, upstream, less), path


def _telling(members: dict[str, int | None]) -> Iterator[str]:
    """The members that no other one repeats."""
    if any(members.get(name) for name in REPEATED):
        return
    yield from [name for name, value in members.items() if value]
