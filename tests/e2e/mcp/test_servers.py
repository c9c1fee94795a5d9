"""Real MCP servers behind the gateway: on their pipes and over HTTP, of both generations, good ones and bad ones."""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.agent.hosting import SECRET, everyday_over_http, lives
from tests.e2e.loopback import Loopback
from tests.e2e.python_ways import openai_client
from tests.e2e.scripted import Script, Seen
from tests.e2e.sdks.received import Received
from tests.e2e.wires import Call, Turn
from tests.waiting import until

from .conversations import BetaMessages, Chat, Gemini, Responses, Said
from .gateways import (
    EVERYDAY,
    Running,
    Server,
    everything_over_http,
    gateway,
    published_server,
    python_server,
)
from .upstreams import scripted

HEADER = "x-toolglot-mcp"
BAD_SERVER: Server = {
    "command": sys.executable,
    "args": ["-m", "tests.e2e.mcp.bad_server", "banner"],
    "cwd": str(Path(__file__).parents[3]),
    "env": {"SECRET": SECRET},
    "policy": "auto",
}
Calls = Sequence[tuple[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def running(loopback: Loopback, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway with all servers, of which requests choose some with a header."""
    folder = tmp_path_factory.mktemp("servers")
    files = folder / "files"
    files.mkdir()
    with scripted(loopback, "replay") as upstreams, everyday_over_http() as sums, everything_over_http() as everything:
        servers = {
            "pipes-old": python_server(EVERYDAY, protocol="handshake", policy="auto"),
            "pipes-new": python_server(EVERYDAY, protocol="stateless", policy="auto"),
            "http-old": {"url": sums, "protocol": "handshake", "policy": "auto"},
            "http-new": {"url": sums, "protocol": "stateless", "policy": "auto"},
            "everything": published_server("server-everything", "stdio"),
            "everything-http": {"url": everything},
            "files": published_server("server-filesystem", str(files), tools={"write_file": "auto"}),
            "mortal": python_server(EVERYDAY, policy="auto"),
            "wayward": BAD_SERVER,
            "hasty": {**BAD_SERVER, "timeout": 1.0},
            "flooding": BAD_SERVER,
            "dead": {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"], "policy": "auto"},
        }
        with gateway(folder, upstreams, servers) as it:
            yield it


def calling(calls: Calls) -> Script:
    """All calls at once, and then a last word."""

    def follow(seen: Seen) -> Turn:
        if seen.results:
            return Turn("Done.")
        return Turn("", tuple(Call(f"call_{number}", name, given) for number, (name, given) in enumerate(calls)))

    return follow


def told(running: Running, servers: str, calls: Calls, upstream: str = "openai_chat", client: Any = Chat) -> Received:
    """What the model was told of the results of these calls to tools of these servers."""
    behind = running.upstreams[upstream]
    behind.play(calling(calls), client.dialect)
    said: Said = client(running.base_url, f"plain-{upstream}", True, own=False, extra_headers={HEADER: servers}).say(
        "Use the tools."
    )
    assert behind.refused == []
    assert said.text.strip() == "Done."
    return behind.received[-1]


def texts(received: Received) -> list[str]:
    return [result.text for result in received.results]


GENERATIONS = {"old": "2025-11-25", "new": "2026-07-28"}


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("way", ["pipes", "http"])
def test_servers_of_the_python_sdk(running: Running, way: str, generation: str) -> None:
    name = f"{way}-{generation}"
    calls: Calls = [
        (f"{name}__add", {"a": 20, "b": 22}),
        (f"{name}__fail", {}),
        (f"{name}__picture", {}),
        (f"{name}__echo", {"text": "Grüezi ☂"}),
    ]
    received = told(running, name, calls, "anthropic")
    assert running.states()[name]["protocol"] == GENERATIONS[generation]
    assert {f"{name}__{tool}" for tool in ("add", "echo", "fail", "picture", "slow", "whoami")} <= set(received.tools)
    added, failed, picture, echoed = received.results
    assert json.loads(added.text) == {"total": 42}
    assert failed.failed
    assert "Error executing tool fail" in failed.text
    assert picture.pictures == [f"image/png;{base64.b64encode(bytes([0x89]) + b'PNG').decode()}"]
    assert (echoed.text, echoed.failed) == ("Grüezi ☂", False)


@pytest.mark.parametrize("name", ["everything", "everything-http"])
def test_a_published_server_with_everything(running: Running, name: str) -> None:
    calls: Calls = [
        (f"{name}__echo", {"message": "Grüezi ☂"}),
        (f"{name}__get-sum", {"a": 20, "b": 22}),
        (f"{name}__get-structured-content", {"location": "Chicago"}),
        (f"{name}__get-tiny-image", {}),
        (f"{name}__get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
        (f"{name}__get-resource-links", {"count": 2}),
        (f"{name}__get-sum", {"a": "twenty"}),
        (f"{name}__get-annotated-message", {"messageType": "error", "includeImage": False}),
    ]
    received = told(running, name, calls, "anthropic", BetaMessages)
    # Those that say they only read are offered; the others would need approval.
    assert f"{name}__trigger-long-running-operation" in received.tools
    assert f"{name}__toggle-simulated-logging" not in received.tools
    echoed, added, weather, image, resource, links, wrong, annotated = received.results
    assert echoed.text == "Echo: Grüezi ☂"
    assert "42" in added.text
    assert set(json.loads(weather.text)) >= {"temperature", "conditions", "humidity"}
    assert [picture.partition(";")[0] for picture in image.pictures] == ["image/png"]
    assert "demo://resource/dynamic/text/1" in json.dumps(resource.text)
    assert links.text.count("demo://resource/dynamic") == 2
    assert wrong.failed
    assert "expected number" in wrong.text
    assert "Error: Operation failed" in annotated.text


def test_a_published_server_of_files(running: Running) -> None:
    folder = running.log.parent / "files"
    (folder / "greeting.txt").write_text("Grüezi ☂")
    calls: Calls = [
        ("files__list_directory", {"path": str(folder)}),
        ("files__read_text_file", {"path": str(folder / "greeting.txt")}),
        ("files__read_text_file", {"path": "/etc/passwd"}),
        ("files__write_file", {"path": str(folder / "new.txt"), "content": "written"}),
    ]
    received = told(running, "files", calls, "gemini", Gemini)
    assert "files__write_file" in received.tools  # which the configuration allows, and no other that changes anything
    assert "files__edit_file" not in received.tools
    listed, read, refused, written = received.results
    assert "[FILE] greeting.txt" in listed.text
    assert "Grüezi ☂" in read.text
    assert refused.failed
    assert "denied" in refused.text
    assert not written.failed
    assert (folder / "new.txt").read_text() == "written"


def test_tools_of_several_servers_run_side_by_side(running: Running) -> None:
    names = ("pipes-new", "http-old", "everything", "files")
    calls: Calls = [
        ("files__list_allowed_directories", {}),
        ("everything__get-sum", {"a": 1, "b": 1}),
        ("http-old__echo", {"text": "one"}),
        ("pipes-new__echo", {"text": "two"}),
    ]
    received = told(running, ", ".join(names), calls, "openai_responses", Responses)
    allowed, added, one, two = texts(received)
    assert str(running.log.parent / "files") in allowed
    assert "2" in added
    assert (one, two) == ("one", "two")


def pid_of(running: Running, server: str) -> int:
    return int(json.loads(texts(told(running, server, [(f"{server}__whoami", {})]))[0])["pid"])


def test_a_server_that_is_killed_in_mid_call_is_an_error_to_the_model_and_back_for_the_next_request(
    running: Running, tmp_path: Path
) -> None:
    first = pid_of(running, "mortal")
    behind = running.upstreams["openai_chat"]
    calls: Calls = [
        ("mortal__slow", {"seconds": 600, "mark": str(tmp_path / "mark")}),
        ("pipes-new__echo", {"text": "unharmed"}),
    ]
    behind.play(calling(calls))
    client = openai_client().with_options(base_url=f"{running.base_url}/v1")
    thoughts = ""
    with client.chat.completions.create(
        model="plain-openai_chat",
        messages=[{"role": "user", "content": "Wait."}],
        stream=True,
        extra_headers={HEADER: "mortal, pipes-new"},
    ) as chunks:
        for chunk in chunks:
            for choice in chunk.choices:
                thoughts += (choice.delta.model_extra or {}).get("reasoning_content") or ""
            if "slow: 1/2 half" in thoughts and lives(first):  # its progress is told while it runs
                os.kill(first, signal.SIGKILL)
    failed, echoed = texts(behind.received[-1])
    assert "ended before it had answered" in failed
    assert echoed == "unharmed"
    assert "mortal: slow failed" in thoughts
    running.until("mortal", state="ready", restarts=1)
    assert pid_of(running, "mortal") != first


def test_a_client_that_leaves_cancels_the_call_at_its_server(running: Running, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    running.upstreams["anthropic"].play(calling([("http-new__slow", {"seconds": 600, "mark": str(mark)})]))
    client = openai_client().with_options(base_url=f"{running.base_url}/v1")
    with client.chat.completions.create(
        model="plain-anthropic",
        messages=[{"role": "user", "content": "Wait."}],
        stream=True,
        extra_headers={HEADER: "http-new"},
    ) as chunks:
        deltas = (choice.delta.model_extra or {} for chunk in chunks for choice in chunk.choices)
        assert any("1/2 half" in delta.get("reasoning_content", "") for delta in deltas)
    until(mark.exists, "mark of a tool that was cancelled")


BAD = {
    "it hangs": ("hasty", "hang", "did not answer within 1 second"),
    "it answers with no result": ("wayward", "not_mcp", "not"),
    "its error has escapes and its secret": ("wayward", "error", "no [redacted]"),
    "it dies": ("wayward", "die", "ended before it had answered"),
}


@pytest.mark.parametrize(("server", "tool", "why"), BAD.values(), ids=BAD)
def test_what_a_bad_server_does_is_an_error_to_the_model(running: Running, server: str, tool: str, why: str) -> None:
    (result,) = told(running, server, [(f"{server}__{tool}", {})], "anthropic").results
    assert result.failed
    assert why in result.text
    assert "\x1b" not in result.text
    assert SECRET not in result.text


def test_a_lie_and_a_flood_of_output_are_told_as_far_as_they_go(running: Running) -> None:
    calls: Calls = [("flooding__lie", {}), ("pipes-new__echo", {"text": "x" * 300_000})]
    lie, huge = texts(told(running, "flooding, pipes-new", calls))
    assert "three" in lie  # against its own schema, which is for the model to judge
    assert huge.endswith("[cut off: 100000 of 300000 bytes]")
    assert len(huge) < 101_000


def test_a_server_that_cannot_start_is_told_in_the_receipt_and_the_others_work(running: Running) -> None:
    received = told(running, "dead, pipes-new", [("pipes-new__echo", {"text": "here"})])
    assert not any(name.startswith("dead__") for name in received.tools)
    assert texts(received) == ["here"]
    receipt = running.receipt("it is not available")
    lines = [line for line in receipt["lines"] if line["where"] == "mcp.dead"]
    assert [(line["severity"], line["what"]) for line in lines] == [("loss", "MCP server")]
    assert "exit code 3" in lines[0]["why"]


def test_a_tool_that_a_server_does_not_have_is_an_error_to_the_model_and_no_call_of_the_clients(
    running: Running,
) -> None:
    (unknown,) = texts(told(running, "pipes-new", [("pipes-new__conjure", {})]))
    assert "There is no tool pipes-new__conjure" in unknown
    (gone,) = texts(told(running, "dead", [("dead__add", {})]))
    assert "There is no tool dead__add" in gone


def test_a_server_that_floods_its_output_keeps_nobody_from_working(running: Running) -> None:
    assert texts(told(running, "flooding", [("flooding__flood", {})])) == ["here it comes"]
    assert texts(told(running, "pipes-new", [("pipes-new__echo", {"text": "still here"})])) == ["still here"]
