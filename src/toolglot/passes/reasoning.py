"""Fit reasoning in the history: a model's state returns only to its owner.

Signatures and encrypted reasoning are bound to the model that created them. Another model rejects them or cannot read
them. Readable reasoning text goes to targets that accept any (`reasoning_content` of DeepSeek, Kimi, vLLM).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolglot import features
from toolglot.dialect import NO_DEMAND, HistoryDemand
from toolglot.dialects import DIALECTS, ByDialect
from toolglot.ir import Block, Message, Request, Thinking, ToolCall, native_of, replace
from toolglot.passes import Context
from toolglot.passes.blocks import Place, with_messages
from toolglot.plan import runs_on

UNSIGNED = "skip_thought_signature_validator"
"""Signature that Google documents for calls that another model made."""
UNKNOWN = "because its origin is unknown"

STATE = frozenset({"signature", "thoughtSignature", "encrypted_content"})
"""Native keys that hold a model's own reasoning state."""
MADE = "$made"
"""Native note on reasoning: this owner created it, and its state goes nowhere else."""
ON_CALLS = STATE | {"extra_content", "provider_specific_fields"}
"""Native state keys of calls. Google's OpenAI-compatible endpoint puts signatures in `extra_content`, LiteLLM in the
other one."""


def _demand_of(context: Context) -> HistoryDemand:
    """Return the target's demands on a history whose reasoning is not its own."""
    return DIALECTS[context.target].upstream.demand if context.target in DIALECTS else NO_DEMAND


def _triggers(context: Context) -> int:
    return _state_features(context) | _demand_of(context).triggers(context)


def _state_features(context: Context) -> int:
    own = context.source == context.target
    return features.THINKING | (features.OTHERS if own else features.STATE | features.OTHERS)


@runs_on(_triggers, keeps_messages=True)
def settle(request: Request, context: Context) -> Request:
    """Keep foreign reasoning as text or drop it, and apply the target's demands on a history without its own
    reasoning."""
    settled = request
    if context.features & _state_features(context):
        numbered = enumerate(request.messages)
        messages = tuple([_settle_message(message, number, context) for number, message in numbered])
        settled = with_messages(request, messages)
        if () in [message.content for message in settled.messages]:
            context.features |= features.BLANK
    done = _demand_of(context).apply(settled, context, request.messages)
    if done is not settled:
        context.features |= _features_of_change(done, settled)
    return _without_emptied(done, request.messages) if context.source == context.target else done


def _features_of_change(request: Request, before: Request) -> int:
    """Return the features that the request may have gained; none if every message has as many blocks as before."""
    counts = [[len(message.content) for message in each.messages] for each in (request, before)]
    return 0 if counts[0] == counts[1] else features.BLANK | features.NEIGHBOURS


def _without_emptied(request: Request, before: tuple[Message, ...]) -> Request:
    """Drop messages that had only foreign reasoning. No later pass regroups a request in its own dialect, so such an
    item of the Responses API would be sent as an empty message."""
    if request.messages is before:
        return request
    pairs = zip(request.messages, before, strict=True)
    return with_messages(request, tuple(message for message, old in pairs if message.content or not old.content))


def _settle_message(message: Message, number: int, context: Context) -> Message:
    if Thinking not in map(type, message.content):
        for block in message.content:
            if block.native and _holds_state(block, context.target):
                context.receipt.note(str(Place(number)), "reasoning state", _STATE_WHY)
                break
        return message
    content: list[Block] = []
    left = emptied = state = known = own = False
    for block in message.content:
        if not isinstance(block, Thinking) or _is_own(block, context):
            state = state or _holds_state(block, context.target)
            content.append(block)
        elif context.can.reasoning.in_history != "text":
            left = True
            known = known or is_anothers(block, context.target)
            own = own or (context.target in block.native and context.can.reasoning.in_history == "none")
        elif block.text:
            state = state or _holds_state(block, context.target)
            content.append(block)
        else:
            emptied = True
    where = str(Place(number))
    if left:
        why = f"it cannot be given back, {UNKNOWN}"
        if own:
            why = (
                "this model accepts none"
                if context.can.reasoning.in_history == "none"
                else "its state was not sent back"
            )
        why = "reasoning of another model cannot be given back" if known else why
        context.receipt.loss(where, "reasoning", why)
    if emptied:
        context.receipt.loss(where, "encrypted reasoning", "only the model that made it can read it")
    if state:
        context.receipt.note(where, "reasoning state", _STATE_WHY)
    return message if not left and not emptied else replace(message, content=tuple(content))


_STATE_WHY = "signatures go back only to the model that made them"


def _is_own(block: Thinking, context: Context) -> bool:
    """Return whether the target created this reasoning and accepts it back. Servers that imitate an API create
    reasoning without its signature."""
    if context.aliased and (context.can.reasoning.in_history == "none" or _is_doubtful(block, context)):
        return False
    if context.target in block.native and (
        context.can.reasoning.in_history != "owned" or context.target in _WANTS_WORDS
    ):
        return True  # it accepts plain text back
    return bool(native_of(block, context.target)) or (context.source == context.target and not block.native)


def _is_doubtful(block: Thinking, context: Context) -> bool:
    """Return whether this is only text in a field of the client's own API, for a model that accepts only its own
    reasoning. Under an alias, nothing shows whether this model or another one of the same API wrote it."""
    if context.can.reasoning.in_history != "owned" or context.source != context.target:
        return False
    fields = native_of(block, context.target)
    return bool(fields) and fields.keys() <= _WORDS


_WANTS_WORDS = ByDialect(lambda manifest: manifest.state.words)
_WORDS = frozenset({"$field", "$twice"})
"""Native notes on reasoning that is only text: the field of the message that contained it."""


def _holds_state(block: Block, target: str) -> bool:
    for owner, fields in block.native.items():
        if owner != target and _is_state(fields, ON_CALLS if type(block) is ToolCall else STATE):
            return True
    return False


def is_anothers(block: Block, target: str) -> bool:
    """Return whether another model is known to have created the block."""
    return _holds_state(block, target) or any(MADE in fields for fields in block.native.values())


def _is_state(fields: Mapping[str, Any], keys: frozenset[str]) -> bool:
    """Return whether these fields contain a model's state. The placeholder for calls of other models is not state."""
    return not keys.isdisjoint(fields) and any(fields[key] != UNSIGNED for key in fields if key in keys)


def reasons(request: Request, context: Context) -> bool:
    """Return whether the request enables reasoning. In another dialect's request, an effort or a budget suffices."""
    wanted = request.reasoning
    if wanted is None or wanted.mode == "off" or wanted.effort == "none":
        return False
    has_amount = wanted.effort is not None or wanted.budget_tokens is not None
    return wanted.mode is not None or (has_amount and context.source != context.target)
