"""Requests and responses that no dialect made: one of everything, for encoders and passes."""

from __future__ import annotations

from typing import Any

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
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
)

SOURCES = (
    Source("base64", "aGk=", "image/png"),
    Source("base64", "aGk="),
    Source("url", "https://example.com/x"),
    Source("file", "file_1"),
    Source("text", "hi"),
)
ELSEWHERE = Opaque("elsewhere", {"type": "novel"})
CITATIONS = (
    Citation(url="https://example.com", title="T", quote="q", start=1, end=3),
    Citation(url="https://example.com"),
    Citation(title="T"),
    Citation(url="https://example.com", start=2),
    Citation(url="https://example.com", end=2),
)
CALLS: tuple[Block, ...] = (
    ToolCall(id="c1", name="f", arguments='{"a":1}'),
    ToolCall(id="c2", name="f"),
    ToolCall(id="c3", name="f", arguments="[1]"),
    ToolCall(id="c4", name="f", arguments='{"a', complete=False),
    ToolCall(id="c5", name="g", arguments="free", kind="custom"),
    ToolCall(id="c6", name="f", arguments="{}", namespace="n", cache=Cache(300)),
    ToolCall(id="", name="f", arguments="{}"),
)
SAID: tuple[Block, ...] = (
    Text(text="one"),
    Text(text="two", citations=CITATIONS, cache=Cache(3600)),
    Thinking(text="hm", cache=Cache()),
    Thinking(),
    Refusal(text="no"),
    ELSEWHERE,
)
RESULTS: tuple[Block, ...] = (
    ToolResult(call_id="c1", content=(Text(text="fine"),), name="f"),
    ToolResult(call_id="c2", is_error=True, content=(Text(text="bad"),), cache=Cache(300)),
    ToolResult(call_id="c3", is_error=False),
    ToolResult(call_id="c4", content=(Text(text="a"), Media(kind="image", source=SOURCES[0]), ELSEWHERE, SAID[2])),
    ToolResult(call_id="c5", kind="custom", content=(Text(text='{"output": 1}'),)),
    ToolResult(call_id="c6", content=(Text(text='{"a": {"$ref": "x"}}'),)),
    ToolResult(call_id="gone", content=(Text(text='{"a": 1}'),)),
)
SCHEMA: Any = {"type": "object", "properties": {"a": {"type": "string", "format": "uri"}}, "required": ["a"]}
TOOLS: tuple[Tool | Opaque, ...] = (
    Tool(name="f", description="F", parameters=SCHEMA, strict=True, cache=Cache(300)),
    Tool(name="bare"),
    Tool(name="g", kind="custom", format={"type": "grammar", "syntax": "lark", "definition": "x"}, description="G"),
    Tool(name="f", namespace="n", parameters=SCHEMA, deferred=True, strict=False),
    ELSEWHERE,
)


def user(*blocks: Block, role: str = "user") -> Message:
    return Message(role=role, content=blocks)


def asked(*messages: Message, **fields: Any) -> Request:
    return Request(model=fields.pop("model", "some-model"), messages=messages, **fields)


