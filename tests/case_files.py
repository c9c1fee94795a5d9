"""The hand-made exchanges in `cases/<dialect>/<case>/`, and what each becomes in every other dialect.

`request.json`, `response.json`, `stream.sse` and `error.json` are inputs in the dialect's own words. Beside them stand
`request.to-<target>.json` and so on, and `….receipt.txt` with what was lost on the way. Goldens of JSON are indented
for reading; the members, their order and their values are those of the bytes on the wire. Where a wire is not JSON,
`….json` is its document as `tests.forms` reads and writes it, that of a stream (`stream.json`) included.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tests.forms import form, is_json
from toolglot.dialects import DIALECTS
from toolglot.translate import ExchangeCore

ROOT = Path(__file__).parent / "cases"

MODELS = dict.fromkeys(DIALECTS, "m") | {
    "openai_chat": "qwen3-coder",
    "openai_responses": "gpt-5.5",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-3-pro",
    "warp": "auto",
    "ollama": "qwen3",
}
"""The model that an upstream is asked for; rules for models differ, so each dialect has an ordinary one."""


class Case(NamedTuple):
    dialect: str
    name: str

    @property
    def folder(self) -> Path:
        return ROOT / self.dialect / self.name

    def has(self, kind: str) -> bool:
        return self._input(kind).exists()

    def read(self, kind: str) -> bytes:
        """The input as it stands on the wire."""
        raw = self._input(kind).read_bytes()
        if not is_json(self.dialect) and kind != "error":
            return form(self.dialect, kind).write(json.loads(raw))
        return raw if kind == "stream" else compact(raw)

    def value(self, kind: str) -> Any:
        return json.loads(self._input(kind).read_bytes())

    def _input(self, kind: str) -> Path:
        return self.folder / f"{kind}.{suffix_of(self.dialect, kind)}"


def suffix_of(dialect: str, kind: str) -> str:
    if kind != "stream" or not is_json(dialect):
        return "json"
    return "ndjson" if DIALECTS[dialect].stream.framing.is_bare else "sse"


def compact(raw: bytes) -> bytes:
    return msgspec.json.format(raw, indent=-1)


CASES = tuple(
    Case(folder.parent.name, folder.name)
    for folder in sorted(ROOT.glob("*/*"))
    if folder.is_dir() and folder.parent.name in DIALECTS
)
KINDS = ("request", "response", "stream", "error")


def cases_with(kind: str, dialect: str | None = None) -> list[Case]:
    return [case for case in CASES if case.has(kind) and dialect in (None, case.dialect)]


class Golden(NamedTuple):
    """One expected file: where it lies and what it should hold."""

    path: Path
    content: bytes


def goldens(case: Case) -> Iterator[Golden]:
    """Everything that this case becomes in the other dialects."""
    for kind in KINDS:
        if not case.has(kind):
            continue
        for target in DIALECTS:
            if target == case.dialect:
                continue
            exchange, content = _TRANSLATE[kind](case, target)
            yield Golden(case.folder / f"{kind}.to-{target}.{suffix_of(target, kind)}", content)
            if exchange.receipt:
                name = f"{kind}.to-{target}.receipt.txt"
                yield Golden(case.folder / name, f"{exchange.receipt}\n".encode())


def _request(case: Case, target: str) -> tuple[ExchangeCore, bytes]:
    exchange = ExchangeCore(case.dialect, target, model=MODELS.get(target))
    return exchange, _readable(target, "request", exchange.request(case.read("request"), model=_model_in_url(case)))


def _model_in_url(case: Case) -> str | None:
    return MODELS.get(case.dialect) if DIALECTS[case.dialect].request.model_in_path else None


def _response(case: Case, target: str) -> tuple[ExchangeCore, bytes]:
    exchange = ExchangeCore(target, case.dialect)
    return exchange, _readable(target, "response", exchange.response(case.read("response")))


def _stream(case: Case, target: str) -> tuple[ExchangeCore, bytes]:
    exchange = ExchangeCore(target, case.dialect)
    translation = exchange.stream()
    return exchange, _readable(target, "stream", translation.feed(case.read("stream")) + translation.close())


def _error(case: Case, target: str) -> tuple[ExchangeCore, bytes]:
    exchange = ExchangeCore(target, case.dialect)
    given = case.value("error")
    error = exchange.error(given["status"], given["headers"], json.dumps(given["body"]).encode())
    parts = {"status": error.status, "headers": dict(error.headers), "body": json.loads(error.body)}
    return exchange, indented(json.dumps(parts, ensure_ascii=False).encode())


def _readable(dialect: str, kind: str, raw: bytes) -> bytes:
    if not is_json(dialect):
        raw = json.dumps(form(dialect, kind).read(raw), ensure_ascii=False).encode()
    elif kind == "stream":
        return raw
    return indented(raw)


def indented(raw: bytes) -> bytes:
    return msgspec.json.format(raw, indent=2) + b"\n"


_TRANSLATE: dict[str, Callable[[Case, str], tuple[ExchangeCore, bytes]]] = {
    "request": _request,
    "response": _response,
    "stream": _stream,
    "error": _error,
}
