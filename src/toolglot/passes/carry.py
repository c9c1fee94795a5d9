"""Reasoning state of one vendor, carried by the client of another.

A model's signatures and encrypted reasoning must come back to it byte for byte, but the client in between speaks a
dialect with no place for them, except the place for its own vendor's state, which clients return untouched. So the
foreign state travels there in an envelope: on the way out it is packed into the client's slot, and when the client
sends its history, the envelope is opened and the state stands under its owner's name again. No vendor ever sees the
envelope, because opening it comes before everything else.

State on a call, where most dialects have no slot, travels in an empty `Thinking` block in front of it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from toolglot.errors import DecodeError
from toolglot.events import Close, Delta, Event, Open, merge_native
from toolglot.ir import Block, Message, Native, Request, Thinking, ToolCall, native_of, replace
from toolglot.passes import Context
from toolglot.passes.blocks import Place, with_messages
from toolglot.receipt import Receipt
from toolglot.wire import json

# The whole envelope is base64, because Gemini's clients check that. Nine bytes make twelve characters that never vary.
_SEAL = b"toolglot\0"
_PREFIX = base64.b64encode(_SEAL).decode()


def pack(owner: str, fields: dict[str, Any], for_call: bool = False) -> str:
    """An envelope around the state that `owner` keeps on a block."""
    return base64.b64encode(_SEAL + json.encode([owner, for_call, fields])).decode()


def unpack(envelope: object) -> tuple[str, bool, dict[str, Any]] | None:
    """(owner, whether it belongs to the next call, the state); None for anything that is not an envelope of ours."""
    if not isinstance(envelope, str) or not envelope.startswith(_PREFIX):
        return None
    try:
        value = json.decode_frame(base64.b64decode(envelope, validate=True)[len(_SEAL) :])
    except (binascii.Error, DecodeError, ValueError):
        return None
    match value:
        case [str() as owner, bool() as for_call, dict() as fields]:
            return owner, for_call, fields
    return None


def open_envelopes(request: Request, context: Context) -> Request:
    """What the client carried for other vendors, back under their names."""
    if context.slot is None:
        return request
    messages: list[Message] = []
    state: Native = {}  # for the next call, which may stand in the next message
    for number, message in enumerate(request.messages):
        if message.role != "assistant":
            state = {}
            messages.append(message)
            continue
        content: list[Block] = []
        for index, block in enumerate(message.content):
            envelope = native_of(block, context.source).get(context.slot) if isinstance(block, Thinking) else None
            opened = unpack(envelope)
            if opened is not None:
                owner, for_call, fields = opened
                if for_call:
                    state = {owner: fields}
                    continue
                context.receipt.note(str(Place(number, index)), "reasoning state", f"the client carried it for {owner}")
                block = replace(block, native={owner: fields})
            elif isinstance(block, ToolCall) and state:
                block, state = replace(block, native=merge_native(block.native, state)), {}
            content.append(block)
        if tuple(content) == message.content:
            messages.append(message)
        elif content:
            messages.append(replace(message, content=tuple(content)))
    return with_messages(request, tuple(messages))


class Carrier:
    """The event pass that packs: it needs sequenced events, and gives blocks new indices where it adds one."""

    __slots__ = ("_client", "_native", "_owner", "_owner_slot", "_receipt", "_shift", "_slot")

    def __init__(self, client: str, slot: str | None, owner: str, owner_slot: str | None, receipt: Receipt) -> None:
        self._client = client
        self._slot = slot
        self._owner = owner
        self._owner_slot = owner_slot
        self._receipt = receipt
        self._shift = 0
        self._native: Native | None = None  # of the open Thinking block

    def feed(self, event: Event) -> Sequence[Event]:
        match event:
            case Delta(index=index, text=text):
                return (Delta(index + self._shift, text),) if self._shift else (event,)
            case Open(index=index, block=block):
                return self._opened(index, block)
            case Close():
                return (self._closed(event),)
            case _:
                return (event,)

    def _opened(self, index: int, block: Block) -> Sequence[Event]:
        if isinstance(block, Thinking):
            self._native = block.native
        elif isinstance(block, ToolCall) and self._has_state(block.native):
            if self._slot is None:
                self._lost(index)
            else:
                envelope = pack(self._owner, block.native[self._owner], for_call=True)
                extra = index + self._shift
                self._shift += 1
                carrier = Thinking(native={self._client: {self._slot: envelope}})
                return Open(extra, carrier), Close(index=extra), Open(extra + 1, block)
        return (Open(index + self._shift, block),)

    def _closed(self, event: Close) -> Close:
        native = event.native
        if self._native is not None:
            whole = merge_native(self._native, native)
            self._native = None
            # Also reasoning without state is put in an envelope, so that it is known as foreign when it comes back.
            if self._slot is not None and self._owner != self._client:
                envelope = pack(self._owner, whole.get(self._owner, {}))
                native = merge_native(native, {self._client: {self._slot: envelope}})
            elif self._has_state(whole):
                self._lost(event.index)
        return replace(event, index=event.index + self._shift, native=native)

    def _has_state(self, native: Native) -> bool:
        fields = native.get(self._owner, {})
        return self._owner != self._client and (self._owner_slot in fields or "$redacted" in fields)

    def _lost(self, index: int) -> None:
        self._receipt.loss(f"content[{index}]", "reasoning state", "the client's API has no field that carries it")
