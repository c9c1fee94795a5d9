"""SDKs that read a stream with httpx' `iter_lines` get texts with U+2028, U+2029 and U+0085 whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.gateway import Gateways
from tests.e2e.loopback import stream
from tests.e2e.python_ways import MODEL, genai_client
from tests.e2e.wires import WIRES
from tests.test_line_separators import PIECES, raw_stream
from toolglot.ir import Text

ollama = pytest.importorskip("ollama")


def _ollama_text(base_url: str) -> str:
    asked = [{"role": "user", "content": "Hello"}]
    parts = ollama.Client(host=base_url).chat(model=MODEL, messages=asked, stream=True)
    return "".join(part.message.content or "" for part in parts)


def _genai_text(base_url: str) -> str:
    from google.genai import types

    config = types.GenerateContentConfig(http_options=types.HttpOptions(base_url=base_url))
    chunks = genai_client().models.generate_content_stream(model=MODEL, contents="Hello", config=config)
    return "".join(chunk.text or "" for chunk in chunks)


@pytest.mark.parametrize("read", [_ollama_text, _genai_text])
@pytest.mark.parametrize("dialect", WIRES)
def test_an_sdk_that_splits_lines_as_python_does_gets_the_whole_text(
    gateways: Gateways, dialect: str, read: Callable[[str], str]
) -> None:
    behind = gateways.to(dialect)
    sent = raw_stream(dialect, Text(text=""))
    behind.exchange.answer = lambda _: stream(sent)
    assert read(behind.base_url) == "".join(PIECES)
