"""Reasoning state that no client carries: taken out of an answer to be kept elsewhere, and put back into the history.

Some clients have no field for the state of a model and some do not send it back. What its owner wants to see again of
an answer is then kept by whoever has a place for it, and comes back here as the `Skeleton` of that answer: its
reasoning whole, and of its calls and texts only what the owner has put on them. Where the history has lost some of it,
it is put back on the blocks that it belongs to, before the other passes see the history. What the client has sent
itself, in its own field or in an envelope, stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from toolglot.events import merge_native
from toolglot.ir import Block, Message, Request, Text, Thinking, ToolCall, native_of, replace
from toolglot.passes import Context, RequestPass
from toolglot.passes.blocks import INSTRUCTION_ROLES, Place, with_messages
from toolglot.passes.carry import open_envelopes
from toolglot.passes.skeleton import Skeleton
from toolglot.wire.large import emptied


class Run:
    """Neighbouring messages of the assistant: an answer, as clients tell it in one message or in several."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.blocks: list[tuple[int, Block]] = []  # each with the message that it stands in
        self.end = 0
        """How many messages that are no instructions there are up to its end."""

    def add(self, message: Message, number: int, count: int) -> None:
        self.numbers.append(number)
        self.blocks += [(number, block) for block in message.content]
        self.end = count

    @property
    def speaks(self) -> bool:
        """It says or calls something: what holds nothing but reasoning may be taken apart and is not counted."""
        return any(isinstance(block, ToolCall) or (isinstance(block, Text) and block.text) for _, block in self.blocks)

    def calls(self) -> list[ToolCall]:
        return [block for _, block in self.blocks if isinstance(block, ToolCall)]


def runs(messages: Sequence[Message]) -> list[Run]:
    """The answers of a conversation in their order."""
    return [run for run in _runs(messages) if run.speaks]


def _runs(messages: Sequence[Message]) -> Iterator[Run]:
    run, count = Run(), 0
    for number, message in enumerate(messages):
        if message.role in INSTRUCTION_ROLES:
            continue
        count += 1
        if message.role == "assistant":
            run.add(message, number, count)
        elif run.numbers:
            yield run
            run = Run()
    if run.numbers:
        yield run


def lacks_state(run: Run, source: str, slot: str | None, target: str) -> bool:
    """May the target miss something here? Not where a client of its own dialect has sent what stands in its own field;
    a client of another one has no field for all that there may be."""
    if source != target:
        return True
    return not any(
        isinstance(block, Thinking) or (slot is not None and slot in native_of(block, source))
        for _, block in run.blocks
    )


def put_back(kept: Mapping[int, Skeleton]) -> RequestPass:
    """The pass that puts skeletons back, each on the answer of this number."""

    def restore(request: Request, context: Context) -> Request:
        if context.can.thinking == "none":
            return request
        messages = list(request.messages)
        for number, run in enumerate(emptied(runs(messages))):
            if number in kept and (blocks := placed(run, kept[number], context)) is not None:
                for place in run.numbers:
                    content = tuple(block for home, block in blocks if home == place)
                    messages[place] = replace(messages[place], content=content)
                sent = any(native_of(block, context.target) for _, block in run.blocks)
                said = "has not sent all of it; the rest of it was" if sent else "has not sent it; it was"
                why = f"the client {said} kept here for {context.target}"
                context.receipt.note(str(Place(run.numbers[0])), "reasoning state", why)
        return with_messages(request, tuple(messages))

    return restore


def with_states(passes: Sequence[RequestPass], kept: Mapping[int, Skeleton]) -> tuple[RequestPass, ...]:
    """The passes with this one among them: behind the opening of envelopes, which shows what the client has sent."""
    if not kept or open_envelopes not in passes:
        return tuple(passes)
    place = passes.index(open_envelopes) + 1
    return (*passes[:place], put_back(kept), *passes[place:])


def placed(run: Run, bones: Skeleton, context: Context) -> list[tuple[int, Block]] | None:
    """The run's blocks with the target's state on them; None if there was nothing to add."""
    owner = context.target
    blocks = list(run.blocks)
    thinking: Sequence[Thinking] = [bone for bone in bones if isinstance(bone, Thinking)]
    if any(_is_own(block, context) for _, block in blocks):
        thinking = ()
    if thinking:
        texts = [bone.text for bone in thinking]
        told = ("".join(texts), "\n\n".join(texts))  # as a client has it of a stream, and of a whole answer
        blocks = [each for each in blocks if not _repeats(each[1], told)]
    before: dict[int, list[Block]] = {}
    pending: list[Block] = []
    changed = bool(thinking)
    for bone, place in zip(bones, _places(bones, [block for _, block in blocks]), strict=True):
        if isinstance(bone, Thinking):
            pending += [bone] if thinking else []
        elif place is not None:
            before.setdefault(place, []).extend(pending)
            pending = []
            home, block = blocks[place]
            if bone.native and not native_of(block, owner).keys() >= bone.native[owner].keys():
                assert isinstance(block, ToolCall | Text)
                blocks[place] = home, replace(block, native=merge_native(bone.native, block.native))
                changed = True
    if not changed:
        return None
    done = [(home, new) for place, (home, block) in enumerate(blocks) for new in (*before.get(place, ()), block)]
    return [*done, *((run.numbers[-1], block) for block in pending)]


def _places(bones: Skeleton, blocks: Sequence[Block]) -> Iterator[int | None]:
    """Which block each bone belongs to: calls by ids that are theirs alone, or else by their order, as texts are."""
    texts = iter([place for place, block in enumerate(blocks) if isinstance(block, Text)])
    by_id = _own_ids(blocks)
    shared = by_id.keys() & _own_ids(bones).keys()
    matched = {by_id[each] for each in shared}
    others = iter([n for n, block in enumerate(blocks) if isinstance(block, ToolCall) and n not in matched])
    for bone in bones:
        if isinstance(bone, ToolCall):
            yield by_id[bone.id] if bone.id in shared else next(others, None)
        else:
            yield next(texts, None) if isinstance(bone, Text) else None


def _own_ids(blocks: Sequence[Block]) -> dict[str, int]:
    """The ids that one call alone has, and where it stands."""
    calls = [(block.id, place) for place, block in enumerate(blocks) if isinstance(block, ToolCall) and block.id]
    count = Counter(each for each, _ in calls)
    return {each: place for each, place in calls if count[each] == 1}


def _is_own(block: Block, context: Context) -> bool:
    if not isinstance(block, Thinking):
        return False
    return bool(native_of(block, context.target)) or (context.source == context.target and not block.native)


def _repeats(block: Block, told: Sequence[str]) -> bool:
    """Is it reasoning without state whose words are a part of what was kept? A client had only the words."""
    return isinstance(block, Thinking) and bool(block.text) and any(block.text in words for words in told)
