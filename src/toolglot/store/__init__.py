"""State that the gateway keeps between requests: responses, their conversations, and what models can do.

A `Store` keeps JSON as bytes and does not interpret it. Everything belongs to an `owner`, a name derived from the
client's key; for any other owner it does not exist. A conversation, or all responses that continue one, form a thread.
Threads are deleted as a whole, the least recently used first, when the store is full or they are too old, so that no
conversation loses its beginning. Only findings about models belong to no owner and no thread.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from toolglot.errors import ToolglotError

__all__ = [
    "History",
    "ItemPage",
    "Store",
    "StoreError",
    "StoreFailure",
    "StoreSize",
    "StoredConversation",
    "StoredItem",
    "StoredReplay",
    "StoredRounds",
    "StoredState",
    "StoredTurn",
    "ToolVerdict",
]

StoreFailure = Literal[
    "full",  # the disk, the file or the store's own limit
    "locked",  # another process holds the file
    "busy",  # too many calls are waiting already
    "duplicate",  # this id exists already
    "closed",
    "foreign",  # the file is not a store, or it is damaged
    "newer",  # a later version of this program wrote the file
    "failed",
]


class StoreError(ToolglotError):
    """The store failed. The answer to the client need not fail for it."""

    def __init__(self, failure: StoreFailure, message: str) -> None:
        super().__init__(message)
        self.failure = failure


class StoredItem(Struct, frozen=True):
    """One item of a conversation. `item` is its JSON as the client or the model wrote it, without a derived id."""

    id: str
    item: bytes


class StoredTurn(Struct, frozen=True, kw_only=True):
    """One finished response: the new part of its request, its answer, and its predecessor."""

    id: str
    owner: str
    created: float
    model: str = ""
    previous: str | None = None
    """The response that this one continues."""
    conversation: str | None = None
    before: int = 0
    """The conversation's items at lower positions precede this turn."""
    request_input: bytes = b"[]"
    """A JSON array: the request's own items, without the history."""
    response: bytes = b"{}"
    """The response object as the client got it."""


class History(Struct, frozen=True, kw_only=True):
    """The content before a turn, oldest first: the items of a conversation, then responses."""

    items: tuple[StoredItem, ...] = ()
    turns: tuple[StoredTurn, ...] = ()
    next: int = 0
    """The position of the conversation's next item."""
    missing: str | None = None
    """The id of a response or conversation that does not exist."""
    too_large: bool = False
    """True if there is more data than the caller's limit."""


class StoredConversation(Struct, frozen=True, kw_only=True):
    id: str
    owner: str
    created: float
    metadata: bytes = b"{}"


class ItemPage(Struct, frozen=True):
    items: tuple[StoredItem, ...]
    more: bool


class ToolVerdict(Struct, frozen=True, kw_only=True):
    """A finding about a model's tool support, from a probe or from a request that its server refused."""

    upstream: str
    """The address of the upstream, because its name may be given to another one."""
    model: str
    """The upstream's name of the model."""
    tools: Literal["native", "text"]
    """Whether it takes tools natively, or needs them as text."""
    found: float
    """Time of the discovery in Unix seconds, as is `until`."""
    until: float
    """Expiry: servers are restarted with other flags."""


class StoredReplay(Struct, frozen=True, kw_only=True):
    """Messages of a conversation that an upstream expects back with its next turn, as of one answer."""

    owner: str
    upstream: str
    """Hash of the upstream's address and credential."""
    hash: str
    """Hash of the conversation including that answer, as the client sends it (`upstream/transcript.py`)."""
    conversation: str
    """The upstream's own id for the conversation."""
    value: bytes
    calls: tuple[str, ...] = ()
    """Hashes of the last call ids (`upstream/transcript.py`), which distinguish conversations with the same content."""


class StoredRounds(Struct, frozen=True):
    """Rounds before one answer that its client did not see: calls that were run, and their results."""

    hash: str
    """Hash of the conversation including that answer, as the client sends it (`upstream/transcript.py`)."""
    value: bytes


class StoredState(Struct, frozen=True, kw_only=True):
    """State that a model expects back with one answer: signatures, encrypted reasoning and the like."""

    owner: str
    issuer: str
    """Identity that the state is bound to: a hash of the upstream, its credential and, if it is bound to it, the
    model."""
    calls: str
    """Identifies the answer: a hash of its call ids and more; empty if it has no ids."""
    hash: str
    """Hash of the conversation including that answer, as the client sends it (`upstream/transcript.py`)."""
    value: bytes


