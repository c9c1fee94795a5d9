"""What each encoder writes for values that no dialect made, and what it tells: compared with `written/encoded/`.

Passes spare the encoders most of this. A dialect may be used alone, though, and then has to say itself what it cannot
write, and where that stood. `python -m tests.dialects.test_encoders` writes the files anew; read the difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.forms import form, is_json
from tests.values import HELLO, REQUESTS, RESPONSES, asked
from toolglot.dialects import DIALECTS
from toolglot.events import unfold
from toolglot.ir import Request, Response, Tool
from toolglot.receipt import Receipt

WRITTEN = Path(__file__).parent / "written" / "encoded"


def told(receipt: Receipt) -> list[str]:
    return [f"{line.severity} {line.where}" for line in receipt]


def written(dialect: str) -> dict[str, Any]:
    """Every case as this dialect writes it, with the lines of its receipt."""
    found: dict[str, Any] = {}
    it = DIALECTS[dialect]
    read = form(dialect, "request").read
    plain = read(it.encode_request(asked(HELLO), Receipt()))
    for name, request in REQUESTS.items():
        receipt = Receipt()
        body = read(it.encode_request(request, receipt))
        found[f"request: {name}"] = [body if name in WHOLE else difference(body, plain), told(receipt)]
    read = form(dialect, "response").read
    plain = read(it.encode_response(Response(), None, Receipt()))
    legacy = Request(model="m", tools=(Tool(name="f", native={"openai_chat": {"$legacy": True}}),))
    for name, response in RESPONSES.items():
        for asking in (None, legacy) if dialect == "openai_chat" and "call" in name else (None,):
            suffix = " for a client of functions" if asking else ""
            receipt = Receipt()
            body = read(it.encode_response(response, asking, receipt))
            found[f"response: {name}{suffix}"] = [body if name in WHOLE else difference(body, plain), told(receipt)]
            receipt = Receipt()
            encoder = it.stream_encoder(asking, receipt)
            stream = b"".join(encoder.feed(event) for event in unfold(response))
            found[f"stream: {name}{suffix}"] = [shortened(frames_of(dialect, stream)), told(receipt)]
    return found


WHOLE = ("nothing", "text behind a call")


def difference(body: dict[str, Any], plain: dict[str, Any]) -> dict[str, Any]:
    """The members that are not those of the plainest document; one that is missing is `absent`."""
    changed = {key: value for key, value in body.items() if value != plain.get(key)}
    return {**changed, **{key: "absent" for key in plain if key not in body}}


def frames_of(dialect: str, stream: bytes) -> list[str]:
    if is_json(dialect):
        return stream.decode().split("\n\n")
    return [json.dumps(event, ensure_ascii=False) for event in form(dialect, "stream").read(stream)["events"]]


def shortened(frames: Iterable[str]) -> list[str]:
    """The frames, without what all of one stream have alike."""
    return [frame if len(frame) < 400 else f"{frame[:150]} … {frame[-200:]}" for frame in frames if frame]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_written_and_told_is_what_is_written_down(dialect: str) -> None:
    expected = json.loads((WRITTEN / f"{dialect}.json").read_text())
    found = json.loads(json.dumps(written(dialect)))
    different = {
        name: [found.get(name), expected.get(name)]
        for name in {**expected, **found}
        if found.get(name) != expected.get(name)
    }
    assert different == {}


if __name__ == "__main__":
    for each in DIALECTS:
        lines = [
            f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in written(each).items()
        ]
        (WRITTEN / f"{each}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
