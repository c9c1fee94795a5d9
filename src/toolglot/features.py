"""What a request contains, as bits that decide which passes it needs.

Most requests need few passes: they have no media, no custom tools, no reasoning of another vendor. `survey` finds all
bits in one walk over the request. A bit may be set too often (a pass then runs and changes nothing), never too seldom:
`tests/laws/test_triggers.py` proves that a pass whose bits are missing would have changed nothing.

The bits are plain integers: to join two members of an `IntFlag` costs more than to look at a block.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from toolglot.dialect import Capabilities
from toolglot.ir import (
    Block,
    Media,
    Message,
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
from toolglot.passes.envelope import is_ours
from toolglot.receipt import UNREAD

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
"""A block or a tool that only its own dialect understands."""
CITATIONS = next(_bit)
RESULT_ERRORS = next(_bit)
"""A result says whether it is an error."""
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
"""A native field that is more than a note on the shape of the wire and is not cosmetic."""
OTHERS = next(_bit)
"""A native field of another dialect than the client's."""
NATIVE_CALLS = next(_bit)
"""A call with native fields."""
STATE = next(_bit)
"""A native field that holds reasoning state."""
ENVELOPE = next(_bit)
"""State of another vendor that the client carries."""
PIECES = next(_bit)
"""A text that came in several messages."""

# How messages follow each other
UNPAIRED = next(_bit)
"""Results that do not stand right behind their calls, in order, each call with one."""
NEIGHBOURS = next(_bit)
"""Messages side by side that some targets want as one."""
ODD_RESULTS = next(_bit)
"""Results beside other content, or in a message of another role than `tool`; or a `tool` message without results."""
STARTS_ODD = next(_bit)
"""The conversation does not begin with a user's message, or there is none."""
ENDS_ODD = next(_bit)
"""The last message is the assistant's."""
LATER_SYSTEM = next(_bit)
"""System text behind the beginning of the conversation."""
DEVELOPER = next(_bit)
ODD_ROLE = next(_bit)
SYSTEM_MEDIA = next(_bit)

# Tools and settings
TOOLS = next(_bit)
DEFERRED = next(_bit)
ODD_SCHEMA = next(_bit)
"""Parameters whose root is not a plain object schema."""
STRICT = next(_bit)
CHOICE = next(_bit)
PARALLEL = next(_bit)
FORMAT = next(_bit)
REASONING = next(_bit)
PROMPT_CACHE = next(_bit)
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
        "metadata",
        "service_tier",
        "store",
    )
}
"""A bit for each setting that a target either has or has not."""

_STATE_KEYS = frozenset({"signature", "thoughtSignature", "encrypted_content", "extra_content"})
_INSTRUCTIONS = ("system", "developer")
_KINDS: dict[type[Block], int] = {Media: MEDIA, Thinking: THINKING, Refusal: REFUSAL, Opaque: OPAQUE}
_NOT_AT_THE_ROOT = frozenset({"allOf", "anyOf", "oneOf", "$ref", "not", "enum"})


def survey(request: Request, source: str, can: Capabilities) -> int:
    """All bits of a request. `source` and `can` are the name and the capabilities of the client's dialect."""
    bits = _of_settings(request) | _of_tools(request.tools) | _of_order(request.messages)
    if request.native:
        bits |= _of_native(request.native, source, can)
    for tool in request.tools:
        if tool.native:
            bits |= _of_native(tool.native, source, can)
    for message in request.messages:
        if message.native:
            bits |= _of_native(message.native, source, can)
        for block in message.content:
            bits |= _of_block(block, source, can)
            if type(block) is ToolResult:
                for part in block.content:
                    bits |= _of_block(part, source, can)
    for node in (request.tool_choice, request.response_format, request.reasoning):
        if node is not None and node.native:
            bits |= _of_native(node.native, source, can)
    return bits


def _of_block(block: Block, source: str, can: Capabilities) -> int:
    bits = _KINDS.get(type(block), 0)
    if type(block) is Opaque:
        carries = isinstance(block.value, dict) and any(map(is_ours, block.value.values()))
        return bits | ENVELOPE if carries else bits
    if block.native:
        bits |= _of_native(block.native, source, can)
        if type(block) is ToolCall:
            bits |= NATIVE_CALLS
    if type(block) is Text:
        if not block.text or block.text.isspace():
            bits |= BLANK
        if block.citations:
            bits |= CITATIONS
            for citation in block.citations:
                bits |= _of_native(citation.native, source, can)
    elif type(block) is ToolCall:
        bits |= CALLS | CUSTOM if block.kind == "custom" else CALLS
        if not block.complete:
            bits |= CUT_CALLS
    elif type(block) is ToolResult:
        bits |= CALLS | CUSTOM if block.kind == "custom" else CALLS
        if block.is_error is not None:
            bits |= RESULT_ERRORS
    return bits | CACHE_MARKS if getattr(block, "cache", None) is not None else bits


