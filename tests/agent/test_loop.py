"""The loop: who is asked what, what is run, and what its reader sees."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.agent.scripted import (
    ASKED,
    Function,
    ScriptedModel,
    ScriptedServers,
    answer_of,
    call,
    loop_of,
    returns,
    says,
    text,
)
from tests.waiting import FAILSAFE
from toolglot.agent.loop import LoopReporting
from toolglot.agent.reasoning_report import ReasoningReport
from toolglot.agent.runner import OnProgress, ServedToolCall
from toolglot.agent.server_records import ToolFailedError
from toolglot.config.schema import McpConfig
from toolglot.errors import ApiError
from toolglot.events import Close, Fault, Open, Start
from toolglot.ir import (
    Block,
    Message,
    Opaque,
    Stop,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
    replace,
)
from toolglot.tools.served import ReportPiece, ServedCall

WEATHER = ScriptedServers({"sky": {"weather": returns("21 degrees"), "wind": returns("calm")}})


def results_of(message: Message) -> list[tuple[str, str, bool | None]]:
    found = []
    for block in message.content:
        assert isinstance(block, ToolResult)
        words = "".join(inner.text for inner in block.content if isinstance(inner, Text))
        found.append((block.call_id, words, block.is_error))
    return found


def words_of(content: tuple[Block, ...]) -> list[str]:
    return [block.text for block in content if isinstance(block, Text)]


def servers(**functions: Function) -> ScriptedServers:
    return ScriptedServers({"s": functions})


async def test_a_served_call_is_run_and_the_model_is_given_its_result() -> None:
    model = ScriptedModel(says("Let me see.", call("sky__weather", '{"city":"Paris"}')), says("It is 21 degrees."))
    loop = loop_of(model, WEATHER)
    answer = await answer_of(loop)
    assert words_of(answer.content) == ["Let me see.", "It is 21 degrees."]
    assert not any(isinstance(block, ToolCall) for block in answer.content)
    assert answer.stop.reason == "end"
    assert answer.usage == Usage(input_tokens=20, output_tokens=6)
    second = model.asked[1].messages
    assert second[0] == ASKED.messages[0]
    assert second[1].content[1] == call("sky__weather", '{"city":"Paris"}')
    assert results_of(second[2]) == [("call_sky__weather", "21 degrees", None)]
    assert WEATHER.called[-1] == ("sky", "weather", {"city": "Paris"})
    assert [outcome.served.offered.tool.name for outcome in loop.outcomes] == ["weather"]


async def test_the_model_is_offered_the_tools_of_all_servers_beside_the_clients() -> None:
    model = ScriptedModel(says("Nothing to do."))
    await answer_of(loop_of(model, WEATHER))
    assert [tool.name for tool in model.asked[0].tools] == ["sky__weather", "sky__wind"]  # type: ignore[union-attr]


async def test_calls_of_one_round_run_side_by_side_and_their_results_keep_their_order() -> None:
    second_began = asyncio.Event()

    async def first(arguments: dict[str, Any], on_progress: OnProgress) -> dict[str, Any]:
        await second_began.wait()
        return text("one")

    async def second(arguments: dict[str, Any], on_progress: OnProgress) -> dict[str, Any]:
        second_began.set()
        return text("two")

    model = ScriptedModel(says(call("s__first"), call("s__second")), says("Done."))
    await answer_of(loop_of(model, servers(first=first, second=second)))
    assert [words for _, words, _ in results_of(model.asked[1].messages[-1])] == ["one", "two"]


async def test_a_call_to_the_clients_own_tool_ends_the_answer_once_the_others_have_been_run() -> None:
    own = call("pick", '{"a":1}')
    model = ScriptedModel(says("Both.", call("sky__weather"), own))
    loop = loop_of(model, WEATHER)
    answer = await answer_of(loop)
    assert [block for block in answer.content if isinstance(block, ToolCall)] == [own]
    assert answer.stop.reason == "tool_calls"
    assert len(model.asked) == 1
    # What the client cannot send back is kept: both calls in one turn, and the result of the one that was run.
    assert [block for block in loop.rounds[0].content if isinstance(block, ToolCall)] == [call("sky__weather"), own]
    assert results_of(loop.rounds[1]) == [("call_sky__weather", "21 degrees", None)]


async def test_nothing_is_kept_of_an_answer_without_served_calls() -> None:
    loop = loop_of(ScriptedModel(says("Hello.", call("pick"))), WEATHER)
    await answer_of(loop)
    assert loop.rounds == []


async def test_what_is_kept_ends_with_the_models_last_words() -> None:
    loop = loop_of(ScriptedModel(says(call("sky__weather")), says("Warm.")), WEATHER)
    await answer_of(loop)
    assert [message.role for message in loop.rounds] == ["assistant", "tool", "assistant"]
    assert words_of(loop.rounds[-1].content) == ["Warm."]


async def _fails(arguments: dict[str, Any], on_progress: OnProgress) -> dict[str, Any]:
    raise ToolFailedError("the server is gone")


async def _breaks(arguments: dict[str, Any], on_progress: OnProgress) -> dict[str, Any]:
    raise ZeroDivisionError("a secret")


async def _lies(arguments: dict[str, Any], on_progress: OnProgress) -> dict[str, Any]:
    return {"content": "not a list"}


async def _hangs(arguments: dict[str, Any], on_progress: OnProgress) -> dict[str, Any]:
    await asyncio.Event().wait()
    return text("never")


async def _objects(arguments: dict[str, Any], on_progress: OnProgress) -> dict[str, Any]:
    return text("no such city", isError=True)


@pytest.mark.parametrize(
    ("function", "arguments", "complete", "expected"),
    [
        (_fails, "{}", True, "the server is gone"),
        (_breaks, "{}", True, "The tool could not be run."),
        (_lies, "{}", True, "The tool's server returned an invalid result: $.content: "),
        (_hangs, "{}", True, "The time limit of 0.05 seconds for all calls is reached."),
        (_objects, "{}", True, "no such city"),
        (returns("x"), '{"a":', True, "The arguments are not a JSON object: the call was not run."),
        (returns("x"), "[1]", True, "The arguments are not a JSON object: the call was not run."),
        (returns("x"), "{}", False, "The call was cut off, or its arguments are not JSON: it was not run."),
    ],
)
async def test_whatever_goes_wrong_with_a_call_becomes_an_error_for_the_model(
    function: Function, arguments: str, complete: bool, expected: str
) -> None:
    model = ScriptedModel(says(call("s__tool", arguments, complete=complete)), says("I see."))
    limits = McpConfig(seconds=0.05) if function is _hangs else McpConfig()
    answer = await answer_of(loop_of(model, servers(tool=function), limits))
    ((_, words, is_error),) = results_of(model.asked[1].messages[-1])
    assert words.startswith(expected)
    assert is_error is True
    assert words_of(answer.content) == ["I see."]


@pytest.mark.parametrize("reason", ["length", "context_full", "refusal", "filtered", "malformed_call"])
async def test_calls_of_an_answer_that_was_cut_off_are_not_run(reason: Any) -> None:
    tools = servers(tool=returns("x"))
    loop = loop_of(ScriptedModel(says("Well", call("s__tool"), stop=Stop(reason))), tools)
    answer = await answer_of(loop)
    assert tools.called == []
    assert answer.stop.reason == reason
    assert words_of(answer.content) == ["Well"]
    assert [left.name for left in loop.left_out] == ["s__tool"]


async def test_in_the_last_round_the_model_may_call_nothing_and_what_it_calls_is_not_run() -> None:
    tools = servers(tool=returns("x"))
    model = ScriptedModel(says(call("s__tool", number="a")), says(call("s__tool", number="b")))
    answer = await answer_of(loop_of(model, tools, McpConfig(rounds=2)))
    assert model.asked[0].tool_choice is None
    assert model.asked[1].tool_choice == ToolChoice(mode="none")
    assert len(tools.called) == 1
    assert answer.stop.reason == "pause"


async def test_no_more_calls_are_run_than_the_limit_says() -> None:
    tools = servers(tool=returns("x"))
    model = ScriptedModel(says(*(call("s__tool", number=f"c{number}") for number in range(5))), says("Enough."))
    await answer_of(loop_of(model, tools, McpConfig(calls=3)))
    assert len(tools.called) == 3
    assert [is_error for _, _, is_error in results_of(model.asked[1].messages[-1])] == [None, None, None, True, True]


async def test_no_more_calls_run_at_the_same_time_than_the_limit_says() -> None:
    running, most = 0, 0

    async def tool(arguments: dict[str, Any], on_progress: OnProgress) -> dict[str, Any]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(3):
            await asyncio.sleep(0)
        running -= 1
        return text("x")

    model = ScriptedModel(says(*(call("s__tool", number=f"c{number}") for number in range(9))), says("Done."))
    await answer_of(loop_of(model, servers(tool=tool), McpConfig(parallel=2)))
    assert most == 2


async def test_a_long_result_is_cut_and_says_so() -> None:
    model = ScriptedModel(says(call("s__tool")), says("Long."))
    await answer_of(loop_of(model, servers(tool=returns("é" * 1000)), McpConfig(result_bytes=101)))
    ((_, words, _),) = results_of(model.asked[1].messages[-1])
    assert words == "é" * 50 + "\n[cut off: 100 of 2000 bytes]"


async def test_a_choice_that_forces_a_call_is_made_once() -> None:
    asked = replace(ASKED, tool_choice=ToolChoice(mode="required"))
    model = ScriptedModel(says(call("sky__weather")), says("Done."))
    await answer_of(loop_of(model, WEATHER), asked)
    assert model.asked[0].tool_choice == ToolChoice(mode="required")
    assert model.asked[1].tool_choice is None


async def test_a_choice_among_the_clients_tools_does_not_shut_out_those_that_are_served() -> None:
    asked = replace(ASKED, tool_choice=ToolChoice(mode="auto", names=("pick",)))
    model = ScriptedModel(says("Done."))
    await answer_of(loop_of(model, WEATHER), asked)
    assert model.asked[0].tool_choice == ToolChoice(mode="auto", names=("pick", "sky__weather", "sky__wind"))


async def test_a_fault_ends_the_answer() -> None:
    fault = Fault(ApiError(kind="server", message="gone"))
    loop = loop_of(ScriptedModel(says(call("sky__weather")), [Start(), fault]), WEATHER)
    seen = [event async for events in loop.run(ASKED) for event in events]
    assert seen[-1] == fault


async def test_stopping_the_reader_cancels_the_tool() -> None:
    began, cancelled = asyncio.Event(), asyncio.Event()

    async def tool(arguments: dict[str, Any], on_progress: OnProgress) -> dict[str, Any]:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return text("never")

    loop = loop_of(ScriptedModel(says(call("s__tool"))), servers(tool=tool))
    reading = asyncio.create_task(answer_of(loop))
    await began.wait()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await asyncio.wait_for(cancelled.wait(), FAILSAFE)


async def test_calls_that_need_a_yes_are_asked_about_one_at_a_time() -> None:
    asked: list[str] = []
    asking = 0

    async def approve(served: ServedToolCall) -> bool:
        nonlocal asking
        asking += 1
        assert asking == 1
        await asyncio.sleep(0)
        asked.append(served.as_served_call.name)
        asking -= 1
        return served.as_served_call.name == "yes"

    tools = servers(yes=returns("done"), no=returns("done"))
    model = ScriptedModel(says(call("s__yes"), call("s__no")), says("Done."))
    await answer_of(loop_of(model, tools, approve=approve, policy="ask"))
    assert sorted(asked) == ["no", "yes"]
    assert [name for _, name, _ in tools.called] == ["yes"]
    assert results_of(model.asked[1].messages[-1]) == [
        ("call_s__yes", "done", None),
        ("call_s__no", "The user did not allow this call: it was not run.", True),
    ]


def approval(asked: ServedCall) -> Block:
    return Opaque("test", {"asks": asked.name})


async def test_where_the_reader_is_asked_in_the_answer_the_answer_ends_with_the_question() -> None:
    tools = servers(tool=returns("done"))
    model = ScriptedModel(says("May I?", call("s__tool")))
    loop = loop_of(model, tools, words=LoopReporting(approval=approval), policy="ask")
    answer = await answer_of(loop)
    assert answer.content == (Text(text="May I?"), Opaque("test", {"asks": "tool"}))
    assert answer.stop.reason == "end"
    assert tools.called == []
    assert loop.rounds == []


async def test_a_call_that_the_reader_has_allowed_is_run_before_the_model_is_asked() -> None:
    tools = servers(tool=returns("done"))
    asked = replace(ASKED, messages=(*ASKED.messages, Message(role="assistant", content=(call("s__tool"),))))
    model = ScriptedModel(says("It is done."))
    loop = loop_of(model, tools, words=LoopReporting(teller=ReasoningReport, approval=approval), policy="ask")
    allowed = ServedCall(id="call_s__tool", server="s", name="tool", arguments="{}")
    answer = await answer_of(loop, asked, approved=[allowed])
    assert results_of(model.asked[0].messages[-1]) == [("call_s__tool", "done", None)]
    first, last = answer.content
    assert isinstance(first, Thinking)
    assert "[s: tool returned done]" in first.text
    assert last == Text(text="It is done.")


async def test_the_reader_is_told_of_calls_while_they_run() -> None:
    async def tool(arguments: dict[str, Any], on_progress: OnProgress) -> dict[str, Any]:
        on_progress(1, 2, "half way")
        return text("21 degrees")

    model = ScriptedModel(says("Let me see.", call("s__tool", '{"a": 1}')), says("Done."))
    answer = await answer_of(loop_of(model, servers(tool=tool), words=LoopReporting(teller=ReasoningReport)))
    told = answer.content[1]
    assert isinstance(told, Thinking)
    assert told.text == '[s: tool {"a": 1}]\n[s: tool: 1/2 half way]\n[s: tool returned 21 degrees]\n'
    assert words_of(answer.content) == ["Let me see.", "Done."]


async def test_state_that_belongs_to_a_served_call_does_not_reach_the_reader_without_it() -> None:
    state = Thinking(native={"x": {"state": "of the call"}})
    model = ScriptedModel(says(state, call("sky__weather"), state, call("pick")))
    loop = loop_of(model, WEATHER)
    answer = await answer_of(loop)
    assert answer.content == (state, call("pick"))
    assert loop.rounds[0].content == (state, call("sky__weather"), state, call("pick"))


async def test_reasoning_of_a_served_call_goes_to_the_readers_own_call_of_the_same_round() -> None:
    state = Thinking(native={"x": {"state": "of both calls"}})
    loop = loop_of(ScriptedModel(says(state, call("sky__weather"), call("pick"))), WEATHER)
    assert (await answer_of(loop)).content == (state, call("pick"))


async def test_the_state_at_the_end_of_a_round_without_calls_of_the_reader_does_not_reach_it() -> None:
    first, last = (Thinking(native={"x": {"sealed": number}}) for number in (1, 2))
    model = ScriptedModel(says("Look.", call("sky__weather"), first), says("Done.", last))
    assert (await answer_of(loop_of(model, WEATHER))).content == (Text(text="Look."), Text(text="Done."), last)


# What a reader sends back it gets in the model's order

BEFORE, BETWEEN, BEHIND = (Thinking(native={"x": {"state": where}}) for where in ("before", "between", "behind"))
MOVED = Thinking(native={"x": {"state": "moved"}})


class WholeReport:
    """Reports a call in one block and its result in another, as Anthropic's clients know it."""

    def __init__(self) -> None:
        self._next = 0

    def begin(self, calls: Sequence[ServedCall]) -> list[ReportPiece]:
        return [piece for each in calls for piece in self._block(f"call {each.name}{_marks(each)}")]

    def progress(self, call: ServedCall, message: str) -> list[ReportPiece]:
        return []

    def done(self, result: ToolResult) -> list[ReportPiece]:
        return self._block("result")

    def _block(self, words: str) -> list[ReportPiece]:
        self._next += 1
        return [Open(self._next, Opaque("test", words)), Close(index=self._next)]


