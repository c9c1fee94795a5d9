"""Prompt caches by the vendors' rules, scripted: a request as an upstream gets it, to the counts of its usage.

A prompt is a row of blocks: the tools, the system text, then the messages. Two prompts share a prefix as far as their
blocks are the same bytes, without the breakpoints. A token is four bytes.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Protocol

from toolglot.ir import Usage

LOOKBACK = 20
"""Blocks before a breakpoint in which Anthropic looks for what it has."""


class Prompt(NamedTuple):
    """The blocks of a prompt as bytes, and those behind which there is a breakpoint, with its lifetime in seconds."""

    blocks: list[bytes]
    marks: dict[int, int]

    def tokens(self, count: int) -> int:
        return sum(map(len, self.blocks[:count])) // 4


class VendorCache(Protocol):
    def ask(self, body: bytes, now: float) -> Usage:
        """The input of this request, as the vendor counts it."""
        ...


def _unmarked(value: Any) -> bytes:
    if isinstance(value, dict):
        value = {key: inner for key, inner in value.items() if key not in ("cache_control", "prompt_cache_breakpoint")}
    return json.dumps(value, sort_keys=True).encode()


def _listed(content: Any) -> list[Any]:
    """To the API a string is one text."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def anthropic_prompt(body: dict[str, Any]) -> Prompt:
    rows: list[tuple[str, Any]] = [("tool", tool) for tool in body.get("tools", ())]
    rows += [("system", block) for block in _listed(body.get("system"))]
    for message in body["messages"]:
        rows += [(message["role"], block) for block in _listed(message["content"])]
    marks = {}
    for index, (_, block) in enumerate(rows):
        if (control := block.get("cache_control")) is not None:
            assert block.get("type") != "thinking"
            assert block.get("text", "x").strip()
            marks[index] = 3600 if control.get("ttl") == "1h" else 300
    assert len(marks) <= 4, "A maximum of 4 blocks with cache_control may be provided."
    return Prompt([f"{kind}:".encode() + _unmarked(block) for kind, block in rows], marks)


class AnthropicCache:
    """Marked prefixes are written and live for a while; a read renews them."""

    def __init__(self, minimum: int) -> None:
        self._minimum = minimum
        self._until: dict[bytes, float] = {}

    def ask(self, body: bytes, now: float) -> Usage:
        prompt = anthropic_prompt(json.loads(body))
        read = self._longest(prompt, now)
        written = long = 0
        done = prompt.tokens(read)
        for mark, seconds in sorted(prompt.marks.items()):
            end = prompt.tokens(mark + 1)
            if end < self._minimum:
                continue
            self._until[self._key(prompt, mark + 1)] = now + seconds
            if end > done:
                written += end - done
                long += end - done if seconds == 3600 else 0
                done = end
        return Usage(
            input_tokens=prompt.tokens(len(prompt.blocks)),
            cached_tokens=prompt.tokens(read),
            cache_write_tokens=written,
            cache_write_long_tokens=long,
        )

    def _longest(self, prompt: Prompt, now: float) -> int:
        """How many blocks are read."""
        for mark in sorted(prompt.marks, reverse=True):
            for count in range(mark + 1, max(mark + 1 - LOOKBACK, 0), -1):
                if self._until.get(self._key(prompt, count), -1.0) > now:
                    return count
        return 0

    @staticmethod
    def _key(prompt: Prompt, count: int) -> bytes:
        return b"\n".join(prompt.blocks[:count])


def chat_prompt(body: dict[str, Any]) -> Prompt:
    rows = [*body.get("tools", ()), *body["messages"]]
    return Prompt([_unmarked(row) for row in rows], {})


def responses_prompt(body: dict[str, Any]) -> Prompt:
    instructions = [body["instructions"]] if body.get("instructions") else []
    return Prompt([_unmarked(row) for row in (*body.get("tools", ()), *instructions, *body["input"])], {})


def gemini_prompt(body: dict[str, Any]) -> Prompt:
    system = [body["systemInstruction"]] if "systemInstruction" in body else []
    return Prompt([_unmarked(row) for row in (*body.get("tools", ()), *system, *body["contents"])], {})


class AutomaticCache:
    """Whatever was asked is there for a while; prompts below the minimum are not."""

    def __init__(self, prompt: Any, minimum: int, seconds: float) -> None:
        self._prompt = prompt
        self._minimum = minimum
        self._seconds = seconds
        self._known: list[tuple[list[bytes], float]] = []

    def ask(self, body: bytes, now: float) -> Usage:
        prompt: Prompt = self._prompt(json.loads(body))
        read = 0
        for blocks, until in self._known:
            if until > now:
                same = (one == other for one, other in zip(blocks, prompt.blocks, strict=False))
                read = max(read, next((index for index, is_same in enumerate(same) if not is_same), len(blocks)))
        tokens = prompt.tokens(read)
        self._known.append((prompt.blocks, now + self._seconds))
        return Usage(
            input_tokens=prompt.tokens(len(prompt.blocks)), cached_tokens=tokens if tokens >= self._minimum else 0
        )


def new_cache(dialect: str) -> VendorCache:
    if dialect == "anthropic":
        return AnthropicCache(minimum=1024)
    prompts = {"openai_chat": chat_prompt, "openai_responses": responses_prompt, "gemini": gemini_prompt}
    return AutomaticCache(prompts[dialect], 4096 if dialect == "gemini" else 1024, 300.0)