MEDIA = {
    f"{kind} by {source.kind} {source.media_type or ''}".strip(): Media(
        kind=kind, source=source, name="n", detail="low"
    )
    for kind in ("image", "document", "audio", "video")
    for source in SOURCES
}
HELLO = user(Text(text="Hello"))
REQUESTS: dict[str, Request] = {
    "nothing": asked(),
    "roles": asked(
        *(user(Text(text=role), role=role) for role in ("system", "developer", "user", "assistant", "novel"))
    ),
    "later system text": asked(HELLO, user(Text(text="S"), role="system"), user(Text(text="D"), role="developer")),
    "system with media": asked(user(*SAID, MEDIA["image by url"], role="system"), HELLO),
    "several system messages": asked(
        user(Text(text="a"), ELSEWHERE, role="system"),
        Message(role="system", content=(Text(text="b"),), native={"anthropic": {"novel": 1}}),
        HELLO,
    ),
    "user": asked(user(*SAID)),
    "assistant": asked(HELLO, user(*SAID, *CALLS, role="assistant")),
    "text behind a call": asked(HELLO, user(CALLS[0], Text(text="so"), role="assistant")),
    "results": asked(
        HELLO, user(*CALLS, role="assistant"), user(*RESULTS, role="tool"), user(RESULTS[0], Text(text="x"))
    ),
    "empty messages": asked(*(Message(role=role) for role in ("system", "user", "assistant", "tool"))),
    **{f"media: {name}": asked(user(media)) for name, media in MEDIA.items()},
    "media of no detail": asked(
        user(*(Media(kind="image", source=SOURCES[2], detail=detail) for detail in ("auto", None)))
    ),
    "media of an assistant": asked(HELLO, user(MEDIA["image by base64 image/png"], role="assistant")),
    "tools": asked(HELLO, tools=TOOLS),
    **{
        f"choice: {choice.mode} {' '.join(choice.names)}".strip(): asked(HELLO, tools=TOOLS[:3], tool_choice=choice)
        for choice in (
            *(ToolChoice(mode=mode) for mode in ("auto", "none", "required", "opaque")),
            *(ToolChoice(mode="required", names=names) for names in (("f",), ("g",), ("f", "g"))),
            ToolChoice(mode="auto", names=("f", "g")),
        )
    },
    **{
        f"parallel {parallel}, {choice.mode if choice else 'no'} choice": asked(
            HELLO, tools=TOOLS[:1], tool_choice=choice, parallel_tool_calls=parallel
        )
        for parallel in (True, False)
        for choice in (None, ToolChoice(mode="auto"), ToolChoice(mode="none"), ToolChoice(mode="required"))
    },
    "settings": asked(
        HELLO,
        max_output_tokens=100,
        temperature=0.5,
        top_p=0.25,
        top_k=5,
        seed=7,
        presence_penalty=0.5,
        frequency_penalty=0.75,
        stop=("x", "y"),
        candidates=2,
        verbosity="low",
        user="u" * 65,
        metadata={"a": "b", "B C": "d", "user_id": "x"},
        service_tier="flex",
        cache=Cache(300),
        stream=True,
    ),
    **{
        f"tier {tier}": asked(HELLO, service_tier=tier)
        for tier in ("auto", "default", "standard_only", "priority", "novel")
    },
    **{
        f"reasoning {number}": asked(HELLO, reasoning=wanted, max_output_tokens=4000, temperature=0.5, top_p=top_p)
        for number, (wanted, top_p) in enumerate(
            [
                (Reasoning(mode="on"), 0.9),
                (Reasoning(mode="off"), 0.96),
                (Reasoning(mode="auto", show=True), 0.95),
                (Reasoning(effort="none"), None),
                (Reasoning(effort="minimal"), 1),
                (Reasoning(effort="high", show=False), 0.94),
                (Reasoning(effort="novel"), None),
                (Reasoning(mode="on", budget_tokens=100), None),
                (Reasoning(mode="on", budget_tokens=5000, effort="low"), None),
                (Reasoning(show=True), None),
                (Reasoning(show=False), None),
                (Reasoning(), None),
            ]
        )
    },
    **{
        f"reasoning of {model}, {wanted.effort} {wanted.show}": asked(HELLO, model=model, reasoning=wanted)
        for model in ("claude-sonnet-4-5", "claude-opus-4-5", "claude-opus-4-8", "gpt-5.5")
        for wanted in (Reasoning(effort="high", show=False), Reasoning(show=True))
    },
    **{
        f"format {wanted.kind} {wanted.strict}": asked(HELLO, response_format=wanted)
        for wanted in (
            ResponseFormat(kind="text"),
            ResponseFormat(kind="json"),
            ResponseFormat(kind="json_schema", schema=SCHEMA, name="n", description="d", strict=True),
            ResponseFormat(kind="json_schema", schema=SCHEMA, strict=False),
            ResponseFormat(kind="json_schema", schema=SCHEMA),
        )
    },
    "format with a choice of tools": asked(
        HELLO, reasoning=Reasoning(show=True), tools=TOOLS[:1], tool_choice=ToolChoice(mode="required")
    ),
}
IMAGE = Media(kind="image", source=SOURCES[0])
RESPONSES: dict[str, Response] = {
    "nothing": Response(),
    "said": Response(id="r1", model="m", created=1763164800, content=(*SAID, Text(text="three"), Text(text="four"))),
    "calls": Response(id="r1", content=(Text(text="so"), *CALLS), stop=Stop("tool_calls")),
    **{
        f"call {index}": Response(id="r1", content=(call,), stop=Stop("tool_calls")) for index, call in enumerate(CALLS)
    },
    "cut": Response(id="r1", content=(Text(text="so"), CALLS[3]), stop=Stop("length")),
    "media": Response(content=(IMAGE, MEDIA["audio by url"], RESULTS[0])),
    "usage": Response(
        usage=Usage(input_tokens=10, output_tokens=5, cached_tokens=4, cache_write_tokens=2, reasoning_tokens=1)
    ),
    **{
        f"stop {stop.reason}": Response(content=(Text(text="x"),), stop=stop)
        for stop in (
            Stop("stop_sequence", "stop", "END"),
            Stop("refusal", "x", detail="because"),
            Stop("filtered", "SAFETY", detail="because"),
            Stop("pause"),
            Stop("malformed_call", detail="because"),
            Stop("context_full"),
            Stop("other", "NOVEL"),
        )
    },
}
