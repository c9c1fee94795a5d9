"""Tool loops with the official Python SDKs: ask, run the calls, send the results, until there are no more calls."""

from __future__ import annotations

from typing import Any

from google.genai import types

from .answers import Answer, Call, Way, parsed
from .python_ways import MODEL, PROMPT, anthropic_client, genai_client, openai_client

SYSTEM = "You answer questions about places."
WEATHER_SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 1},
        "units": {"type": "object", "properties": {"wind": {"type": "string", "enum": ["km/h", "m/s"]}}},
        "hours": {"type": "array", "items": {"type": "number"}},
    },
    "required": ["city"],
}
TIME_SCHEMA = {"type": "object", "properties": {"timezone": {"type": "string"}}, "required": ["timezone"]}
TOOLS: list[tuple[str, str, dict[str, Any]]] = [
    ("refresh", "Refresh the data.", {"type": "object", "properties": {}}),
    ("get_weather", "The weather of a city.", WEATHER_SCHEMA),
    ("get_time", "The time in a zone.", TIME_SCHEMA),
]
RESULTS = {
    "refresh": ("refreshed", False),
    "get_weather": ("17 °C, rain ☂", False),
    "get_time": ("the clock is broken", True),
}
"""What each tool answers, and whether that is an error. One of them always fails."""


def chat_loop(base_url: str) -> Answer:
    tools: Any = [
        {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}
        for name, description, schema in TOOLS
    ]
    client = openai_client().with_options(base_url=f"{base_url}/v1")
    messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": PROMPT}]
    calls: list[Call] = []
    while True:
        completion = client.chat.completions.create(model=MODEL, messages=messages, tools=tools)
        message = completion.choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return Answer(text=message.content or "", calls=calls, stop=completion.choices[0].finish_reason)
        for call in message.tool_calls:
            assert call.type == "function"
            calls.append(Call(call.id, call.function.name, parsed(call.function.arguments)))
            text, _ = RESULTS[call.function.name]
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})


def responses_loop(base_url: str) -> Answer:
    tools: Any = [
        {"type": "function", "name": name, "description": description, "parameters": schema, "strict": False}
        for name, description, schema in TOOLS
    ]
    client = openai_client().with_options(base_url=f"{base_url}/v1")
    history: list[Any] = [{"role": "user", "content": PROMPT}]
    calls: list[Call] = []
    while True:
        response = client.responses.create(
            model=MODEL,
            instructions=SYSTEM,
            input=history,
            tools=tools,
            store=False,
            include=["reasoning.encrypted_content"],
        )
        history += response.output
        wanted = [item for item in response.output if item.type == "function_call"]
        if not wanted:
            return Answer(text=response.output_text, calls=calls, stop=str(response.status))
        for call in wanted:
            calls.append(Call(call.call_id, call.name, parsed(call.arguments)))
            text, _ = RESULTS[call.name]
            history.append({"type": "function_call_output", "call_id": call.call_id, "output": text})


def messages_loop(base_url: str) -> Answer:
    tools: Any = [
        {"name": name, "description": description, "input_schema": schema} for name, description, schema in TOOLS
    ]
    client = anthropic_client().with_options(base_url=base_url)
    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    calls: list[Call] = []
    while True:
        message = client.messages.create(model=MODEL, max_tokens=4096, system=SYSTEM, messages=messages, tools=tools)
        messages.append({"role": "assistant", "content": message.content})
        wanted = [block for block in message.content if block.type == "tool_use"]
        if not wanted:
            text = "".join(block.text for block in message.content if block.type == "text")
            return Answer(text=text, calls=calls, stop=str(message.stop_reason))
        results = []
        for call in wanted:
            calls.append(Call(call.id, call.name, call.input))
            text, failed = RESULTS[call.name]
            results.append({"type": "tool_result", "tool_use_id": call.id, "content": text, "is_error": failed})
        messages.append({"role": "user", "content": results})


def generate_content_loop(base_url: str) -> Answer:
    """The SDK's own chat keeps the history."""
    declarations = [
        types.FunctionDeclaration(name=name, description=description, parameters_json_schema=schema)
        for name, description, schema in TOOLS
    ]
    config = types.GenerateContentConfig(
        http_options=types.HttpOptions(base_url=base_url),
        system_instruction=SYSTEM,
        tools=[types.Tool(function_declarations=declarations)],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    chat = genai_client().chats.create(model=MODEL, config=config)
    calls: list[Call] = []
    message: Any = PROMPT
    while True:
        candidate = (chat.send_message(message).candidates or [])[0]
        parts = (candidate.content.parts if candidate.content else None) or []
        wanted = [part.function_call for part in parts if part.function_call is not None]
        if not wanted:
            text = "".join(part.text or "" for part in parts if not part.thought)
            return Answer(text=text, calls=calls, stop=candidate.finish_reason.value if candidate.finish_reason else "")
        message = []
        for call in wanted:
            name = call.name or ""
            calls.append(Call(call.id, name, call.args or {}))
            text, failed = RESULTS[name]
            result = types.FunctionResponse(id=call.id, name=name, response={"error" if failed else "output": text})
            message.append(types.Part(function_response=result))


PYTHON_LOOPS = [
    Way("python-chat_loop", "openai_chat", False, chat_loop),
    Way("python-responses_loop", "openai_responses", False, responses_loop),
    Way("python-messages_loop", "anthropic", False, messages_loop),
    Way("python-generate_content_loop", "gemini", False, generate_content_loop),
]
