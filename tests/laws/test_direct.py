"""The law of the direct way: what does not go the general way is what the general way makes, byte for byte, with the
same receipt."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.case_files import Case, cases_with
from tests.documents import DOCUMENTS, wire
from tests.documents.plain import bodies, settings_of
from tests.documents.plain_answers import answers
from tests.documents.typical import ANSWERS, TYPICAL
from tests.laws.mutations import spoilt_bytes
from tests.strategies import names, requests, responses, tool_requests
from toolglot.dialects import DIALECTS
from toolglot.direct.answer import Label, answered
from toolglot.direct.request import KEPT, DirectRequests, Translated
from toolglot.receipt import Receipt
from toolglot.translate import Exchange
from toolglot.wire import json

CLIENTS = ("anthropic", "openai_chat")
UPSTREAMS = tuple(name for name, dialect in DIALECTS.items() if dialect.direct is not None)
PAIRS = tuple(product(CLIENTS, UPSTREAMS))

MODELS: dict[str, tuple[str | None, ...]] = {
    "anthropic": ("claude-sonnet-4-5", "claude-opus-5-5", "claude-3-5-haiku-latest", None),
    "openai_chat": ("qwen3-coder", "gpt-4o-mini", "gpt-5.5", "deepseek-chat", "mistral-large", None),
    "openai_responses": ("gpt-5.5", "gpt-4o", "other-model", None),
}
"""They differ in what they can be told; None: the client's own name of it."""


def exchange_of(client: str, upstream: str, model: str | None, strict: bool) -> Exchange:
    return Exchange(client, upstream, model=model, strict=strict, created=5, answer_id="resp_1")


@cache
def direct_of(client: str, upstream: str, model: str | None, strict: bool) -> DirectRequests:
    """One for all examples: what is learnt from one is used for the next."""
    return DirectRequests(lambda: exchange_of(client, upstream, model, strict))


def crossed(body: bytes, client: str, upstream: str, model: str | None, strict: bool = False) -> Translated | None:
    """The request the direct way, which is as the general way has it, if there is one."""
    direct = direct_of(client, upstream, model, strict)
    # Some settings are learnt when they come the second time.
    translated = direct.translate(body) or direct.translate(body)
    if translated is None:
        return None
    exchange = exchange_of(client, upstream, model, strict)
    assert translated.body == exchange.request(body)
    assert translated.lines == tuple(exchange.receipt)
    assert exchange.sent is not None
    assert translated.learnt.path == exchange.path
    assert translated.learnt.model == exchange.sent.model
    assert (not translated.learnt.pieces) == exchange.verbatim
    return translated


SIDES = [
    (client, upstream, model, strict)
    for client, upstream in PAIRS
    for model in MODELS[upstream]
    for strict in (False, True)
]
sides = st.sampled_from(SIDES)


@settings(max_examples=80)
@given(side=sides, data=st.data())
def test_what_is_learnt_from_one_conversation_holds_for_all(
    side: tuple[str, str, str | None, bool], data: st.DataObject
) -> None:
    client, upstream = side[:2]
    same = data.draw(settings_of(client))
    for _ in range(3):
        crossed(data.draw(bodies(client, upstream, same)), *side)


@pytest.mark.parametrize("client", CLIENTS)
@given(data=st.data())
def test_any_request_of_a_dialect_is_declined_or_translated_alike(client: str, data: st.DataObject) -> None:
    side = data.draw(st.sampled_from([side for side in SIDES if side[0] == client]))
    crossed(wire(data.draw(DOCUMENTS[client].requests)), *side)


@pytest.mark.parametrize("client", CLIENTS)
@given(request=requests() | tool_requests(), data=st.data())
def test_any_conversation_is_declined_or_translated_alike(client: str, request: Any, data: st.DataObject) -> None:
    side = data.draw(st.sampled_from([side for side in SIDES if side[0] == client]))
    crossed(DIALECTS[client].encode_request(request, Receipt()), *side)


