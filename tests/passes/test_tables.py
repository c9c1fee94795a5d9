"""Every row of the tables that the passes go by."""

from __future__ import annotations

from typing import Any

import pytest

from toolglot.capabilities import Capabilities, ParameterCapabilities, change_capabilities
from toolglot.errors import ApiError
from toolglot.events import Close, Delta, Event, Fault, Finish, Open, Start
from toolglot.ir import (
    Message,
    Opaque,
    Reasoning,
    Request,
    Stop,
    StopReason,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    replace,
)
from toolglot.passes import content, deferred, parameters, reasoning, schema, turns
from toolglot.passes.envelope import STATE, Envelope, pack, unpack
from toolglot.passes.sequence import EVENT_SIZE, MAX_WAITING_BLOCKS, MAX_WAITING_CHARACTERS, Sequencer
from toolglot.passes.settle import Settler
from toolglot.passes.unwrap import InputUnwrapper
from toolglot.receipt import Receipt

from .targets import ANTHROPIC, CHAT, GEMINI, asked, lines, said, to, tool, user

# ── parameters ──

PLAIN: dict[str, Any] = {
    "max_output_tokens": 5,
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 5,
    "seed": 5,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "stop": ("x",),
    "candidates": 2,
    "verbosity": "low",
    "user": "u",
    "metadata": {"a": "b"},
    "service_tier": "flex",
}
DEFAULTS: dict[str, Any] = {
    "temperature": 1,
    "top_p": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "candidates": 1,
    "service_tier": "auto",
    "verbosity": "medium",
}
NOTHING = Capabilities()


def without(request: Request, name: str) -> bool:
    return getattr(request, name) in (None, ())


@pytest.mark.parametrize(("name", "value"), PLAIN.items())
def test_a_field_stays_where_the_target_has_it_and_is_told_where_it_has_not(name: str, value: Any) -> None:
    request = asked(user(), **{name: value})
    context = to(NOTHING)
    assert without(parameters.fit(request, context), name)
    assert lines(context) == [f"{'note' if name in ('user', 'metadata') else 'loss'} {name}"]
    context = to(
        Capabilities(
            parameters=ParameterCapabilities(fields=frozenset({name})),
        )
    )
    assert parameters.fit(request, context) is request
    assert lines(context) == []


@pytest.mark.parametrize(("name", "value"), DEFAULTS.items())
def test_a_value_that_is_everybodys_default_is_no_loss(name: str, value: Any) -> None:
    context = to(NOTHING)
    assert without(parameters.fit(asked(user(), **{name: value}), context), name)
    assert lines(context) == [f"note {name}"]


@pytest.mark.parametrize("name", ["user", "metadata", "stop"])
def test_a_value_of_the_clients_own_is_not_in_the_receipt(name: str) -> None:
    context = to(NOTHING)
    parameters.fit(asked(user(), **{name: PLAIN[name]}), context)
    assert [line.what for line in context.receipt] == [name]


@pytest.mark.parametrize(
    ("limits", "given", "kept", "told"),
    [
        ({"max_temperature": 1.0}, {"temperature": 1.5}, {"temperature": 1.0}, ["loss temperature"]),
        ({"max_temperature": 1.0}, {"temperature": 1.0}, {"temperature": 1.0}, []),
        ({"min_output_tokens": 16}, {"max_output_tokens": 15}, {"max_output_tokens": 16}, ["note max_output_tokens"]),
        ({"min_output_tokens": 16}, {"max_output_tokens": 16}, {"max_output_tokens": 16}, []),
        ({"default_output_tokens": 9}, {}, {"max_output_tokens": 9}, ["note max_output_tokens"]),
        ({"default_output_tokens": 9}, {"max_output_tokens": 8}, {"max_output_tokens": 8}, []),
        ({"max_stop_sequences": 1}, {"stop": ("a", "b")}, {"stop": ("a",)}, ["loss stop"]),
        ({"max_stop_sequences": 2}, {"stop": ("a", "b")}, {"stop": ("a", "b")}, []),
        ({"max_tools": 1}, {"tools": (tool("a"), tool("b"))}, {"tools": (tool("a"), tool("b"))}, ["loss tools"]),
        ({"max_tools": 2}, {"tools": (tool("a"), tool("b"))}, {"tools": (tool("a"), tool("b"))}, []),
    ],
)
def test_a_limit_of_the_target_is_kept_and_told(
    limits: dict[str, Any], given: dict[str, Any], kept: dict[str, Any], told: list[str]
) -> None:
    context = to(change_capabilities(CHAT, **limits))
    request = parameters.fit(asked(user(), **given), context)
    assert {name: getattr(request, name) for name in kept} == kept
    assert lines(context) == told
    assert context.limit_is_ours is ("default_output_tokens" in limits and not given)


