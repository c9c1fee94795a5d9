"""Carry one vendor's reasoning state through another vendor's client.

A model needs its signatures and encrypted reasoning back byte for byte. The client's dialect has no place for them,
only a slot for the state of its own vendor, which clients return unchanged. So the answer passes pack the foreign state
into an envelope in that slot. When the client sends its history, the first request pass opens the envelope and restores
the state under its owner's name. No vendor ever sees an envelope.

Most dialects have no slot on calls. The state of a call travels in an empty `Thinking` block before the call, and so
does the phase of a text. State that arrives at the end of a call or text travels in a block after it. The envelope also
holds the text of the reasoning: a signature is bound to it, and clients split it, shorten it or omit it.

If the client's dialect has a slot on calls, its clients may keep that slot and drop the reasoning (Gemini CLI sends no
thoughts back). So the first call after reasoning carries a second copy of the state, sealed together with the state of
the call. If both copies come back, one is used. Some clients move a slot to an adjacent part (LiteLLM moves it from a
thought to the text). It is opened there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from toolglot import features
from toolglot.events import Close, Delta, Event, Finish, Open, merge_native
from toolglot.ir import Block, Message, Native, Opaque, Refusal, Request, Text, Thinking, ToolCall, native_of, replace
from toolglot.passes import Context
from toolglot.passes.answer_state import (
    NEEDS_FOLLOWER,
    UNFOLLOWED,
    AnswerState,
    SealedState,
    claim_kept,
    comes_back,
    holds_state,
    phase_of,
    seal,
    state_members,
    state_of_block,
    state_of_text,
    unseal,
)
from toolglot.passes.blocks import Place, with_messages
from toolglot.passes.envelope import TAKES_BACK, Envelope, is_ours, pack, unpack
from toolglot.passes.envelope import Place as EnvelopePlace
from toolglot.passes.reasoning import MADE
from toolglot.passes.state_placement import AnswerRun, place_state
from toolglot.plan import runs_on
from toolglot.receipt import Receipt
from toolglot.state_fields import STATE_ID
from toolglot.wire import json


@runs_on(lambda context: 0 if context.slots.slot is None else features.ENVELOPE, adds=None)
def open_envelopes(request: Request, context: Context) -> Request:
    """Open the envelopes in a history, and restore the state under the names of its owners."""
    if context.slots.slot is None:
        return request
    messages: list[Message] = []
    slot = context.slots.slot
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
    """Adjacent assistant messages while their envelopes are opened. State may belong to another message of the run."""

    def __init__(self, context: Context, slot: str) -> None:
        self._context = context
        self._slot = slot
        self._messages: list[Message] = []
        self._content: list[tuple[int, Block]] = []  # every block with the index of its message
        self._changed: set[int] = set()
        self._waiting: Native = {}  # for the next call
        self._label: Native = {}  # for the text that follows at once
        self._shown = ""  # text of the last envelope's reasoning, while adjacent blocks may repeat it
        self._states: list[Block] = []  # the target's state in this answer, as calls carried it
        self._stated: list[tuple[str, str]] = []  # calls in carried states, as (id, name)
        self._has_states = False
        self._texts: list[int] = []  # lengths of the texts since the last call
        self._owners: set[str] = set()  # owners of state that reasoning carried; copies on calls are not reported

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
                self._unpack_part(block, home, Place(number, index))
            else:
                self._keep(block, home)

    def _unpack_part(self, block: Block, home: int, place: Place) -> None:
        """Unpack state on a call or text. No vendor sees it, including the client's own."""
        value = native_of(block, self._context.source).get(self._context.slots.call_slot or "")
        sealed, envelope = unseal(value), unpack(value)
        if not isinstance(block, (Text, ToolCall)) or (sealed is None and envelope is None):
            self._context.receipt.loss(str(place), "carried state", "none belongs here")
        if not isinstance(block, (Text, ToolCall)):
            return
        block = self._without_slot(block)
        if sealed is not None:
            self._context.carried = True
            block = self._unseal(sealed, block, str(Place(place.message)))
        if envelope is None or envelope.place in ("last_call", "last_text"):
            self._keep_part(block, home)
            if sealed is not None:
                self._texts = []  # the state also describes the text that carries it
        if envelope is not None:
            self._context.carried = True
            self._open(envelope, Thinking(), home, str(place))
            if envelope.place not in ("last_call", "last_text"):
                self._keep_part(block, home)

    def _without_slot(self, block: Text | ToolCall) -> Text | ToolCall:
        source = self._context.source
        own = {key: value for key, value in native_of(block, source).items() if not is_ours(value)}
        others = {owner: fields for owner, fields in block.native.items() if owner != source}
        return replace(block, native={**others, source: own} if own else others)

    def _keep_part(self, block: Text | ToolCall, home: int) -> None:
        """Keep a text or call, unless it is a text that held only state."""
        if isinstance(block, ToolCall) or block.text or block.native:
            self._keep(block, home)

    def _unseal(self, sealed: SealedState, block: Text | ToolCall, where: str) -> Text | ToolCall:
        context = self._context
        why = f"the client carried it for {sealed.owner}"
        if sealed.owner != context.target:
            why += "; it is sent only there"
            block = replace(block, native={**block.native, sealed.owner: {MADE: True}})
        elif sealed.issuer not in ("", context.owner.bound_to) and sealed.issuer not in context.owner.accepts:
            why += "; another server or model created it"
        elif context.can.reasoning.in_history == "none":
            why += "; this model accepts none"
        else:
            states = _with_call(sealed.states, block) if isinstance(block, ToolCall) else sealed.states
            self._states += states
            self._stated = [(each.id, each.name) for each in states if isinstance(each, ToolCall)]
            self._has_states = True
            self._texts = []
        if sealed.owner not in self._owners:
            context.receipt.note(where, "reasoning state", why)
        return block

    def _state(self, block: Block) -> object:
        return native_of(block, self._context.source).get(self._slot)

    def _keep(self, block: Block, home: int) -> None:
        self._shown = ""
        label, self._label = self._label, {}
        if label and isinstance(block, Text):
            block = replace(block, native=merge_native(block.native, label))
        if isinstance(block, ToolCall) and self._waiting:
            block = replace(block, native=merge_native(block.native, self._waiting))
            self._waiting = {}
            self._changed.add(home)
        self._content.append((home, block))
        if isinstance(block, ToolCall):
            self._add_stateless_texts()
            if (block.id, block.name) in self._stated:
                self._stated.remove((block.id, block.name))
            else:
                self._states.append(ToolCall(id=block.id, name=block.name))
        elif isinstance(block, Text) and block.text:
            self._texts.append(len(block.text))

    def _add_stateless_texts(self) -> None:
        """Add the texts that have no state, because an `AnswerState` lists all texts and calls of the answer."""
        self._states += [state_of_text(length, self._context.target) for length in self._texts]
        self._texts = []

    def _open(self, envelope: Envelope, block: Block, home: int, where: str) -> None:
        state: Native = {envelope.owner: envelope.state}
        if envelope.owner == self._context.target and not self._is_taken_back(envelope):
            why = f"the client carried it for {envelope.owner}; another server or model created it"
            self._context.receipt.note(where, "reasoning state", why)
            state = {}
        if not state and envelope.place != "here":
            return
        self._label = {}
        if envelope.place == "next_call":
            self._waiting = state
        elif envelope.place == "next_text":
            self._label = state if envelope.owner == self._context.target else {}
        elif envelope.place in ("last_call", "last_text"):
            self._give_back(state, ToolCall if envelope.place == "last_call" else Text, home)
        else:
            if state:
                self._owners.add(envelope.owner)
                why = f"the client carried it for {envelope.owner}"
                why += "" if envelope.owner == self._context.target else "; it is sent only there"
                self._context.receipt.note(where, "reasoning state", why)
            self._drop_repeated(envelope.text)
            self._shown = envelope.text
            assert isinstance(block, Thinking)
            self._content.append((home, replace(block, text=envelope.text, native=state)))

    def _is_taken_back(self, envelope: Envelope) -> bool:
        context = self._context
        return envelope.issuer in context.owner.accepts or envelope.is_for(context.target, context.owner.bound_to)

    def _give_back(self, state: Native, kind: type[ToolCall] | type[Text], home: int) -> None:
        """Restore state on the previous block. An empty text that the client omitted is created again."""
        if self._content and isinstance(before := self._content[-1][1], kind):
            owner = self._content[-1][0]
            self._content[-1] = owner, replace(before, native=merge_native(before.native, state))
            self._changed.add(owner)
        elif kind is Text and self._context.target in state:
            self._content.append((home, Text(text="", native=state)))

    def _drop_repeated(self, text: str) -> None:
        """Drop the stateless reasoning before an envelope if the envelope contains the same text."""
        while self._content:
            home, block = self._content[-1]
            if not self._repeats(block, text):
                return
            self._content.pop()
            self._changed.add(home)

    def _repeats(self, block: Block, text: str) -> bool:
        """Return whether this is reasoning without state whose words are part of `text`."""
        if not isinstance(block, Thinking) or not block.text or block.text not in text:
            return False
        return not self._state(block) and all(owner == self._context.source for owner in block.native)

    def messages(self) -> list[Message]:
        """Return the messages of the run, without those that held only envelopes for other vendors."""
        if self._has_states:
            self._add_stateless_texts()
            self._put_back(tuple(self._states))
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

    def _put_back(self, states: AnswerState) -> None:
        run = AnswerRun()
        run.numbers, run.blocks = list(range(len(self._messages))), self._content
        if (blocks := place_state(run, states, self._context)) is not None:
            self._content = blocks
            self._changed.update(run.numbers)


