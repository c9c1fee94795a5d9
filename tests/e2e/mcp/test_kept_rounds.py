"""What a gateway knows of a conversation that its client does not: kept for the next turns, or gone without a store."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.e2e.scripted import Seen
from tests.e2e.wires import Call, Turn

from .conversations import CONVERSATIONS, OWN
from .conversations import WEATHER as SCHEMA
from .gateways import Running
from .test_matrix import ADD, CITY, ECHO, ORDERS, PROMPT, SUM, WEATHER, script
from .upstreams import UPSTREAMS


@pytest.mark.parametrize("client", CONVERSATIONS)
def test_two_conversations_that_say_the_same_go_on_each_with_its_own_calls(stored: Running, client: str) -> None:
    behind = stored.upstreams["openai_chat"]
    sums = [{"a": 2, "b": number} for number in range(2)]
    behind.play(script(ORDERS["own first"], sums), CONVERSATIONS[client].dialect)
    conversations = [CONVERSATIONS[client](stored.base_url, "openai_chat", True) for _ in range(2)]
    firsts = [conversation.say(PROMPT) for conversation in conversations]
    for conversation, first, added in zip(conversations, firsts, sums, strict=True):
        conversation.give({first.calls[0].id: WEATHER})
        assert behind.refused == []
        told = behind.received[-1]
        assert [call.name for call in told.calls] == [ADD, OWN, ECHO]
        assert told.calls[0].arguments == added
        assert json.loads(told.results[0].text) == {"total": sum(added.values())}
        assert told.results[1].text == WEATHER


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("client", ["chat", "chats"])
def test_later_turns_have_all_of_the_rounds_before(stored: Running, client: str, upstream: str) -> None:
    behind = stored.upstreams[upstream]
    behind.play(script(ORDERS["served first"]), CONVERSATIONS[client].dialect)
    conversation = CONVERSATIONS[client](stored.base_url, upstream, True)
    first = conversation.say(PROMPT)
    conversation.give({first.calls[0].id: WEATHER})
    third = conversation.say("Thank you.")
    assert behind.refused == []
    assert third.text.startswith("All: ")
    told = behind.received[-1]
    assert [call.name for call in told.calls] == [ADD, ECHO, OWN]
    assert len(told.results) == 3
    assert re.fullmatch(r"\.*cr\.*ccrr\.+", told.order)


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("client", ["chat", "chats"])
def test_without_a_store_a_client_without_words_for_it_sends_back_its_own_calls_alone(
    storeless: Running, client: str, upstream: str
) -> None:
    behind = storeless.upstreams[upstream]
    behind.play(script(ORDERS["served first"]), CONVERSATIONS[client].dialect)
    conversation = CONVERSATIONS[client](storeless.base_url, upstream, True)
    first = conversation.say(PROMPT)
    storeless.receipt("there is no store to keep them in", upstream=upstream)
    assert [call.name for call in first.calls] == [OWN]
    conversation.give({first.calls[0].id: WEATHER})
    assert behind.refused == []
    told = behind.received[2]  # the first request of the second turn
    assert [(call.name, call.arguments) for call in told.calls] == [(OWN, CITY)]
    assert [result.text for result in told.results] == [WEATHER]


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("client", CONVERSATIONS)
def test_several_own_calls_around_a_served_one(stored: Running, client: str, upstream: str) -> None:
    behind = stored.upstreams[upstream]
    cities = ("Zürich", "Genève")

    def script(seen: Seen) -> Turn:
        if seen.results:
            return Turn("All: " + " | ".join(seen.results))
        own = [Call(f"call_{city}", OWN, {"city": city}) for city in cities]
        return Turn("Let me look.", (own[0], Call("call_echo", ECHO, {"text": "between"}), own[1]))

    behind.play(script, CONVERSATIONS[client].dialect)
    conversation = CONVERSATIONS[client](stored.base_url, upstream, True)
    first = conversation.say("Compare.")
    assert [call.arguments["city"] for call in first.calls] == [*cities]
    conversation.give({call.id: f"rain in {call.arguments['city']}" for call in first.calls})
    assert behind.refused == []
    told = behind.received[-1]
    assert told.order.strip(".") == "cccrrr"
    assert [call.name for call in told.calls] == [OWN, ECHO, OWN]
    if upstream != "text":
        results = {result.call_id: result.text for result in told.results}
        expected = ("rain in Zürich", "between", "rain in Genève")
        assert tuple(results[call.id] for call in told.calls) == expected


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_client_that_keeps_no_ids_goes_on_all_the_same(stored: Running, upstream: str) -> None:
    """As most do that speak to Gemini without an SDK."""
    behind = stored.upstreams[upstream]
    behind.play(script(ORDERS["own first"]), "gemini")
    declared = {"name": OWN, "parametersJsonSchema": SCHEMA}
    contents: list[Any] = [{"role": "user", "parts": [{"text": f"{PROMPT} Without ids, over {upstream}."}]}]
    body = {"contents": contents, "tools": [{"functionDeclarations": [declared]}]}
    path = f"/v1beta/models/{upstream}:generateContent"
    status, text = stored.post(path, body, {})
    assert status == 200, text
    content = json.loads(text)["candidates"][0]["content"]
    for part in content["parts"]:
        part.get("functionCall", {}).pop("id", None)
    result = {"functionResponse": {"name": OWN, "response": {"output": WEATHER}}}
    contents += [content, {"role": "user", "parts": [result]}]
    status, text = stored.post(path, body, {})
    assert status == 200, text
    assert behind.refused == []
    told = behind.received[-1]
    assert [call.name for call in told.calls] == [ADD, OWN, ECHO]
    assert told.order.strip(".").replace(".", "") == "crccrr"
    assert told.results[1].text == WEATHER


def test_what_was_run_is_in_the_receipt_the_log_and_the_metrics(stored: Running) -> None:
    stored.upstreams["gemini"].play(script(ORDERS["served first"]))
    CONVERSATIONS["messages"](stored.base_url, "gemini", True).say(PROMPT)
    receipt = stored.receipt("echo", upstream="gemini", client="anthropic")
    lines = [line for line in receipt["lines"] if line["where"].startswith("mcp.everyday")]
    assert [line["what"].split()[0] for line in lines] == ["add", "echo"]
    (summary,) = stored.logged(receipt["id"], "^request$")
    assert summary["mcp_calls"] == {"everyday": 2}
    assert len(stored.logged(receipt["id"], "of everyday ran")) == 2
    assert re.search(r"^toolglot_\w*mcp\w*\{[^}]*everyday[^}]*\} [1-9]", stored.get("/metrics"), re.MULTILINE)
    assert str(SUM) not in stored.log.read_text()
