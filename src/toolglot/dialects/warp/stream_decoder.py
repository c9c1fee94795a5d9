"""Streams of the multi-agent API -> events.

The server sends actions on tasks; the answer is what the task without a parent is told. Text is passed on as it comes,
also inside a transaction: whoever reads wants to see it at once. If a rollback takes back what was passed on, the only
honest end is an error; if nothing of it was, nobody ever sees it.

Calls, and messages that only a client of Warp's can show, wait until something is said behind them or the answer ends,
because updates may still change them. What is no part of the answer (echoes, server events, other tasks) rides along
on the next event as the action that it came as, for clients of Warp's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from toolglot.dialects.warp.declared import BUILTIN
from toolglot.dialects.warp.descriptors import new
from toolglot.dialects.warp.errors import read_error
from toolglot.dialects.warp.fields import kept, text_of
from toolglot.dialects.warp.finish import FINISHED, left_of, read_stop, read_usage
from toolglot.dialects.warp.frames import read_event
from toolglot.dialects.warp.masks import text_at
from toolglot.dialects.warp.native import NAME
from toolglot.dialects.warp.stream_entry import BEFORE, SPOKEN, Aside, Entry, changed, kind_of
from toolglot.errors import ApiError, DecodeError, truncated, unreadable
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start
from toolglot.ir import Block, Opaque, Stop, ToolCall, native_of, replace, with_native
from toolglot.receipt import Receipt
from toolglot.wire import json
from toolglot.wire.sse import MAX_EVENT_BYTES, SseReader


class WarpStreamDecoder:
    """`whole`: nothing is passed on before the end, so that updates and rollbacks can change everything."""

    def __init__(self, receipt: Receipt, *, whole: bool = False) -> None:
        self._receipt = receipt
        self._whole = whole
        self._sse = SseReader()
        self._events: list[Event] = []
        self._ended = False
        self._started = False
        self._next = 0
        self._called = False
        self._characters = 0
        self._queue: deque[Entry | Aside] = deque()
        self._waiting = 0  # entries in the queue
        self._speakers = 0  # of these, the ones that are text
        self._entries: dict[str, Entry] = {}  # by the id of their message, while they may change
        self._seen: set[str] = set()
        self._subtasks: set[str] = set()
        self._aside: list[Aside] = []  # for the next event
        self._aside_bytes = 0
        self._transactions = 0
        self._open_transactions: list[int] = []
        self._seen_in = 0  # the last transaction in which something was passed on
        self._undo: list[tuple[int, Entry, Callable[[], None]]] = []  # changes to older messages, by transaction

    # The protocol

    def feed(self, data: bytes) -> list[Event]:
        if self._ended:
            return []
        try:
            for event, frame in self._sse.feed(data):
                self._frame(event, frame)
        except DecodeError as error:
            self._fault(unreadable(error))
        return self._drain()

    def close(self) -> list[Event]:
        if not self._ended:
            try:
                for event, frame in self._sse.close():
                    self._frame(event, frame)
            except DecodeError as error:
                self._fault(truncated(str(error)))
            self._fault(truncated("there was no `finished`"))
        return self._drain()

    @property
    def settled(self) -> bool:
        return self._ended

    def _drain(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _fault(self, error: ApiError) -> None:
        if not self._ended:
            self._ended = True
            self._events.append(Fault(error))

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
        if self._aside_bytes > MAX_EVENT_BYTES:
            raise DecodeError("$", f"more than {MAX_EVENT_BYTES} bytes are no part of the answer")

    def _start(self, init: Any) -> None:
        if self._started:
            return
        self._started = True
        left = kept(init, {"request_id": None}) if init is not None else {"$init": "absent"}
        native = {NAME: {"init": left}} if left else {}
        self._events.append(Start(id=init.request_id if init is not None else "", native=native))

    # Actions

    def _act(self, action: Any) -> None:
        match action.WhichOneof("action"):
            case "create_task":
                self._create(action)
            case "add_messages_to_task":
                self._add(action)
            case "update_task_message":
                self._update(action)
            case "append_to_message_content":
                self._append(action)
            case "begin_transaction":
                self._transactions += 1
                self._open_transactions.append(self._transactions)
            case "commit_transaction":
                del self._open_transactions[-1:]
                self._undo = self._undo if self._open_transactions else []
            case "rollback_transaction":
                self._roll_back()
            case _:
                self._put_aside(action)

    def _put_aside(self, action: Any) -> None:
        aside = Aside(action, self._transaction)
        self._aside_bytes += len(aside.data)
        self._queue.append(aside)

    def _create(self, action: Any) -> None:
        task = action.create_task.task
        self._seen.update(message.id for message in task.messages)
        if task.dependencies.parent_task_id:
            self._subtasks.add(task.id)
            self._put_aside(action)
            return
        shell = new("ClientAction")
        shell.CopyFrom(action)
        del shell.create_task.task.messages[:]
        self._put_aside(shell)
        for message in task.messages:
            self._message(message, task.id)

    def _add(self, action: Any) -> None:
        added = action.add_messages_to_task
        self._seen.update(message.id for message in added.messages)
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
        copy = new("Message")
        copy.CopyFrom(message)
        entry = Entry(copy, task_id, self._transaction, how)
        self._queue.append(entry)
        self._count(entry, 1)
        if message.id:
            self._entries[message.id] = entry

    def _count(self, entry: Entry, change: int) -> None:
        self._waiting += change
        self._speakers += change * entry.speaks

    def _entry(self, change: Any) -> Entry | None:
        return None if change.task_id in self._subtasks else self._entries.get(change.message.id)

    @property
    def _transaction(self) -> int:
        """The transaction that is open, 0 when none is. Later ones have higher numbers, also those inside."""
        return self._open_transactions[-1] if self._open_transactions else 0

    def _touch(self, entry: Entry) -> None:
        if max(entry.transaction, entry.saved_in) < self._transaction:
            self._undo.append((self._transaction, entry, entry.saved()))
            entry.saved_in = self._transaction

    def _append(self, action: Any) -> None:
        change = action.append_to_message_content
        entry = self._entry(change)
        if entry is not None:
            self._touch(entry)
            self._count(entry, -1)
            for path in change.mask.paths:
                entry.append(change.message, path)
            self._count(entry, 1)
            return
        if change.message.id not in self._seen:
            raise DecodeError("append_to_message_content", f"there is no message {change.message.id!r}")
        spoken = [path for path in change.mask.paths if path in SPOKEN.values() and text_at(change.message, path)]
        if spoken and change.task_id not in self._subtasks:
            self._message(change.message, change.task_id, how="$more")  # of a text that others have followed
        else:
            self._put_aside(action)

    def _update(self, action: Any) -> None:
        change = action.update_task_message
        entry = self._entry(change)
        if entry is not None:
            self._touch(entry)
            self._count(entry, -1)
            entry.update(change.message, list(change.mask.paths))
            self._count(entry, 1)
            return
        says = change.message.WhichOneof("message")
        masked = {path.partition(".")[0] for path in change.mask.paths}
        is_new = change.message.id not in self._seen
        self._seen.add(change.message.id)
        if change.task_id in self._subtasks or not (says in masked or (is_new and not masked)) or not is_new:
            self._put_aside(action)
        else:
            self._message(change.message, change.task_id, how="$upsert")

    def _roll_back(self) -> None:
        """Takes back what the transaction brought, if nobody has seen it."""
        transaction = self._transaction
        if not transaction:
            return
        del self._open_transactions[-1:]
        if self._seen_in >= transaction:
            message = "The upstream took back a part of the answer that had been passed on"
            self._fault(ApiError(kind="server", status=502, code="upstream_rolled_back", message=message))
            return
        while self._undo and self._undo[-1][0] >= transaction:
            _, entry, undo = self._undo.pop()
            self._count(entry, -1)
            undo()
            self._count(entry, 1)
        self._aside = [aside for aside in self._aside if aside.transaction < transaction]
        kept_items: list[Entry | Aside] = []
        for item in self._queue:
            if item.transaction < transaction:
                kept_items.append(item)
            elif isinstance(item, Entry):
                self._count(item, -1)
                self._entries.pop(item.message.id, None)
        self._queue = deque(kept_items)

    # The way out

    def _pump(self, *, final: bool) -> None:
        """Passes on what can be: the first entry of the queue, and those before which nothing waits any more."""
        while self._queue:
            item = self._queue[0]
            if isinstance(item, Aside):
                self._aside.append(item)
            elif not self._pass_on(item, final):
                return
            else:
                self._count(item, -1)
            self._queue.popleft()

    def _pass_on(self, entry: Entry, final: bool) -> bool:
        """Passes on what there is of an entry; whether it is over."""
        if entry.speaks:
            self._speak(entry)
            if not final and self._waiting < 2:
                return False
            self._close(entry)
        elif not final and not (self._speakers or (entry.kind == "placeholder" and self._waiting > 1)):
            return False
        elif entry.kind == "placeholder" or not self._whole_block(entry):
            self._release(entry)
        self._entries.pop(entry.message.id, None)
        return True

    def _release(self, entry: Entry) -> None:
        action = new("ClientAction")
        action.add_messages_to_task.task_id = entry.task_id
        action.add_messages_to_task.messages.add().CopyFrom(entry.message)
        self._aside.append(Aside(action, entry.transaction))

    def _before(self) -> dict[str, Any]:
        """The notes on the event behind which nothing has been put aside any more."""
        if not self._aside:
            return {}
        asides, self._aside = self._aside, []
        self._aside_bytes -= sum(len(aside.data) for aside in asides)
        told = {aside.told: True for aside in asides if aside.told}
        return {**told, BEFORE: [text_of(aside.data) for aside in asides]}

    def _emit(self, event: Event) -> None:
        self._events.append(event)
        self._seen_in = max(self._seen_in, self._transaction)

    def _opened(self, entry: Entry, block: Block) -> None:
        notes: dict[str, Any] = {entry.how: True} if entry.how else {}
        if entry.task_id != entry.message.task_id:
            notes["$task_id"] = entry.task_id
        notes |= self._before()
        if isinstance(block, Opaque):
            block = Opaque(NAME, {**block.value, **notes})
        elif notes:
            block = with_native(block, NAME, **notes)
        entry.index, self._next = self._next, self._next + 1
        self._emit(Open(entry.index, block))

    def _speak(self, entry: Entry) -> None:
        if entry.index < 0:
            entry.opened = entry.rest()
            self._opened(entry, entry.block())
        text = "".join(entry.unsent())
        if text:
            self._characters += len(text)
            self._emit(Delta(entry.index, text))

    def _close(self, entry: Entry) -> None:
        notes: dict[str, Any] = {}
        rest = entry.rest()
        if rest != entry.opened:
            notes = {**rest, "$changed": changed(entry.opened, rest)}
        if entry.replaced is not None:
            notes["$text"] = "".join(entry.pieces[SPOKEN[entry.kind]])
            why = "the server wrote it anew after it had been passed on; what was passed on stays"
            self._receipt.loss(f"content[{entry.index}]", "text", why)
        self._emit(Close(index=entry.index, native={NAME: notes} if notes else {}))

    def _whole_block(self, entry: Entry) -> bool:
        """Passes on a call or something shown; whether it still is one."""
        block = entry.block()
        if isinstance(block, ToolCall):
            self._called = self._called or BUILTIN not in native_of(block, NAME)
            self._opened(entry, replace(block, arguments=""))
            if block.arguments:
                self._characters += len(block.arguments)
                self._emit(Delta(entry.index, block.arguments))
        elif isinstance(block, Opaque) and entry.kind == "shown":
            self._opened(entry, block)
        else:
            return False
        self._emit(Close(index=entry.index))
        return True

    def _finish(self, finished: Any) -> None:
        self._open_transactions.clear()
        self._pump(final=True)
        stop = read_stop(finished, said=self._next > 0)
        before = self._before()
        if not isinstance(stop, Stop):
            self._fault(replace(stop, native={NAME: {**stop.native[NAME], **before}}))
            return
        if stop.reason == "end" and self._called:  # Warp has no word for "waits for tools": the calls tell it
            stop = replace(stop, reason="tool_calls")
        notes: dict[str, Any] = {FINISHED: left_of(finished), **before}
        self._ended = True
        usage = read_usage(finished, self._characters)
        self._events.append(Finish(stop=stop, usage=usage, native={NAME: notes}))
