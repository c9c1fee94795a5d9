"""Repair the history: every call gets one result, directly after its batch, and every result has its call.

Interrupted clients send calls without results, and clients that drop old turns send results without calls
(claude-code #6836). Every API rejects both. A batch is the calls of a run of assistant messages. Its results come
before the next assistant message, and other content between them moves after them.

A result may also be in another turn: a client that runs calls in parallel sends the result of a slow call after the
model's next answer. Such a result moves to its call.

Blocks of server-side tools are opaque and are not moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from toolglot import features
from toolglot.events import merge_native
from toolglot.ir import OURS, Block, Message, Request, Text, ToolCall, ToolResult, continues, replace
from toolglot.passes import Context
from toolglot.passes.blocks import NO_CONTENT, Place, has_results, with_messages
from toolglot.plan import runs_on

INTERRUPTED = "The tool call was interrupted; its outcome is unknown."
BEHIND = "they are in call order, right after their calls"


@runs_on(
    lambda context: 0 if context.source == context.target else features.UNPAIRED | features.BLANK,
    adds=features.RESULT_ERRORS | features.NEIGHBOURS | features.ODD_RESULTS | features.ENDS_ODD | features.STARTS_ODD,
)
def repair(request: Request, context: Context) -> Request:
    """Pair calls and results, in order. A history in the target's own dialect is left to its client."""
    return request if context.source == context.target else pair(_give_calls_to_assistant(request, context), context)


def _give_calls_to_assistant(request: Request, context: Context) -> Request:
    """Give all calls to the assistant, because only the model calls tools: also calls in a message with another role,
    or without a role. Results beside them stay in messages of that role."""
    if all(message.role == "assistant" or ToolCall not in map(type, message.content) for message in request.messages):
        return request
    messages: list[Message] = []
    for number, message in enumerate(request.messages):
        if message.role == "assistant" or ToolCall not in map(type, message.content):
            messages.append(message)
            continue
        context.receipt.note(str(Place(number)), f"calls of the {message.role}", "only the assistant has calls")
        for is_result, blocks in groupby(message.content, lambda block: type(block) is ToolResult):
            content = tuple(blocks)
            is_call = not is_result and ToolCall in map(type, content)
            messages.append(replace(message, content=content, role="assistant" if is_call else message.role))
    return with_messages(request, tuple(messages))


def pair(request: Request, context: Context) -> Request:
    """Pair calls and results, in order, for any client."""
    is_one_batch = _is_one_batch(context)
    if is_one_batch and _is_paired(request.messages):
        return request
    messages: list[Message] = []
    runs = _runs(request.messages)
    strays = _Strays(request.messages, runs)
    for number, (start, stop) in enumerate(runs):
        run = request.messages[start:stop]
        if run[0].role != "assistant":
            if number == 0:  # no call precedes these
                messages.extend(_answers((), run, start, strays, context))
            continue
        next_start, next_stop = runs[number + 1] if number + 1 < len(runs) else (stop, stop)
        if is_one_batch and _is_paired(turn := request.messages[start:next_stop]):
            messages.extend(turn)
            continue
        following = request.messages[next_start:next_stop]
        *earlier, last = _batches(run, context)
        for batch in earlier:
            found, following = _split_results(_calls(batch), following)
            messages.extend(_drop_empty(batch, start, context))
            messages.extend(_answers(_calls(batch), found, next_start, strays, context))
            if found:
                context.receipt.note(str(Place(next_start)), "the results", BEHIND)
            start += len(batch)
        messages.extend(_drop_empty(last, start, context))
        messages.extend(_answers(_calls(last), following, next_start, strays, context))
    return with_messages(request, tuple(messages))


def _is_paired(messages: tuple[Message, ...]) -> bool:
    """Return whether `pair` would leave these messages unchanged, if all calls of a run are one batch: the results of
    each run directly follow it, in call order, and there are no other results."""
    calls: list[str] = []
    answered = 0
    speaking = over = False  # `over`: other content has followed, so no result may come
    for message in messages:
        if message.role == "assistant":
            if not speaking:
                if answered != len(calls) or len(set(calls)) != len(calls):
                    return False
                calls, answered, speaking, over = [], 0, True, False
            calls += [block.id for block in message.content if type(block) is ToolCall]
            if not message.content:
                return False
            continue
        speaking = False
        for block in message.content:
            if type(block) is not ToolResult:
                over = True
            elif over or answered == len(calls) or block.call_id != calls[answered]:
                return False
            else:
                answered += 1
        over = over or not message.content
    return answered == len(calls) == len(set(calls))


def _calls(messages: tuple[Message, ...]) -> tuple[ToolCall, ...]:
    return tuple(block for message in messages for block in message.content if isinstance(block, ToolCall))