def test_what_clients_return_of_our_own_answers_goes_the_direct_way() -> None:
    call = {"type": "tool_use", "id": "call_1", "name": "f", "input": {}, "caller": {"type": "direct"}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "text", "text": "So", "citations": None}, call]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "x"}]},
    ]
    tools = [{"name": "f", "input_schema": {"type": "object"}}]
    body = wire({"model": "m", "max_tokens": 1000, "tools": tools, "messages": messages})
    assert crossed(body, "anthropic", "openai_chat", "qwen3-coder") is not None


def title(case: Case) -> str:
    return f"{case.dialect}/{case.name}"


@pytest.mark.parametrize("case", [case for name in CLIENTS for case in cases_with("request", name)], ids=title)
def test_a_case_is_declined_or_translated_alike(case: Case) -> None:
    for side in SIDES:
        if side[0] == case.dialect:
            crossed(case.read("request"), *side)


@settings(max_examples=60)
@given(side=sides, data=st.data())
def test_what_the_general_way_refuses_is_never_accepted(
    side: tuple[str, str, str | None, bool], data: st.DataObject
) -> None:
    client, upstream = side[:2]
    body = data.draw(bodies(client, upstream, data.draw(settings_of(client))))
    crossed(body, *side)  # so that its settings are known
    crossed(data.draw(spoilt_bytes(body)), *side)


def odd_bodies(client: str) -> list[bytes]:
    """A typical request, spoilt in the ways that the strict reading of JSON looks for."""
    good = wire({"model": "any-model", **TYPICAL[client][1]})
    deep = b'{"a":' * 900 + b"1" + b"}" * 900
    arguments = b'"input":{"city":"Oslo"}' if client == "anthropic" else json.encode('{"city": "Oslo"}')
    deep = b'"input":' + deep if client == "anthropic" else json.encode(deep.decode())
    found = [
        good.replace(b"{", b'{"model":"x",', 1),
        good.replace(b'"role":"user"', b'"role":"user","role":"user"', 1),
        good.replace(b'"role":"user"', b'"role":"user","role":"user"', 1).replace(b'"Go"', b'"\\u003a"'),
        good.replace(b'"city":{', b'"city":{"type":"string",', 1),
        good.replace(b'"Go"', b'"\\ud800"'),
        good.replace(b'"Go"', b'"\xff"'),
        good.replace(b"1000", b"NaN"),
        good.replace(b"1000", b"1" * 400),
        good.replace(b'"Go"', b"null"),
        good.replace(b'"Go"', b"7"),
        good.replace(b'"role":"assistant"', b'"role":"assistant","novel":1'),
        good.replace(b'"Oslo"', b'"Oslo","city":"Bern"'),
        good.replace(b'"Oslo"', b'"Oslo","city":"\\u003a"'),
        good.replace(arguments, deep),
        good + b"{}",
        good[:-1],
        b"",
        b"[]",
    ]
    return [body for body in found if body != good]


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_odd_json_is_refused_or_translated_as_on_the_general_way(client: str, upstream: str) -> None:
    assert len(odd_bodies(client)) >= 15
    for model in MODELS[upstream]:
        crossed(wire({"model": "any-model", **TYPICAL[client][1]}), client, upstream, model)
        for body in odd_bodies(client):
            crossed(body, client, upstream, model)


TEXTS = b'[{"type":"text","text":"a"},{"type":"text","text":"b"}]'
WITHOUT, WITH, TWICE = b'{"text":"a"}', b'{"type":"text","text":"b"}', b'{"type":"text","type":"text","text":"b"}'


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("texts", "plain"),
    [
        (TEXTS, True),
        (TEXTS.replace(b'{"type":"text","text":"a"}', b' { "text" : "\\u0061" , "type" : "text" } '), True),
        (b"[%b,%b]" % (WITHOUT, WITH), False),
        (b"[%b,%b]" % (WITH, TWICE), False),
        (b"[%b,%b]" % (WITHOUT, TWICE), False),  # as long as if all were well
    ],
)
def test_members_may_stand_in_any_order_but_not_twice(client: str, texts: bytes, plain: bool) -> None:
    bodies = [b'{"messages":[{"role":"user","content":%b}],"model":"m"}' % texts]
    if client == "anthropic":
        bodies.append(b'{"messages":[{"role":"user","content":"a"}],"system":%b,"model":"m"}' % texts)
    for body in bodies:
        assert (crossed(body, client, "openai_responses", "gpt-5.5") is not None) is plain


