"""Reasoning in the history: each model's state goes back to its owner alone.

Signatures and encrypted reasoning are bound to the model that made them; another one refuses them or cannot read them.
Readable reasoning text goes to targets that take any (`reasoning_content` of DeepSeek, Kimi, vLLM).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from toolglot import features
from toolglot.ir import Block, Message, Request, Thinking, ToolCall, ToolResult, native_of, replace, with_native
from toolglot.passes import Context
from toolglot.passes.blocks import Place, rewrite_messages, with_messages
from toolglot.passes.census import census
from toolglot.plan import runs_on

GEMINI = "gemini"
ANTHROPIC = "anthropic"
RESPONSES = "openai_responses"
UNSIGNED = "skip_thought_signature_validator"
"""What Google documents for calls that another model made."""
_AS_ANOTHERS = "marked as another model's call"
_UNKNOWN = "as nothing shows whose it is"

STATE = frozenset({"signature", "thoughtSignature", "encrypted_content"})
"""Native keys that hold a model's own reasoning state."""
MADE = "$made"
"""A native note on reasoning: its owner has made it, and what the client carried of it goes nowhere else."""
ON_CALLS = STATE | {"extra_content"}
"""The same on calls: there Google's server for Chat clients puts its signatures."""

# Gemini 3 was the first to demand signatures; a name that tells no generation counts as new.
_UNSIGNED_MODELS = re.compile(r"(^|/)(gemini-[12]([.-]|$)|gemma)")
_SIGNED_MODELS = re.compile(r"(^|/)gemini-([3-9]|\d\d)")
# The ids that `openai_responses` gives to items of other models' answers; OpenAI's own end in one run of hex digits.
_MADE_UP = re.compile(r"(rs|msg|fc|ctc|ig)_.+_\d+", re.S)


def _triggers(context: Context) -> int:
    own = context.source == context.target
    return (
        features.THINKING
        | (features.OTHERS if own else features.STATE | features.OTHERS)
        | (features.ANY if context.target == RESPONSES else features.CALLS)
    )


@runs_on(_triggers, adds=features.BLANK | features.NEIGHBOURS)
def settle(request: Request, context: Context) -> Request:
    """Foreign reasoning kept as text or left behind, and what the target demands of a history without its own."""
    there, settled = census(request, context), request
    if Thinking in there.kinds or any(_holds_state(block, context.target) for block in there.owned):
        settled = rewrite_messages(request, lambda message, number: _settle_message(message, number, context))
    demand = DEMANDS.get(context.target)
    done = demand(settled, context, request.messages) if demand else settled
    return _without_emptied(done, request.messages) if context.source == context.target else done


def _without_emptied(request: Request, before: tuple[Message, ...]) -> Request:
    """Without the messages that held nothing but foreign reasoning: a dialect's own grouping is left alone after this,
    and an item of the Responses API that was one would go out as an empty message."""
    if request.messages is before:
        return request
    pairs = zip(request.messages, before, strict=True)
    return with_messages(request, tuple(message for message, old in pairs if message.content or not old.content))


def _settle_message(message: Message, number: int, context: Context) -> Message:
    if not any(block.native or type(block) is Thinking for block in message.content):
        return message
    content: list[Block] = []
    left = emptied = state = known = own = False
    for block in message.content:
        if not isinstance(block, Thinking) or _is_own(block, context):
            state = state or _holds_state(block, context.target)
            content.append(block)
        elif context.can.thinking != "text":
            left = True
            known = known or _is_anothers(block, context.target)
            own = own or context.target in block.native
        elif block.text:
            state = state or _holds_state(block, context.target)
            content.append(block)
        else:
            emptied = True
    where = str(Place(number))
    if left:
        why = "this model takes none back" if own else f"it cannot be given back, {_UNKNOWN}"
        why = "reasoning of another model cannot be given back" if known else why
        context.receipt.loss(where, "reasoning", why)
    if emptied:
        context.receipt.loss(where, "encrypted reasoning", "only the model that made it can read it")
    if state:
        context.receipt.note(where, "reasoning state", "signatures go back to the model that made them alone")
    return message if not left and not emptied else replace(message, content=tuple(content))


