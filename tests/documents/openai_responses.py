"""Requests, responses and streams as clients and servers of OpenAI Responses write them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.documents.shared import (
    Spoken,
    answers,
    counts,
    flags,
    fractions,
    named_event,
    novel_parts,
    object_schemas,
    objects,
    record,
    some,
    tagged,
    texts,
    words,
)
from tests.strategies import arguments, broken_arguments, ids, names

url_annotations = st.lists(
    st.sampled_from(
        [
            {"type": "url_citation", "url": "https://a.b", "title": "A", "start_index": 0, "end_index": 1},
            {"type": "file_citation", "file_id": "f", "index": 0, "filename": "a"},
        ]
    ),
    max_size=2,
)
input_texts = tagged("input_text", {"text": texts})
input_images = tagged(
    "input_image",
    {},
    {
        "image_url": st.sampled_from(["https://example.com/a.png", "data:image/png;base64,aGVsbG8="]),
        "file_id": words,
        "detail": st.sampled_from(["auto", "low"]),
    },
)
input_files = tagged(
    "input_file",
    {},
    {
        "file_data": st.just("data:application/pdf;base64,JVBERi0="),
        "file_id": words,
        "file_url": st.just("https://example.com/a.pdf"),
        "filename": st.just("a.pdf"),
    },
)
output_texts = tagged("output_text", {"text": texts}, {"annotations": url_annotations, "logprobs": st.just([])})
refusals = tagged("refusal", {"refusal": texts})

item_ids: dict[str, st.SearchStrategy[Any]] = {"id": words, "status": st.sampled_from(["completed", "incomplete"])}
input_messages = record(
    {
        "role": st.sampled_from(["user", "system", "developer", "critic"]),
        "content": texts | some(input_texts, input_images, input_files, novel_parts),
    },
    {"type": st.just("message"), "id": words, "status": st.just("completed")},
)
assistant_messages = record(
    {"role": st.just("assistant"), "content": texts | some(output_texts, refusals, at_least=1)},
    {"type": st.just("message"), "phase": st.just("commentary"), **item_ids},
)
reasoning_items = tagged(
    "reasoning",
    {"summary": some(tagged("summary_text", {"text": texts}))},
    {"id": words, "content": some(tagged("reasoning_text", {"text": texts}), at_least=1), "encrypted_content": words},
)
function_calls = tagged(
    "function_call",
    {"call_id": ids, "name": names, "arguments": arguments() | broken_arguments},
    {"namespace": words, **item_ids},
)
custom_calls = tagged("custom_tool_call", {"call_id": ids, "name": names, "input": texts}, item_ids)
outputs = texts | some(input_texts, input_images, input_files, novel_parts)
items = st.one_of(
    input_messages,
    assistant_messages,
    reasoning_items,
    function_calls,
    custom_calls,
    tagged("function_call_output", {"call_id": ids, "output": outputs}, item_ids),
    tagged("custom_tool_call_output", {"call_id": ids, "output": outputs}, {"id": words}),
    tagged("item_reference", {"id": words}),
    tagged("novel_item", {"novel": objects}, item_ids),
)

functions = tagged(
    "function",
    {"name": names, "parameters": st.none() | object_schemas, "strict": st.none() | flags},
    {"description": texts, "defer_loading": flags},
)
custom_tools = tagged(
    "custom",
    {"name": names},
    {
        "description": texts,
        "format": st.sampled_from(
            [{"type": "text"}, {"type": "grammar", "definition": "start: /a/", "syntax": "lark"}]
        ),
    },
)
tools = st.one_of(
    functions,
    custom_tools,
    tagged("namespace", {"name": words, "description": texts, "tools": some(functions, custom_tools, at_least=1)}),
    tagged("web_search", {}, {"external_web_access": flags}),
    tagged("mcp", {"server_label": words}),
)
choices: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(["none", "auto", "required"]),
    record({"type": st.sampled_from(["function", "custom"]), "name": names}, unknown=False),
    record({"type": st.just("web_search")}, unknown=False),
    st.builds(
        lambda mode, few: {
            "type": "allowed_tools",
            "mode": mode,
            "tools": [{"type": "function", "name": name} for name in few],
        },
        st.sampled_from(["auto", "required"]),
        st.lists(names, min_size=1, max_size=3, unique=True),
    ),
)
formats = st.one_of(
    st.sampled_from([{"type": "text"}, {"type": "json_object"}, {"type": "novel", "x": 1}]),
    tagged("json_schema", {"name": words, "schema": object_schemas}, {"strict": flags, "description": texts}),
)

requests = record(
    {"model": st.sampled_from(["gpt-5", "gpt-4.1"]), "input": texts | some(items, at_most=6)},
    {
        "instructions": texts,
        "tools": some(tools),
        "tool_choice": choices,
        "parallel_tool_calls": flags,
        "max_output_tokens": counts,
        "max_tool_calls": counts,
        "temperature": fractions,
        "top_p": fractions,
        "reasoning": record(
            {}, {"effort": st.sampled_from(["none", "low", "xhigh"]), "summary": st.just("auto"), "context": words}
        ),
        "text": record({}, {"format": formats, "verbosity": st.sampled_from(["low", "high"])}),
        "include": st.just(["reasoning.encrypted_content"]),
        "store": flags,
        "stream": flags,
        "previous_response_id": words,
        "truncation": st.just("auto"),
        "metadata": st.dictionaries(words, words, max_size=2),
        "user": words,
        "safety_identifier": words,
        "prompt_cache_key": words,
        "service_tier": st.sampled_from(["auto", "flex"]),
    },
)

usages = record(
    {
        "input_tokens": counts,
        "output_tokens": counts,
        "total_tokens": counts,
        "input_tokens_details": record({"cached_tokens": counts}, {"cache_write_tokens": counts}),
        "output_tokens_details": record({"reasoning_tokens": counts}),
    }
)
output_messages = tagged(
    "message",
    {
        "id": words,
        "role": st.just("assistant"),
        "status": st.just("completed"),
        "content": some(output_texts, refusals, novel_parts, at_least=1),
    },
    {"phase": st.just("final_answer")},
)
_ends = st.sampled_from(
    [("completed", None), ("incomplete", {"reason": "max_output_tokens"}), ("incomplete", {"reason": "content_filter"})]
)
responses = st.builds(
    lambda body, end: {**body, "status": end[0], "incomplete_details": end[1]},
    record(
        {
            "id": words,
            "object": st.just("response"),
            "created_at": counts,
            "error": st.none(),
            "model": words,
            "output": some(
                output_messages,
                reasoning_items,
                function_calls,
                custom_calls,
                tagged("novel_item", {"novel": objects}),
                at_most=4,
            ),
            "parallel_tool_calls": flags,
            "tool_choice": st.just("auto"),
            "tools": st.just([]),
        },
        {
            "usage": usages,
            "instructions": texts,
            "metadata": st.just({}),
            "temperature": fractions,
            "reasoning": objects,
            "text": objects,
        },
    ),
    _ends,
)


class _Writer:
    """Numbers events and collects finished items."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.done: list[dict[str, Any]] = []

    def event(self, name: str, **body: Any) -> None:
        self.written.append(named_event(f"response.{name}", {"sequence_number": len(self.written), **body}))

    def finish(self, index: int, item: dict[str, Any]) -> None:
        self.event("output_item.done", output_index=index, item=item)
        self.done.append(item)


