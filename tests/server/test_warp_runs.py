"""Runs that say the same to Warp at the same time: each goes on in the conversation that is its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.exchanges import calls_of
from tests.server.gateway import Running, at, gateway
from tests.server.warp_loop import CLIENTS, Client, before, kept, user
from tests.upstream.bad_server import BadServer
from tests.warp_server.agent import TOKEN, Agent, Heard, Turn
from tests.warp_server.scripts import Called
from tests.warp_server.server import warp_server
from toolglot.config.schema import ModelConfig
from toolglot.ir import Block, Message, Response, Text, ToolCall, ToolResult, replace
from toolglot.store.sqlite import SqliteStore

LEGAL, ILLEGAL = "call-{}-{}", "call:{}/{}"
"""How Warp's ids look. No other API allows the second, so that its clients are given others."""
TOLD_ANEW = "note messages: this conversation is not stored: it is sent in full"


class Careful(Agent):
    """Asks for the same tools in every run, twice, under ids of its own, and wants back what it has sent last in a
    conversation, unless several runs may go on in it."""

    def __init__(self, ids: str = LEGAL, *, shared: bool = False) -> None:
        super().__init__(self._turn, "native" if shared else "replay")
        self._ids = ids

    def _check_history(self, now: Heard) -> None:
        if now.conversation:
            super()._check_history(now)

    def _turn(self, now: Heard) -> Turn:
        number = len(self.heard)
        if len(now.results) < 3 and (now.fresh or not now.results):
            names = ("get_time",) if now.results else ("get_weather", "get_time")
            return Turn("", tuple(Called(self._ids.format(number, name), name, {}) for name in names))
        return Turn(f"{len(now.results)} results.")

    def conversations(self) -> list[str]:
        """Where each request went on; empty for a new one."""
        return [heard.conversation.removeprefix("conversation-") for heard in self.heard]


class Run(Client):
    """A client in a run of four requests. `own` is what it makes of the id of a call."""

    def __init__(
        self, dialect: str, running: Running, *, stream: bool = False, own: Callable[[str], str] = lambda given: given
    ) -> None:
        super().__init__(dialect, running, stream=stream)
        self._own = own
        self._calls: list[ToolCall] = []

    def go_on(self) -> None:
        """The next request: the question, then results as long as there are calls, then thanks."""
        self.say(self._results() if self._calls else user("Thanks" if len(self.messages) > 1 else "Weather and time?"))

    def say(self, *messages: Message) -> Response:
        response = super().say(*messages)
        content = tuple(self._renamed(block) for block in response.content)
        self.messages[-1] = replace(self.messages[-1], content=content)
        self._calls = calls_of(content)
        return response

    def _renamed(self, block: Block) -> Block:
        return replace(block, id=self._own(block.id)) if isinstance(block, ToolCall) else block

    def _results(self) -> Message:
        done = (Text(text="Done."),)
        return Message(
            role="tool",
            content=tuple(ToolResult(call_id=call.id, name=call.name, content=done) for call in self._calls),
        )


def take_turns(runs: Sequence[Run], order: str) -> None:
    for name in order:
        runs["ABC".index(name)].go_on()
        assert TOLD_ANEW not in runs["ABC".index(name)].receipt()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("ids", [LEGAL, ILLEGAL])
@pytest.mark.parametrize("dialect", CLIENTS)
def test_runs_that_say_the_same_stay_in_their_own_conversations(dialect: str, ids: str, stream: bool) -> None:
    warp = Careful(ids)
    with kept() as store, before(warp, store=store) as (running, _):
        take_turns([Run(dialect, running, stream=stream) for _ in range(3)], "ABCABCCBAABC")
    assert "".join(name or "-" for name in warp.conversations()) == "---123321123"
    assert [heard.fresh for heard in warp.heard[3:9]] == [
        *([ids.format(number, name) for name in ("get_weather", "get_time")] for number in (1, 2, 3)),
        *([ids.format(number, "get_time")] for number in (6, 5, 4)),
    ]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("dialect", "own"),
    [
        pytest.param("gemini", lambda given: "", id="none"),
        pytest.param("openai_chat", lambda given: f"mine_{given}", id="others"),
        pytest.param("anthropic", lambda given: f"mine_{given}", id="others"),
    ],
)
def test_a_client_without_the_ids_goes_on_from_what_is_newest(
    dialect: str, own: Callable[[str], str], stream: bool
) -> None:
    """Its calls are known by their places."""
    warp = Careful(shared=True)
    with kept() as store, before(warp, store=store) as (running, _):
        take_turns([Run(dialect, running, stream=stream, own=own) for _ in range(2)], "ABAB")
    assert warp.conversations() == ["", "", "2", "2"]
    assert warp.heard[2].fresh == warp.heard[3].fresh == [LEGAL.format(2, name) for name in ("get_weather", "get_time")]


