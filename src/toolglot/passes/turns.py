"""Group messages into the turns of the target's wire. This is the last pass. Some wires require one message per turn
and the results in a user message, others a message for each result. Blocks keep their order, except that results come
first in a user message, as Anthropic requires.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_

from toolglot import features
from toolglot.events import merge_native
from toolglot.ir import Block, Cache, Message, Request, Text, Thinking, ToolResult, native_of, replace
from toolglot.passes import Context
from toolglot.passes.blocks import INSTRUCTION_ROLES, NO_CONTENT, Place, with_messages
from toolglot.passes.blocks import leading as count_leading
from toolglot.plan import runs_on
from toolglot.wire.incremental_json import drain

BEGIN = "(The conversation begins with the assistant.)"
CONTINUE = "Continue."
START = "Begin."


def _triggers(context: Context) -> int:
    can = context.can
    bits = features.BLANK if can.messages.prefill else features.BLANK | features.ENDS_ODD
    if context.source == context.target:
        return bits
    return (
        bits
        | features.PIECES
        | features.NEIGHBOURS
        | features.ODD_RESULTS
        | features.STARTS_ODD
        | (features.CALLS if can.calls.results_role == "user" else 0)
    )


@runs_on(_triggers, adds=features.BLANK)
def group(request: Request, context: Context) -> Request:
    had_messages = bool(request.messages)
    in_pieces = bool(context.features & features.PIECES)
    if in_pieces and context.source != context.target:
        request = with_messages(request, _join_pieces(request.messages))
    if context.features & features.BLANK and _has_blanks(request.messages):
        request = _without_emptiness(request, context)
    # A dialect's own grouping is always legal.
    messages = request.messages
    if context.source != context.target:
        turns = _merge_roles(split_results(messages, context), context)
        messages = tuple([_join_message([turn]) for turn in turns] if in_pieces else turns)
        if not messages or messages[-1].role in INSTRUCTION_ROLES:
            messages = _with_message(messages, had_messages, context)
    return with_messages(request, _fit_edges(messages, context))


def _has_blanks(messages: tuple[Message, ...]) -> bool:
    """Return whether there is an empty text or message."""
    return any(not message.content or _has_blank_text(message) for message in messages)


def _has_blank_text(message: Message) -> bool:
    for block in message.content:
        if type(block) is Text:
            if not block.text or block.text.isspace():
                return True
        elif type(block) is ToolResult:
            for part in block.content:
                if type(part) is Text and (not part.text or part.text.isspace()):
                    return True
    return False


def _with_message(messages: tuple[Message, ...], had_messages: bool, context: Context) -> tuple[Message, ...]:
    """Return a conversation that the target accepts if only system text is left."""
    if len(messages) > count_leading(messages):
        return messages
    if not had_messages:
        context.receipt.loss("messages", "no messages", "a request needs one; none is invented")
    elif (
        context.can.messages.needs_message
        or context.can.messages.starts_with_user
        or context.can.messages.system in ("leading", "first")
    ):
        context.receipt.loss("messages", "no message but system text", "the target requires one; a short one was added")
        return (*messages, Message(role="user", content=(Text(text=START),)))
    return messages


def _join_pieces(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Join assistant messages whose text continues in the next one.

    This runs before empty text is removed: a piece may be a single space.
    """
    runs: list[list[Message]] = []
    for message in messages:
        before = runs[-1][-1] if runs else None
        if before is not None and before.role == message.role == "assistant" and _continues(before, message):
            runs[-1].append(message)
        else:
            runs.append([message])
    return tuple(_join_message(run) for run in drain(runs))


def _continues(before: Message, message: Message) -> bool:
    return bool(before.content and message.content) and _pieces_of_one(before.content[-1], message.content[0])


def _join_message(run: list[Message]) -> Message:
    """Join the pieces of one text in a message, because other dialects would put a separator between them."""
    texts: list[list[Block]] = []
    for message in run:
        for block in message.content:
            if texts and _pieces_of_one(texts[-1][-1], block):
                texts[-1].append(block)
            else:
                texts.append([block])
    if len(run) == 1 and len(texts) == len(run[0].content):
        return run[0]
    return replace(run[0], content=tuple(map(_join_texts, texts)))


