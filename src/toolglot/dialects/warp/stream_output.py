"""Emit the events of Warp's stream decoder: blocks in order, and the side actions that they carry."""

from __future__ import annotations

from typing import Any

from toolglot.dialects.warp.client_tools import BUILTIN
from toolglot.dialects.warp.descriptors import new
from toolglot.dialects.warp.native import NAME
from toolglot.dialects.warp.stream_entry import BEFORE, TEXT_PATHS, AnswerEntry, SideAction, changed_paths
from toolglot.events import Close, Delta, Event, Open
from toolglot.ir import Block, Opaque, Text, ToolCall, native_of, replace, with_native
from toolglot.receipt import Receipt

REWRITTEN = "the server rewrote it after it had been passed on; the earlier version stays"


class StreamOutput:
    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt
        self.events: list[Event] = []
        self.blocks = 0
        self.called = False
        self.characters = 0
        self.seen_in = 0
        """The last transaction with an emitted part."""
        self.side_bytes = 0
        self._side_actions: list[SideAction] = []  # for the next event
        self._reports: dict[str, bool] = {}  # for the next event whose notes reach other clients' receipts

    def drain(self) -> list[Event]:
        events, self.events = self.events, []
        return events

    # Side actions

    def add_side_action(self, side_action: SideAction) -> None:
        self._side_actions.append(side_action)

    def drop_side_actions(self, transaction: int) -> int:
        """Drop the side actions of this transaction. Returns the change in open transactions that they had."""
        gone = [side_action for side_action in self._side_actions if side_action.transaction >= transaction]
        if not gone:
            return 0
        self.side_bytes -= sum(len(side_action.data) for side_action in gone)
        self._side_actions = [
            side_action for side_action in self._side_actions if side_action.transaction < transaction
        ]
        return sum(side_action.depth for side_action in gone)

    def emit_as_side_action(self, entry: AnswerEntry) -> None:
        """Keep an entry that is not part of the answer as a side action."""
        side_action = SideAction(_action_of(entry), entry.changed_in)
        self.side_bytes += len(side_action.data)
        self.add_side_action(side_action)

    def take_side_notes(self) -> dict[str, Any]:
        """Take all side actions, as notes for the next event."""
        if not self._side_actions:
            return {}
        side_actions, self._side_actions = self._side_actions, []
        self.side_bytes -= sum(len(side_action.data) for side_action in side_actions)
        self.seen_in = max(self.seen_in, *(side_action.transaction for side_action in side_actions))
        self._reports |= {side_action.report: True for side_action in side_actions if side_action.report}
        return {BEFORE: [side_action.note() for side_action in side_actions]}

    def take_reports(self) -> dict[str, Any]:
        """Take the losses to report to other clients, as notes for the next event."""
        reports, self._reports = self._reports, {}
        return reports

    # Blocks

    def _emit(self, event: Event, entry: AnswerEntry) -> None:
        self.events.append(event)
        self.seen_in = max(self.seen_in, entry.changed_in)

    def _open(self, entry: AnswerEntry, block: Block) -> None:
        notes: dict[str, Any] = {entry.how: True} if entry.how else {}
        if entry.task_id != entry.message.task_id:
            notes["$task_id"] = entry.task_id
        notes |= self.take_side_notes()
        if isinstance(block, Text) or (isinstance(block, ToolCall) and BUILTIN not in native_of(block, NAME)):
            notes |= self.take_reports()  # only notes on these blocks reach the receipts of other clients
        if isinstance(block, Opaque):
            block = Opaque(NAME, {**block.value, **notes})
        elif notes:
            block = with_native(block, NAME, **notes)
        entry.index, self.blocks = self.blocks, self.blocks + 1
        self._emit(Open(entry.index, block), entry)

    def emit_text(self, entry: AnswerEntry) -> None:
        if entry.index < 0:
            entry.opened = entry.other_fields() if entry.how != "$more" else entry.opened
            self._open(entry, entry.block())
        text = "".join(entry.take_unsent())
        if text:
            self.characters += len(text)
            self._emit(Delta(entry.index, text), entry)

    def close_block(self, entry: AnswerEntry) -> None:
        notes: dict[str, Any] = {}
        rest = entry.other_fields()
        if rest != entry.opened:
            notes = {**rest, "$changed": changed_paths(entry.opened, rest)}
        if entry.replaced is not None:
            notes["$text"] = "".join(entry.pieces[TEXT_PATHS[entry.kind]])
            self._receipt.loss(f"content[{entry.index}]", "text", REWRITTEN)
        if notes:
            self._emit(Close(index=entry.index, native={NAME: notes}), entry)
        else:
            self.events.append(Close(index=entry.index))  # it has nothing that a rollback could retract

    def cancel_block(self, entry: AnswerEntry) -> None:
        """Close the block of a rolled-back entry."""
        self.events.append(Close(index=entry.index))

    def emit_whole_block(self, entry: AnswerEntry) -> bool:
        """Emit a call, or a message that only Warp's clients show. Returns False for any other entry."""
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


def _action_of(entry: AnswerEntry) -> Any:
    """Return the action for an entry: it adds a message, or changes an existing one."""
    action, message = new("ClientAction"), entry.whole()
    if entry.how == "$upsert":
        change = action.update_task_message
        change.mask.paths.extend(field.name for field, _ in message.ListFields() if field.name not in ("id", "task_id"))
    elif entry.how == "$more":
        change = action.append_to_message_content
        change.mask.paths.append(entry.text_path)
    else:
        action.add_messages_to_task.task_id = entry.task_id
        action.add_messages_to_task.messages.add().CopyFrom(message)
        return action
    change.task_id = entry.task_id
    change.message.CopyFrom(message)
    return action
