"""The proxy of the library's page, and upstreams that make it hard."""

from __future__ import annotations

import doctest
import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest

from tests.docs.markdown import ROOT, blocks
from tests.lint.streams import CHAT, SOUND, sse
from toolglot.errors import ErrorKind
from toolglot.lint import lint

PAGE = ROOT / "docs/library.md"
ASKED = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
PING = b'event: ping\ndata: {"type": "ping"}\n\n'

BROKEN = [
    ConnectionRefusedError("no"),
    TimeoutError("slow"),
    http.client.IncompleteRead(b""),
    http.client.BadStatusLine(""),
]
broken = pytest.mark.parametrize("error", BROKEN, ids=lambda error: type(error).__name__)


@pytest.fixture(scope="module")
def answer_to() -> Callable[..., Any]:
    """The function that the page shows."""
    (block,) = [block for block in blocks(PAGE) if "def answer_to" in block.text]
    names: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(block.text):
        exec(example.source, names)
    function: Callable[..., Any] = names["answer_to"]
    return function


def sent(status: int, *chunks: bytes, error: Exception | None = None) -> Callable[..., Any]:
    """An upstream that answers with these chunks, and then breaks."""

    def arriving() -> Iterator[bytes]:
        yield from chunks
        if error is not None:
            raise error

    return lambda path, body: (status, {}, arriving())


def unreachable(error: Exception) -> Callable[..., Any]:
    def post(path: str, body: bytes) -> Any:
        raise error

    return post


@broken
@pytest.mark.parametrize("stream", [True, False])
def test_an_upstream_that_cannot_be_reached_is_an_error_of_the_clients_dialect(
    answer_to: Callable[..., Any], error: Exception, stream: bool
) -> None:
    status, _, (body,) = answer_to("anthropic", "openai_chat", {**ASKED, "stream": stream}, unreachable(error))
    assert (status, json.loads(body)["type"]) == (504 if isinstance(error, TimeoutError) else 502, "error")


@broken
@pytest.mark.parametrize("answered", [200, 500])
def test_a_whole_answer_that_breaks_off_is_one_too(
    answer_to: Callable[..., Any], error: Exception, answered: int
) -> None:
    status, _, (body,) = answer_to("anthropic", "openai_chat", ASKED, sent(answered, b'{"id":', error=error))
    assert (status in (502, 504), json.loads(body)["type"]) == (True, "error")


@broken
def test_a_stream_that_breaks_off_ends_in_an_error(answer_to: Callable[..., Any], error: Exception) -> None:
    post = sent(200, sse(CHAT[:2], named=False), error=error)
    status, _, chunks = answer_to("anthropic", "openai_chat", {**ASKED, "stream": True}, post)
    written = b"".join(chunks)
    assert (status, written.count(b"event: error")) == (200, 1)
    assert lint("anthropic", [written]) == []


def test_no_chunk_of_a_stream_is_empty(answer_to: Callable[..., Any]) -> None:
    stream = SOUND["anthropic"]
    pieces = [PING, *(stream[place : place + 7] for place in range(0, len(stream), 7)), b""]
    request = {"model": "m", "stream": True, "messages": ASKED["messages"]}
    _, _, chunks = answer_to("openai_chat", "anthropic", request, sent(200, *pieces))
    written = list(chunks)
    assert all(written)
    assert written[-1].endswith(b"data: [DONE]\n\n")


def test_what_is_broken_after_the_end_adds_nothing(answer_to: Callable[..., Any]) -> None:
    post = sent(200, SOUND["openai_chat"], error=ConnectionResetError("reset"))
    _, _, chunks = answer_to("anthropic", "openai_chat", {**ASKED, "stream": True}, post)
    written = list(chunks)
    assert all(written)
    assert lint("anthropic", [b"".join(written)]) == []


@pytest.mark.parametrize("stream", [True, False])
def test_a_gemini_client_says_model_and_stream_in_its_url(answer_to: Callable[..., Any], stream: bool) -> None:
    bodies: list[dict[str, Any]] = []

    def post(path: str, body: bytes) -> Any:
        bodies.append(json.loads(body))
        return 500, {}, [b"{}"]

    request = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    answer_to("gemini", "openai_chat", request, post, model="gpt-4.1", stream=stream)
    assert [(body["model"], body.get("stream", False)) for body in bodies] == [("gpt-4.1", stream)]


def test_the_page_names_every_kind_of_error() -> None:
    text = PAGE.read_text()
    for kind in get_args(ErrorKind):
        assert f"`{kind}`" in text
