"""Law 3: in one dialect, decoding and encoding again loses nothing, and the second time not even a byte changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.case_files import Case, cases_with
from tests.documents import DOCUMENTS
from tests.exchanges import NAMES
from tests.forms import Form, form
from tests.laws.mutations import spoilt
from tests.strategies import requests, responses
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError, UpstreamError
from toolglot.ir import Request, Response
from toolglot.receipt import Receipt

Again = Callable[[str, bytes], bytes]
Node = TypeVar("Node", Request, Response)


def request_again(dialect: str, raw: bytes) -> bytes:
    receipt = Receipt()
    encoded = DIALECTS[dialect].encode_request(DIALECTS[dialect].decode_request(raw), receipt)
    assert not receipt, str(receipt)
    return encoded


def response_again(dialect: str, raw: bytes) -> bytes:
    receipt = Receipt()
    encoded = DIALECTS[dialect].encode_response(DIALECTS[dialect].decode_response(raw), None, receipt)
    assert not receipt, str(receipt)
    return encoded


AGAIN: dict[str, Again] = {"request": request_again, "response": response_again}


def is_lossless(kind: str, dialect: str, raw: bytes) -> None:
    again, said = AGAIN[kind], form(dialect, kind).said
    first = again(dialect, raw)
    assert said(first) == said(raw)
    assert again(dialect, first) == first


@pytest.mark.parametrize("case", cases_with("request"), ids=lambda case: f"{case.dialect}/{case.name}")
def test_a_request_case_comes_back_as_it_was(case: Case) -> None:
    is_lossless("request", case.dialect, case.read("request"))


@pytest.mark.parametrize("case", cases_with("response"), ids=lambda case: f"{case.dialect}/{case.name}")
def test_a_response_case_comes_back_as_it_was(case: Case) -> None:
    is_lossless("response", case.dialect, case.read("response"))


@pytest.mark.parametrize("dialect", NAMES)
@given(data=st.data())
def test_a_legal_request_comes_back_as_it_was(dialect: str, data: st.DataObject) -> None:
    is_lossless("request", dialect, form(dialect, "request").write(data.draw(DOCUMENTS[dialect].requests)))


@pytest.mark.parametrize("dialect", NAMES)
@given(data=st.data())
def test_a_legal_response_comes_back_as_it_was(dialect: str, data: st.DataObject) -> None:
    is_lossless("response", dialect, form(dialect, "response").write(data.draw(DOCUMENTS[dialect].responses)))


def holds(again: Any, original: Any) -> bool:
    """Is everything that the original says still there? Defaults may have been filled in, and nothing may be "" ."""
    if isinstance(original, dict) and isinstance(again, str):  # arguments that a sloppy client sent as an object
        return bool(json.loads(again) == original)
    if isinstance(original, str) and isinstance(again, list):  # text that stands in a part of its own now
        return [part.get("text") for part in again] == [original]
    if isinstance(original, dict):
        said = {key: value for key, value in original.items() if value != ""}
        return isinstance(again, dict) and all(key in again and holds(again[key], value) for key, value in said.items())
    if isinstance(original, list) and isinstance(again, list) and len(again) == len(original):
        return all(map(holds, again, original))
    return bool(again == original)


def loses_nothing(
    decode: Callable[[bytes], Node], encode: Callable[[Node, Receipt], bytes], raw: bytes, wire: Form
) -> None:
    """Whatever is not written again as it came is told."""
    receipt = Receipt()
    first = encode(decode(raw), receipt)
    assert receipt or holds(wire.said(first), wire.said(raw)), wire.read(first)
    assert encode(decode(first), Receipt()) == first


@pytest.mark.parametrize("dialect", NAMES)
@given(data=st.data())
def test_an_odd_request_is_refused_or_loses_nothing(dialect: str, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(cases_with("request", dialect)))
    raw = form(dialect, "request").write(data.draw(spoilt(case.value("request"))))
    try:
        DIALECTS[dialect].decode_request(raw)
    except DecodeError:
        return
    loses_nothing(DIALECTS[dialect].decode_request, DIALECTS[dialect].encode_request, raw, form(dialect, "request"))


@pytest.mark.parametrize("dialect", NAMES)
@given(data=st.data())
def test_an_odd_response_is_refused_or_loses_nothing(dialect: str, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(cases_with("response", dialect)))
    raw = form(dialect, "response").write(data.draw(spoilt(case.value("response"))))
    try:
        DIALECTS[dialect].decode_response(raw)
    except (DecodeError, UpstreamError):
        return

    def encode(response: Response, receipt: Receipt) -> bytes:
        return DIALECTS[dialect].encode_response(response, None, receipt)

    loses_nothing(DIALECTS[dialect].decode_response, encode, raw, form(dialect, "response"))


@pytest.mark.parametrize("dialect", NAMES)
@given(request=requests())
def test_a_request_that_was_encoded_is_stable(dialect: str, request: Request) -> None:
    """What an encoder makes of any request, its own decoder reads and writes back to the byte."""
    encoded = DIALECTS[dialect].encode_request(request, Receipt())
    assert request_again(dialect, encoded) == encoded


@pytest.mark.parametrize("dialect", NAMES)
@given(response=responses())
def test_a_response_that_was_encoded_is_stable(dialect: str, response: Response) -> None:
    encoded = DIALECTS[dialect].encode_response(response, None, Receipt())
    assert response_again(dialect, encoded) == encoded
