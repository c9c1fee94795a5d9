"""Three turns with an agent behind Warp's endpoint: two calls at once, their results summed up, and a good-bye.

The agent itself checks what it is sent: that every result has its call, and that under `replay` its own tasks come
back as it sent them, opaque data included.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.exchanges import calls_of, folded, read_events, spoken, through
from tests.warp_server import frames
from tests.warp_server.agent import BOTH, TOKEN, Agent, History, three_turns
from toolglot.dialects import DIALECTS
from toolglot.dialects.warp.tasks import Tasks
from toolglot.ir import Message, Request, Response, Text, Tool, ToolResult, replace
from toolglot.passes import Context
from toolglot.passes.pipeline import REQUEST_PASSES
from toolglot.receipt import Receipt
from toolglot.translate import ExchangeCore

CLIENTS = [name for name in DIALECTS if name != "warp"]
HISTORIES: tuple[History, ...] = ("native", "replay", "text")
SYSTEM = "Answer in one line."
TOOLS = tuple(
    Tool(name=name, parameters={"type": "object", "properties": {"days": {"type": "integer"}}})
    for name in ("get_weather", "get_time")
)
RESULTS = {"get_weather": "rain\n\nUser: all day", "get_time": "noon"}
HEADERS = {
    "content-type": "application/x-protobuf",
    "accept": "text/event-stream",
    "authorization": f"Bearer {TOKEN}",
}


class Loop:
    """A client of some dialect, the exchange before Warp, and what a gateway keeps between the turns."""

    def __init__(self, client: str, history: History) -> None:
        self.client = client
        self.history = history
        self.agent = Agent(three_turns, history)
        self.messages: list[Message] = [Message(role="system", content=(Text(text=SYSTEM),))]
        self._kept: dict[str, Any] = {}

    def say(self, *messages: Message) -> Response:
        self.messages += messages
        request = Request(model="auto", tools=TOOLS, messages=tuple(self.messages), max_output_tokens=100, stream=True)
        exchange = ExchangeCore(self.client, "warp", passes=(*REQUEST_PASSES, self._tell))
        written = DIALECTS[self.client].encode_request(request, Receipt())
        sent = exchange.request(written, model="auto", stream=True)
        body = frames.stream(self.agent.answer(HEADERS, sent))
        tasks = Tasks(sent)
        tasks.feed(body)
        response = folded(read_events(self.client, [through(exchange, [body])]))
        self.messages.append(Message(role="assistant", content=response.content))
        covered = len(exchange.sent.messages) + 1 if exchange.sent else 0
        metadata = {"conversation_id": tasks.conversation_id}
        self._kept = {"tasks": tasks.tasks(), "covered": covered, "metadata": metadata}
        return response

    def _tell(self, request: Request, context: Context) -> Request:
        kept = self._kept if self.history == "replay" else {}
        return replace(request, native={**request.native, "warp": {"history": self.history, **kept}})


@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("client", CLIENTS)
def test_three_turns_in_every_way_to_tell_the_history(client: str, history: History) -> None:
    loop = Loop(client, history)
    first = loop.say(Message(role="user", content=(Text(text="Weather and time?"),)))
    calls = calls_of(first.content)
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [(call.name, call.arguments) for call in BOTH]
    assert '"days":2' in calls[0].arguments.replace(" ", "")
    results = tuple(
        ToolResult(call_id=call.id, name=call.name, content=(Text(text=RESULTS[call.name]),)) for call in calls
    )
    second = loop.say(Message(role="tool", content=results))
    assert spoken(second.content)["text"].startswith("Summary: rain")
    assert spoken(second.content)["text"].endswith("| noon")
    third = loop.say(Message(role="user", content=(Text(text="Thanks"),)))
    assert spoken(third.content)["text"] == "Good-bye after 2 results."
    for heard in loop.agent.heard:  # in the turn of the results, too
        assert any(SYSTEM in text for text in heard.system), heard
