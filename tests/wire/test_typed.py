"""Typed reading: one decode for what the types know, and nothing lost of what they do not."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw, UnsetType
from tests.laws.mutations import spoilt

from toolglot.errors import DecodeError
from toolglot.wire import incremental_json, json
from toolglot.wire.structs import (
    OR_UNKNOWN,
    OTHER_TAG,
    UNLESS_EMPTY,
    UNLESS_INEXACT,
    UNLESS_OTHER_TYPE,
    UNLESS_UNKNOWN,
    UNTAGGED,
    Rest,
    Unknown,
    Wire,
    as_json,
    count_members,
    members_without,
)
from toolglot.wire.typed import TypedReader, UnsoundError, ValueReader, part_reader, sound_text


class Mark(Wire):
    type: Literal["ephemeral"]
    ttl: str | UnsetType = UNSET


class Plain(Wire, tag="text", tag_field="type"):
    text: str
    mark: Annotated[Mark, UNLESS_INEXACT] | UnsetType = UNSET


class Call(Wire, tag="call", tag_field="type"):
    implied_by = "arguments"

    name: str
    arguments: Raw | UnsetType = UNSET


class Turn(Wire):
    role: str
    content: str | list[Plain | Call | Unknown] | UnsetType = UNSET


class Choice(Wire):
    type: Literal["auto", "none"]
    alone: bool | UnsetType = UNSET


class Body(Wire):
    messages: list[Turn]
    limit: int | UnsetType = UNSET
    heat: float | UnsetType = UNSET
    choice: Annotated[Choice, UNLESS_OTHER_TYPE] | UnsetType = UNSET
    anything: Any = UNSET


READER = TypedReader(Body, "messages")


class Address(Wire, kw_only=True):
    url: str
    title: str | UnsetType | None = UNSET


class Image(Wire, tag="image", tag_field="type", kw_only=True):
    implied_by = "image"
    blank_tag_is_missing = True

    image: Annotated[str | Address, OR_UNKNOWN]
    refusal: Annotated[str, UNLESS_EMPTY] | UnsetType | None = UNSET


class Sound(Wire, tag="sound", tag_field="type", kw_only=True):
    implied_by = "sound"

    sound: str


class Person(Wire, tag="user", tag_field="role"):
    content: list[Image | Sound | Unknown] | UnsetType | None = UNSET
    heat: int | float | UnsetType | None = UNSET


class Anyone(Wire, tag=OTHER_TAG, tag_field="role"):
    content: str | UnsetType = UNSET


class Talk(Wire, kw_only=True):
    messages: list[Person | Anyone]


TALKS = TypedReader(Talk, "messages")


def read_message(message: Any) -> Any:
    return TALKS.read(json.encode({"messages": [message]})).messages[0]


def read_part(part: Any) -> Any:
    return read_message({"role": "user", "content": [part]}).content[0]


WHOLE: dict[str, Any] = {
    "messages": [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": [{"type": "text", "text": "Hi"}, {"type": "call", "name": "a"}]},
        {"role": "user", "content": [{"type": "call", "name": "b", "arguments": {"x": 1}}]},
    ],
    "limit": 7,
    "heat": 0.5,
    "choice": {"type": "auto", "alone": True},
}


def read(document: Any) -> Body:
    return READER.read(document if isinstance(document, bytes) else json.encode(document))


def blocks(body: Body) -> list[Plain | Call | Unknown]:
    """The content of the first message."""
    content = body.messages[0].content
    assert isinstance(content, list)
    return content


def rebuilt(value: Any) -> Any:
    """What was read, as the document that it came from."""
    if isinstance(value, Unknown):
        return value.verbatim.value
    if isinstance(value, Wire):
        tag = value.__struct_config__.tag
        members = {name: getattr(value, name) for name in value.__struct_fields__ if name != "rest"}
        known = {name: rebuilt(member) for name, member in members.items() if member is not UNSET}
        rest = {} if value.rest is UNSET else value.rest
        return {**({"type": tag} if tag is not None else {}), **known, **rest}
    if isinstance(value, Raw):
        return json.decode(bytes(value))
    return [rebuilt(one) for one in value] if isinstance(value, list) else value


def test_what_the_types_know_is_read_as_them() -> None:
    body = read(WHOLE)
    assert rebuilt(body) == WHOLE
    assert body.rest is UNSET


def test_an_unknown_member_keeps_its_place_and_its_spelling() -> None:
    data = (
        b'{"messages":[{"role":"u","new":1,"content":[{"type":"call","name":"a","arguments":{"x": 1.0e0}}]}],"$n":[]}'
    )
    body = read(data)
    assert body.rest == {"$n": []}
    assert body.messages[0].rest == {"new": 1}
    assert blocks(body) == [Call(name="a", arguments=Raw(b'{"x": 1.0e0}'))]


def test_a_null_is_kept_where_the_type_has_none() -> None:
    body = read({"messages": [{"role": "u", "content": None}], "limit": None, "anything": None})
    assert body.rest == {"limit": None}
    assert body.messages[0].rest == {"content": None}
    assert body.anything is None


def test_an_object_of_no_known_type_is_kept_with_its_path() -> None:
    body = read({"messages": [{"role": "u", "content": [{"type": "novel", "a": 1}, {"b": 2}]}]})
    novel, untyped = blocks(body)
    assert isinstance(novel, Unknown)
    assert (novel.verbatim.value, novel.verbatim.where) == ({"type": "novel", "a": 1}, "$.messages[0].content[0]")
    assert isinstance(untyped, Unknown)
    assert untyped.verbatim.value == {"b": 2}


def test_a_member_can_imply_a_missing_type() -> None:
    body = read({"messages": [{"role": "u", "content": [{"name": "a", "arguments": {}}]}]})
    assert isinstance(blocks(body)[0], Call)


def test_an_object_of_a_known_type_that_lacks_a_member_says_which() -> None:
    (call,) = blocks(read({"messages": [{"role": "u", "content": [{"type": "call", "arguments": {}}]}]}))
    assert isinstance(call, Unknown)
    assert call.verbatim.missing is not None
    assert call.verbatim.missing.where == "$.messages[0].content[0].name"


class Said(Wire, tag="said", tag_field="type"):
    implied_by = "role"

    role: str
    more: Raw | UnsetType = UNSET


class Done(Wire, tag="done", tag_field="type"):
    result: str | UnsetType = UNSET


class Log(Wire):
    items: list[Said | Done | Unknown]
    more: Raw | UnsetType = UNSET


LOG = TypedReader(Log, "items")


@pytest.mark.parametrize("spelling", [b'{"items":[%s],"more":[1]}', b'{ "more" : [1], "items" : [ %s ] }'])
def test_missing_tags_are_written_into_an_otherwise_ordinary_document(spelling: bytes) -> None:
    log = LOG.read(spelling % b'{"role":"a","more":{"x": 1.0}},{"type":"done"},{"type":"said","role":"b"}')
    assert log == Log(
        items=[Said(role="a", more=Raw(b'{"x": 1.0}'), rest=UNTAGGED), Done(), Said(role="b")], more=Raw(b"[1]")
    )
    assert log.items[0].rest is UNTAGGED
    assert as_json(log.items[0]) == {"role": "a", "more": {"x": 1.0}}


@pytest.mark.parametrize(
    "items",
    [b'{"role":"a","role":"b"}', b'{"role":"a"},{"type":"done","result":"x","result":"x"}'],
)
def test_a_document_without_tags_has_no_key_twice(items: bytes) -> None:
    with pytest.raises(DecodeError, match=r"\.(role|result)"):
        LOG.read(b'{"items":[%s]}' % items)


def test_a_document_without_tags_may_have_odd_members() -> None:
    log = LOG.read(b'{"items":[{"role":"a","new":1},{"role":"b"},{"other":2},{"type":null,"role":"c"}],"n":1}')
    first, second, third, fourth = log.items
    assert isinstance(first, Said)
    assert isinstance(first.rest, Rest)
    assert (first.rest, first.rest.is_implied, first.rest.order) == ({"new": 1}, True, ("role", "new"))
    assert second == Said(role="b", rest=UNTAGGED)
    assert isinstance(third, Unknown)
    assert isinstance(fourth, Unknown)
    assert log.rest == {"n": 1}


def test_an_object_of_another_type_or_form_can_stay_in_the_rest() -> None:
    body = read({"messages": [{"role": "u", "content": [{"type": "text", "text": "", "mark": {"ttl": 1}}]}]})
    assert blocks(body)[0].rest == {"mark": {"ttl": 1}}
    assert read({"messages": [], "choice": {"type": "tool"}}).rest == {"choice": {"type": "tool"}}


def test_a_whole_number_may_be_written_as_a_decimal() -> None:
    assert read(b'{"messages":[],"limit":1024.0,"heat":1}') == Body(messages=[], limit=1024, heat=1)


def test_one_type_can_read_objects_of_all_other_tags() -> None:
    message = read_message({"role": "critic", "content": "no", "new": 1})
    assert isinstance(message, Anyone)
    assert message.rest == {"role": "critic", "new": 1}
    assert as_json(message) == {"role": "critic", "content": "no", "new": 1}


@pytest.mark.parametrize(
    ("message", "what"),
    [
        ({}, "this string is required"),
        ({"role": None}, "this string is required"),
        ({"role": 1}, "expected a string, got a whole number"),
    ],
)
def test_a_tag_that_may_be_anything_must_be_there(message: Any, what: str) -> None:
    with pytest.raises(DecodeError) as refused:
        read_message(message)
    assert (refused.value.where, refused.value.what) == ("$.messages[0].role", what)


def test_an_object_that_lacks_its_tag_says_so() -> None:
    part = read_part({"image": "a"})
    assert part.rest.is_implied
    assert as_json(part) == {"image": "a"}
    assert as_json(read_part({"type": "image", "image": "a"})) == {"type": "image", "image": "a"}


@pytest.mark.parametrize("tag", [None, ""])
def test_a_blank_tag_counts_as_missing_where_the_type_says_so(tag: str | None) -> None:
    part = read_part({"type": tag, "image": "a"})
    assert isinstance(part, Image)
    assert part.rest == {"type": tag}
    assert isinstance(read_part({"type": tag, "sound": "a"}), Unknown)


def test_two_members_that_imply_different_types_imply_none() -> None:
    assert isinstance(read_part({"image": "a", "sound": "b"}), Unknown)
    assert isinstance(read_part({"image": "a", "sound": None}), Image)


def test_a_main_member_of_another_type_makes_the_object_unknown_and_a_wrong_one_inside_is_refused() -> None:
    assert isinstance(read_part({"type": "image", "image": 5}), Unknown)
    assert isinstance(read_part({"type": "image"}), Unknown)
    with pytest.raises(DecodeError) as refused:
        read_part({"type": "image", "image": {"title": "t"}})
    assert str(refused.value).startswith("$.messages[0].content[0].image.url: this string is required")


@pytest.mark.parametrize("empty", [0, False, [], {}])
def test_a_false_value_of_another_type_can_stay_in_the_rest(empty: Any) -> None:
    assert read_part({"type": "image", "image": "a", "refusal": empty}).rest == {"refusal": empty}
    with pytest.raises(DecodeError):
        read_part({"type": "image", "image": "a", "refusal": 1})


def test_members_are_given_back_in_the_order_of_the_document() -> None:
    part = read_part({"new": 1, "refusal": None, "type": "image", "x": 2, "image": {"title": None, "url": "u"}})
    assert list(members_without(part, "image")) == ["new", "refusal", "x"]
    assert members_without(part, "new", "x")["image"] == {"url": "u", "title": None}
    assert count_members(part) == 3


def test_the_words_for_a_wrong_type_leave_out_null_and_say_number_once() -> None:
    with pytest.raises(DecodeError, match="expected a number, got a string"):
        read_message({"role": "user", "heat": "x"})


def test_untyped_json_can_be_read_as_a_type() -> None:
    links = ValueReader(Link)
    assert links.read_value({"url": "u", "new": 1}, "$.a") == Link(url="u", rest=Rest({"new": 1}))
    with pytest.raises(DecodeError) as refused:
        links.read_value({}, "$.a")
    assert refused.value.where == "$.a.url"


WRONG: dict[str, tuple[Any, str, str]] = {
    "an array": ([], "$", "expected an object, got an array"),
    "no messages": ({}, "$.messages", "this array is required"),
    "messages that are none": ({"messages": {}}, "$.messages", "expected an array, got an object"),
    "a message that is none": ({"messages": [1]}, "$.messages[0]", "expected an object, got a whole number"),
    "a message without role": ({"messages": [{}]}, "$.messages[0].role", "this string is required"),
    "content that is none": (
        {"messages": [{"role": "u", "content": 5}]},
        "$.messages[0].content",
        "expected a string or an array, got a whole number",
    ),
    "a limit that is text": ({"messages": [], "limit": "x"}, "$.limit", "expected a whole number, got a string"),
    "a flag that is text": (
        {"messages": [], "choice": {"type": "auto", "alone": "x"}},
        "$.choice.alone",
        "expected a boolean, got a string",
    ),
    "a text that is a number": (
        {"messages": [{"role": "u", "content": [{"type": "text", "text": 1}]}]},
        "$.messages[0].content[0].text",
        "expected a string, got a whole number",
    ),
    "a key twice": (b'{"messages":[],"limit":1,"limit":2}', "$.limit", "this key is repeated in its object"),
    "a number out of range": (b'{"messages":[],"heat":1e400}', "$.heat", "a number that is out of range"),
    "invalid text": (b'{"messages":[],"a":"\xff"}', "$.a", "invalid UTF-8 at byte 20"),
    "no JSON": (b'{"messages":[', "$.messages[0]", "Input data was truncated (byte 13)"),
}


@pytest.mark.parametrize(("document", "where", "what"), WRONG.values(), ids=WRONG)
def test_a_wrong_document_is_refused_with_the_path(document: Any, where: str, what: str) -> None:
    with pytest.raises(DecodeError) as refused:
        read(document)
    assert (refused.value.where, refused.value.what) == (where, what)


@pytest.mark.parametrize(("document", "where", "what"), WRONG.values(), ids=WRONG)
def test_a_wrong_document_is_refused_with_the_same_words_in_slices(
    document: Any, where: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incremental_json, "LARGE", -1)
    test_a_wrong_document_is_refused_with_the_path(document, where, what)


def test_a_document_nested_too_deeply_is_refused() -> None:
    with pytest.raises(DecodeError, match="nested too deeply"):
        read(b'{"messages":[],"anything":' + b"[" * 100_000 + b"]" * 100_000 + b"}")


@pytest.mark.parametrize("odd", [{}, {"new": 1}], ids=["known", "odd"])
def test_a_large_document_is_read_as_a_small_one_is(odd: dict[str, Any]) -> None:
    turns = [{"role": "user", "content": "x"}] * 20_000 + [{"role": "user", "content": "y" * 5_000_000, **odd}]
    body = read({"limit": 1, "messages": turns, "anything": [1]})
    assert len(body.messages) == len(turns)
    assert rebuilt(body.messages[-1]) == turns[-1]
    assert (body.limit, body.anything) == (1, [1])


def test_an_error_in_a_large_document_has_its_path() -> None:
    turns: list[Any] = [{"role": "user", "content": "x"}] * 20_000
    with pytest.raises(DecodeError) as refused:
        read({"messages": [*turns, {"role": 1}]})
    assert refused.value.where == "$.messages[20000].role"


@given(document=spoilt(WHOLE))
def test_a_decoded_document_has_everything_of_the_original(document: Any) -> None:
    try:
        body = read(document)
    except DecodeError:
        return
    assert rebuilt(body) == document


@pytest.mark.parametrize("raw", [b'{"a":1,"a":2}', b'"\xff"', b'{"a":1e400}', b'"\\ud800"'])
def test_unsound_raw_text_is_reported(raw: bytes) -> None:
    with pytest.raises(UnsoundError):
        sound_text(Raw(raw))


@given(text=st.text())
def test_sound_raw_text_is_its_spelling(text: str) -> None:
    raw = json.encode({"a": text})
    assert sound_text(Raw(raw)) == raw.decode()


class Link(Wire, tag="link", tag_field="type"):
    url: str


class Picture(Wire, tag="picture", tag_field="type"):
    source: Annotated[Link | Plain, UNLESS_UNKNOWN]
    name: Annotated[str, OR_UNKNOWN] = ""


class Album(Wire):
    pictures: list[Picture | Unknown]
    names: Annotated[list[str], UNLESS_EMPTY] | UnsetType = UNSET
    cover: Annotated[Link | Plain, UNLESS_OTHER_TYPE] | UnsetType = UNSET


read_album = part_reader(Album)


def test_a_part_is_read_with_its_path() -> None:
    with pytest.raises(DecodeError) as refused:
        read_album(b'{"pictures":[{"type":"picture","source":{"type":"link"}}]}', "$.albums[3]")
    assert refused.value.where == "$.albums[3].pictures[0].source.url"
    with pytest.raises(DecodeError) as refused:
        read_album(b"{}", "$.albums[3]")
    assert refused.value.where == "$.albums[3].pictures"


@pytest.mark.parametrize("source", [5, {"type": "novel"}, {}])
def test_an_object_whose_required_member_is_not_known_is_unknown(source: Any) -> None:
    picture = {"type": "picture", "name": "a", "source": source}
    (read_picture,) = read_album(json.encode({"pictures": [picture]}), "$").pictures
    assert as_json(read_picture) == picture
    assert isinstance(read_picture, Unknown)


def test_a_missing_member_is_reported_before_a_wrong_one() -> None:
    (picture,) = read_album(b'{"pictures":[{"type":"picture","name":5}]}', "$").pictures
    assert isinstance(picture, Unknown)


@pytest.mark.parametrize("cover", [5, {"type": "novel"}, {"type": "link"}])
def test_an_object_of_another_type_or_without_a_member_stays_in_the_rest(cover: Any) -> None:
    assert read_album(json.encode({"pictures": [], "cover": cover}), "$").rest == {"cover": cover}


@pytest.mark.parametrize("names", ["", {}])
def test_an_empty_value_of_another_type_can_stay_in_the_rest(names: Any) -> None:
    assert read_album(json.encode({"pictures": [], "names": names}), "$").rest == {"names": names}


def test_members_have_the_order_of_the_document_where_something_is_unknown() -> None:
    album = read_album(b'{"new":1,"pictures":[],"names":["a"],"newer":2}', "$")
    assert list(members_without(album, "pictures").items()) == [("new", 1), ("names", ["a"]), ("newer", 2)]


# Names in other spellings


class Spelled(Wire):
    first_name: str | UnsetType = UNSET
    inner: Spelled | UnsetType = UNSET

    @classmethod
    def resolve_name(cls, name: str, where: str) -> str:
        if name.startswith("$"):
            raise DecodeError(f"{where}.{name}", "no such member")
        return "first_name" if name == "firstName" else name

    @classmethod
    def resolve_rest(cls, name: str, value: Any, where: str) -> Any:
        return f"{where} {value}"


class Document(Wire):
    items: list[Spelled]


SPELLED = TypedReader(Document, "items")


def test_a_type_may_know_other_spellings_of_its_members_and_look_at_its_rest() -> None:
    body = SPELLED.read(b'{"items":[{"inner":{"firstName":"a"},"new":1}]}')
    assert body.items == [Spelled(inner=Spelled(first_name="a"), rest=Rest({"new": "$.items[0].new 1"}))]


@pytest.mark.parametrize(
    ("document", "where"),
    [
        (b'{"items":[{"firstName":"a","first_name":"b"}]}', "$.items[0].first_name"),
        (b'{"items":[{"inner":{"$x":1}}]}', "$.items[0].inner.$x"),
    ],
)
def test_a_name_that_cannot_be_is_refused_with_its_place(document: bytes, where: str) -> None:
    with pytest.raises(DecodeError) as caught:
        SPELLED.read(document)
    assert caught.value.where == where


# Back to untyped JSON


def test_what_was_read_becomes_untyped_json_again() -> None:
    strange = {"role": "user", "content": [{"type": "strange"}], "new": 1}
    document = {**WHOLE, "messages": [*WHOLE["messages"], strange], "new": [1], "limit": None}
    assert as_json(read(document)) == document


def test_members_that_were_taken_are_left_out() -> None:
    body = read({**WHOLE, "new": 1})
    assert members_without(body, "messages", "choice") == {"limit": 7, "heat": 0.5, "new": 1}


# Frames of streams


def test_of_repeated_keys_of_a_frame_the_last_one_counts() -> None:
    frame = b'{"messages":[],"limit":1,"limit":2}'
    assert READER.read_frame(frame).limit == 2
    assert READER.read_frame(frame[:-1] + b',"new":3}') == Body(messages=[], limit=2, rest=Rest({"new": 3}))
    with pytest.raises(DecodeError, match="repeated"):
        READER.read(frame)


@pytest.mark.parametrize(("frame", "where"), [(b'{"messages"', "$"), (b'{"messages":7}', "$.messages")])
def test_a_frame_that_is_none_is_refused_with_its_place(frame: bytes, where: str) -> None:
    with pytest.raises(DecodeError) as caught:
        READER.read_frame(frame)
    assert caught.value.where == where


def test_a_number_is_called_a_number() -> None:
    class Warmth(Wire):
        heat: int | float | UnsetType = UNSET
        items: list[Any] | UnsetType = UNSET

    with pytest.raises(DecodeError, match="expected a number, got a string"):
        TypedReader(Warmth, "items").read(b'{"heat":"x"}')
