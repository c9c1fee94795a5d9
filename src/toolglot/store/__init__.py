"""What the gateway remembers between requests: responses, the conversations they belong to, and what models can do.

A `Store` keeps JSON as bytes and does not look into it. Everything belongs to an `owner`, a name derived from the key
that was shown; to any other owner it does not exist. What belongs together (a conversation, or all the responses that
grew from one) is a thread: threads are forgotten as a whole, the longest unused first, when the store is full or they
are too old, so that no conversation loses its beginning. Only what models can do is nobody's and no thread's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from toolglot.errors import ToolglotError

__all__ = [
    "Conversation",
    "Failure",
    "History",
    "Item",
    "Page",
    "Replay",
    "Rounds",
    "Size",
    "State",
    "Store",
    "StoreError",
    "Turn",
    "Verdict",
]

Failure = Literal[
    "full",  # the disk, the file or the store's own limit
    "locked",  # another process holds the file
    "busy",  # too many calls wait already
    "duplicate",  # something with this id is there
    "closed",
    "foreign",  # the file is not a store, or it is broken
    "newer",  # a later version of this program wrote the file
    "failed",
]


class StoreError(ToolglotError):
    """The store could not do what it was asked. The answer to the client need not fail for it."""

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(message)
        self.failure = failure


class Item(Struct, frozen=True):
    """One item of a conversation. `item` is its JSON as the client or the model wrote it, without a derived id."""

    id: str
    item: bytes


class Turn(Struct, frozen=True, kw_only=True):
    """One settled response: what was new in its request, what was answered, and what went before."""

    id: str
    owner: str
    created: float
    model: str = ""
    previous: str | None = None
    """The response that this one goes on from."""
    conversation: str | None = None
    before: int = 0
    """The conversation's items at lower positions went before this turn."""
    request_input: bytes = b"[]"
    """A JSON array: the request's own items, none of the history's."""
    response: bytes = b"{}"
    """The response object as the client got it."""


class History(Struct, frozen=True, kw_only=True):
    """What went before a turn, oldest first: the items of a conversation, then responses."""

    items: tuple[Item, ...] = ()
    turns: tuple[Turn, ...] = ()
    next: int = 0
    """The position that the conversation's next item will have."""
    missing: str | None = None
    """The id of a response or conversation that is not there."""
    too_large: bool = False
    """There is more than the caller wants to read."""


class Conversation(Struct, frozen=True, kw_only=True):
    id: str
    owner: str
    created: float
    metadata: bytes = b"{}"


class Page(Struct, frozen=True):
    items: tuple[Item, ...]
    more: bool


class Verdict(Struct, frozen=True, kw_only=True):
    """What was found out about a model, by a probe or because its server refused a request."""

    upstream: str
    """The address of the upstream: its name may be given to another one."""
    model: str
    """The upstream's name of the model."""
    tools: Literal["native", "text"]
    """Whether it takes tools natively, or has to be asked for calls in words."""
    found: float
    """Unix seconds, as is `until`."""
    until: float
    """From then on nothing is known: servers are started anew with other flags."""


class Replay(Struct, frozen=True, kw_only=True):
    """What an upstream keeps of a conversation and wants back with its next turn, as of one answer."""

    owner: str
    upstream: str
    """A hash of its address and of the credential that it is shown."""
    hash: str
    """Of the conversation, that answer included, as the client tells it: `upstream/transcript.py`."""
    conversation: str
    """The upstream's own id of it."""
    value: bytes
    calls: tuple[str, ...] = ()
    """What tells it from another conversation that says the same: marks of the last calls, `upstream/transcript.py`."""


class Rounds(Struct, frozen=True):
    """What happened on the way to one answer and its client did not see: calls that were run, and their results."""

    hash: str
    """Of the conversation as the client tells it, that answer included: `upstream/transcript.py`."""
    value: bytes


class State(Struct, frozen=True, kw_only=True):
    """What a model wants back of one answer: signatures, encrypted reasoning and the like."""

    owner: str
    issuer: str
    """Who takes it back: a hash of the upstream, its credential and, where it is bound to it, the model."""
    calls: str
    """What tells the answer from all others: a hash of the ids of its calls and of more; empty where it has no ids."""
    hash: str
    """Of the conversation as the client tells it, that answer included: `upstream/transcript.py`."""
    value: bytes


