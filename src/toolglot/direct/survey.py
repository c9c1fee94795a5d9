"""What a plain conversation has in it that the general way looks at: its shape, and an example of the same shape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeAlias

from msgspec import Struct

from toolglot.direct.plain import PlainCall, PlainRequest, Thought, Turn, is_blank
from toolglot.passes.envelope import Envelope, is_ours, pack, unpack

SYSTEM = "toolglot example of a system prompt"
WORD = "toolglot example of a word"
THOUGHT = "toolglot example of a thought"

MOST_BREAKPOINTS = 8
"""An example has as many; Anthropic takes four."""

Seconds: TypeAlias = tuple[int | None, ...]


class Thoughts(Struct, frozen=True, gc=False):
    kind: str = ""
    """`own`: the client's vendor made it. `carried`: the upstream made it, and the client has kept its state."""
    state: tuple[str, ...] = ()
    """What there is in the state of reasoning that is carried."""
    calls: bool = False
    """There are calls without reasoning before them."""
    missing: bool = False
    """The user's last words were answered by calls, and the model has not told what it thought before them."""
    reasoned: bool = False
    """There are calls with reasoning before them."""


_NONE = Thoughts()


class Shape(Struct, frozen=True, gc=False):
    """Two conversations of one shape are treated alike: each line of the receipt for one turn stands there for every
    turn of that kind."""

    system: tuple[tuple[str, bool, Seconds], ...] = ()
    """Of what stands before the user's first words: its role, whether it is several texts, and its breakpoints."""
    breakpoints: Seconds = ()
    """Those on texts of the conversation."""
    cached: int = 0
    """The number of those on results."""
    failed: bool = False
    """A result is an error."""
    moved: bool = False
    """Results do not stand in the order of their calls."""
    instructed: str = ""
    """The role of system text inside the conversation, if there is any."""
    configured: bool = False
    """Some of it has settings beside it."""
    thoughts: Thoughts = _NONE

    @property
    def has_results(self) -> bool:
        return bool(self.thoughts.calls or self.thoughts.reasoned or self.failed or self.cached or self.moved)


class Survey(Struct, gc=False):
    marks: tuple[Any, ...]
    """The members of its shape. Most shapes are known by these, and need not be made."""
    turns: list[Turn]
    """Every result right behind its call, in the order of the calls."""
    ids: set[str]
    names: set[str]
    blank: bool
    """There is a result of mere spaces."""

    @property
    def shape(self) -> Shape:
        return Shape(*self.marks)

    @property
    def state(self) -> Mapping[str, Any]:
        """Some state that is carried."""
        return next((turn.thought.state for turn in self.turns if turn.thought and turn.thought.state), {})


def survey(plain: PlainRequest, owner: str, *, own: bool, issuer: str = "") -> Survey | None:
    """None if the conversation is not one that begins and ends with its user, every call with an id of its own and its
    result behind it. `owner`: the upstream's dialect; `own`: the client's as well; `issuer`: who takes carried state
    back."""
    called: list[str] = []
    names: set[str] = set()
    breakpoints: list[int | None] = []
    before = instructed = ""
    answered = cached = 0
    thinks = waits = moved = blank = failed = configured = False
    for turn in plain.turns:
        role, words = turn.role, turn.words
        if role == "tool":
            if answered == len(called):
                return None
            moved = moved or called[answered] != turn.call_id
            answered += 1
            cached += turn.cached
            failed = failed or turn.failed
            blank = blank or (words.isspace() if type(words) is str else is_blank(words))
        elif answered < len(called):
            return None
        elif role == "assistant":
            if before in ("", "assistant") or not (words or turn.calls):
                return None
            for call in turn.calls:
                called.append(call.id)
                names.add(call.name)
            waits = answered < len(called)
            thinks = thinks or turn.thought is not None
        elif role != "user":
            if not before or instructed not in ("", role):
                return None
            instructed = role
            configured = configured or turn.configured
        if turn.breakpoints is not None:
            breakpoints += turn.breakpoints.values()
        before = role
    if answered < len(called) or before in ("", "assistant") or cached + len(breakpoints) > MOST_BREAKPOINTS:
        return None
    ids, turns = set(called), _in_order(plain.turns, own=own) if moved else plain.turns
    if turns is None or len(ids) < len(called) or "" in ids or (plain.own and not own):
        return None
    thoughts = _thoughts(turns, owner, issuer, own=own) if thinks else _THOUGHTLESS[bool(ids), waits]
    system = _system(plain.system)
    marks = (system, tuple(breakpoints), cached, failed, moved and not own, instructed, configured, thoughts)
    return None if thoughts is None else Survey(marks, turns, ids, names, blank)


_THOUGHTLESS = {
    (calls, missing): Thoughts(calls=calls, missing=missing) for calls in (False, True) for missing in (False, True)
}