def _of_native(native: Native, source: str, can: Capabilities) -> int:
    bits = 0
    for owner, fields in native.items():
        if owner != source:
            bits |= OTHERS
        for key, value in fields.items():
            if is_ours(value):
                bits |= ENVELOPE
            if key[:1] == "$":
                if key == "$piece":
                    bits |= PIECES
                elif key == UNREAD or key in can.containers:
                    bits |= FOREIGN
            else:
                if key in _STATE_KEYS:
                    bits |= STATE
                if key not in can.cosmetic:
                    bits |= FOREIGN
    return bits


def _of_order(messages: tuple[Message, ...]) -> int:
    """The bits that depend on how messages follow each other."""
    bits = 0
    before = ""  # the role of the message before, system text at the beginning aside
    calls: list[str] = []  # of the assistant's turn
    answered = 0
    is_over = False  # something else was said since the calls, so that no result may follow
    for message in messages:
        role, content = message.role, message.content
        if not content:
            bits |= BLANK
        if role == "assistant":
            if before == "assistant":
                bits |= NEIGHBOURS
            elif answered != len(calls):
                bits |= UNPAIRED
            if before != "assistant":
                if len(set(calls)) != len(calls):
                    bits |= UNPAIRED
                calls, answered, is_over = [], 0, False
            if not before:
                bits |= STARTS_ODD
            calls += [block.id for block in content if type(block) is ToolCall]
            if ToolResult in map(type, content):
                bits |= ODD_RESULTS
            before = role
            continue
        results = 0
        for block in content:
            if type(block) is not ToolResult:
                is_over = True
            else:
                results += 1
                if is_over or answered >= len(calls) or block.call_id != calls[answered]:
                    bits |= UNPAIRED
                answered += 1
        is_over = is_over or not content
        if role == "user" or role == "tool":
            if results if role == "user" else results != 1 or len(content) != 1:
                bits |= ODD_RESULTS
            if before == "user" or before == "tool":
                bits |= NEIGHBOURS
            before = role
        elif role in _INSTRUCTIONS:
            bits |= _of_instruction(message)
            if before:
                bits |= LATER_SYSTEM
                before = role
        else:
            bits |= ODD_ROLE
            before = role
    if answered != len(calls) or len(set(calls)) != len(calls):
        bits |= UNPAIRED
    if not before:
        bits |= STARTS_ODD
    return bits | ENDS_ODD if messages and messages[-1].role == "assistant" else bits


def _of_instruction(message: Message) -> int:
    bits = DEVELOPER if message.role == "developer" else 0
    if ToolResult in map(type, message.content):
        bits |= ODD_RESULTS
    return bits | SYSTEM_MEDIA if Media in map(type, message.content) else bits


def _of_tools(tools: Iterable[Tool | Opaque]) -> int:
    bits = 0
    for tool in tools:
        bits |= TOOLS
        if type(tool) is not Tool:
            bits |= OPAQUE
            continue
        if tool.kind == "custom":
            bits |= CUSTOM
        elif not is_object_schema(tool.parameters):
            bits |= ODD_SCHEMA
        if tool.strict:
            bits |= STRICT
        if tool.deferred:
            bits |= DEFERRED
        if tool.cache is not None:
            bits |= CACHE_MARKS
    return bits


def is_object_schema(schema: object) -> bool:
    """Is this a schema whose root is a plain object, as nearly every wire demands of parameters?"""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return False
    return isinstance(schema.get("properties"), dict) and _NOT_AT_THE_ROOT.isdisjoint(schema)


_RARE = (
    ("tool_choice", CHOICE),
    ("parallel_tool_calls", PARALLEL),
    ("response_format", FORMAT),
    ("reasoning", REASONING),
    ("cache", CACHE_MARKS),
    ("prompt_cache", PROMPT_CACHE),
)


def _of_settings(request: Request) -> int:
    bits = ANY
    for name, bit in _RARE:
        if getattr(request, name) is not None:
            bits |= bit
    for name, bit in SETTINGS.items():
        value = getattr(request, name)
        if value is not None and value != ():
            bits |= bit
    return bits