class Size(Struct, frozen=True):
    bytes: int
    threads: int


class Store(Protocol):
    """Every method may raise `StoreError`. What is not there, or is another owner's, is None or False."""

    async def save(self, turn: Turn, items: Sequence[Item] = (), output_ids: Sequence[str] = ()) -> None:
        """Keep a turn; `items` go to the end of its conversation, `output_ids` name the items of its output.

        An item whose id the conversation has already gets another one.
        """
        ...

    async def turn(self, owner: str, response: str) -> Turn | None: ...

    async def delete_turn(self, owner: str, response: str) -> bool: ...

    async def history(self, owner: str, response: str, *, max_bytes: int, max_turns: int) -> History:
        """A response and all that went before it."""
        ...

    async def holders(self, owner: str, items: Sequence[str]) -> Mapping[str, bytes]:
        """Ids of output items -> the newest response object that has each of them."""
        ...

    async def create_conversation(self, conversation: Conversation, items: Sequence[Item] = ()) -> None: ...

    async def conversation(self, owner: str, conversation: str) -> Conversation | None: ...

    async def update_conversation(self, owner: str, conversation: str, metadata: bytes) -> bool: ...

    async def delete_conversation(self, owner: str, conversation: str) -> bool:
        """Forget a conversation and its items; responses that were made in it stay."""
        ...

    async def conversation_history(self, owner: str, conversation: str, *, max_bytes: int) -> History:
        """All the items of a conversation."""
        ...

    async def add_items(self, owner: str, conversation: str, items: Sequence[Item]) -> tuple[Item, ...] | None:
        """The items as they were added to the conversation's end, each with its final id."""
        ...

    async def page(
        self, owner: str, conversation: str, *, after: str | None, limit: int, descending: bool
    ) -> Page | None:
        """Some items of a conversation; None also when there is no item `after`."""
        ...

    async def item(self, owner: str, conversation: str, item: str) -> Item | None: ...

    async def delete_item(self, owner: str, conversation: str, item: str) -> bool: ...

    async def remember(self, verdict: Verdict) -> None:
        """Keep what was found out about a model, in the place of what was known of it."""
        ...

    async def verdict(self, upstream: str, model: str) -> Verdict | None:
        """What is known of a model, unless it is too old."""
        ...

    async def keep_replay(self, replay: Replay) -> None:
        """Keep it as the newest of its conversation, and of those that say the same; of both the oldest go beyond some.
        It takes the place of one with the same calls."""
        ...

    async def replay(
        self, owner: str, upstream: str, hashes: Sequence[str], calls: Collection[str] = ()
    ) -> Replay | None:
        """The first of these that is there; of several, the newest of those that share the most calls with these."""
        ...

    async def keep_rounds(self, owner: str, rounds: Rounds) -> None: ...

    async def rounds(self, owner: str, hashes: Sequence[str]) -> list[Rounds]:
        """Those of these that are there."""
        ...

    async def keep_state(self, state: State) -> None:
        """Keep it as the newest of those with the same calls, of which the oldest go beyond some."""
        ...

    async def states(
        self, owner: str, issuer: str, calls: Collection[str] = (), hashes: Collection[str] = ()
    ) -> list[State]:
        """Those that have one of these calls, the newest first; and of each of these hashes the newest."""
        ...

    def may_have_states(self, owner: str, issuer: str) -> bool:
        """Whether `states` could find anything of theirs at all; it is told at once, and in doubt the answer is yes."""
        ...

    async def issue_approval(self, owner: str, fingerprint: str) -> None:
        """A client is asked to approve the tool call with this fingerprint."""
        ...

    async def redeem_approval(self, owner: str, fingerprint: str) -> bool:
        """Whether this client was asked to, and has not approved it yet; from now on it has. Of processes that ask at
        the same time one gets a yes."""
        ...

    async def size(self) -> Size: ...

    async def close(self) -> None: ...
