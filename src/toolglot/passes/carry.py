"""Reasoning state of one vendor, carried by the client of another.

A model's signatures and encrypted reasoning must come back to it byte for byte, but the client in between speaks a
dialect with no place for them, except the place for its own vendor's state, which clients return untouched. So the
foreign state travels there in an envelope: on the way out it is packed into the client's slot, and when the client
sends its history, the envelope is opened and the state stands under its owner's name again. No vendor ever sees the
envelope, because opening it comes before everything else.

State on a call, where most dialects have no slot, travels in an empty `Thinking` block in front of it; state that only
the end of a call or a text tells, in one behind it. The envelope holds the reasoning's text as well: a signature is
bound to it, and clients split it, shorten it or leave it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from toolglot.events import Close, Delta, Event, Open, merge_native
from toolglot.ir import Block, Message, Native, Opaque, Request, Text, Thinking, ToolCall, native_of, replace
from toolglot.passes import Context
from toolglot.passes.blocks import Place, with_messages
from toolglot.passes.census import census
from toolglot.passes.envelope import Envelope, is_ours, pack, unpack
from toolglot.passes.envelope import Place as EnvelopePlace
from toolglot.receipt import Receipt


def open_envelopes(request: Request, context: Context) -> Request:
    """What the client carried for other vendors, back under their names."""
    if context.slot is None:
        return request
    there, source = census(request, context), context.source
    strange = there.kinds & {Thinking, Opaque} or any(_holds_ours(block, source) for block in there.owned)
    if not strange:
        return request
    messages: list[Message] = []
    slot = context.slot
    run = _Run(context, slot)
    for number, message in enumerate(request.messages):
        if message.role != "assistant":
            messages.extend(run.messages())
            messages.append(message)
            run = _Run(context, slot)
        else:
            run.add(message, number)
    messages.extend(run.messages())
    return with_messages(request, tuple(messages))


def _holds_ours(block: Block, source: str) -> bool:
    fields = block.value if isinstance(block, Opaque) else block.native.get(source)
    return bool(fields) and isinstance(fields, dict) and any(map(is_ours, fields.values()))


class _Run:
    """Neighbouring messages of the assistant while their envelopes are opened; state may belong to another message."""

    def __init__(self, context: Context, slot: str) -> None:
        self._context = context
        self._slot = slot
        self._messages: list[Message] = []
        self._content: list[tuple[int, Block]] = []  # every block with the message that it stands in
        self._changed: set[int] = set()
        self._waiting: Native = {}  # for the next call
        self._shown = ""  # what the last envelope's reasoning says, while its neighbours may repeat it

    def add(self, message: Message, number: int) -> None:
        home = len(self._messages)
        self._messages.append(message)
        for index, block in enumerate(message.content):
            envelope = unpack(self._state(block)) if isinstance(block, Thinking) else None
            if envelope is not None:
                self._changed.add(home)
                self._context.carried = True
                self._open(envelope, block, home, str(Place(number, index)))
            elif self._repeats(block, self._shown):
                self._changed.add(home)
            elif _holds_ours(block, self._context.source):
                self._changed.add(home)
                self._strip(block, home, str(Place(number, index)))
            else:
                self._keep(block, home)

    def _strip(self, block: Block, home: int, where: str) -> None:
        """An envelope where none was ever put: it is for nobody, and least for the client's own vendor."""
        self._context.receipt.loss(where, "carried state", "it stands where none belongs")
        if isinstance(block, Text | ToolCall):
            source = self._context.source
            own = {key: value for key, value in native_of(block, source).items() if not is_ours(value)}
            self._keep(replace(block, native={**block.native, source: own}), home)

    def _state(self, block: Block) -> object:
        return native_of(block, self._context.source).get(self._slot)

    def _keep(self, block: Block, home: int) -> None:
        self._shown = ""
        if isinstance(block, ToolCall) and self._waiting:
            block = replace(block, native=merge_native(block.native, self._waiting))
            self._waiting = {}
            self._changed.add(home)
        self._content.append((home, block))

    def _open(self, envelope: Envelope, block: Block, home: int, where: str) -> None:
        state: Native = {envelope.owner: envelope.state}
        if envelope.owner == self._context.target and not self._is_taken_back(envelope):
            why = f"the client carried it for {envelope.owner}; another server or model has made it"
            self._context.receipt.note(where, "reasoning state", why)
            state = {}
        if not state and envelope.place != "here":
            return
        if envelope.place == "next_call":
            self._waiting = state
        elif envelope.place in ("last_call", "last_text"):
            self._give_back(state, ToolCall if envelope.place == "last_call" else Text, home)
        else:
            if state:
                why = f"the client carried it for {envelope.owner}"
                why += "" if envelope.owner == self._context.target else ", to which alone it goes back"
                self._context.receipt.note(where, "reasoning state", why)
            self._drop_repeated(envelope.text)
            self._shown = envelope.text
            assert isinstance(block, Thinking)
            self._content.append((home, replace(block, text=envelope.text, native=state)))

    def _is_taken_back(self, envelope: Envelope) -> bool:
        context = self._context
        return envelope.issuer in context.takes_back or envelope.is_for(context.target, context.bound_to)

    def _give_back(self, state: Native, kind: type[ToolCall] | type[Text], home: int) -> None:
        """State for the block before. Where the client has left an empty text out, its owner gets another one."""
        if self._content and isinstance(before := self._content[-1][1], kind):
            owner = self._content[-1][0]
            self._content[-1] = owner, replace(before, native=merge_native(before.native, state))
            self._changed.add(owner)
        elif kind is Text and self._context.target in state:
            self._content.append((home, Text(text="", native=state)))

    def _drop_repeated(self, text: str) -> None:
        """The reasoning before an envelope that is a part of its own, and has no state."""
        while self._content:
            home, block = self._content[-1]
            if not self._repeats(block, text):
                return
            self._content.pop()
            self._changed.add(home)

    def _repeats(self, block: Block, text: str) -> bool:
        """Is it reasoning without state whose words are a part of these?"""
        if not isinstance(block, Thinking) or not block.text or block.text not in text:
            return False
        return not self._state(block) and all(owner == self._context.source for owner in block.native)

    def messages(self) -> list[Message]:
        """The messages of the run, without those that held nothing but envelopes for others."""
        contents: list[list[Block]] = [[] for _ in self._messages]
        for home, block in self._content:
            contents[home].append(block)
        done: list[Message] = []
        for home, message in enumerate(self._messages):
            if home not in self._changed:
                done.append(message)
            elif contents[home]:
                done.append(replace(message, content=tuple(contents[home])))
        return done


