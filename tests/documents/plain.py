"""Plain conversations, as the clients of each dialect write them, and whatever comes close to being plain."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.strategies import awkward_ids, texts
from toolglot.passes.envelope import Envelope, pack

Draw = Callable[..., Any]

TOOLS = ("get_weather", "Bash", "mcp__files__read")

flags: st.SearchStrategy[Any] = st.booleans()

odd_words = st.sampled_from(
    [
        "",
        " ",
        "\n\n",
        ":",
        "a:b::c",
        "\\u003a",
        '{"model":"x","messages":[]}',
        "Error: no such file",
        "Error:",
        "日本語 🌍",
        "\x7f\x00\u2028",
        "toolglot example of a word",
    ]
)
some_words = st.one_of(texts, texts, odd_words)
plain_arguments = st.one_of(
    st.dictionaries(texts, st.one_of(texts, st.integers(-5, 5), st.none(), st.lists(texts, max_size=2)), max_size=2),
    st.sampled_from([{}, {"command": "ls -l: *"}, {"path": "C:\\u003a"}, {"n": 1.0}, {"a": {"b": [{"c": []}]}}]),
)
tool_names = st.sampled_from([*TOOLS, "undeclared", "with space"])


class Call(NamedTuple):
    id: str
    name: str
    arguments: dict[str, Any]


class Said(NamedTuple):
    """One message: `parts` of several texts, or one text as a string."""

    role: str
    texts: list[str]
    listed: bool
    calls: tuple[Call, ...] = ()
    call_id: str = ""
    failed: bool | None = None
    cached: bool = False
    thought: str | None = None
    signature: str = ""


_SUMMARY = [{"type": "summary_text", "text": "a:b"}]
STATES: dict[str, list[dict[str, Any]]] = {
    "openai_chat": [
        {"$field": "reasoning_content"},
        {"$field": "reasoning"},
        {},
        {"reasoning_details": [{"type": "reasoning.text", "text": "x"}]},
    ],
    "openai_responses": [
        {"id": "rs_1", "summary": _SUMMARY, "encrypted_content": "ZW5j"},
        {"id": "rs_2", "summary": [], "encrypted_content": "a:b"},
        {"encrypted_content": "ZW5j"},
        {"id": "rs_3"},
        {"content": [{"type": "reasoning_text", "text": "x"}], "encrypted_content": "ZW5j"},
    ],
}
"""What a client may carry for these, the usual things first."""


class Kind(NamedTuple):
    """What a conversation may have in it. `owner`: whose reasoning the client may carry, if it may."""

    odd: bool
    cached: bool
    fails: bool
    owner: str | None
    signed: tuple[str, ...]

    def words(self, draw: Draw) -> str:
        return str(draw(some_words if self.odd else texts))

    def rarely(self, draw: Draw) -> bool:
        return self.odd and not draw(st.integers(0, 7))


@st.composite
def kinds(draw: st.DrawFn, owner: str) -> Kind:
    thinks = not draw(st.integers(0, 2))
    signed = draw(st.sampled_from([("c2ln",), ("ours",), ("c2ln", "ours", "")]))
    return Kind(
        not draw(st.integers(0, 2)), draw(st.booleans()), draw(st.booleans()), owner if thinks else None, signed
    )


@st.composite
def messages(draw: st.DrawFn, kind: Kind) -> list[Said]:
    """A conversation; mostly one that begins and ends with its user, every call with its result."""
    said = [_words(draw, "user", kind)]
    for turn in range(draw(st.integers(0, 3))):
        if draw(st.integers(0, 2)):
            said += _round(draw, turn, kind)
        else:
            said += [_thinking(draw, _words(draw, "assistant", kind), kind), _words(draw, "user", kind)]
    if not draw(st.integers(0, 5)):
        role = draw(st.sampled_from(["system", "developer", "user"] if not kind.odd else ["assistant", "critic"]))
        said.insert(draw(st.integers(0, len(said))), _words(draw, role, kind))
    if kind.rarely(draw):
        del said[draw(st.integers(0, len(said) - 1))]
    return said


def _words(draw: Draw, role: str, kind: Kind) -> Said:
    few = [kind.words(draw) for _ in range(draw(st.sampled_from([1, 1, 2, 3])))]
    return Said(role, few, len(few) > 1 or draw(st.booleans()), cached=kind.cached and not draw(st.integers(0, 2)))


def _thinking(draw: Draw, said: Said, kind: Kind) -> Said:
    if kind.owner is None or draw(st.booleans()):
        return said
    text = draw(texts) if not kind.rarely(draw) else ""
    signature = draw(st.sampled_from(kind.signed))
    if signature == "ours":
        state = draw(st.sampled_from(STATES.get(kind.owner, [{}])[: None if kind.odd else 2]))
        owner = draw(st.sampled_from([kind.owner, "gemini"])) if kind.odd else kind.owner
        place: Any = "next_call" if kind.rarely(draw) else "here"
        more = " and more" if kind.rarely(draw) else ""
        signature = pack(Envelope(owner=owner, state=state, text=text + more, place=place))
    return said._replace(thought=text, signature=signature)


def _round(draw: Draw, turn: int, kind: Kind) -> list[Said]:
    calls = []
    for number in range(draw(st.integers(1, 3))):
        call_id = draw(awkward_ids) if kind.rarely(draw) else f"toolcall{turn * 3 + number}"
        name = draw(tool_names) if kind.rarely(draw) else draw(st.sampled_from(TOOLS))
        calls.append(Call(call_id, name, draw(plain_arguments)))
    spoken = Said("assistant", [kind.words(draw) for _ in range(draw(st.integers(0, 1)))], True, tuple(calls))
    results = [
        Said(
            "tool",
            [kind.words(draw) for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2])))],
            draw(st.booleans()),
            call_id=call.id,
            failed=draw(st.sampled_from([None, False, True])) if kind.fails else None,
            cached=kind.cached and draw(st.booleans()),
        )
        for call in calls
    ]
    if kind.rarely(draw):
        results = draw(st.permutations(results))
    if kind.rarely(draw):
        results = results[1:]
    behind = [_words(draw, "user", kind)] if not draw(st.integers(0, 2)) else []
    return [_thinking(draw, spoken, kind), *results, *behind]


def _shuffled(draw: Draw, fields: dict[str, Any]) -> dict[str, Any]:
    """The members in any order."""
    if draw(st.integers(0, 3)):
        return fields
    return dict(draw(st.permutations(list(fields.items()))))


# Anthropic Messages


def _anthropic_texts(draw: Draw, said: Said) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text} for text in said.texts]
    if said.cached and blocks:
        lifetime = draw(st.sampled_from([{}, {}, {"ttl": "5m"}, {"ttl": "1h"}]))
        blocks[-1]["cache_control"] = {"type": "ephemeral", **lifetime}
    return blocks


def _anthropic_content(draw: Draw, said: Said) -> Any:
    return _anthropic_texts(draw, said) if said.listed or len(said.texts) != 1 or said.cached else said.texts[0]


def _anthropic_message(draw: Draw, said: Said) -> dict[str, Any]:
    if said.role == "tool":
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": said.call_id}
        if said.texts or said.listed:
            result["content"] = _anthropic_content(draw, said._replace(cached=False))
        if said.failed is not None:
            result["is_error"] = said.failed
        if said.cached:
            result["cache_control"] = {"type": "ephemeral"}
        return {"role": "user", "content": [_shuffled(draw, result)]}
    if said.role != "assistant" or not (said.calls or said.thought is not None):
        return {"role": said.role, "content": _anthropic_content(draw, said)}
    thinking = {"type": "thinking", "thinking": said.thought, "signature": said.signature}
    calls = [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in said.calls]
    blocks = [*([thinking] if said.thought is not None else ()), *_anthropic_texts(draw, said), *calls]
    return {"role": "assistant", "content": [_shuffled(draw, block) for block in blocks]}


def anthropic_messages(draw: Draw, conversation: Sequence[Said]) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = []
    joins = draw(st.booleans())
    for said in conversation:
        message = _anthropic_message(draw, said)
        before: dict[str, Any] = written[-1] if written else {"role": "", "content": ""}
        joined = isinstance(before["content"], list) and before["role"] == message["role"] == "user"
        if joins and joined and any(block["type"] == "tool_result" for block in before["content"]):
            content = message["content"]
            before["content"] += [{"type": "text", "text": content}] if isinstance(content, str) else content
        else:
            written.append(_shuffled(draw, message))
    for message in written:
        if message["role"] == "system" and not draw(st.integers(0, 2)):
            message["output_config"] = draw(st.sampled_from([{"effort": "low"}, {"effort": "high", "a:b": []}, {}]))
    return written


# Chat Completions


def _chat_content(said: Said) -> Any:
    if said.listed or len(said.texts) != 1:
        return [{"type": "text", "text": text} for text in said.texts]
    return said.texts[0]


def _chat_message(draw: Draw, said: Said) -> dict[str, Any]:
    if said.role == "tool":
        content = _chat_content(said) if said.texts else ""
        return {"role": "tool", "tool_call_id": said.call_id, "content": content}
    if said.role != "assistant":
        return {"role": said.role, "content": _chat_content(said)}
    message: dict[str, Any] = {"role": "assistant", "content": _chat_content(said) if said.texts else None}
    if not said.texts and draw(st.booleans()):
        del message["content"]
    if said.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": as_text(draw, call.arguments)},
            }
            for call in said.calls
        ]
    if said.thought is not None and draw(st.booleans()):
        message["reasoning_content"] = said.thought
    message |= draw(st.sampled_from([{}, {}, {"refusal": None}, {"audio": None, "annotations": []}, {"parsed": None}]))
    return message


def chat_messages(draw: Draw, conversation: Sequence[Said]) -> list[dict[str, Any]]:
    return [_shuffled(draw, _chat_message(draw, said)) for said in conversation]


def as_text(draw: Draw, value: object) -> str:
    """JSON as the many kinds of clients write it."""
    separators, indent = draw(
        st.sampled_from([((",", ":"), None), ((",", ":"), None), ((", ", ": "), None), (None, 1)])
    )
    return json.dumps(value, ensure_ascii=draw(st.booleans()), separators=separators, indent=indent)


_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        {"max_tokens": 100},
        {"max_tokens": 4096, "temperature": 1, "metadata": {"user_id": "u"}, "stop_sequences": ["a:b"]},
        {"max_tokens": 9000, "thinking": {"type": "enabled", "budget_tokens": 2048}},
        {"max_tokens": 9000, "thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}, "top_p": 0.9},
        {"max_tokens": 9000, "context_management": {"edits": []}, "service_tier": "auto", "top_k": 5},
        {"max_tokens": 9, "metadata": {"user_id": "u", "extra": 1}, "output_config": {"novel": 1}},
        {},
    ],
    "openai_chat": [
        {},
        {"max_tokens": 100, "temperature": 0.5, "stop": "a:b", "seed": 1},
        {"max_completion_tokens": 9000, "reasoning_effort": "high", "verbosity": "low", "store": True},
        {"temperature": 2, "top_p": 0.5, "presence_penalty": 1, "user": "u", "metadata": {"a": "b"}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": _SCHEMA, "strict": True}}},
        {"response_format": {"type": "novel"}, "metadata": {"a": 1}, "service_tier": "priority"},
        {"parallel_tool_calls": False, "stream_options": {"include_usage": True}, "prompt_cache_key": "k"},
    ],
}
CHOICES: dict[str, list[Any]] = {
    "anthropic": [
        {"type": "auto"},
        {"type": "any", "disable_parallel_tool_use": True},
        {"type": "tool", "name": "Bash"},
    ],
    "openai_chat": ["auto", "required", {"type": "function", "function": {"name": "Bash"}}],
}


def _anthropic_tools(names: Sequence[str]) -> list[dict[str, Any]]:
    return [{"name": name, "description": "It: says", "input_schema": _SCHEMA} for name in names]


def _chat_tools(names: Sequence[str]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": name, "parameters": _SCHEMA}} for name in names]


class Wire(NamedTuple):
    """How the clients of a dialect write."""

    messages: Callable[[Draw, Sequence[Said]], list[dict[str, Any]]]
    tools: Callable[[Sequence[str]], list[dict[str, Any]]]
    history: str = "messages"


WIRES = {
    "anthropic": Wire(anthropic_messages, _anthropic_tools),
    "openai_chat": Wire(chat_messages, _chat_tools),
}


@st.composite
def settings_of(draw: st.DrawFn, dialect: str) -> dict[str, Any]:
    """All of a request but its conversation."""
    fields = {"model": draw(st.sampled_from(["any-model", "gpt-5:mini"])), **draw(st.sampled_from(SETTINGS[dialect]))}
    names: tuple[str, ...] = draw(st.sampled_from([TOOLS, TOOLS, TOOLS, TOOLS, (*TOOLS, "files.read"), ()]))
    if names or draw(flags):
        fields["tools"] = WIRES[dialect].tools(names)
    if names and draw(flags):
        fields["tool_choice"] = draw(st.sampled_from(CHOICES[dialect]))
    return fields | draw(st.sampled_from([{}, {"stream": False}, {"stream": True}]))


@st.composite
def bodies(draw: st.DrawFn, dialect: str, owner: str, settings: dict[str, Any]) -> bytes:
    """A request with these settings. `owner`: whose reasoning the client may carry."""
    wire = WIRES[dialect]
    kind = draw(kinds(owner))
    history = wire.messages(draw, draw(messages(kind)))
    fields = {**settings, wire.history: history}
    if draw(st.booleans()):
        system = _words(draw, "system", kind)
        if dialect == "anthropic":
            fields["system"] = _anthropic_content(draw, system)
        else:
            role = draw(st.sampled_from(["system", "developer"]))
            history.insert(0, {"role": role, "content": _chat_content(system)})
    text = as_text(draw, _shuffled(draw, fields))
    if kind.rarely(draw):
        text = draw(twice(text))
    return text.encode()


@st.composite
def twice(draw: st.DrawFn, text: str) -> str:
    """A document in which some member may stand twice, or a colon may stand as its escape."""
    member = draw(st.sampled_from(['"model":"x",', '"role":"user",', '"text":"",', '"type":"text",', '"a":1,', ":"]))
    places = [index for index, letter in enumerate(text) if letter == ("{" if member != ":" else ":")]
    if not places:
        return text
    place = draw(st.sampled_from(places))
    escaped = text.replace("a:b", "a\\u003ab") if draw(st.booleans()) else text
    if member == ":":
        return escaped
    return escaped[: place + 1] + member + escaped[place + 1 :]
