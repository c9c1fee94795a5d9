"""Models of each vendor that answer by a script and refuse what the real ones refuse.

Each puts its own state on its answers (signatures, encrypted reasoning, reasoning text), remembers what it has given
out, and reads requests in its own wire form, without toolglot's help. `refusals` says why it would not answer;
`returned` are those of its answers whose state came back whole, byte for byte, where it belongs.

What they refuse: foreign, unknown or misplaced state; a step of the current turn without what the API demands of it;
results without calls and calls without results; ids that are too long, or of items that they have never made; roles
and members that the API does not have.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any

from tests.e2e.mcp.strict import refusals as shape_refusals
from tests.e2e.wires import WIRES, Call, Turn
from tests.warp_server import frames
from tests.warp_server.agent import Agent, Heard, hear, ordered
from tests.warp_server.agent import Turn as WarpTurn
from tests.warp_server.messages import encode
from tests.warp_server.scripts import Called
from toolglot.dialects import DIALECTS
from toolglot.events import unfold
from toolglot.receipt import Receipt

SKIP = "skip_thought_signature_validator"
Body = dict[str, Any]


def drawn(*seed: object) -> str:
    """Letters and digits, as if drawn by lot."""
    return sha256(repr(seed).encode()).hexdigest()[:24]


def signed(*seed: object) -> str:
    return base64.b64encode(sha256(repr(seed).encode()).digest() * 3).decode()


class Vendor:
    """A model of one vendor: `answer` is the whole response to a request that it does not refuse."""

    dialect = ""
    model = ""
    tools = "native"
    minds_ids = True
    """Calls come back under the ids that were given out. Clients that drop ids cannot do that; the real servers take
    any."""

    def __init__(self, seed: object = 0) -> None:
        self.seed = seed
        self.issued: list[Any] = []
        """What each answer has given out, by its number."""
        self.refused: list[str] = []

    @property
    def host(self) -> str:
        return type(self).__name__.lower()

    def answer(self, body: Body, turn: Turn) -> Body:
        raise NotImplementedError

    def refusals(self, body: Body) -> Iterator[str]:
        raise NotImplementedError

    def returned(self, body: Body) -> set[int]:
        raise NotImplementedError

    def named(self, turn: Turn, prefix: str) -> Turn:
        """The turn with the vendor's own ids for its calls."""
        number = len(self.issued)
        calls = [
            Call(f"{prefix}{drawn(self.host, self.seed, number, place)}", call.name, call.arguments)
            for place, call in enumerate(turn.calls)
        ]
        return Turn(turn.text, tuple(calls))

    def are_calls(self, found: Sequence[str], given: Sequence[str]) -> bool:
        """Are these the ids of the calls that were given out?"""
        return list(found) == list(given) if self.minds_ids else len(found) == len(given)

    def reply(self, body: Body, turn: Turn, *, stream: bool) -> bytes:
        whole = json.dumps(self.answer(body, turn)).encode()
        if not stream:
            return whole
        dialect = DIALECTS[self.dialect]
        encoder = dialect.stream_encoder(None, Receipt())
        return b"".join(encoder.feed(event) for event in unfold(dialect.decode_response(whole)))


def calls_of_turn(messages: Sequence[Any], is_user: Callable[[Any], bool]) -> list[Any]:
    """What came after the user last spoke."""
    last = max((number for number, message in enumerate(messages) if is_user(message)), default=-1)
    return list(messages[last + 1 :])


