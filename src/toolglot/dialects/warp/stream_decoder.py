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
from collections.abc import Callable
from functools import partial
from typing import Any

from toolglot.dialects.warp.descriptors import new
from toolglot.dialects.warp.errors import read_error
from toolglot.dialects.warp.fields import kept
from toolglot.dialects.warp.finish import FINISHED, left_of, read_stop, read_usage
from toolglot.dialects.warp.frames import read_event
from toolglot.dialects.warp.native import NAME
from toolglot.dialects.warp.passed import Late, appended, updated
from toolglot.dialects.warp.sent import Sent
from toolglot.dialects.warp.stream_entry import QUIET, Aside, Entry, is_visible, kind_of
from toolglot.dialects.warp.stream_known import SILENT, Known
from toolglot.dialects.warp.stream_out import Output
from toolglot.dialects.warp.undo import UndoLog
from toolglot.errors import ApiError, DecodeError, truncated, unreadable
from toolglot.events import Event, Fault, Finish, Start
from toolglot.ir import Stop, replace
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.sse import MAX_EVENT_BYTES, SseReader


class WarpStreamDecoder:
    """`whole`: nothing is passed on before the end, so that updates and rollbacks can change everything.

    `sent`: what the server was told of before, which is no part of the answer, whatever becomes of it.
    """

    def __init__(self, receipt: Receipt, *, whole: bool = False, sent: Sent | None = None) -> None:
        self._receipt = receipt
        self._whole = whole
        self._sse = SseReader()
        self._out = Output(receipt)
        self._ended = False
        self._started = False
        self._queue: deque[Entry | Aside] = deque()
        self._speakers = 0  # entries in the queue that are text
        self._undo = UndoLog()
        self._known = Known(self._undo, sent or Sent())

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

    def _put_aside(self, action: Any, told: str = "") -> None:
        aside = Aside(action, self._undo.transaction, told)
        self._out.aside_bytes += len(aside.data)
        self._queue.append(aside)

    def _create(self, action: Any) -> None:
        task = action.create_task.task
        self._known.learn(task.messages)
        if task.dependencies.parent_task_id:
            self._known.learn_subtask(task.id)
            self._put_aside(action)
            return
        self._known.learn_root(task.id)
        shell = new("ClientAction")
        shell.CopyFrom(action)
        del shell.create_task.task.messages[:]
        self._put_aside(shell)
        for message in task.messages:
            self._message(message, task.id)

    def _move(self, action: Any) -> None:
        """The task to which messages go is not the conversation: what waits is dropped, what was said stays said."""
        moved = action.move_messages_to_new_task
        told = "" if self._known.is_inside(moved.source_task_id) else self._moved(moved)
        self._known.learn_subtask(moved.new_task.id)
        self._known.learn((*moved.new_task.messages, *moved.replacement_messages))
        if not self._ended:
            self._put_aside(action, told)

    def _moved(self, moved: Any) -> str:
        """Takes messages out of the conversation; the name of what others have to be told of it."""
        told = ""
        gone = list(self._known.between(moved.source_task_id, moved.first_message_id, moved.last_message_id))
        for entry in gone:
            if entry.index < 0 and not entry.done:
                self._changing(entry, partial(setattr, entry, "moved", True))
            elif entry.kind == "call" and entry.index >= 0:
                self._taken_back("moved a call to another task")
            elif entry.speaks and entry.index >= 0:
                told = "text_moved_to_another_task"
            self._known.forget(entry.message.id)
        strange = any(kind_of(message) not in QUIET for message in moved.replacement_messages)
        return told or ("replacement_messages" if strange else "")

    def _add(self, action: Any) -> None:
        added = action.add_messages_to_task
        self._known.learn(added.messages)
        if not added.messages or self._known.is_inside(added.task_id):
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
            self._known.enter_silent(message, task_id)
            return
        entry = self._known.enter(message, task_id, how)
        self._queue.append(entry)
        self._speakers += entry.speaks

    def _changing(
        self, entry: Entry, change: Callable[[], None], paths: tuple[str, ...] = (), *, growing: bool = False
    ) -> None:
        """Changes an entry under these paths; a rollback can undo it. `growing`: its spoken text only goes on."""
        now = self._undo.transaction
        if (entry.changed_in if growing else entry.transaction) < now:
            undo, size = (entry.length(), 0) if growing else entry.before(paths)
            self._undo.note(lambda: self._counted(entry, undo), size)
        entry.changed_in = max(entry.changed_in, now)
        self._counted(entry, change)

    def _counted(self, entry: Entry, change: Callable[[], None]) -> None:
        """Makes a change after which an entry may speak that did not, or the other way round."""
        waits = not entry.done
        self._speakers -= waits * entry.speaks
        change()
        self._speakers += waits * entry.speaks

    def _append(self, action: Any) -> None:
        change, known = action.append_to_message_content, self._known
        paths = tuple(change.mask.paths)
        inside = known.is_inside(change.task_id)
        entry = None if inside else known.entry(change.message.id)
        if entry is not None and not entry.done:
            growing = all(path == entry.spoken for path in paths)
            self._changing(entry, lambda: entry.append(change.message, paths), paths, growing=growing)
        elif entry is not None and entry.kind in QUIET:
            self._fill(entry, action, change, Entry.append)
        elif entry is not None or (known.has("") and not change.message.id and not inside):
            self._late(appended(entry, change), action, entry)
        elif known.is_earlier(change.message.id):
            self._put_aside(action, "" if inside else _earlier(paths))
        elif known.has(change.message.id, inside=inside):
            self._put_aside(action)
        else:
            raise DecodeError("append_to_message_content", f"there is no message {change.message.id!r}")

    def _update(self, action: Any) -> None:
        change, known = action.update_task_message, self._known
        paths = tuple(change.mask.paths)
        inside = known.is_inside(change.task_id)
        entry = None if inside else known.entry(change.message.id)
        if entry is not None and not entry.done:
            self._changing(entry, lambda: entry.update(change.message, paths), paths)
        elif entry is not None and entry.kind in QUIET:
            self._fill(entry, action, change, Entry.update)
        elif entry is not None:
            self._late(updated(entry, change), action, entry)
        elif known.is_earlier(change.message.id):
            self._put_aside(action, "" if inside else _earlier(paths))
        else:
            self._upsert(action, change, inside)

    def _upsert(self, action: Any, change: Any, inside: bool) -> None:
        """An update of a message that nobody has heard of adds it."""
        message, kind = change.message, kind_of(change.message)
        is_new = not inside and not self._known.has(message.id)
        self._known.learn((message,))
        if is_new and kind not in QUIET:
            self._message(message, change.task_id, how="$upsert")
            return
        self._put_aside(action)
        if is_new and kind == "placeholder":
            self._known.enter(message, change.task_id).done = True
        elif is_new:
            self._known.enter_silent(message, change.task_id)

    def _fill(self, entry: Entry, action: Any, change: Any, how: Callable[[Entry, Any, tuple[str, ...]], None]) -> None:
        """A change to a message that said nothing in the answer so far, and was put aside."""
        paths = tuple(change.mask.paths)
        named = tuple(filter(is_visible, paths)) if entry.how == SILENT else paths
        self._changing(entry, lambda: how(entry, change.message, named), named)
        if entry.kind in QUIET:
            self._put_aside(action)
            return
        message = entry.whole()
        self._undo.spend(message.ByteSize())
        self._message(message, change.task_id, how="$upsert")
        self._rest(action, change, tuple(path for path in paths if path not in named))

    def _rest(self, action: Any, change: Any, paths: tuple[str, ...]) -> None:
        """What of a change has not been said with the answer."""
        if paths:
            change.mask.paths[:] = paths
            self._put_aside(action)

    def _late(self, late: Late, action: Any, entry: Entry | None) -> None:
        """A change to what has been passed on."""
        if late.fault:
            self._taken_back(late.fault)
            return
        if late.loss and entry is not None:
            self._receipt.loss(f"content[{entry.index}]", "text", late.loss)
        if late.more is None:
            self._put_aside(action)
            return
        change = getattr(action, action.WhichOneof("action"))
        self._message(late.more, change.task_id, how="$more")
        self._rest(action, change, late.rest)

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
                self._speakers -= item.speaks
                item.finish()
            self._queue.popleft()

    def _pass_on(self, entry: Entry, final: bool) -> bool:
        """Passes on what there is of an entry; whether it is over."""
        out = self._out
        elsewhere = entry.moved or entry.task_id in self._known.subtasks
        if entry.index < 0 and elsewhere:
            if not final and self._undo.transaction:
                return False  # which may come back to the conversation
            out.release(entry)
        elif not final and self._known.roots and entry.task_id not in self._known.roots:
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
        before = {**self._out.before(), **self._out.told()}
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


def _earlier(paths: tuple[str, ...]) -> str:
    """What a client is told of a change to a message of an earlier turn, where it would see it."""
    return "change_of_an_earlier_message" if any(map(is_visible, paths)) else ""


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
