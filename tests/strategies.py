"""Hypothesis strategies for the IR: conversations, responses and streams of events, legal and awkward."""

from __future__ import annotations

import itertools
import json
from typing import Any, Literal

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from toolglot.events import Close, Delta, Event, Open, Start, unfold
from toolglot.ir import (
    Block,
    Cache,
    Citation,
    Media,
    Message,
    Opaque,
    Reasoning,
    Refusal,
    Request,
    Response,
    ResponseFormat,
    Source,
    Stop,
    StopReason,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
)

# Letters that have bitten somebody: quotes and escapes, line ends that are not LF, CJK, emoji outside the BMP.
LETTERS = 'abcXYZ019 .,"\\/{}[]:\n\r\t\u2028é日本語🌍\x7f'
words = st.text(LETTERS, min_size=1, max_size=12).filter(lambda text: bool(text.strip()))
texts = st.one_of(words, st.lists(words, min_size=2, max_size=4).map(" ".join))

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(-1e9, 1e9, allow_nan=False), words
)
json_values: SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
json_objects: SearchStrategy[dict[str, Any]] = st.dictionaries(words, json_values, max_size=3)

legal_names = st.sampled_from(["get_weather", "get_time", "mcp__server__read", "Bash", "_private", "tool-2"])
awkward_names = st.sampled_from(
    ["files.read", "日本語", "1st", "a" * 100, "a" * 99 + "b", "a" * 130 + "c", "with space", "get_weather!", "x"]
)
names = legal_names | awkward_names
legal_ids = st.integers(1, 10**6).map(lambda number: f"call_{number}")
awkward_ids = st.sampled_from(["", "functions.Bash:0", "call_0", "i" * 100, "i" * 99 + "j", "ид", "a|b", "call 1"])
ids = legal_ids | awkward_ids

_separators = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")])


@st.composite
def arguments(draw: st.DrawFn) -> str:
    """JSON text of an object, written in one of the ways that models write it; sometimes nothing at all."""
    value = draw(json_objects)
    if not value and draw(st.booleans()):
        return ""
    return json.dumps(value, ensure_ascii=draw(st.booleans()), separators=draw(_separators))


broken_arguments = st.sampled_from(['{"city": "Par', "[1, 2]", "null", '"text"', "{'city': 1}", "not json", "{} {}"])

caches = st.sampled_from([Cache(), Cache(300), Cache(3600)])
maybe_cache = st.none() | caches
sources = st.sampled_from(
    [
        Source("base64", "aGVsbG8=", "image/png"),
        Source("base64", "/9j/4AAQ", "image/jpeg"),
        Source("url", "https://example.com/a.png"),
        Source("file", "file-123"),
    ]
)
images = st.builds(Media, kind=st.just("image"), source=sources, detail=st.sampled_from([None, "low"]))
documents = st.builds(
    Media,
    kind=st.just("document"),
    source=st.sampled_from(
        [
            Source("base64", "JVBERi0=", "application/pdf"),
            Source("text", "plain text", "text/plain"),
            Source("url", "https://example.com/a.pdf", "application/pdf"),
        ]
    ),
    name=st.sampled_from([None, "a.pdf"]),
)
audios = st.just(Media(kind="audio", source=Source("base64", "UklGRg==", "audio/wav")))
media = st.one_of(images, documents, audios)

# Reasoning state as each of its owners writes it; a signature of one is worthless to another.
OWNED_THINKING: tuple[Thinking, ...] = (
    Thinking(text="unsigned"),
    Thinking(text="signed", native={"anthropic": {"signature": "c2lnQQ=="}}),
    Thinking(text="", native={"anthropic": {"data": "cmVkYWN0ZWQ="}}),
    Thinking(text="summary", native={"openai_responses": {"id": "rs_1", "encrypted_content": "ZW5jcnlwdGVk"}}),
    Thinking(text="thought", native={"gemini": {"thoughtSignature": "Z2VtaW5p"}}),
    Thinking(text="reasoned", native={"openai_chat": {"$field": "reasoning_content"}}),
)
thinking = st.sampled_from(OWNED_THINKING)
citations = st.builds(
    Citation, url=st.just("https://example.com"), title=st.none() | words, start=st.just(0), end=st.just(1)
)
plain_text = st.builds(Text, text=texts)
opaque_blocks = st.sampled_from(
    [
        Opaque("anthropic", {"type": "container_upload", "file_id": "f"}),
        Opaque("openai_chat", {"type": "novel", "novel": 1}),
        Opaque("openai_responses", {"type": "compaction", "encrypted_content": "x"}),
        Opaque("gemini", {"executableCode": {"language": "PYTHON", "code": "1"}}),
    ]
)

