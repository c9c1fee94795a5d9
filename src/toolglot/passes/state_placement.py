"""Put reasoning state back on the blocks of an answer.

A client may return an answer in several messages, with other ids, and without some of its blocks. An `AnswerState`
holds what the owner needs back: complete reasoning, and the owner's state of calls and texts. Each state goes to its
block, and reasoning goes before the block that it led to. If the client or the encoder joined texts, they are split
again, without the blank line between them. An empty text that the client omitted comes back if it had state.

Some clients send each call of a batch in a separate message, followed by its result, and some repeat the answer's text
and reasoning in each. The ids in the state show that the calls belong together, and the answer becomes one message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from toolglot.events import merge_native
from toolglot.ir import Block, Message, Native, Text, Thinking, ToolCall, ToolResult, native_of, replace
from toolglot.passes import Context
from toolglot.passes.answer_state import NEEDS_FOLLOWER, UNFOLLOWED, AnswerState, length_of
from toolglot.passes.blocks import INSTRUCTION_ROLES
from toolglot.state_fields import LENGTH
from toolglot.wire.text_separator import separator_between

_GAP = separator_between("a", "b")
"""The separator that encoders put between two texts of an answer."""


class AnswerRun:
    """Adjacent assistant messages: one answer, which clients send as one message or as several."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.blocks: list[tuple[int, Block]] = []  # each with the index of its message
        self.end = 0
        """Number of messages up to the end of the run, without instructions."""
        self.joined: list[int] = []
        """Later messages whose calls belong to this answer. They are omitted."""

    def add(self, message: Message, number: int, count: int) -> None:
        self.numbers.append(number)
        self.blocks += [(number, block) for block in message.content]
        self.end = count

    @property
    def speaks(self) -> bool:
        """Whether the run has text or calls. A run of reasoning alone may be split and is not counted."""
        return any(isinstance(block, ToolCall) or (isinstance(block, Text) and block.text) for _, block in self.blocks)

    def calls(self) -> list[ToolCall]:
        return [block for _, block in self.blocks if isinstance(block, ToolCall)]


def runs(messages: Sequence[Message]) -> list[AnswerRun]:
    """Return the answers of a conversation in order."""
    return [run for run in _runs(messages) if run.speaks]


def _runs(messages: Sequence[Message]) -> Iterator[AnswerRun]:
    run, count = AnswerRun(), 0
    for number, message in enumerate(messages):
        if message.role in INSTRUCTION_ROLES:
            continue
        count += 1
        if message.role == "assistant":
            run.add(message, number, count)
        elif run.numbers:
            yield run
            run = AnswerRun()
    if run.numbers:
        yield run


def join_split_calls(run: AnswerRun, messages: Sequence[Message], states: AnswerState) -> None:
    """Add the calls of this answer that the client sends in later messages, each after the result of the previous one.
    They move to the last message of the run. A message with a text that is not in the run belongs to another answer."""
    missing = _own_ids(states).keys() - {call.id for call in run.calls()}
    home = run.numbers[-1]
    said = [block for _, block in run.blocks]
    for number in range(home + 1, len(messages)):
        message = messages[number]
        if not missing:
            return
        if message.role != "assistant":
            if message.role not in INSTRUCTION_ROLES and not _is_only_results(message):
                return
        elif ids := _ids_of_calls_alone(message, said):
            if not ids <= missing:
                return
            missing -= ids
            run.joined.append(number)
            news = [block for block in message.content if not isinstance(block, Text) and block not in said]
            run.blocks += [(home, block) for block in news]
        else:
            return


def find_first_message(messages: Sequence[Message], number: int, states: AnswerState) -> int:
    """Find the first message of the answer whose state arrived with this message: a client that splits a batch may keep
    the state with any of its calls."""
    ids = _own_ids(states).keys()
    first = number
    for before in range(number - 1, -1, -1):
        message = messages[before]
        if message.role != "assistant":
            if message.role not in INSTRUCTION_ROLES and not _is_only_results(message):
                break
            continue
        called = {block.id for block in message.content if isinstance(block, ToolCall)}
        if not called or not called <= ids:
            break
        first = before
        if not _ids_of_calls_alone(message, messages[number].content):
            break
    return first


def _is_only_results(message: Message) -> bool:
    return all(isinstance(block, ToolResult) for block in message.content)


def _ids_of_calls_alone(message: Message, said: Sequence[Block]) -> set[str]:
    """Return the ids of a message's calls if its other content is only reasoning, or text that `said` contains;
    otherwise an empty set."""
    if any(not isinstance(block, (ToolCall, Thinking, Text)) for block in message.content):
        return set()
    if (texts := _texts(message.content)) and texts != _texts(said):
        return set()
    return {block.id for block in message.content if isinstance(block, ToolCall)}


