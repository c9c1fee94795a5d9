"""Reasoning state of other vendors for clients that return it in a list: Chat Completions.

The API has no field for state, but many of its clients return unknown fields: clients that echo the message unchanged,
and clients that follow the conventions of OpenRouter (`reasoning_details` on the message) or Google
(`extra_content.google.thought_signature` on a call). The state that the owner expects back is therefore sealed into
one entry after all others. Gemini's call signatures are also attached to the calls. When the client sends its history,
the first pass opens and removes all seals: no vendor ever sees one.

A client that drops these fields loses nothing: state that toolglot stored for it is restored after this pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from toolglot import features
from toolglot.dialects import ByDialect
from toolglot.events import Close, Delta, Event, Finish, Open, closed, merge_native
from toolglot.ir import Block, Message, Native, Request, Text, Thinking, ToolCall, native_of, replace
from toolglot.passes import Context
from toolglot.passes.answer_state import (
    NEEDS_FOLLOWER,
    UNFOLLOWED,
    AnswerState,
    SealedState,
    claim_kept,
    comes_back,
    holds_state,
    seal,
    state_of_block,
    unseal,
    without_needless_lengths,
)
from toolglot.passes.blocks import Place, with_messages
from toolglot.passes.envelope import STATE, is_ours
from toolglot.passes.reasoning import MADE
from toolglot.passes.state_placement import (
    AnswerRun,
    find_first_message,
    join_split_calls,
    place_state,
    runs,
    write_run,
)
from toolglot.plan import runs_on
from toolglot.receipt import Receipt

WHAT = "reasoning state"
EXTRA = "extra_content"
SIGNATURE = "thoughtSignature"
_IN_EXTRA_CONTENT = ByDialect(lambda manifest: manifest.state.in_extra_content)

_SIGNATURE = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")


@runs_on(
    lambda context: 0 if context.slots.details_slot is None else features.THINKING | features.NATIVE_CALLS, adds=None
)
def open_details(request: Request, context: Context) -> Request:
    """Open the state that the client carried for other vendors, and put it back under their names."""
    if context.slots.details_slot is None:
        return request

    messages = list(request.messages)
    found: list[tuple[int, AnswerState]] = []
    for number, message in enumerate(request.messages):
        if message.role == "assistant":
            opening = _Opening(message, number, context)
            messages[number] = opening.open_message()
            found += [(number, states) for states in opening.states]
    joined = _put_back(messages, found, context)
    if joined:
        numbers = [number for number, run in enumerate(runs(request.messages)) if run.numbers[0] in joined]
        context.joined_answers = frozenset(numbers)
    return with_messages(request, tuple(each for number, each in enumerate(messages) if number not in joined))


def _put_back(messages: list[Message], found: Sequence[tuple[int, AnswerState]], context: Context) -> set[int]:
    """Put the state of each message back on the blocks of its answer. Returns the messages that are left out, because
    their calls belong to the answer of an earlier one."""
    joined: set[int] = set()
    for number, states in found:
        if number in joined:
            continue
        first = find_first_message(messages, number, states)
        run = AnswerRun()
        run.add(messages[first], first, 0)
        join_split_calls(run, messages, states)
        if (blocks := place_state(run, states, context)) is not None:
            write_run(messages, run, blocks)
            joined.update(run.joined)
    return joined


class _Opening:
    """Opens the seals of one message."""

    def __init__(self, message: Message, number: int, context: Context) -> None:
        self._message = message
        self._number = number
        self._context = context
        self.states: list[AnswerState] = []
        """State of the whole message, for the target: usually of one answer."""
        self._others: set[str] = set()
        """Owners of state that is not for the target."""

    def open_message(self) -> Message:
        content = tuple(new for block in self._message.content if (new := self._open_block(block)) is not None)
        same = len(content) == len(self._message.content) and all(map(_is, content, self._message.content))
        return self._message if same else replace(self._message, content=content)

    def _open_block(self, block: Block) -> Block | None:
        if isinstance(block, Thinking):
            return self._open_reasoning(block)
        return self._open_call(block) if isinstance(block, ToolCall) else block

    def _open_reasoning(self, block: Thinking) -> Block | None:
        """Remove toolglot's entries from reasoning; None if nothing is left."""
        source, slot = self._context.source, self._context.slots.details_slot
        fields = native_of(block, source)
        entries = fields.get(slot, ()) if slot is not None else ()
        others = [entry for entry in entries if not is_ours(entry.get("data"))]
        if len(others) == len(entries):
            return block
        for entry in entries:
            if is_ours(entry.get("data")) and (states := self._unseal(entry["data"])) is not None:
                self.states.append(states)
        rest = {key: value for key, value in fields.items() if key != slot}
        if others and slot is not None:
            rest[slot] = others
        if not block.text and not others:
            return None
        made = {owner: {MADE: True, **native_of(block, owner)} for owner in sorted(self._others - {source})}
        return replace(block, native={**block.native, source: rest, **made})

    def _open_call(self, block: ToolCall) -> Block:
        """Move Google's signature to where Gemini expects it. Unsealed signatures of other servers stay unchanged."""
        extra: Any = native_of(block, self._context.source).get(EXTRA)
        signature = _signature(extra)
        if not is_ours(signature):
            known = isinstance(signature, str) and _SIGNATURE.fullmatch(signature) is not None
            if not known or self._context.target not in _IN_EXTRA_CONTENT:
                return block
            state: Native = {self._context.target: {SIGNATURE: signature}}
        else:
            states = self._unseal(signature) or ()
            state = states[0].native if states else {}
        kept = {owner: fields for owner, fields in block.native.items() if owner != self._context.source}
        own = {key: value for key, value in native_of(block, self._context.source).items() if key != EXTRA}
        if rest := _without_signature(extra):
            own[EXTRA] = rest
        return replace(block, native=merge_native(kept | ({self._context.source: own} if own else {}), state))

    def _unseal(self, value: str) -> AnswerState | None:
        """Open a seal, and report it. Returns the state if it is for the target, otherwise None."""
        receipt, where = self._context.receipt, str(Place(self._number))
        sealed = unseal(value)
        if sealed is None:
            receipt.loss(where, WHAT, "what the client carried cannot be read")
            return None
        why = f"the client carried it for {sealed.owner}"
        if sealed.owner != self._context.target:
            why += "; it is sent only there"
            self._others.add(sealed.owner)
        elif sealed.issuer not in ("", self._context.owner.issuer) and sealed.issuer not in self._context.owner.accepts:
            why += "; another server or model created it"
        elif self._context.can.reasoning.in_history == "none":
            why += "; this model accepts none"
        else:
            receipt.note(where, WHAT, why)
            return sealed.states
        receipt.note(where, WHAT, why)
        return None


