"""Prompt prefixes (tools and system text) that were used recently: they are worth caching."""

from __future__ import annotations

from collections import OrderedDict

from toolglot.ir import Request, Text, Tool

LIFETIME_SECONDS = 300.0
"""Seconds that an upstream keeps a cached prefix that is not read."""
MAX_PREFIXES = 4096


class RecentPrefixes:
    """Hashes of the last prefixes, with the time of each."""

    def __init__(self) -> None:
        self._seen: OrderedDict[int, float] = OrderedDict()

    def note(self, key: int, now: float) -> bool:
        """Record a prefix. Returns whether it was recorded before, within its lifetime."""
        before = self._seen.pop(key, None)
        self._seen[key] = now
        if len(self._seen) > MAX_PREFIXES:
            self._seen.popitem(last=False)
        return before is not None and now - before < LIFETIME_SECONDS


def hash_prompt_prefix(owner: str, upstream: str, model: str, request: Request) -> int:
    texts: list[str] = []
    for message in request.messages:
        if message.role not in ("system", "developer"):
            break
        texts += [block.text for block in message.content if isinstance(block, Text)]
    tools = frozenset([tool.name for tool in request.tools if isinstance(tool, Tool)])
    return hash((owner, upstream, model, tuple(texts), tools))
