"""An agent behind Warp's endpoint: it hears a request, takes a turn by its script, and answers as Warp's servers do.

It echoes what it was told into its own task, as the real ones do, and remembers the tasks that it sent, opaque data
included, so that it can tell whether they came back as they were.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from tests.warp_server import story
from tests.warp_server.messages import Tree, decode, encode
from tests.warp_server.scripts import Called
from tests.warp_server.state import added_up

History = Literal["native", "replay", "text"]
CALL_MCP_TOOL = 9
TOKEN = "wk-1.a0"


class Heard(NamedTuple):
    """What a request says. `results` are those of the whole conversation in their order, as text."""

    tools: dict[str, Any]
    queries: list[str]
    """The user's words in this turn."""
    results: list[str]
    fresh: list[str]
    """The ids of the calls whose results are new in this turn."""
    told: list[str]
    """Those of them that stand in a text and not in an input of their own."""
    system: list[str]
    """System text that stands beside this turn's inputs, or in the text of the history."""
    images: int
    tasks: list[Tree]
    conversation: str
    supported_tools: list[int]
    model: str


class Turn(NamedTuple):
    text: str = ""
    calls: tuple[Called, ...] = ()


Script = Callable[[Heard], Turn]


def hear(headers: Mapping[str, str], body: bytes) -> Heard:
    """The request, which has to be one that Warp's servers take."""
    assert headers.get("content-type") == "application/x-protobuf", headers
    assert "text/event-stream" in headers.get("accept", ""), headers
    assert headers.get("authorization") == f"Bearer {TOKEN}", headers
    return heard(decode("Request", body))


def heard(request: Tree) -> Heard:
    context = request.get("mcp_context", {})
    servers = context.get("servers", [])
    assert not (servers and context.get("tools")), "tools stand flat or in servers, not both"
    tools = [*context.get("tools", []), *(tool for server in servers for tool in server.get("tools", []))]
    inputs = _inputs(request.get("input", {}))
    tasks = request.get("task_context", {}).get("tasks", [])
    past = [message for task in tasks for message in task.get("messages", [])]
    queries = [entry["user_query"].get("query", "") for entry in inputs if "user_query" in entry]
    fresh = [entry["tool_call_result"] for entry in inputs if "tool_call_result" in entry]
    _check_pairs(past, fresh)
    told = [found for query in queries for found in results_in(query)]
    new = [found for query in queries for found in results_in(query.rpartition("\n\nAssistant: ")[2])]
    settings = request.get("settings", {})
    return Heard(
        tools={tool["name"]: tool.get("input_schema", {}) for tool in tools},
        queries=queries,
        results=[
            *(_result(message["tool_call_result"]) for message in past if _has_result(message)),
            *map(_result, fresh),
            *(text for _, text in told),
        ],
        fresh=[*(result["tool_call_id"] for result in fresh), *(call_id for call_id, _ in new)],
        told=[call_id for call_id, _ in new],
        system=[*_system(inputs), *queries],
        images=len(request.get("input", {}).get("context", {}).get("images", [])),
        tasks=tasks,
        conversation=request.get("metadata", {}).get("conversation_id", ""),
        supported_tools=settings.get("supported_tools", []),
        model=settings.get("model_config", {}).get("base", ""),
    )


def _inputs(given: Tree) -> list[Tree]:
    if "user_inputs" in given:
        return list(given["user_inputs"].get("inputs", []))
    return [{key: given[key]} for key in ("user_query", "tool_call_result") if key in given]


def _has_result(message: Tree) -> bool:
    """Of the client's tools: not of the server's own, nor of a call that nobody could run."""
    return not {"server", "cancel"} & message.get("tool_call_result", {"server": {}}).keys()


def _check_pairs(past: Sequence[Tree], fresh: Sequence[Tree]) -> None:
    """Warp does not recognise a result whose call is not in its task."""
    called = [message["tool_call"].get("tool_call_id") for message in past if "tool_call" in message]
    for result in fresh:
        assert result.get("tool_call_id") in called, f"no call {result.get('tool_call_id')!r} among {called}"


def _result(result: Tree) -> str:
    """Its text, as the field for calls of the client's tools has it: 12 in an input, 16 in the history."""
    value = result.get("call_mcp_tool")
    assert value is not None, f"no result of a client's tool: {result}"
    if "error" in value:
        return f"Error: {value['error'].get('message', '')}"
    return "".join(part.get("text", {}).get("text", "") for part in value.get("success", {}).get("results", []))


def _system(inputs: Sequence[Tree]) -> list[str]:
    queries = (entry.get("user_query", {}) for entry in inputs)
    return [
        attachment["plain_text"]
        for query in queries
        for attachment in query.get("referenced_attachments", {}).values()
        if "plain_text" in attachment
    ]


_TOLD = re.compile(
    r"^Tool (?:result|error) \(([^)\n]*)\): (.*?)(?=\n\n(?:User|Assistant|System|Tool (?:result|error))\b|\Z)",
    re.M | re.S,
)