_SIGNS = frozenset({"$redacted", "reasoning_details", "extra_content"})
"""What is state beside what stands in an owner's slot. The servers of Chat Completions have none and bring these."""


class Carrier:
    """The event pass that packs: it needs sequenced events, and gives blocks new indices where it adds one."""

    __slots__ = (
        "_block",
        "_client",
        "_issuer",
        "_kept",
        "_owner",
        "_owner_slot",
        "_receipt",
        "_shift",
        "_slot",
        "_text",
    )

    def __init__(
        self,
        client: str,
        slot: str | None,
        owner: str,
        owner_slot: str | None,
        receipt: Receipt,
        *,
        issuer: str = "",
        kept: bool = False,
    ) -> None:
        """`issuer`: to whom alone it goes back, if anybody has said; `kept`: what the client cannot carry is kept
        elsewhere."""
        self._issuer = issuer
        self._client = client
        self._slot = slot
        self._owner = owner
        self._owner_slot = owner_slot
        self._receipt = receipt
        self._kept = kept
        self._shift = 0
        self._block: Block | None = None  # the open one
        self._text: list[str] | None = None  # of the open reasoning

    def feed(self, event: Event) -> Sequence[Event]:
        if self._owner == self._client:
            return (event,)
        match event:
            case Delta(index=index, text=text):
                if self._text is not None:
                    self._text.append(text)
                return (Delta(index + self._shift, text),) if self._shift else (event,)
            case Open(index=index, block=block):
                return self._opened(index, block)
            case Close():
                return self._closed(event)
            case _:
                return (event,)

    def _opened(self, index: int, block: Block) -> Sequence[Event]:
        self._block = block
        if isinstance(block, Thinking):
            self._text = [block.text]
        elif isinstance(block, ToolCall) and self._has_state(block.native):
            carried = self._carried(index, block.native, "next_call")
            return (*carried, Open(index + self._shift, block))
        return (Open(index + self._shift, block),)

    def _closed(self, event: Close) -> Sequence[Event]:
        block, index = self._block, event.index
        self._block = None
        close = replace(event, index=index + self._shift) if self._shift else event
        if isinstance(block, Thinking):
            return (self._closed_reasoning(block, close, index),)
        if isinstance(block, ToolCall) and self._has_state(event.native):
            return close, *self._carried(index + 1, merge_native(block.native, event.native), "last_call")
        if block is not None and not isinstance(block, ToolCall):
            native = merge_native(block.native, event.native)
            if isinstance(block, Text) and self._has_state(native):
                return close, *self._carried(index + 1, native, "last_text")
            if self._has_state(native):
                self._lost(index, kept=False)
        return (close,)

    def _closed_reasoning(self, block: Thinking, close: Close, index: int) -> Close:
        native = merge_native(block.native, close.native)
        text, self._text = "".join(self._text or ()), None
        if self._slot is None:
            if self._has_state(native):
                self._lost(index)
            return close
        # Also reasoning without state is put in an envelope, so that it is known as foreign when it comes back.
        envelope = self._packed(native, text=text)
        return replace(close, native=merge_native(close.native, {self._client: {self._slot: envelope}}))

    def _carried(
        self, index: int, native: Native, place: Literal["next_call", "last_call", "last_text"]
    ) -> Sequence[Event]:
        """An empty block with the state of another one, as the block of this index; the others move on."""
        if self._slot is None:
            self._lost(index if place == "next_call" else index - 1)
            return ()
        envelope = self._packed(native, place=place)
        extra = index + self._shift
        self._shift += 1
        return Open(extra, Thinking(native={self._client: {self._slot: envelope}})), Close(index=extra)

    def _packed(self, native: Native, *, text: str = "", place: EnvelopePlace = "here") -> str:
        state = native.get(self._owner, {})
        return pack(Envelope(owner=self._owner, state=dict(state), text=text, place=place, issuer=self._issuer))

    def _has_state(self, native: Native) -> bool:
        fields = native.get(self._owner, {})
        return not _SIGNS.isdisjoint(fields) or self._owner_slot in fields

    def _lost(self, index: int, *, kept: bool = True) -> None:
        """`kept`: it is of a kind that can be kept elsewhere."""
        why = "the client's API has no field that carries it"
        if kept and self._kept:
            self._receipt.note(f"content[{index}]", "reasoning state", f"{why}; it is kept here for {self._owner}")
        else:
            self._receipt.loss(f"content[{index}]", "reasoning state", why)
