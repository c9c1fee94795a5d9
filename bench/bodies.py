"""What is measured: streams, requests and arguments of a fixed size, in each dialect's own words.

Everything is made by encoding one value in each dialect, so that the pairs are comparable.
"""

from __future__ import annotations

from toolglot.dialects import DIALECTS
from toolglot.events import Close, Delta, Event, Finish, Open, Start
from toolglot.ir import Message, Request, Stop, Text, Tool, ToolCall, ToolResult, Usage
from toolglot.receipt import Receipt

WORD = "the quick brown fox "
USAGE = Usage(input_tokens=1000, output_tokens=400)


def answer(chunks: int) -> list[Event]:
    """Half text, half arguments of one call, in this many deltas."""
    half = chunks // 2
    arguments = ['{"text":"', *[WORD] * (half - 2), '"}']
    return [
        Start(id="resp_1", model="model", created=1),
        Open(0, Text(text="")),
        *(Delta(0, WORD) for _ in range(half)),
        Close(index=0),
        Open(1, ToolCall(id="call_1", name="write_file")),
        *(Delta(1, piece) for piece in arguments),
        Close(index=1),
        Finish(stop=Stop("tool_calls"), usage=USAGE),
    ]


def long_block(block: Text | ToolCall, deltas: int, size: int) -> list[Event]:
    """One block, a call's arguments or a text, that comes in this many pieces of this size."""
    pieces = ['{"text":"', *["x" * size] * (deltas - 2), '"}']
    return [
        Start(id="resp_1", model="model", created=1),
        Open(0, block),
        *(Delta(0, piece) for piece in pieces),
        Close(index=0),
        Finish(stop=Stop("tool_calls" if isinstance(block, ToolCall) else "end"), usage=USAGE),
    ]


def long_stream(dialect: str, deltas: int, size: int) -> tuple[str, list[bytes]]:
    """A call whose arguments come in many deltas; a text where the dialect has its calls whole (Gemini)."""
    frames = stream(dialect, long_block(ToolCall(id="call_1", name="write_file"), deltas, size))
    if len(frames) >= deltas:
        return "arguments", frames
    return "text", stream(dialect, long_block(Text(text=""), deltas, size))


def stream(dialect: str, events: list[Event]) -> list[bytes]:
    """The events as this dialect's frames, one chunk for each event that says anything."""
    encoder = DIALECTS[dialect].stream_encoder(None, Receipt())
    return [frame for event in events if (frame := encoder.feed(event))]


def request(dialect: str, tools: int, size: int) -> bytes:
    """A request of about `size` bytes with this many tools and a tool conversation."""
    properties = {f"field_{number}": {"type": "string", "description": WORD * 2} for number in range(6)}
    schema = {"type": "object", "properties": properties, "required": ["field_0"], "additionalProperties": False}
    offered = tuple(Tool(name=f"tool_{number}", description=WORD * 4, parameters=schema) for number in range(tools))
    messages = [Message(role="system", content=(Text(text=WORD * 20),))]
    turn = 0
    while True:
        messages += _turn(turn)
        turn += 1
        whole = Request(model="model", messages=tuple(messages), tools=offered, max_output_tokens=1000, stream=True)
        if turn % 10 == 0 and len(encoded := DIALECTS[dialect].encode_request(whole, Receipt())) >= size:
            return encoded


def _turn(number: int) -> list[Message]:
    call = ToolCall(id=f"call_{number}", name="tool_1", arguments='{"field_0":"' + WORD + '"}')
    result = ToolResult(call_id=call.id, name="tool_1", content=(Text(text=WORD * 15),))
    return [
        Message(role="user", content=(Text(text=WORD * 5),)),
        Message(role="assistant", content=(Text(text=WORD), call)),
        Message(role="tool", content=(result,)),
        Message(role="assistant", content=(Text(text=WORD * 3),)),
    ]
