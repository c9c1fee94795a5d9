"""Streams of the multi-agent API -> events.

The server sends actions on tasks; the answer is what the task without a parent is told. Text is passed on as it comes,
also inside a transaction: whoever reads wants to see it at once. If a rollback takes back what was passed on, the only
honest end is an error; if nothing of it was, nobody ever sees it.

Calls, and messages that say nothing yet, wait until the answer ends, or their transaction is over and something is
said behind them, because updates may still change them; what only a client of Warp's can show waits for the next text.
What is no part of the answer (echoes, server events, other tasks) rides along on the next event as the action that it
came as, for clients of Warp's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from toolglot.dialects.warp.descriptors import new
from toolglot.dialects.warp.errors import read_error
from toolglot.dialects.warp.fields import kept
from toolglot.dialects.warp.finish import FINISHED, left_of, read_stop, read_usage
from toolglot.dialects.warp.frames import read_event
from toolglot.dialects.warp.native import NAME
from toolglot.dialects.warp.passed import Late, appended, updated
from toolglot.dialects.warp.stream_entry import Aside, Entry, kind_of
from toolglot.dialects.warp.stream_out import Output
from toolglot.dialects.warp.undo import UndoLog
from toolglot.errors import ApiError, DecodeError, truncated, unreadable
from toolglot.events import Event, Fault, Finish, Start
from toolglot.ir import Stop, replace
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.sse import MAX_EVENT_BYTES, SseReader


class WarpStreamDecoder:
    """`whole`: nothing is passed on before the end, so that updates and rollbacks can change everything."""

    def __init__(self, receipt: Receipt, *, whole: bool = False) -> None:
        self._receipt = receipt
        self._whole = whole
        self._sse = SseReader()
        self._out = Output(receipt)
        self._ended = False
        self._started = False
        self._queue: deque[Entry | Aside] = deque()
        self._speakers = 0  # entries in the queue that are text
        self._entries: dict[str, Entry] = {}  # by the id of their message
        self._seen: set[str] = set()
        self._roots: set[str] = set()
        self._subtasks: set[str] = set()
        self._undo = UndoLog()

    # The protocol

    def feed(self, data: bytes) -> list[Event]:
        if self._ended:
            return []
        try:
            for event, frame in self._sse.feed(data):
                self._frame(event, frame)
        except DecodeError as error:
            self._fault(unreadable(error))
        return self._out.drain()

    def close(self) -> list[Event]:
        if not self._ended:
            try:
                for event, frame in self._sse.close():
                    self._frame(event, frame)
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

    def _taken_back(self, what: str) -> None:
        message = f"The upstream {what} that had been passed on"
        self._fault(ApiError(kind="server", status=502, code="upstream_rolled_back", message=message))

    # Frames

    def _frame(self, event: bytes, data: bytes) -> None:
        if self._ended or data.strip() in (b"", b"[DONE]"):
            return
        if data.lstrip().startswith(b"{"):
            self._fault(read_error(json.decode_frame(data), 0, {}))
            return
        message = read_event(data)
        match message.WhichOneof("type"):
            case "init":
                self._start(message.init)
            case "client_actions":
                self._start(None)
                for action in message.client_actions.actions:
                    if not self._ended:
                        self._act(action)
                if not self._whole and not self._ended:
                    self._pump(final=False)
            case "finished":
                self._start(None)
                self._finish(message.finished)
        if self._out.aside_bytes > MAX_EVENT_BYTES:
            raise DecodeError("$", f"more than {MAX_EVENT_BYTES} bytes are no part of the answer")

    def _start(self, init: Any) -> None:
        if self._started:
            return
        self._started = True
        left = kept(init, {"request_id": None}) if init is not None else {"$init": "absent"}
        native = {NAME: {"init": left}} if left else {}
        self._out.events.append(Start(id=init.request_id if init is not None else "", native=native))

    # Actions

    def _act(self, action: Any) -> None:
        kind = action.WhichOneof("action")
        _ACTIONS.get(kind, WarpStreamDecoder._put_aside)(self, action)

    def _put_aside(self, action: Any) -> None:
        aside = Aside(action, self._undo.transaction)
        self._out.aside_bytes += len(aside.data)
        self._queue.append(aside)

    def _learn(self, known: set[str], ids: Iterable[str]) -> None:
        fresh = set(ids) - known
        known |= fresh
        if fresh:
            self._undo.note(lambda: known.difference_update(fresh))

    def _create(self, action: Any) -> None:
        task = action.create_task.task
        self._learn(self._seen, (message.id for message in task.messages))
        if task.dependencies.parent_task_id:
            self._learn(self._subtasks, (task.id,))
            self._put_aside(action)
            return
        self._learn(self._roots, (task.id,))
        shell = new("ClientAction")
        shell.CopyFrom(action)
        del shell.create_task.task.messages[:]
        self._put_aside(shell)
        for message in task.messages:
            self._message(message, task.id)

    def _move(self, action: Any) -> None:
        """What has been said stays said; the task it goes to is not the conversation."""
        moved = action.move_messages_to_new_task
        self._learn(self._subtasks, (moved.new_task.id,))
        self._learn(self._seen, (message.id for message in (*moved.new_task.messages, *moved.replacement_messages)))
        self._put_aside(action)

    def _add(self, action: Any) -> None:
        added = action.add_messages_to_task
        self._learn(self._seen, (message.id for message in added.messages))
        if added.task_id in self._subtasks:
            self._put_aside(action)
            return
        for message in added.messages:
            self._message(message, added.task_id)

    def _message(self, message: Any, task_id: str, *, how: str = "") -> None:
        if kind_of(message) == "aside":
            action = new("ClientAction")
            action.add_messages_to_task.task_id = task_id
            action.add_messages_to_task.messages.add().CopyFrom(message)
            self._put_aside(action)
            return
        entry = self._entered(message, task_id, how)
        self._queue.append(entry)
        self._speakers += entry.speaks

    def _entered(self, message: Any, task_id: str, how: str) -> Entry:
        """An entry for a copy of this message, which changes to the message will find."""
        copy = new("Message")
        copy.CopyFrom(message)
        entry, number = Entry(copy, task_id, self._undo.transaction, how), message.id
        if number:
            older = self._entries.get(number)
            entry.older = older if how == "$more" else None
            self._entries[number] = entry
            self._undo.note(lambda: _put_back(self._entries, number, older))
        return entry

    def _changing(self, entry: Entry, change: Callable[[], None], *, growing: bool = False) -> None:
        """Changes an entry that waits, so that a rollback can undo it. `growing`: its spoken text only goes on."""
        now = self._undo.transaction
        if (entry.changed_in if growing else max(entry.transaction, entry.saved_in)) < now:
            undo = entry.length() if growing else entry.saved(now)
            self._undo.note(lambda: self._changed_back(entry, undo), 0 if growing else entry.message.ByteSize())
        entry.changed_in = max(entry.changed_in, now)
        self._speakers -= entry.speaks
        change()
        self._speakers += entry.speaks

    def _changed_back(self, entry: Entry, undo: Callable[[], None]) -> None:
        waits = not entry.done
        self._speakers -= waits * entry.speaks
        undo()
        self._speakers += waits * entry.speaks

    def _append(self, action: Any) -> None:
        change = action.append_to_message_content
        paths = list(change.mask.paths)
        inside = change.task_id in self._subtasks
        entry = None if inside else self._entries.get(change.message.id)
        if entry is not None and not entry.done:
            growing = all(path == entry.spoken for path in paths)
            self._changing(entry, lambda: entry.append(change.message, paths), growing=growing)
            return
        if change.message.id not in self._seen:
            raise DecodeError("append_to_message_content", f"there is no message {change.message.id!r}")
        if inside:
            self._put_aside(action)
        else:
            self._late(appended(entry, change), action, entry)

    def _update(self, action: Any) -> None:
        change = action.update_task_message
        inside = change.task_id in self._subtasks
        entry = None if inside else self._entries.get(change.message.id)
        if entry is not None and not entry.done:
            paths = list(change.mask.paths)
            self._changing(entry, lambda: entry.update(change.message, paths))
            return
        if entry is not None:
            self._late(updated(entry, change), action, entry)
            return
        is_new = change.message.id not in self._seen
        self._learn(self._seen, (change.message.id,))
        kind = kind_of(change.message)
        if inside or not is_new or kind in ("aside", "placeholder"):
            self._put_aside(action)
            if not inside and is_new and kind == "placeholder":
                self._entered(change.message, change.task_id, "").done = True
        else:
            self._message(change.message, change.task_id, how="$upsert")

    def _late(self, late: Late, action: Any, entry: Entry | None) -> None:
        """A change to what has been passed on."""
        if late.fault:
            self._taken_back(late.fault)
            return
        if late.loss and entry is not None:
            self._receipt.loss(f"content[{entry.index}]", "text", late.loss)
        if late.message is None:
            self._put_aside(action)
        elif late.how:
            task_id = getattr(action, action.WhichOneof("action")).task_id
            self._message(late.message, task_id, how=late.how)
            if late.rest:
                action.update_task_message.mask.paths[:] = late.rest
                self._put_aside(action)
        elif entry is not None:
            before, entry.message = entry.message, late.message
            self._undo.note(lambda: setattr(entry, "message", before), before.ByteSize())
            self._put_aside(action)

    # Transactions

    def _begin(self, action: Any) -> None:
        self._undo.begin()

    def _commit(self, action: Any) -> None:
        self._undo.commit()

    def _roll_back(self, action: Any) -> None:
        """Takes back what the transaction brought, if nobody has seen it."""
        transaction = self._undo.transaction
        if not transaction:
            return
        if self._out.seen_in >= transaction:
            self._taken_back("took back a part of the answer")
            return
        self._undo.roll_back()
        self._out.drop(transaction)
        while self._queue and _brought(self._queue[-1], transaction):
            item = self._queue.pop()
            if isinstance(item, Entry):
                self._speakers -= item.speaks
            else:
                self._out.aside_bytes -= len(item.data)

    # The way out

    def _pump(self, *, final: bool) -> None:
        """Passes on what can be: the first entry of the queue, and those before which nothing waits any more."""
        while self._queue:
            item = self._queue[0]
            if isinstance(item, Aside):
                self._out.put(item)
            elif not self._pass_on(item, final):
                return
            else:
                item.done = True
                self._speakers -= item.speaks
            self._queue.popleft()

    def _pass_on(self, entry: Entry, final: bool) -> bool:
        """Passes on what there is of an entry; whether it is over."""
        out = self._out
        if entry.index < 0 and entry.task_id in self._subtasks:
            out.release(entry)  # it was added to before it was known to be one
        elif not final and self._roots and entry.task_id not in self._roots:
            return False  # nobody knows yet whose task it is
        elif entry.speaks:
            out.speak(entry)
            if not final and self._speakers < 2:
                return False
            out.close(entry)
        elif not final and not (self._speakers and self._is_settled(entry)):
            return False
        elif entry.kind == "placeholder" or not out.whole_block(entry):
            out.release(entry)
        return True

    def _is_settled(self, entry: Entry) -> bool:
        """May this be passed on before the end?"""
        return not entry.unsettled or (entry.transaction > 0 and not self._undo.transaction)

    def _finish(self, finished: Any) -> None:
        self._undo.end()
        self._pump(final=True)
        stop = read_stop(finished, said=self._out.blocks > 0)
        before = self._out.before()
        if not isinstance(stop, Stop):
            self._fault(replace(stop, native={NAME: {**stop.native[NAME], **before}}))
            return
        if stop.reason == "end" and self._out.called:  # Warp has no word for "waits for tools": the calls tell it
            stop = replace(stop, reason="tool_calls")
        notes: dict[str, Any] = {FINISHED: left_of(finished), **before}
        self._ended = True
        usage = read_usage(finished, self._out.characters)
        self._out.events.append(Finish(stop=stop, usage=usage, native={NAME: notes}))


def _brought(item: Entry | Aside, transaction: int) -> bool:
    return item.transaction >= transaction


def _put_back(entries: dict[str, Entry], number: str, older: Entry | None) -> None:
    if older is None:
        entries.pop(number, None)
    else:
        entries[number] = older


_ACTIONS: dict[str | None, Callable[[WarpStreamDecoder, Any], None]] = {
    "create_task": WarpStreamDecoder._create,
    "add_messages_to_task": WarpStreamDecoder._add,
    "update_task_message": WarpStreamDecoder._update,
    "append_to_message_content": WarpStreamDecoder._append,
    "move_messages_to_new_task": WarpStreamDecoder._move,
    "begin_transaction": WarpStreamDecoder._begin,
    "commit_transaction": WarpStreamDecoder._commit,
    "rollback_transaction": WarpStreamDecoder._roll_back,
}
