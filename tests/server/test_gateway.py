"""The gateway of the tests, with nothing going wrong: every client's stream and whole answer from every upstream."""

from __future__ import annotations

import pytest

from tests.exchanges import PAIRS
from tests.lint.streams import SOUND
from tests.server.gateway import at, gateway
from tests.upstream.bad_server import BadServer, expect, stream
from toolglot.lint import lint


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_every_client_streams_from_every_upstream(client: str, upstream: str) -> None:
    with BadServer([expect(), stream(SOUND[upstream])]) as server, gateway(at(upstream, server.url)) as running:
        answer = running.ask(client, stream=True)
        assert (answer.status, answer.complete) == (200, True)
        assert lint(client, [answer.body]) == []
        assert running.record().error is None


def test_a_responses_body_at_the_path_of_chat_is_refused_with_the_right_path() -> None:
    body = {"model": "m", "instructions": "Be brief.", "input": [{"role": "user", "content": "Hi"}]}
    with gateway() as running:
        answer = running.ask("openai_chat", body=body)
        message = answer.json()["error"]["message"]
        assert (answer.status, "OpenAI Responses: POST it to /v1/responses" in message) == (400, True)
        assert running.ask("openai_chat", body={"model": "m"}).json()["error"]["message"].endswith("is required")


def test_a_gemini_body_at_the_path_of_messages_is_refused_with_the_right_path() -> None:
    body = {"max_tokens": 10, "contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    with gateway() as running:
        answer = running.ask("anthropic", body=body)
        assert answer.status == 400
        assert "POST it to /v1beta/models/MODEL:generateContent" in answer.json()["error"]["message"]