class StoreSize(Struct, frozen=True):
    bytes: int
    threads: int


class Store(Protocol):
    """Storage of responses and state. Every method may raise `StoreError`. Methods return None or False for data that
    does not exist or belongs to another owner."""

    async def save(self, turn: StoredTurn, items: Sequence[StoredItem] = (), output_ids: Sequence[str] = ()) -> None:
        """Save a turn; `items` are appended to its conversation, `output_ids` name the items of its output. An item
        whose id the conversation already has gets another one."""
        ...

    async def turn(self, owner: str, response: str) -> StoredTurn | None: ...

    async def delete_turn(self, owner: str, response: str) -> bool: ...

    async def history(self, owner: str, response: str, *, max_bytes: int, max_turns: int) -> History:
        """Return a response and everything before it."""
        ...

    async def holders(self, owner: str, items: Sequence[str]) -> Mapping[str, bytes]:
        """Map ids of output items to the newest response object that contains each."""
        ...

    async def create_conversation(self, conversation: StoredConversation, items: Sequence[StoredItem] = ()) -> None: ...

    async def conversation(self, owner: str, conversation: str) -> StoredConversation | None: ...

    async def update_conversation(self, owner: str, conversation: str, metadata: bytes) -> bool: ...

    async def delete_conversation(self, owner: str, conversation: str) -> bool:
        """Delete a conversation and its items; responses that were made in it stay."""
        ...

    async def conversation_history(self, owner: str, conversation: str, *, max_bytes: int) -> History:
        """Return all the items of a conversation."""
        ...

    async def add_items(
        self, owner: str, conversation: str, items: Sequence[StoredItem]
    ) -> tuple[StoredItem, ...] | None:
        """Append items to a conversation. Returns them with their final ids."""
        ...

    async def page(
        self, owner: str, conversation: str, *, after: str | None, limit: int, descending: bool
    ) -> ItemPage | None:
        """Return some items of a conversation; None also if there is no item `after`."""
        ...

    async def item(self, owner: str, conversation: str, item: str) -> StoredItem | None: ...

    async def delete_item(self, owner: str, conversation: str, item: str) -> bool: ...

    async def remember(self, verdict: ToolVerdict) -> None:
        """Save the findings about a model, replacing earlier ones."""
        ...

    async def verdict(self, upstream: str, model: str) -> ToolVerdict | None:
        """Return the findings about a model, unless they have expired."""
        ...

    async def keep_replay(self, replay: StoredReplay) -> None:
        """Save a replay as the newest of its conversation, and of those with the same content. Both numbers are
        limited. It replaces a replay with the same calls.
        """
        ...

    async def replay(
        self, owner: str, upstream: str, hashes: Sequence[str], calls: Collection[str] = ()
    ) -> StoredReplay | None:
        """Return the replay of the first of these hashes that exists. If there are several, return the newest of those
        that share the most calls.
        """
        ...

    async def keep_rounds(self, owner: str, rounds: StoredRounds) -> None: ...

    async def rounds(self, owner: str, hashes: Sequence[str]) -> list[StoredRounds]:
        """Return the existing rounds for these hashes."""
        ...

    async def keep_state(self, state: StoredState) -> None:
        """Save a state as the newest of those with the same calls. Their number is limited."""
        ...

    async def states(
        self, owner: str, issuer: str, calls: Collection[str] = (), hashes: Collection[str] = ()
    ) -> list[StoredState]:
        """Return the states with one of these calls, the newest first, and the newest state for each hash."""
        ...

    def may_have_states(self, owner: str, issuer: str) -> bool:
        """Tell without waiting whether `states` could find anything for these owners; True if in doubt."""
        ...

    async def issue_approval(self, owner: str, fingerprint: str) -> None:
        """Record that a client is asked to approve the tool call with this fingerprint."""
        ...

    async def redeem_approval(self, owner: str, fingerprint: str) -> bool:
        """Return whether this client was asked and has not approved it yet, and mark it as approved. Of concurrent
        processes only one gets True."""
        ...

    async def size(self) -> StoreSize: ...

    async def close(self) -> None: ...
