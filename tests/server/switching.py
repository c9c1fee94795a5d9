"""Conversations of several models with one client, inside this process: everything but HTTP is the gateway's own.

    stage = Stage(store)                    # a model of each vendor, which refuses what the real ones do
    talk = Talk(stage, "openai_chat")       # a client, which keeps what such clients keep
    await talk.turn("claude")               # the next of six turns, answered by this model
    stage.refused                           # what any of them would not have answered

A client either sends back everything that it was given (`keeps`), or what its API documents as the conversation and
nothing else: no reasoning, no signatures. A client of Chat Completions that `splits` sends each call of a batch in a
message of its own, with its result behind it. One that `repeats` repeats text and reasoning in each of them.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.wires import Call, Turn
from tests.exchanges import folded, read_events
from tests.upstream.judges import VENDORS, Vendor, Warp
from tests.warp_server import frames
from tests.warp_server.agent import TOKEN
from tests.warp_server.messages import encode
from tests.warp_server.state import added_up
from toolglot.config.assemble import assemble
from toolglot.config.schema import Config, ModelConfig, Retries, UpstreamConfig
from toolglot.dialects import DIALECTS
from toolglot.gateway.awaited_answer import AwaitedAnswer
from toolglot.gateway.commands import BeginStream, StreamEnd, WholeAnswer
from toolglot.gateway.context import new_context
from toolglot.gateway.features.conversation_replay import ConversationReplay
from toolglot.gateway.features.reasoning_state import ReasoningState, with_reasoning_state
from toolglot.gateway.flow import answer as answer_flow
from toolglot.gateway.received import ReceivedRequest
from toolglot.gateway.request_record import RequestRecord
from toolglot.gateway.targets import RequestTargets
from toolglot.gateway.tool_mode import ToolModes
from toolglot.ir import replace
from toolglot.receipt import Receipt
from toolglot.server.startup import build_gateway
from toolglot.store import Store
from toolglot.upstream import transport

NAMES = tuple(vendor.__name__.lower() for vendor in VENDORS)
SCRIPT = (
    Turn("One moment.", (Call("", "get_weather", {"city": "Bern"}),)),
    Turn("Two more.", (Call("", "get_time", {"zone": "CET"}), Call("", "get_weather", {"city": "Rome"}))),
    Turn("It rains."),
    Turn("Let me see.", (Call("", "get_weather", {"city": "Oslo"}),)),
    Turn("Once more.", (Call("", "get_time", {"zone": "EET"}),)),
    Turn("All done."),
)
"""The model's turns; the user speaks before the first and after the third, and brings results otherwise."""
SPEAKS = {0: "How is it in Bern?", 3: "And in Oslo?"}
TOOLS = ("get_weather", "get_time")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "zone": {"type": "string"}}}


