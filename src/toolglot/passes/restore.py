"""Restore the calls of an answer for the client: its own tool names and kinds, and ids that are legal and unique.

The request passes renamed tools for the upstream, wrapped custom tools into functions, and gave arguments another form.
This event pass reverts all of that. Arguments in another form are held back until they are complete.
It also gives an id to a call without one (Gemini), and a new id to a call whose id the conversation already uses (some
servers name every first call `call_0`). An id that carries state of its server becomes state of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toolglot.capabilities import Capabilities
from toolglot.errors import malformed_call
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start, merge_native
from toolglot.ir import ToolCall, replace
from toolglot.passes import Context, find_original
from toolglot.passes.argument_form import ArgumentForm
from toolglot.passes.custom import MEMBER
from toolglot.passes.digest import digest
from toolglot.passes.ids import UsedIds, is_legal_id, replacement_id
from toolglot.passes.settle import CUTS
from toolglot.passes.unwrap import InputUnwrapper
from toolglot.state_fields import STATE_ID
from toolglot.wire import json


def _carries_state(identity: str, context: Context) -> bool:
    """Return whether the id carries state that is returned in another way, because clients of other APIs do not return
    such ids unchanged."""
    mark = context.can.ids.state_mark
    return bool(mark) and mark in identity and context.source != context.target


class Restorer:
    """Event pass that restores calls. `whole`: the response is not streamed, so the client has not seen any part of a
    call whose input cannot be read."""

    __slots__ = (
        "_answer_id",
        "_broken",
        "_calls",
        "_client",
        "_context",
        "_held",
        "_unwrappers",
        "_used",
        "_whole",
        "_wrapped",
    )

    def __init__(self, context: Context, client: Capabilities, *, whole: bool = False) -> None:
        self._context = context
        self._client = client
        self._used: UsedIds | None = None  # call ids, including this answer's; created lazily
        self._whole = whole
        self._broken = ""  # name of a custom tool whose input was not a text
        self._calls = 0
        self._answer_id = ""
        self._unwrappers: dict[int, InputUnwrapper] = {}
        self._held: dict[int, tuple[ArgumentForm, list[str]]] = {}
        self._wrapped: dict[int, None] = {}  # used as a set: an empty dict is smaller

    def restore_whole(self, call: ToolCall, answer_id: Callable[[], str]) -> ToolCall | None:
        """Restore a call that needs nothing but a name and an id, and no line in the receipt. Returns None for any
        other: only `feed` restores it. `answer_id` returns the id that the answer gets."""
        context, name, identity = self._context, call.name, call.id
        if call.kind != "function" or call.namespace is not None:
            return None
        if (tools := context.tools) and (original := find_original(tools, name)) is not None:
            if name not in tools or not original.is_plain:
                return None
            name = original.name
        used = self._used = self._used or UsedIds(context.call_ids, self._client.ids)
        self._calls += 1
        if not identity:
            self._answer_id = self._answer_id or answer_id()
            identity = self._new_id(call, used)
        elif _carries_state(identity, context) or identity in used or not is_legal_id(identity, self._client.ids):
            return None
        used.add(identity)
        if identity == call.id and name == call.name:
            return call
        return replace(call, id=identity, name=name)

    def feed(self, event: Event) -> Sequence[Event]:
        match event:
            case Delta(index=index):
                if self._unwrappers and index in self._unwrappers:
                    text = self._unwrappers[index].feed(event.text)
                    return (Delta(index, text),) if text else ()
                if self._held and index in self._held:
                    self._held[index][1].append(event.text)
                    return ()
                if index in self._wrapped:
                    return (Delta(index, json.encode_text(event.text)[1:-1]),)
            case Open(block=ToolCall() as call):
                return self._open(event.index, call)
            case Close(index=index):
                if index in self._unwrappers:
                    return self._close(event)
                if index in self._held:
                    return self._close_held(event)
                if index in self._wrapped and event.complete:
                    return Delta(index, '"}'), event
            case Finish(stop=stop) if self._broken and not self._whole and stop.reason not in CUTS:
                return (Fault(malformed_call(f"the input of {self._broken} is not the requested text")),)
            case Start(id=answer_id):
                self._answer_id = answer_id
            case _:
                pass
        return (event,)

    def _open(self, index: int, call: ToolCall) -> Sequence[Event]:
        original = find_original(self._context.tools, call.name)
        if original is not None:
            if call.name not in self._context.tools:
                why = f"no tool has this name: it is read as {original.name!r}"
                self._context.receipt.note(f"content[{index}].name", f"call of {call.name}", why)
            if original.kind == "custom" and call.kind == "function":
                self._unwrappers[index] = InputUnwrapper(original.name)
            elif original.form is not None and call.kind == "function":
                self._held[index] = original.form, [call.arguments]
                call = replace(call, arguments="")
            call = replace(call, name=original.name, namespace=original.namespace, kind=original.kind)
        if call.namespace is not None and not self._client.tools.namespaces:
            why = "the client's API has no namespaces"
            self._context.receipt.loss(f"content[{index}].namespace", call.namespace, why)
        self._calls += 1
        if self._used is None:
            self._used = UsedIds(self._context.call_ids, self._client.ids)
        if call.id and _carries_state(call.id, self._context):
            state = {self._context.target: {STATE_ID: call.id}}
            short = call.id.partition(self._context.can.ids.state_mark)[0]
            call = replace(call, id=short, native=merge_native(call.native, state))
        identity = self._new_id(call, self._used)
        self._used.add(identity)
        if identity != call.id:
            if call.id:
                why = f"the client gets {identity}: ids must be new to the conversation, and in the form of its API"
                self._context.receipt.note(f"content[{index}].id", f"call id {call.id}", why)
            call = replace(call, id=identity)
        if call.kind == "custom" and self._client.calls.arguments == "object":
            # The client has no custom tools: it gets the function that represents the tool in its histories.
            self._wrapped[index] = None
            return Open(index, replace(call, kind="function")), Delta(index, f'{{"{MEMBER}":"')
        return (Open(index, call),)

    def _new_id(self, call: ToolCall, used: UsedIds) -> str:
        # The answer's id makes ids differ between conversations; the same exchange always gets the same ids.
        turn = len(self._context.call_ids)
        identity = call.id or f"call_{digest(self._answer_id, turn, self._calls, call.name)[:12]}"
        if not is_legal_id(identity, self._client.ids) or identity in used:
            return replacement_id(identity, self._client.ids, used, turn)
        return identity

    def _close_held(self, event: Close) -> Sequence[Event]:
        form, pieces = self._held.pop(event.index)
        arguments = "".join(pieces)
        text = form.to_client(arguments, is_object=self._client.calls.arguments == "object")
        if text is None or (text is arguments and form.wrapped_in is not None and event.complete):
            why = f"the model has not put them under {form.wrapped_in!r}; they are passed on unchanged"
            if text is not None:
                why = f"the client's API has only objects; they stay under {form.wrapped_in!r}"
            self._context.receipt.note(f"content[{event.index}].arguments", "arguments", why)
            text = arguments
        return (Delta(event.index, text), event) if text else (event,)

    def _close(self, event: Close) -> Sequence[Event]:
        unwrapper = self._unwrappers.pop(event.index)
        text = unwrapper.close()
        if not unwrapper.exact:
            why = "the upstream did not wrap the tool's input as requested; its arguments are passed on unchanged"
            self._context.receipt.loss("content", "input of a custom tool", why)
            event = replace(event, complete=event.complete and unwrapper.readable)
            self._broken = self._broken if unwrapper.readable else unwrapper.tool
        return (Delta(event.index, text), event) if text else (event,)