def _with_call(states: AnswerState, call: ToolCall) -> AnswerState:
    """Make the carrying call the last one in the states. Gemini CLI gives it another id."""
    if not states or not isinstance(last := states[-1], ToolCall):
        return states
    return *states[:-1], replace(last, id=call.id, name=call.name)


def move_before_call(block: Block, client: str, slot: str | None) -> Block | None:
    """Convert state after its call to the form before a call; None for any other block."""
    fields = native_of(block, client)
    envelope = unpack(fields.get(slot or "")) if isinstance(block, Thinking) else None
    if envelope is None or envelope.place != "last_call":
        return None
    moved = {**fields, str(slot): pack(replace(envelope, place="next_call"))}
    return replace(block, native={**block.native, client: moved})


_SIGNS = frozenset(
    {
        "$redacted",
        "reasoning_details",
        "thinking_blocks",
        "reasoning_summary",
        "reasoning_opaque",
        "extra_content",
        "provider_specific_fields",
        "$function_state",
        STATE_ID,
    }
)
"""Keys of state that is not in an owner's slot. Chat Completions has no slot; its servers use these keys."""


def is_stateless(block: Block, owner: str, owner_slot: str | None) -> bool:
    """Return whether a block of an answer has no state to carry for its owner. False may also mean "not sure"."""
    kind = type(block)
    if kind is not Text and kind is not ToolCall and kind is not Refusal:
        return False
    if fields := block.native.get(owner):
        if not _state_members(kind, owner, owner_slot).isdisjoint(fields):
            return False
        return not ((item := fields.get("$item")) and isinstance(item, dict) and item.get("phase") is not None)
    return True


