from __future__ import annotations

from toolglot.capabilities import change_capabilities
from toolglot.ir import Cache, Media, Message, Request, Source, Text, ToolResult, replace
from toolglot.passes import media

from .targets import ANTHROPIC, CHAT, GEMINI, answered, asked, calls, lines, result, said, to, user
from .test_history import shape

PNG = Media(kind="image", source=Source("base64", "QUFBQQ==", "image/png"))


def holding(*blocks: Media, call_id: str = "a") -> ToolResult:
    return ToolResult(call_id=call_id, name="look", content=(Text(text="see"), *blocks))


def test_an_image_in_a_result_moves_behind_the_whole_batch() -> None:
    context = to(CHAT, source="anthropic")
    history = (user(), calls("a", "b"), answered(holding(PNG, PNG)), answered(result("b")), said("ok"))
    request = media.fit(asked(*history), context)
    assert shape(*request.messages[2:]) == [
        ["tool", "result a"],
        ["tool", "result b"],
        ["user", "Text", "Media", "Text", "Media"],
        ["assistant", "Text"],
    ]
    first = request.messages[2].content[0]
    assert isinstance(first, ToolResult)
    assert first.content[1:] == (
        Text(text="[image 1 of this result follows in the next user message]"),
        Text(text="[image 2 of this result follows in the next user message]"),
    )
    assert request.messages[4].content[:2] == (Text(text="[image 1 of the result of look a:]"), PNG)
    assert lines(context) == ["note messages[2].content[0].content[1]", "note messages[2].content[0].content[2]"]


def test_an_image_in_a_result_of_a_user_message_stands_before_its_text() -> None:
    mixed = Message(role="user", content=(holding(PNG), Text(text="So?")))
    request = media.fit(asked(user(), calls("a"), mixed), to(CHAT, source="anthropic"))
    assert shape(request.messages[2]) == [["user", "result a", "Text", "Media", "Text"]]


def test_an_image_stays_in_a_result_where_the_target_takes_it() -> None:
    request = asked(user(), calls("a"), answered(holding(PNG)))
    assert media.fit(request, to(ANTHROPIC)) is request


def one(block: Media) -> Request:
    return asked(Message(role="user", content=(block,)))


def test_what_the_target_takes_nowhere_leaves_a_marker_and_never_its_data() -> None:
    audio = Media(kind="audio", source=Source("base64", "QUFBQQ==", "audio/wav"), cache=Cache(300))
    context = to(ANTHROPIC)
    (block,) = media.fit(one(audio), context).messages[0].content
    assert block == Text(text="[audio left out: it cannot be shown here]", cache=Cache(300))
    assert lines(context) == ["loss messages[0].content[0]"]


def test_audio_in_a_result_leaves_a_marker_where_users_cannot_send_it_either() -> None:
    audio = Media(kind="audio", source=Source("base64", "QUFBQQ==", "audio/wav"))
    request = media.fit(asked(user(), calls("a"), answered(holding(audio))), to(ANTHROPIC))
    assert "QUFB" not in repr(request)


def test_a_file_id_is_known_to_its_own_api_alone() -> None:
    file = Media(kind="document", source=Source("file", "file-1"))
    context = to(ANTHROPIC, source="openai_chat")
    (block,) = media.fit(one(file), context).messages[0].content
    assert isinstance(block, Text)
    assert lines(context) == ["loss messages[0].content[0]"]
    assert media.fit(one(file), to(ANTHROPIC, source="anthropic")) == one(file)


def test_a_plain_text_document_is_text_where_there_is_no_such_source() -> None:
    document = Media(kind="document", source=Source("text", "Once upon a time", "text/plain"), name="tale.txt")
    assert media.fit(one(document), to(CHAT)).messages[0].content == (Text(text="tale.txt:\nOnce upon a time"),)
    assert media.fit(one(document), to(ANTHROPIC)) == one(document)


def test_an_image_type_that_the_target_does_not_know_is_a_loss() -> None:
    tiff = replace(PNG, source=Source("base64", "QUFBQQ==", "image/tiff"))
    context = to(ANTHROPIC)
    assert "QUFB" not in repr(media.fit(one(tiff), context))
    assert lines(context) == ["loss messages[0].content[0]"]


def test_media_of_an_assistant_stays_only_where_the_target_takes_it() -> None:
    request = asked(user(), Message(role="assistant", content=(PNG,)))
    assert media.fit(request, to(GEMINI)) is request
    assert shape(media.fit(request, to(CHAT)).messages[1]) == [["assistant", "Text"]]


def document(source: Source) -> Message:
    return Message(role="user", content=(Media(kind="document", source=source, name="a"),))


def test_a_document_that_the_target_does_not_take_that_way_leaves_a_marker() -> None:
    by_url = document(Source("url", "https://x.test/a.pdf"))
    can = change_capabilities(CHAT, media_sources={"document": frozenset({"base64", "file"})})
    context = to(can, source="anthropic", target="openai_chat")
    fitted = media.fit(asked(by_url), context).messages[0].content
    assert fitted == (Text(text="[document a left out: the target does not take documents by url]"),)
    assert lines(context) == ["loss messages[0].content[0]"]
    image = Message(role="user", content=(Media(kind="image", source=Source("url", "https://x.test/a.png")),))
    assert media.fit(asked(image), context) == asked(image)


def test_a_document_of_a_type_that_the_target_does_not_take_leaves_a_marker() -> None:
    can = change_capabilities(ANTHROPIC, document_types=frozenset({"application/pdf", "text/*"}))
    for media_type, stays in (("application/pdf", True), ("text/csv", True), ("application/zip", False), (None, True)):
        context = to(can, source="gemini", target="anthropic")
        request = asked(document(Source("base64", "QUFBQQ==", media_type)))
        assert (media.fit(request, context) is request) is stays
        assert bool(context.receipt.losses) is not stays