SCHEMAS: tuple[Any, ...] = (
    None,
    {},
    {"type": "object"},
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False},
    {"type": "object", "properties": {"type": {"type": "string"}, "$ref": {"type": "integer"}, "properties": {}}},
    {
        "type": "object",
        "properties": {"node": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
    },
    {"type": "object", "properties": {"a": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "b": {"const": "x"}}},
    {"type": "object", "properties": {"n": {"type": ["string", "null"]}, "e": {"enum": [1, 2, True]}}},
    {"anyOf": [{"type": "object"}, {"type": "object", "properties": {"a": {"type": "array"}}}]},
)
schemas = st.sampled_from(SCHEMAS)


@st.composite
def tools(draw: st.DrawFn, name: SearchStrategy[str] = names, custom: bool = True) -> Tool:
    kind = draw(st.sampled_from(["function", "function", "custom"])) if custom else "function"
    return Tool(
        name=draw(name),
        description=draw(st.none() | texts),
        parameters=draw(schemas) if kind == "function" else None,
        kind="custom" if kind == "custom" else "function",
        format={"type": "text"} if kind == "custom" and draw(st.booleans()) else None,
        strict=draw(st.sampled_from([None, False])) if kind == "function" else None,
        namespace=draw(st.sampled_from([None, None, None, "mcp__files"])) if custom else None,
    )


def tool_lists(name: SearchStrategy[str] = names, custom: bool = True) -> SearchStrategy[tuple[Tool, ...]]:
    return st.lists(
        tools(name, custom), min_size=1, max_size=4, unique_by=lambda tool: (tool.namespace, tool.name)
    ).map(tuple)


@st.composite
def results_of(draw: st.DrawFn, call: ToolCall) -> ToolResult:
    content: tuple[Block, ...] = tuple(draw(st.lists(plain_text | images, max_size=2)))
    return ToolResult(
        call_id=call.id,
        name=draw(st.sampled_from([None, call.name])),
        kind=call.kind,
        content=content,
        is_error=draw(st.sampled_from([None, False, True])),
    )


@st.composite
def tool_turns(
    draw: st.DrawFn, offered: tuple[Tool, ...], call_ids: SearchStrategy[str], turn: int
) -> tuple[Message, ...]:
    """An assistant turn with one or more calls and the messages that answer them."""
    calls = []
    for number, tool in enumerate(draw(st.lists(st.sampled_from(offered), min_size=1, max_size=3))):
        call_id = draw(call_ids)
        # Ids of different turns and calls differ, unless the strategy means them to be awkward.
        call_id = f"{call_id}_{turn}_{number}" if call_id.startswith("call_") and call_id != "call_0" else call_id
        text = draw(texts) if tool.kind == "custom" else draw(arguments())
        calls.append(ToolCall(id=call_id, name=tool.name, namespace=tool.namespace, kind=tool.kind, arguments=text))
    before: list[Block] = draw(st.lists(plain_text, max_size=1))
    results = tuple(draw(results_of(call)) for call in calls)
    spoken = Message(role="assistant", content=(*before, *calls))
    if draw(st.booleans()):
        return (spoken, Message(role="user", content=results))
    return (spoken, *(Message(role="tool", content=(result,)) for result in results))


