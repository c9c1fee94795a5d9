"""State of other vendors in the answers of a Chat client: sealed, echoed, back to its owner alone, byte for byte."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot import DIALECTS
from toolglot.events import Close, Event, Finish, Open, Start, unfold
from toolglot.ir import Block, Media, Response, Source, Stop, Text, Thinking, ToolCall, native_of
from toolglot.passes.answer_state import PHASE, SealedState, issuer_of, seal, unseal
from toolglot.passes.details import DetailsCarrier
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

SEAL = "dG9vbGdsb3QA"
SIGNATURE = base64.b64encode(b"signed by its owner").decode()
MODELS = {"anthropic": "claude-sonnet-4-5", "gemini": "gemini-3-pro", "openai_responses": "gpt-5", "openai_chat": "m"}
PARAMETERS = {"type": "object", "properties": {}}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": PARAMETERS}} for name in ("f", "g")]
GO = {"role": "user", "content": "go"}


def claude(text: str, signature: str) -> Thinking:
    return Thinking(text=text, native={"anthropic": {"signature": signature}})


def gemini(kind: type[Text] | type[ToolCall], **fields: Any) -> Block:
    return kind(**fields, native={"gemini": {"thoughtSignature": SIGNATURE}})


REASONED = Thinking(
    text="hm",
    native={
        "openai_responses": {
            "id": "rs_1",
            "encrypted_content": SIGNATURE,
            "summary": [{"type": "summary_text", "text": "hm"}],
        }
    },
)
SILENT = Thinking(native={"openai_responses": {"id": "rs_2", "encrypted_content": "QQ==", "summary": []}})
REDACTED = Thinking(native={"anthropic": {"data": SIGNATURE, "$redacted": True}})
CALLS = (ToolCall(id="c", name="f", arguments="{}"), ToolCall(id="d", name="g", arguments="{}"))
ANSWERS: dict[str, tuple[str, tuple[Block, ...]]] = {
    "claude": ("anthropic", (claude("hm", SIGNATURE), Text(text="so"), *CALLS)),
    "claude thinks between calls": ("anthropic", (claude("a", "QQ=="), CALLS[0], claude("b", SIGNATURE), CALLS[1])),
    "claude redacts": ("anthropic", (REDACTED, Text(text="so"), CALLS[0])),
    "claude redacts in the middle": (
        "anthropic",
        (claude("a", "QQ=="), REDACTED, Text(text="so"), CALLS[0], claude("b", SIGNATURE), CALLS[1]),
    ),
    "gemini signs a call": ("gemini", (Text(text="so"), gemini(ToolCall, id="c", name="f", arguments="{}"), CALLS[1])),
    "gemini signs a text": ("gemini", (gemini(Text, text="so"),)),
    "gpt without a summary in the middle": ("openai_responses", (REASONED, CALLS[0], SILENT, CALLS[1])),
    "gpt": ("openai_responses", (REASONED, Text(text="so"), *CALLS)),
}


def answered(client: ExchangeCore, content: tuple[Block, ...], *, stream: bool) -> dict[str, Any]:
    """The message that a client has which keeps what it was given, as OpenAI's accumulators put a stream together."""
    response = Response(id="r", model="m", content=content, stop=Stop("tool_calls"))
    if not stream:
        restored = client.restore(response)
        data = DIALECTS["openai_chat"].encode_response(restored, client.asked, client.receipt)
        message: dict[str, Any] = json.loads(data)["choices"][0]["message"]
        return {key: value for key, value in message.items() if value is not None}
    source = client.upstream.stream_encoder(None, Receipt())
    translation = client.stream()
    data = translation.feed(b"".join(source.feed(event) for event in unfold(response))) + translation.close()
    chunks = [json.loads(line[6:]) for line in data.decode().splitlines() if line.startswith("data: {")]
    return accumulated([chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]])


