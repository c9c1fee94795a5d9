"""A real inference engine, llama.cpp's server, as a process of its own on a free port of the loopback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from tests.waiting import FAILSAFE

from .bigram_model import write_model

SERVE = Path(__file__).parent / "serve.py"
SERVED = ("openai_chat", "openai_responses", "anthropic")
"""The dialects that llama.cpp speaks."""
WANT_OUTPUT_INDEX = ("js-responses_loop", "ai-openai_responses_streamed")
"""Clients that want the `output_index` which llama.cpp leaves out of its Responses streams. The gateway puts it in."""


@contextmanager
def running_engine(folder: Path, write: Callable[[Path], None] = write_model, *options: str) -> Iterator[str]:
    """The engine's base URL. The model and the engine's log are written into the folder."""
    model, log = folder / "model.gguf", folder / "engine.log"
    write(model)
    with (
        log.open("wb") as stderr,
        subprocess.Popen(
            [sys.executable, SERVE, model, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        base_url = process.stdout.readline().strip()
        assert base_url, f"llama.cpp did not start:\n{log.read_text(errors='replace')[-2000:]}"
        with urlopen(f"{base_url}/health", timeout=FAILSAFE) as health:
            assert health.status == 200
        yield base_url
        process.stdin.close()
        process.wait(FAILSAFE)
