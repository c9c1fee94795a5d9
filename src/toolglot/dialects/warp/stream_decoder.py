"""Streams of the multi-agent API -> events.

The server sends actions on tasks. The answer is the messages that it adds to the root task, the one without a parent.
Text is emitted as it arrives, also inside a transaction, because users expect to see it at once. If a rollback retracts
emitted text, the stream ends in an error. If nothing was emitted, the rollback stays invisible. A Warp client applies
transactions itself.

`stream_queue.py` decides when an entry is emitted. Actions that are not part of the answer (echoes, server events,
other tasks, repeated messages of earlier turns) are side actions: the next event carries them unchanged, for Warp
clients.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from toolglot.dialects.warp.descriptors import new, parse
from toolglot.dialects.warp.errors import read_error
from toolglot.dialects.warp.fields import remaining_fields, to_base64, unknown_bytes
from toolglot.dialects.warp.finish import FINISHED, other_finish_fields, read_stop, read_usage
from toolglot.dialects.warp.frames import decode_frame_data
from toolglot.dialects.warp.late_changes import LateChange, judge_append, judge_update
from toolglot.dialects.warp.native import NAME
from toolglot.dialects.warp.request_tasks import RequestTasks
from toolglot.dialects.warp.stream_entry import AROUND, SILENT_KINDS, AnswerEntry, is_content, is_visible, kind_of
from toolglot.dialects.warp.stream_messages import SILENT, StreamMessages
from toolglot.dialects.warp.stream_output import StreamOutput
from toolglot.dialects.warp.stream_queue import StreamQueue
from toolglot.dialects.warp.undo import UndoLog
from toolglot.dialects.warp.unknown_fields import UnknownFields, has_unknown
from toolglot.errors import ApiError, DecodeError, truncated, unreadable
from toolglot.events import Event, Fault, Finish, Start
from toolglot.ir import Stop, replace
from toolglot.receipt import UNREAD, Receipt
from toolglot.wire import json
from toolglot.wire.sse import MAX_EVENT_BYTES, STRAY, SseReader
from toolglot.wire.stray_lines import read_stray_error


class WarpStreamDecoder:
    """Decoder of Warp's event stream.

    `whole`: nothing is emitted before the end, so that updates and rollbacks can change everything.

    Changes to `request_tasks`, the tasks of the request, are not part of the answer.
    """

    def __init__(self, receipt: Receipt, *, whole: bool = False, request_tasks: RequestTasks | None = None) -> None:
        self._receipt = receipt
        self._whole = whole
        self._sse = SseReader(keeps_stray=True)
        self._out = StreamOutput(receipt)
        self._ended = False
        self._started = False
        self._undo = UndoLog()
        self._messages = StreamMessages(self._undo, request_tasks or RequestTasks())
        self._queue = StreamQueue(self._out, self._messages, self._undo)
        # Such a client gets every action, regardless of earlier output.
        self._is_warp_client = not whole and request_tasks is not None and request_tasks.is_from_warp_client
        self._unknown = UnknownFields()
        self._has_unknown = False  # the current event has unknown fields
        self.unreadable: DecodeError | None = None
        """The error that made the stream unreadable."""

    # The protocol

    def feed(self, data: bytes) -> list[Event]:
        if self._ended:
            return []
        try:
            for event, frame in self._sse.feed(data):
                self._read_frame(event, frame)
        except DecodeError as error:
            self.unreadable = error
            self._fault(unreadable(error))
        return self._out.drain()

    def close(self) -> list[Event]:
        if not self._ended:
            try:
                for event, frame in self._sse.close():
                    self._read_frame(event, frame)
            except DecodeError as error:
                self._fault(truncated(str(error)))
            self._fault(truncated("there was no `finished`"))
        return self._out.drain()

    @property
    def settled(self) -> bool:
        return self._ended

    def _fault(self, error: ApiError) -> None:
        if not self._ended:
            self._ended = True
            self._out.events.append(Fault(error))

    def _fault_on_retraction(self, what: str) -> None:
        if self._is_warp_client:
            return  # it gets the action and applies it
        message = f"The upstream {what} that had been passed on"
        self._fault(ApiError(kind="server", status=502, code="upstream_rolled_back", message=message))

    # Frames

    def _read_frame(self, event: bytes, data: bytes) -> None:
        if self._ended or data.strip() in (b"", b"[DONE]"):
            return
        if event == STRAY and not data.lstrip().startswith(b"{"):
            read_stray_error(data, self._receipt)
            return
        if data.lstrip().startswith(b"{"):
            self._fault(read_error(json.decode_frame(data), 0, {}))
            return
        raw = decode_frame_data(data)
        message = parse("ResponseEvent", raw)
        self._has_unknown = self._unknown.add_event(message, raw)
        match message.WhichOneof("type"):
            case "init" if self._started:
                self._queue.add_side_action(message)
            case "init":
                self._start(message)
            case "client_actions":
                self._start(None)
                self._keep_unknown_shell(message)
                for action in message.client_actions.actions:
                    if not self._ended:
                        self._act(action)
                if not self._whole and not self._ended:
                    self._queue.flush(final=False)
            case "finished":
                self._start(None)
                self._finish(message)
            case None if self._has_unknown:
                self._queue.add_side_action(message)
        if self._out.side_bytes > MAX_EVENT_BYTES:
            raise DecodeError("$", f"more than {MAX_EVENT_BYTES} bytes are not part of the answer")

    def _start(self, event: Any) -> None:
        """Emit the start. Without an event, the server has left out `init`."""
        if self._started:
            return
        self._started = True
        if event is None:
            self._out.events.append(Start(id="", native={NAME: {"init": {"$init": "absent"}}}))
            return
        left = remaining_fields(event.init, {"request_id": None})
        notes = {**({"init": left} if left else {}), **_unknown_around(event)}
        self._out.events.append(Start(id=event.init.request_id, native={NAME: notes} if notes else {}))

    def _keep_unknown_shell(self, event: Any) -> None:
        """Keep the unknown fields around the actions of an event as a side action."""
        if not self._has_unknown:
            return
        shell = new("ResponseEvent")
        shell.CopyFrom(event)
        del shell.client_actions.actions[:]
        if has_unknown(shell):
            self._queue.add_side_action(shell)

    # Actions

    def _act(self, action: Any) -> None:
        kind = action.WhichOneof("action")
        if kind in _ACTIONS:
            _ACTIONS[kind](self, action)
        else:
            self._queue.add_side_action(action)

    def _create(self, action: Any) -> None:
        task = action.create_task.task
        self._messages.add_messages(task.messages)
        if task.dependencies.parent_task_id:
            self._messages.add_subtask(task.id)
            self._queue.add_side_action(action)
            return
        self._messages.add_root(task.id)
        shell = new("ClientAction")
        shell.CopyFrom(action)
        del shell.create_task.task.messages[:]
        self._queue.add_side_action(shell)
        for message in task.messages:
            self._add_message(message, task.id)

    def _move(self, action: Any) -> None:
        """Move messages out of the conversation. Entries in the queue are dropped; emitted text stays."""
        moved = action.move_messages_to_new_task
        in_subtask = self._messages.is_subtask(moved.source_task_id)
        report = "" if in_subtask else self._remove_moved(moved)
        self._messages.add_subtask(moved.new_task.id)
        self._messages.add_messages((*moved.new_task.messages, *moved.replacement_messages))
        if not self._ended:
            self._queue.add_side_action(action, report)
        if not self._ended and not in_subtask:
            self._add_replacements(moved)

    def _remove_moved(self, moved: Any) -> str:
        """Remove moved messages from the conversation. Returns the name of the loss to report to other clients."""
        report = ""
        gone = list(self._messages.entries_between(moved.source_task_id, moved.first_message_id, moved.last_message_id))
        for entry in gone:
            if entry.index < 0 and not entry.done:
                self._queue.change(entry, partial(setattr, entry, "moved", True))
            elif entry.kind == "call" and entry.index >= 0:
                self._fault_on_retraction("moved a call to another task")
            elif entry.has_text and entry.index >= 0:
                report = "text_moved_to_another_task"
            self._messages.remove_moved(entry.message.id)
        strange = any(kind_of(message) not in (*SILENT_KINDS, "call") for message in moved.replacement_messages)
        return report or ("replacement_messages" if strange else "")

    def _add_replacements(self, moved: Any) -> None:
        """Add the messages that replace moved ones: calls, which must run, and silent ones, which may get content."""
        for message in moved.replacement_messages:
            if kind_of(message) == "call":
                self._add_message(message, moved.source_task_id, how="$upsert")
            elif kind_of(message) in SILENT_KINDS and not self._messages.is_from_earlier_turn(message.id):
                self._messages.add_silent_entry(message, moved.source_task_id)

    def _add(self, action: Any) -> None:
        added = action.add_messages_to_task
        self._messages.add_messages(added.messages)
        if not added.messages or self._messages.is_subtask(added.task_id):
            self._queue.add_side_action(action)
            return
        if self._has_unknown:
            shell = new("ClientAction")
            shell.CopyFrom(action)
            del shell.add_messages_to_task.messages[:]
            if has_unknown(shell):
                self._queue.add_side_action(shell)
        for message in added.messages:
            self._add_message(message, added.task_id)

    def _add_message(self, message: Any, task_id: str, *, how: str = "") -> None:
        earlier = self._messages.is_from_earlier_turn(message.id)  # the server repeats it
        if not earlier and kind_of(message) != "aside":
            self._queue.add(self._messages.add_entry(message, task_id, how))
            return
        action = new("ClientAction")
        action.add_messages_to_task.task_id = task_id
        action.add_messages_to_task.messages.add().CopyFrom(message)
        is_changed = earlier and self._messages.is_changed(message)
        self._queue.add_side_action(
            action, _earlier_change_report((message.WhichOneof("message") or "",)) if is_changed else ""
        )
        if not earlier:
            self._messages.add_silent_entry(message, task_id)

    def _change(self, action: Any) -> None:
        """Append to a message or update one. Unknown fields of the action become a side action."""
        shell = new("ClientAction") if self._has_unknown and has_unknown(action) else None
        if shell is not None:
            shell.CopyFrom(action)
        count = self._queue.side_action_count
        kind = action.WhichOneof("action")
        if kind == "update_task_message":
            self._update(action)
        else:
            self._append(action)
        if shell is not None and self._queue.side_action_count == count and not self._ended:
            del getattr(shell, kind).mask.paths[:]  # so that it changes nothing
            self._queue.add_side_action(shell)

    def _append(self, action: Any) -> None:
        change, known = action.append_to_message_content, self._messages
        paths = tuple(change.mask.paths)
        in_subtask = known.is_subtask(change.task_id)
        entry = None if in_subtask else known.entry(change.message.id)
        if entry is not None and not entry.done:
            growing = all(path == entry.text_path for path in paths)
            self._queue.change(entry, lambda: entry.append(change.message, paths), paths, growing=growing)
        elif entry is not None and entry.is_silent:
            self._change_silent(entry, action, change, AnswerEntry.append)
        elif entry is not None or (known.has_message("") and not change.message.id and not in_subtask):
            self._apply_late_change(self._judge(judge_append, entry, change), action, entry)
        elif known.is_from_earlier_turn(change.message.id):
            self._queue.add_side_action(action, "" if in_subtask else _earlier_change_report(paths))
        elif known.has_message(change.message.id, in_subtask=in_subtask):
            self._queue.add_side_action(action)
        else:
            raise DecodeError("append_to_message_content", f"there is no message {change.message.id!r}")

    def _update(self, action: Any) -> None:
        change, known = action.update_task_message, self._messages
        paths = tuple(change.mask.paths)
        in_subtask = known.is_subtask(change.task_id)
        entry = None if in_subtask else known.entry(change.message.id)
        if (
            self._is_warp_client
            and entry is not None
            and entry.index >= 0
            and any(map(is_content, {*paths} - {entry.text_path}))
        ):
            self._queue.flush(final=True)  # it may change its kind, which the client sees from the action
        if entry is not None and not entry.done:
            self._queue.change(entry, lambda: entry.update(change.message, paths), paths)
        elif entry is not None and entry.is_silent:
            self._change_silent(entry, action, change, AnswerEntry.update)
        elif entry is not None:
            self._apply_late_change(self._judge(judge_update, entry, change), action, entry)
        elif known.is_from_earlier_turn(change.message.id):
            self._queue.add_side_action(action, "" if in_subtask else _earlier_change_report(paths))
        else:
            self._upsert(action, change, in_subtask)

    def _upsert(self, action: Any, change: Any, in_subtask: bool) -> None:
        """Apply an update of an unknown message: it adds the message."""
        message, kind = change.message, kind_of(change.message)
        is_new = not in_subtask and not self._messages.has_message(message.id)
        self._messages.add_messages((message,))
        if is_new and kind not in SILENT_KINDS:
            self._add_message(message, change.task_id, how="$upsert")
            return
        self._queue.add_side_action(action)
        if is_new:
            self._messages.add_silent_entry(message, change.task_id)

    def _change_silent(
        self, entry: AnswerEntry, action: Any, change: Any, how: Callable[[AnswerEntry, Any, tuple[str, ...]], None]
    ) -> None:
        """Apply a change to a silent message, which so far is only a side action."""
        paths = tuple(change.mask.paths)
        named = tuple(filter(is_visible, paths)) if entry.how == SILENT else paths
        self._queue.change(entry, lambda: how(entry, change.message, named), named)
        if entry.is_silent:
            self._queue.add_side_action(action)
            return
        message = entry.whole()
        self._undo.charge(message.ByteSize())
        self._add_message(message, change.task_id, how="$upsert")
        self._keep_rest_of_change(action, change, tuple(path for path in paths if path not in named))

    def _keep_rest_of_change(self, action: Any, change: Any, paths: tuple[str, ...]) -> None:
        """Keep the paths of a change that are not part of the answer as a side action."""
        if paths:
            change.mask.paths[:] = paths
            self._queue.add_side_action(action)

    def _judge(self, judge: Callable[[Any, Any], LateChange], entry: AnswerEntry | None, change: Any) -> LateChange:
        """Judge a change to an emitted message. A Warp client needs only the action itself."""
        try:
            return judge(entry, change)
        except DecodeError:
            if not self._is_warp_client:
                raise
            return LateChange()

    def _apply_late_change(self, late: LateChange, action: Any, entry: AnswerEntry | None) -> None:
        """Apply a change to an emitted message."""
        if late.fault:
            self._fault_on_retraction(late.fault)
            late = LateChange()
        if late.loss and entry is not None:
            self._receipt.loss(f"content[{entry.index}]", "text", late.loss)
        if late.more is None:
            if not self._ended:
                self._queue.add_side_action(action)
            return
        change = getattr(action, action.WhichOneof("action"))
        self._add_message(late.more, change.task_id, how=late.how)
        self._keep_rest_of_change(action, change, late.rest)

    # Transactions

    def _begin(self, action: Any) -> None:
        if self._is_warp_client:
            self._queue.begin(action)
        else:
            self._undo.begin()

    def _commit(self, action: Any) -> None:
        if self._undo.transaction:
            self._undo.commit()
            if self._is_warp_client:
                self._queue.add_side_action(action)

    def _roll_back(self, action: Any) -> None:
        """Undo the transaction, or fail if a part of it has been emitted."""
        transaction = self._undo.transaction
        if not transaction:
            return
        if self._out.seen_in >= transaction:
            self._fault_on_retraction("took back a part of the answer")
        if not self._ended:
            self._undo.roll_back()
            self._queue.drop_transaction(transaction)
        if not self._ended and self._is_warp_client:
            self._queue.roll_back(action)

    # The end

    def _finish(self, event: Any) -> None:
        finished = event.finished
        self._undo.end()
        self._queue.flush(final=True)
        stop = read_stop(finished, has_answer=self._out.blocks > 0)
        before = {**self._out.take_side_notes(), **self._out.take_reports()}
        if not isinstance(stop, Stop):
            self._fault(replace(stop, native={NAME: {**stop.native[NAME], **before}}))
            return
        if stop.reason == "end" and self._out.called:  # Warp has no reason for tool calls: the calls imply it
            stop = replace(stop, reason="tool_calls")
        notes: dict[str, Any] = {FINISHED: other_finish_fields(finished), **_unknown_around(event), **before}
        if lines := self._unknown.lines():
            notes[UNREAD] = lines
        self._ended = True
        usage = read_usage(finished, self._out.characters)
        self._out.events.append(Finish(stop=stop, usage=usage, native={NAME: notes}))


def _unknown_around(event: Any) -> dict[str, Any]:
    """Return the unknown fields of an event itself, as a note."""
    unknown = unknown_bytes(event)
    return {AROUND: to_base64(unknown)} if unknown else {}


def _earlier_change_report(paths: tuple[str, ...]) -> str:
    """Return the name of the loss for a change to a message of an earlier turn. Empty if the change is not visible."""
    return "change_of_an_earlier_message" if any(map(is_visible, paths)) else ""


_ACTIONS: dict[str | None, Callable[[WarpStreamDecoder, Any], None]] = {
    "create_task": WarpStreamDecoder._create,
    "add_messages_to_task": WarpStreamDecoder._add,
    "update_task_message": WarpStreamDecoder._change,
    "append_to_message_content": WarpStreamDecoder._change,
    "move_messages_to_new_task": WarpStreamDecoder._move,
    "begin_transaction": WarpStreamDecoder._begin,
    "commit_transaction": WarpStreamDecoder._commit,
    "rollback_transaction": WarpStreamDecoder._roll_back,
}