class Claude(Vendor):
    dialect = "anthropic"
    model = "claude-sonnet-4-5"

    def answer(self, body: Body, turn: Turn) -> Body:
        number, turn = len(self.issued), self.named(turn, "toolu_")
        thinking: list[Body] = []
        if body.get("thinking", {}).get("type") == "enabled":
            thought = {
                "type": "thinking",
                "thinking": f"Hm, {number}.\n",
                "signature": signed("claude", self.seed, number),
            }
            thinking.append(thought)
            if len(turn.calls) > 1:
                thinking.append({"type": "redacted_thinking", "data": signed("redacted", self.seed, number)})
        self.issued.append((thinking, [call.id for call in turn.calls]))
        whole = WIRES["anthropic"].whole(turn)
        return {**whole, "model": self.model, "content": [*thinking, *whole["content"]]}

    def refusals(self, body: Body) -> Iterator[str]:
        yield from shape_refusals("anthropic", body)
        for number, message in enumerate(body["messages"]):
            for block in _blocks(message):
                if block["type"] in ("thinking", "redacted_thinking") and self._number(block) is None:
                    yield f"messages[{number}]: invalid `signature` in `thinking` block: {block}"
                if block["type"] == "tool_use" and not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", block["id"]):
                    yield f"messages[{number}]: the id {block['id']}"
            yield from self._misplaced(number, message)
        if body.get("thinking", {}).get("type") == "enabled":
            yield from self._unthought(body)

    def _number(self, block: Any) -> int | None:
        return next((number for number, (thinking, _) in enumerate(self.issued) if block in thinking), None)

    def _misplaced(self, number: int, message: Any) -> Iterator[str]:
        """Reasoning stands before the calls that it led to, all of it or none."""
        blocks = _blocks(message)
        found = [block for block in blocks if block["type"] in ("thinking", "redacted_thinking")]
        for answer in {self._number(block) for block in found} - {None}:
            assert answer is not None
            thinking, ids = self.issued[answer]
            own = [block for block in found if block in thinking]
            if own != thinking:
                yield f"messages[{number}]: the thinking blocks cannot be modified: {own}"
            after = [b.get("id") for b in blocks[blocks.index(own[-1]) + 1 :] if b["type"] == "tool_use"]
            if not self.are_calls(after[: len(ids)], ids):
                yield f"messages[{number}]: the calls {ids} do not follow their thinking: {after}"

    def _unthought(self, body: Body) -> Iterator[str]:
        turn = calls_of_turn(body["messages"], lambda m: m["role"] == "user" and not _has(m, "tool_result"))
        kinds = [block["type"] for message in turn if message["role"] == "assistant" for block in _blocks(message)]
        if "tool_use" in kinds and kinds[0] not in ("thinking", "redacted_thinking"):
            yield f"expected `thinking` or `redacted_thinking`, but found `{kinds[0]}`"

    def returned(self, body: Body) -> set[int]:
        blocks = [block for message in body["messages"] for block in _blocks(message)]
        return {n for n, (thinking, _) in enumerate(self.issued) if all(block in blocks for block in thinking)}


def _blocks(message: Any) -> list[Any]:
    content = message["content"]
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def _has(message: Any, kind: str) -> bool:
    return any(block["type"] == kind for block in _blocks(message))


class Gpt(Vendor):
    dialect = "openai_responses"
    model = "gpt-5.2"

    def answer(self, body: Body, turn: Turn) -> Body:
        number, turn = len(self.issued), self.named(turn, "call_")
        reasoning = {
            "id": f"rs_{drawn('rs', self.seed, number)}",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": f"So, {number}."}],
            "encrypted_content": signed("gpt", self.seed, number),
        }
        whole = WIRES["openai_responses"].whole(turn)
        message, *calls = whole["output"]
        thinks = [reasoning] if self._thinks(body) else []
        phase = "commentary" if calls else "final_answer"
        message = {**message, "id": f"msg_{drawn('msg', self.seed, number)}", "phase": phase}
        calls = [{**call, "id": f"fc_{drawn('fc', call['call_id'])}"} for call in calls]
        self.issued.append((thinks[0] if thinks else None, message, calls))
        return {**whole, "model": self.model, "output": [*thinks, message, *calls]}

    def _thinks(self, body: Body) -> bool:
        """Models that do not reason are behind the same address."""
        return not str(body.get("model", self.model)).startswith(("gpt-4", "gpt-3"))

    def refusals(self, body: Body) -> Iterator[str]:
        yield from shape_refusals("openai_responses", body)
        items = body["input"]
        known = {item["id"]: n for n, (r, m, calls) in enumerate(self.issued) for item in (r, m, *calls) if item}
        for place, item in enumerate(items):
            where, kind = f"input[{place}]", item.get("type", "message")
            if "id" in item and item["id"] not in known:
                yield f"{where}: item with id '{item['id']}' not found"
            if len(item.get("call_id", "")) > 64:
                yield f"{where}: call_id is too long"
            if kind == "reasoning" and not self._thinks(body):
                yield f"{where}: Reasoning input items can only be provided to a reasoning or computer use model."
            elif kind == "reasoning":
                yield from self._reasoning(where, item, items[place + 1 : place + 2])
            elif kind == "message" and item["role"] not in ("user", "system", "developer", "assistant"):
                yield f"{where}: the role {item['role']}"
            elif kind == "message" and not item["content"]:
                yield f"{where}: a message without content"
            elif item.get("id") in known and kind == "function_call":
                reasoning = self.issued[known[item["id"]]][0]
                if reasoning is not None and not any(_same(reasoning, other) for other in items[:place]):
                    yield f"{where}: provided without its required 'reasoning' item: '{reasoning['id']}'"

    def _reasoning(self, where: str, item: Any, following: list[Any]) -> Iterator[str]:
        number = next((n for n, (reasoning, _, _) in enumerate(self.issued) if _same(reasoning, item)), None)
        if number is None:
            yield f"{where}: the encrypted content could not be verified: {item}"
        elif not following or not self._is_of(number, following[0]):
            yield f"{where}: reasoning was provided without its required following item: {following}"

    def _is_of(self, number: int, item: Any) -> bool:
        _, message, calls = self.issued[number]
        text = message["content"][0]["text"]
        ids = [call["call_id"] for call in calls]
        called = item.get("type") == "function_call" and (item["call_id"] in ids if self.minds_ids else bool(ids))
        return called or (_said(item) or "").strip() == text  # the same words, which clients and formats trim

    def returned(self, body: Body) -> set[int]:
        items = body["input"]
        return {
            number
            for number, (reasoning, message, _) in enumerate(self.issued)
            if (reasoning is None or any(_same(reasoning, item) for item in items))
            and any(
                _said(item) == message["content"][0]["text"] and item.get("phase") == message["phase"] for item in items
            )
        }