# ── schemas ──

OBJECT: Any = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("extra", "fitted"),
    [
        ({"allOf": [{"properties": {"a": {}}}]}, {**OBJECT, "properties": {"a": {}}}),
        ({"anyOf": [{"properties": {"a": {}}}]}, {**OBJECT, "properties": {"a": {}}}),
        ({"oneOf": [{"properties": {"a": {}}}]}, {**OBJECT, "properties": {"a": {}}}),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"required": ["x"]}}},
            {**OBJECT, "required": ["x"], "$defs": {"a": {"required": ["x"]}}},
        ),
        ({"allOf": [], "title": "T"}, {**OBJECT, "title": "T"}),
        ({"anyOf": 5, "title": "T"}, {**OBJECT, "title": "T"}),
        ({"not": {"required": ["x"]}}, OBJECT),
        ({"enum": [{}]}, OBJECT),
    ],
)
def test_what_may_not_stand_at_the_root_of_parameters_is_worked_in_or_told(extra: Any, fitted: Any) -> None:
    context = to(ANTHROPIC)
    request = schema.fit(asked(user(), tools=(tool(parameters={**OBJECT, **extra}),)), context)
    assert isinstance(request.tools[0], Tool)
    assert request.tools[0].parameters == fitted
    key = next(iter(extra))
    assert lines(context) == ([f"loss tools[0].parameters.{key}"] if key in ("not", "enum") else [])


