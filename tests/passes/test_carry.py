"""Reasoning state in envelopes: out through a client that has no place for it, and back to its owner unchanged."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot import DIALECTS
from toolglot.events import Close, Event, Fold, Open, Start, unfold
from toolglot.ir import (
    Block,
    Media,
    Message,
    Request,
    Response,
    Source,
    Stop,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    native_of,
    replace,
)
from toolglot.passes import Context
from toolglot.passes.answer_state import SealedState, unseal
from toolglot.passes.carry import Carrier, move_before_call, open_envelopes
from toolglot.passes.envelope import PLACES, STATE, Envelope, pack, unpack
from toolglot.receipt import Receipt
from toolglot.state_fields import LENGTH
from toolglot.translate import ExchangeCore

SLOTS = {name: dialect.state.slot for name, dialect in DIALECTS.items() if dialect.state.slot}
PAIRS = [(client, owner) for client in SLOTS for owner in SLOTS if client != owner]
SIGNATURE = base64.b64encode(b"signed by its owner").decode()


SUMMARY = [{"type": "summary_text", "text": "hm"}]
STATES = st.one_of(
    st.tuples(st.just("anthropic"), st.fixed_dictionaries({}, optional={"signature": st.text(), "data": st.text()})),
    st.tuples(st.just("gemini"), st.fixed_dictionaries({"thoughtSignature": st.text(), "thought": st.just(True)})),
    st.tuples(
        st.just("openai_responses"),
        st.fixed_dictionaries({"encrypted_content": st.text(), "id": st.text(), "summary": st.just(SUMMARY)}),
    ),
    st.tuples(st.just("openai_chat"), st.just({"$field": "reasoning"})),
    st.tuples(st.just("ollama"), st.just(dict[str, Any]())),
)


def test_an_envelope_for_the_next_text_holds_what_a_text_has() -> None:
    state = {"$phase": "commentary"}
    envelope = Envelope(owner="openai_responses", state={**state, "encrypted_content": "S"}, place="next_text")
    assert unpack(pack(envelope)) == Envelope(owner="openai_responses", state=state, place="next_text")


@given(STATES, st.sampled_from(sorted(PLACES - {"next_text"})), st.text())
def test_an_envelope_gives_back_what_was_put_in(state: tuple[str, dict[str, Any]], place: Any, text: str) -> None:
    envelope = Envelope(owner=state[0], state=state[1], place=place, text=text)
    packed = pack(envelope)
    assert unpack(packed) == envelope
    assert base64.b64decode(packed, validate=True), "Gemini's clients want base64"


@given(STATES, st.text())
def test_an_envelope_may_come_back_in_the_other_alphabet_of_base64(
    state: tuple[str, dict[str, Any]], text: str
) -> None:
    """As Google's client for Python sends it, which has read the bytes."""
    envelope = Envelope(owner=state[0], state=state[1], text=text)
    returned = base64.urlsafe_b64encode(base64.b64decode(pack(envelope))).decode()
    assert unpack(returned) == unpack(returned.rstrip("=")) == envelope


def forged(*content: Any) -> str:
    return base64.b64encode(b"toolglot\0" + json.dumps(content).encode()).decode()


@pytest.mark.parametrize(
    ("owner", "state", "kept"),
    [
        ("anthropic", {"signature": 5, "data": "x", "type": "text", "thinking": "y"}, {"data": "x"}),
        ("openai_responses", {"summary": 5, "content": [{"type": "x"}], "role": "system"}, {}),
        ("openai_responses", {"summary": [{"type": "summary_text", "text": 1}], "id": []}, {}),
        ("gemini", {"functionCall": {"name": "rm"}, "thought": False, "text": "z"}, {}),
        ("openai_chat", {"$field": "tool_calls"}, {}),
        ("openai_chat", {"$field": []}, {}),
    ],
)
def test_a_forged_envelope_says_no_more_than_state(owner: str, state: dict[str, Any], kept: dict[str, Any]) -> None:
    opened = unpack(forged(owner, "here", state, ""))
    assert opened is not None
    assert opened.state == kept


