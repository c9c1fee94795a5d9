"""The features of a request, as bits that determine which passes it needs.

Most requests need few passes: they have no media, no custom tools, no reasoning of another vendor. `survey` finds all
bits in one walk over the request, and the calls and results on the way. A bit may be set too often (a pass then runs
and changes nothing), never too seldom: `tests/laws/test_triggers.py` proves that a pass whose bits are missing would
have changed nothing. The bits of tools are cached with the tools. The bits are plain integers, because joining two
members of an `IntFlag` costs more than inspecting a block.
"""

from __future__ import annotations

import re
from itertools import count

from toolglot.capabilities import CallIdRules, ReceiptRules
from toolglot.ir import (
    Block,
    Media,
    Native,
    Opaque,
    Refusal,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from toolglot.passes.envelope import PREFIX, is_ours
from toolglot.passes.tool_history import ToolHistory
from toolglot.receipt import UNREAD
from toolglot.tools.declared import DECLARED, Tools
from toolglot.wire.json_schema import is_dated, iterate_schemas, lacks_items
from toolglot.wire.structs import field_reader

_bit = map((1).__lshift__, count())

ANY = next(_bit)
"""Set for every request."""

# Blocks
CALLS = next(_bit)
"""A call or a result."""
THINKING = next(_bit)
MEDIA = next(_bit)
REFUSAL = next(_bit)
OPAQUE = next(_bit)
"""A block that only its own dialect understands."""
OPAQUE_TOOLS = next(_bit)
CITATIONS = next(_bit)
RESULT_ERRORS = next(_bit)
"""A result says that it is an error."""
CUT_CALLS = next(_bit)
"""A call that is not complete."""
CUSTOM = next(_bit)
"""A custom tool, or a call or a result of one."""
BLANK = next(_bit)
"""A text that is empty or has only spaces, or a message without content."""
CACHE_MARKS = next(_bit)
"""A cache breakpoint."""

# Native fields
FOREIGN = next(_bit)
"""A native field that is not a note on the wire's shape, not cosmetic, and not reasoning state."""
FOREIGN_HISTORY = next(_bit)
"""The same on a message or a block."""
OTHERS = next(_bit)
"""A native field of another dialect than the client's."""
NATIVE_CALLS = next(_bit)
"""A call with native fields."""
STATE = next(_bit)
"""A native field that holds reasoning state."""
ENVELOPE = next(_bit)
"""State of another vendor that the client carries."""
PIECES = next(_bit)
"""A text that was split across several messages."""

OTHER_FORMS = next(_bit)
"""Content or a tool that came in the form of another API (`UpstreamRules.other_forms`)."""

# Ids of calls and results
ODD_IDS = next(_bit)
"""Ids that are missing, used twice, or not plain (`takes_plain_ids`). If all are missing and order pairs the results
with their calls (`ToolHistory.is_without_ids`), this is not set."""

# Order of messages
UNPAIRED = next(_bit)
"""Results that are not directly after the assistant's calls, in order, one per call."""
NEIGHBOURS = next(_bit)
"""Adjacent messages that some targets require as one."""
ODD_RESULTS = next(_bit)
"""Results beside other content, or in a message of another role than `tool`; or a `tool` message without results."""
STARTS_ODD = next(_bit)
"""The conversation does not begin with a user message, or is empty."""
ENDS_ODD = next(_bit)
"""The last message is the assistant's."""
LATER_SYSTEM = next(_bit)
"""System text after the beginning of the conversation."""
DEVELOPER = next(_bit)
ODD_ROLE = next(_bit)
SYSTEM_MEDIA = next(_bit)
INLINE = next(_bit)
"""System text at the beginning that was not in the client's own field for it."""

# Tools and settings
TOOLS = next(_bit)
MANY_TOOLS = next(_bit)
"""More than `MANY`."""
DEFERRED = next(_bit)
ODD_SCHEMA = next(_bit)
"""Parameters whose root is not a plain object schema."""
DATED_SCHEMA = next(_bit)
"""Parameters with keywords of older drafts (`json_schema.is_dated`)."""
BARE_ARRAYS = next(_bit)
"""Parameters with arrays without `items`."""
ODD_KEYS = next(_bit)
"""Parameters whose names are unusually long or have unusual characters (`_is_usual_key`)."""
STRICT = next(_bit)
CHOICE = next(_bit)
PARALLEL = next(_bit)
FORMAT = next(_bit)
REASONING = next(_bit)
PROMPT_CACHE = next(_bit)
NO_LIMIT = next(_bit)
"""No output limit."""
LOW_LIMIT = next(_bit)
"""An output limit below `LOW`."""
HOT = next(_bit)
"""A temperature above 1."""
SETTINGS = {
    name: next(_bit)
    for name in (
        "max_output_tokens",
        "temperature",
        "top_p",
        "top_k",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "stop",
        "candidates",
        "logprobs",
        "top_logprobs",
        "verbosity",
        "user",
        "legacy_user",
        "metadata",
        "service_tier",
        "store",
        "moderation",
    )
}
"""One bit for each setting that some targets lack."""

MANY = 64
"""Number of tools that every known target accepts."""
LOW = 64
"""Output limit in tokens that every known target accepts."""

_STATE_OF_BLOCKS = frozenset({"signature", "thoughtSignature", "encrypted_content"})
_STATE_KEYS = _STATE_OF_BLOCKS | {"extra_content", "provider_specific_fields"}
_NO_STATE: frozenset[str] = frozenset()
_INSTRUCTIONS = ("system", "developer")
_KINDS: dict[type[Block], int] = {Media: MEDIA, Thinking: THINKING, Refusal: REFUSAL, Opaque: OPAQUE}
_NOT_AT_THE_ROOT = frozenset({"allOf", "anyOf", "oneOf", "$ref", "not", "enum"})


def survey(request: Request, source: str, rules: ReceiptRules) -> tuple[int, ToolHistory]:
    """Return all bits of a request, and its calls and results. `source` and `rules` are the name and the receipt rules
    of the client's dialect.
    """
    bits, tools = _of_settings(request), request.tools
    if tools:
        bits |= DECLARED.derive(tools, source, rules, _of_tools, tools, source, rules)
    if request.native:
        bits |= _of_native(request.native, source, rules)
    if bits & _WITH_NATIVE:
        for node in (request.tool_choice, request.response_format, request.reasoning):
            if node is not None and node.native:
                bits |= _of_native(node.native, source, rules)
    history = ToolHistory(request.messages)
    bits |= _of_messages(history, source, rules)
    return bits | _of_ids(history, bits) if bits & CALLS else bits, history


def _of_messages(history: ToolHistory, source: str, rules: ReceiptRules) -> int:
    """Return the bits of messages, and add their calls and results to the history."""
    bits, messages = 0, history.messages
    before = ""  # the role of the message before, system text at the beginning aside
    waiting: list[str] = []  # calls of the assistant's turn
    answered = 0
    is_over = False  # something else was said since the calls, so that no result may follow
    for number, message in enumerate(messages):
        role, content = message.role, message.content
        if message.native:
            bits |= _of_node(message.native, source, rules, _STATE_OF_BLOCKS)
        if not content:
            bits |= BLANK
        if role == "assistant":
            if before == "assistant":
                bits |= NEIGHBOURS
            else:
                if answered != len(waiting):
                    bits |= UNPAIRED
                if not before:
                    bits |= STARTS_ODD
                waiting, answered, is_over, before = [], 0, False, role
        else:
            if role == "user" or role == "tool":
                if before == "user" or before == "tool":
                    bits |= NEIGHBOURS
                if role == "tool" and (len(content) != 1 or type(content[0]) is not ToolResult):
                    bits |= ODD_RESULTS
                before = role
            else:
                bits |= _of_role(role, content, before)
                if before or role not in _INSTRUCTIONS:
                    before = role
            is_over = is_over or not content
        for index, block in enumerate(content):
            if type(block) is Text:
                if block.native or block.citations or block.cache is not None:
                    bits |= _of_odd_text(block, source, rules)
                text = block.text
                if not text or text.isspace():
                    bits |= BLANK
            elif type(block) is ToolResult:
                if is_over or answered >= len(waiting) or block.call_id != waiting[answered] or role == "assistant":
                    bits |= UNPAIRED
                if role != "tool":
                    bits |= ODD_RESULTS
                answered += 1
                history.results.append(block)
                history.places.append((number, index))
                bits |= _of_result(block, history, source, rules)
                continue
            elif type(block) is ToolCall:
                history.calls.append(block)
                history.call_places.append((number, index))
                waiting.append(block.id)
                bits |= CALLS if role == "assistant" else CALLS | UNPAIRED
                if block.native or block.kind == "custom" or not block.complete or block.cache is not None:
                    bits |= _of_odd_call(block, source, rules)
            else:
                bits |= _of_rare(block, history, source, rules)
            is_over = is_over or role != "assistant"
    if answered != len(waiting):
        bits |= UNPAIRED
    if not before:
        bits |= STARTS_ODD
    return bits | ENDS_ODD if before == "assistant" and messages[-1].role == "assistant" else bits


def _of_role(role: str, content: tuple[Block, ...], before: str) -> int:
    """Return the bits of a message with a rare role. `before` is the role of the previous message."""
    if role not in _INSTRUCTIONS:
        return ODD_ROLE
    bits = LATER_SYSTEM if before else 0
    if Media in map(type, content):
        bits |= SYSTEM_MEDIA
    return bits | DEVELOPER if role == "developer" else bits


def takes_plain_ids(rules: CallIdRules) -> bool:
    """Return whether the target accepts every id of up to 40 letters, digits, underscores and hyphens."""
    return not rules.form and rules.max_length >= _PLAIN_ID_LENGTH and rules.pattern in (r"[A-Za-z0-9_-]+", r"[!-~]+")


_PLAIN_ID_LENGTH = 40
_are_plain_ids = re.compile(r"(?:[A-Za-z0-9_-]{1,40} )*[A-Za-z0-9_-]{1,40}").fullmatch


def _of_ids(history: ToolHistory, bits: int) -> int:
    is_paired = not bits & UNPAIRED
    used = history.find_ids(is_paired=is_paired)
    if not history.has_own_ids:
        return 0 if is_paired and history.pair_without_ids() else ODD_IDS | UNPAIRED
    joined = " ".join(used)
    is_plain = is_paired and joined.count(" ") == len(used) - 1 and _are_plain_ids(joined)
    return 0 if is_plain else ODD_IDS


def _of_odd_call(call: ToolCall, source: str, rules: ReceiptRules) -> int:
    """Return the features of a call apart from its id, name and arguments."""
    bits = CUSTOM if call.kind == "custom" else 0
    if call.native:
        bits |= NATIVE_CALLS | _of_node(call.native, source, rules, _STATE_KEYS)
    if not call.complete:
        bits |= CUT_CALLS
    return bits | CACHE_MARKS if call.cache is not None else bits


def _of_result(result: ToolResult, history: ToolHistory, source: str, rules: ReceiptRules) -> int:
    bits = CALLS | CUSTOM if result.kind == "custom" else CALLS
    if result.native:
        bits |= _of_node(result.native, source, rules, _STATE_OF_BLOCKS)
    if result.is_error:
        bits |= RESULT_ERRORS
    for part in result.content:
        if type(part) is Text:
            if part.native or part.citations or part.cache is not None:
                bits |= _of_odd_text(part, source, rules)
            if not part.text or part.text.isspace():
                bits |= BLANK
        else:
            bits |= _of_rare(part, history, source, rules)
    return bits | CACHE_MARKS if result.cache is not None else bits


def _of_node(native: Native, source: str, rules: ReceiptRules, state: frozenset[str]) -> int:
    bits = _of_native(native, source, rules, state)
    return bits | FOREIGN_HISTORY if bits & FOREIGN else bits


def _of_odd_text(text: Text, source: str, rules: ReceiptRules) -> int:
    """Return the features of a text block that has more than its text."""
    bits = _of_node(text.native, source, rules, _STATE_OF_BLOCKS) if text.native else 0
    if text.citations:
        bits |= CITATIONS
        for citation in text.citations:
            bits |= _of_node(citation.native, source, rules, _STATE_OF_BLOCKS)
    return bits | CACHE_MARKS if text.cache is not None else bits


def _of_rare(block: Block, history: ToolHistory, source: str, rules: ReceiptRules) -> int:
    kind = type(block)
    bits = _KINDS.get(kind, 0)
    if isinstance(block, Opaque):
        carries = isinstance(block.value, dict) and any(map(is_ours, block.value.values()))
        return bits | ENVELOPE if carries else bits
    if isinstance(block, ToolCall):  # inside of a result
        history.is_flat = False
        bits |= CALLS | NATIVE_CALLS | CUSTOM | CUT_CALLS
    elif isinstance(block, ToolResult):
        history.is_flat = False
        bits |= CALLS | CUSTOM | RESULT_ERRORS
    if block.native:
        state = rules.reasoning_members if kind is Thinking else _STATE_OF_BLOCKS
        bits |= _of_node(block.native, source, rules, state)
    return bits | CACHE_MARKS if getattr(block, "cache", None) is not None else bits


def _of_native(native: Native, source: str, rules: ReceiptRules, state: frozenset[str] = _NO_STATE) -> int:
    """`state`: keys of reasoning state, which `reasoning.settle` reports."""
    bits = 0
    for owner, fields in native.items():
        if owner != source:
            bits |= OTHERS
        for key, value in fields.items():
            if type(value) is str and value.startswith(PREFIX):
                bits |= ENVELOPE
            if key[:1] == "$":
                bits |= _NOTES.get(key, 0)
                if key in rules.containers:
                    bits |= FOREIGN
            else:
                if key in _STATE_KEYS:
                    bits |= STATE
                if key not in rules.cosmetic and key not in state:
                    bits |= FOREIGN
    return bits


_NOTES = {
    "$piece": PIECES,
    "$inline": INLINE,
    UNREAD: FOREIGN,
    **dict.fromkeys(("$tool_use", "$tool_result", "$source", "$input_schema", "$flat", "$other_choice"), OTHER_FORMS),
}


def _of_tools(tools: Tools, source: str, rules: ReceiptRules) -> int:
    bits = MANY_TOOLS if len(tools) > MANY else 0
    for tool in tools:
        bits |= TOOLS
        if tool.native:
            bits |= _of_native(tool.native, source, rules)
        if type(tool) is not Tool:
            bits |= OPAQUE_TOOLS
            continue
        if tool.kind == "custom":
            bits |= CUSTOM
        else:
            bits |= _of_schema(tool.parameters)
        if tool.strict:
            bits |= STRICT
        if tool.deferred:
            bits |= DEFERRED
        if tool.cache is not None:
            bits |= CACHE_MARKS
    return bits


def _of_schema(schema: object) -> int:
    bits = 0 if is_object_schema(schema) else ODD_SCHEMA
    for node in iterate_schemas(schema):
        if is_dated(node):
            bits |= DATED_SCHEMA
        if lacks_items(node):
            bits |= BARE_ARRAYS
        # A pass may move the properties of an inner schema to the root.
        if type(names := node.get("properties")) is dict and not all(map(_is_usual_key, names)):
            bits |= ODD_KEYS
    return bits


_is_usual_key = re.compile(r"[A-Za-z0-9_.-]{1,64}").fullmatch


def is_object_schema(schema: object) -> bool:
    """Return whether the root of this schema is a plain object, as nearly every wire requires of parameters."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return False
    return isinstance(schema.get("properties"), dict) and _NOT_AT_THE_ROOT.isdisjoint(schema)


_OF_SETTINGS = {
    "tool_choice": CHOICE,
    "parallel_tool_calls": PARALLEL,
    "response_format": FORMAT,
    "reasoning": REASONING,
    "cache": CACHE_MARKS,
    "prompt_cache": PROMPT_CACHE,
    **{name: bit for name, bit in SETTINGS.items() if name not in ("stop", "max_output_tokens")},
}
"""Settings that are None unless the client sets them."""
_settings_of = field_reader(*_OF_SETTINGS)
_WITH_NATIVE = CHOICE | FORMAT | REASONING
_LIMIT = ANY | SETTINGS["max_output_tokens"]


def _of_settings(request: Request) -> int:
    limit, temperature = request.max_output_tokens, request.temperature
    bits = ANY | NO_LIMIT if limit is None else _LIMIT if limit >= LOW else _LIMIT | LOW_LIMIT
    if temperature is not None and temperature > 1:
        bits |= HOT
    if request.stop:
        bits |= SETTINGS["stop"]
    for name, _ in _settings_of(request):
        bits |= _OF_SETTINGS[name]
    return bits
