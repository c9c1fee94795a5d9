"""Conversations with each official Python SDK, told alike: what the user says, what the model says, what it calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from anthropic.types.beta import BetaMessage
from google.genai import types

from tests.e2e.answers import Call, joined, parsed
from tests.e2e.python_ways import anthropic_client, chat_answer, genai_answer, genai_client, openai_client

WEATHER: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
OWN = "get_weather"
"""The client's own tool."""
DESCRIPTION = "The weather of a city."


@dataclass(frozen=True)
class Served:
    """A call that was run on the way, as the client was told of it."""

    server: str
    name: str
    arguments: Any
    output: str | None
    failed: bool = False


@dataclass(frozen=True)
class Said:
    """One answer. `calls` are those to the client's own tools."""

    text: str
    thinking: str
    calls: list[Call]
    stop: str
    tokens: tuple[int, int]
    served: list[Served] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    """Of the items or blocks in their order, where the dialect has words for served calls."""
    raw: Any = None


class Conversation(Protocol):
    def say(self, text: str) -> Said: ...

    def give(self, results: Mapping[str | None, str]) -> Said:
        """The results of the calls of the last answer, by their ids."""
        ...


class Chat:
    """Chat Completions."""

    dialect = "openai_chat"

    def __init__(self, base_url: str, model: str, streams: bool, own: bool = True, **more: Any) -> None:
        self._client = openai_client().with_options(base_url=f"{base_url}/v1")
        self._streams = streams
        self._messages: list[Any] = []
        function = {"name": OWN, "description": DESCRIPTION, "parameters": WEATHER}
        tools = {"tools": [{"type": "function", "function": function}]} if own else {}
        self._asked: dict[str, Any] = {"model": model, "messages": self._messages, **tools, **more}

    def say(self, text: str) -> Said:
        self._messages.append({"role": "user", "content": text})
        return self._next()

    def give(self, results: Mapping[str | None, str]) -> Said:
        self._messages += [{"role": "tool", "tool_call_id": key, "content": text} for key, text in results.items()]
        return self._next()

    def _next(self) -> Said:
        if self._streams:
            with self._client.chat.completions.stream(**self._asked, stream_options={"include_usage": True}) as stream:
                completion: Any = stream.get_final_completion()
        else:
            completion = self._client.chat.completions.create(**self._asked)
        self._messages.append(completion.choices[0].message.model_dump(exclude_none=True))
        answer = chat_answer(completion)
        tokens = (answer.input_tokens, answer.output_tokens)
        return Said(answer.text, answer.thinking, answer.calls, answer.stop, tokens, raw=completion)


class Responses:
    """The Responses API; each request has all items of the conversation."""

    dialect = "openai_responses"
    stored = False

    def __init__(self, base_url: str, model: str, streams: bool, own: bool = True, **more: Any) -> None:
        self._client = openai_client().with_options(base_url=f"{base_url}/v1")
        self._streams = streams
        self._history: list[Any] = []
        function = {"type": "function", "name": OWN, "description": DESCRIPTION, "parameters": WEATHER, "strict": False}
        tools = [*([function] if own else []), *more.pop("tools", [])]
        self._asked: dict[str, Any] = {"model": model, "store": self.stored, "tools": tools, **more}

    def say(self, text: str) -> Said:
        return self.send([{"role": "user", "content": text}])

    def give(self, results: Mapping[str | None, str]) -> Said:
        return self.send(
            [{"type": "function_call_output", "call_id": key, "output": text} for key, text in results.items()]
        )

    def approve(self, said: Said, approve: bool, **more: Any) -> Said:
        """The client's word on all that it was asked."""
        asked = [item.id for item in said.raw.output if item.type == "mcp_approval_request"]
        word = {"type": "mcp_approval_response", "approve": approve, **more}
        return self.send([{**word, "approval_request_id": each} for each in asked])

    def send(self, items: list[Any]) -> Said:
        self._history += items
        response = self._create(input=self._history)
        self._history += response.output
        return response_said(response)

    def _create(self, **new: Any) -> Any:
        if not self._streams:
            return self._client.responses.create(**self._asked, **new)
        with self._client.responses.stream(**self._asked, **new) as stream:
            items: dict[int, Any] = {}
            for event in stream:
                if event.type == "response.output_item.done":
                    items[event.output_index] = event.item
            response = stream.get_final_response()
        assert [getattr(item, "id", None) for item in response.output] == [items[index].id for index in sorted(items)]
        return response


class ResponsesFromPrevious(Responses):
    """The same with a server that knows the rest."""

    stored = True

    def send(self, items: list[Any]) -> Said:
        response = self._create(input=items)
        self._asked["previous_response_id"] = response.id
        said, kept = response_said(response), response_said(self._client.responses.retrieve(response.id))
        assert (kept.kinds, kept.text, kept.calls, kept.served) == (said.kinds, said.text, said.calls, said.served)
        return said


class ResponsesInConversation(Responses):
    """The same with a conversation that the server keeps."""

    stored = True

    def __init__(self, base_url: str, model: str, streams: bool, own: bool = True, **more: Any) -> None:
        super().__init__(base_url, model, streams, own, **more)
        self._asked["conversation"] = self._client.conversations.create().id

    def send(self, items: list[Any]) -> Said:
        response = self._create(input=items)
        listed = self._client.conversations.items.list(self._asked["conversation"], order="asc", limit=100).data
        assert [item.type for item in listed][-len(response.output) :] == [item.type for item in response.output]
        return response_said(response)