def _pieces_of_one(before: Block, block: Block) -> bool:
    same = isinstance(block, (Text, Thinking)) and type(before) is type(block)
    return same and _is_piece(before) and _is_piece(block)


def _is_piece(block: Block) -> bool:
    return any(fields.get("$piece") is True for fields in block.native.values())


def _join_texts(pieces: list[Block]) -> Block:
    first = pieces[0]
    if len(pieces) == 1 or not isinstance(first, (Text, Thinking)):
        return first
    blocks = [block for block in pieces if isinstance(block, (Text, Thinking))]
    native = first.native
    for block in blocks[1:]:
        native = merge_native(native, block.native)
    cache = next((block.cache for block in reversed(blocks) if block.cache is not None), None)
    whole = replace(first, text="".join(block.text for block in blocks), cache=cache, native=native)
    if isinstance(whole, Text):
        citations = tuple(citation for block in blocks if isinstance(block, Text) for citation in block.citations)
        return replace(whole, citations=citations)
    return whole


def _without_emptiness(request: Request, context: Context) -> Request:
    """Remove empty and blank text that the target refuses, and messages without other content. Empty instructions are
    removed for every target, because some clients always send one.
    """
    messages: list[Message] = []
    said = any(message.content for message in request.messages)
    is_own = context.source == context.target
    for number, message in enumerate(request.messages):
        if not context.can.messages.empty_text or (message.role in INSTRUCTION_ROLES and not is_own):
            kept = _with_text(message)
        else:
            kept = _without_idle_text(request.messages, number, context)
        # An item that only its own dialect understands leaves nothing behind. A conversation of only such items stays.
        idle = not is_own and (said or message.role == "assistant" or not context.can.messages.empty_text)
        if kept.content or (not message.content and not idle):
            messages.append(kept)
        else:
            context.receipt.note(str(Place(number)), f"{message.role} message without content", NO_CONTENT)
    return with_messages(request, tuple(messages))


def _without_idle_text(messages: Sequence[Message], number: int, context: Context) -> Message:
    """Remove empty assistant text if the same turn has other content. The last frame of a Gemini stream is such a text,
    and Gemini's SDKs send it back. In APIs where a text is a separate item, it would come between the calls and their
    results. For a client of the target's own API, only texts that held another model's state are removed.
    """
    message = messages[number]
    is_idle = _held_state if context.source == context.target else _is_idle
    content = tuple(block for block in message.content if not is_idle(block, context.target))
    if message.role != "assistant" or len(content) == len(message.content):
        return message
    neighbours = (*messages[max(number - 1, 0) : number], *messages[number + 1 : number + 2])
    goes_on = content or any(neighbour.role == "assistant" for neighbour in neighbours)
    return replace(message, content=content) if goes_on else message


def _is_idle(block: Block, target: str) -> bool:
    """Return whether this is an empty text without any data for the target. Notes on the shape do not count."""
    if not isinstance(block, Text) or block.text or block.citations or block.cache is not None:
        return False
    return all(key.startswith("$") for key in native_of(block, target))


def _held_state(block: Block, target: str) -> bool:
    """Return whether this is an empty text that only carried the state of another model."""
    if not isinstance(block, Text) or block.text:
        return False
    return any(not key.startswith("$") for owner, fields in block.native.items() if owner != target for key in fields)


def _with_text(message: Message) -> Message:
    if not _has_blank_text(message):
        return message
    content = _non_empty(message.content)
    fitted = tuple(_result_with_text(block) if isinstance(block, ToolResult) else block for block in content)
    same = len(fitted) == len(message.content) and all(map(is_, fitted, message.content))
    return message if same else replace(message, content=fitted)


def _result_with_text(result: ToolResult) -> ToolResult:
    content = _non_empty(result.content)
    return result if len(content) == len(result.content) else replace(result, content=content)


def _non_empty(content: tuple[Block, ...]) -> tuple[Block, ...]:
    """Return the blocks without empty text. A cache breakpoint on such text moves to the previous text or result."""
    kept: list[Block] = []
    for block in content:
        if not isinstance(block, Text) or block.text.strip():
            kept.append(block)
        elif block.cache is not None and kept:
            kept[-1] = _with_cache(kept[-1], block.cache)
    return tuple(kept) if len(kept) != len(content) else content


