"""Whole requests through all passes, for upstreams that differ, compared with `written/*.json`.

Each entry is what the upstream is sent, as far as it is not what a plain request is sent, and the lines of the receipt.
`python -m tests.passes.test_prepared` writes the files anew; read the difference before you commit it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.dialects.test_encoders import difference, told
from tests.values import CALLS, HELLO, RESULTS, SAID, TOOLS, asked, user
from tests.values import REQUESTS as ENCODED
from toolglot.dialect import capabilities
from toolglot.dialects import DIALECTS
from toolglot.ir import (
    Cache,
    Media,
    Message,
    Reasoning,
    Request,
    Source,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    replace,
)
from toolglot.passes import Context
from toolglot.passes.pipeline import prepare
from toolglot.receipt import Receipt

WRITTEN = Path(__file__).parent / "written"
UPSTREAMS = {
    "old-claude": ("anthropic", "claude-sonnet-4-5"),
    "new-claude": ("anthropic", "claude-opus-5-5"),
    "old-gemini": ("gemini", "gemini-2.5-flash"),
    "new-gemini": ("gemini", "gemini-3-pro"),
    "mistral": ("openai_chat", "mistral-large"),
    "gpt": ("openai_responses", "gpt-5.5"),
}


def call(identity: str, name: str = "f", **fields: Any) -> ToolCall:
    return ToolCall(id=identity, name=name, arguments="{}", **fields)


def result(identity: str, *content: Any, **fields: Any) -> ToolResult:
    return ToolResult(call_id=identity, content=content or (Text(text="fine"),), **fields)


def spoke(*blocks: Any) -> Message:
    return user(*blocks, role="assistant")


IMAGE = Media(kind="image", source=Source("base64", "aGk=", "image/png"), name="a.png", cache=Cache())
LONG = "n" * 130
HISTORIES: dict[str, Request] = {
    "a call without a result": asked(HELLO, spoke(call("a"), call("b")), user(result("b"), Text(text="go on"))),
    "a result without a call": asked(HELLO, user(result("gone", name="f"), result("gone too"), role="tool")),
    "results late and twice": asked(
        HELLO, spoke(call("a")), spoke(call("b")), user(Text(text="wait")), user(result("b"), result("a"), result("a"))
    ),
    "ids missing and repeated": asked(
        *(HELLO, spoke(call(""), call("", "g")), user(result("", name="g"), result("", name="f"))),
        *(spoke(call("a")), user(result("a")), spoke(call("a")), user(result("a"))),
    ),
    "ids and names too long": asked(HELLO, spoke(call("i d" * 50, LONG)), user(result("i d" * 50, name=LONG))),
    "names that collide": asked(
        HELLO,
        tools=tuple(Tool(name=name) for name in ("a b", "a_b", "a.b", "1a", LONG, f"{LONG}x", "a b")),
        tool_choice=ToolChoice(mode="required", names=("a b",)),
    ),
    "namespaces": asked(
        HELLO,
        spoke(call("a", namespace="n"), call("b", "n__f")),
        tools=(Tool(name="f", namespace="n"), Tool(name="f", namespace="m"), Tool(name="g", namespace="n")),
    ),
    "turns of one speaker": asked(HELLO, HELLO, spoke(Text(text="a")), spoke(Text(text="b")), HELLO),
    "the assistant first and last": asked(spoke(Text(text="a")), HELLO, spoke(Text(text="b "))),
    "empty text": asked(user(Text(text=" ", cache=Cache()), Text(text="a"), Text(text="", cache=Cache())), spoke()),
    "system text everywhere": asked(
        *(user(Text(text="S"), role="system"), HELLO, user(Text(text="T"), role="developer"), spoke(Text(text="a"))),
        *(user(Text(text="U"), IMAGE, role="system"), user(Text(text="V"), role="system"), HELLO),
    ),
    "only system text": asked(user(Text(text="S"), role="system")),
    "an unknown role": asked(user(Text(text="x"), role="novel")),
    "media in a result": asked(
        HELLO, spoke(call("a")), user(result("a", Text(text="t"), IMAGE, IMAGE), Text(text="so"))
    ),
    "media at the end of results": asked(HELLO, spoke(call("a")), user(result("a", IMAGE), role="tool")),
    "a result that is an error": asked(
        HELLO, spoke(call("a"), call("b")), user(result("a", is_error=True), result("b", IMAGE, is_error=True))
    ),
    "reasoning of nobody": asked(HELLO, spoke(Thinking(text="hm"), Thinking(), call("a")), user(result("a"))),
    "reasoning before a call that is wanted": asked(
        HELLO, spoke(call("a")), user(result("a")), reasoning=Reasoning(mode="on", budget_tokens=2000), tools=TOOLS[:1]
    ),
    "a forced choice while it reasons": asked(
        HELLO,
        tools=TOOLS[:3],
        tool_choice=ToolChoice(mode="required", names=("f",)),
        reasoning=Reasoning(effort="high"),
    ),
    "breakpoints": asked(
        *(user(*(Text(text=str(number), cache=Cache(number * 600)) for number in range(7))), spoke(CALLS[5])),
        cache=Cache(3600),
        tools=TOOLS,
    ),
    "too many stops": asked(HELLO, stop=("a", "b", "c", "d", "e", "f", " ")),
    "a hot temperature": asked(HELLO, temperature=1.7, top_p=0.5, max_output_tokens=3),
    "everything": asked(user(*SAID), spoke(*SAID, *CALLS), user(*RESULTS), tools=TOOLS),
}
CASES = {**{name: request for name, request in ENCODED.items() if not name.startswith("reasoning of")}, **HISTORIES}


def prepared(upstream: str, *, source: str = "elsewhere") -> dict[str, Any]:
    target, model = UPSTREAMS[upstream]
    dialect = DIALECTS[target]
    found: dict[str, Any] = {}
    plain: dict[str, Any] = {}
    for name, request in {"plain": asked(HELLO), **CASES}.items():
        receipt = Receipt()
        context = Context(source=source, target=target, can=capabilities(dialect, model), receipt=receipt)
        ready = prepare(replace(request, model=model), context)
        body = json.loads(dialect.encode_request(ready, receipt))
        plain = plain or body
        found[name] = [difference(body, plain), told(receipt)]
    return found


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_what_an_upstream_is_sent_is_what_is_written_down(upstream: str) -> None:
    expected = json.loads((WRITTEN / f"{upstream}.json").read_text())
    found = json.loads(json.dumps(prepared(upstream)))
    assert {name: entry for name, entry in found.items() if entry != expected.get(name)} == {}
    assert found.keys() == expected.keys()


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_client_of_the_same_dialect_is_changed_as_little(upstream: str) -> None:
    """Most passes leave a client of the target's own dialect alone, which knows what it may send."""
    expected = json.loads((WRITTEN / f"{upstream}.own.json").read_text())
    found = {name: entry[1] for name, entry in prepared(upstream, source=UPSTREAMS[upstream][0]).items() if entry[1]}
    assert found == expected


def write(name: str, entries: dict[str, Any]) -> None:
    lines = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in entries.items()]
    (WRITTEN / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    WRITTEN.mkdir(exist_ok=True)
    for each in UPSTREAMS:
        write(each, prepared(each))
        own = prepared(each, source=UPSTREAMS[each][0])
        write(f"{each}.own", {name: entry[1] for name, entry in own.items() if entry[1]})