@st.composite
def conversations(
    draw: st.DrawFn, offered: tuple[Tool, ...], call_ids: SearchStrategy[str] = legal_ids
) -> tuple[Message, ...]:
    """A well-formed conversation of several turns that ends where the model is to speak."""
    messages: list[Message] = []
    if draw(st.booleans()):
        messages.append(Message(role=draw(st.sampled_from(["system", "developer"])), content=(draw(plain_text),)))
    messages.append(Message(role="user", content=(draw(plain_text), *draw(st.lists(images, max_size=1)))))
    for turn in range(draw(st.integers(0, 3))):
        uses_tools = bool(offered) and draw(st.sampled_from([True, True, True, False]))
        if uses_tools:
            messages += draw(tool_turns(offered, call_ids, turn))
        else:
            messages.append(Message(role="assistant", content=(draw(plain_text),)))
            messages.append(Message(role="user", content=(draw(plain_text),)))
    return tuple(messages)


awkward_messages = st.one_of(
    st.builds(Message, role=st.just("system"), content=st.tuples(plain_text)),
    st.builds(Message, role=st.just("developer"), content=st.tuples(plain_text)),
    st.builds(Message, role=st.just("critic"), content=st.tuples(plain_text)),
    st.builds(Message, role=st.just("user"), content=st.lists(plain_text | media, max_size=3).map(tuple)),
    st.builds(Message, role=st.just("assistant"), content=st.lists(plain_text | thinking, max_size=3).map(tuple)),
    st.builds(
        Message,
        role=st.sampled_from(["assistant", "user"]),
        content=st.lists(st.builds(Refusal, text=texts) | opaque_blocks | plain_text, max_size=2).map(tuple),
    ),
    st.builds(
        Message,
        role=st.just("assistant"),
        content=st.lists(
            st.builds(ToolCall, id=ids, name=names, arguments=arguments() | broken_arguments), max_size=3
        ).map(tuple),
    ),
    st.builds(
        Message,
        role=st.sampled_from(["tool", "user"]),
        content=st.lists(
            st.builds(
                ToolResult,
                call_id=ids,
                name=st.none() | names,
                content=st.lists(plain_text | media, max_size=2).map(tuple),
                is_error=st.sampled_from([None, True]),
            ),
            max_size=3,
        ).map(tuple),
    ),
)


@st.composite
def tool_choices(draw: st.DrawFn, offered: tuple[Tool, ...]) -> ToolChoice:
    modes: tuple[Literal["auto", "none", "required"], ...] = ("auto", "none", "required")
    mode = draw(st.sampled_from(modes))
    few = draw(st.lists(st.sampled_from([tool.name for tool in offered]), max_size=2, unique=True))
    return ToolChoice(mode=mode, names=tuple(few) if mode != "none" else ())


