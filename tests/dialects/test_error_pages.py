"""Errors whose bodies are no JSON, no text, or nothing."""

from __future__ import annotations

import json

import pytest

from tests.exchanges import NAMES, read_events
from toolglot.dialects import DIALECTS
from toolglot.errors import ErrorKind
from toolglot.events import Fault

every_dialect = pytest.mark.parametrize("dialect", NAMES)


@every_dialect
def test_a_body_that_is_no_text_is_shown_as_far_as_it_is(dialect: str) -> None:
    error = DIALECTS[dialect].decode_error(502, {}, b"  bad \xff gateway\n")
    assert (error.kind, error.status, error.message) == ("server", 502, "bad \N{REPLACEMENT CHARACTER} gateway")


@every_dialect
@pytest.mark.parametrize(("status", "kind"), [(401, "authentication"), (429, "rate_limit"), (503, "overloaded")])
def test_an_empty_body_leaves_the_status(dialect: str, status: int, kind: ErrorKind) -> None:
    error = DIALECTS[dialect].decode_error(status, {"Retry-After": "7"}, b"")
    assert (error.kind, error.status, error.retry_after) == (kind, status, 7)
    assert str(status) in error.message


@every_dialect
def test_a_text_without_end_is_cut(dialect: str) -> None:
    error = DIALECTS[dialect].decode_error(500, {}, b"x" * 100_000)
    assert len(error.message) == {"gemini": 1000}.get(dialect, 2000)


PAGES = {
    "a doctype": b'\n<!DOCTYPE HTML PUBLIC "-//IETF//DTD HTML 2.0//EN">\n<html><title>404 Not\n Found</title>',
    "no doctype": b"<HTML lang=en><body><TITLE>404 Not Found</TITLE>",
}


@every_dialect
@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_a_web_page_is_described_and_not_shown(dialect: str, page: bytes) -> None:
    error = DIALECTS[dialect].decode_error(404, {"retry-after": "7"}, page)
    message = "The upstream answered with status 404 and a web page ('404 Not Found'); is its base URL right?"
    assert (error.kind, error.status, error.retry_after, error.message) == ("not_found", 404, 7, message)


@every_dialect
def test_a_date_to_wait_for_is_kept(dialect: str) -> None:
    date = "Wed, 21 Oct 2026 07:28:00 GMT"
    error = DIALECTS[dialect].decode_error(503, {"retry-after": date}, json.dumps({"error": {"message": "m"}}).encode())
    assert (error.message, error.retry_after, error.retry_after_date) == ("m", None, date)
    assert DIALECTS[dialect].encode_error(error).headers["retry-after"] == date


def test_an_error_event_of_messages_may_hold_anything() -> None:
    events = read_events("anthropic", [b"event: error\ndata: bad \xff thing\n\n"])
    assert isinstance(events[-1], Fault)
    assert events[-1].error.message == "bad \N{REPLACEMENT CHARACTER} thing"
    assert events[-1].error.kind == "server"


def test_an_event_of_responses_with_a_name_that_is_no_text_is_unknown_and_no_exception() -> None:
    events = read_events("openai_responses", [b"event: \xff\ndata: {}\n\n"])
    assert isinstance(events[-1], Fault)
    assert events[-1].error.code == "upstream_truncated"
