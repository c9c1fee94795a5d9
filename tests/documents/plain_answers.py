"""Plain answers, as the servers of each dialect write them, and whatever comes close to being plain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.documents.plain import Call, Draw, as_text, plain_arguments, some_words, tool_names, twice
from tests.strategies import ids, legal_ids, texts

counts = st.sampled_from([0, 1, 17, 123456])
odd_counts = st.sampled_from([-1, None, 1.0, 2.5, "3"])


def _calls(draw: Draw, odd: bool) -> list[Call]:
    names, some_ids = (tool_names, ids) if odd else (st.just("get_weather"), legal_ids)
    return [
        Call(draw(some_ids), draw(names), draw(plain_arguments)) for _ in range(draw(st.sampled_from([0, 0, 1, 2])))
    ]


def _one(draw: Draw, odd: bool, usual: Any, *others: Any) -> Any:
    """The usual thing, or another where an answer may be odd."""
    return draw(st.sampled_from([usual, *others])) if odd else usual


def _bill(draw: Draw, odd: bool, fields: dict[str, Any]) -> dict[str, Any]:
    """Some of these members, in any order, one of them odd now and then."""
    few = dict(draw(st.permutations(list(fields.items()))))
    if odd and not draw(st.integers(0, 3)):
        few[draw(st.sampled_from(list(few)))] = draw(odd_counts)
    return few


def _anthropic(draw: Draw, odd: bool) -> dict[str, Any]:
    calls = _calls(draw, odd)
    blocks: list[dict[str, Any]] = []
    if odd and not draw(st.integers(0, 2)):
        blocks.append({"type": "thinking", "thinking": draw(texts), "signature": "c2ln"})
    blocks += [{"type": "text", "text": draw(some_words if odd else texts)} for _ in range(_one(draw, odd, 1, 0, 2))]
    caller = draw(st.sampled_from([{}, {"caller": {"type": "direct"}}]))
    blocks += [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments, **caller} for c in calls]
    counted = {"input_tokens": draw(counts), "output_tokens": draw(counts)}
    cached = {"cache_creation_input_tokens": draw(counts), "cache_read_input_tokens": draw(counts)}
    beside = {
        "cache_creation": {"ephemeral_5m_input_tokens": draw(counts), "ephemeral_1h_input_tokens": 0},
        "service_tier": "standard",
        "inference_geo": draw(st.sampled_from(["us", None])),
        "server_tool_use": draw(st.sampled_from([None, {"web_search_requests": 0}, {"web_search_requests": 1}])),
    }
    stop = "tool_use" if calls else "end_turn"
    stops = ["max_tokens", "stop_sequence", "refusal", "tool_use", "novel"]
    return {
        "id": draw(st.sampled_from(["msg_1", "", "a:b"])),
        "type": "message",
        "role": "assistant",
        "model": draw(st.sampled_from(["claude-x", "", "a:b"])),
        "content": blocks,
        "stop_reason": _one(draw, odd, stop, *stops),
        "stop_sequence": _one(draw, odd, None, "a:b"),
        "usage": _bill(draw, odd, draw(st.sampled_from([counted, counted | cached, counted | cached | beside]))),
        **draw(st.sampled_from([{}, {}, {"stop_details": None}, {"container": None, "context_management": {"a": []}}])),
    }


def _chat(draw: Draw, odd: bool) -> dict[str, Any]:
    calls = _calls(draw, odd)
    text = draw(some_words if odd else texts) if not calls or draw(st.booleans()) else None
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls or (odd and draw(st.booleans())):
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": as_text(draw, call.arguments)},
            }
            for call in calls
        ]
    message |= draw(
        st.sampled_from([{}, {"refusal": None, "annotations": []}, {"reasoning_content": None, "audio": None}])
    )
    counted = {"prompt_tokens": draw(counts), "completion_tokens": draw(counts), "total_tokens": draw(counts)}
    details = {
        "prompt_tokens_details": {"cached_tokens": draw(counts), "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": draw(counts), "accepted_prediction_tokens": 0},
    }
    beside = {"cost": draw(st.sampled_from([0, 0.25])), "is_byok": False, "cost_details": {"upstream": 1}}
    finish = "tool_calls" if calls else "stop"
    choice = {
        "index": _one(draw, odd, 0, 1),
        "message": message,
        "finish_reason": _one(draw, odd, finish, "length", "content_filter", "tool_calls"),
        **draw(st.sampled_from([{}, {"logprobs": None}, {"stop_reason": None}])),
    }
    return {
        "id": draw(st.sampled_from(["chatcmpl-1", "", "a:b"])),
        "object": "chat.completion",
        "created": draw(st.sampled_from([0, 1_700_000_000])),
        "model": draw(st.sampled_from(["gpt-x", "", "a:b"])),
        "choices": [choice] * _one(draw, odd, 1, 2),
        "usage": _bill(draw, odd, draw(st.sampled_from([counted, counted | details, counted | details | beside]))),
        **draw(
            st.sampled_from([{}, {"service_tier": "default", "system_fingerprint": "a:b"}, {"prompt_logprobs": None}])
        ),
    }


def _responses(draw: Draw, odd: bool) -> dict[str, Any]:
    calls = _calls(draw, odd)
    output: list[dict[str, Any]] = []
    if odd and not draw(st.integers(0, 2)):
        output.append({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"})
    for number in range(_one(draw, odd, 1, 0, 2)):
        part = {"type": "output_text", "text": draw(some_words if odd else texts), "annotations": [], "logprobs": []}
        if not draw(st.integers(0, 3)):
            del part["logprobs"]
        message = {
            "id": f"msg_{number}",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [part],
        }
        output.append(message | _one(draw, odd, {}, {"phase": "commentary"}))
    for number, call in enumerate(calls):
        item = {"id": f"fc_{number}", "type": "function_call", "status": "completed", "call_id": call.id}
        output.append({**item, "name": call.name, "arguments": as_text(draw, call.arguments)})
    bill = {
        "input_tokens": draw(counts),
        "input_tokens_details": {"cached_tokens": draw(counts), "cache_write_tokens": draw(counts)},
        "output_tokens": draw(counts),
        "output_tokens_details": {"reasoning_tokens": draw(counts)},
        "total_tokens": draw(counts),
    }
    return {
        "id": draw(st.sampled_from(["resp_1", "", "a:b"])),
        "object": "response",
        "created_at": _one(draw, odd, 1_700_000_000, 0, 1.5),
        "status": _one(draw, odd, "completed", "incomplete", "failed"),
        "error": None,
        "incomplete_details": None,
        "model": draw(st.sampled_from(["gpt-x", "", "a:b"])),
        "output": output,
        "usage": _bill(draw, odd, bill),
        "tools": [],
        **_one(draw, odd, {}, {"instructions": "a:b", "text": {"format": {"type": "text"}}}, {"novel": 1}),
    }


ANSWERS: dict[str, Callable[[Draw, bool], dict[str, Any]]] = {
    "anthropic": _anthropic,
    "openai_chat": _chat,
    "openai_responses": _responses,
}


@st.composite
def answers(draw: st.DrawFn, dialect: str) -> bytes:
    odd = draw(st.booleans())
    text = as_text(draw, ANSWERS[dialect](draw, odd))
    return (draw(twice(text)) if odd and not draw(st.integers(0, 4)) else text).encode()