def _is(new: object, old: object) -> bool:
    return new is old


def _signature(extra: Any) -> Any:
    google = extra.get("google") if isinstance(extra, dict) else None
    return google.get("thought_signature") if isinstance(google, dict) else None


def _without_signature(extra: Mapping[str, Any]) -> dict[str, Any]:
    google = {key: value for key, value in extra["google"].items() if key != "thought_signature"}
    rest = {key: value for key, value in extra.items() if key != "google"}
    return {**rest, "google": google} if google else rest


class DetailsCarrier:
    """Event pass that seals reasoning state. It needs sequenced events, and appends a block after all others."""

    __slots__ = (
        "_block",
        "_client",
        "_issuer",
        "_kept",
        "_length",
        "_needs_follower",
        "_next",
        "_owner",
        "_receipt",
        "_slot",
        "_states",
        "_text",
    )

    def __init__(self, client: str, slot: str, owner: str, issuer: str, receipt: Receipt, *, kept: bool) -> None:
        """`kept`: the caller also stores the state, for clients that do not carry it."""
        self._client = client
        self._slot = slot
        self._owner = owner if owner != client and owner in STATE else ""
        self._needs_follower = self._owner in NEEDS_FOLLOWER
        self._issuer = issuer
        self._receipt = receipt
        self._kept = kept
        self._next = 0
        self._block: Block | None = None  # the open one
        self._text: list[str] | None = None  # of the open reasoning
        self._length = 0  # of the open block
        self._states: list[Block] = []

    def feed(self, event: Event) -> Sequence[Event]:
        if not self._owner:
            return (event,)
        match event:
            case Delta(text=text):
                self._length += len(text)
                if self._text is not None:
                    self._text.append(text)
            case Open(index=index, block=block):
                self._next = index + 1
                self._block = block
                if self._needs_follower and not comes_back(block):
                    self._drop_unfollowed(index - 1)
                self._length = len(block.text) if isinstance(block, Text) else 0
                self._text = [] if isinstance(block, Thinking) else None
                if isinstance(block, ToolCall) and (signed := self._sign_call(block, block.native)):
                    return (Open(index, replace(block, native=merge_native(block.native, signed))),)
            case Close():
                return (self._close(event),)
            case Finish():
                return *self._seal_states(), event
            case _:
                pass
        return (event,)

    def add_length(self, count: int) -> None:
        """Count characters of the open text that bypassed this pass."""
        self._length += count

    def _drop_unfollowed(self, index: int) -> None:
        if self._states and isinstance(self._states[-1], Thinking):
            self._states.pop()
            self._receipt.loss(f"content[{index}]", WHAT, UNFOLLOWED)

    def _close(self, event: Close) -> Close:
        opened, self._block = self._block, None
        text, self._text = "".join(self._text or ()), None
        if opened is None:
            return event
        block = closed(opened, text, event)
        if (each := state_of_block(block, self._owner, self._length)) is not None:
            self._states.append(each)
        elif not isinstance(block, (Thinking, Text)) and not STATE[self._owner].keys().isdisjoint(
            native_of(block, self._owner)
        ):
            self._receipt.loss(f"content[{event.index}]", WHAT, "the client's API has no field that carries it")
        signed = self._sign_call(block, event.native) if isinstance(block, ToolCall) else {}
        return replace(event, native=merge_native(event.native, signed)) if signed else event

    def _sign_call(self, call: ToolCall, native: Native) -> Native:
        """Seal a call's signature into the field that Google's OpenAI-compatible endpoint uses and its clients read."""
        owner = self._owner
        if owner not in _IN_EXTRA_CONTENT or SIGNATURE not in native.get(owner, {}):
            return {}
        own = ToolCall(id=call.id, name=call.name, native={owner: {SIGNATURE: native[owner][SIGNATURE]}})
        sealed = seal(SealedState(self._owner, self._issuer, (own,)))
        return {self._client: {EXTRA: {"google": {"thought_signature": sealed}}}}

    def _seal_states(self) -> Sequence[Event]:
        """Create the block that carries the state of all other blocks."""
        states = without_needless_lengths(tuple(self._states))
        if not holds_state(states):
            return ()
        # Some clients store an entry that has a call's id together with that call.
        calls = [each.id for each in states if isinstance(each, ToolCall) and each.id]
        entry = {
            "type": "reasoning.encrypted",
            "data": seal(SealedState(self._owner, self._issuer, states)),
            **({"id": calls[0]} if calls else {}),
            "format": "unknown",
            "index": 0,
        }
        also = claim_kept(self._owner, as_well=True) if self._kept else ""
        self._receipt.note("content", WHAT, f"it is carried in {self._slot} of the client's message{also}")
        return Open(self._next, Thinking(native={self._client: {self._slot: [entry]}})), Close(index=self._next)