def _with_cache(block: Block, cache: Cache) -> Block:
    return replace(block, cache=cache) if isinstance(block, (Text, ToolResult)) and block.cache is None else block


def split_results(messages: Sequence[Message], context: Context) -> list[Message]:
    """Split into one message per result and one for the rest, or put all in the user's turn."""
    split: list[Message] = []
    in_user_turn = context.can.calls.results_role == "user"
    for message in messages:
        role, content = message.role, message.content
        if role == "assistant" or (role == "tool" and not content):
            split.append(message)
        elif type(content[0]) is not ToolResult if len(content) == 1 else ToolResult not in map(type, content):
            split.append(replace(message, role="user") if role == "tool" else message)
        elif in_user_turn:
            split.append(message if role == "user" else replace(message, role="user"))
        elif len(content) == 1:
            split.append(message if role == "tool" else Message(role="tool", content=content))
        else:
            others = tuple([block for block in content if type(block) is not ToolResult])
            split += [Message(role="tool", content=(block,)) for block in content if type(block) is ToolResult]
            if others:
                split.append(replace(message, role="user", content=others))
    return split


def merge_neighbours(request: Request, context: Context) -> Request:
    """Merge adjacent messages of one role, if the target requires it."""
    return with_messages(request, tuple(_merge_roles([*request.messages], context)))


def _merge_roles(messages: list[Message], context: Context) -> list[Message]:
    """Merge adjacent messages of one role, if the target requires it."""
    can = context.can
    merging = _BOTH if can.messages.roles_alternate else _ASSISTANT if can.calls.in_one_message else _NONE
    before = ""
    for message in messages:
        role = message.role
        if (role == before and role in merging) or (role == "user" and len(message.content) > 1):
            break
        before = role
    else:
        return messages
    merged: list[Message] = []
    start, count = 0, len(messages)
    while start < count:
        first = messages[start]
        end = start + 1
        if first.role in merging:
            while end < count and messages[end].role == first.role:
                end += 1
        if end == start + 1 and (first.role != "user" or len(first.content) < 2):
            merged.append(first)
        else:
            merged.append(_merge_turn(messages[start:end], start, context))
        start = end
    return merged


_NONE: frozenset[str] = frozenset()
_ASSISTANT = frozenset({"assistant"})
_BOTH = frozenset({"assistant", "user"})


def _merge_turn(turn: list[Message], number: int, context: Context) -> Message:
    first = turn[0]
    content = first.content if len(turn) == 1 else tuple([block for message in turn for block in message.content])
    if first.role == "user" and ToolResult in map(type, content):
        results = tuple(block for block in content if type(block) is ToolResult)
        others = tuple(block for block in content if type(block) is not ToolResult)
        content = (*results, *others)
    if len(turn) == 1:
        return first if all(map(is_, content, first.content)) else replace(first, content=content)
    own = [native_of(message, context.target) for message in turn]
    if any(fields != own[0] for fields in own):
        context.receipt.note(str(Place(number)), "fields of merged messages", "those of the first message stay")
    return replace(first, content=content)


def _fit_edges(messages: tuple[Message, ...], context: Context) -> tuple[Message, ...]:
    wants_user = context.can.messages.starts_with_user and context.source != context.target
    start = count_leading(messages) if wants_user else len(messages)
    if start < len(messages) and messages[start].role == "assistant":
        where = str(Place(start))
        context.receipt.loss(
            where,
            "a conversation that does not start with the user",
            "the target requires it; a message was added before it",
        )
        messages = (*messages[:start], Message(role="user", content=(Text(text=BEGIN),)), *messages[start:])
    if messages and messages[-1].role == "assistant" and not context.can.messages.prefill:
        why = "the target cannot continue it; a user message asks it to"
        context.receipt.loss(str(Place(len(messages) - 1)), "an assistant message at the end", why)
        messages = (*messages, Message(role="user", content=(Text(text=CONTINUE),)))
    return messages
