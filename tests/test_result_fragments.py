"""What one call has returned, between MCP and every dialect: one table drives both ways."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolglot import translate_result
from toolglot.dialects import DIALECTS
from toolglot.errors import DecodeError, LossError, UnknownDialectError

PNG = "iVBORw0KGgo="
WARP_PNG = "aVZCT1J3MEtHZ289"
"""Warp has base64 in its bytes, and the JSON form of bytes is base64 once more."""
MARK = "[{} 1 of this result follows in the next user message]"
MOVED = "[{} 1 of the result of weather call_1:]"


def chat(content: Any, *behind: Any) -> list[Any]:
    followed = [{"role": "user", "content": list(behind)}] if behind else []
    return [{"role": "tool", "tool_call_id": "call_1", "content": content}, *followed]


def responses(output: Any) -> list[Any]:
    return [{"type": "function_call_output", "call_id": "call_1", "output": output}]


def anthropic(content: Any, **more: Any) -> list[Any]:
    said = {} if content is None else {"content": content}
    return [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", **said, **more}]}]


def gemini(response: Any, *parts: Any) -> list[Any]:
    more = {"parts": list(parts)} if parts else {}
    answer = {"id": "call_1", "name": "weather", "response": response, **more}
    return [{"role": "user", "parts": [{"functionResponse": answer}]}]


def warp(*results: Any, error: str | None = None) -> list[Any]:
    success = {"success": {"results": list(results)} if results else {}}
    outcome = success if error is None else {"error": {"message": error}}
    return [{"tool_call_result": {"tool_call_id": "call_1", "call_mcp_tool": outcome}}]


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def inline(media_type: str, data: str, **more: str) -> dict[str, Any]:
    return {"inlineData": {"mimeType": media_type, "data": data, **more}}


class Case(NamedTuple):
    """A result of MCP; what it is in each dialect; what comes back where that is not the result itself; losses."""

    what: str
    mcp: dict[str, Any]
    dialects: dict[str, list[Any]]
    back: dict[str, dict[str, Any]]
    losses: dict[str, list[str]]


def everywhere(value: Any) -> dict[str, Any]:
    return dict.fromkeys(DIALECTS, value)


def in_each(names: str, value: Any) -> dict[str, Any]:
    return dict.fromkeys(names.split(), value)


def ollama(content: str, **members: Any) -> list[Any]:
    result = {"role": "tool", "content": content, "tool_name": "weather", "tool_call_id": "call_1", **members}
    return [result]


IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
NOTE = {"type": "resource", "resource": {"uri": "file:///n.txt", "mimeType": "text/plain", "text": "hi"}}
NOTE_TOLD = {"content": [text("file:///n.txt:\nhi")]}
PAPER = {"type": "resource", "resource": {"uri": "file:///d.pdf", "mimeType": "application/pdf", "blob": "QQ=="}}
LINK = {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt", "mimeType": "text/plain"}
LINKED = "[resource: a.txt, file:///a.txt (text/plain)]"
NO_AUDIO = "[audio left out: it cannot be shown here]"
NO_PAPER = "[document file:///d.pdf left out: it cannot be shown here]"


def told(said: str) -> dict[str, list[Any]]:
    """A text, in each dialect."""
    return {
        "openai_chat": chat(said),
        "openai_responses": responses(said),
        "anthropic": anthropic(said),
        "gemini": gemini({"output": said}),
        "warp": warp({"text": {"text": said}}),
        "ollama": ollama(said),
    }


STRUCTURED = told('{"t":12}') | {"gemini": gemini({"t": 12})}

CASES = [
    Case("a text", {"content": [text("Rain.")]}, told("Rain."), {}, {}),
    Case(
        "an error",
        {"content": [text("No such city.")], "isError": True},
        {
            "openai_chat": chat("Error: No such city."),
            "openai_responses": responses("Error: No such city."),
            "anthropic": anthropic("No such city.", is_error=True),
            "gemini": gemini({"error": "No such city."}),
            "warp": warp(error="No such city."),
            "ollama": ollama("Error: No such city."),
        },
        in_each("openai_chat openai_responses ollama", {"content": [text("Error: No such city.")]}),
        {},
    ),
    Case(
        "structured content alone",
        {"content": [], "structuredContent": {"t": 12}},
        STRUCTURED,
        everywhere({"content": [text('{"t":12}')]}),
        {},
    ),
    Case(
        "structured content that a text tells too",
        {"content": [text('{"t":12}')], "structuredContent": {"t": 12}},
        STRUCTURED,
        everywhere({"content": [text('{"t":12}')]}),
        {},
    ),
    Case(
        "structured content that no text tells",
        {"content": [text("Warm.")], "structuredContent": {"t": 12}},
        told("Warm."),
        everywhere({"content": [text("Warm.")]}),
        everywhere(["structuredContent"]),
    ),
    Case(
        "an image",
        {"content": [text("Here:"), IMAGE]},
        {
            "openai_chat": chat(
                [text("Here:"), text(MARK.format("image"))],
                text(MOVED.format("image")),
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            ),
            "openai_responses": responses(
                [
                    {"type": "input_text", "text": "Here:"},
                    {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
                ]
            ),
            "anthropic": anthropic(
                [
                    text("Here:"),
                    {"type": "image", "source": {"type": "base64", "data": PNG, "media_type": "image/png"}},
                ]
            ),
            "gemini": gemini({"output": "Here:"}, inline("image/png", PNG)),
            "warp": warp({"text": {"text": "Here:"}}, {"image": {"data": WARP_PNG, "mime_type": "image/png"}}),
            "ollama": ollama("Here:", images=[PNG]),
        },
        {},
        {},
    ),
    Case(
        "audio",
        {"content": [{"type": "audio", "data": "QUJD", "mimeType": "audio/wav"}]},
        {
            **told(NO_AUDIO),
            "openai_chat": chat(
                MARK.format("audio"),
                text(MOVED.format("audio")),
                {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}},
            ),
            "gemini": gemini({"output": ""}, inline("audio/wav", "QUJD")),
        },
        in_each("openai_responses anthropic warp ollama", {"content": [text(NO_AUDIO)]}),
        in_each("openai_responses anthropic warp ollama", ["content[0]"]),
    ),
    Case(
        "a resource of text",
        {"content": [NOTE]},
        {
            **told("file:///n.txt:\nhi"),
            "anthropic": anthropic(
                [
                    {
                        "type": "document",
                        "source": {"type": "text", "data": "hi", "media_type": "text/plain"},
                        "title": "file:///n.txt",
                    }
                ]
            ),
            "gemini": gemini({"output": ""}, inline("text/plain", "aGk=", displayName="file:///n.txt")),
        },
        {
            **in_each("openai_chat openai_responses warp ollama", NOTE_TOLD),
            "gemini": {
                "content": [
                    {
                        "type": "resource",
                        "resource": {"uri": "file:///n.txt", "mimeType": "text/plain", "blob": "aGk="},
                    }
                ]
            },
        },
        {},
    ),
    Case(
        "a resource of bytes",
        {"content": [PAPER]},
        {
            "openai_chat": chat(
                MARK.format("document"),
                text(MOVED.format("document")),
                {
                    "type": "file",
                    "file": {"file_data": "data:application/pdf;base64,QQ==", "filename": "file:///d.pdf"},
                },
            ),
            "openai_responses": responses(
                [
                    {
                        "type": "input_file",
                        "filename": "file:///d.pdf",
                        "file_data": "data:application/pdf;base64,QQ==",
                    }
                ]
            ),
            "anthropic": anthropic(
                [
                    {
                        "type": "document",
                        "source": {"type": "base64", "data": "QQ==", "media_type": "application/pdf"},
                        "title": "file:///d.pdf",
                    }
                ]
            ),
            "gemini": gemini({"output": ""}, inline("application/pdf", "QQ==", displayName="file:///d.pdf")),
            "warp": warp({"text": {"text": NO_PAPER}}),
            "ollama": ollama(NO_PAPER),
        },
        in_each("warp ollama", {"content": [text(NO_PAPER)]}),
        in_each("warp ollama", ["content[0]"]),
    ),
    Case("a link", {"content": [LINK]}, told(LINKED), everywhere({"content": [text(LINKED)]}), {}),
    Case(
        "nothing",
        {"content": []},
        {
            "openai_chat": chat(""),
            "openai_responses": responses(""),
            "anthropic": anthropic(None),
            "gemini": gemini({"output": ""}),
            "warp": warp(),
            "ollama": ollama(""),
        },
        {},
        {},
    ),
    Case(
        "what is not for the model",
        {"content": [text("x", annotations={"audience": ["user"]}, _meta={"a": 1})], "resultType": "complete"},
        told("x"),
        everywhere({"content": [text("x")]}),
        everywhere(["content[0].annotations"]),
    ),
    Case(
        "a block of tomorrow",
        {"content": [text("x"), {"type": "hologram", "data": "…"}]},
        told("x"),
        everywhere({"content": [text("x")]}),
        everywhere(["content[1]"]),
    ),
]
both_ways = pytest.mark.parametrize("dialect", DIALECTS)
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.what)


@cases
@both_ways
def test_a_result_of_mcp_is_what_the_dialect_calls_one(case: Case, dialect: str) -> None:
    translated = translate_result(case.mcp, "mcp", dialect, call_id="call_1", name="weather")
    assert translated.json() == case.dialects[dialect]
    assert [line.where for line in translated.receipt.losses] == case.losses.get(dialect, [])


@cases
@both_ways
def test_a_dialects_result_is_one_of_mcp_again(case: Case, dialect: str) -> None:
    translated = translate_result(case.dialects[dialect], dialect, "mcp")
    assert translated.json() == case.back.get(dialect, case.mcp)
    assert not translated.receipt.losses


@cases
@pytest.mark.parametrize("target", DIALECTS)
@both_ways
def test_between_two_dialects_it_is_the_same_result(case: Case, dialect: str, target: str) -> None:
    """What both can say: the way over MCP ends where the direct one does."""
    direct = translate_result(case.dialects[dialect], dialect, target, name="weather")
    over_mcp = translate_result(case.back.get(dialect, case.mcp), "mcp", target, call_id="call_1", name="weather")
    ends = [translate_result(way.data, target, "mcp").json() for way in (direct, over_mcp)]
    assert ends[0] == ends[1]


@both_ways
def test_strict_refuses_what_would_be_lost(dialect: str) -> None:
    result = {"content": [text("Warm.")], "structuredContent": {"t": 12}}
    with pytest.raises(LossError):
        translate_result(result, "mcp", dialect, call_id="c", name="n", strict=True)


BARE: dict[str, list[Any]] = {
    "openai_chat": [chat("Rain.")[0]],
    "openai_responses": [responses("Rain.")[0]],
    "anthropic": [anthropic("Rain.")[0], anthropic("Rain.")[0]["content"][0], anthropic("Rain.")[0]["content"]],
    "gemini": [gemini({"output": "Rain."})[0], gemini({"output": "Rain."})[0]["parts"][0]],
    "warp": [warp({"text": {"text": "Rain."}})[0], warp({"text": {"text": "Rain."}})[0]["tool_call_result"]],
}


@pytest.mark.parametrize(("dialect", "given"), [(name, value) for name, values in BARE.items() for value in values])
def test_a_result_may_come_alone(dialect: str, given: Any) -> None:
    assert translate_result(given, dialect, "mcp").json() == {"content": [text("Rain.")]}


def test_of_a_whole_request_the_call_says_which_result_is_meant() -> None:
    request = {
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "tool", "tool_call_id": "call_1", "content": "Rain."},
            {"role": "tool", "tool_call_id": "call_2", "content": "Sun."},
        ]
    }
    translated = translate_result(request, "openai_chat", "mcp", call_id="call_2")
    assert (translated.json(), bool(translated.receipt)) == ({"content": [text("Sun.")]}, False)
    with pytest.raises(DecodeError, match=r"there are results of call_1, call_2: which is meant\?"):
        translate_result(request, "openai_chat", "mcp")
    with pytest.raises(DecodeError, match="there is no result of call_3, but of call_1, call_2"):
        translate_result(request, "openai_chat", "mcp", call_id="call_3")


def test_what_stands_beside_a_result_is_a_loss() -> None:
    message = {"role": "user", "content": [*anthropic("Rain.")[0]["content"], text("And now?")]}
    translated = translate_result(message, "anthropic", "mcp")
    assert translated.json() == {"content": [text("Rain.")]}
    assert [line.what for line in translated.receipt.losses] == ["text"]


def test_a_result_of_gemini_without_an_id_is_given_one() -> None:
    part = {"functionResponse": {"name": "weather", "response": {"output": "Rain."}}}
    assert translate_result(part, "gemini", "openai_chat", call_id="call_1").json() == chat("Rain.")
    with pytest.raises(DecodeError, match="which call it answers"):
        translate_result(part, "gemini", "openai_chat")


@pytest.mark.parametrize(
    ("given", "source", "target", "told_of"),
    [
        ({"content": []}, "mcp", "anthropic", "call_id: the result does not say which call it answers"),
        (chat("x"), "openai_chat", "gemini", "name: results of Google Gemini name their tool"),
        ({"resultType": "input_required", "inputRequests": {}}, "mcp", "mcp", "$.resultType: the server asks for"),
        ({"content": 3}, "mcp", "mcp", "$.content: expected an array"),
        ([{"role": "user", "content": "x"}], "openai_chat", "mcp", "$: there is no result of a tool in it"),
        ('"x"', "openai_chat", "mcp", "$: expected a message with a result, or an array of them, got a string"),
        ({"role": "tool", "tool_call_id": 7}, "openai_chat", "mcp", "$.tool_call_id: expected a string"),
        ([{"role": "tool", "tool_call_id": 7}], "openai_chat", "mcp", "$[0].tool_call_id: expected a string"),
        ({"tool_call_result": {"call": 1}}, "warp", "mcp", "$.tool_call_result.call: InputToolCallResult has no"),
    ],
)
def test_what_is_no_result_or_says_too_little_is_refused(given: Any, source: str, target: str, told_of: str) -> None:
    with pytest.raises(DecodeError) as caught:
        translate_result(given, source, target)
    assert str(caught.value).startswith(told_of)


def test_names_and_ids_that_the_target_does_not_allow_are_told() -> None:
    translated = translate_result({"content": []}, "mcp", "anthropic", call_id="a b", name="n")
    assert [line.where for line in translated.receipt.notes] == ["call", "result"][: len(translated.receipt.notes)]
    assert translated.json()[0]["content"][0]["tool_use_id"] != "a b"


def test_an_unknown_dialect_lists_the_known_ones() -> None:
    with pytest.raises(UnknownDialectError, match=", ".join([*DIALECTS, "mcp"])):
        translate_result({}, "cohere", "mcp")


plain_texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(
    lambda said: said.strip() == said and not said.startswith(("{", "[", "Error: "))
)


@given(st.lists(plain_texts | st.just(None), min_size=1, max_size=3), st.booleans(), st.sampled_from(list(DIALECTS)))
def test_texts_and_images_go_there_and_back(blocks: list[str | None], failed: bool, dialect: str) -> None:
    """A law: what every dialect has a word for comes back from each as it was."""
    content = [IMAGE if said is None else text(said) for said in blocks]
    texts = [said for said in blocks if said is not None]
    if dialect in ("gemini", "ollama"):  # they have one text in front of all media
        between = "" if dialect == "gemini" else "\n\n"
        content = [*([text(between.join(texts))] if texts else []), *(block for block in content if block is IMAGE)]
    flag = {"isError": True} if failed and dialect in ("anthropic", "gemini") else {}
    there = translate_result({"content": content, **flag}, "mcp", dialect, call_id="call_1", name="weather")
    assert not there.receipt.losses
    back = translate_result(there.data, dialect, "mcp").json()
    assert json.dumps(back) == json.dumps({"content": content, **flag})


@cases
@both_ways
def test_what_is_written_for_mcp_is_what_its_own_library_reads(case: Case, dialect: str) -> None:
    types = pytest.importorskip("mcp_types")
    written = translate_result(case.dialects[dialect], dialect, "mcp").json()
    read = types.CallToolResult.model_validate(written)
    assert len(read.content) == len(written["content"])
