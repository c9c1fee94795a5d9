"""State of the Responses API, for upstreams that store nothing.

`expand` turns a request that continues an earlier response or a conversation into one that holds the whole history.
`store_turn` stores the turn once it has ended successfully. In between, `add_state_members` (whole answers) and
`StreamRewriter` (streams) add the members that the upstream cannot know to the response object: the id, and the
response or conversation that it continues.

Only the members concerned change; all others keep their bytes. An upstream that keeps state itself
(`upstream_keeps_state`) gets requests unchanged, unless they continue something that is stored here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from os import urandom
from typing import Any

import msgspec
from msgspec import Raw, Struct

from toolglot.errors import CONTEXT_OVERFLOW, ApiError, DecodeError, RefusedError
from toolglot.gateway.features.responses_items import (
    assign_ids,
    encode_array,
    find_references,
    list_history_items,
    list_turn_items,
    not_found_error,
    refusal_error,
    resolve_references,
    split_input,
)
from toolglot.receipt import ReceiptLine, receipt_line
from toolglot.store import History, Store, StoredTurn, StoreError
from toolglot.upstream.offload import offload
from toolglot.wire import json, sse

MAX_HISTORY_BYTES = json.MAX_DOCUMENT_BYTES
MAX_HISTORY_TURNS = 10_000
UNSTORED_REASON = "this gateway stores nothing: no later request can refer to the answer by its id"

Random = Callable[[int], bytes]

_members_decoder: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Raw])


class _RequestFields(Struct):
    """Members of a request that concern state."""

    previous_response_id: Any = None
    conversation: Any = None
    store: Any = None
    background: Any = None
    model: Any = None
    input: Raw = Raw()


class _ResponseFields(Struct):
    status: Any = None
    model: Any = None
    output: list[Raw] = []


_request_decoder = msgspec.json.Decoder(_RequestFields)
_response_decoder = msgspec.json.Decoder(_ResponseFields)


class ExpandedRequest(Struct, frozen=True, kw_only=True):
    """A request with its whole history, and what to store of the original request."""

    body: bytes
    id: str = ""
    """The id of the response to come."""
    is_local: bool = False
    """True if the gateway keeps the state of this turn, not the upstream."""
    store: bool = False
    previous: str | None = None
    conversation: str | None = None
    before: int = 0
    input: Raw | tuple[Raw, ...] = ()
    """The request's own `input`, or its items, without the history's."""
    unstored_lines: tuple[ReceiptLine, ...] | None = None
    """Receipt lines for a gateway that stores nothing; None if it stores."""

    @property
    def is_stored(self) -> bool:
        """Whether the turn or its items are stored when it ends."""
        return self.is_local and (self.store or self.conversation is not None)

    @property
    def changes_response(self) -> bool:
        """Whether the response object needs members that the upstream does not know."""
        return self.unstored_lines is not None or self.previous is not None or self.is_stored


def make_id(random: bytes, prefix: str = "resp") -> str:
    return f"{prefix}_{random.hex()}"


async def expand(
    body: bytes, store: Store, owner: str, *, upstream_keeps_state: bool = False, random: Random = urandom
) -> ExpandedRequest:
    """Add the stored history to a request. Invalid JSON passes unchanged: the request's decoder reports it.

    Raises:
        RefusedError: the request continues something that is not stored, or asks for something unsupported.
    """
    alone = await offload(
        len(body), expand_self_contained, body, upstream_keeps_state=upstream_keeps_state, random=random
    )
    if alone is not None:
        return alone
    asked = json.decode_typed(body, _request_decoder)
    items = await offload(len(body), split_input, asked.input)
    previous, conversation = _read_links(asked)
    try:
        history = await _load_history(store, owner, previous, conversation)
        before = [Raw(item.item) for item in list_history_items(history)] if history is not None else []
    except StoreError as error:
        if upstream_keeps_state:
            return ExpandedRequest(body=body)
        raise RefusedError(unavailable_error(error)) from None
    linked = history is not None and history.missing is None
    if upstream_keeps_state and not linked:
        return ExpandedRequest(body=body)
    if history is not None:
        _refuse_gaps(history, previous, conversation)
    _refuse_background(asked)
    own = await _resolve_named_items(items, store, owner, len(body))
    changed = own is not items or linked or asked.store is True
    return ExpandedRequest(
        body=await offload(len(body), _rewrite_body, body, before, own, changed=changed),
        id=make_id(random(24)),
        is_local=True,
        store=asked.store is not False,
        previous=previous,
        conversation=conversation,
        before=history.next if history is not None else 0,
        input=tuple(own),
    )


def expand_self_contained(
    body: bytes, *, upstream_keeps_state: bool = False, random: Random = urandom
) -> ExpandedRequest | None:
    """The same as `expand` for a request that refers to nothing stored; None for any other. Does not read the store.

    Raises:
        RefusedError: the request asks for something unsupported.
    """
    try:
        asked = json.decode_typed(body, _request_decoder)
        names = _find_named_items(asked)
        own = split_input(asked.input) if asked.store is True else []
    except DecodeError:
        return ExpandedRequest(body=body)
    if _read_links(asked) != (None, None):
        return None
    if upstream_keeps_state:
        return ExpandedRequest(body=body)
    _refuse_background(asked)
    if names:
        return None
    return ExpandedRequest(
        body=_rewrite_body(body, [], own, changed=asked.store is True),
        id=make_id(random(24)),
        is_local=True,
        store=asked.store is not False,
        input=asked.input.copy(),  # a view would keep the whole body in memory
    )


def _find_named_items(asked: _RequestFields) -> list[str]:
    """Ids of items that a request references instead of repeating them. Most requests have none.

    Raises:
        DecodeError: `input` is neither text nor an array.
        RefusedError: a reference has no id.
    """
    raw = bytes(asked.input)
    if b"item_reference" not in raw and raw[:1] in (b"", b'"', b"[", b"n"):
        return []
    return find_references(split_input(asked.input))


def _read_links(asked: _RequestFields) -> tuple[str | None, str | None]:
    """`previous_response_id` and the id in `conversation`: at most one of the two."""
    previous, conversation = asked.previous_response_id, asked.conversation
    if isinstance(conversation, dict):
        conversation = conversation.get("id", conversation)
    for name, value in (("previous_response_id", previous), ("conversation", conversation)):
        if value is not None and not isinstance(value, str):
            message = f"{name}: an id is expected, as a string"
            raise RefusedError(refusal_error(message, code="invalid_type", param=name))
    if previous is not None and conversation is not None:
        message = "previous_response_id and conversation cannot be used together: each of them names a history"
        raise RefusedError(refusal_error(message, code="mutually_exclusive_parameters", param="previous_response_id"))
    return previous, conversation


def expand_unstored(body: bytes) -> ExpandedRequest:
    """Check a request where nothing is stored. A client that relies on the store gets an error: an answer without the
    history would be wrong, and so would an answer that claims to be stored.

    Raises:
        RefusedError: the request continues a stored response or conversation.
    """
    try:
        asked = json.decode_typed(body, _request_decoder)
        named = next(iter(_find_named_items(asked)), None)
    except DecodeError:
        return ExpandedRequest(body=body)
    for param, name in zip(
        ("previous_response_id", "conversation", "input"), (*_read_links(asked), named), strict=True
    ):
        if name is not None:
            message = f"{param}: '{name}' not found: this gateway stores nothing; send the whole history as input"
            raise RefusedError(refusal_error(message, code="previous_response_not_found", param=param))
    line = receipt_line("loss" if asked.store is True else "note", "store", "store", UNSTORED_REASON)
    return ExpandedRequest(body=body, unstored_lines=() if asked.store is False else (line,))


async def _load_history(store: Store, owner: str, previous: str | None, conversation: str | None) -> History | None:
    if previous is not None:
        return await store.history(owner, previous, max_bytes=MAX_HISTORY_BYTES, max_turns=MAX_HISTORY_TURNS)
    if conversation is not None:
        return await store.conversation_history(owner, conversation, max_bytes=MAX_HISTORY_BYTES)
    return None


def _refuse_gaps(history: History, previous: str | None, conversation: str | None) -> None:
    param = "previous_response_id" if previous is not None else "conversation"
    if history.too_large:
        message = (
            f"{param}: the history has more than {MAX_HISTORY_BYTES} bytes or {MAX_HISTORY_TURNS} turns; "
            "begin a new one with a summary"
        )
        raise RefusedError(refusal_error(message, code=CONTEXT_OVERFLOW, param=param))
    if history.missing is None:
        return
    if conversation is not None:
        raise RefusedError(not_found_error("conversation", conversation, param=param))
    # The API answers 400 here, not 404. Clients look for this code and send the whole history again.
    message = f"Previous response with id '{previous}' not found."
    if history.missing != previous:
        message += f" It goes on from '{history.missing}', which is gone."
    raise RefusedError(refusal_error(message, code="previous_response_not_found", param=param))


def _refuse_background(asked: _RequestFields) -> None:
    if asked.background is True:
        message = "background: this model's upstream cannot run a response in the background; leave it out, or stream"
        raise RefusedError(refusal_error(message, code="unsupported_parameter", param="background"))


async def _resolve_named_items(items: list[Raw], store: Store, owner: str, size: int) -> list[Raw]:
    """Replace item references with the stored items. Clients send references to items that they assume are stored."""
    names = await offload(size, find_references, items)
    if not names:
        return items
    try:
        return resolve_references(items, await store.holders(owner, names))
    except StoreError as error:
        raise RefusedError(unavailable_error(error)) from None


def _rewrite_body(body: bytes, before: list[Raw], own: list[Raw], *, changed: bool) -> bytes:
    if not changed:
        return body
    members = json.decode_typed(body, _members_decoder)
    members.pop("previous_response_id", None)
    members.pop("conversation", None)
    if bytes(members.get("store", b"")) == b"true":
        # The gateway stores it. Upstreams without a store refuse this member.
        del members["store"]
    if before or own or "input" in members:
        members["input"] = [*before, *own]
    return json.encode(members)


def unavailable_error(error: StoreError) -> ApiError:
    message = f"The stored responses are not available: {error}; send the whole history as input, or try again"
    return ApiError(kind="overloaded", status=503, code="server_error", message=message, retry_after=1.0)


def add_state_members(expanded: ExpandedRequest, response: bytes) -> bytes:
    """Add the state members to a whole response."""
    if not expanded.changes_response or (expanded.unstored_lines is not None and _STORED.search(response) is None):
        return response
    try:
        members = json.decode_typed(response, _members_decoder)
    except DecodeError:
        return response
    return (
        json.encode(_set_state_members(expanded, members))
        if _is_response(members) and _needs_change(expanded, members)
        else response
    )


_STORED = re.compile(rb'"store"[ \t\r\n]*:[ \t\r\n]*true')


def _is_response(members: dict[str, Any]) -> bool:
    return bytes(members.get("object", b"")) == b'"response"'


def _needs_change(expanded: ExpandedRequest, members: dict[str, Any]) -> bool:
    """Return whether the state members of the response object must change."""
    return expanded.unstored_lines is None or bytes(members.get("store", b"")) == b"true"


def _set_state_members(expanded: ExpandedRequest, members: dict[str, Any]) -> dict[str, Any]:
    members["store"] = expanded.store
    if expanded.is_stored:
        members["id"] = expanded.id
    if expanded.previous is not None:
        members["previous_response_id"] = expanded.previous
    if expanded.conversation is not None:
        members["conversation"] = {"id": expanded.conversation}
    return members


_STORED_STATUSES = ("completed", "incomplete")


async def store_turn(expanded: ExpandedRequest, response: bytes, store: Store, owner: str, *, now: float) -> bool:
    """Store a turn that has ended successfully. Returns whether it was stored. `response` is the object that the client
    gets.

    Call it before the client gets the last bytes of the answer: its next request may follow at once.

    Raises:
        StoreError: the turn could not be stored. The answer is still valid.
    """
    if not expanded.is_stored:
        return False
    try:
        answered = json.decode_typed(response, _response_decoder)
    except DecodeError:
        return False
    if answered.status not in _STORED_STATUSES:
        return False
    turn = StoredTurn(
        id=expanded.id,
        owner=owner,
        created=now,
        model=answered.model if isinstance(answered.model, str) else "",
        previous=expanded.previous,
        conversation=expanded.conversation,
        before=expanded.before,
        request_input=await offload(len(expanded.body), _encode_input, expanded.input),
        response=response,
    )
    items = list_turn_items(turn) if expanded.conversation is not None else []
    if expanded.store:
        await store.save(turn, items, [item.id for item in assign_ids(answered.output, turn.id)])
    elif expanded.conversation is not None:
        # `store` concerns the response; a conversation keeps its items in any case.
        return await store.add_items(owner, expanded.conversation, items) is not None
    return True


def _encode_input(own: Raw | tuple[Raw, ...]) -> bytes:
    return encode_array(own if isinstance(own, tuple) else split_input(own))


def mark_unstored(response: bytes) -> bytes:
    """Mark a response object as not stored: it cannot be continued by its id."""
    try:
        members = json.decode_typed(response, _members_decoder)
    except DecodeError:
        return response
    return json.encode({**members, "store": False})


_LIFECYCLE_KINDS = rb"response\.(?:created|queued|in_progress|completed|incomplete|failed)"
_LIFECYCLE = re.compile(rb'(?:\A|[\r\n])event: ?%b[\r\n]|"type" ?: ?"%b"' % (_LIFECYCLE_KINDS, _LIFECYCLE_KINDS))
_LIFECYCLE_STARTS = tuple(
    b"event: response.%b\n" % kind
    for kind in (b"created", b"queued", b"in_progress", b"completed", b"incomplete", b"failed")
)
_ENDS_WELL = (b'"response.completed"', b'"response.incomplete"')
_FAILED = b'"response.failed"'


class StreamRewriter:
    """Adds the state members to the response objects in a client's stream.

    `response` is the object of a stream that has ended successfully; None until then.
    """

    def __init__(self, expanded: ExpandedRequest, limit: int = sse.MAX_EVENT_BYTES) -> None:
        self.response: bytes | None = None
        self._expanded = expanded
        self._limit = limit
        self._held = bytearray()
        self._idle = not expanded.changes_response

    def feed(self, data: bytes) -> bytes:
        """Return the bytes to send for these bytes. An incomplete event is held until it is complete."""
        if self._idle:
            return data
        if not self._held and data.endswith(b"\n\n") and b"\r" not in data:
            # Most pieces are one event, and its name is enough to skip it.
            if (
                data.startswith(b"event: ")
                and data.find(b"\n\n") == len(data) - 2
                and not data.startswith(_LIFECYCLE_STARTS)
            ):
                return data
            return self._rewrite(data)
        start = max(len(self._held) - 3, 0)
        self._held += data
        end = sse.end_of_frames(self._held, start)
        if not end and len(self._held) > self._limit:
            self._idle = True
            return self.close()
        whole = bytes(self._held[:end])
        del self._held[:end]
        return self._rewrite(whole)

    def retract(self, frames: bytes) -> bytes:
        """Mark the final response object in these frames as not stored."""
        return b"".join(map(self._retract_frame, sse.split_frames(frames)))

    def _retract_frame(self, frame: bytes) -> bytes:
        if not any(end in frame for end in _ENDS_WELL):
            return frame
        try:
            ((event, data),) = sse.SseReader(self._limit).feed(frame)
            members = json.decode_typed(data, _members_decoder)
            members["response"] = Raw(mark_unstored(bytes(members["response"])))
        except (DecodeError, ValueError, KeyError):
            return frame
        return sse.frame(json.encode_frame(members), event)

    def close(self) -> bytes:
        """Return the bytes left over when the stream ends inside an event."""
        rest = bytes(self._held)
        self._held.clear()
        return rest

    def _rewrite(self, frames: bytes) -> bytes:
        if _LIFECYCLE.search(frames) is None:
            return frames
        return b"".join(map(self._rewrite_frame, sse.split_frames(frames)))

    def _rewrite_frame(self, frame: bytes) -> bytes:
        if _LIFECYCLE.search(frame) is None:
            return frame
        try:
            ((event, data),) = sse.SseReader(self._limit).feed(frame)
            members = json.decode_typed(data, _members_decoder)
            response = json.decode_typed(bytes(members["response"]), _members_decoder)
        except (DecodeError, ValueError, KeyError):
            return frame
        if not _needs_change(self._expanded, response):
            return frame
        echoed = _set_state_members(self._expanded, response)
        kind = bytes(members.get("type", b""))
        if kind == _FAILED:
            echoed["store"] = False  # failed responses are not stored
        encoded = json.encode(echoed)
        if kind in _ENDS_WELL:
            self.response = encoded
        members["response"] = Raw(encoded)
        return sse.frame(json.encode_frame(members), event)