@pytest.mark.parametrize(
    "content", [["nobody", "here", {}, ""], ["gemini", "elsewhere", {}, ""], ["gemini", "here", [], ""], ["gemini"], []]
)
def test_a_forged_envelope_of_another_form_is_none(content: list[Any]) -> None:
    assert unpack(forged(*content)) is None


@pytest.mark.parametrize("upstream", list(DIALECTS))
@pytest.mark.parametrize("owner", list(STATE))
def test_a_forged_envelope_crashes_nobody(owner: str, upstream: str) -> None:
    keys: tuple[str, ...] = (
        "signature",
        "data",
        "$redacted",
        "$unsigned",
        "encrypted_content",
        "summary",
        "content",
        "id",
        "$absent",
    )
    keys += ("thoughtSignature", "thought", "$field", "$dollar", "$empty", "$missing", "$item", "$output", "type")
    for value in (None, 5, True, "x", [], [5], {}, {"a": 5}):
        block = {
            "type": "thinking",
            "thinking": "hm",
            "signature": forged(owner, "here", dict.fromkeys(keys, value), ""),
        }
        content = [block, {"type": "text", "text": "so"}]
        messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": content}]
        messages.append({"role": "user", "content": "on"})
        asked = {"model": "m", "max_tokens": 5, "messages": messages}
        sent = ExchangeCore("anthropic", upstream).request(asked, model="m")
        assert b"dG9vbGdsb3QA" not in sent


@pytest.mark.parametrize("other", ["", "EqQB", SIGNATURE, None, 5, "dG9vbGdsb3QA", "dG9vbGdsb3QA!", "dG9vbGdsb3QAWzFd"])
def test_anything_else_is_no_envelope(other: object) -> None:
    assert unpack(other) is None


def respond(client: str, owner: str, *content: Any) -> tuple[Any, Receipt]:
    """The client's response, as its own dialect reads it, for these blocks of the owner."""
    exchange = ExchangeCore(client, owner)
    response = Response(id="r", model="m", content=content, stop=Stop("tool_calls"))
    data = DIALECTS[client].encode_response(exchange.restore(response), None, exchange.receipt)
    return DIALECTS[client].decode_response(data), exchange.receipt


def send_back(client: str, upstream: str, response: Response) -> Request:
    """What the upstream gets when the client puts that response into its history."""
    calls = [block for block in response.content if isinstance(block, ToolCall)]
    history = Request(
        model="gemini-3-pro" if upstream == "gemini" else "m",
        max_output_tokens=100,
        messages=(
            Message(role="user", content=(Text(text="go"),)),
            Message(role="assistant", content=response.content),
            Message(
                role="tool", content=tuple(ToolResult(call_id=call.id, content=(Text(text="ok"),)) for call in calls)
            ),
        ),
    )
    data = DIALECTS[client].encode_request(history, Receipt())
    exchange = ExchangeCore(client, upstream)
    return DIALECTS[upstream].decode_request(exchange.request(data, model=history.model))


def own(owner: str) -> dict[str, dict[str, Any]]:
    slot = SLOTS[owner]
    assert slot is not None
    return {owner: {slot: SIGNATURE}}


@pytest.mark.parametrize(("client", "owner"), PAIRS)
def test_state_on_reasoning_comes_back_to_its_owner_byte_for_byte(client: str, owner: str) -> None:
    given_out, receipt = respond(client, owner, Thinking(text="hm", native=own(owner)), ToolCall(id="c", name="f"))
    assert not receipt.losses
    returned = send_back(client, owner, given_out)
    thinking = [block for message in returned.messages for block in message.content if isinstance(block, Thinking)]
    assert [native_of(block, owner).get(SLOTS[owner] or "") for block in thinking] == [SIGNATURE]