def accumulated(deltas: list[dict[str, Any]]) -> dict[str, Any]:
    """By the rules of both SDKs: texts grow, the last of anything else stays, and it comes once."""
    message: dict[str, Any] = {}
    for delta in deltas:
        for key, value in delta.items():
            if key == "tool_calls":
                listed = message.setdefault(key, [])
                for piece in value:
                    index = piece["index"]
                    if index == len(listed):
                        listed.append({name: part for name, part in piece.items() if name != "index"})
                    else:
                        listed[index]["function"]["arguments"] += piece.get("function", {}).get("arguments", "")
                        listed[index] |= {"extra_content": piece["extra_content"]} if "extra_content" in piece else {}
            elif isinstance(value, str):
                message[key] = message.get(key, "") + value
            else:
                assert key not in message
                message[key] = value
    return message


def asked(target: str, *messages: dict[str, Any], **fields: Any) -> tuple[ExchangeCore, bytes]:
    exchange = ExchangeCore("openai_chat", target, **fields)
    calls = [call for message in messages for call in message.get("tool_calls", ())]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in calls]
    body = {"model": MODELS[target], "messages": [GO, *messages, *results], "tools": TOOLS}
    return exchange, exchange.request(body)


def back(target: str, message: dict[str, Any], **fields: Any) -> tuple[list[Block], bytes, Receipt]:
    """The answer as the target gets it, when the client goes on."""
    exchange, sent = asked(target, message, **fields)
    decoded = DIALECTS[target].decode_request(sent)
    blocks = [block for each in decoded.messages if each.role == "assistant" for block in each.content]
    return blocks, sent, exchange.receipt


def state(content: Any, owner: str) -> list[Any]:
    """What the owner put on an answer, in its order."""
    keys = ("signature", "data", "thoughtSignature", "encrypted_content")
    found = [(type(block), block, native_of(block, owner)) for block in content]
    return [
        (kind.__name__, block.text if isinstance(block, Thinking) else "", {key: fields.get(key) for key in keys})
        for kind, block, fields in found
        if kind in (Thinking, ToolCall) or any(key in fields for key in keys)
    ]


def told(receipt: Receipt) -> list[str]:
    return [f"{line.severity} {line.where}: {line.why}" for line in receipt if line.what == "reasoning state"]


@pytest.mark.parametrize("name", list(ANSWERS))
def test_reasoning_reads_the_same_in_a_stream_and_in_a_whole_answer(name: str) -> None:
    owner, content = ANSWERS[name]
    streamed, whole = (answered(asked(owner)[0], content, stream=stream) for stream in (True, False))
    assert streamed.get("reasoning_content") == whole.get("reasoning_content")
    thoughts = [block.text for block in content if isinstance(block, Thinking) and block.text]
    assert whole.get("reasoning_content", "") == "\n\n".join(thoughts)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", list(ANSWERS))
def test_state_comes_back_to_its_owner_byte_for_byte_and_to_nobody_else(name: str, stream: bool) -> None:
    owner, content = ANSWERS[name]
    first, _ = asked(owner)
    message = answered(first, content, stream=stream)
    assert told(first.receipt) == ["note content: it is carried in reasoning_details of the client's message"]
    assert not first.receipt.losses
    for target in MODELS:
        blocks, sent, receipt = back(target, message)
        assert SEAL.encode() not in sent
        if target == owner:
            assert state(blocks, owner) == state(content, owner)
            assert not [line for line in receipt.losses if line.where.startswith("messages")]
            assert told(receipt)[0] == f"note messages[1]: the client carried it for {owner}"
        else:
            assert SIGNATURE.encode() not in sent
            assert f"note messages[1]: the client carried it for {owner}; it is sent only there" in told(receipt)


def test_the_words_that_a_client_has_are_not_told_twice() -> None:
    _, content = ANSWERS["claude thinks between calls"]
    first, _ = asked("anthropic")
    for stream in (True, False):
        message = answered(first, content, stream=stream)
        assert message["reasoning_content"] == "a\n\nb"
        blocks, _, receipt = back("anthropic", message)
        assert [block.text for block in blocks if isinstance(block, Thinking)] == ["a", "b"]
        assert not receipt.losses


@pytest.mark.parametrize("left", ["reasoning_details", "extra_content"])
def test_either_field_is_enough_for_the_signature_of_a_call(left: str) -> None:
    owner, content = ANSWERS["gemini signs a call"]
    first, _ = asked(owner)
    message = answered(first, content, stream=True)
    if left == "reasoning_details":
        del message["tool_calls"][0]["extra_content"]
    else:
        del message["reasoning_details"]
    blocks, sent, _ = back("gemini", message)
    assert state(blocks, "gemini") == state(content, "gemini")
    assert b"skip_thought_signature_validator" not in sent