def _system(turns: Iterable[Turn]) -> tuple[tuple[str, bool, Seconds], ...]:
    marks = []
    for turn in turns:
        breakpoints = turn.breakpoints
        marks.append((turn.role, type(turn.words) is list, tuple(breakpoints.values()) if breakpoints else ()))
    return tuple(marks)


def _in_order(turns: list[Turn], *, own: bool) -> list[Turn] | None:
    """The turns with all results in the order of their calls, which are as many; None if some are not of these calls.
    For an upstream of the client's own dialect they stay where they are."""
    ordered: list[Turn] = []
    places: dict[str, int] = {}
    for role, group in groupby(turns, key=attrgetter("role")):
        found = list(group)
        if role == "assistant":
            places = {call.id: place for place, call in enumerate(found[0].calls)}
        elif role == "tool":
            results = {turn.call_id: turn for turn in found}
            if results.keys() != places.keys():
                return None
            if not own and list(results) != list(places):
                found[0].moved = True
                found = [results[call_id] for call_id in places]
        ordered += found
    return ordered


def _thoughts(turns: list[Turn], owner: str, issuer: str, *, own: bool) -> Thoughts | None:
    """The reasoning before words and calls, looked at as `passes.reasoning` does; None if there is some of several
    kinds, or of one that is not simple."""
    kind: tuple[str, tuple[str, ...]] | None = None
    calls = reasoned = False
    missing = thought = heard = answered = False  # since the user last spoke
    for turn in turns:
        role = turn.role
        if role == "assistant":
            if heard and not answered:
                missing = thought = False
            heard = answered = False
            if turn.thought is not None:
                thought = True
                found = _kind(turn.thought, owner, issuer, own=own)
                if found is None or kind not in (None, found):
                    return None
                kind = found
            if turn.calls:
                missing = missing or not thought
                calls = calls or turn.thought is None
                reasoned = reasoned or turn.thought is not None
        elif role in ("tool", "user"):
            heard = True
            answered = answered or role == "tool"
            thought = thought and own
    return Thoughts(*(kind or ("", ())), calls, missing and (answered or not heard), reasoned)


def _kind(thought: Thought, owner: str, issuer: str, *, own: bool) -> tuple[str, tuple[str, ...]] | None:
    """Whose reasoning it is; None if that is not simple. Reasoning that was carried gets its text and its state."""
    if not is_ours(thought.signature):
        return ("own", ()) if own or (thought.text and thought.signature) else None
    envelope = unpack(thought.signature)
    if own or envelope is None or not envelope.is_for(owner, issuer):
        return None
    if envelope.place != "here" or not envelope.text:
        return None
    thought.text, thought.state = envelope.text, envelope.state
    return "carried", tuple(envelope.state)


def example_of_system(shape: Shape) -> list[Turn]:
    return [_texts(role, SYSTEM, seconds, listed=listed) for role, listed, seconds in shape.system]


def _texts(role: str, word: str, seconds: Seconds, *, listed: bool = False) -> Turn:
    """A turn of as many texts as there are breakpoints."""
    count = max(len(seconds), 2 if listed else 1)
    return Turn(role, [word] * count if count > 1 else word, breakpoints=dict(enumerate(seconds)) or None)


def example(shape: Shape, owner: str, tool: str, state: Mapping[str, Any]) -> Iterator[Turn]:
    """A conversation of this shape, in which calls are calls of this tool, and reasoning has this state."""
    yield _texts("user", WORD, shape.breakpoints)
    if shape.instructed:
        yield Turn(shape.instructed, WORD, configured=shape.configured)
        yield Turn("user", WORD)
    thoughts = shape.thoughts
    if thoughts.kind:
        calls = _calls(shape, tool) if shape.has_results and not thoughts.calls else []
        yield Turn("assistant", WORD, calls=calls, thought=_example_of_thought(thoughts, owner, state))
        yield from _results(shape) if calls else (Turn("user", WORD),)
    if thoughts.calls:
        yield Turn("assistant", "", calls=_calls(shape, tool))
        yield from _results(shape)
    if shape.has_results and not thoughts.missing:
        yield Turn("assistant", WORD)
        yield Turn("user", WORD)


# Ids have nine letters and digits, which is what Mistral takes.


def _calls(shape: Shape, tool: str) -> list[PlainCall]:
    return [PlainCall(f"toolglot{number}", tool, "{}") for number in range(max(2, shape.cached))]


def _results(shape: Shape) -> Iterator[Turn]:
    """The first is the error, if there is one."""
    numbers = range(max(2, shape.cached))
    for number in reversed(numbers) if shape.moved else numbers:
        failed, cached = shape.failed and not number, number < shape.cached
        yield Turn("tool", WORD, call_id=f"toolglot{number}", failed=failed, cached=cached)


def _example_of_thought(thoughts: Thoughts, owner: str, state: Mapping[str, Any]) -> Thought:
    if thoughts.kind == "own":
        return Thought(THOUGHT, "dG9vbGdsb3Q=")
    return Thought(THOUGHT, pack(Envelope(owner=owner, state=dict(state), text=THOUGHT)))