class Reply:
    def __init__(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.status = status
        self.headers: Mapping[str, str] = {"content-type": kind}
        self._body = body

    async def read(self, limit: int) -> bytes:
        return self._body

    async def chunks(self) -> AsyncIterator[bytes]:
        middle = len(self._body) // 2
        for piece in (self._body[:middle], self._body[middle:]):
            if piece:
                yield piece

    def close(self) -> None: ...


class Stage:
    """A model of each vendor, and others, behind one gateway. A `transport.Transport`."""

    def __init__(self, store: Store | None = None, seed: object = 0, **others: Vendor) -> None:
        self.store = store
        self.vendors = {**{vendor.__name__.lower(): vendor(seed) for vendor in VENDORS}, **others}
        self.turn = Turn("")
        self.returned: set[int] = set()
        """The answers of the last vendor whose state has come back to it."""
        self.refused: list[str] = []
        upstreams = {
            name: UpstreamConfig(
                dialect=vendor.dialect,
                base_url=f"http://{name}.test",
                key=TOKEN,
                models=(vendor.model,),
                retries=Retries(attempts=1),
            )
            for name, vendor in self.vendors.items()
        }
        models = {
            name: ModelConfig(upstream=name, model=vendor.model, tools=vendor.tools)
            for name, vendor in self.vendors.items()
        }
        config = Config(upstreams=upstreams, models=models, discover=False)
        self.gateway = build_gateway(assemble(config, {}).config, self)

    async def send(self, call: transport.UpstreamCall) -> Reply:
        name = (urlsplit(call.url).hostname or "").partition(".")[0]
        vendor = self.vendors[name]
        if isinstance(vendor, Warp):
            self.returned = vendor.returned_of(call.headers, call.body)
            return Reply(200, vendor.answer_stream(call.headers, call.body, self.turn), "text/event-stream")
        body = json.loads(call.body)
        if refusals := list(vendor.refusals(body)):
            self.refused += [f"{name}: {refusal}" for refusal in refusals]
            return Reply(400, json.dumps({"error": {"message": refusals[0], "code": 400}}).encode())
        self.returned = vendor.returned(body)
        streams = bool(body.get("stream")) or ":streamGenerateContent" in call.url
        kind = "text/event-stream" if streams else "application/json"
        return Reply(200, vendor.reply(body, self.turn, stream=streams), kind)

    async def close(self) -> None: ...

    def vendor(self, name: str) -> Vendor:
        return self.vendors[name]


class Talk:
    """One client's side of a conversation, in its own wire form."""

    def __init__(
        self,
        stage: Stage,
        dialect: str,
        *,
        keeps: bool = True,
        streams: bool | None = None,
        about: str = "",
        splits: bool = False,
        repeats: bool = False,
    ) -> None:
        """`about`: what tells this conversation from others by its words."""
        self.splits = splits
        self.repeats = repeats
        self.stage = stage
        self.dialect = dialect
        self.keeps = keeps
        self.streams = streams
        self.about = about
        self.history: list[Any] = []
        self.number = 0
        self.answers: list[tuple[str, int]] = []
        """Who has answered each turn, and which of its answers that was."""
        self.receipt = Receipt()
        self._calls: list[tuple[str, str]] = []
        for vendor in stage.vendors.values():
            vendor.minds_ids = dialect != "ollama"  # whose clients send no ids of calls

    def fork(self) -> Talk:
        """The same conversation, to go on with in another way."""
        other = Talk(
            self.stage,
            self.dialect,
            keeps=self.keeps,
            streams=self.streams,
            about=self.about,
            splits=self.splits,
            repeats=self.repeats,
        )
        other.history, other.answers, other.number = list(self.history), list(self.answers), self.number
        other._calls = self._calls
        return other

    async def turn(self, by: str) -> set[int]:
        """The next turn, by this model. Those of its turns in this conversation whose state did not come back to it."""
        before = len(self.stage.vendors[by].issued)
        speaks = SPEAKS.get(self.number)
        self.history += _WIRE[self.dialect].said(speaks and f"{speaks}{self.about}", self._calls)
        stream = self.streams if self.streams is not None else self.number % 2 == 1
        self.stage.turn = SCRIPT[self.number]
        answer = await self._ask(by, stream)
        kept, self._calls = _WIRE[self.dialect].kept(answer, keeps=self.keeps)
        self.history += kept
        missing = {
            number
            for number, (name, place) in enumerate(self.answers)
            if name == by and place not in self.stage.returned
        }
        self.number += 1
        self.answers.append((by, before))
        return missing

    async def _ask(self, by: str, stream: bool) -> Any:
        client = DIALECTS[self.dialect]
        history = split_batches(self.history, repeats=self.repeats) if self.splits else self.history
        written = _WIRE[self.dialect].body(by, history, stream)
        body = written if isinstance(written, bytes) else json.dumps(written).encode()
        request = client.decode_request(body)
        if client.request.model_in_path:
            request = replace(request, model=by, stream=stream)
        received = ReceivedRequest(client=client, request=request, body=body)
        record = RequestRecord(id=f"req_{self.number}", method="POST", path="/", started=0.0)
        store, gateway = self.stage.store, self.stage.gateway
        context = new_context(record, is_streaming=request.stream)
        states = ReasoningState(store, "me")
        targets = RequestTargets.of(gateway, received, ToolModes(store=store), ConversationReplay(store, "me"), states)
        flow = with_reasoning_state(
            answer_flow(context, targets.build(context, gateway.router.resolve(by))), context, states
        )
        running, data = AwaitedAnswer(flow, context), b""
        try:
            while (command := await running.next_command()) is not None:
                if not isinstance(command, BeginStream):
                    data += command
        finally:
            await running.aclose()
            targets.close()
            if context.exchange is not None:
                self.receipt = context.exchange.receipt
        result = running.result()
        if isinstance(result, WholeAnswer):
            return json.loads(result.body)
        assert isinstance(result, StreamEnd), result
        data += result.data
        if self.dialect == "warp":
            return data
        response = folded(read_events(self.dialect, [data]))
        return json.loads(client.encode_response(response, request, Receipt()))


def split_batches(history: list[Any], *, repeats: bool) -> list[Any]:
    """The messages of Chat Completions with one call in each, followed by its result."""
    results = {message["tool_call_id"]: message for message in history if message["role"] == "tool"}
    done: list[Any] = []
    for message in history:
        first, *others = message.get("tool_calls") or [None]
        if first is not None:
            done += [{**message, "tool_calls": [first]}, results[first["id"]]]
            for call in others:
                others_say = message if repeats else {"role": "assistant", "content": None}
                done += [{**others_say, "tool_calls": [call]}, results[call["id"]]]
        elif message["role"] != "tool":
            done.append(message)
    return done


class _Chat:
    @staticmethod
    def body(model: str, history: list[Any], stream: bool) -> Any:
        tools = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in TOOLS]
        return {"model": model, "messages": history, "tools": tools, "reasoning_effort": "high", "stream": stream}

    @staticmethod
    def said(text: str | None, calls: list[tuple[str, str]]) -> list[Any]:
        results = [{"role": "tool", "tool_call_id": call, "content": f"{name}: fine"} for call, name in calls]
        return [*results, *([{"role": "user", "content": text}] if text else [])]

    @staticmethod
    def kept(answer: Any, *, keeps: bool) -> tuple[list[Any], list[tuple[str, str]]]:
        message = {key: value for key, value in answer["choices"][0]["message"].items() if value is not None}
        calls = message.get("tool_calls", [])
        if not keeps:
            message = {key: value for key, value in message.items() if key in ("role", "content", "tool_calls")}
        return [message], [(call["id"], call["function"]["name"]) for call in calls]


