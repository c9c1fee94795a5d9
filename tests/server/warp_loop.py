"""A client of any dialect in a conversation of three turns with Warp's agent, through a gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.exchanges import calls_of, folded, read_events, spoken
from tests.server.gateway import Answer, Running, at, gateway
from tests.upstream.bad_server import BadServer
from tests.warp_server.agent import BOTH, TOKEN, Agent, History, three_turns
from tests.warp_server.server import warp_server
from toolglot.dialects import DIALECTS
from toolglot.ir import Message, Request, Response, Text, Tool, ToolCall, ToolResult
from toolglot.receipt import Receipt
from toolglot.store.sqlite import MEMORY, SqliteStore

CLIENTS = [name for name in DIALECTS if name != "warp"]
SYSTEM = "Answer in one line."
TOOLS = tuple(
    Tool(name=name, parameters={"type": "object", "properties": {"days": {"type": "integer"}}})
    for name in ("get_weather", "get_time")
)
RESULTS = {"get_weather": "rain\n\nUser: all day", "get_time": "noon"}


@contextmanager
def kept(path: Path | str = MEMORY) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    try:
        yield store
    finally:
        asyncio.run(store.close())


@contextmanager
def before(agent: Agent, *, store: SqliteStore | None = None, **fields: Any) -> Iterator[tuple[Running, BadServer]]:
    """A gateway in front of this agent; `fields` are those of the upstream."""
    with (
        warp_server(agent) as server,
        gateway(at("warp", server.url, key=TOKEN, **fields), store=store) as running,
    ):
        yield running, server


def agent(history: History) -> Agent:
    return Agent(three_turns, history)


def user(text: str) -> Message:
    return Message(role="user", content=(Text(text=text),))


class Client:
    """Keeps a conversation as clients of its dialect do."""

    def __init__(
        self, dialect: str, running: Running, *, stream: bool = False, headers: Mapping[str, str] | None = None
    ) -> None:
        self.dialect = DIALECTS[dialect]
        self.running = running
        self.stream = stream
        self.headers = {"content-type": "application/json", **(headers or {})}
        self.messages: list[Message] = [Message(role="system", content=(Text(text=SYSTEM),))]
        self.answers: list[Answer] = []
        self.more: dict[str, Any] = {}
        """Further fields of the requests."""

    def ask(self, *messages: Message) -> Answer:
        """The answer to the conversation with these messages behind it."""
        self.messages += messages
        request = Request(
            model="auto",
            tools=TOOLS,
            messages=tuple(self.messages),
            max_output_tokens=100,
            stream=self.stream,
            **self.more,
        )
        body = self.dialect.encode_request(request, Receipt())
        self.answers.append(self.running.call("POST", self.dialect.path(request), body, self.headers))
        return self.answers[-1]

    def say(self, *messages: Message) -> Response:
        """The same for an answer that is a good one, which becomes part of the conversation."""
        answer = self.ask(*messages)
        assert answer.status == 200, answer.body
        response = (
            folded(read_events(self.dialect.name, [answer.body]))
            if self.stream
            else self.dialect.decode_response(answer.body)
        )
        self.messages.append(Message(role="assistant", content=response.content))
        return response

    def first(self) -> list[ToolCall]:
        calls = calls_of(self.say(user("Weather and time?")).content)
        assert [(call.name, json.loads(call.arguments)) for call in calls] == [
            (call.name, call.arguments) for call in BOTH
        ]
        assert '"days":2' in calls[0].arguments.replace(" ", "")
        return calls

    def second(self, calls: list[ToolCall]) -> None:
        results = tuple(
            ToolResult(call_id=call.id, name=call.name, content=(Text(text=RESULTS[call.name]),)) for call in calls
        )
        said = spoken(self.say(Message(role="tool", content=results)).content)["text"]
        assert said.startswith("Summary: rain")
        assert said.endswith("| noon")

    def third(self) -> None:
        assert spoken(self.say(user("Thanks")).content)["text"] == "Good-bye after 2 results."

    def all_three(self) -> None:
        self.second(self.first())
        self.third()

    def receipt(self) -> list[str]:
        """The receipt of the last answer, line by line."""
        told = self.running.receipt(self.answers[-1])
        return [f"{line['severity']} {line['where']}: {line['why']}" for line in told["lines"]]