def _texts(blocks: Sequence[Block]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, Text) and (block.text.strip() or block.native)]


def write_run(messages: list[Message], run: AnswerRun, blocks: Sequence[tuple[int, Block]]) -> None:
    """Replace the messages of the run. Messages whose calls have moved to it become empty."""
    for place in run.numbers:
        content = tuple(block for home, block in blocks if home == place)
        messages[place] = replace(messages[place], content=content)
    for place in run.joined:
        first = messages[run.numbers[-1]]
        messages[run.numbers[-1]] = replace(first, native=merge_native(messages[place].native, first.native))
        messages[place] = replace(messages[place], content=(), native={})


def place_state(run: AnswerRun, states: AnswerState, context: Context) -> list[tuple[int, Block]] | None:
    """Return the run's blocks with the target's state, or None if there is nothing to add."""
    owner = context.target
    blocks = list(run.blocks)
    thinking: Sequence[Thinking] = [_add_owner(saved, owner) for saved in states if isinstance(saved, Thinking)]
    sent = [block for _, block in blocks if _is_own(block, context)]
    if len(sent) < len(thinking) and all(block in thinking for block in sent):
        blocks = [each for each in blocks if each[1] not in sent]  # the client has dropped some of it
    elif sent:
        thinking = ()
    if thinking:
        words = _words("".join(saved.text for saved in thinking))
        blocks = [each for each in blocks if not _repeats(each[1], words)]
    cut = _cut_texts(blocks, states)
    changed = bool(thinking) or cut is not blocks
    blocks = cut
    before: dict[int, list[Block]] = {}
    pending: list[Block] = []
    places = list(_places(states, [block for _, block in blocks]))
    blocks, places = _in_answer_order(blocks, places)
    for saved, place in zip(states, places, strict=True):
        state = _state(saved, owner)
        if isinstance(saved, Thinking):
            pending += [_add_owner(saved, owner)] if thinking else []
        elif place is not None:
            # A turn of Claude starts with reasoning. Reasoning that is tied to a block goes before that block.
            starts = not before and owner not in NEEDS_FOLLOWER
            before.setdefault(_start(blocks) if starts else place, []).extend(pending)
            pending = []
            home, block = blocks[place]
            if state and not native_of(block, owner).keys() >= state[owner].keys():
                assert isinstance(block, (ToolCall, Text))
                blocks[place] = home, replace(block, native=merge_native(state, block.native))
                changed = True
        else:
            if owner in NEEDS_FOLLOWER and pending:
                pending = []
                context.receipt.loss("messages", "reasoning", UNFOLLOWED)
            if isinstance(saved, Text) and state and (length := length_of(saved)) is not None:
                if not _is_label(state[owner]):
                    pending.append(Text(text="", native=state))
                    changed = True
                elif length:
                    context.receipt.loss("messages", "phase", "the texts of an answer can no longer be distinguished")
    if not changed:
        return None
    if blocks and not before and owner not in NEEDS_FOLLOWER:
        leading = list(takewhile(lambda block: isinstance(block, Thinking), pending))
        before[_start(blocks)] = leading
        pending = pending[len(leading) :]
    done = [(home, new) for place, (home, block) in enumerate(blocks) for new in (*before.get(place, ()), block)]
    return [*done, *((run.numbers[-1], block) for block in pending)]


def _in_answer_order(
    blocks: list[tuple[int, Block]], places: list[int | None]
) -> tuple[list[tuple[int, Block]], list[int | None]]:
    """Move the texts of one message to their position in the answer, if all blocks are known: Chat and Ollama have
    one text before all calls. Also returns the new positions."""
    order = [place for place in places if place is not None]
    calls = [place for place in order if isinstance(blocks[place][1], ToolCall)]
    if order == sorted(order) or calls != sorted(calls) or len(order) != len(blocks):
        return blocks, places
    if len({home for home, _ in blocks}) > 1:
        return blocks, places
    numbers = {place: number for number, place in enumerate(order)}
    return [blocks[place] for place in order], [None if place is None else numbers[place] for place in places]


def _start(blocks: Sequence[tuple[int, Block]]) -> int:
    """Return the index of the first block that is not another owner's reasoning."""
    return next((place for place, (_, block) in enumerate(blocks) if not isinstance(block, Thinking)), 0)


def _add_owner(saved: Thinking, owner: str) -> Thinking:
    """Add the owner's name, even if the owner needs only the text, so that the block is not restored twice."""
    return saved if owner in saved.native else replace(saved, native={**saved.native, owner: {}})


def _state(saved: Block, owner: str) -> Native:
    fields = {key: value for key, value in native_of(saved, owner).items() if key != LENGTH}
    return {owner: fields} if fields else {}