def response_said(response: Any) -> Said:
    messages = [part for item in response.output if item.type == "message" for part in item.content]
    thoughts = [part for item in response.output if item.type == "reasoning" for part in item.summary]
    return Said(
        text=joined(part.text for part in messages),
        thinking=joined(part.text for part in thoughts),
        calls=[
            Call(item.call_id, item.name, parsed(item.arguments))
            for item in response.output
            if item.type == "function_call"
        ],
        stop=response.status,
        tokens=(response.usage.input_tokens, response.usage.output_tokens),
        served=[_call_item(item) for item in response.output if item.type == "mcp_call"],
        kinds=[item.type for item in response.output],
        raw=response,
    )


def _call_item(item: Any) -> Served:
    error: Any = item.error
    failed = error is not None
    assert item.status == ("failed" if failed else "completed")
    output = "".join(part["text"] for part in error["content"]) if failed else item.output
    return Served(item.server_label, item.name, parsed(item.arguments), output, failed)


class Messages:
    """The Messages API."""

    dialect = "anthropic"

    def __init__(self, base_url: str, model: str, streams: bool, own: bool = True, **more: Any) -> None:
        self._api: Any = self._of(anthropic_client().with_options(base_url=base_url))
        self._streams = streams
        self._messages: list[Any] = []
        tools = [
            *([{"name": OWN, "description": DESCRIPTION, "input_schema": WEATHER}] if own else []),
            *more.pop("tools", []),
        ]
        fixed = {"model": model, "max_tokens": 4096, "messages": self._messages}
        self._asked: dict[str, Any] = {**fixed, **({"tools": tools} if tools else {}), **more}

    @staticmethod
    def _of(client: Any) -> Any:
        return client.messages

    def say(self, text: str) -> Said:
        self._messages.append({"role": "user", "content": text})
        return self._next()

    def give(self, results: Mapping[str | None, str]) -> Said:
        content = [{"type": "tool_result", "tool_use_id": key, "content": text} for key, text in results.items()]
        self._messages.append({"role": "user", "content": content})
        return self._next()

    def _next(self) -> Said:
        if self._streams:
            with self._api.stream(**self._asked) as stream:
                message = stream.get_final_message()
        else:
            message = self._api.create(**self._asked)
        self._messages.append({"role": "assistant", "content": message.content})
        return message_said(message)


class BetaMessages(Messages):
    """The same as the SDK has it for what is not settled yet, MCP servers among it."""

    @staticmethod
    def _of(client: Any) -> Any:
        return client.beta.messages


def message_said(message: BetaMessage) -> Said:
    blocks: list[Any] = list(message.content)
    results = {block.tool_use_id: block for block in blocks if block.type == "mcp_tool_result"}
    usage = message.usage
    return Said(
        text=joined(block.text for block in blocks if block.type == "text"),
        thinking=joined(block.thinking for block in blocks if block.type == "thinking"),
        calls=[Call(block.id, block.name, block.input) for block in blocks if block.type == "tool_use"],
        stop=str(message.stop_reason),
        tokens=(usage.input_tokens + (usage.cache_read_input_tokens or 0), usage.output_tokens),
        served=[_use_block(block, results.pop(block.id)) for block in blocks if block.type == "mcp_tool_use"],
        kinds=[block.type for block in blocks],
        raw=message,
    )


def _use_block(use: Any, result: Any) -> Served:
    """In the settled part of the SDK the parts of a result are plain dictionaries."""
    texts = [part["text"] if isinstance(part, dict) else part.text for part in result.content]
    return Served(use.server_name, use.name, use.input, "".join(texts), result.is_error)


class Gemini:
    """A chat of Google's SDK, which keeps the history."""

    dialect = "gemini"

    def __init__(self, base_url: str, model: str, streams: bool, own: bool = True, **more: Any) -> None:
        self._streams = streams
        declared = types.FunctionDeclaration(name=OWN, description=DESCRIPTION, parameters_json_schema=WEATHER)
        config = types.GenerateContentConfig(
            http_options=types.HttpOptions(base_url=base_url, headers=more.pop("extra_headers", None)),
            tools=[types.Tool(function_declarations=[declared])] if own else None,
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            **more,
        )
        self._chat = genai_client().chats.create(model=model, config=config)

    def say(self, text: str) -> Said:
        return self._send(text)

    def give(self, results: Mapping[str | None, str]) -> Said:
        return self._send(
            [
                types.Part(function_response=types.FunctionResponse(id=key, name=OWN, response={"output": text}))
                for key, text in results.items()
            ]
        )

    def _send(self, message: Any) -> Said:
        chunks = list(self._chat.send_message_stream(message)) if self._streams else [self._chat.send_message(message)]
        answer = genai_answer(chunks)
        tokens = (answer.input_tokens, answer.output_tokens)
        return Said(answer.text, answer.thinking, answer.calls, answer.stop, tokens, raw=chunks)


CONVERSATIONS: dict[str, Any] = {
    "chat": Chat,
    "responses": Responses,
    "responses_from_previous": ResponsesFromPrevious,
    "messages": Messages,
    "chats": Gemini,
}
"""A client of each kind."""