OPEN: Any = {"type": "object", "properties": {"a": {}}}
SHUT: Any = {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize(
    "inside",
    [
        *(lambda value, key=key: {key: {"x": value}} for key in ("$defs", "definitions")),
        *(
            lambda value, key=key: {key: [{"type": "string"}, value]}
            for key in ("anyOf", "oneOf", "allOf", "prefixItems")
        ),
        *(lambda value, key=key: {key: value} for key in ("items", "not")),
    ],
)
def test_strict_stays_only_where_every_object_inside_is_closed(inside: Any) -> None:
    for value, strict in ((SHUT, True), (OPEN, False)):
        whole = {**SHUT, "properties": {"a": inside(value)}}
        context = to(CHAT)
        request = schema.fit(asked(user(), tools=(tool(parameters=whole, strict=True),)), context)
        assert isinstance(request.tools[0], Tool)
        assert request.tools[0].strict is strict
        assert lines(context) == ([] if strict else ["loss tools[0].strict"])


# ── envelopes ──

STATES: list[tuple[str, str, Any, Any]] = [
    ("anthropic", "signature", "s", 1),
    ("anthropic", "data", "d", None),
    ("anthropic", "$redacted", True, False),
    ("anthropic", "$unsigned", True, "yes"),
    ("openai_responses", "encrypted_content", "e", []),
    ("openai_responses", "id", "rs_1", 5),
    ("openai_responses", "summary", [{"type": "summary_text", "text": "x"}], [{"type": "reasoning_text", "text": "x"}]),
    ("openai_responses", "content", [{"type": "reasoning_text", "text": "x"}], [{"type": "reasoning_text", "text": 1}]),
    ("gemini", "thoughtSignature", "c2ln", {}),
    ("gemini", "thought", True, 1),
    ("gemini", "$signed_apart", True, 1),
    ("openai_chat", "$field", "reasoning", "content"),
    ("openai_chat", "$field", "reasoning_content", None),
    ("openai_chat", "$field", "thinking_blocks", "images"),
    ("openai_chat", "$field", "reasoning_text", "reasoning_opaque"),
    ("openai_chat", "$part", True, [{}]),
    ("openai_chat", "reasoning_opaque", "b3BhcXVl", ["b3BhcXVl"]),
    ("openai_chat", "provider_specific_fields", {"thought_signatures": ["c2ln"]}, "c2ln"),
    ("openai_chat", "thinking_blocks", [{"type": "thinking", "signature": "s"}], [1]),
    ("openai_chat", "reasoning_summary", [{"type": "summary_text", "text": "t", "signature": "s"}], ["s"]),
    ("openai_chat", "reasoning_details", [{"type": "reasoning.encrypted", "data": "d"}], ["d"]),
    ("openai_chat", "extra_content", {"google": {"thought_signature": "c2ln"}}, "c2ln"),
]


@pytest.mark.parametrize(("owner", "key", "fine", "forged"), STATES)
def test_an_envelope_holds_what_its_owners_state_can_be_and_no_more(
    owner: str, key: str, fine: Any, forged: Any
) -> None:
    envelope = Envelope(owner=owner, state={key: fine}, text="t")
    assert unpack(pack(envelope)) == envelope
    emptied = Envelope(owner=owner, text="t")
    assert unpack(pack(replace(envelope, state={key: forged, "other": "x"}))) == emptied


def test_every_kind_of_state_has_a_row_here() -> None:
    assert {(owner, key) for owner, fields in STATE.items() for key in fields} == {row[:2] for row in STATES}


def test_the_beginning_of_an_envelope_never_varies() -> None:
    for owner in STATE:
        assert pack(Envelope(owner=owner)).startswith("dG9vbGdsb3QA")
    assert unpack("dG9vbGdsb3QA") is None
    assert unpack("dG9vbGdsb3QA====") is None
    assert unpack(5) is None
    packed = pack(Envelope(owner="gemini", text="t"))
    assert unpack(f"{packed[:20]}!{packed[20:]}") is None


# ── turns ──


def piece(block: Text | Thinking) -> Message:
    return Message(role="assistant", content=(replace(block, native={"openai_responses": {"$piece": True}}),))


@pytest.mark.parametrize("kind", [Text, Thinking])
def test_text_that_goes_on_in_the_next_message_is_one_text(kind: type[Text] | type[Thinking]) -> None:
    pieces = [piece(kind(text=text)) for text in ("One ", " ", "text.")]
    grouped = turns.group(
        asked(user(), *pieces, user("?")), to(change_capabilities(CHAT, thinking="text"), source="openai_responses")
    )
    blocks = grouped.messages[1].content
    assert [block.text for block in blocks if isinstance(block, Text | Thinking)] == ["One  text."]
    apart = turns.group(asked(user(), pieces[0], said("x"), pieces[1]), to(CHAT, source="openai_responses"))
    assert len(apart.messages[1].content) == 3


# ── events ──


def test_too_much_that_waits_is_a_fault_of_the_upstream() -> None:
    too_much: list[list[Event]] = [
        [Open(1, Text(text="")), Delta(1, "x" * (MAX_WAITING_CHARACTERS - 2 * EVENT_SIZE + 1))],
        [Open(index, Text(text="")) for index in range(1, MAX_WAITING_BLOCKS + 2)],
    ]
    for events in too_much:
        sequencer = Sequencer()
        passed: list[Event] = [*sequencer.feed(Start()), *sequencer.feed(Open(0, Text(text="")))]
        for event in events[:-1]:
            passed += sequencer.feed(event)
        assert passed == [Start(), Open(0, Text(text=""))]
        (fault,) = sequencer.feed(events[-1])
        assert isinstance(fault, Fault)
        error = fault.error
        assert (error.kind, error.status, error.code) == ("server", 502, "upstream_too_interleaved")
        assert sequencer.feed(Finish(stop=Stop("end"))) == ()


def test_what_may_just_wait_waits() -> None:
    sequencer = Sequencer()
    sequencer.feed(Start())
    sequencer.feed(Open(0, Text(text="")))
    for index in range(1, MAX_WAITING_BLOCKS + 1):
        assert sequencer.feed(Open(index, Text(text=""))) == ()
    sequencer = Sequencer()
    sequencer.feed(Open(0, Text(text="")))
    sequencer.feed(Open(1, Text(text="")))
    most = Delta(1, "x" * (MAX_WAITING_CHARACTERS - 2 * EVENT_SIZE))
    assert sequencer.feed(most) == ()
    assert sequencer.feed(Close(index=0)) == (Close(index=0), Open(1, Text(text="")), most)
    assert sequencer.feed(Delta(1, "y")) == (Delta(1, "y"),)


REASONS: list[tuple[StopReason, StopReason, StopReason]] = [
    # said, with a call, without one
    ("end", "tool_calls", "end"),
    ("other", "tool_calls", "other"),
    ("tool_calls", "tool_calls", "end"),
    ("stop_sequence", "stop_sequence", "stop_sequence"),
    ("length", "length", "length"),
    ("context_full", "context_full", "context_full"),
    ("filtered", "filtered", "filtered"),
    ("refusal", "refusal", "refusal"),
    ("pause", "pause", "pause"),
]


@pytest.mark.parametrize(("reason", "with_call", "without"), REASONS)
def test_a_stop_agrees_with_what_was_in_the_answer(
    reason: StopReason, with_call: StopReason, without: StopReason
) -> None:
    for block, text, expected in (
        (ToolCall(id="c", name="f"), "{}", with_call),
        (Text(text=""), "x", without),
    ):
        settler = Settler(Receipt())
        events: list[Event] = [Open(0, block), Delta(0, text), Close(index=0), Finish(stop=Stop(reason))]
        settled = [out for event in events for out in settler.feed(event)]
        assert settled == [*events[:-1], Finish(stop=Stop(expected))]


CUTS = ("length", "context_full", "filtered", "refusal")


@pytest.mark.parametrize(("reason", "_with", "_without"), REASONS)
def test_a_broken_call_is_a_fault_unless_the_answer_was_cut(reason: StopReason, _with: str, _without: str) -> None:
    settler = Settler(Receipt())
    for event in (Open(0, ToolCall(id="c", name="f")), Delta(0, '{"a')):
        settler.feed(event)
    # Whether the call was cut or garbled shows in the next event. A client that has seen its end would keep it.
    assert settler.feed(Close(index=0)) == ()
    *end, last = settler.feed(Finish(stop=Stop(reason)))
    assert end == ([Close(index=0, complete=False)] if reason in CUTS else [])
    assert isinstance(last, Finish if reason in CUTS else Fault)
    if isinstance(last, Fault):
        error = last.error
        assert (error.kind, error.status, error.code) == ("server", 502, "malformed_tool_call")
        message = "The model tried a tool call that cannot be read (call of f: its arguments are cut off)"
        assert error.message == message


# ── reasoning ──


@pytest.mark.parametrize(
    ("model", "demanded"),
    [
        *((name, False) for name in ("gemini-1.5-pro", "gemini-2", "gemini-2.5-flash", "models/gemini-2.0", "gemma-3")),
        *((name, True) for name in ("gemini-3-pro", "gemini-20", "my-gemini-2", "tuned")),
    ],
)
def test_a_call_of_another_model_is_marked_for_models_that_demand_a_signature(model: str, demanded: bool) -> None:
    call = Message(role="assistant", content=(ToolCall(id="a", name="f"), ToolCall(id="b", name="f")))
    context = to(GEMINI)
    settled = reasoning.settle(asked(user(), call, model=model), context)
    marked = [block.native for block in settled.messages[1].content]
    signature = {"gemini": {"thoughtSignature": "skip_thought_signature_validator"}}
    assert marked == ([signature, {}] if demanded else [{}, {}])
    assert lines(context) == (["note messages[1].content[0]"] if demanded else [])


# ── wrapped input ──


@pytest.mark.parametrize(
    ("arguments", "text", "exact", "readable"),
    [
        ('{"input":"a b"}', "a b", True, True),
        (' { "input" : "a\\n\\u00e4\\ud83d\\ude00" } ', "a\n\u00e4\U0001f600", True, True),
        ('{"input":"\\\\"}', "\\", True, True),
        ('{"input":"\\\\n\\\\\\n"}', "\\n\\\n", True, True),
        ('{"input":""}', "", True, True),
        ('{"input":"a","other":1}', "a", False, True),
        ('{"other":1,"input":"a"}', "a", False, True),
        ('{"input":"a\\x"}', "a\\x", False, False),
        ('{"input":"a', "a", False, False),
        ('{"input":"a\\', "a\\", False, False),
        ('{"input":5}', '{"input":5}', False, False),
        ("free text", "free text", False, False),
        ("", "", False, False),
        ('"input"', '"input"', False, False),
    ],
)
def test_the_text_of_a_custom_tool_is_taken_out_of_its_wrapping(
    arguments: str, text: str, exact: bool, readable: bool
) -> None:
    for size in (1, 3, 1000):
        unwrapper = InputUnwrapper()
        pieces = [arguments[start : start + size] for start in range(0, len(arguments), size)]
        assert "".join(map(unwrapper.feed, pieces)) + unwrapper.close() == text
        assert (unwrapper.exact, unwrapper.readable) == (exact, readable)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"type": "tool_reference", "tool_name": "late"}, True),
        ({"type": "novel", "tool_name": "late"}, False),
        ({"type": "tool_reference", "tool_name": 5}, False),
        ({"type": "tool_reference"}, False),
        ("tool_reference", False),
    ],
)
def test_only_a_reference_with_a_name_is_told_in_words(value: Any, told: bool) -> None:
    block = Opaque("anthropic", value)
    late = replace(tool("late"), deferred=True)
    request = deferred.offer(asked(user(), Message(role="user", content=(block,)), tools=(late,)), to(CHAT))
    words = (Text(text="The tool late can be called now."),)
    assert request.messages[1].content == (words if told else (block,))
    assert len(request.tools) == told