def _is_own(block: Thinking, context: Context) -> bool:
    """Has the target made it, and takes it back? Imitators of an API make reasoning without its signature."""
    if context.aliased and context.can.thinking == "none":
        return False
    return bool(native_of(block, context.target)) or (context.source == context.target and not block.native)


def _holds_state(block: Block, target: str) -> bool:
    keys = ON_CALLS if isinstance(block, ToolCall) else STATE
    return any(owner != target and _is_state(fields, keys) for owner, fields in block.native.items())


def _is_anothers(block: Block, target: str) -> bool:
    """Is it known that somebody else has made it?"""
    return _holds_state(block, target) or any(MADE in fields for fields in block.native.values())


def _is_state(fields: Mapping[str, Any], keys: frozenset[str]) -> bool:
    """Is there state of a model? The mark for calls of other models stands in its place and is none."""
    return any(key in fields and fields[key] != UNSIGNED for key in keys)


def reasons(request: Request, context: Context) -> bool:
    """Will the model reason? From another dialect an effort or a budget alone says so."""
    wanted = request.reasoning
    if wanted is None or wanted.mode == "off" or wanted.effort == "none":
        return False
    said = wanted.effort is not None or wanted.budget_tokens is not None
    return wanted.mode is not None or (said and context.source != context.target)


def _sign_steps(request: Request, context: Context, before: Sequence[Message]) -> Request:
    """Gemini 3 refuses a step whose first call has no signature; its siblings in a parallel batch carry none.

    Only the current turn is validated, but the mark stands on every step: taking it away again when a turn ends would
    change the prefix that the prompt cache holds. Gemini's own clients have kept what they were given, which may have
    been an answer of another model: where the model is known to refuse it, theirs are marked, too.
    """
    own = context.source == context.target and not context.carried
    if _UNSIGNED_MODELS.search(request.model) or (own and not _SIGNED_MODELS.search(request.model)):
        return request
    signed = anothers = False

    def sign(message: Message, number: int) -> Message:
        nonlocal signed, anothers
        if message.role != "assistant":
            signed = anothers = False
            return message
        anothers = anothers or any(block.native and _is_anothers(block, GEMINI) for block in before[number].content)
        for index, block in enumerate(message.content):
            if signed or not isinstance(block, ToolCall):
                continue
            signed = True
            if "thoughtSignature" not in native_of(block, GEMINI):
                why = _AS_ANOTHERS if anothers else f"{_AS_ANOTHERS}, {_UNKNOWN}"
                context.receipt.note(str(Place(number, index)), "no thought signature", why)
                marked = with_native(block, GEMINI, thoughtSignature=UNSIGNED)
                return replace(message, content=(*message.content[:index], marked, *message.content[index + 1 :]))
        return message

    return rewrite_messages(request, sign)


def _think_or_not(request: Request, context: Context, before: Sequence[Message]) -> Request:
    """Claude with a thinking budget refuses a turn that went on with a tool call before which it did not think.

    Models that know no budgets think when they want to, and have no such rule. See opencode #3077.
    """
    wanted = request.reasoning
    if (
        wanted is None
        or not reasons(request, context)
        or not (context.can.reasoning_off and context.can.reasoning_budget)
    ):
        return request
    # A client of Claude's own has kept what it was given: its turn begins with reasoning and may go on without,
    # unless another model has answered in between, of which it tells nothing if that one has shown no reasoning.
    own = context.source == context.target and not context.carried
    if not _calls_without_thinking(request.messages, whole_turn=own):
        return request
    why = "this turn has tool calls without the target's own reasoning; it is off until the turn ends"
    context.receipt.loss("reasoning", "thinking", why)
    return replace(request, reasoning=replace(wanted, mode="off", effort=None, budget_tokens=None))


def _calls_without_thinking(messages: tuple[Message, ...], *, whole_turn: bool) -> bool:
    """Has a step of the current turn, the messages after the user last spoke, a call before any reasoning? With
    `whole_turn` reasoning in one step is enough for the later ones.

    Text beside or behind results does not end a turn: it will stand in one message with them.
    """
    missing = thought = False
    heard: list[Block] = []  # between two messages of the assistant
    for message in messages:
        if message.role != "assistant":
            thought = thought and whole_turn
            if message.role in ("user", "tool"):
                heard.extend(message.content)
            continue
        over = _ends_turn(heard)
        missing, thought, heard = missing and not over, thought and not over, []
        for block in message.content:
            thought = thought or isinstance(block, Thinking)
            missing = missing or (isinstance(block, ToolCall) and not thought)
    return missing and not _ends_turn(heard)