class _Ollama:
    @staticmethod
    def body(model: str, history: list[Any], stream: bool) -> Any:
        body = _Chat.body(model, history, stream)
        del body["reasoning_effort"]
        return {**body, "think": "high"}

    @staticmethod
    def said(text: str | None, calls: list[tuple[str, str]]) -> list[Any]:
        results = [{"role": "tool", "tool_name": name, "content": f"{name}: fine"} for _, name in calls]
        return [*results, *([{"role": "user", "content": text}] if text else [])]

    @staticmethod
    def kept(answer: Any, *, keeps: bool) -> tuple[list[Any], list[tuple[str, str]]]:
        message = answer["message"]
        calls = [{"function": call["function"]} for call in message.get("tool_calls", ())]  # nobody keeps their ids
        if not keeps:
            message = {key: value for key, value in message.items() if key in ("role", "content")}
        kept = {**message, **({"tool_calls": calls} if calls else {})}
        return [kept], [("", call["function"]["name"]) for call in calls]


class _Responses:
    @staticmethod
    def body(model: str, history: list[Any], stream: bool) -> Any:
        tools = [{"type": "function", "name": name, "parameters": SCHEMA, "strict": False} for name in TOOLS]
        reasoning = {"effort": "high", "summary": "auto"}
        return {
            "model": model,
            "input": history,
            "tools": tools,
            "reasoning": reasoning,
            "store": False,
            "stream": stream,
        }

    @staticmethod
    def said(text: str | None, calls: list[tuple[str, str]]) -> list[Any]:
        results = [{"type": "function_call_output", "call_id": call, "output": f"{name}: fine"} for call, name in calls]
        return [*results, *([{"role": "user", "content": text}] if text else [])]

    @staticmethod
    def kept(answer: Any, *, keeps: bool) -> tuple[list[Any], list[tuple[str, str]]]:
        output = answer["output"]
        calls = [(item["call_id"], item["name"]) for item in output if item["type"] == "function_call"]
        if keeps:
            return output, calls
        items = []
        for item in output:
            if item["type"] == "message":
                text = "".join(part.get("text", "") for part in item["content"])
                items.append({"role": "assistant", "content": text})
            elif item["type"] == "function_call":
                items.append(item)
        return items, calls


class _Messages:
    @staticmethod
    def body(model: str, history: list[Any], stream: bool) -> Any:
        tools = [{"name": name, "input_schema": SCHEMA} for name in TOOLS]
        thinking = {"type": "enabled", "budget_tokens": 2000}
        head = {"model": model, "max_tokens": 8000, "thinking": thinking, "stream": stream}
        return {**head, "messages": history, "tools": tools}

    @staticmethod
    def said(text: str | None, calls: list[tuple[str, str]]) -> list[Any]:
        results = [{"type": "tool_result", "tool_use_id": call, "content": f"{name}: fine"} for call, name in calls]
        return [{"role": "user", "content": [*results, *([{"type": "text", "text": text}] if text else [])]}]

    @staticmethod
    def kept(answer: Any, *, keeps: bool) -> tuple[list[Any], list[tuple[str, str]]]:
        blocks = [block for block in answer["content"] if keeps or "thinking" not in block["type"]]
        calls = [(block["id"], block["name"]) for block in blocks if block["type"] == "tool_use"]
        return [{"role": "assistant", "content": blocks}], calls


