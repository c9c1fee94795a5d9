"""What a decoder of Warp's streams has passed on: blocks in their order, and the actions that ride along on them."""

from __future__ import annotations

from typing import Any

from toolglot.dialects.warp.declared import BUILTIN
from toolglot.dialects.warp.descriptors import new
from toolglot.dialects.warp.native import NAME
from toolglot.dialects.warp.stream_entry import BEFORE, SPOKEN, Aside, Entry, changed
from toolglot.events import Close, Delta, Event, Open
from toolglot.ir import Block, Opaque, Text, ToolCall, native_of, replace, with_native
from toolglot.receipt import Receipt

ANEW = "the server wrote it anew after it had been passed on; what was passed on stays"


class Output:
    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt
        self.events: list[Event] = []
        self.blocks = 0
        self.called = False
        self.characters = 0
        self.seen_in = 0
        """The last transaction of which something was passed on."""
        self.aside_bytes = 0
        self._aside: list[Aside] = []  # for the next event
        self._told: dict[str, bool] = {}  # for the next event whose notes others are told of

    def drain(self) -> list[Event]:
        events, self.events = self.events, []
        return events

    # What is no part of the answer

    def put(self, aside: Aside) -> None:
        self._aside.append(aside)

    def drop(self, transaction: int) -> int:
        """Takes back what this transaction put aside; how many transactions more would have been open behind it."""
        gone = [aside for aside in self._aside if aside.transaction >= transaction]
        if not gone:
            return 0
        self.aside_bytes -= sum(len(aside.data) for aside in gone)
        self._aside = [aside for aside in self._aside if aside.transaction < transaction]
        return sum(aside.depth for aside in gone)

    def release(self, entry: Entry) -> None:
        """A message that is no part of the answer after all."""
        aside = Aside(_action_of(entry), entry.changed_in)
        self.aside_bytes += len(aside.data)
        self.put(aside)

    def before(self) -> dict[str, Any]:
        """The notes on the event behind which nothing has been put aside any more."""
        if not self._aside:
            return {}
        asides, self._aside = self._aside, []
        self.aside_bytes -= sum(len(aside.data) for aside in asides)
        self.seen_in = max(self.seen_in, *(aside.transaction for aside in asides))
        self._told |= {aside.told: True for aside in asides if aside.told}
        return {BEFORE: [aside.note() for aside in asides]}

    def told(self) -> dict[str, Any]:
        """What others are told of all that has been put aside."""
        told, self._told = self._told, {}
        return told

    # Blocks

    def _emit(self, event: Event, entry: Entry) -> None:
        self.events.append(event)
        self.seen_in = max(self.seen_in, entry.changed_in)

    def _open(self, entry: Entry, block: Block) -> None:
        notes: dict[str, Any] = {entry.how: True} if entry.how else {}
        if entry.task_id != entry.message.task_id:
            notes["$task_id"] = entry.task_id
        notes |= self.before()
        if isinstance(block, Text) or (isinstance(block, ToolCall) and BUILTIN not in native_of(block, NAME)):
            notes |= self.told()  # the notes on others are nobody's business but Warp's
        if isinstance(block, Opaque):
            block = Opaque(NAME, {**block.value, **notes})
        elif notes:
            block = with_native(block, NAME, **notes)
        entry.index, self.blocks = self.blocks, self.blocks + 1
        self._emit(Open(entry.index, block), entry)

    def speak(self, entry: Entry) -> None:
        if entry.index < 0:
            entry.opened = entry.rest() if entry.how != "$more" else entry.opened
            self._open(entry, entry.block())
        text = "".join(entry.unsent())
        if text:
            self.characters += len(text)
            self._emit(Delta(entry.index, text), entry)

    def close(self, entry: Entry) -> None:
        notes: dict[str, Any] = {}
        rest = entry.rest()
        if rest != entry.opened:
            notes = {**rest, "$changed": changed(entry.opened, rest)}
        if entry.replaced is not None:
            notes["$text"] = "".join(entry.pieces[SPOKEN[entry.kind]])
            self._receipt.loss(f"content[{entry.index}]", "text", ANEW)
        if notes:
            self._emit(Close(index=entry.index, native={NAME: notes}), entry)
        else:
            self.events.append(Close(index=entry.index))  # which says nothing that could be taken back

    def break_off(self, entry: Entry) -> None:
        """What it said is taken back."""
        self.events.append(Close(index=entry.index))

    def whole_block(self, entry: Entry) -> bool:
        """Passes on a call or something shown; whether it still is one."""
        block, complete = entry.block(), True
        if isinstance(block, ToolCall):
            self.called = self.called or BUILTIN not in native_of(block, NAME)
            complete = block.complete
            self._open(entry, replace(block, arguments="", complete=True))
            if block.arguments:
                self.characters += len(block.arguments)
                self._emit(Delta(entry.index, block.arguments), entry)
        elif isinstance(block, Opaque) and entry.kind == "shown":
            self._open(entry, block)
        else:
            return False
        self._emit(Close(index=entry.index, complete=complete), entry)
        return True


def _action_of(entry: Entry) -> Any:
    """The action that says what an entry says: it adds a message, or changes one that is there already."""
    action, message = new("ClientAction"), entry.whole()
    if entry.how == "$upsert":
        change = action.update_task_message
        change.mask.paths.extend(field.name for field, _ in message.ListFields() if field.name not in ("id", "task_id"))
    elif entry.how == "$more":
        change = action.append_to_message_content
        change.mask.paths.append(entry.spoken)
    else:
        action.add_messages_to_task.task_id = entry.task_id
        action.add_messages_to_task.messages.add().CopyFrom(message)
        return action
    change.task_id = entry.task_id
    change.message.CopyFrom(message)
    return action