@pytest.mark.parametrize(
    ("wanted", "elsewhere", "own"),
    [
        (None, False, False),
        (Reasoning(), False, False),
        (Reasoning(mode="off", effort="high"), False, False),
        (Reasoning(effort="none"), False, False),
        (Reasoning(mode="on", effort="none"), False, False),
        (Reasoning(effort="low"), True, False),
        (Reasoning(budget_tokens=5), True, False),
        (Reasoning(mode="on"), True, True),
        (Reasoning(mode="auto"), True, True),
        (Reasoning(show=True), False, False),
    ],
)
def test_whether_a_model_will_reason_depends_on_what_was_said_and_by_whom(
    wanted: Reasoning | None, elsewhere: bool, own: bool
) -> None:
    request = asked(user(), reasoning=wanted)
    assert reasoning.reasons(request, to(ANTHROPIC)) is elsewhere
    assert reasoning.reasons(request, to(ANTHROPIC, source="anthropic")) is own


def test_a_broken_call_ends_the_answer_before_its_block_ends() -> None:
    settler = Settler(Receipt())
    for event in (Open(0, ToolCall(id="f", name="f")), Delta(0, "[1]"), Close(index=0)):
        settler.feed(event)
    (last,) = settler.feed(Open(1, ToolCall(id="g", name="g")))
    assert isinstance(last, Fault)
    assert "(call of f: its arguments are JSON, but not an object)" in last.error.message
    rest: list[Event] = [Delta(1, "{}"), Close(index=1), Finish(stop=Stop("tool_calls"))]
    assert [out for event in rest for out in settler.feed(event)] == []


