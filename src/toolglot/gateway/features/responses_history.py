"""The Responses API's memory, over upstreams that have none.

`expand` turns a request that goes on from an earlier response, or from a conversation, into one that says everything
itself. `settle` keeps the turn once it has ended well. In between, `echo` (whole answers) and `StreamTap` (streams)
put into the response object what the upstream cannot know: the id, and what the response goes on from.

Only the members concerned are touched; all others keep their bytes. An upstream that keeps state itself
(`upstream_keeps_state`) gets requests as they are, unless they go on from something that is stored here.
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
    api_refusal,
    array,
    dereferenced,
    input_items,
    items_of_history,
    items_of_turn,
    not_found,
    referenced,
    with_ids,
)
from toolglot.receipt import Loss
from toolglot.store import History, Store, StoredTurn, StoreError
from toolglot.upstream.offload import offload
from toolglot.wire import json, sse

MAX_HISTORY_BYTES = json.MAX_DOCUMENT_BYTES
MAX_HISTORY_TURNS = 10_000
UNSTORED = "this gateway stores nothing: nobody can go on from the answer by its id"

Random = Callable[[int], bytes]

_members: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Raw])


class _Asked(Struct):
    """What of a request is about state."""

    previous_response_id: Any = None
    conversation: Any = None
    store: Any = None
    background: Any = None
    model: Any = None
    input: Raw = Raw()


class _Answered(Struct):
    status: Any = None
    model: Any = None
    output: list[Raw] = []


_asked = msgspec.json.Decoder(_Asked)
_answered = msgspec.json.Decoder(_Answered)


class Expanded(Struct, frozen=True, kw_only=True):
    """A request that says everything itself, and what is to be remembered of the one it was."""

    body: bytes
    id: str = ""
    """The id of the response to come."""
    kept: bool = False
    """The state of this turn lies here: its answer goes through `echo` or a `StreamTap`, then to `settle`."""
    store: bool = False
    previous: str | None = None
    conversation: str | None = None
    before: int = 0
    input: Raw | tuple[Raw, ...] = ()
    """The request's own `input`, or its items, without the history's."""
    withheld: tuple[Loss, ...] | None = None
    """For the receipt, where nothing is stored whatever is asked: the answer says so, too."""

    @property
    def remembered(self) -> bool:
        """Is there anything to store when the turn has ended?"""
        return self.kept and (self.store or self.conversation is not None)

    @property
    def echoes(self) -> bool:
        """Has the response object to say anything that the upstream does not know?"""
        return self.remembered or self.previous is not None or self.withheld is not None


def mint_id(random: bytes, prefix: str = "resp") -> str:
    return f"{prefix}_{random.hex()}"


async def expand(
    body: bytes, store: Store, owner: str, *, upstream_keeps_state: bool = False, random: Random = urandom
) -> Expanded:
    """The request with its history in it. Of bytes that are no request it says nothing: their decoder will.

    Raises:
        RefusedError: it goes on from something that is not there, or asks for what cannot be done.
    """
    alone = await offload(len(body), expand_alone, body, upstream_keeps_state=upstream_keeps_state, random=random)
    if alone is not None:
        return alone
    asked = json.typed(body, _asked)
    items = await offload(len(body), input_items, asked.input)
    previous, conversation = _links(asked)
    try:
        history = await _history(store, owner, previous, conversation)
        before = [Raw(item.item) for item in items_of_history(history)] if history is not None else []
    except StoreError as error:
        if upstream_keeps_state:
            return Expanded(body=body)
        raise RefusedError(unavailable(error)) from None
    linked = history is not None and history.missing is None
    if upstream_keeps_state and not linked:
        return Expanded(body=body)
    if history is not None:
        _refuse_gaps(history, previous, conversation)
    _refuse_background(asked)
    own = await _resolve(items, store, owner, len(body))
    changed = own is not items or linked or asked.store is True
    return Expanded(
        body=await offload(len(body), _rewritten, body, before, own, changed=changed),
        id=mint_id(random(24)),
        kept=True,
        store=asked.store is not False,
        previous=previous,
        conversation=conversation,
        before=history.next if history is not None else 0,
        input=tuple(own),
    )


def expand_alone(body: bytes, *, upstream_keeps_state: bool = False, random: Random = urandom) -> Expanded | None:
    """The same as `expand` for a request that names nothing stored; None for any other. Asks no store.

    Raises:
        RefusedError: it asks for what cannot be done.
    """
    try:
        asked = json.typed(body, _asked)
        names = _named_items(asked)
        own = input_items(asked.input) if asked.store is True else []
    except DecodeError:
        return Expanded(body=body)
    if _links(asked) != (None, None):
        return None
    if upstream_keeps_state:
        return Expanded(body=body)
    _refuse_background(asked)
    if names:
        return None
    return Expanded(
        body=_rewritten(body, [], own, changed=asked.store is True),
        id=mint_id(random(24)),
        kept=True,
        store=asked.store is not False,
        input=asked.input.copy(),  # which otherwise holds all of the body
    )


def _named_items(asked: _Asked) -> list[str]:
    """The ids of items that a request names instead of repeating them. Most requests name none.

    Raises:
        DecodeError: `input` is neither text nor an array.
        RefusedError: an item is not named.
    """
    raw = bytes(asked.input)
    if b"item_reference" not in raw and raw[:1] in (b"", b'"', b"[", b"n"):
        return []
    return referenced(input_items(asked.input))


def _links(asked: _Asked) -> tuple[str | None, str | None]:
    """`previous_response_id` and the id in `conversation`: at most one of the two."""
    previous, conversation = asked.previous_response_id, asked.conversation
    if isinstance(conversation, dict):
        conversation = conversation.get("id", conversation)
    for name, value in (("previous_response_id", previous), ("conversation", conversation)):
        if value is not None and not isinstance(value, str):
            message = f"{name}: an id is expected, as a string"
            raise RefusedError(api_refusal(message, code="invalid_type", param=name))
    if previous is not None and conversation is not None:
        message = "previous_response_id and conversation cannot be used together: each of them names a history"
        raise RefusedError(api_refusal(message, code="mutually_exclusive_parameters", param="previous_response_id"))
    return previous, conversation


def unstored(body: bytes) -> Expanded:
    """A request where nothing is stored. Whoever counts on it must be told: an answer without the history would be
    wrong, and one that says that it is stored would be, too.

    Raises:
        RefusedError: the request goes on from something.
    """
    try:
        asked = json.typed(body, _asked)
        named = next(iter(_named_items(asked)), None)
    except DecodeError:
        return Expanded(body=body)
    for param, name in zip(("previous_response_id", "conversation", "input"), (*_links(asked), named), strict=True):
        if name is not None:
            message = f"{param}: '{name}' not found: this gateway stores nothing; send the whole history as input"
            raise RefusedError(api_refusal(message, code="previous_response_not_found", param=param))
    line = Loss("store", "store", UNSTORED, "loss" if asked.store is True else "note")
    return Expanded(body=body, withheld=() if asked.store is False else (line,))


async def _history(store: Store, owner: str, previous: str | None, conversation: str | None) -> History | None:
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
        raise RefusedError(api_refusal(message, code=CONTEXT_OVERFLOW, param=param))
    if history.missing is None:
        return
    if conversation is not None:
        raise RefusedError(not_found("conversation", conversation, param=param))
    # The API has 400 here, not 404, and clients look for this code to send the whole history again.
    message = f"Previous response with id '{previous}' not found."
    if history.missing != previous:
        message += f" It goes on from '{history.missing}', which is gone."
    raise RefusedError(api_refusal(message, code="previous_response_not_found", param=param))


def _refuse_background(asked: _Asked) -> None:
    if asked.background is True:
        message = "background: this model's upstream cannot run a response in the background; leave it out, or stream"
        raise RefusedError(api_refusal(message, code="unsupported_parameter", param="background"))


async def _resolve(items: list[Raw], store: Store, owner: str, size: int) -> list[Raw]:
    """The items, with those that are only named put in. Clients do so for what they believe to be stored."""
    names = await offload(size, referenced, items)
    if not names:
        return items
    try:
        return dereferenced(items, await store.holders(owner, names))
    except StoreError as error:
        raise RefusedError(unavailable(error)) from None


def _rewritten(body: bytes, before: list[Raw], own: list[Raw], *, changed: bool) -> bytes:
    if not changed:
        return body
    members = json.typed(body, _members)
    members.pop("previous_response_id", None)
    members.pop("conversation", None)
    if bytes(members.get("store", b"")) == b"true":
        # It is stored here. Upstreams that cannot do it refuse to be asked for it.
        del members["store"]
    if before or own or "input" in members:
        members["input"] = [*before, *own]
    return json.encode(members)


def unavailable(error: StoreError) -> ApiError:
    message = f"The stored responses are out of reach: {error}; send the whole history as input, or try again"
    return ApiError(kind="overloaded", status=503, code="server_error", message=message, retry_after=1.0)


def echo(expanded: Expanded, response: bytes) -> bytes:
    """A whole response, as the client is to see it."""
    if not expanded.echoes or (expanded.withheld is not None and _STORED.search(response) is None):
        return response
    try:
        members = json.typed(response, _members)
    except DecodeError:
        return response
    return json.encode(_echoed(expanded, members)) if _is_response(members) and _says(expanded, members) else response


_STORED = re.compile(rb'"store"[ \t\r\n]*:[ \t\r\n]*true')


def _is_response(members: dict[str, Any]) -> bool:
    return bytes(members.get("object", b"")) == b'"response"'


def _says(expanded: Expanded, members: dict[str, Any]) -> bool:
    """Does the object say anything else than it should?"""
    return expanded.withheld is None or bytes(members.get("store", b"")) == b"true"


def _echoed(expanded: Expanded, members: dict[str, Any]) -> dict[str, Any]:
    members["store"] = expanded.store
    if expanded.remembered:
        members["id"] = expanded.id
    if expanded.previous is not None:
        members["previous_response_id"] = expanded.previous
    if expanded.conversation is not None:
        members["conversation"] = {"id": expanded.conversation}
    return members


_SETTLED = ("completed", "incomplete")


async def settle(expanded: Expanded, response: bytes, store: Store, owner: str, *, now: float) -> bool:
    """Keep a turn that has ended well; whether it was kept. `response` is the object as the client gets it.

    It is best called before the client gets the last bytes of the answer, as its next request may be quick.

    Raises:
        StoreError: it could not be kept. The answer is good all the same.
    """
    if not expanded.remembered:
        return False
    try:
        answered = json.typed(response, _answered)
    except DecodeError:
        return False
    if answered.status not in _SETTLED:
        return False
    turn = StoredTurn(
        id=expanded.id,
        owner=owner,
        created=now,
        model=answered.model if isinstance(answered.model, str) else "",
        previous=expanded.previous,
        conversation=expanded.conversation,
        before=expanded.before,
        request_input=await offload(len(expanded.body), _input_array, expanded.input),
        response=response,
    )
    items = items_of_turn(turn) if expanded.conversation is not None else []
    if expanded.store:
        await store.save(turn, items, [item.id for item in with_ids(answered.output, turn.id)])
    elif expanded.conversation is not None:
        # `store` is about the response; a conversation remembers its items in any case.
        return await store.add_items(owner, expanded.conversation, items) is not None
    return True


def _input_array(own: Raw | tuple[Raw, ...]) -> bytes:
    return array(own if isinstance(own, tuple) else input_items(own))


def not_stored(response: bytes) -> bytes:
    """The response object, saying that nobody can go on from it by its id."""
    try:
        members = json.typed(response, _members)
    except DecodeError:
        return response
    return json.encode({**members, "store": False})


_KINDS = rb"response\.(?:created|queued|in_progress|completed|incomplete|failed)"
_LIFECYCLE = re.compile(rb'(?:\A|[\r\n])event: ?%b[\r\n]|"type" ?: ?"%b"' % (_KINDS, _KINDS))
_NAMED = tuple(
    b"event: response.%b\n" % kind
    for kind in (b"created", b"queued", b"in_progress", b"completed", b"incomplete", b"failed")
)
_ENDS_WELL = (b'"response.completed"', b'"response.incomplete"')
_FAILED = b'"response.failed"'


class StreamTap:
    """Sees the bytes of a stream on their way to the client, and puts into its few whole response objects what
    `echo` puts into a response. `response` is the object of a stream that has ended well, None until then.
    """

    def __init__(self, expanded: Expanded, limit: int = sse.MAX_EVENT_BYTES) -> None:
        self.response: bytes | None = None
        self._expanded = expanded
        self._limit = limit
        self._held = bytearray()
        self._idle = not expanded.echoes

    def feed(self, data: bytes) -> bytes:
        """What goes out for these bytes; half an event waits for its other half."""
        if self._idle:
            return data
        if not self._held and data.endswith(b"\n\n") and b"\r" not in data:
            # Mostly it is one event in one piece, whose name tells enough.
            if data.startswith(b"event: ") and data.find(b"\n\n") == len(data) - 2 and not data.startswith(_NAMED):
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
        """The same frames, of which the last response object says that it is not stored."""
        return b"".join(map(self._retract_frame, sse.split_frames(frames)))

    def _retract_frame(self, frame: bytes) -> bytes:
        if not any(end in frame for end in _ENDS_WELL):
            return frame
        try:
            ((event, data),) = sse.SseReader(self._limit).feed(frame)
            members = json.typed(data, _members)
            members["response"] = Raw(not_stored(bytes(members["response"])))
        except (DecodeError, ValueError, KeyError):
            return frame
        return sse.frame(json.encode(members), event)

    def close(self) -> bytes:
        """What is left when the stream ends in the middle of an event."""
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
            members = json.typed(data, _members)
            response = json.typed(bytes(members["response"]), _members)
        except (DecodeError, ValueError, KeyError):
            return frame
        if not _says(self._expanded, response):
            return frame
        echoed = _echoed(self._expanded, response)
        kind = bytes(members.get("type", b""))
        if kind == _FAILED:
            echoed["store"] = False  # only what has ended well is stored
        encoded = json.encode(echoed)
        if kind in _ENDS_WELL:
            self.response = encoded
        members["response"] = Raw(encoded)
        return sse.frame(json.encode(members), event)