def test_where_nothing_was_called_the_newest_is_gone_on_from() -> None:
    warp = Agent(lambda now: Turn("Hello."))
    with kept() as store, before(warp, store=store) as (running, _):
        one, other = (Client("openai_chat", running) for _ in range(2))
        for client in (one, other, one):
            client.say(user("Hi"))
    assert [heard.conversation for heard in warp.heard] == ["", "", "conversation-2"]


def test_an_answer_that_is_asked_for_again_is_a_run_of_its_own() -> None:
    """Both have the first calls in common."""
    warp = Careful(shared=True)
    with kept() as store, before(warp, store=store) as (running, _):
        run, again = (Run("openai_chat", running) for _ in range(2))
        run.go_on()
        again.messages, again._calls = list(run.messages), list(run._calls)
        take_turns([run, again], "ABAB")
    assert warp.conversations() == ["", "1", "1", "1", "1"]
    assert [heard.fresh for heard in warp.heard[3:]] == [[LEGAL.format(number, "get_time")] for number in (2, 3)]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_runs_whose_calls_are_text_to_warp_are_told_apart_by_the_ids_that_the_client_was_given(stream: bool) -> None:
    def script(now: Heard) -> Turn:
        answered = any("<tool_response>" in query for query in now.queries)
        return Turn("Done." if answered else '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>')

    warp, models = Agent(script), {"auto": ModelConfig(upstream="up", tools="hermes")}
    with (
        kept() as store,
        warp_server(warp) as server,
        gateway(at("warp", server.url, key=TOKEN), models=models, store=store) as running,
    ):
        take_turns([Run("anthropic", running, stream=stream) for _ in range(2)], "ABABBA")
    conversations = [heard.conversation.removeprefix("conversation-") for heard in warp.heard]
    assert conversations == ["", "", "1", "2", "2", "1"]


@contextmanager
def gateways(server: BadServer, path: Path, count: int) -> Iterator[list[Running]]:
    """So many at once, each with its own store in the same file."""
    with ExitStack() as stack:
        stores: list[SqliteStore] = [stack.enter_context(kept(path)) for _ in range(count)]
        yield [stack.enter_context(gateway(at("warp", server.url, key=TOKEN), store=store)) for store in stores]


@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic", "gemini"])
def test_runs_are_told_apart_after_a_restart(dialect: str, tmp_path: Path) -> None:
    warp = Careful(ILLEGAL)
    with warp_server(warp) as server:
        with gateways(server, tmp_path / "store.sqlite3", 1) as (running,):
            runs = [Run(dialect, running) for _ in range(2)]
            take_turns(runs, "AB")
        with gateways(server, tmp_path / "store.sqlite3", 1) as (running,):
            for run in runs:
                run.running = running
            take_turns(runs, "AB")
    assert warp.conversations() == ["", "", "1", "2"]


def test_runs_are_told_apart_by_two_gateways_that_share_a_file(tmp_path: Path) -> None:
    warp = Careful()
    with warp_server(warp) as server, gateways(server, tmp_path / "store.sqlite3", 2) as (left, right):
        one, other = Run("openai_chat", left), Run("openai_chat", right)
        take_turns([one, other], "AB")
        one.running, other.running = right, left
        take_turns([one, other], "ABBA")
    assert warp.conversations() == ["", "", "1", "2", "2", "1"]