def test_nothing_passes_behind_the_end() -> None:
    ends: list[Event] = [Finish(stop=Stop("end")), Fault(ApiError(kind="server", message="m"))]
    for end in ends:
        sequencer = Sequencer()
        assert sequencer.feed(end) == (end,)
        assert sequencer.feed(Open(0, Text(text=""))) == ()


def test_the_mark_of_an_error_stands_before_all_that_the_result_says() -> None:
    parts = (Text(text="a"), Text(text="b"), Text(text="c"))
    failed = ToolResult(call_id="c", content=parts, is_error=True)
    fitted = content.fit(asked(user(), Message(role="tool", content=(failed,))), to(CHAT)).messages[1].content[0]
    assert isinstance(fitted, ToolResult)
    assert fitted.content == (Text(text="Error: a"), *parts[1:])


@pytest.mark.parametrize(
    ("combined", "lines_told"),
    [
        ({"oneOf": [OBJECT, OBJECT]}, ["loss tools[0].parameters.oneOf"]),
        ({"anyOf": [OBJECT, OBJECT]}, ["loss tools[0].parameters.anyOf"]),
        ({"allOf": [OBJECT, OBJECT]}, []),
        ({"allOf": [OBJECT, {**OBJECT, "additionalProperties": False}]}, ["loss tools[0].parameters.allOf"]),
    ],
)
def test_a_combination_that_loses_something_is_told_with_its_place(combined: Any, lines_told: list[str]) -> None:
    context = to(ANTHROPIC)
    schema.fit(asked(user(), tools=(tool(parameters=combined),)), context)
    assert lines(context) == lines_told
