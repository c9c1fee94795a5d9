"""Make call ids complete, unique and valid for the target's wire. An id depends only on the preceding content and is
never random: the same history gives the same ids in every process, and appending a turn changes none of them (prompt
caches depend on this). Results get the ids of their calls.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from toolglot import features
from toolglot.capabilities import CallIdRules
from toolglot.ir import Block, Message, Request, ToolCall, ToolKind, ToolResult, native_of, replace
from toolglot.passes import Context
from toolglot.passes.blocks import Place, blocks, rewrite_blocks, rewrite_message, with_messages
from toolglot.passes.digest import digest
from toolglot.passes.tool_history import ToolHistory, tool_history, with_ids, with_results
from toolglot.plan import runs_on
from toolglot.state_fields import STATE_ID


@runs_on(lambda context: features.CALLS, in_place=True)
def derive(request: Request, context: Context) -> Request:
    """Give every call a unique id, and every result the id and name of its call.

    Gemini and the deprecated function role have no ids: their results are matched by name and order. Some providers
    count `call_0` anew in each response (litellm #30426), so a repeated id is made unique, call and result alike.
    """
    history = tool_history(request, context)
    context.call_ids.update(history.used_ids if history.is_flat else _all_ids(request))
    # A dialect knows how to pair its own calls and results.
    return request if context.source == context.target else _with_state_ids(unique(request, context), context)


def _with_state_ids(request: Request, context: Context) -> Request:
    """Restore the ids of the target's calls that carry its state, and the ids of their results."""
    if not context.can.ids.state_mark or not context.features & features.NATIVE_CALLS:
        return request
    calls = [call for call in tool_history(request, context).calls if call.native]
    given = {call.id: each for call in calls if (each := native_of(call, context.target).get(STATE_ID)) is not None}
    if not given:
        return request
    context.features |= features.ODD_IDS
    context.call_ids.update(given.values())

    return _with_ids(request, given)


def _with_ids(request: Request, new: Mapping[str, str]) -> Request:
    """Replace ids in calls and their results."""

    def rename(block: Block, place: Place) -> tuple[Block, ...]:
        match block:
            case ToolCall(id=old) if old in new:
                return (replace(block, id=new[old]),)
            case ToolResult(call_id=old) if old in new:
                return (replace(block, call_id=new[old]),)
        return (block,)

    return rewrite_blocks(request, rename, ToolCall, ToolResult)


def unique(request: Request, context: Context) -> Request:
    """Make the ids of all calls unique, for any dialect."""
    history = tool_history(request, context)
    if history.has_own_ids:
        return _with_names(request, history, context)
    if history.is_without_ids:
        first = Place(history.call_places[0][0])
        derived = with_ids(request, history, _id_by_position)
        if len(history.used_ids) == len(history.calls):  # no two calls have the same content
            context.receipt.note(str(first), *_WITHOUT_IDS)
            context.call_ids |= history.used_ids
            return derived
    context.features |= features.UNPAIRED | features.ODD_IDS
    pairing = Pairing(context.receipt.note)
    messages = tuple(pairing.over(request.messages))
    context.call_ids |= pairing.seen
    return with_messages(request, messages)


_WITHOUT_IDS = "calls without ids", "ids were derived from position"


def _id_by_position(turn: int, ordinal: int, call: ToolCall) -> str:
    return "call_" + digest(turn, ordinal, call.name)[:12]


def _all_ids(request: Request) -> Iterator[str]:
    """Return the ids of all calls and results, including those inside results."""
    return filter(None, (_id_of(block) for block, _ in blocks(request)))


def _with_names(request: Request, history: ToolHistory, context: Context) -> Request:
    """Add the names of calls to their results, if ids alone identify the calls."""
    # If calls and results are paired, their lists are parallel.
    calls = _calls_of_results(history) if context.features & features.UNPAIRED else history.calls
    results = [
        result
        if call is None or (result.name == call.name and result.kind == call.kind)
        else replace(result, name=call.name, kind=call.kind)  # Gemini refuses another name than that of the call
        for result, call in zip(history.results, calls, strict=True)
    ]
    return with_results(request, history, results)


def _calls_of_results(history: ToolHistory) -> list[ToolCall | None]:
    """Return the call of each result, if it precedes the result."""
    calls = {call.id: (call, place) for call, place in zip(history.calls, history.call_places, strict=True)}
    found = [calls.get(result.call_id, _NO_CALL) for result in history.results]
    return [call if at < place else None for (call, at), place in zip(found, history.places, strict=True)]


_NO_CALL: tuple[None, tuple[int, int]] = (None, (0, 0))


def _with_call_name(result: ToolResult, call: ToolCall | _PairedCall) -> ToolResult:
    """Set a result's name to that of its call. Gemini refuses any other name."""
    return replace(result, call_id=call.id, name=call.name, kind=call.kind)


def _id_of(block: Block) -> str | None:
    match block:
        case ToolCall(id=call_id) | ToolResult(call_id=call_id):
            return call_id
    return None


class _PairedCall(Struct):
    """A call of the current batch, which results may answer. `sent` is the id that the client sent."""

    id: str
    sent: str
    name: str
    kind: ToolKind
    answered: bool = False


_LOOKED_AHEAD = 256
"""Number of messages after a result without an id to search for results that name their calls, which it must not take.
"""


def _has_result_without_id(message: Message) -> bool:
    return any(type(block) is ToolResult and not block.call_id for block in message.content)


class Pairing:
    """Tracks the assigned ids, and the batch of calls that waits for results. `note` gets a line for each changed id,
    as a receipt does.
    """

    def __init__(self, note: Callable[[str, str, str], None]) -> None:
        self.seen: set[str] = set()
        self._note = note
        self._told_missing = False
        self._turn = 0
        self._ordinal = 0
        self._waiting: dict[tuple[str, ...], deque[_PairedCall]] = {}
        # Calls of earlier batches without a result, the latest batch last, because results may be late.
        self._overdue: dict[tuple[str, ...], list[_PairedCall]] = {}
        self._latest: dict[str, _PairedCall] = {}
        # By the ids that the client sent: calls of the batch without a result, and results that have not arrived yet.
        self._unanswered: defaultdict[str, int] = defaultdict(int)
        self._named: defaultdict[str, int] = defaultdict(int)

    def over(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Process the messages of a conversation of any length, each once."""
        before = ""
        answers: list[tuple[int, Message]] = []
        for number, message in enumerate(messages):
            if message.role == "assistant":
                if answers:
                    yield from self._pair_from(answers)
                    answers = []
                self._next_turn(new_batch=before != "assistant")
            if message.role != "assistant" and (answers or _has_result_without_id(message)):
                answers.append((number, message))
                if len(answers) == _LOOKED_AHEAD:  # a conversation of any length is held in little memory
                    yield from self._pair_from(answers)
                    answers = []
            else:
                yield rewrite_message(message, number, self._pair, ToolCall, ToolResult)
            before = message.role
        yield from self._pair_from(answers)

    def _pair_from(self, messages: Sequence[tuple[int, Message]]) -> Iterator[Message]:
        """Process the messages from a result without an id on. Ids take precedence over names and order, so a call that
        a later result names is not given to a result without an id.
        """
        self._named = defaultdict(int)
        for _, message in messages:
            for block in message.content:
                if type(block) is ToolResult and block.call_id:
                    self._named[block.call_id] += 1
        for number, message in messages:
            yield rewrite_message(message, number, self._pair, ToolCall, ToolResult)

    def _next_turn(self, *, new_batch: bool) -> None:
        self._turn += 1
        self._ordinal = 0
        if new_batch:
            for key, queue in self._waiting.items():
                if left := [call for call in reversed(queue) if not call.answered]:
                    self._overdue.setdefault(key, []).extend(left)
            self._waiting = {}
            self._unanswered = defaultdict(int)

    def _pair(self, block: Block, place: Place) -> tuple[Block, ...]:
        if isinstance(block, ToolCall):
            return (self._call(block, place),)
        if isinstance(block, ToolResult):
            return (self._result(block),)
        return (block,)

    def _call(self, call: ToolCall, place: Place) -> ToolCall:
        new = self._new_id(call, place)
        self.seen.add(new)
        self._ordinal += 1
        entry = _PairedCall(new, call.id, call.name, call.kind)
        by_id: tuple[tuple[str, ...], ...] = (("id", call.id), ("id", call.id, call.name)) if call.id else ()
        for key in (*by_id, ("name", call.name), ("any",)):
            if key not in self._waiting:
                self._waiting[key] = deque()
            self._waiting[key].append(entry)
        self._unanswered[call.id] += 1
        self._latest[call.id] = entry
        return call if new == call.id else replace(call, id=new)

    def _new_id(self, call: ToolCall, place: Place) -> str:
        if call.id and call.id not in self.seen:
            return call.id
        stem = f"{call.id}_" if call.id else "call_"
        length = 8 if call.id else 12
        new, salt = "", 0
        while not new or new in self.seen:
            new = stem + digest(self._turn, self._ordinal, call.name, *([salt] if salt else []))[:length]
            salt += 1
        if call.id:
            self._note(str(place), f"repeated call id {call.id}", f"an id is used once; it is {new} now")
        elif not self._told_missing:
            self._told_missing = True
            self._note(str(Place(place.message)), *_WITHOUT_IDS)
        return new

    def _result(self, result: ToolResult) -> ToolResult:
        call = self._find(result)
        self._named[result.call_id] -= 1
        if call is None:
            return result
        self._unanswered[call.sent] -= not call.answered
        call.answered = True
        if (call.id, call.name, call.kind) == (result.call_id, result.name, result.kind):
            return result
        return _with_call_name(result, call)

    def _find(self, result: ToolResult) -> _PairedCall | None:
        if result.call_id:
            # If calls share an id, the tool's name decides.
            named = self._next("id", result.call_id, result.name) if result.name is not None else None
            key: tuple[str, ...] = ("id", result.call_id)
            return named or self._next(*key) or self._overdue_call(key) or self._latest.get(result.call_id)
        key = ("any",) if result.name is None else ("name", result.name)
        return self._next(*key) or self._overdue_call(key)

    def _overdue_call(self, key: tuple[str, ...]) -> _PairedCall | None:
        """Return the first call of the latest earlier batch under this key that has no result yet."""
        calls = self._overdue.get(key, [])
        while calls and calls[-1].answered:
            calls.pop()
        return calls[-1] if calls else None

    def _next(self, *key: str) -> _PairedCall | None:
        """Return the first call of the batch under this key that has no result yet and that no later result names by
        its id.
        """
        queue = self._waiting.get(key)
        while queue and (queue[0].answered or (key[0] != "id" and self._is_named(queue[0]))):
            queue.popleft()
        return queue[0] if queue else None

    def _is_named(self, call: _PairedCall) -> bool:
        return bool(call.sent) and self._unanswered[call.sent] <= self._named[call.sent]


@runs_on(
    lambda context: features.ODD_IDS if features.takes_plain_ids(context.can.ids) else features.CALLS, in_place=True
)
def shorten(request: Request, context: Context) -> Request:
    """Replace ids that the target's wire does not allow, in calls and results."""
    if context.can.ids.form:
        return _number(request, context)
    history = tool_history(request, context)
    used, can = history.used_ids, context.can.ids
    is_legal = _pattern(can.pattern).fullmatch
    if history.is_flat and False not in [len(one) <= can.max_length and is_legal(one) is not None for one in used]:
        context.call_ids |= used
        return request
    renaming = _Renaming(context)

    def rename(block: Block, place: Place) -> tuple[Block, ...]:
        match block:
            case ToolCall(id=old) if old and (new := renaming.of(old, place)) != old:
                return (replace(block, id=new),)
            case ToolResult(call_id=old) if old and (new := renaming.of(old, place)) != old:
                return (replace(block, call_id=new),)
        return (block,)

    request = rewrite_blocks(request, rename, ToolCall, ToolResult)
    context.call_ids.update(renaming.new)
    context.call_ids.update(renaming.new.values())
    return request


def _number(request: Request, context: Context) -> Request:
    """Give all calls the ids that the target's template writes into the prompt. They depend only on earlier calls, so
    that a longer conversation keeps them.
    """
    if not tool_history(request, context).has_own_ids:
        request = unique(request, context)
    calls = tool_history(request, context).calls
    form = context.can.ids.form
    new = {
        call.id: form.replace("{number}", str(number)).replace("{name}", call.name) for number, call in enumerate(calls)
    }
    renamed = sum(old != given for old, given in new.items())
    if not renamed:
        return request
    context.receipt.note("messages", f"{renamed} call ids", f"the target's prompt has them as {form}")
    context.call_ids |= {*new, *new.values()}
    return _with_ids(request, new)


class _Renaming:
    def __init__(self, context: Context) -> None:
        self.new: dict[str, str] = {}
        self._taken: set[str] = set()
        self._rules = context.can.ids
        self._mark = context.source_can.ids.state_mark
        self._receipt = context.receipt

    def of(self, old: str, place: Place) -> str:
        new = self.new.get(old)
        if new is None:
            short = self._without_state(old)
            fine = is_legal_id(short, self._rules) and short not in self._taken
            new = short if fine else replacement_id(short, self._rules, self._taken, *([] if short == old else [old]))
            self.new[old] = new
            self._taken.add(new)
            if new != old:
                why = "the target's wire does not allow it" if short == old else "the state in it is another model's"
                self._receipt.note(str(place), f"call id {short}", f"{why}; it is {new}")
        return new

    def _without_state(self, old: str) -> str:
        """Return the id without the state that the client's server put in it, unless the target accepts such ids."""
        if not self._mark or self._mark not in old or is_legal_id(old, self._rules):
            return old
        return old.partition(self._mark)[0] or old


def is_legal_id(call_id: str, rules: CallIdRules) -> bool:
    if rules.state_mark and rules.state_mark in call_id:
        return len(call_id) <= _LONGEST_WITH_STATE
    return len(call_id) <= rules.max_length and _pattern(rules.pattern).fullmatch(call_id) is not None


class UsedIds:
    """The call ids of a conversation. It also contains ids that the client does not distinguish from one of them."""

    __slots__ = ("_ids", "_wholes")

    def __init__(self, ids: Iterable[str], rules: CallIdRules) -> None:
        self._ids = set(ids)
        self._wholes = {_whole(each) for each in self._ids} if rules.numbered_parts else None

    def __contains__(self, call_id: object) -> bool:
        if call_id in self._ids:
            return True
        if self._wholes is None or not isinstance(call_id, str):
            return False
        return call_id in self._wholes or _whole(call_id) in self._ids

    def add(self, call_id: str) -> None:
        self._ids.add(call_id)
        if self._wholes is not None:
            self._wholes.add(_whole(call_id))


def _whole(call_id: str) -> str | None:
    """Return the id of the call that a client would treat this one as a part of: `a` for `a_1`."""
    if not call_id[-1:].isdecimal():
        return None
    whole, _, number = call_id.rpartition("_")
    return whole if whole and number.isdecimal() else None


_LONGEST_WITH_STATE = 65_536
"""Gemini's signatures have hundreds to some thousands of characters."""


_pattern = lru_cache(maxsize=64)(re.compile)  # `re` has a cache as well, behind more work than a short id is


def replacement_id(call_id: str, rules: CallIdRules, taken: Container[str], *salt: object) -> str:
    """Create a valid unused id: a readable part of the old one and a hash, or the hash alone. The hash alone is for
    wires that allow no underscore; Mistral's ids are exactly nine letters and digits. A hash of digits only is not
    used: some clients take `a_123` for a part of the call `a` (`CallIdRules.numbered_parts`).
    """
    length = rules.max_length
    stem = "".join(letter if is_legal_id(letter, rules) else "_" for letter in call_id[:length])[: max(length - 9, 0)]
    candidate = ""
    for attempt in range(16):
        mark = digest(call_id, *salt, *([attempt] if attempt else []))
        if mark[:8].isdigit():
            continue
        for candidate in (f"{stem}_{mark[:8]}", mark[:length]):
            if is_legal_id(candidate, rules) and candidate not in taken:
                return candidate
    return candidate