@lru_cache(maxsize=64)
def _state_members(kind: type[Block], owner: str, slot: str | None) -> frozenset[str]:
    """Return the owner's native keys that hold state on blocks of this kind."""
    return _SIGNS | {slot or ""} | state_members(kind, owner)


class _LastBlock(Struct):
    """An empty text or reasoning block, or the state of a text, held back until the next block arrives."""

    index: int
    block: Text | Thinking | None = None
    close: Close | None = None
    state: Native | None = None


class Carrier:
    """Event pass that packs state into envelopes. It needs sequenced events, and renumbers blocks after one it adds."""

    __slots__ = (
        "_block",
        "_call_slot",
        "_client",
        "_ends_answers",
        "_held",
        "_issuer",
        "_kept",
        "_last_is_call",
        "_length",
        "_needs_follower",
        "_next",
        "_owner",
        "_owner_slot",
        "_receipt",
        "_shift",
        "_slot",
        "_states",
        "_tail",
        "_text",
        "_withheld",
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
        call_slot: str | None = None,
        ends_answers: bool = True,
        withheld: list[Block] | None = None,
    ) -> None:
        """Create the pass for one answer.

        Args:
            issuer: the only upstream that may get the state back, if known.
            kept: state that the client cannot carry is stored elsewhere.
            call_slot: the key under which a call carries state.
            ends_answers: a block of state may be the last block.
            withheld: receives the blocks at the end of the answer that the client does not get.
        """
        self._ends_answers = ends_answers
        self._withheld = withheld
        self._tail: list[_LastBlock] = []
        """If the last block has to be a text: events that are written only once another block follows."""
        self._issuer = issuer
        self._client = client
        self._slot = slot
        self._owner = owner
        self._owner_slot = owner_slot
        self._receipt = receipt
        self._kept = kept
        self._call_slot = call_slot if owner in TAKES_BACK else None
        self._states: list[Block] = []  # state since the last call, for the next call to carry
        self._shift = self._next = 0
        self._last_is_call = False
        self._block: Block | None = None  # the open block
        self._text: list[str] | None = None  # text of the open reasoning
        self._length = 0  # characters of the open text
        self._needs_follower = owner in NEEDS_FOLLOWER
        self._held: tuple[Thinking, Close, int] | None = None
        """The end of reasoning. It is written once the next block shows whether its state can come back."""

    def add_length(self, count: int) -> None:
        """Count characters of the open text that bypassed this pass."""
        self._length += count

    def feed(self, event: Event) -> Sequence[Event]:
        if self._owner == self._client:
            return (event,)
        if self._held is not None:
            (block, close, index), self._held = self._held, None
            is_followed = type(event) is not Open or comes_back(event.block)
            return self._close_reasoning(block, close, index, is_followed=is_followed), *self._feed_settled(event)
        if self._tail and (type(event) is Delta or (type(event) is Open and not self._may_be_empty(event.block))):
            return *self._write_tail(event), *self._feed_settled(event)
        return self._feed_settled(event)

    def _may_be_empty(self, block: Block) -> bool:
        """Return whether this may be a later text or reasoning block that has only state."""
        may_be_last = not self._ends_answers and self._slot is not None and self._next > 0
        return may_be_last and isinstance(block, (Text, Thinking)) and not block.text

    def _feed_settled(self, event: Event) -> Sequence[Event]:
        match event:
            case Delta(index=index, text=text):
                self._length += len(text)
                if self._text is not None:
                    self._text.append(text)
                return (Delta(index + self._shift, text, event.logprobs),) if self._shift else (event,)
            case Open(index=index, block=block):
                return self._open_block(index, block)
            case Close():
                return self._close_block(event)
            case Finish():
                return self._finish(event)
            case _:
                return (event,)

    def _open_block(self, index: int, block: Block) -> Sequence[Event]:
        if isinstance(block, (Text, Thinking)) and self._may_be_empty(block):
            self._tail.append(_LastBlock(index, block))
            self._block = block
            return ()
        self._block, self._next = block, index + self._shift + 1
        self._last_is_call = isinstance(block, ToolCall)
        self._length = len(block.text) if isinstance(block, Text) else 0
        if isinstance(block, Thinking):
            self._text = [block.text]
        elif isinstance(block, ToolCall) and self._call_slot is not None:
            self._text = [block.arguments]
        elif isinstance(block, ToolCall) and self._has_state(block.native):
            carried = self._carry_block(index, block.native, "next_call")
            return (*carried, Open(index + self._shift, block))
        elif isinstance(block, Text) and (carried := self._carried_phase(index, block)):
            return (*carried, Open(index + self._shift, block))
        return (Open(index + self._shift, block),)

    def _carried_phase(self, index: int, text: Text) -> Sequence[Event]:
        """Write an empty block with the phase of the next text. If calls have a slot, they carry the phase instead."""
        phase = phase_of(native_of(text, self._owner)) if text.native and self._call_slot is None else {}
        return self._carry_block(index, {self._owner: phase}, "next_text") if phase else ()

    def _close_block(self, event: Close) -> Sequence[Event]:
        if self._tail and (last := self._tail[-1]).block is not None and last.close is None:
            last.close, self._block = event, None
            native = merge_native(last.block.native, event.native)
            last.state = native if self._has_state(native) else None
            return ()
        block, index = self._block, event.index
        self._block = None
        close = replace(event, index=index + self._shift) if self._shift else event
        if isinstance(block, Thinking) and self._needs_follower:
            self._held = block, close, index
            return ()
        if isinstance(block, Thinking):
            return (self._close_reasoning(block, close, index),)
        if isinstance(block, ToolCall) and self._call_slot is not None:
            return (self._close_call(block, close, self._call_slot),)
        if isinstance(block, ToolCall) and self._has_state(event.native):
            return close, *self._carry_block(index + 1, merge_native(block.native, event.native), "last_call")
        if block is not None and not isinstance(block, ToolCall):
            native = merge_native(block.native, event.native)
            self._keep_state(replace(block, native=native) if isinstance(block, Text) else block)
            if isinstance(block, Text) and self._call_slot is not None:
                return (close,)
            if isinstance(block, Text) and self._has_state(native):
                if not self._ends_answers and self._slot is not None:
                    self._tail.append(_LastBlock(index + 1, state=native))
                    return (close,)
                return close, *self._carry_block(index + 1, native, "last_text")
            if self._has_state(native):
                self._report_loss(index, kept=False)
        return (close,)

    def _close_reasoning(self, block: Thinking, close: Close, index: int, *, is_followed: bool = True) -> Close:
        native = merge_native(block.native, close.native)
        text, self._text = "".join(self._text or ()), None
        if not is_followed:
            native = {owner: fields for owner, fields in native.items() if owner != self._owner}
            self._receipt.loss(f"content[{index}]", "reasoning state", UNFOLLOWED)
        else:
            self._keep_state(replace(block, text=text, native=native))
        if self._slot is None:
            if self._has_state(native):
                self._report_loss(index)
            return close
        # Reasoning without state gets an envelope too, so that it is recognized as foreign when it comes back.
        envelope = self._pack(native, text=text)
        return replace(close, native=merge_native(close.native, {self._client: {self._slot: envelope}}))

    def _keep_state(self, block: Block) -> None:
        if self._call_slot is not None and (each := state_of_block(block, self._owner, self._length)) is not None:
            self._states.append(each)

    def _close_call(self, call: ToolCall, close: Close, slot: str) -> Close:
        """Close a call that carries its own state and that of the blocks since the previous call. An unreadable call
        becomes a text, which carries no state; the next call carries it."""
        text, self._text = "".join(self._text or ()), None
        if call.kind == "function" and (not close.complete or (text and json.object_of(text) is None)):
            return close
        self._keep_state(replace(call, native=merge_native(call.native, close.native)))
        # Includes reasoning without state: some owners need its text, and the client may have dropped it.
        if not holds_state(self._states) and not any(isinstance(each, Thinking) for each in self._states):
            self._states = []
            return close
        return replace(close, native=merge_native(close.native, self._seal_blocks(slot)))

    def _seal_blocks(self, slot: str) -> Native:
        """Seal the state of the blocks since the last call into the form for one part."""
        states, self._states = tuple(self._states), []
        also = claim_kept(self._owner, as_well=True) if self._kept else ""
        self._receipt.note("content", "reasoning state", f"it is carried in {slot} of the client's message{also}")
        return {self._client: {slot: seal(SealedState(self._owner, self._issuer, states))}}

    def _finish(self, event: Finish) -> Sequence[Event]:
        """Finish an answer. If no call follows, a last part carries the remaining state, as in Gemini's own answers."""
        if self._tail:
            return *self._end_tail(event), event
        if self._call_slot is None or not holds_state(self._states):
            return (event,)
        extra = self._next
        return Open(extra, Text(text="", native=self._seal_blocks(self._call_slot))), Close(index=extra), event

    def _carry_block(
        self, index: int, native: Native, place: Literal["next_call", "next_text", "last_call", "last_text"]
    ) -> Sequence[Event]:
        """Insert an empty block that holds another block's state at this index. Later blocks are renumbered."""
        if self._slot is None:
            self._report_loss(index if place in ("next_call", "next_text") else index - 1)
            return ()
        envelope = self._pack(native, place=place)
        extra = index + self._shift
        self._shift += 1
        return Open(extra, Thinking(native={self._client: {self._slot: envelope}})), Close(index=extra)

    def _pack(self, native: Native, *, text: str = "", place: EnvelopePlace = "here") -> str:
        state = native.get(self._owner, {})
        return pack(Envelope(owner=self._owner, state=dict(state), text=text, place=place, issuer=self._issuer))

    def _has_state(self, native: Native) -> bool:
        fields = native.get(self._owner, {})
        return not _SIGNS.isdisjoint(fields) or self._owner_slot in fields

    def _write_tail(self, following: Event) -> Sequence[Event]:
        """Write the blocks and the state that were held back until the next event."""
        tail, self._tail = self._tail, []
        events: list[Event] = []
        for number, each in enumerate(tail, start=1):
            if isinstance(each.block, Thinking):
                is_followed = number < len(tail) or type(following) is not Open or comes_back(following.block)
                events += self._write_reasoning(each.block, each, is_followed=is_followed)
            elif each.block is not None:
                events += self._carried_phase(each.index, each.block)
                events.append(Open(each.index + self._shift, each.block))
                self._next = each.index + self._shift + 1
                if each.close is not None:
                    events.append(replace(each.close, index=each.index + self._shift))
            if each.state is not None and not isinstance(each.block, Thinking):
                events += self._carry_block(each.index + (each.block is not None), each.state, "last_text")
        return events

    def _write_reasoning(self, block: Thinking, waiting: _LastBlock, *, is_followed: bool) -> Sequence[Event]:
        """Write the start of reasoning, and its end if it has no text."""
        index = waiting.index + self._shift
        self._next = index + 1
        self._text = [block.text]
        opened = Open(index, block)
        if waiting.close is None:
            return (opened,)
        close = replace(waiting.close, index=index)
        is_followed = is_followed or not self._needs_follower
        return opened, self._close_reasoning(block, close, waiting.index, is_followed=is_followed)

    def _end_tail(self, event: Finish) -> Sequence[Event]:
        """Omit the state of a text that ends the answer, and the empty blocks after it."""
        after_call = self._last_is_call and all(isinstance(each.block, Thinking) for each in self._tail)
        if after_call or all(each.state is None for each in self._tail):
            return self._write_tail(event)
        tail, self._tail = self._tail, []
        if self._needs_follower and all(isinstance(each.block, Thinking) for each in tail):
            self._receipt.loss("content", "reasoning state", UNFOLLOWED)
            return ()
        if self._withheld is not None:
            self._withheld += [replace(each.block, native=each.state) for each in tail if each.block and each.state]
        of_text = any(each.state and not isinstance(each.block, Thinking) for each in tail)
        what = "reasoning state of the last text" if of_text else "reasoning state"
        why = "the client shows the last block of an answer, which must be the text"
        if self._kept:
            self._receipt.note("content", what, why + claim_kept(self._owner))
        else:
            self._receipt.loss("content", what, why)
        return ()

    def _report_loss(self, index: int, *, kept: bool = True) -> None:
        """Report state that the client cannot carry. `kept`: this kind can be stored elsewhere."""
        why = "the client's API has no field that carries it"
        if kept and self._kept:
            self._receipt.note(f"content[{index}]", "reasoning state", why + claim_kept(self._owner))
        else:
            self._receipt.loss(f"content[{index}]", "reasoning state", why)