def _is_label(fields: Mapping[str, Any]) -> bool:
    """Return whether these fields only describe their text, and mean nothing without it."""
    return all(key.startswith("$") for key in fields)


def _cut_texts(blocks: list[tuple[int, Block]], states: AnswerState) -> list[tuple[int, Block]]:
    """Split the texts to the lengths that they had in the answer. If the lengths do not fit, nothing changes."""
    known = [length_of(saved) for saved in states if isinstance(saved, Text)]
    lengths = [length for length in known if length]
    texts = [block.text for _, block in blocks if isinstance(block, Text) and block.text]
    has_pieces = len(texts) > 1 and any(_is_piece(block) for _, block in blocks)
    if None in known or ([len(text) for text in texts] == lengths and not has_pieces):
        return blocks
    total = sum(map(len, texts))
    if total == sum(lengths):
        return _cut(blocks, lengths, separated=False) or blocks
    return (total > sum(lengths) and _cut(blocks, lengths, separated=True)) or blocks


def _is_piece(block: Block) -> bool:
    return isinstance(block, Text) and any("$piece" in fields for fields in block.native.values())


def _without_piece(native: Native) -> Native:
    """Remove the note that a text continues in the next block: it ends here."""
    return {owner: {key: fields[key] for key in fields if key != "$piece"} for owner, fields in native.items()}


def _cut(blocks: list[tuple[int, Block]], lengths: list[int], *, separated: bool) -> list[tuple[int, Block]] | None:
    """Return the blocks with texts of these lengths and joined pieces, or None if they do not fit. `separated`: remove
    the blank line that an encoder put between two texts."""
    done: list[tuple[int, Block]] = []
    left = list(lengths)
    before, begins = "", True  # the latest text, and whether the next one begins here
    for home, block in blocks:
        if not isinstance(block, Text) or not block.text:
            done.append((home, block))
            continue
        text = block.text
        while text:
            if separated and begins and text.startswith(_GAP) and separator_between(before, text[len(_GAP) :]) == _GAP:
                text = text[len(_GAP) :]
            if not left:
                return None
            before, text = text[: left[0]], text[left[0] :]
            if not begins and isinstance(last := done[-1][1], Text) and last.text:
                citations = (*last.citations, *block.citations)
                done[-1] = done[-1][0], replace(last, text=last.text + before, citations=citations)
            else:
                done.append((home, replace(block, text=before, native=_without_piece(block.native))))
            begins = len(before) == left[0]
            left[:1] = [] if begins else [left[0] - len(before)]
    return None if left else done


def _places(states: AnswerState, blocks: Sequence[Block]) -> Iterator[int | None]:
    """Find the block that each state belongs to. A call is identified by a unique id, or else by its order; a text by
    its order, with empty texts counted separately. Texts that stay joined get no state, which would be that of one."""
    found: dict[bool, list[int]] = {True: [], False: []}
    for number, block in enumerate(blocks):
        if isinstance(block, Text):
            found[not block.text].append(number)
    lengths = [length_of(saved) for saved in states if isinstance(saved, Text)]
    are_joined = None not in lengths and len(found[False]) < len(list(filter(None, lengths)))
    texts = {True: iter(found[True]), False: iter([] if are_joined else found[False])}
    by_id = _own_ids(blocks)
    shared = by_id.keys() & _own_ids(states).keys()
    matched = {by_id[each] for each in shared}
    others = iter([n for n, block in enumerate(blocks) if isinstance(block, ToolCall) and n not in matched])
    for saved in states:
        if isinstance(saved, ToolCall):
            yield by_id[saved.id] if saved.id in shared else next(others, None)
        else:
            yield next(texts[length_of(saved) == 0], None) if isinstance(saved, Text) else None


def _own_ids(blocks: Sequence[Block]) -> dict[str, int]:
    """Return the ids that only one call has, with the index of that call."""
    calls = [(block.id, place) for place, block in enumerate(blocks) if isinstance(block, ToolCall) and block.id]
    count = Counter(each for each, _ in calls)
    return {each: place for each, place in calls if count[each] == 1}


def _is_own(block: Block, context: Context) -> bool:
    """Return whether the target owns this reasoning. An envelope names the owner even if it needs only the text."""
    if not isinstance(block, Thinking):
        return False
    return context.target in block.native or (context.source == context.target and not block.native)


def _repeats(block: Block, words: str) -> bool:
    """Return whether this is reasoning without state whose words are part of the saved text: the client had only the
    text."""
    return isinstance(block, Thinking) and bool(block.text) and _words(block.text) in words


def _words(text: str) -> str:
    """Return the text without white space: encoders add blank lines between blocks of reasoning, clients strip them."""
    return "".join(text.split())
