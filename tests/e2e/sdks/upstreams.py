"""The upstream of the loops: two recorded turns, then one that quotes the results it was told, each in its dialect."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.e2e.loopback import Asked, Reply, stream, whole
from tests.e2e.recordings import recording
from tests.e2e.scripted import upstream
from tests.e2e.wires import Turn

from .received import READERS, Received

TURNS = {0: "parallel_calls", 2: "no_arguments"}
"""What is answered to a request with so many results."""


class Upstream:
    """Remembers what it received, and, as Anthropic does for those who want it, the messages of a thread."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self.received: list[Received] = []
        self.bodies: list[bytes] = []
        self.streamed: list[bool] = []
        self.said = ""
        self._threads: dict[str, dict[str, Any]] = {}

    def __call__(self, asked: Asked) -> Reply:
        body = asked.json()
        if self.dialect == "anthropic" and "thread" in body:
            body = self._continued(body)
        received = READERS[self.dialect](body)
        streams = bool(body.get("stream")) or asked.path.endswith(":streamGenerateContent")
        self.received.append(received)
        self.bodies.append(json.dumps(body, ensure_ascii=False).encode())
        self.streamed.append(streams)
        if len(received.results) not in TURNS:
            self.said = " | ".join(result.text for result in received.results)
            return upstream(self.dialect, lambda _: Turn(self.said))(asked)
        turn = TURNS[len(received.results)]
        self._remember(body, turn)
        data = self._varied(recording(self.dialect, turn, streams=streams))
        return stream(data) if streams else whole(data)

    def _varied(self, data: bytes) -> bytes:
        """Each message has an id of its own. Each call of Gemini has arguments: its Python SDK runs none without."""
        data = data.replace(b"msg_01XY", b"msg_%d" % len(self.received))
        return re.sub(rb'("name":\s*"refresh")\s*}', rb'\1,"args":{}}', data) if self.dialect == "gemini" else data

    def _continued(self, body: dict[str, Any]) -> dict[str, Any]:
        thread = body["thread"]
        if thread["type"] == "create":
            return body
        begun = self._threads[thread["previous_message_id"]]
        assert not body.keys() & {"tools", "system"}, "a thread has these from its first request"
        return {**begun, **body, "messages": [*begun["messages"], *body["messages"]]}

    def _remember(self, body: dict[str, Any], turn: str) -> None:
        if "thread" in body:
            content = json.loads(recording(self.dialect, turn, streams=False))["content"]
            messages = [*body["messages"], {"role": "assistant", "content": content}]
            self._threads[f"msg_{len(self.received)}"] = {**body, "messages": messages}
