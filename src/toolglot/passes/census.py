"""What there is in a conversation, found out in one walk.

Most passes are about something rare: media, opaque blocks, citations, names that a wire does not allow. A pass that
asks here first does not look at every block of a long history only to leave them all alone. The walk is made again
when a pass has changed the messages.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Generic, TypeVar

from toolglot.ir import Block, Message, Opaque, Refusal, Request, Text, ToolCall, ToolResult
from toolglot.passes import Context

_content = attrgetter("content")
_native = attrgetter("native")
_WITHOUT_CACHE = (Opaque, Refusal)

T = TypeVar("T")


class _Once(Generic[T]):
    """What is found out when it is first asked for. `cached_property` takes a lock for that, which costs more than to
    look at a short conversation."""

    def __init__(self, find: Callable[[Census], T]) -> None:
        self._find = find
        self._name = find.__name__
        self.__doc__ = find.__doc__

    def __get__(self, there: Census, owner: type[Census]) -> T:
        found = there.__dict__[self._name] = self._find(there)
        return found


class Census:
    """The blocks of these messages and what can be said of them. Whatever is asked for is counted once."""

    def __init__(self, messages: tuple[Message, ...]) -> None:
        self.messages = messages
        # Loops of Python, which let others have their turn while they go over a long conversation.
        outer = [block for message in messages for block in message.content]
        self.calls = [block for block in outer if type(block) is ToolCall]
        self.results = [block for block in outer if type(block) is ToolResult]
        inner = [block for result in self.results for block in result.content]
        within = {type(block) for block in inner}
        self.blocks: list[Block] = outer + inner
        """All of them, those inside of results behind all others."""
        self.kinds: set[type[Block]] = within.union({type(block) for block in outer})
        self.is_flat = ToolCall not in within and ToolResult not in within
        """No call and no result stands inside of a result: `calls` and `results` are all that there are."""

    @_Once
    def owned(self) -> list[Block]:
        """The blocks on which a dialect keeps something of its own."""
        return [block for block in self.blocks if block.native]

    @_Once
    def has_owned_messages(self) -> bool:
        return any(map(_native, self.messages))

    @_Once
    def has_empty_messages(self) -> bool:
        return not all(map(_content, self.messages))

    @_Once
    def has_custom(self) -> bool:
        """A call or a result is one of a custom tool."""
        of_calls = any(call.kind == "custom" for call in self.calls)
        return of_calls or any(result.kind == "custom" for result in self.results)

    @_Once
    def has_cut_calls(self) -> bool:
        return not all(call.complete for call in self.calls)

    @_Once
    def has_citations(self) -> bool:
        return any(block.citations for block in self.blocks if type(block) is Text)

    @_Once
    def has_blank_text(self) -> bool:
        """A text is empty, or nothing but spaces."""
        return any(not block.text or block.text.isspace() for block in self.blocks if type(block) is Text)

    @_Once
    def cached(self) -> int:
        """How many blocks have a cache breakpoint."""
        return sum(block.cache is not None for block in self.blocks if not isinstance(block, _WITHOUT_CACHE))


def census(request: Request, context: Context) -> Census:
    """Of the messages as they are now."""
    known = context.census
    if known is None or known.messages is not request.messages:
        known = context.census = Census(request.messages)
    return known