response_formats = st.one_of(
    st.just(ResponseFormat(kind="text")),
    st.just(ResponseFormat(kind="json")),
    st.builds(
        ResponseFormat,
        kind=st.just("json_schema"),
        name=st.just("answer"),
        schema=st.just(SCHEMAS[3]),
        strict=st.none() | st.booleans(),
    ),
)
reasonings = st.builds(
    Reasoning,
    mode=st.sampled_from([None, "on", "off", "auto"]),
    effort=st.sampled_from([None, "none", "minimal", "low", "high", "xhigh", "max"]),
    budget_tokens=st.none() | st.integers(1024, 32000),
    show=st.none() | st.booleans(),
)
MODELS = ("gpt-5", "claude-opus-4-6", "gemini-3-pro", "mistral-large", "claude-opus-5-5", "deepseek-chat")
settings_of_a_request: dict[str, SearchStrategy[Any]] = {
    "parallel_tool_calls": st.none() | st.booleans(),
    "max_output_tokens": st.none() | st.integers(1, 100_000),
    "temperature": st.none() | st.floats(0, 2),
    "top_p": st.none() | st.floats(0, 1),
    "top_k": st.none() | st.integers(1, 100),
    "seed": st.none() | st.integers(0, 2**31),
    "presence_penalty": st.none() | st.floats(-2, 2),
    "frequency_penalty": st.none() | st.floats(-2, 2),
    "stop": st.lists(words, max_size=6).map(tuple),
    "candidates": st.none() | st.integers(1, 4),
    "response_format": st.none() | response_formats,
    "reasoning": st.none() | reasonings,
    "verbosity": st.sampled_from([None, "low", "high"]),
    "user": st.none() | words,
    "metadata": st.none() | st.dictionaries(words, words, max_size=2),
    "service_tier": st.sampled_from([None, "auto", "priority"]),
    "cache": maybe_cache,
    "stream": st.booleans(),
}


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Any request: conversations with anything in them, settings of every kind."""
    offered = draw(st.just(()) | tool_lists())
    messages = list(draw(conversations(offered, ids)))
    for message in draw(st.lists(awkward_messages, max_size=3)):
        messages.insert(draw(st.integers(0, len(messages))), message)
    few = draw(st.lists(st.sampled_from(sorted(settings_of_a_request)), max_size=5, unique=True))
    return Request(
        model=draw(st.sampled_from(MODELS)),
        messages=tuple(messages),
        tools=offered,
        tool_choice=draw(st.none() | tool_choices(offered)) if offered else None,
        **{name: draw(settings_of_a_request[name]) for name in few},
    )


@st.composite
def tool_requests(
    draw: st.DrawFn, name: SearchStrategy[str] = legal_names, call_ids: SearchStrategy[str] = legal_ids
) -> Request:
    """A well-formed request with function tools and a conversation that uses them."""
    offered = draw(tool_lists(name, custom=False))
    return Request(model="gpt-5", tools=offered, messages=draw(conversations(offered, call_ids)), max_output_tokens=999)


usages = st.builds(
    lambda fresh, cached, written, answer, reasoned: Usage(
        input_tokens=fresh + cached + written,
        cached_tokens=cached,
        cache_write_tokens=written,
        output_tokens=answer + reasoned,
        reasoning_tokens=reasoned,
    ),
    *[st.integers(0, 1000)] * 5,
)


@st.composite
def responses(draw: st.DrawFn, name: SearchStrategy[str] = legal_names) -> Response:
    """A response in the order that every wire can tell: thinking, text, refusal, calls."""
    calls = [
        ToolCall(id=f"call_{number}", name=draw(name), arguments=draw(arguments()))
        for number in range(draw(st.integers(0, 3)))
    ]
    content: tuple[Block, ...] = (
        *draw(st.lists(st.builds(Thinking, text=texts), max_size=1)),
        *draw(st.lists(plain_text, max_size=1)),
        *calls,
    )
    ends: list[StopReason] = ["tool_calls", "length"] if calls else ["end", "length", "filtered", "stop_sequence"]
    return Response(
        id="resp_1",
        model="some-model",
        created=1_700_000_000,
        content=content,
        stop=Stop(draw(st.sampled_from(ends))),
        usage=draw(st.none() | usages),
    )


@st.composite
def event_streams(draw: st.DrawFn) -> list[Event]:
    """A grammatical stream: text cut into pieces, and blocks that may be open at the same time."""
    response = draw(responses(names))
    events = [piece for event in unfold(response) for piece in _pieces(draw, event)]
    if not draw(st.booleans()):
        return events
    return _interleaved(draw, events)


def _pieces(draw: st.DrawFn, event: Event) -> list[Event]:
    if not isinstance(event, Delta):
        return [event]
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(event.text) - 1)), max_size=3)))
    bounds = [0, *(cut for cut in cuts if cut < len(event.text)), len(event.text)]
    return [Delta(event.index, event.text[low:high]) for low, high in itertools.pairwise(bounds)]


def _interleaved(draw: st.DrawFn, events: list[Event]) -> list[Event]:
    """The same blocks, their inner events shuffled into one another; the order of Open stays."""
    queues: dict[int, list[Event]] = {}
    for event in events:
        if isinstance(event, Open | Delta | Close):
            queues.setdefault(event.index, []).append(event)
    mixed: list[Event] = []
    opened = -1
    while any(queues.values()):
        ready = [index for index, queue in queues.items() if queue and index <= opened + 1]
        index = draw(st.sampled_from(ready))
        opened = max(opened, index)
        mixed.append(queues[index].pop(0))
    return [next(event for event in events if isinstance(event, Start)), *mixed, events[-1]]