def test_a_signature_that_only_the_end_of_a_call_tells_stands_on_it() -> None:
    carrier = DetailsCarrier("openai_chat", "reasoning_details", "gemini", "", Receipt(), kept=False)
    signed = {"gemini": {"thoughtSignature": SIGNATURE}}
    events: list[Event] = [Start(), Open(0, ToolCall(id="c", name="f")), Close(index=0, native=signed)]
    *_, close = [out for event in events for out in carrier.feed(event)]
    assert isinstance(close, Close)
    sealed = close.native["openai_chat"]["extra_content"]["google"]["thought_signature"]
    assert unseal(sealed) == SealedState("gemini", "", (ToolCall(id="c", name="f", native=signed),))


def test_a_phase_is_carried() -> None:
    text = Text(text="so", native={"openai_responses": {"$item": {"phase": "commentary", "id": "msg_1"}}})
    first, _ = asked("openai_responses")
    message = answered(first, (text, CALLS[0]), stream=False)
    _, sent, _ = back("openai_responses", message)
    assert [item.get("phase") for item in json.loads(sent)["input"] if item.get("role") == "assistant"] == [
        "commentary"
    ]


@pytest.mark.parametrize(
    ("owner", "content"),
    [
        ("anthropic", (Text(text="so"), *CALLS)),
        ("gemini", (Thinking(text="hm", native={"gemini": {"thought": True}}), Text(text="so"))),
        ("openai_chat", (Thinking(text="hm", native={"openai_chat": {"reasoning_details": [{"a": 1}]}}),)),
        ("warp", (Thinking(text="hm", native={"warp": {"x": 1}}),)),
    ],
)
def test_nothing_is_added_where_there_is_nothing_to_carry(owner: str, content: tuple[Block, ...]) -> None:
    carrier = DetailsCarrier("openai_chat", "reasoning_details", owner, "", receipt := Receipt(), kept=False)
    events = list(unfold(Response(content=content)))
    assert [out for event in events for out in carrier.feed(event)] == events
    assert list(receipt) == []


def test_what_is_kept_elsewhere_too_is_told() -> None:
    carrier = DetailsCarrier("openai_chat", "reasoning_details", "anthropic", "", receipt := Receipt(), kept=True)
    for event in unfold(Response(content=(claude("hm", "s"),))):
        carrier.feed(event)
    why = "it is carried in reasoning_details of the client's message; it is kept here for anthropic as well"
    assert told(receipt) == [f"note content: {why}"]


def test_state_on_an_image_is_told() -> None:
    image = Media(
        kind="image", source=Source("base64", "aGk=", "image/png"), native={"gemini": {"thoughtSignature": "s"}}
    )
    carrier = DetailsCarrier("openai_chat", "reasoning_details", "gemini", "", receipt := Receipt(), kept=True)
    events: list[Event] = [Start(), Open(0, image), Close(index=0), Finish(stop=Stop("end"))]
    assert [out for event in events for out in carrier.feed(event)] == events
    assert told(receipt) == ["loss content[0]: the client's API has no field that carries it"]


# Who gets it back


def test_another_model_of_the_same_vendor_gets_none() -> None:
    owner, content = ANSWERS["claude"]
    first, _ = asked(owner)
    message = answered(first, content, stream=False)
    _, sent, receipt = back(owner, message, model="claude-opus-4-1")
    assert SIGNATURE.encode() not in sent
    assert told(receipt) == [
        "note messages[1]: the client carried it for anthropic; another server or model created it"
    ]


def test_another_server_of_the_same_vendor_gets_none() -> None:
    owner, content = ANSWERS["gpt"]
    first, _ = asked(owner, issuer="one")
    message = answered(first, content, stream=False)
    assert SIGNATURE.encode() in back(owner, message, issuer="one")[1]
    assert SIGNATURE.encode() not in back(owner, message, issuer="two")[1]