def _ends_turn(heard: list[Block]) -> bool:
    return bool(heard) and not any(isinstance(block, ToolResult) for block in heard)


def _free_items(request: Request, context: Context, before: Sequence[Message]) -> Request:
    """The Responses API takes an item with an id for one that it has made, and wants the reasoning that led to it.

    So ids that were made up for answers of other models go, and those of a turn whose reasoning is lost. Its server
    takes items without ids: its own agents send none.
    """
    if context.source != context.target:
        _note_unreasoned_calls(request.messages, context)
        return request  # no ids but those of its own reasoning
    if not any("id" in native_of(node, RESPONSES) for node in (*request.messages, *census(request, context).calls)):
        return request
    tied: list[_Tie] = []
    turn: list[Message] = []
    for message in (*request.messages, Message(role="end")):
        if message.role == "assistant":
            turn.append(message)
            continue
        tied += _ties(turn, reasons="reasoning" in context.can.fields)
        tied.append("known")
        turn = []

    def free(message: Message, number: int) -> Message:
        if message.role != "assistant":
            return message
        content = tuple(
            _without_id(block, tie=tied[number]) if isinstance(block, ToolCall) else block for block in message.content
        )
        freed = _without_id(message, tie=tied[number])
        same = all(new is old for new, old in zip(content, message.content, strict=True))
        if freed is message and same:
            return message
        context.receipt.note(str(Place(number)), "item id", "the target has not made it, or has lost its reasoning")
        return freed if same else replace(freed, content=content)

    return rewrite_messages(request, free)


def _note_unreasoned_calls(messages: Sequence[Message], context: Context) -> None:
    """The API takes calls without the reasoning that led to them, and its answers do not show that it is missing."""
    if "reasoning" not in context.can.fields:
        return
    called = thought = False
    for message in (*messages, Message(role="end")):
        if message.role == "assistant":
            called = called or any(map(_is_call, message.content))
            thought = thought or any(isinstance(block, Thinking) for block in message.content)
        elif called and not thought:
            context.receipt.note("reasoning", "of calls", "no reasoning of the target is known for some of them")
            return
        else:
            called = thought = False


_Tie: TypeAlias = Literal["lost", "known", "own"]
"""Of an item: its reasoning is lost; nothing is against it; the target's reasoning stands before it."""


def _ties(turn: list[Message], *, reasons: bool) -> list[_Tie]:
    blocks = [block for message in turn for block in message.content]
    if reasons and any(map(_is_call, blocks)) and not any(isinstance(block, Thinking) for block in blocks):
        return ["lost"] * len(turn)
    ties: list[_Tie] = []
    own = False
    for message in turn:
        own = own or any(map(_is_targets, message.content))
        ties.append("own" if own else "known")
    return ties


def _is_call(block: Block) -> bool:
    return isinstance(block, ToolCall)


def _is_targets(block: Block) -> bool:
    """Is it a reasoning item that the target has made? An id alone may have been made up; with encrypted content it is
    the target's, as what stood there for other models has been taken out."""
    fields = native_of(block, RESPONSES) if isinstance(block, Thinking) else {}
    item = fields.get("id")
    return isinstance(item, str) and (bool(fields.get("encrypted_content")) or not _MADE_UP.fullmatch(item))


N = TypeVar("N", Message, ToolCall)


def _without_id(node: N, *, tie: _Tie) -> N:
    """Imitators of the API may have ids of their own that look made up: those behind their reasoning stay."""
    fields = native_of(node, RESPONSES)
    item = fields.get("id")
    if not isinstance(item, str) or tie == "own" or (tie == "known" and not _MADE_UP.fullmatch(item)):
        return node
    rest = {key: value for key, value in fields.items() if key != "id"}
    return replace(node, native={**node.native, RESPONSES: rest})


DEMANDS: dict[str, Callable[[Request, Context, Sequence[Message]], Request]] = {
    GEMINI: _sign_steps,
    ANTHROPIC: _think_or_not,
    RESPONSES: _free_items,
}
"""What a target demands of a history whose reasoning is not its own. The messages are those before it was left out."""