def write_stream(answer: list[Spoken]) -> str:
    writer = _Writer()
    start = {"id": "resp_1", "object": "response", "created_at": 1763164800, "status": "in_progress", "model": "gpt-x"}
    writer.event("created", response={**start, "output": [], "usage": None})
    writer.event("in_progress", response={**start, "output": [], "usage": None})
    for index, block in enumerate(answer):
        _WRITE[block.kind](writer, index, block)
    usage = {
        "input_tokens": 50,
        "input_tokens_details": {"cached_tokens": 10},
        "output_tokens": 30,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 80,
    }
    writer.event("completed", response={**start, "status": "completed", "output": writer.done, "usage": usage})
    return "".join(writer.written)


def _message(writer: _Writer, index: int, block: Spoken) -> None:
    where = {"item_id": f"msg_{index}", "output_index": index, "content_index": 0}
    item = {"id": f"msg_{index}", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    part = {"type": "output_text", "text": "".join(block.pieces), "annotations": [], "logprobs": []}
    writer.event("output_item.added", output_index=index, item=item)
    writer.event("content_part.added", **where, part={**part, "text": ""})
    for piece in block.pieces:
        writer.event("output_text.delta", **where, delta=piece, logprobs=[])
    writer.event("output_text.done", **where, text=part["text"], logprobs=[])
    writer.event("content_part.done", **where, part=part)
    writer.finish(index, {**item, "status": "completed", "content": [part]})


def _reasoning(writer: _Writer, index: int, block: Spoken) -> None:
    where = {"item_id": f"rs_{index}", "output_index": index, "summary_index": 0}
    item: dict[str, Any] = {"id": f"rs_{index}", "type": "reasoning", "summary": [], "encrypted_content": "cGFydA=="}
    part = {"type": "summary_text", "text": "".join(block.pieces)}
    writer.event("output_item.added", output_index=index, item=item)
    writer.event("reasoning_summary_part.added", **where, part={**part, "text": ""})
    for piece in block.pieces:
        writer.event("reasoning_summary_text.delta", **where, delta=piece)
    writer.event("reasoning_summary_text.done", **where, text=part["text"])
    writer.event("reasoning_summary_part.done", **where, part=part)
    writer.finish(index, {**item, "summary": [part], "encrypted_content": "ZW5jcnlwdGVk"})


def _call(writer: _Writer, index: int, block: Spoken) -> None:
    where = {"item_id": f"fc_{index}", "output_index": index}
    whole = "".join(block.pieces)
    item = {"id": f"fc_{index}", "type": "function_call", "call_id": f"call_{index}", "name": block.name}
    writer.event("output_item.added", output_index=index, item={**item, "arguments": "", "status": "in_progress"})
    for piece in block.pieces:
        writer.event("function_call_arguments.delta", **where, delta=piece)
    writer.event("function_call_arguments.done", **where, arguments=whole)
    writer.finish(index, {**item, "arguments": whole, "status": "completed"})


_WRITE = {"text": _message, "thinking": _reasoning, "call": _call}
streams = answers().map(write_stream)