def _same(reasoning: Any, item: Any) -> bool:
    if reasoning is None:
        return False
    members = ("type", "encrypted_content", "summary")
    return all(item.get(name) == reasoning[name] for name in members) and item.get("id") in (None, reasoning["id"])


def _said(item: Any) -> str | None:
    if item.get("type", "message") != "message" or item.get("role") != "assistant":
        return None
    content = item["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


class Gemini(Vendor):
    dialect = "gemini"
    model = "gemini-3-pro"

    def answer(self, body: Body, turn: Turn) -> Body:
        """Its calls have no ids, and only the first of a step is signed."""
        number = len(self.issued)
        signature = signed("gemini", self.seed, number)
        whole = WIRES["gemini"].whole(turn)
        text, *calls = whole["candidates"][0]["content"]["parts"]
        for call in calls:
            del call["functionCall"]["id"]
        owner = calls[0] if calls else text
        owner["thoughtSignature"] = signature
        whole["candidates"][0]["content"]["parts"] = [{"text": f"Let me see, {number}.", "thought": True}, text, *calls]
        self.issued.append((signature, json.loads(json.dumps(owner))))
        return {**whole, "modelVersion": self.model}

    def reply(self, body: Body, turn: Turn, *, stream: bool) -> bytes:
        written = super().reply(body, turn, stream=stream)
        if stream and not turn.calls:  # a stream has the signature of a text on an empty part behind it
            signature, part = self.issued[-1]
            self.issued[-1] = signature, {**part, "text": ""}
        return written

    def refusals(self, body: Body) -> Iterator[str]:
        yield from shape_refusals("gemini", body)
        contents = body["contents"]
        for number, content in enumerate(contents):
            for part in content["parts"]:
                if (given := part.get("thoughtSignature")) is not None and given != SKIP and not self._is_own(part):
                    yield f"contents[{number}]: thought signature is not valid: {part}"
                if part.keys() - {"text", "thought", "thoughtSignature", "functionCall", "functionResponse"}:
                    yield f"contents[{number}]: unknown name: {part}"
        for content in calls_of_turn(contents, _speaks):
            calls = [part for part in content["parts"] if "functionCall" in part]
            if calls and "thoughtSignature" not in calls[0]:
                yield f"function call is missing a thought_signature: {calls[0]}"
            if any(part.get("thoughtSignature") == SKIP for part in calls[1:]):
                yield "a parallel call is marked"

    def _is_own(self, part: Any) -> bool:
        return any(_signature(part) == given and _meant(part) == _meant(own) for given, own in self.issued)

    def returned(self, body: Body) -> set[int]:
        parts = [part for content in body["contents"] for part in content["parts"]]
        return {
            number
            for number, (given, own) in enumerate(self.issued)
            if any(_signature(part) == given and _meant(part) == _meant(own) for part in parts)
        }


def _signature(part: Any) -> str:
    """Bytes, which may come in either alphabet of base64."""
    return str(part.get("thoughtSignature", "")).translate(str.maketrans("-_", "+/"))


def _meant(part: Any) -> Any:
    call = part.get("functionCall")
    return part.get("text") if call is None else (call["name"], call.get("args"))


def _speaks(content: Any) -> bool:
    return content.get("role") == "user" and not any("functionResponse" in part for part in content["parts"])


class DeepSeek(Vendor):
    dialect = "openai_chat"
    model = "deepseek-reasoner"

    def answer(self, body: Body, turn: Turn) -> Body:
        number, turn = len(self.issued), self.named(turn, "call_00_")
        reasoning = f"First, {number}.\nThen."
        self.issued.append((reasoning, turn.text, [call.id for call in turn.calls]))
        whole = WIRES["openai_chat"].whole(turn)
        choice = whole["choices"][0]
        choice["message"] = {**choice["message"], "reasoning_content": reasoning}
        return {**whole, "model": self.model}

    def refusals(self, body: Body) -> Iterator[str]:
        yield from shape_refusals("openai_chat", body)
        for number, message in enumerate(body["messages"]):
            where = f"messages[{number}]"
            members = {"role", "content", "tool_calls", "reasoning_content", "tool_call_id", "name"}
            if strange := message.keys() - members:
                yield f"{where}: unknown members {strange}"
            for call in message.get("tool_calls") or ():
                if len(call["id"]) > 40:
                    yield f"{where}: the id {call['id']} is too long"
            if message.get("tool_calls") and not isinstance(message.get("reasoning_content"), str):
                yield f"{where}: the `reasoning_content` in the thinking mode must be passed back to the API"

    def returned(self, body: Body) -> set[int]:
        return {
            number
            for number, (reasoning, text, ids) in enumerate(self.issued)
            if any(
                message.get("reasoning_content") == reasoning
                and (not ids or self.are_calls([call["id"] for call in message.get("tool_calls") or ()], ids))
                for message in body["messages"]
                if message["role"] == "assistant" and text == message.get("content")
            )
        }


class Plain(Vendor):
    """A model that knows no tools: it writes its calls in its text, as it is asked to."""

    dialect = "openai_chat"
    model = "tiny"
    tools = "hermes_json"

    def answer(self, body: Body, turn: Turn) -> Body:
        self.issued.append(None)
        calls = [json.dumps({"name": call.name, "arguments": call.arguments}) for call in turn.calls]
        text = turn.text + "".join(f"\n<tool_call>\n{call}\n</tool_call>" for call in calls)
        return {**WIRES["openai_chat"].whole(Turn(text)), "model": self.model}

    def refusals(self, body: Body) -> Iterator[str]:
        for member in ("tools", "tool_choice", "parallel_tool_calls"):
            if member in body:
                yield f"{member}: not supported"
        for number, message in enumerate(body["messages"]):
            content = message["content"]
            parts = [] if isinstance(content, str) else content
            if message["role"] not in ("system", "user", "assistant") or any(p["type"] != "text" for p in parts):
                yield f"messages[{number}]: {message}"
            if message.keys() - {"role", "content", "reasoning_content"}:
                yield f"messages[{number}]: unknown members: {message}"

    def returned(self, body: Body) -> set[int]:
        return set(range(len(self.issued)))


class Warp(Vendor):
    """Warp's agent: its state are the tasks that it has sent, every message with its opaque data."""

    dialect = "warp"
    model = "auto"

    def __init__(self, seed: object = 0) -> None:
        super().__init__(seed)
        self._turn = Turn("")
        self.agent = Agent(self._script)
        self._given: list[set[bytes]] = []

    def _script(self, heard: Heard) -> WarpTurn:
        number = len(self.issued)
        calls = [
            Called(f"{drawn('warp', self.seed, number, place)}", call.name, call.arguments)
            for place, call in enumerate(self._turn.calls)
        ]
        return WarpTurn(self._turn.text, tuple(calls))

    def answer_stream(self, headers: Any, body: bytes, turn: Turn) -> bytes:
        self._turn = turn
        events = self.agent.answer(headers, body)
        added = [
            message
            for event in events
            for action in event.get("client_actions", {}).get("actions", ())
            for message in action.get("add_messages_to_task", {}).get("messages", ())
            if "tool_call" in message
        ]
        self.issued.append({encode("Message", ordered(message)) for message in added})
        return frames.stream(events)

    def returned_of(self, headers: Any, body: bytes) -> set[int]:
        tasks = hear(headers, body).tasks
        told = {encode("Message", ordered(message)) for task in tasks for message in task.get("messages", ())}
        return {number for number, given in enumerate(self.issued) if given <= told}


VENDORS: tuple[type[Vendor], ...] = (DeepSeek, Gpt, Claude, Gemini, Warp, Plain)