def _batches(run: tuple[Message, ...], context: Context) -> list[tuple[Message, ...]]:
    """Split a run of assistant messages into parts that each have their results directly after them. The run is one
    part if its messages are merged or the wire format treats them as one. Chat Completions requires the results
    directly after the message that has the calls."""
    if _is_one_batch(context):
        return [run]
    ends = [number + 1 for number, message in enumerate(run[:-1]) if _calls((message,))]
    return [run[start:stop] for start, stop in zip((0, *ends), (*ends, len(run)), strict=True)]


def _is_one_batch(context: Context) -> bool:
    can = context.can
    return context.source != context.target or can.messages.roles_alternate or not can.calls.in_one_message


def _split_results(
    calls: tuple[ToolCall, ...], messages: tuple[Message, ...]
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Take out the first result of each call. Returns the results in separate messages, and the remaining messages."""
    wanted = {call.id for call in calls}
    found: list[Message] = []
    rest: list[Message] = []
    for message in messages:
        others: list[Block] = []
        for block in message.content:
            if isinstance(block, ToolResult) and block.call_id in wanted:
                wanted.discard(block.call_id)
                found.append(message if message.content == (block,) else replace(message, content=(block,)))
            else:
                others.append(block)
        if others or not message.content:
            rest.append(message if len(others) == len(message.content) else replace(message, content=tuple(others)))
    return tuple(found), tuple(rest)


def _runs(messages: tuple[Message, ...]) -> list[tuple[int, int]]:
    """Return the alternating runs of assistant messages and of all other messages."""
    runs: list[tuple[int, int]] = []
    for index, message in enumerate(messages):
        if runs and (messages[index - 1].role == "assistant") == (message.role == "assistant"):
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index, index + 1))
    return runs


def _drop_empty(run: tuple[Message, ...], start: int, context: Context) -> list[Message]:
    kept = [message for message in run if message.content]
    for offset, message in enumerate(run):
        if not message.content:
            context.receipt.note(str(Place(start + offset)), "assistant message without content", NO_CONTENT)
    return kept


class _Strays:
    """Results in another turn than their calls, by call id. Each call without a result in its own turn gets the
    first."""

    def __init__(self, messages: Sequence[Message], runs: Sequence[tuple[int, int]]) -> None:
        self._called: set[str] = set()
        self._after_calls: set[int] = set()
        self._found: dict[str, tuple[ToolResult, Message]] = {}
        self._left: set[str] = set()
        unanswered: set[str] = set()
        elsewhere: list[tuple[ToolResult, Message]] = []
        batch: set[str] = set()
        for start, stop in runs:
            run = messages[start:stop]
            if run[0].role == "assistant":
                unanswered |= batch
                batch = {call.id for call in _calls(tuple(run))}
                self._called |= batch
                continue
            results = [(block, message) for message in run for block in message.content if type(block) is ToolResult]
            self._after_calls.update([id(result) for result, _ in results if result.call_id in self._called])
            elsewhere += [each for each in results if each[0].call_id not in batch]
            unanswered |= batch - {result.call_id for result, _ in results}
            batch = set()
        unanswered |= batch
        for result, message in elsewhere:
            if result.call_id in unanswered:
                self._found.setdefault(result.call_id, (result, message))

    def of(self, call: ToolCall) -> tuple[ToolResult, Message] | None:
        return self._found.get(call.id)

    def leaves(self, result: ToolResult) -> bool:
        """Return whether this result moves to its call. Called once per result, at its original position."""
        found = self._found.get(result.call_id)
        if found is None or found[0] is not result or result.call_id in self._left:
            return False
        self._left.add(result.call_id)
        return True

    def has_call_of(self, result: ToolResult) -> bool:
        return result.call_id in self._called

    def is_after_call(self, result: ToolResult) -> bool:
        """Return whether its call precedes it. Later messages must not change how a result is rendered: prompts are
        cached."""
        return id(result) in self._after_calls


def _answers(
    calls: tuple[ToolCall, ...], messages: tuple[Message, ...], start: int, strays: _Strays, context: Context
) -> tuple[Message, ...] | list[Message]:
    """Order the messages after a batch of calls: its results in call order, then the rest unchanged."""
    if not calls and not any(map(has_results, messages)):
        return messages
    wanted = {call.id for call in calls}
    results: dict[str, tuple[ToolResult, Message]] = {}
    joined: dict[str, ToolResult] = {}
    rest: list[Message] = []
    left: list[ToolResult] = []
    for offset, message in enumerate(messages):
        others: list[Block] = []
        for index, block in enumerate(message.content):
            place = Place(start + offset, index)
            if not isinstance(block, ToolResult):
                others.append(block)
            elif block.call_id in wanted and block.call_id not in results:
                results[block.call_id] = (block, message)
            elif block.call_id in wanted and continues(before := joined.get(block.call_id, results[block.call_id][0])):
                joined[block.call_id] = _join_results(before, block)
                context.receipt.note(str(place), _title(block), "the one before announces it; they are one result")
            elif block.call_id in wanted:
                context.receipt.loss(
                    str(place), f"second result of {block.call_id}", "a call has one; the first counts"
                )
            elif strays.leaves(block):
                left.append(block)
                context.receipt.note(str(place), _title(block), "it moves to its call, which is in another turn")
            else:
                others.extend(_as_text(block, place, strays, context))
        if others or not message.content:
            rest.append(_without_results(message, tuple(others)))
    if _is_in_order(calls, results, messages, rest):
        return messages
    _note_order(calls, results, messages, left, start, context)
    results |= {call_id: (result, results[call_id][1]) for call_id, result in joined.items()}
    for call in calls:
        if call.id not in results and (found := strays.of(call)) is not None:
            results[call.id] = found
    ordered = _in_call_order(calls, results, start, context)
    if left and not ordered and not rest:
        rest.append(_placeholder(left))
    return [*ordered, *rest]


def _join_results(first: ToolResult, second: ToolResult) -> ToolResult:
    """Join two results of a call that yields several: the content of both, and the state of the second."""
    before = {owner: fields for owner, fields in first.native.items() if owner != OURS}
    is_error = first.is_error if second.is_error is None else second.is_error
    content = (*first.content, *second.content)
    return replace(second, content=content, is_error=is_error, native=merge_native(before, second.native))


def _placeholder(moved: Sequence[ToolResult]) -> Message:
    """Return a user message in place of a turn that had only moved results. Without it, two assistant turns would
    merge, or the conversation would end with the model's own message."""
    tools = ", ".join(dict.fromkeys(result.name or "a tool" for result in moved))
    return Message(
        role="user", content=(Text(text=f"[The result of {tools} arrived here; it is shown with its call.]"),)
    )


def _without_results(message: Message, others: tuple[Block, ...]) -> Message:
    if len(others) == len(message.content) and all(
        new is old for new, old in zip(others, message.content, strict=True)
    ):
        return message
    return replace(message, content=others, role="user" if message.role == "tool" else message.role)


def _is_in_order(
    calls: tuple[ToolCall, ...],
    results: dict[str, tuple[ToolResult, Message]],
    messages: tuple[Message, ...],
    rest: list[Message],
) -> bool:
    """Return whether the messages already have this content in this order."""
    expected: list[Block] = [results[call.id][0] for call in calls if call.id in results]
    for message in rest:
        expected.extend(message.content)
    current = [block for message in messages for block in message.content]
    last = max((index for index, message in enumerate(messages) if has_results(message)), default=0)
    return (
        all(message.content for message in messages[:last])
        and len(results) == len(calls)
        and len(expected) == len(current)
        and all(new is old for new, old in zip(expected, current, strict=True))
    )


def _note_order(
    calls: tuple[ToolCall, ...],
    results: dict[str, tuple[ToolResult, Message]],
    messages: tuple[Message, ...],
    left: Sequence[ToolResult],
    start: int,
    context: Context,
) -> None:
    gone = set(map(id, left))
    current = [id(block) for message in messages for block in message.content if id(block) not in gone]
    if current[: len(results)] != [id(results[call.id][0]) for call in calls if call.id in results]:
        context.receipt.note(str(Place(start)), "the results", BEHIND)


def _in_call_order(
    calls: tuple[ToolCall, ...], results: dict[str, tuple[ToolResult, Message]], start: int, context: Context
) -> list[Message]:
    """Results in call order. Adjacent results of one message stay in one message; synthesized results get their own."""
    groups: list[tuple[Message, list[Block]]] = []
    for call in calls:
        result, message = results.get(call.id, (None, None))
        if result is None or message is None:
            context.receipt.note(
                str(Place(start)), f"no result of {call.name} ({call.id})", "one says that the call was interrupted"
            )
            groups.append((Message(role=context.can.calls.results_role), [_interrupted_result(call)]))
        elif groups and groups[-1][0] is message:
            groups[-1][1].append(result)
        else:
            groups.append((message, [result]))
    return [_with_content(message, tuple(content)) for message, content in groups]


def _with_content(message: Message, content: tuple[Block, ...]) -> Message:
    return message if message.content == content else replace(message, content=content)


def _interrupted_result(call: ToolCall) -> ToolResult:
    return ToolResult(call_id=call.id, name=call.name, kind=call.kind, is_error=True, content=(Text(text=INTERRUPTED),))


def _title(result: ToolResult) -> str:
    return f"result of {result.name or 'a tool'} ({result.call_id})"


def _as_text(result: ToolResult, place: Place, strays: _Strays, context: Context) -> tuple[Block, ...]:
    """Turn a result without a matching call into user text that describes it."""
    tool = result.name or "a tool"
    title = f"[Result of {tool}, whose call is no longer in this conversation:]"
    if strays.is_after_call(result):
        title = f"[Another result of {tool}:]"
    duplicate = "its call has another result already; it is shown as text"
    why = duplicate if strays.has_call_of(result) else "its call is not in the history"
    context.receipt.loss(str(place), _title(result), why)
    return (Text(text=title), *result.content) if result.content else ()
