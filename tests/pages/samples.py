"""Conversations and exchanges for pages: a usual one, which the documentation shows, and a hostile one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.recordings.made import exchange, lines_of

LONG = "word" * 1_250_000
"""5 MB without a space."""
EVIL = (
    "</style><script>document.title='owned'</script><img src=https://evil.invalid/a.png onerror=alert(1)>"
    "<svg onload=alert(1)><style>*{display:none}</style><base href=https://evil.invalid/><form action=//evil.invalid>"
    "<meta http-equiv=refresh content='0;url=https://evil.invalid'><iframe src=//evil.invalid></iframe></pre></details>"
)
MARKDOWN = (
    "[click](javascript:alert(1)) [click](<JAVASCRIPT:alert(1)>) ![x](https://evil.invalid/x.png) "
    "[x](data:text/html,<script>alert(1)</script>) <https://evil.invalid> [a]: https://evil.invalid\n\n"
    f"| {'wide' * 60} | {'b' * 300} |\n|---|---|\n| {EVIL} | c |\n\n```html\n{EVIL}\n```\n"
)
HIDDEN = "abc\u202egnp.exe\u2066\u2069 \x1b[2J\x1b]0;owned\x07 \x00 \u200e\ufeff"
HOSTILE = (EVIL, MARKDOWN, HIDDEN)


def chat_request(messages: Iterable[dict[str, Any]]) -> bytes:
    return json.dumps({"model": "m", "messages": list(messages)}).encode()


def hostile_conversation() -> bytes:
    """A request with every hostile text in every place."""
    messages: list[dict[str, Any]] = []
    for number, text in enumerate(HOSTILE):
        name = text[:60]
        call = {
            "id": f"c{number}{name}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps({name: text})},
        }
        messages += [
            {"role": "system", "content": text},
            {"role": "user", "content": text},
            {"role": "assistant", "content": text, "reasoning_content": text, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": text},
        ]
    return chat_request([*messages, {"role": "user", "content": LONG}])


def hostile_exchange() -> bytes:
    """A recorded exchange with every hostile text in the requests and the answer, and bytes that are not UTF-8."""
    asked = {
        "model": EVIL,
        "max_tokens": 9,
        "stream": True,
        EVIL: MARKDOWN,
        "messages": [{"role": "user", "content": text} for text in (*HOSTILE, LONG)],
    }

    def chunk(delta: dict[str, Any], **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": None, **more}
        return b"data: %b\n\n" % json.dumps({"id": EVIL, "model": HIDDEN, "choices": [choice]}).encode()

    call = {
        "index": 0,
        "id": EVIL,
        "type": "function",
        "function": {"name": EVIL, "arguments": json.dumps({"a": EVIL})},
    }
    frames = [
        chunk({"role": "assistant"}),
        *(chunk({"content": text}) for text in (*HOSTILE, LONG)),
        *(chunk({"content": f" {number}"}) for number in range(300)),
        b": \xff\xfe\n\n",
        b'data: {"choices": [{"delta": {"content": "\\ud800"}}]}\n\n',
        b'data: {"choices": [{"delta": {"content": "\xff\xc3"}}]}\n\n',
        chunk({"tool_calls": [call]}),
        chunk({}, finish_reason="tool_calls"),
        b"data: [DONE]\n\n",
    ]
    return lines_of(exchange("anthropic", "openai_chat", json.dumps(asked).encode(), frames))


EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