class _Gemini:
    @staticmethod
    def body(model: str, history: list[Any], stream: bool) -> Any:
        declared = [{"name": name, "parametersJsonSchema": SCHEMA} for name in TOOLS]
        thinking = {"includeThoughts": True, "thinkingBudget": 2000}
        return {
            "contents": history,
            "tools": [{"functionDeclarations": declared}],
            "generationConfig": {"thinkingConfig": thinking},
        }

    @staticmethod
    def said(text: str | None, calls: list[tuple[str, str]]) -> list[Any]:
        results = [
            {"functionResponse": {**({"id": call} if call else {}), "name": name, "response": {"output": "fine"}}}
            for call, name in calls
        ]
        return [{"role": "user", "parts": [*results, *([{"text": text}] if text else [])]}]

    @staticmethod
    def kept(answer: Any, *, keeps: bool) -> tuple[list[Any], list[tuple[str, str]]]:
        parts = answer["candidates"][0]["content"]["parts"]
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        for part in parts:
            if "thoughtSignature" in part:  # Google's client for Python reads the bytes and writes them again
                part["thoughtSignature"] = part["thoughtSignature"].translate(str.maketrans("+/", "-_"))
        if not keeps:
            plain = [part for part in parts if not part.get("thought")]
            parts = [{key: value for key, value in part.items() if key != "thoughtSignature"} for part in plain]
        return [{"role": "model", "parts": parts}], [(call.get("id", ""), call["name"]) for call in calls]


class _Warp:
    """Keeps the tasks of its conversation, its own inputs among them, and sends all of it with every turn."""

    @staticmethod
    def body(model: str, history: list[Any], stream: bool) -> bytes:
        *told, inputs = history
        tasks: list[Any] = []
        for sent, answer in zip(told[0::2], told[1::2], strict=True):
            tasks = _Warp.added(tasks, sent, answer)
        tree = {
            "task_context": {"tasks": tasks},
            "input": {"user_inputs": {"inputs": inputs}},
            "settings": {"model_config": {"base": model}, "supported_tools": [9]},
            "mcp_context": {"tools": [{"name": name, "input_schema": SCHEMA} for name in TOOLS]},
        }
        return encode("Request", tree)

    @staticmethod
    def said(text: str | None, calls: list[tuple[str, str]]) -> list[Any]:
        results = [
            {
                "tool_call_result": {
                    "tool_call_id": call,
                    "call_mcp_tool": {"success": {"results": [{"text": {"text": f"{name}: fine"}}]}},
                }
            }
            for call, name in calls
        ]
        return [[*results, *([{"user_query": {"query": text}}] if text else [])]]

    @staticmethod
    def added(tasks: list[Any], inputs: list[Any], answer: list[Any]) -> list[Any]:
        """The tasks with what was asked and answered; a server may or may not say again what was asked."""
        then = added_up(answer, tasks)
        root, before = then.root, next((len(task["messages"]) for task in tasks if task.get("messages")), 0)
        added = root["messages"][before:]
        if not any("user_query" in message or "tool_call_result" in message for message in added):
            own = [{"id": f"in-{before}-{place}", "task_id": root["id"], **each} for place, each in enumerate(inputs)]
            root["messages"][before:] = [*own, *added]
        return list(then.tasks.values())

    @staticmethod
    def kept(answer: bytes, *, keeps: bool) -> tuple[list[Any], list[tuple[str, str]]]:
        events = frames.events_of(answer)
        calls = [
            (message["tool_call"]["tool_call_id"], message["tool_call"]["call_mcp_tool"]["name"])
            for task in added_up(events).tasks.values()
            for message in task.get("messages", ())
            if "call_mcp_tool" in message.get("tool_call", {})
        ]
        return [events], calls


_WIRE: dict[str, Any] = {
    "openai_chat": _Chat,
    "openai_responses": _Responses,
    "anthropic": _Messages,
    "gemini": _Gemini,
    "warp": _Warp,
    "ollama": _Ollama,
}
CLIENTS = tuple(_WIRE)
KINDS = tuple((client, keeps) for client in CLIENTS for keeps in (True, False) if keeps or client != "warp")
"""Clients, and whether they send back all that they were given."""
