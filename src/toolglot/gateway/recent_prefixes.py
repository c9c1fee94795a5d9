"""Which beginnings of prompts (tools and system text) have come a short time ago: they are worth a place in a cache."""

from __future__ import annotations

from collections import OrderedDict

from toolglot.ir import Request, Text, Tool

LIFETIME_SECONDS = 300.0
"""Seconds that an upstream keeps what nobody reads."""
MAX_PREFIXES = 4096


class RecentPrefixes:
    """Hashes of the last ones, and when each came last."""

    def __init__(self) -> None:
        self._seen: OrderedDict[int, float] = OrderedDict()

    def note(self, key: int, now: float) -> bool:
        """Write down that it came; has it come within its lifetime before?"""
        before = self._seen.pop(key, None)
        self._seen[key] = now
        if len(self._seen) > MAX_PREFIXES:
            self._seen.popitem(last=False)
        return before is not None and now - before < LIFETIME_SECONDS


def hash_prompt_prefix(owner: str, upstream: str, model: str, request: Request) -> int:
    said: list[str] = []
    for message in request.messages:
        if message.role not in ("system", "developer"):
            break
        said += [block.text for block in message.content if isinstance(block, Text)]
    tools = frozenset([tool.name for tool in request.tools if isinstance(tool, Tool)])
    return hash((owner, upstream, model, tuple(said), tools))
