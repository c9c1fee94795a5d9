"""Every rule of every dialect: a sound stream that is broken in one place, and the rule that tells so."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.lint import streams
from tests.lint.streams import ANTHROPIC, CHAT, DONE, GEMINI, RESPONSES, Fields
from toolglot.dialects import DIALECTS
from toolglot.lint import lint, rules_of


class Break(NamedTuple):
    """A rule, the event that breaks it, and the bytes in which it is broken."""

    dialect: str
    rule: str
    event: int
    recording: bytes


def changed(events: list[Fields], number: int, change: Callable[[Fields], Any]) -> list[Fields]:
    """The events with one of them (counted from 1) changed in place."""
    copied = copy.deepcopy(events)
    change(copied[number - 1])
    return copied


def without(events: list[Fields], *numbers: int) -> list[Fields]:
    return [event for number, event in enumerate(events, 1) if number not in numbers]


def inserted(events: list[Fields], after: int, *more: Fields) -> list[Fields]:
    return [*events[:after], *more, *events[after:]]


def chat_change(rule: str, number: int, change: Callable[[Fields], Any], event: int | None = None) -> Break:
    return Break("openai_chat", rule, event or number, streams.chat(changed(CHAT, number, change)))


def delta(event: Fields) -> Fields:
    found: Fields = event["choices"][0]["delta"]
    return found


def first_call(event: Fields) -> Fields:
    found: Fields = delta(event)["tool_calls"][0]
    return found


CHAT_BREAKS = [
    Break("openai_chat", "has-data", 1, b"event: ping\n\n" + streams.chat(CHAT)),
    chat_change("object", 2, lambda event: event.update(object="text_completion")),
    chat_change("choices", 2, lambda event: event.pop("choices")),
    chat_change("choices", 2, lambda event: event["choices"][0].pop("index")),
    chat_change("choices", 2, lambda event: event["choices"][0].update(delta=None)),
    chat_change("role-first", 1, lambda event: delta(event).pop("role")),
    chat_change("role-once", 2, lambda event: delta(event).update(role="assistant")),
    chat_change("call-index", 4, lambda event: first_call(event).pop("index")),
    chat_change("call-dense", 6, lambda event: first_call(event).update(index=2)),
    Break("openai_chat", "call-order", 7, streams.chat(inserted(CHAT, 6, streams.chunk(streams.call(0, " "))))),
    chat_change("call-head", 3, lambda event: first_call(event).pop("id")),
    chat_change("call-head", 3, lambda event: first_call(event).pop("type")),
    chat_change("call-head", 3, lambda event: first_call(event)["function"].pop("name")),
    chat_change("call-once", 4, lambda event: first_call(event).update(id="call_a")),
    chat_change("call-once", 4, lambda event: first_call(event).update(type=None)),
    chat_change("call-once", 4, lambda event: first_call(event)["function"].update(name="f")),
    chat_change("arguments", 5, lambda event: first_call(event)["function"].update(arguments="1"), event=9),
    chat_change("finish-once", 7, lambda event: event["choices"][0].update(finish_reason=None), event=9),
    Break("openai_chat", "finish-once", 8, streams.chat(inserted(CHAT, 7, CHAT[6]))),
    Break("openai_chat", "finish-last", 8, streams.chat(inserted(CHAT, 7, streams.chunk({"content": "more"})))),
    chat_change("usage-last", 2, lambda event: event.update(usage={"prompt_tokens": 1})),
    Break("openai_chat", "done-last", 8, streams.sse(CHAT, named=False)),
    Break("openai_chat", "done-last", 10, streams.chat(CHAT) + streams.sse(CHAT[:1], named=False)),
    Break("openai_chat", "readable", 2, streams.sse(CHAT[:1], named=False) + b"data: {\n\n" + DONE),
    Break("openai_chat", "ended", 9, streams.chat(CHAT).rstrip()),
    Break("openai_chat", "not-empty", 0, b""),
]


def anthropic_change(rule: str, number: int, change: Callable[[Fields], Any], event: int | None = None) -> Break:
    return Break("anthropic", rule, event or number, streams.anthropic(changed(ANTHROPIC, number, change)))


_END = len(ANTHROPIC)

ANTHROPIC_BREAKS = [
    Break("anthropic", "event-line", 1, streams.sse(ANTHROPIC, named=False)),
    Break("anthropic", "event-line", 1, streams.anthropic(ANTHROPIC).replace(b"event: message_start", b"event: x")),
    Break("anthropic", "start-first", 1, streams.anthropic(without(ANTHROPIC, 1))),
    Break("anthropic", "start-once", 2, streams.anthropic(inserted(ANTHROPIC, 1, ANTHROPIC[0]))),
    anthropic_change("start-message", 1, lambda event: event["message"].pop("content")),
    anthropic_change("start-usage", 1, lambda event: event["message"].pop("usage")),
    anthropic_change("index-dense", 6, lambda event: event.update(index=7)),
    Break("anthropic", "one-open", 5, streams.anthropic(without(ANTHROPIC, 5))),
    anthropic_change("delta-open", 7, lambda event: event.update(index=0)),
    Break("anthropic", "delta-open", 9, streams.anthropic(inserted(ANTHROPIC, 8, ANTHROPIC[7]))),
    anthropic_change("delta-type", 7, lambda event: event["delta"].update(type="thinking_delta")),
    anthropic_change("input-delta", 10, lambda event: event["content_block"].update(input={"a": 1})),
    anthropic_change("input-json", 12, lambda event: event["delta"].update(partial_json="1"), event=13),
    Break("anthropic", "signature-once", 5, streams.anthropic(inserted(ANTHROPIC, 4, ANTHROPIC[3]))),
    Break("anthropic", "blocks-stopped", _END - 2, streams.anthropic(without(ANTHROPIC, _END - 2))),
    anthropic_change("delta-usage", _END - 1, lambda event: event.pop("usage")),
    anthropic_change("usage-kept", _END - 1, lambda event: event["usage"].update(input_tokens=0)),
    anthropic_change("stop-reason", _END - 1, lambda event: event["delta"].update(stop_reason=None), event=_END),
    Break("anthropic", "stop-last", _END - 1, streams.anthropic(without(ANTHROPIC, _END))),
    Break("anthropic", "stop-last", _END - 1, streams.anthropic(without(ANTHROPIC, _END - 1))),
    Break("anthropic", "nothing-after", _END + 1, streams.anthropic(ANTHROPIC) + DONE),
]


def responses_change(rule: str, number: int, change: Callable[[Fields], Any], event: int | None = None) -> Break:
    return Break("openai_responses", rule, event or number, streams.responses(changed(RESPONSES, number, change)))


_LAST = len(RESPONSES)

RESPONSES_BREAKS = [
    Break(
        "openai_responses",
        "event-line",
        1,
        streams.responses(RESPONSES).replace(b"event: response.created", b"event: created"),
    ),
    Break("openai_responses", "created-first", 1, streams.responses(without(RESPONSES, 1))),
    Break("openai_responses", "created-first", 2, streams.responses(inserted(RESPONSES, 1, RESPONSES[0]))),
    responses_change("sequence", 3, lambda event: event.update(sequence_number=9)),
    responses_change("sequence", 3, lambda event: event.update(sequence_number=None)),
    responses_change("response-id", 2, lambda event: event["response"].update(id="resp_2")),
    responses_change("item-added", 10, lambda event: event.update(output_index=0)),
    responses_change("item-added", 3, lambda event: event["item"].pop("id")),
    Break("openai_responses", "item-known", 3, streams.responses(without(RESPONSES, 3))),
    responses_change("item-known", 11, lambda event: event.update(item_id="fc_2")),
    responses_change("item-same", 13, lambda event: event["item"].update(call_id="call_b")),
    Break("openai_responses", "item-done", _LAST - 1, streams.responses(without(RESPONSES, 13))),
    Break("openai_responses", "item-done", 14, streams.responses(inserted(RESPONSES, 13, RESPONSES[12]))),
    Break("openai_responses", "part-added", 4, streams.responses(without(RESPONSES, 4))),
    Break(
        "openai_responses",
        "call-id",
        14,
        streams.responses(inserted(RESPONSES, 13, {**copy.deepcopy(RESPONSES[9]), "output_index": 2})),
    ),
    responses_change("agree", 7, lambda event: event.update(text="Hello!")),
    responses_change("agree", 9, lambda event: event["item"]["content"][0].update(text="Hello!")),
    responses_change("agree", 13, lambda event: event["item"].update(arguments="{}")),
    responses_change("arguments", 13, lambda event: event["item"].update(arguments='{"a":')),
    responses_change("output", _LAST, lambda event: event["response"].update(output=[])),
    Break("openai_responses", "terminal", _LAST - 1, streams.responses(without(RESPONSES, _LAST))),
    Break("openai_responses", "nothing-after", _LAST + 1, streams.responses(RESPONSES) + DONE),
]


def gemini_change(rule: str, number: int, change: Callable[[Fields], Any], event: int | None = None) -> Break:
    return Break("gemini", rule, event or number, streams.gemini(changed(GEMINI, number, change)))


def gemini_part(event: Fields) -> Fields:
    found: Fields = event["candidates"][0]["content"]["parts"][0]
    return found


_GEMINI = streams.gemini(GEMINI)

GEMINI_BREAKS = [
    Break("gemini", "data-only", 1, b": keepalive\n\n" + _GEMINI),
    Break("gemini", "data-only", 1, b"event: message\n" + _GEMINI),
    Break("gemini", "data-only", 1, b"id: 1\n" + _GEMINI),
    Break("gemini", "data-only", 1, _GEMINI.replace(b"data: ", b"data:")),
    Break("gemini", "data-only", 1, _GEMINI.replace(b"data: ", b"data:  ")),
    Break("gemini", "no-done", 4, _GEMINI + DONE),
    gemini_change("camel-case", 3, lambda event: event.update(usage_metadata={})),
    Break(
        "gemini", "error-first", 1, b'data: {"code":1,"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}\n\n'
    ),
    Break("gemini", "error-first", 1, b'data: {"error":{"code":"503","message":"x"}}\n\n'),
    gemini_change("finish", 3, lambda event: event["candidates"][0].pop("finishReason"), event=3),
    Break("gemini", "finish-last", 4, streams.gemini(inserted(GEMINI, 3, GEMINI[0]))),
    gemini_change("args-object", 2, lambda event: gemini_part(event)["functionCall"].update(args="{}")),
    gemini_change("call-name", 2, lambda event: gemini_part(event)["functionCall"].pop("name")),
    gemini_change("signature", 2, lambda event: gemini_part(event).update(thoughtSignature="not base64!")),
    Break("gemini", "ended", 3, _GEMINI.rstrip()),
]

_OLLAMA = streams.ollama(streams.OLLAMA)


def ollama_change(rule: str, number: int, change: Callable[[Fields], Any]) -> Break:
    return Break("ollama", rule, number, streams.ollama(changed(streams.OLLAMA, number, change)))


def ollama_function(event: Fields) -> Fields:
    found: Fields = event["message"]["tool_calls"][0]["function"]
    return found


OLLAMA_BREAKS = [
    Break("ollama", "object", 1, b"[]\n" + _OLLAMA),
    Break("ollama", "no-blank-line", 1, b"\n" + _OLLAMA),
    ollama_change("message", 1, lambda event: event.pop("message")),
    ollama_change("content-text", 1, lambda event: event["message"].update(content=None)),
    ollama_change("call-function", 3, lambda event: ollama_function(event).pop("name")),
    ollama_change("call-arguments", 3, lambda event: ollama_function(event).update(arguments="{}")),
    ollama_change("done-flag", 2, lambda event: event.pop("done")),
    Break("ollama", "done-last", 3, streams.ollama(streams.OLLAMA[:3])),
    Break("ollama", "nothing-after", 5, _OLLAMA + _OLLAMA),
]

BREAKS = [*CHAT_BREAKS, *ANTHROPIC_BREAKS, *RESPONSES_BREAKS, *GEMINI_BREAKS, *OLLAMA_BREAKS]


@pytest.mark.parametrize("dialect", streams.SOUND)
def test_a_sound_stream_has_no_breach(dialect: str) -> None:
    assert lint(dialect, [streams.SOUND[dialect]]) == []


@pytest.mark.parametrize("broken", BREAKS, ids=lambda broken: f"{broken.dialect}-{broken.rule}-{broken.event}")
def test_a_broken_rule_is_told_with_its_event(broken: Break) -> None:
    breaches = lint(broken.dialect, [broken.recording])
    assert (broken.rule, broken.event) in [(breach.rule, breach.event) for breach in breaches]


def test_every_wire_rule_is_broken_by_some_test() -> None:
    told = {(broken.dialect, broken.rule) for broken in BREAKS}
    common = {"field", "readable", "ended", "not-empty", "grammar", "meaning"}
    missing = {(dialect, rule) for dialect in DIALECTS for rule in rules_of(dialect) if rule not in common} - told
    assert not missing


def test_every_rule_says_what_must_be() -> None:
    for rules in map(rules_of, DIALECTS):
        for sentence in rules.values():
            assert " must " in sentence, sentence


@pytest.mark.parametrize("dialect", [name for name in streams.SOUND if not DIALECTS[name].stream.framing.is_bare])
def test_a_line_that_is_no_field_is_told(dialect: str) -> None:
    (breach, *_) = lint(dialect, [b"HTTP/1.1 200 OK\n" + streams.SOUND[dialect]])
    assert (breach.event, breach.rule) == (1, "field")
    assert breach.message.endswith("(HTTP/1.1 200 OK)")


def test_comments_ids_and_retries_are_fields() -> None:
    assert lint("openai_chat", [b": hello\nid: 1\nretry: 5\n" + streams.SOUND["openai_chat"]]) == []


def test_a_breach_reads_as_one_line_with_rule_event_and_excerpt() -> None:
    (breach,) = lint("gemini", [_GEMINI + DONE])
    assert str(breach) == "event 4: no-done: `data: [DONE]` must not be sent: data: [DONE]"


def test_arguments_that_the_output_limit_cut_are_no_breach() -> None:
    cut = changed(CHAT[:4] + CHAT[6:], 5, lambda event: event["choices"][0].update(finish_reason="length"))
    assert lint("openai_chat", [streams.chat(cut)]) == []
    short = without(ANTHROPIC, 12)
    short = changed(short, len(short) - 1, lambda event: event["delta"].update(stop_reason="max_tokens"))
    assert lint("anthropic", [streams.anthropic(short)]) == []


ERRORS = {
    "openai_chat": streams.sse(CHAT[:2], named=False) + b'data: {"error":{"message":"x","type":"server_error"}}\n\n',
    "anthropic": streams.anthropic(
        [*ANTHROPIC[:3], {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}]
    ),
    "openai_responses": streams.responses(
        [
            *RESPONSES[:5],
            {
                "type": "response.failed",
                "response": {**streams.RESPONSE, "status": "failed", "error": {"code": "server_error", "message": "x"}},
            },
        ]
    ),
    "gemini": streams.gemini([GEMINI[0], {"error": {"code": 503, "message": "x", "status": "UNAVAILABLE"}}]),
}


@pytest.mark.parametrize("dialect", ERRORS)
def test_a_stream_that_ends_in_its_own_error_is_sound(dialect: str) -> None:
    assert lint(dialect, [ERRORS[dialect]]) == []


def test_what_no_rule_foresaw_is_found_by_the_decoder() -> None:
    odd = changed(CHAT, 2, lambda event: delta(event).update(content=7))
    breaches = lint("openai_chat", [streams.chat(odd)])
    assert [(breach.rule, breach.event) for breach in breaches] == [("meaning", 2)]