class OpenReport(WholeReport):
    """Reports a call in a block that is open until it has its result, as Responses clients know it."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[ServedCall] = []

    def begin(self, calls: Sequence[ServedCall]) -> list[ReportPiece]:
        self._waiting = list(calls)
        return self._block(f"call {calls[0].name}{_marks(calls[0])}")[:1]

    def done(self, result: ToolResult) -> list[ReportPiece]:
        self._waiting.pop(0)
        end: list[ReportPiece] = [Close(index=self._next)]
        return [*end, *self.begin(self._waiting)] if self._waiting else end


def _marks(call: ServedCall) -> str:
    return " joins" * call.joins + " followed" * call.followed


def shown(block: Block) -> str:
    match block:
        case Opaque(value=value):
            return str(value)
        case Thinking(native={"x": {"state": state}}):
            return f"({state})"
        case ToolCall(name=name):
            return name
    return block.text if isinstance(block, Text) else ""


W, N, OWN = call("sky__weather"), call("sky__wind"), call("pick")


@pytest.mark.parametrize(
    ("said", "whole", "opened"),
    [
        (
            (BEFORE, W, OWN),
            "(before), call weather followed, pick, result",
            "(before), call weather followed, pick",
        ),
        ((OWN, BEFORE, W), "pick, (before), call weather, result", "pick, (before), call weather"),
        (
            (W, BETWEEN, N, "Well.", OWN),
            "call weather followed, (between), call wind joins, Well., pick, result, result",
            "call weather followed, (between), call wind joins, Well., pick",
        ),
        (
            (W, OWN, BETWEEN, N),
            "call weather, pick, (between), call wind joins, result, result",
            "call weather, pick, (between), call wind joins",
        ),
        ((W, BEHIND, OWN), "(moved), call weather followed, pick, result", "(moved), call weather followed, pick"),
        ((W, N), "call weather, call wind joins, result, result, Done.", "call weather, call wind joins, Done."),
        (("One.", W, "Two."), "One., Two., call weather, result, Done.", "One., Two., call weather, Done."),
        (
            (BEFORE, W, BETWEEN, N, BEHIND, "Two."),
            "Two., (before), call weather, (between), (moved), call wind joins, result, result, Done.",
            "Two., (before), call weather, (between), (moved), call wind joins, Done.",
        ),
    ],
)
@pytest.mark.parametrize("report", [WholeReport, OpenReport])
async def test_calls_are_reported_in_the_models_order_with_their_state(
    said: tuple[Block | str, ...], whole: str, opened: str, report: type[WholeReport]
) -> None:
    words = LoopReporting(teller=report, move_state=lambda block: MOVED if block == BEHIND else None)
    model = ScriptedModel(says(*said), says("Done."))
    answer = await answer_of(loop_of(model, WEATHER, words=words))
    assert ", ".join(map(shown, answer.content)) == (whole if report is WholeReport else opened)


async def test_of_calls_that_are_not_reported_the_state_is_left_out_too() -> None:
    words = LoopReporting(move_state=lambda block: MOVED if block == BEHIND else None)
    answer = await answer_of(loop_of(ScriptedModel(says(BEFORE, W, BEHIND, BETWEEN, OWN)), WEATHER, words=words))
    assert answer.content == (BETWEEN, OWN)


async def test_questions_stand_in_the_models_order_with_the_state_of_their_calls() -> None:
    words = LoopReporting(
        teller=OpenReport,
        approval=lambda each: Opaque("test", f"{each.name}?{_marks(each)}"),
        move_state=lambda _: None,
    )
    loop = loop_of(ScriptedModel(says(BEFORE, W, OWN, BETWEEN, N)), WEATHER, words=words, policy="ask")
    answer = await answer_of(loop)
    assert list(map(shown, answer.content)) == ["(before)", "weather?", "pick", "(between)", "wind? joins"]


async def test_blocks_that_the_answer_begins_with_come_before_the_models_words() -> None:
    answer = await answer_of(loop_of(ScriptedModel(says("Hello.")), WEATHER), first=[Opaque("test", "list")])
    assert answer.content == (Opaque("test", "list"), Text(text="Hello."))


async def test_the_time_that_somebody_takes_to_say_yes_is_not_the_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    time, passed = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: time() + passed)

    async def approve(served: ServedToolCall) -> bool:
        nonlocal passed
        passed = 40.0  # longer than all calls together may take
        return True

    tools = servers(tool=returns("done"))
    model = ScriptedModel(says(call("s__tool")), says("Done."))
    await answer_of(loop_of(model, tools, McpConfig(seconds=30), approve=approve, policy="ask"))
    assert results_of(model.asked[1].messages[-1]) == [("call_s__tool", "done", None)]
    assert model.asked[1].tool_choice is None


@pytest.mark.parametrize(("policy", "runs"), [("auto", True), ("ask", True), ("never", False)])
async def test_a_yes_that_nobody_asked_for_allows_nothing_that_the_policy_forbids(policy: Any, runs: bool) -> None:
    tools = servers(tool=returns("done"))
    asked = replace(ASKED, messages=(*ASKED.messages, Message(role="assistant", content=(call("s__tool"),))))
    model = ScriptedModel(says("Well."))
    forged = ServedCall(id="call_s__tool", server="s", name="tool", arguments="{}")
    await answer_of(
        loop_of(model, tools, words=LoopReporting(approval=approval), policy=policy), asked, approved=[forged]
    )
    assert bool(tools.called) is runs
    ((_, _, is_error),) = results_of(model.asked[0].messages[-1])
    assert bool(is_error) is not runs


async def test_a_tool_tells_no_more_of_its_progress_than_a_reader_can_follow() -> None:
    async def tool(arguments: dict[str, Any], on_progress: OnProgress) -> dict[str, Any]:
        for number in range(10_000):
            on_progress(number, None, "x")
        return text("done")

    model = ScriptedModel(says(call("s__tool")), says("Done."))
    answer = await answer_of(loop_of(model, servers(tool=tool), words=LoopReporting(teller=ReasoningReport)))
    told = answer.content[0]
    assert isinstance(told, Thinking)
    assert told.text.count("\n") < 10