@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("client", sorted(SLOTS))
def test_the_words_of_reasoning_come_back_to_a_model_that_has_no_other_state(client: str, dropped: bool) -> None:
    """Ollama's `thinking`. Gemini CLI drops thoughts, and its calls carry a copy."""
    call = ToolCall(id="c", name="f", arguments="{}")
    given_out, receipt = respond(client, "ollama", Thinking(text="hm"), Text(text="so"), call)
    assert not receipt.losses
    if dropped and client == "gemini":
        content = tuple(block for block in given_out.content if not isinstance(block, Thinking))
        given_out = replace(given_out, content=content)
    returned = send_back(client, "ollama", given_out)
    content = tuple(block for message in returned.messages for block in message.content)
    assert [block.text for block in content if isinstance(block, Thinking)] == ["hm"]


DETAILS = [{"type": "reasoning.encrypted", "data": "c3RhdGU=", "format": "openai-responses-v1", "index": 0}]
THINKING_PART = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}


@pytest.mark.parametrize(
    ("model", "reasoned", "returned"),
    [
        ("gpt-5", {"reasoning_content": "hm"}, {"reasoning_content": "hm", "content": "so"}),
        ("openai/gpt-5", {"reasoning": "hm", "reasoning_details": DETAILS}, None),
        ("gpt-5", {"reasoning_details": DETAILS}, None),
        ("magistral-small", {"content": [THINKING_PART]}, {"content": [THINKING_PART, {"type": "text", "text": "so"}]}),
    ],
)
@pytest.mark.parametrize("asked", ["the same", "another"])
@pytest.mark.parametrize("client", ["anthropic", "openai_responses"])
def test_streamed_reasoning_comes_back_to_a_chat_server_whatever_its_model_is_called(
    client: str, asked: str, model: str, reasoned: dict[str, Any], returned: dict[str, Any] | None
) -> None:
    """Codex asks for GPT and an imitator of OpenAI's server answers, with reasoning that OpenAI's own never shows; or
    Claude Code asks for Claude, and an alias leads to GPT at OpenRouter."""
    name = model if asked == "the same" else "claude-sonnet-4-5"
    exchange = ExchangeCore(client, "openai_chat", model=model)
    deltas: list[dict[str, Any]] = [reasoned, {"content": "so"}]
    chunks = [{"id": "r", "model": "m", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"id": "r", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    frames = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"
    stream = exchange.stream()
    events = DIALECTS[client].stream_decoder(Receipt())
    fold = Fold()
    for event in (*events.feed(stream.feed(frames) + stream.close()), *events.close()):
        fold.add(event)
    answer = Message(role="assistant", content=fold.response().content)
    messages = (Message(role="user", content=(Text(text="go"),)), answer)
    data = DIALECTS[client].encode_request(Request(model=name, max_output_tokens=100, messages=messages), Receipt())
    exchange = ExchangeCore(client, "openai_chat", model=model)
    sent = json.loads(exchange.request(data))["messages"][1]
    assert sent == {"role": "assistant", **(returned or {**reasoned, "content": "so"})}
    assert not exchange.receipt.losses


@pytest.mark.parametrize("client", [name for name in SLOTS if name != "gemini"])
def test_state_on_a_call_comes_back_to_its_owner_byte_for_byte(client: str) -> None:
    call = ToolCall(id="c", name="f", arguments="{}", native=own("gemini"))
    given_out, receipt = respond(client, "gemini", Text(text="so"), call, ToolCall(id="d", name="g", arguments="{}"))
    assert not receipt.losses
    returned = send_back(client, "gemini", given_out)
    calls = [block for message in returned.messages for block in message.content if isinstance(block, ToolCall)]
    assert [native_of(block, "gemini").get("thoughtSignature") for block in calls] == [SIGNATURE, None]


@pytest.mark.parametrize(("client", "owner"), PAIRS)
@pytest.mark.parametrize("upstream", list(DIALECTS))
def test_no_vendor_ever_sees_an_envelope(client: str, owner: str, upstream: str) -> None:
    call = ToolCall(id="c", name="f", arguments="{}", native=own(owner))
    given_out, _ = respond(client, owner, Thinking(text="hm", native=own(owner)), call)
    history = Request(
        model="m",
        max_output_tokens=100,
        messages=(
            Message(role="user", content=(Text(text="go"),)),
            Message(role="assistant", content=given_out.content),
            Message(role="tool", content=(ToolResult(call_id="c", content=(Text(text="ok"),)),)),
        ),
    )
    data = DIALECTS[client].encode_request(history, Receipt())
    sent = ExchangeCore(client, upstream).request(data, model="m")
    assert b"dG9vbGdsb3QA" not in sent
    if upstream != owner:
        assert SIGNATURE.encode() not in sent


def test_streams_carry_the_same_as_responses() -> None:
    call = ToolCall(id="c", name="f", arguments='{"x":1}', native=own("gemini"))
    response = Response(id="r", model="m", content=(Text(text="so"), call), stop=Stop("tool_calls"))
    source = DIALECTS["gemini"].stream_encoder(None, Receipt())
    upstream = b"".join(source.feed(event) for event in unfold(response))
    translation = ExchangeCore("anthropic", "gemini").stream()
    text = (translation.feed(upstream) + translation.close()).decode()
    frames = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    starts = [frame for frame in frames if frame["type"] == "content_block_start"]
    assert [(frame["index"], frame["content_block"]["type"]) for frame in starts] == [
        (0, "text"),
        (1, "thinking"),
        (2, "tool_use"),
    ]
    signatures = [frame["delta"]["signature"] for frame in frames if frame.get("delta", {}).get("signature")]
    state = {"thoughtSignature": SIGNATURE}
    assert [unpack(signature) for signature in signatures] == [Envelope(owner="gemini", state=state, place="next_call")]


def streamed(client: str, owner: str, *content: Any) -> tuple[str, Receipt]:
    """What the client gets when the owner streams these blocks."""
    response = Response(id="r", model="m", content=content, stop=Stop("end"))
    source = DIALECTS[owner].stream_encoder(None, Receipt())
    exchange = ExchangeCore(client, owner)
    translation = exchange.stream()
    upstream = b"".join(source.feed(event) for event in unfold(response))
    return (translation.feed(upstream) + translation.close()).decode(), exchange.receipt


def opened(client: str, target: str, *messages: Message) -> tuple[Request, Context]:
    dialect = DIALECTS[target]
    context = Context(source=client, target=target, can=dialect.can, receipt=Receipt(), slots=DIALECTS[client].state)
    return open_envelopes(Request(model="m", messages=messages), context), context


def carried(text: str, client: str = "gemini", slot: str = "thoughtSignature", said: str = "") -> Thinking:
    envelope = Envelope(owner="anthropic", state={"signature": "S"}, text=text)
    return Thinking(text=said, native={client: {slot: pack(envelope), "thought": True}})


def bare(text: str) -> Thinking:
    return Thinking(text=text, native={"gemini": {"thought": True}})


@pytest.mark.parametrize(
    "returned",
    [
        (carried("one two three"),),
        (carried("one two three", said="a summary"),),
        (bare("one "), bare("two "), carried("one two three", said="three")),
        (carried("one two three", said="one "), bare("two "), bare("three")),
    ],
)
def test_a_signature_comes_back_with_the_text_that_it_signs(returned: tuple[Thinking, ...]) -> None:
    call = ToolCall(id="c", name="f")
    request, context = opened("gemini", "anthropic", Message(role="assistant", content=(*returned, call)))
    signed = Thinking(text="one two three", native={"anthropic": {"signature": "S"}})
    assert request.messages[0].content == (signed, call)
    assert context.carried
    place = next(index for index, block in enumerate(returned) if "thoughtSignature" in block.native["gemini"])
    assert [f"{line.severity} {line.where}" for line in context.receipt] == [f"note messages[0].content[{place}]"]


def test_other_reasoning_beside_an_envelope_stays() -> None:
    content = (bare("something else"), carried("one two"), Text(text="so"), bare("one"))
    request, _ = opened("gemini", "anthropic", Message(role="assistant", content=content))
    assert [block.text for block in request.messages[0].content if isinstance(block, Thinking)] == [
        "something else",
        "one two",
        "one",
    ]


def test_a_streamed_signature_travels_with_its_text() -> None:
    thought = Thinking(text="one two three", native={"anthropic": {"signature": "S"}})
    text, _ = streamed("gemini", "anthropic", thought, Text(text="so"))
    parts = [
        part
        for line in text.splitlines()
        if line.startswith("data: ")
        for part in json.loads(line[6:])["candidates"][0].get("content", {}).get("parts", [])
    ]
    on_thought, on_last_part = [part["thoughtSignature"] for part in parts if "thoughtSignature" in part]
    assert unpack(on_thought) == Envelope(owner="anthropic", state={"signature": "S"}, text="one two three")
    text_state = Text(text="", native={"anthropic": {LENGTH: len("so")}})
    assert unseal(on_last_part) == SealedState("anthropic", "", (thought, text_state))


def test_a_call_carries_the_state_of_the_reasoning_before_it() -> None:
    """Gemini CLI sends back no thoughts, but what stands on calls."""
    thought = Thinking(text="hm", native={"openai_responses": {"encrypted_content": "S", "id": "rs_1"}})
    calls = [ToolCall(id=name, name=name, arguments="{}") for name in ("f", "g")]
    given_out, receipt = respond("gemini", "openai_responses", thought, Text(text="so"), *calls)
    assert not receipt.losses
    kept = [block for block in given_out.content if not isinstance(block, Thinking)]
    on_calls = ["thoughtSignature" in native_of(block, "gemini") for block in kept if isinstance(block, ToolCall)]
    assert on_calls == [True, False]
    returned = send_back("gemini", "openai_responses", replace(given_out, content=tuple(kept)))
    assert [type(block) for message in returned.messages[1:] for block in message.content][:3] == [
        Thinking,
        Text,
        ToolCall,
    ]
    assert native_of(returned.messages[1].content[0], "openai_responses")["encrypted_content"] == "S"


def _thought(signature: str) -> Thinking:
    return Thinking(text=f"hm {signature}", native={"anthropic": {"signature": signature}})


F, G, H = (ToolCall(id=name, name=name, arguments="{}") for name in "fgh")


@pytest.mark.parametrize(
    ("answer", "sent"),
    [
        (
            (_thought("1"), Text(text="A."), _thought("2"), Text(text="B."), F, Text(text="C.")),
            (Text(text="A.B."), F, Text(text="C.")),
        ),
        (
            (_thought("1"), Text(text="A."), F, Text(text="B."), G, _thought("2"), Text(text="C."), H, Text(text="D.")),
            (Text(text="A."), F, Text(text="B."), G, Text(text="C."), H, Text(text="D.")),
        ),
        (
            (Text(text="A."), F, Text(text="B."), _thought("1"), Text(text="C."), G),
            (Text(text="A."), F, Text(text="B.C."), G),
        ),
    ],
    ids=["text behind the call", "call without state between", "call without state first"],
)
def test_state_on_a_call_is_that_of_the_blocks_before_it(answer: tuple[Block, ...], sent: tuple[Block, ...]) -> None:
    """Gemini CLI drops thoughts, joins texts and gives calls other ids. Texts behind the call have no part in the state
    that it carries."""
    given_out, _ = respond("gemini", "anthropic", *answer)
    slots = {block.id: block for block in given_out.content if isinstance(block, ToolCall)}
    content = tuple(
        replace(slots[block.id], id=f"{block.name}__{block.id}") if isinstance(block, ToolCall) else block
        for block in sent
    )
    returned = send_back("gemini", "anthropic", replace(given_out, content=content))
    blocks = [block for message in returned.messages if message.role == "assistant" for block in message.content]
    assert list(map(_seen, blocks)) == list(map(_seen, answer))


def _seen(block: Block) -> str:
    return block.name if isinstance(block, ToolCall) else getattr(block, "text", "")


def test_state_that_comes_back_twice_counts_once() -> None:
    """The client has kept the thought as well as what stands on the call."""
    thought = Thinking(text="hm", native={"openai_responses": {"encrypted_content": "S", "id": "rs_1"}})
    given_out, _ = respond("gemini", "openai_responses", thought, ToolCall(id="f", name="f", arguments="{}"))
    returned = send_back("gemini", "openai_responses", given_out)
    thinking = [block for message in returned.messages for block in message.content if isinstance(block, Thinking)]
    assert [native_of(block, "openai_responses")["encrypted_content"] for block in thinking] == ["S"]


def test_the_last_block_of_a_message_for_claude_code_is_the_text_that_it_prints() -> None:
    given_out, receipt = respond("anthropic", "gemini", Thinking(text="hm"), Text(text="so", native=own("gemini")))
    assert [type(block) for block in given_out.content] == [Thinking, Text]
    assert [line.what for line in receipt.losses] == ["reasoning state of the last text"]


@pytest.mark.parametrize(
    ("client", "behind"),
    [
        ("anthropic", (ToolCall(id="c", name="f", arguments="{}"),)),
        ("openai_responses", ()),
        ("openai_responses", (ToolCall(id="c", name="f", arguments="{}"),)),
    ],
)
def test_state_on_a_text_comes_back_to_its_owner_byte_for_byte(client: str, behind: tuple[Block, ...]) -> None:
    given_out, receipt = respond(client, "gemini", Text(text="so", native=own("gemini")), *behind)
    assert not receipt.losses
    returned = send_back(client, "gemini", given_out)
    texts = [block for block in returned.messages[1].content if isinstance(block, Text)]
    assert [(block.text, native_of(block, "gemini").get("thoughtSignature")) for block in texts] == [("so", SIGNATURE)]


CHAT_STATE = {"openai_chat": {"reasoning_details": [{"type": "reasoning.encrypted", "data": "d"}]}}
GOOGLE = {"openai_chat": {"extra_content": {"google": {"thought_signature": "c2ln"}}}}


@pytest.mark.parametrize(
    "content",
    [
        Text(text="so", native=own("gemini")),
        ToolCall(id="c", name="f", native=own("gemini")),
        Thinking(text="hm", native=own("gemini")),
        Thinking(native=CHAT_STATE),
        ToolCall(id="c", name="f", native=GOOGLE),
    ],
)
@pytest.mark.parametrize("kept", [True, False])
def test_state_that_a_client_cannot_carry_is_told_once(content: Any, kept: bool) -> None:
    (owner,) = content.native
    carrier = Carrier("warp", None, owner, DIALECTS[owner].state.slot, receipt := Receipt(), kept=kept)
    events = list(unfold(Response(content=(content,))))
    assert [out for event in events for out in carrier.feed(event)] == events
    assert [(line.severity, line.where, line.what) for line in receipt] == [
        ("note" if kept else "loss", "content[0]", "reasoning state")
    ]


@pytest.mark.parametrize("client", sorted(SLOTS))
def test_state_of_a_chat_server_comes_back_to_it_as_it_was(client: str) -> None:
    """OpenRouter's details of the reasoning, and Google's signature of a call."""
    thought = Thinking(text="hm", native=CHAT_STATE)
    call = ToolCall(id="c", name="f", arguments="{}", native=GOOGLE)
    given_out, receipt = respond(client, "openai_chat", thought, Text(text="so"), call)
    assert not receipt.losses
    returned = send_back(client, "openai_chat", given_out)
    content = [block for message in returned.messages for block in message.content]
    (thinking,) = [block for block in content if isinstance(block, Thinking)]
    assert thinking.text == "hm"
    assert native_of(thinking, "openai_chat")["reasoning_details"] == CHAT_STATE["openai_chat"]["reasoning_details"]
    assert [block.native for block in content if isinstance(block, ToolCall)] == [GOOGLE]
    for other in SLOTS:
        sent = DIALECTS[other].encode_request(send_back(client, other, given_out), Receipt())
        assert b"reasoning.encrypted" not in sent
        assert b"c2ln" not in sent


def test_state_on_an_image_is_told() -> None:
    image = Media(kind="image", source=Source("base64", "aGk=", "image/png"), native=own("gemini"))
    carrier = Carrier("anthropic", "signature", "gemini", "thoughtSignature", receipt := Receipt())
    events: list[Event] = [Start(), Open(0, image), Close(index=0)]
    assert [out for event in events for out in carrier.feed(event)] == events
    assert [line.what for line in receipt.losses] == ["reasoning state"]


def test_state_that_the_end_of_a_call_tells_stands_behind_it() -> None:
    carrier = Carrier("anthropic", "signature", "gemini", "thoughtSignature", Receipt())
    call = ToolCall(id="c", name="f")
    events: list[Event] = [Start(), Open(0, call), Close(index=0, native=own("gemini")), Open(1, Text(text=""))]
    out = [out for event in events for out in carrier.feed(event)]
    envelope = pack(Envelope(owner="gemini", state=own("gemini")["gemini"], place="last_call"))
    slot = Thinking(native={"anthropic": {"signature": envelope}})
    assert out[3:] == [
        Open(1, slot),
        Close(index=1),
        Open(2, Text(text="")),
    ]
    request, _ = opened("anthropic", "gemini", Message(role="assistant", content=(call, slot)))
    assert request.messages[0].content == (ToolCall(id="c", name="f", native=own("gemini")),)


def test_state_behind_a_call_can_be_moved_before_it() -> None:
    call = ToolCall(id="c", name="f")
    envelope = pack(Envelope(owner="gemini", state=own("gemini")["gemini"], place="last_call"))
    moved = move_before_call(Thinking(native={"anthropic": {"signature": envelope}}), "anthropic", "signature")
    assert moved is not None
    request, _ = opened("anthropic", "gemini", Message(role="assistant", content=(moved, call)))
    assert request.messages[0].content == (ToolCall(id="c", name="f", native=own("gemini")),)
    for other in (moved, call, Thinking(text="hm"), Thinking(native={"anthropic": {"signature": "S"}})):
        assert move_before_call(other, "anthropic", "signature") is None


@pytest.mark.parametrize(
    ("place", "target", "texts"),
    [("last_text", "gemini", 1), ("last_text", "anthropic", 0), ("last_call", "gemini", 0)],
)
def test_state_of_a_text_that_the_client_left_out_stands_on_an_empty_one_for_its_owner(
    place: Any, target: str, texts: int
) -> None:
    envelope = pack(Envelope(owner="gemini", state=own("gemini")["gemini"], place=place))
    slot = Thinking(native={"anthropic": {"signature": envelope}})
    request, _ = opened("anthropic", target, Message(role="assistant", content=(slot, bare("x"))))
    content = request.messages[0].content
    assert [block for block in content if isinstance(block, Text)] == [Text(text="", native=own("gemini"))] * texts


def test_the_target_demands_what_it_always_does_of_a_history_with_others_turns() -> None:
    """A Claude client, Claude behind it, and a turn of Gemini in between: Claude has not thought before that call."""
    envelope = pack(Envelope(owner="gemini", state={"thoughtSignature": "x"}, text="hm"))
    content = [
        {"type": "thinking", "thinking": "hm", "signature": envelope},
        {"type": "tool_use", "id": "c", "name": "f", "input": {}},
    ]
    document = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 4000,
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}}],
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": content},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "ok"}]},
        ],
    }
    exchange = ExchangeCore("anthropic", "anthropic")
    sent = json.loads(exchange.request(document))
    assert sent["thinking"] == {"type": "disabled"}
    assert [line.where for line in exchange.receipt.losses] == ["messages[1]", "reasoning"]


def test_state_travels_on_the_next_call_where_one_cannot_be_read() -> None:
    """Gemini clients get a text in its place, and that carries nothing that all of them return."""
    thought = Thinking(text="hm", native={"openai_responses": {"encrypted_content": "S", "id": "rs_1"}})
    broken = ToolCall(id="a", name="f", arguments='{"a":')
    given_out, receipt = respond(
        "gemini", "openai_responses", thought, broken, ToolCall(id="b", name="g", arguments="{}")
    )
    calls = [block for block in given_out.content if isinstance(block, ToolCall)]
    assert [(call.name, "thoughtSignature" in native_of(call, "gemini")) for call in calls] == [("g", True)]
    assert [line.what for line in receipt.losses] == ["call of f"]
    returned = send_back("gemini", "openai_responses", given_out)
    thinking = [block for message in returned.messages for block in message.content if isinstance(block, Thinking)]
    assert [native_of(block, "openai_responses").get("encrypted_content") for block in thinking] == ["S"]