def results_in(query: str) -> list[tuple[str, str]]:
    """The results in a history that is told as text: whose, and what."""
    return [(found[1], found[2]) for found in _TOLD.finditer(query)]


class Agent:
    """Answers requests. `history` is the way in which the conversation must come back to it.

    `replay`: the tasks that it has sent, every message and every opaque byte; `native`: tasks of the gateway's own
    making; `text`: no tasks, and the conversation in one query.
    """

    def __init__(self, script: Script, history: History = "native") -> None:
        self.script = script
        self.history = history
        self.heard: list[Heard] = []
        self._tasks: dict[str, list[Tree]] = {}
        self._count = 0

    def answer(self, headers: Mapping[str, str], body: bytes) -> list[Tree]:
        """The events of the next turn."""
        now = hear(headers, body)
        assert CALL_MCP_TOOL in now.supported_tools, now.supported_tools
        self._check_history(now)
        self.heard.append(now)
        events = self._events(now, decode("Request", body))
        self._tasks[self._conversation(now)] = list(added_up(events, self._begun(now)).tasks.values())
        return events

    def _conversation(self, now: Heard) -> str:
        return now.conversation or f"conversation-{self._count}"

    def _begun(self, now: Heard) -> list[Tree]:
        return self._tasks.get(now.conversation, []) if now.conversation else []

    def _check_history(self, now: Heard) -> None:
        if self.history == "text":
            assert now.fresh == now.told, "results stand in the text"
            assert not any(task.get("messages") for task in now.tasks)
        elif self.history == "replay" and self.heard:
            assert now.conversation in self._tasks, f"{now.conversation!r} is no conversation of ours"
            sent = self._tasks[now.conversation]
            assert [encode("Task", task) for task in map(ordered, now.tasks)] == [
                encode("Task", task) for task in map(ordered, sent)
            ], "the tasks came back changed"

    def _events(self, now: Heard, request: Tree) -> list[Tree]:
        self._count += 0 if now.conversation else 1
        turn = self.script(now)
        number = len(self.heard)
        conversation = self._conversation(now)
        root = f"task-{conversation}"
        events = [story.init(conversation, f"req-{number}")]
        if not self._begun(now):
            own = story.message(
                f"{number}-0", "tool_call", {"tool_call_id": f"srv-{number}", "server": {"payload": "IgA="}}
            )
            events.append(story.create_task(root, "", {**own, "task_id": root}, server_data="b3BhcXVlIHRhc2s="))
        events += [story.add(message, task=root) for message in self._echoes(request, number, root)]
        events += [story.begin(), *self._speech(turn, number, root), story.commit()]
        return [*events, story.finished("done", request_cost={"exact": 0.5})]

    def _echoes(self, request: Tree, number: int, root: str) -> list[Tree]:
        echoes: list[Tree] = []
        for place, entry in enumerate(_inputs(request.get("input", {}))):
            marks: Tree = {"task": root, "server_message_data": f"ZWNobyA{number}{place}", "x_new": {"n": number}}
            if "user_query" in entry:
                echo = {"query": entry["user_query"].get("query", "")}
                echoes.append(story.message(f"{number}-in{place}", "user_query", echo, **marks))
            elif "tool_call_result" in entry:
                result = {key: value for key, value in entry["tool_call_result"].items() if not key.startswith("#")}
                echoes.append(story.message(f"{number}-in{place}", "tool_call_result", result, **marks))
        return echoes

    def _speech(self, turn: Turn, number: int, root: str) -> list[Tree]:
        events: list[Tree] = []
        if turn.text:
            half = len(turn.text) // 2
            pieces = [piece for piece in (turn.text[:half], turn.text[half:]) if piece]
            events += story.spoken(*pieces, number=f"{number}-text", task=root)
        for place, call in enumerate(turn.calls):
            marks: Tree = {
                "task": root,
                "server_message_data": f"Y2FsbCA{number}{place}",
                "experimental": [number, place],
            }
            events.append(
                story.add(story.called(f"{number}-call{place}", call.id, call.name, call.arguments, **marks), task=root)
            )
        return events


def ordered(value: Any) -> Any:
    """The same with the keys in order, for trees that were written in another order."""
    if isinstance(value, dict):
        return {key: ordered(value[key]) for key in sorted(value)}
    return [ordered(item) for item in value] if isinstance(value, list) else value


# An agent of three turns.

WEATHER = {"city": "Zürich", "days": 2, "hours": [6, 18.5], "units": {"wind": "km/h"}}
TIME = {"timezone": "Europe/Zurich"}
BOTH = (Called("call-1", "get_weather", WEATHER), Called("call-2", "get_time", TIME))


def three_turns(now: Heard) -> Turn:
    """Asks for the weather and the time at once, sums the results up, and says good-bye."""
    if not now.results:
        assert {"get_weather", "get_time"} <= set(now.tools), now.tools
        return Turn("Let me check both.", BOTH)
    if now.fresh:
        return Turn("Summary: " + " | ".join(now.results))
    return Turn(f"Good-bye after {len(now.results)} results.")