def test_settings_that_never_come_again_are_not_learnt_for_ever() -> None:
    made = 0

    def counted() -> Exchange:
        nonlocal made
        made += 1
        return exchange_of("anthropic", "openai_chat", "qwen3-coder", False)

    direct = DirectRequests(counted)
    for number in range(100):
        direct.translate(wire({"model": "m", "metadata": {"user_id": f"u{number}"}, **TYPICAL["anthropic"][0]}))
    at_first = made
    assert at_first < 60
    body = wire({"model": "m", "metadata": {"user_id": "same"}, **TYPICAL["anthropic"][0]})
    assert direct.translate(body) is None
    assert direct.translate(body) is not None
    assert made > at_first


def test_what_is_learnt_is_bounded() -> None:
    direct = DirectRequests(lambda: exchange_of("anthropic", "openai_chat", "qwen3-coder", False))
    for number in range(3 * KEPT):
        body = wire({"model": "m", "metadata": {"user_id": f"u{number % 7 * 'x'}{number}"}, **TYPICAL["anthropic"][0]})
        assert direct.translate(body) or direct.translate(body)
        assert direct.kept <= KEPT


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_what_agents_send_all_day_goes_the_direct_way(client: str, upstream: str) -> None:
    for body, model in product(TYPICAL[client], MODELS[upstream][:2]):
        own = model if client == upstream else "any-model"
        assert crossed(wire({"model": own, **body}), client, upstream, model) is not None


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_what_models_answer_all_day_comes_back_the_direct_way(client: str, upstream: str) -> None:
    assert came_back(wire(ANSWERS[upstream]), client, upstream, "any-model")
    assert came_back(wire(ANSWERS[upstream]), client, upstream, None)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("again", [b'"city":"Bern"', b'"city":"\\u003a"'])
def test_an_answer_whose_arguments_have_a_member_twice_does_not(client: str, again: bytes) -> None:
    # As our own writer has it, so that nothing but the arguments is out of the ordinary.
    answer = ANSWERS["anthropic"]
    spoilt = wire({"model": answer["model"], **answer}).replace(b'"Rome"', b'"Rome",' + again)
    assert not came_back(spoilt, client, "anthropic", "any-model")


def asked_of(client: str, upstream: str, model: str | None) -> tuple[Translated, Exchange]:
    """A typical request that waits for its answer, the direct way and the general way."""
    body = wire({"model": "any-model", **TYPICAL[client][1]})
    direct = direct_of(client, upstream, model, False)
    translated = direct.translate(body) or direct.translate(body)
    assert translated is not None
    exchange = exchange_of(client, upstream, model, False)
    exchange.request(body)
    return translated, exchange


def came_back(data: bytes, client: str, upstream: str, model: str | None) -> bool:
    """Did the answer come back the direct way, as it does the general way?"""
    translated, exchange = asked_of(client, upstream, model)
    done = answered(translated, exchange.client, exchange.upstream, data, lambda: Label(5, "resp_1"))
    if done is None:
        return False
    written, answer = done
    assert written == exchange.response(data)
    assert (*translated.lines, *answer.lines) == tuple(exchange.receipt)
    assert exchange.answered is not None
    assert exchange.answered.stop.reason == answer.stop
    assert exchange.answered.usage is not None
    assert exchange.answered.usage == answer.usage
    return True


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
@settings(max_examples=50)
@given(data=st.data())
def test_an_answer_is_declined_or_comes_back_alike(client: str, upstream: str, data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(["any-model", None]))
    some = st.one_of(
        answers(upstream),
        answers(upstream),
        responses(names).map(lambda response: DIALECTS[upstream].encode_response(response, None, Receipt())),
        DOCUMENTS[upstream].responses.map(wire),
        answers(upstream).flatmap(spoilt_bytes),
    )
    came_back(data.draw(some), client, upstream, model)


@pytest.mark.parametrize("case", [case for name in UPSTREAMS for case in cases_with("response", name)], ids=title)
def test_the_answer_of_a_case_is_declined_or_comes_back_alike(case: Case) -> None:
    for client, model in product(CLIENTS, ("any-model", None)):
        came_back(case.read("response"), client, case.dialect, model)
