"""Requests, responses and streams as clients and servers of Warp write them, as trees of messages."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from tests.documents.shared import (
    Documents,
    Spoken,
    answers,
    counts,
    flags,
    object_schemas,
    objects,
    record,
    some,
    texts,
    words,
)
from tests.strategies import ids, json_values, names
from tests.warp_server import frames, story

contexts = record(
    {},
    {
        "directory": record({"pwd": st.just("/home/u"), "home": st.just("/home/u")}),
        "operating_system": record({"platform": st.just("Linux")}, {"distribution": words}),
        "shell": record({"name": st.just("zsh")}, {"version": words}),
        "current_time": st.just({"seconds": 1763164800, "nanos": 5}),
        "selected_text": some(record({"text": texts}), at_least=1, at_most=2),
        "images": some(st.just({"data": "YUdWc2JHOD0=", "mime_type": "image/png"}), at_least=1, at_most=1),
    },
)
attachments = st.dictionaries(
    st.sampled_from(["SYSTEM_PROMPT", "notes"]),
    st.one_of(
        record({"plain_text": texts}),
        st.just({"file_path_reference": {"#1": [[2, "L2EvYg=="]]}}),
        st.just({"#77": [[0, 1]]}),
    ),
    max_size=2,
)
modes: st.SearchStrategy[Any] = st.sampled_from([{}, {"plan": {}}, {"orchestrate": {}}])
queries: dict[str, Any] = {
    "referenced_attachments": attachments,
    "mode": modes,
    "intended_agent": st.sampled_from([1, 2]),
}

pieces_of_a_result = st.one_of(
    record({"text": record({"text": texts})}, unknown=False),
    st.just({"image": {"data": "YUdWc2JHOD0=", "mime_type": "image/png"}}),
    st.just({"resource": {"uri": "file:///a", "text": {"content": "x", "mime_type": "text/plain"}}}),
)
mcp_results: st.SearchStrategy[Any] = st.one_of(
    record({"success": record({"results": some(pieces_of_a_result)})}),
    record({"error": record({"message": texts})}),
    st.just({}),
)
input_results = st.one_of(
    record({"tool_call_id": ids, "call_mcp_tool": mcp_results}),
    st.just({"tool_call_id": "b-1", "grep": {"error": {"message": "no"}}}),
)
inputs = st.one_of(
    record({"user_query": record({"query": texts}, queries)}, unknown=False),
    record({"tool_call_result": input_results}, unknown=False),
    st.just({"cli_agent_user_query": {"#1": [[2, "YQ=="]]}}),
)

warp_ids = ids.filter(lambda call_id: bool(call_id) and call_id.isascii() and " " not in call_id)
mcp_calls = record(
    {"tool_call_id": warp_ids, "call_mcp_tool": record({"name": names}, {"args": objects, "server_id": words})}
)
other_calls = st.sampled_from(
    [
        {"tool_call_id": "srv-1", "server": {"payload": "IgA="}},
        {"tool_call_id": "b-1", "grep": {"queries": ["x", "y"], "path": "."}},
        {"tool_call_id": "b-2", "run_shell_command": {"command": "ls", "is_read_only": True, "risk_category": 1}},
        {"tool_call_id": "b-3", "suggest_create_plan": {}},
        {"tool_call_id": "b-4", "#99": [[2, "CgNhYmM="]]},
    ]
)
past_results = st.one_of(
    record({"tool_call_id": ids, "call_mcp_tool": mcp_results}, {"context": contexts}),
    st.just({"tool_call_id": "srv-1", "server": {"serialized_result": "b2s="}}),
    st.just({"tool_call_id": "b-1", "cancel": {}}),
)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "user_query": record({"query": texts}, {**queries, "context": contexts}),
    "agent_output": record({"text": texts}),
    "agent_reasoning": record({"reasoning": texts}, {"finished_duration": st.just({"seconds": 2})}),
    "tool_call": mcp_calls | other_calls,
    "tool_call_result": past_results,
    "server_event": record({"payload": words}),
    "web_search": st.just({"status": {"searching": {"query": "x"}}}),
    "update_todos": st.just({"create_todo_list": {"initial_todos": [{"id": "1", "title": "A"}]}}),
    "debug_output": record({"text": texts}),
    "#99": st.just([[2, "CgNhYmM="]]),
}
marks: dict[str, st.SearchStrategy[Any]] = {
    "task_id": words,
    "request_id": words,
    "server_message_data": words,
    "timestamp": st.just({"seconds": 1763164800}),
    "citations": st.just([{"document_id": "d", "document_type": 3}]),
}
messages = st.one_of(*(record({"id": words, kind: value}, marks) for kind, value in KINDS.items()))
tasks = record(
    {"id": words},
    {
        "messages": some(messages, at_most=5),
        "description": texts,
        "dependencies": st.sampled_from([{}, {"parent_task_id": "task-root"}]),
        "status": st.just({"in_progress": {}}),
        "summary": texts,
        "server_data": words,
    },
)

tools = record({"name": names}, {"description": texts, "input_schema": object_schemas})
resources = record({"uri": words}, {"name": words, "description": texts, "mime_type": words})
servers = record(
    {"name": words}, {"description": texts, "id": words, "tools": some(tools), "resources": some(resources, at_most=1)}
)
requests = record(
    {
        "input": record({"user_inputs": record({"inputs": some(inputs, at_least=1)})}, {"context": contexts})
        | record({"user_query": record({"query": texts}, queries)})
        | st.just({"resume_conversation": {}})
    },
    {
        "task_context": record({}, {"tasks": some(tasks, at_most=2), "active_task_id": words}),
        "settings": record(
            {"model_config": record({"base": st.sampled_from(["auto", "gpt-5-5-high"])}, {"coding": words})},
            {
                "supported_tools": st.sampled_from([[9], [2, 9, 300]]),
                "supports_parallel_tool_calls": flags,
                "supports_reasoning_message": flags,
                "rules_enabled": flags,
            },
        ),
        "metadata": record({}, {"conversation_id": words, "logging": st.dictionaries(words, json_values, max_size=2)}),
        "mcp_context": record({}, {"tools": some(tools, at_least=1), "resources": some(resources, at_most=1)})
        | record({"servers": some(servers, at_least=1, at_most=2)}),
        "existing_suggestions": st.just({"rules": [{"#1": [[2, "YQ=="]]}]}),
    },
)

ENDS: st.SearchStrategy[Any] = st.sampled_from([{}, {"done": {}}])
usages = record({"model_id": words}, {"total_input": counts, "output": counts, "input_cache_read": counts})
finishes = st.builds(
    lambda end, rest: {**end, **rest},
    ENDS,
    record(
        {},
        {
            "token_usage": some(usages, at_most=1),
            "should_refresh_model_config": flags,
            "request_cost": st.just({"exact": 0.5}),
            "conversation_usage_metadata": record(
                {}, {"context_window_usage": st.just(0.25), "total_input_tokens": counts}
            ),
        },
    ),
)
own_messages = st.one_of(
    *(record({kind: value}, marks) for kind, value in KINDS.items() if kind not in ("user_query", "tool_call_result"))
)


@st.composite
def _events(draw: st.DrawFn) -> dict[str, Any]:
    added = [
        {**message, "id": f"m-{number}", "task_id": story.ROOT}
        for number, message in enumerate(draw(some(own_messages, at_most=5)), start=10)
    ]
    begun = draw(record({"conversation_id": words, "request_id": words}, {"run_id": words}))
    opening: list[Any] = [{"init": begun}, *story.opening()[1:]]
    return {"events": [*opening, *(story.add(message) for message in added), {"finished": draw(finishes)}]}


responses: Documents = _events()


def write_stream(answer: list[Spoken]) -> str:
    events = story.opening()
    for index, block in enumerate(answer):
        if block.kind == "call":
            arguments = json.loads("".join(block.pieces) or "{}")
            events.append(story.add(story.called(index + 10, f"call-{index}", block.name, arguments)))
        elif block.pieces:
            write = story.spoken if block.kind == "text" else story.reasoned
            events += write(*block.pieces, number=index + 10)
    return frames.stream([*events, story.finished()]).decode()


streams = answers().map(write_stream)
