"""State of servers of Chat Completions in members of their own: through clients of every API, and back to the server.

Each server here refuses nothing, and notices whether its state comes back as it gave it out, in the same member.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.wires import WIRES, Turn
from tests.server.switching import KINDS, Stage, Talk
from tests.upstream.judges import Body, Vendor, signed
from toolglot.store.sqlite import MEMORY, SqliteStore

TURNS = 6
STATE_MEMBERS = ("reasoning_opaque", "extra_content", "provider_specific_fields")
IN_MESSAGES = ("content", "message", "choice")


class ChatServer(Vendor):
    """`sign` adds its state to a message."""

    dialect = "openai_chat"
    model = "smart"

    def __init__(self, sign: Callable[[Body, str], None], *, is_late: bool) -> None:
        """`is_late`: the last chunk of a stream has the state of the message."""
        super().__init__(0)
        self._sign = sign
        self._is_late = is_late

    def answer(self, body: Body, turn: Turn) -> Body:
        number, turn = len(self.issued), self.named(turn, "call_")
        whole: Body = WIRES["openai_chat"].whole(turn)
        choice = whole["choices"][0]
        message = {**choice["message"]}
        self._sign(message, signed("server", number))
        choice["message"] = message
        self.issued.append(json.loads(json.dumps(message)))
        return {**whole, "model": self.model}

    def reply(self, body: Body, turn: Turn, *, stream: bool) -> bytes:
        whole = self.answer(body, turn)
        if not stream:
            return json.dumps(whole).encode()
        choice = whole["choices"][0]
        calls = [{**call, "index": index} for index, call in enumerate(choice["message"].get("tool_calls") or ())]
        delta = {**choice["message"], **({"tool_calls": calls} if calls else {})}
        late = {name: delta.pop(name) for name in STATE_MEMBERS if self._is_late and name in delta}
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": self.model}
        chunks = [
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**head, "choices": [{"index": 0, "delta": {"content": "", **late}, "finish_reason": None}]},
            {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
        ]
        return b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"

    def refusals(self, body: Body) -> Iterator[str]:
        ids = [call["id"] for message in body["messages"] for call in message.get("tool_calls") or ()]
        answered = [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"]
        if ids != answered:
            yield f"the results {answered} are not those of {ids}"

    def returned(self, body: Body) -> set[int]:
        sent = [_state(message) for message in body["messages"] if message["role"] == "assistant"]
        return {number for number, message in enumerate(self.issued) if _state(message) in sent}


def _state(message: Body) -> Any:
    """What of a message carries state, with the text that it belongs to."""
    members = ("reasoning_text", "reasoning_opaque", "extra_content", "provider_specific_fields", "reasoning_content")
    calls = [
        {
            "id": call["id"] if "__thought__" in call["id"] else "",
            "function": call["function"].get("provider_specific_fields"),
            **{name: call.get(name) for name in members},
        }
        for call in message.get("tool_calls") or ()
    ]
    return message.get("content") or "", {name: message[name] for name in members if message.get(name)}, calls


def sign_ids(message: Body, state: str) -> None:
    """LiteLLM puts Gemini's signature into the id of the call."""
    for call in (message.get("tool_calls") or ())[:1]:
        call["id"] += f"__thought__{state * 3}"


def sign_as_copilot(message: Body, state: str) -> None:
    message |= {"reasoning_text": f"Let me see. {state[:4]}", "reasoning_opaque": state}


def sign_as_google(message: Body, state: str) -> None:
    """The first call of an answer, or its text."""
    signed_part = (message.get("tool_calls") or [message])[0]
    signed_part["extra_content"] = {"google": {"thought_signature": state}}


def sign_as_litellm(message: Body, state: str) -> None:
    if calls := message.get("tool_calls"):
        calls[0]["provider_specific_fields"] = {"thought_signature": state}
    else:
        message["provider_specific_fields"] = {"thought_signatures": [state]}


def sign_functions(message: Body, state: str) -> None:
    for call in (message.get("tool_calls") or ())[:1]:
        call["function"]["provider_specific_fields"] = {"thought_signature": state}


SERVERS: dict[str, Callable[[Body, str], None]] = {
    "LiteLLM's ids": sign_ids,
    "Copilot": sign_as_copilot,
    "Google": sign_as_google,
    "LiteLLM": sign_as_litellm,
    "LiteLLM's functions": sign_functions,
}


@pytest.mark.parametrize("streams", ["streams", "streams late", "whole"])
@pytest.mark.parametrize(
    ("client", "keeps"),
    [kind for kind in KINDS if kind != ("openai_chat", False)],  # there the client itself carries the members
)
@pytest.mark.parametrize("server", SERVERS)
def test_state_comes_back_in_the_member_in_which_it_came(server: str, client: str, keeps: bool, streams: str) -> None:
    async def work() -> list[set[int]]:
        store = SqliteStore(MEMORY)
        try:
            stage = Stage(store, smart=ChatServer(SERVERS[server], is_late=streams == "streams late"))
            talk = Talk(stage, client, keeps=keeps, streams=streams != "whole")
            lost = []
            for _ in range(TURNS):
                lost.append(await talk.turn("smart"))
                losses = [line for line in talk.receipt.losses if line.where.startswith(IN_MESSAGES)]
                # Ollama and Warp have no place for reasoning without text; Warp's own members are lost with every turn.
                assert not losses or client == "warp" or [line.what for line in losses] == ["reasoning without text"]
                if client == "anthropic" and keeps:
                    kinds = [block["type"] for block in talk.history[-1]["content"]]
                    assert kinds[-1] == "text" or "tool_use" in kinds  # Claude Code prints the last block
            assert stage.refused == []
            return lost
        finally:
            await store.close()

    assert asyncio.run(work()) == [set()] * TURNS
