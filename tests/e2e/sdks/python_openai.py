"""The OpenAI SDK for Python: both of its APIs, with the history sent by the application or kept by the server."""

from __future__ import annotations

from functools import partial
from typing import Any

from openai import OpenAI

from tests.e2e.answers import Answer
from tests.e2e.python_loops import SYSTEM, TOOLS
from tests.e2e.python_ways import chat_answer, openai_client, responses_answer

from .clients import Client
from .script import OUTCOMES, PICTURE_URL, Wish


def _client(base_url: str) -> OpenAI:
    return openai_client().with_options(base_url=f"{base_url}/v1")


# ── Chat Completions ─────────────────────────────────────────────────────────────────────────────────────────────────

CHAT_TOOLS: Any = [
    {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}
    for name, description, schema in TOOLS
]


def _completion(client: OpenAI, streams: bool, arguments: dict[str, Any]) -> Any:
    if not streams:
        return client.chat.completions.create(**arguments)
    with client.chat.completions.stream(**arguments, stream_options={"include_usage": True}) as stream:
        return stream.get_final_completion()


def chat(streams: bool, base_url: str, wish: Wish) -> list[Answer]:
    """A tool message holds text alone, so a picture follows in a message of the user."""
    messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": wish.prompt}]
    asked = {"model": wish.model, "messages": messages, "tools": CHAT_TOOLS, "reasoning_effort": "low"}
    answers: list[Answer] = []
    while True:
        completion = _completion(_client(base_url), streams, asked)
        answers.append(chat_answer(completion))
        message = completion.choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return answers
        pictures = []
        for call in message.tool_calls:
            outcome = OUTCOMES[call.function.name]
            messages.append({"role": "tool", "tool_call_id": call.id, "content": outcome.text})
            if outcome.picture:
                pictures.append({"type": "image_url", "image_url": {"url": PICTURE_URL}})
        if pictures:
            messages.append({"role": "user", "content": pictures})


def functions(streams: bool, base_url: str, wish: Wish) -> list[Answer]:
    """The deprecated `functions`: one call at a time, and no ids."""
    messages: list[Any] = [{"role": "user", "content": wish.prompt}]
    declared = [tool["function"] for tool in CHAT_TOOLS]
    answers: list[Answer] = []
    while True:
        asked = {"model": wish.model, "messages": messages, "functions": declared}
        completion = _completion(_client(base_url), streams, asked)
        answers.append(chat_answer(completion))
        message = completion.choices[0].message
        messages.append(message)
        assert not message.tool_calls
        if not message.function_call:
            return answers
        name = message.function_call.name
        messages.append({"role": "function", "name": name, "content": OUTCOMES[name].text})


# ── Responses ────────────────────────────────────────────────────────────────────────────────────────────────────────

RESPONSES_TOOLS: Any = [
    {"type": "function", "name": name, "description": description, "parameters": schema, "strict": False}
    for name, description, schema in TOOLS
]


def _response(client: OpenAI, streams: bool, arguments: dict[str, Any]) -> Any:
    if not streams:
        return client.responses.create(**arguments)
    with client.responses.stream(**arguments) as stream:
        return stream.get_final_response()


def _outputs(response: Any) -> list[Any]:
    return [
        {"type": "function_call_output", "call_id": item.call_id, "output": _output(item.name)}
        for item in response.output
        if item.type == "function_call"
    ]


def _output(name: str) -> Any:
    outcome = OUTCOMES[name]
    if not outcome.picture:
        return outcome.text
    return [{"type": "input_text", "text": outcome.text}, {"type": "input_image", "image_url": PICTURE_URL}]


def responses(streams: bool, base_url: str, wish: Wish) -> list[Answer]:
    history: list[Any] = [{"role": "user", "content": wish.prompt}]
    asked = {
        "model": wish.model,
        "instructions": SYSTEM,
        "input": history,
        "tools": RESPONSES_TOOLS,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low", "summary": "auto"},
    }
    answers: list[Answer] = []
    while True:
        response = _response(_client(base_url), streams, asked)
        answers.append(responses_answer(response))
        outputs = _outputs(response)
        if not outputs:
            return answers
        history += [*response.output, *outputs]


def responses_in_conversation(streams: bool, base_url: str, wish: Wish) -> list[Answer]:
    """Each request holds what is new and names the conversation, which has the rest."""
    client = _client(base_url)
    conversation = client.conversations.create(metadata={"topic": "weather"})
    asked: dict[str, Any] = {
        "model": wish.model,
        "instructions": SYSTEM,
        "input": wish.prompt,
        "tools": RESPONSES_TOOLS,
        "conversation": conversation.id,
        "reasoning": {"effort": "low", "summary": "auto"},
    }
    answers: list[Answer] = []
    while True:
        response = _response(client, streams, asked)
        answers.append(responses_answer(response))
        assert response.conversation.id == conversation.id
        outputs = _outputs(response)
        if not outputs:
            items = client.conversations.items.list(conversation.id, order="asc", limit=100).data
            assert items[0].type == "message"
            assert [item.type for item in items].count("function_call_output") == sum(
                len(said.calls) for said in answers
            )
            return answers
        asked = {**asked, "input": outputs}


def responses_from_previous(streams: bool, base_url: str, wish: Wish) -> list[Answer]:
    """Each request holds what is new; the server knows the rest."""
    asked: dict[str, Any] = {
        "model": wish.model,
        "instructions": SYSTEM,
        "input": wish.prompt,
        "tools": RESPONSES_TOOLS,
        "reasoning": {"effort": "low", "summary": "auto"},
    }
    answers: list[Answer] = []
    client = _client(base_url)
    while True:
        response = _response(client, streams, asked)
        answers.append(responses_answer(response))
        assert response.previous_response_id == asked.get("previous_response_id")
        assert client.responses.retrieve(response.id).output_text == response.output_text
        outputs = _outputs(response)
        if not outputs:
            return answers
        asked = {**asked, "input": outputs, "previous_response_id": response.id}


OPENAI = [
    client
    for streams, manner in ((False, "whole"), (True, "streamed"))
    for client in (
        Client(f"python-chat-{manner}", "openai_chat", streams, partial(chat, streams), returns_state=False),
        Client(f"python-responses-{manner}", "openai_responses", streams, partial(responses, streams)),
        Client(
            f"python-responses_from_previous-{manner}",
            "openai_responses",
            streams,
            partial(responses_from_previous, streams),
        ),
        Client(
            f"python-responses_in_conversation-{manner}",
            "openai_responses",
            streams,
            partial(responses_in_conversation, streams),
        ),
    )
]

LEGACY = [
    Client(f"python-functions-{manner}", "openai_chat", streams, partial(functions, streams))
    for streams, manner in ((False, "whole"), (True, "streamed"))
]