def test_any_model_of_gemini_takes_its_state_and_one_that_is_not_known_counts_as_the_same() -> None:
    owner, content = ANSWERS["gemini signs a call"]
    first, _ = asked(owner)
    message = answered(first, content, stream=False)
    assert state(back(owner, message, model="gemini-3-flash")[0], owner) == state(content, owner)
    _, content = ANSWERS["claude"]
    nobody = answered(ExchangeCore("openai_chat", "anthropic"), content, stream=False)
    assert state(back("anthropic", nobody)[0], "anthropic") == state(content, "anthropic")


def test_a_client_learns_neither_the_server_nor_the_model() -> None:
    marked = issuer_of("https://secret.test", "anthropic", "claude-opus")
    assert len(marked) == 16
    assert "opus" not in base64.b64decode(seal(SealedState("anthropic", marked, ()))).decode()


def test_googles_own_signatures_go_to_gemini_and_back_to_chat_servers() -> None:
    extra = {"google": {"thought_signature": SIGNATURE}}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}, "extra_content": extra}
    message = {"role": "assistant", "content": "so", "tool_calls": [call]}
    blocks, _, receipt = back("gemini", message)
    assert [native_of(block, "gemini").get("thoughtSignature") for block in blocks] == [None, SIGNATURE]
    assert not receipt.losses
    assert json.loads(back("openai_chat", message)[1])["messages"][1] == message
    _, sent, receipt = back("anthropic", message)
    assert SIGNATURE.encode() not in sent
    assert told(receipt) == ["note messages[1]: signatures go back only to the model that made them"]


@pytest.mark.parametrize("odd", ["not base64!", "", None, 5, {"a": 1}])
def test_what_is_no_signature_is_not_shown_to_gemini(odd: Any) -> None:
    extra = {"google": {"thought_signature": odd}}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}, "extra_content": extra}
    blocks, _, _ = back("gemini", {"role": "assistant", "tool_calls": [call]})
    marked = "skip_thought_signature_validator"
    assert [native_of(block, "gemini").get("thoughtSignature") for block in blocks] == [marked]


# What anybody can write


def forged(content: Any) -> str:
    return base64.b64encode(b"toolglot\0" + json.dumps(content).encode()).decode()


UNREADABLE = [
    "",
    "AAAA",
    "!",
    *(
        forged(content)[len(SEAL) :]
        for content in (
            [],
            ["nobody", "", []],
            ["anthropic", 5, []],
            ["anthropic", "", {}],
            ["anthropic", "", [5]],
            ["anthropic", "", [["thinking", {}, 5]]],
            ["anthropic", "", [["call", {}, "c"]]],
            ["anthropic", "", [["text", []]]],
            ["anthropic", "", [["tool_result", {}, "c", "ok"]]],
            ["anthropic", "here", {"signature": "s"}, "hm"],
        )
    ),
]


@pytest.mark.parametrize("target", list(MODELS))
@pytest.mark.parametrize("rest", UNREADABLE)
def test_what_cannot_be_read_is_dropped_and_told(rest: str, target: str) -> None:
    entry = {"type": "reasoning.encrypted", "data": SEAL + rest, "index": 0}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": "so", "reasoning_details": [entry], "tool_calls": [call]}
    _, sent, receipt = back(target, message)
    assert SEAL.encode() not in sent
    assert told(receipt) == ["loss messages[1]: what the client carried cannot be read"]
    signed = {**call, "extra_content": {"google": {"thought_signature": SEAL + rest}, "other": 1}}
    _, sent, receipt = back(target, {"role": "assistant", "content": "so", "tool_calls": [signed]})
    assert SEAL.encode() not in sent
    assert told(receipt)[0] == "loss messages[1]: what the client carried cannot be read"


@pytest.mark.parametrize(
    ("owner", "written", "kept"),
    [
        ("anthropic", ["thinking", {"signature": 5, "data": "d", "type": "text"}, "t"], {"data": "d"}),
        ("openai_responses", ["thinking", {"summary": 5, "role": "system", "id": "rs_1"}, ""], {"id": "rs_1"}),
        ("openai_responses", ["text", {PHASE: 5, "$item": {"role": "system"}}], {}),
        ("openai_responses", ["text", {PHASE: "final_answer"}], {PHASE: "final_answer"}),
        ("gemini", ["call", {"thoughtSignature": {}, "functionCall": {"name": "rm"}}, "c", "f"], {}),
        ("gemini", ["text", {"thoughtSignature": "s", "text": "x"}], {"thoughtSignature": "s"}),
        ("anthropic", ["call", {"signature": "s"}, "c", "f"], {}),
    ],
)
def test_a_forged_seal_says_no_more_than_state(owner: str, written: list[Any], kept: dict[str, Any]) -> None:
    opened = unseal(forged([owner, "", [written]]))
    assert opened is not None
    assert [native_of(each, owner) for each in opened.states] == [kept]


