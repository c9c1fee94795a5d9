"""Results as a model is given them."""

from __future__ import annotations

from typing import Any

import pytest

from toolglot.agent import tool_results
from toolglot.agent.tool_results import make_result
from toolglot.ir import Media, Source, Text, ToolCall

CALL = ToolCall(id="c", name="s__tool", arguments="{}")


def picture() -> dict[str, Any]:
    return {"type": "image", "data": "aGk=", "mimeType": "image/png"}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def resource(words: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": "file:///a", "text": words, "mimeType": "text/plain"}}


def test_everything_that_a_result_can_hold_reaches_the_model() -> None:
    content = [text("a"), picture(), resource("b"), {"type": "later", "x": 1}]
    result = make_result({"content": content, "_meta": {"x": 1}}, CALL, 100)
    assert result.call_id == "c"
    assert result.name == "s__tool"
    assert result.content == (
        Text(text="a"),
        Media(kind="image", source=Source("base64", "aGk=", "image/png")),
        Media(kind="document", source=Source("text", "b", "text/plain"), name="file:///a"),
        Text(text='{"type":"later","x":1}'),
    )
    assert result.native == {}


def test_structured_content_alone_is_told_as_text() -> None:
    assert make_result({"content": [], "structuredContent": {"a": 1}}, CALL, 100).content == (Text(text='{"a":1}'),)


@pytest.mark.parametrize("value", [{"content": "x"}, {"content": [1]}, [], "x", None, {"content": [{"type": 1}]}])
def test_what_is_no_result_is_an_error_or_rides_along(value: Any) -> None:
    result = make_result(value, CALL, 100)
    assert result.is_error or result.content == (Text(text='{"type":1}'),)


def test_all_text_together_has_one_limit() -> None:
    result = make_result({"content": [text("a" * 60), resource("b" * 60), text("c")]}, CALL, 100)
    first, second, third = result.content
    assert first == Text(text="a" * 60)
    assert second == Text(text="b" * 40 + "\n[cut off: 40 of 60 bytes]")
    assert third == Text(text="\n[cut off: 0 of 1 bytes]")


def test_a_result_of_very_many_parts_is_not_told_part_by_part() -> None:
    result = make_result({"content": [text("x") for _ in range(100_000)]}, CALL, 10)
    assert len(result.content) == tool_results.MAX_BLOCKS + 1
    assert result.content[-1] == Text(text="[99800 more parts of the result left out: 200 are the most]")


def test_names_and_types_of_media_are_no_way_round_the_limits() -> None:
    long = {"type": "resource", "resource": {"uri": "u" * 9_000, "text": "b", "mimeType": "t" * 9_000}}
    (block,) = make_result({"content": [long]}, CALL, 100).content
    assert isinstance(block, Media)
    assert block.name == "u" * tool_results.MAX_NAME
    assert block.source.media_type is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "image", "data": "not base64!!", "mimeType": "image/png"},
        {"type": "image", "data": "aGk=", "mimeType": "text/html"},
        {"type": "audio", "data": "aGk=", "mimeType": "image/png"},
        {"type": "image", "data": "aGk=", "mimeType": "x" * 9_000},
    ],
)
def test_a_picture_that_is_none_is_not_passed_on(wrong: dict[str, Any]) -> None:
    kind = wrong["type"]
    (block,) = make_result({"content": [wrong]}, CALL, 100).content
    assert block == Text(text=f"[{kind} left out: its content does not match its type]")


def test_all_pictures_together_have_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_results, "MAX_MEDIA_BYTES", 10)
    kinds = [type(block) for block in make_result({"content": [picture() for _ in range(4)]}, CALL, 100).content]
    assert kinds == [Media, Media, Text, Text]


def test_a_picture_that_is_too_large_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_results, "MAX_MEDIA_BYTES", 3)
    result = make_result({"content": [picture()]}, CALL, 100)
    assert result.content == (Text(text="[image of 4 characters left out: it is too large]"),)


@pytest.mark.parametrize(
    ("declared", "data", "sent"),
    [
        ("IMAGE/PNG", "aGk=", "image/png"),
        ("image/jpg", "aGk=", "image/jpeg"),
        ("image/png", "/9j/4AAQSkZJRg==", "image/jpeg"),
        ("image/png; a=b", "aGk=", "image/png"),
    ],
)
def test_a_picture_has_the_registered_type_of_its_data(declared: str, data: str, sent: str) -> None:
    picture = {"type": "image", "data": data, "mimeType": declared}
    (block,) = make_result({"content": [picture]}, CALL, 100).content
    assert block == Media(kind="image", source=Source("base64", data, sent))
