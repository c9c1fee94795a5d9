"""The upstreams of these tests: they follow a script, refuse what real ones refuse, and remember what they are told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Protocol

from tests.e2e.agents.text_model import HERMES
from tests.e2e.loopback import Asked, Loopback, Reply
from tests.e2e.scripted import Script, Seen, spoken
from tests.e2e.sdk_types import check
from tests.e2e.sdks.received import READERS, Called, Received, Result
from tests.e2e.test_tool_loops import EXTENSION
from tests.e2e.wires import WIRES, Turn
from tests.upstream.bad_server import BadServer, Peer, expect
from tests.warp_server import agent as warp
from tests.warp_server.messages import Tree, decode
from tests.warp_server.scripts import Called as WarpCalled
from tests.warp_server.server import answering

from .strict import refusals

TEXT = "text"
"""A model without tools of its own, behind Chat Completions."""
TEXT_FORMAT = "hermes"
UPSTREAMS = (*WIRES, TEXT, "warp")


def unplayed(seen: Seen) -> Turn:
    raise AssertionError("no script is played")


class Upstream(Protocol):
    """`received` is what it was told, request by request; `refused` is what it had against it."""

    received: list[Received]
    bodies: list[str]
    refused: list[str]

    @property
    def url(self) -> str: ...

    def play(self, script: Script, client: str | None = None) -> None:
        """From here on it follows this script, and what it was told before is forgotten. A client of its own dialect
        has its own bytes forwarded, which need not fit the types that its SDK declares."""
        ...


class HttpUpstream:
    """One of the dialects that speak JSON."""

    def __init__(self, name: str) -> None:
        self.url = ""
        self._name = name
        self._dialect = "openai_chat" if name == TEXT else name
        self.play(unplayed)

    def play(self, script: Script, client: str | None = None) -> None:
        self.wire = HERMES if self._name == TEXT else WIRES[self._name]
        self._script, self._typed = script, client != self._dialect
        self._called: set[str] = set()
        self.received: list[Received] = []
        self.bodies: list[str] = []
        self.refused: list[str] = []

    def __call__(self, asked: Asked) -> Reply:
        body = asked.json()
        self.bodies.append(asked.body.decode())
        wrong = refusals(self._dialect, body, self._called)
        if self._typed:
            wrong += [line for line in check(self._dialect, body) if not line.split(":")[0].endswith(EXTENSION)]
        try:
            received = written(body) if self._name == TEXT else READERS[self._dialect](body)
            texts = self.wire.results(body)  # in Gemini a result may be any object
            received.results = [replace(each, text=text) for each, text in zip(received.results, texts, strict=True)]
            self.received.append(received)
            reply = spoken(self.wire, self._turn)(asked)
        except AssertionError as error:
            wrong.append(str(error))
        if wrong:
            self.refused += wrong
            message = json.dumps({"error": {"message": "; ".join(wrong), "type": "invalid_request_error"}})
            return Reply(400, message.encode(), {"content-type": "application/json"})
        return reply

    def _turn(self, seen: Seen) -> Turn:
        turn = self._script(seen)
        self._called |= {call.name for call in turn.calls} - {*seen.tools}
        return turn


_CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>|<tool_response>\n(.*?)\n</tool_response>", re.DOTALL)


def written(body: Any) -> Received:
    """The calls and results that stand in the text of a conversation."""
    seen = Received(tools=list(HERMES.tools(body)))
    for message in body["messages"]:
        if message["role"] in ("system", "developer"):
            continue
        content = message["content"] or ""
        text = content if isinstance(content, str) else "".join(part["text"] for part in content)
        found = list(_CALL.finditer(text))
        for each in found:
            assert (each[1] is not None) == (message["role"] == "assistant"), "a call is the model's, a result is not"
            if each[1] is not None:
                call = json.loads(each[1])
                seen.calls.append(Called(None, call["name"], call["arguments"]))
            else:
                seen.results.append(Result(None, each[2]))
            seen.order += "r" if each[1] is None else "c"
        seen.order += "" if found else "."
    return seen


class WarpUpstream:
    """Warp's endpoint, with an agent that checks what it is sent."""

    def __init__(self, history: warp.History) -> None:
        self._history = history
        self.server = BadServer([expect(), self._answer])
        self.play(unplayed)

    @property
    def url(self) -> str:
        return self.server.url

    def play(self, script: Script, client: str | None = None) -> None:
        def follow(now: warp.Heard) -> warp.Turn:
            turn = script(Seen(now.tools, now.results, None, now.images))
            return warp.Turn(turn.text, tuple(WarpCalled(call.id, call.name, call.arguments) for call in turn.calls))

        self._agent = warp.Agent(follow, self._history)
        self.received: list[Received] = []
        self.bodies: list[str] = []
        self.refused: list[str] = []

    async def _answer(self, peer: Peer) -> None:
        request = decode("Request", peer.server.requests[-1].body)
        self.bodies.append(json.dumps(request, ensure_ascii=False))
        self.received.append(told(request))
        try:
            await answering(self._agent)(peer)
        except AssertionError as error:
            self.refused.append(str(error))


def told(request: Tree) -> Received:
    """Calls and results of the past, and the results that are new."""
    context = request.get("mcp_context", {})
    servers = context.get("servers", [])
    tools = [*context.get("tools", []), *(tool for server in servers for tool in server.get("tools", []))]
    seen = Received(tools=[tool["name"] for tool in tools])
    past = [message for task in request.get("task_context", {}).get("tasks", []) for message in task["messages"]]
    for entry in [*past, *warp._inputs(request.get("input", {}))]:
        if "call_mcp_tool" in (call := entry.get("tool_call", {})):
            seen.calls.append(
                Called(call["tool_call_id"], call["call_mcp_tool"]["name"], call["call_mcp_tool"]["args"])
            )
            seen.order += "c"
        elif "call_mcp_tool" in (result := entry.get("tool_call_result", {})):
            seen.results.append(Result(result["tool_call_id"], warp._result(result)))
            seen.order += "r"
        elif "user_query" in entry or "agent_output" in entry:
            seen.order += "."
    return seen


@contextmanager
def scripted(loopback: Loopback, history: warp.History) -> Iterator[dict[str, Upstream]]:
    """All upstreams by their names."""
    with ExitStack() as stack:
        running: dict[str, Upstream] = {}
        for name in (*WIRES, TEXT):
            upstream = HttpUpstream(name)
            upstream.url = stack.enter_context(loopback.serving(upstream)).base_url
            running[name] = upstream
        agent = WarpUpstream(history)
        stack.enter_context(agent.server)
        running["warp"] = agent
        yield running