def test_a_forged_seal_adds_no_call_and_no_words() -> None:
    states = [["call", {}, "evil", "rm"], ["text", {}], ["call", {}, "c", "other"]]
    entry = {"type": "reasoning.encrypted", "data": forged(["anthropic", "", states])}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": "so", "reasoning_details": [entry], "tool_calls": [call]}
    blocks, _, _ = back("anthropic", message)
    assert [getattr(block, "text", getattr(block, "name", "")) for block in blocks] == ["so", "f"]


@pytest.mark.parametrize("target", list(MODELS))
@given(value=st.recursive(st.none() | st.booleans() | st.text() | st.integers(), lambda inner: st.lists(inner)))
def test_no_forged_seal_crashes_or_is_seen(target: str, value: Any) -> None:
    for content in (value, ["anthropic", "", value], ["gemini", "", [["call", {"thoughtSignature": value}, "c", "f"]]]):
        entry = {"type": "reasoning.encrypted", "data": forged(content)}
        _, sent, _ = back(target, {"role": "assistant", "content": "so", "reasoning_details": [entry]})
        assert SEAL.encode() not in sent


@pytest.mark.parametrize("kept_by", [(0,), (1,), (0, 1)], ids=["first", "last", "each"])
@pytest.mark.parametrize(
    "name", ["claude", "claude thinks between calls", "gpt without a summary in the middle", "gpt"]
)
def test_an_answer_whose_calls_the_client_sends_one_by_one_is_whole_again(name: str, kept_by: tuple[int, ...]) -> None:
    owner, content = ANSWERS[name]
    message = answered(asked(owner)[0], content, stream=False)
    calls, entries = message.pop("tool_calls"), message.pop("reasoning_details")
    split = [{"role": "assistant", "content": message.get("content"), "tool_calls": calls[:1]}]
    split.append({"role": "assistant", "content": None, "tool_calls": calls[1:]})
    history: list[dict[str, Any]] = [GO]
    for number, each in enumerate(split):
        history.append({**each, "reasoning_details": entries} if number in kept_by else each)
        history.append({"role": "tool", "tool_call_id": each["tool_calls"][0]["id"], "content": "ok"})
    exchange = ExchangeCore("openai_chat", owner)
    sent = exchange.request({"model": MODELS[owner], "messages": history, "tools": TOOLS})
    messages = [each for each in DIALECTS[owner].decode_request(sent).messages if each.role == "assistant"]
    assert state([block for each in messages for block in each.content], owner) == state(content, owner)
    assert len(messages) == 1 or owner == "openai_responses"  # whose items are messages
    assert not exchange.receipt.losses


def test_other_details_beside_ours_stay_for_their_owner() -> None:
    own = {"type": "reasoning.encrypted", "data": "gAAA==", "index": 0}
    ours = {"type": "reasoning.encrypted", "data": seal(SealedState("anthropic", "", (claude("hm", "s"),))), "index": 1}
    message = {"role": "assistant", "content": "so", "reasoning_details": [own, ours]}
    _, sent, _ = back("openai_chat", message)
    assert json.loads(sent)["messages"][1]["reasoning_details"] == [own]
    blocks, _, _ = back("anthropic", message)
    assert state(blocks, "anthropic") == state([claude("hm", "s")], "anthropic")


def test_a_history_without_seals_is_left_as_it_is() -> None:
    message = {"role": "assistant", "content": "so", "reasoning_content": "hm"}
    exchange = ExchangeCore("openai_chat", "openai_chat")
    data = json.dumps({"model": "m", "messages": [GO, message, GO]}).encode()
    assert exchange.request(data) == data
    assert exchange.verbatim
