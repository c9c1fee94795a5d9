"""Media types and data URLs in every spelling that clients use. Anthropic's API takes registered types only, and
refuses an image whose data shows another type than its declaration (claude-code #35234, mealie #5897)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from toolglot.fragments import translate_result
from toolglot.translate import ExchangeCore

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 20).decode()
JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + b"\0" * 20).decode()
WEBP = base64.b64encode(b"RIFF\x24\0\0\0WEBPVP8 ").decode()
PDF = base64.b64encode(b"%PDF-1.7\n").decode()
HELLO = base64.b64encode(b"hello").decode()


def chat_image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def chat_file(data: str, name: str | None = None) -> dict[str, Any]:
    return {"type": "file", "file": {"file_data": data, **({"filename": name} if name else {})}}


def send(client: str, upstream: str, part: dict[str, Any]) -> tuple[Any, list[str]]:
    """The first block that the upstream gets, and the lines of the receipt."""
    bodies: dict[str, dict[str, Any]] = {
        "openai_chat": {"model": "m", "messages": [{"role": "user", "content": [part]}]},
        "openai_responses": {"model": "m", "input": [{"role": "user", "content": [part]}]},
        "anthropic": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [part]}]},
        "gemini": {"contents": [{"role": "user", "parts": [part]}]},
        "ollama": {"model": "m", "messages": [{"role": "user", "content": "", **part}]},
    }
    exchange = ExchangeCore(client, upstream, model="gpt-4o" if upstream.startswith("openai") else "m", verbatim=False)
    body = json.loads(exchange.request(bodies[client]))
    match upstream:
        case "gemini":
            block = body["contents"][0]["parts"][0]
        case "openai_responses":
            block = body["input"][0]["content"][0]
        case "ollama":
            block = body["messages"][0].get("images")
        case _:
            content = body["messages"][0]["content"]
            block = content if isinstance(content, str) else content[0]
    return block, [f"{line.severity} {line.where}" for line in exchange.receipt if line.where != "max_output_tokens"]


IMAGES = [
    (f"data:image/png;name=a.png;base64,{PNG}", "image/png", PNG),
    (f"DATA:image/png;BASE64,{PNG}", "image/png", PNG),
    (f"data:;base64,{PNG}", "image/png", PNG),
    (f"data:image/png;base64,{PNG.replace('=', '%3D').replace('+', '%2B')}", "image/png", PNG),
    (f"data:image/jpg;base64,{JPEG}", "image/jpeg", JPEG),
    (f"data:image/JPEG;base64,{JPEG}", "image/jpeg", JPEG),
    (f"data:image/pjpeg;base64,{JPEG}", "image/jpeg", JPEG),
    (f"data:IMAGE/PNG;base64,{PNG}", "image/png", PNG),
    (f"data:image/x-png;base64,{PNG}", "image/png", PNG),
    (f"data:image/png;base64,{JPEG}", "image/jpeg", JPEG),
    (f"data:image/jpeg;base64,{WEBP}", "image/webp", WEBP),
    (f"data:image/jpg;base64,{HELLO}", "image/jpeg", HELLO),
]


@pytest.mark.parametrize(("url", "media_type", "data"), IMAGES)
def test_an_image_arrives_under_the_registered_type_of_its_data(url: str, media_type: str, data: str) -> None:
    source = {"type": "base64", "media_type": media_type, "data": data}
    for client, part in (
        ("openai_chat", chat_image(url)),
        ("openai_responses", {"type": "input_image", "image_url": url}),
    ):
        block, _ = send(client, "anthropic", part)
        assert block == {"type": "image", "source": source}
        block, _ = send(client, "gemini", part)
        assert block == {"inlineData": {"mimeType": media_type, "data": data}}
    block, _ = send("openai_chat", "openai_responses", chat_image(url))
    assert block["image_url"] == f"data:{media_type};base64,{data}"
    block, _ = send("openai_chat", "ollama", chat_image(url))
    assert block == [data]


def test_the_receipt_says_which_type_is_sent_instead() -> None:
    block, lines = send("openai_chat", "anthropic", chat_image(f"data:image/png;base64,{JPEG}"))
    assert block["source"]["media_type"] == "image/jpeg"
    assert lines == ["note messages[0].content[0].media_type"]
    assert send("openai_chat", "anthropic", chat_image(f"data:image/png;base64,{PNG}"))[1] == []


FILES = [
    ("data:text/plain;charset=utf-8;base64,aGVsbG8=", "a.txt", "text/plain", HELLO),
    ("data:text/plain,hello", "a.txt", "text/plain", HELLO),
    ("data:,hel%6Co", None, "text/plain", HELLO),
    ("data:;charset=utf-8;base64,aGVsbG8=", None, "text/plain", HELLO),
    ("data:;base64,aGVsbG8=", "a.txt", "text/plain", HELLO),
    ("data:text/plain;charset=iso-8859-1;base64,aOk=", "a.txt", "text/plain", "aMOp"),
    (f"data:application/PDF;base64,{PDF}", "a.pdf", "application/pdf", PDF),
    (f"data:application/octet-stream;base64,{PDF}", "a.pdf", "application/pdf", PDF),
    (PDF, "a", "application/pdf", PDF),
    ("QUFBQQ==", "a.pdf", "application/pdf", "QUFBQQ=="),
]


@pytest.mark.parametrize(("url", "name", "media_type", "data"), FILES)
def test_a_file_arrives_under_the_type_of_its_data_or_its_name(
    url: str, name: str | None, media_type: str, data: str
) -> None:
    responses = {"type": "input_file", "file_data": url, **({"filename": name} if name else {})}
    source = {"type": "base64", "media_type": media_type, "data": data}
    if media_type == "text/plain":
        source = {"type": "text", "media_type": media_type, "data": base64.b64decode(data).decode()}
    for client, part in (("openai_chat", chat_file(url, name)), ("openai_responses", responses)):
        block, _ = send(client, "anthropic", part)
        assert block == {"type": "document", "source": source, **({"title": name} if name else {})}
        block, _ = send(client, "gemini", part)
        named = {"displayName": name} if name else {}
        assert block == {"inlineData": {"mimeType": media_type, "data": data, **named}}


def test_a_file_of_unknown_type_is_sent_with_an_assumed_one_that_the_receipt_names() -> None:
    block, lines = send("openai_chat", "gemini", chat_file("QUFBQQ=="))
    assert block == {"inlineData": {"mimeType": "application/pdf", "data": "QUFBQQ=="}}
    assert lines == ["note messages[0].content[0].source"]


SPELLINGS = [
    *(url for url, _, _ in IMAGES),
    *(url for url, _, _, _ in FILES if url.startswith("data:")),
    "data:text/plain",
    "DATA:,",
    "https://x.test/a.pdf",
]


@pytest.mark.parametrize("url", SPELLINGS)
def test_a_url_goes_back_to_its_own_dialect_as_it_came(url: str) -> None:
    rows: list[tuple[str, dict[str, Any]]] = [
        ("openai_chat", chat_image(url)),
        ("openai_chat", chat_file(url, "a.txt")),
        ("openai_responses", {"type": "input_image", "image_url": url, "detail": "auto"}),
        ("openai_responses", {"type": "input_file", "filename": "a.txt", "file_data": url}),
        ("openai_responses", {"type": "input_file", "filename": "a.txt", "file_url": url}),
        ("ollama", {"images": [url]}),
    ]
    for dialect, part in rows:
        block, lines = send(dialect, dialect, part)
        assert block == (part if dialect != "ollama" else part["images"])
        assert lines == []


def test_a_data_url_in_the_place_of_a_web_address_is_data() -> None:
    url = f"data:image/png;base64,{PNG}"
    anthropic = {"type": "image", "source": {"type": "url", "url": url}}
    gemini = {"fileData": {"fileUri": url, "mimeType": "image/png"}}
    assert send("anthropic", "gemini", anthropic)[0] == {"inlineData": {"mimeType": "image/png", "data": PNG}}
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    assert send("gemini", "anthropic", gemini)[0] == {"type": "image", "source": source}


@pytest.mark.parametrize(
    ("media_type", "name"),
    [
        ("text/plain; charset=utf-8", "document.txt"),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "document.docx"),
        ("text/x-python", "document.py"),
        ("application/x-python", "document.py"),
        ("application/json", "document.json"),
        ("text/csv", "document.csv"),
        ("application/x-zip", "document.zip"),
        ("text/vnd.a.b", "document.txt"),
        ("application/vnd.a.b", "document.bin"),
    ],
)
def test_a_file_without_a_name_gets_one_with_the_usual_extension(media_type: str, name: str) -> None:
    part = {"inlineData": {"mimeType": media_type, "data": HELLO}}
    plain = media_type.partition(";")[0]
    block, _ = send("gemini", "openai_chat", part)
    assert block["file"] == {"file_data": f"data:{plain};base64,{HELLO}", "filename": name}
    block, _ = send("gemini", "openai_responses", part)
    assert block["filename"] == name


@pytest.mark.parametrize("media_type", ["IMAGE/PNG", "image/x-png", "image/jpg", "Image/Png; a=b"])
def test_an_image_of_gemini_is_an_image_in_every_spelling_of_its_type(media_type: str) -> None:
    block, _ = send("gemini", "anthropic", {"inlineData": {"mimeType": media_type, "data": PNG}})
    assert block == {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


@pytest.mark.parametrize("url", ["http://x.test/a.png", "file:///a.png", "ftp://x.test/a.png", "/a.png"])
def test_a_url_that_the_target_does_not_open_is_reported(url: str) -> None:
    block, lines = send("openai_chat", "anthropic", chat_image(url))
    assert block.startswith("[image left out")
    assert lines == ["loss messages[0].content[0]"]


def test_a_file_id_of_one_openai_api_is_known_to_the_other() -> None:
    chat = {"type": "file", "file": {"file_id": "file-1"}}
    assert send("openai_chat", "openai_responses", chat) == ({"type": "input_file", "file_id": "file-1"}, [])
    responses = {"type": "input_file", "file_id": "file-1"}
    assert send("openai_responses", "openai_chat", responses) == (chat, [])
    image = {"type": "input_image", "file_id": "file-1", "detail": "auto"}
    block, lines = send("openai_responses", "openai_chat", image)
    assert block.startswith("[image left out")
    assert lines == ["loss messages[0].content[0]"]


MCP: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    (
        {"type": "image", "data": PNG, "mimeType": "image/jpg"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        True,
    ),
    (
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        False,
    ),
    (
        {"type": "resource", "resource": {"uri": "x://a", "mimeType": "IMAGE/PNG", "blob": PNG}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        True,
    ),
    (
        {"type": "resource", "resource": {"uri": "x://a.pdf", "blob": "QUFBQQ=="}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "QUFBQQ=="},
            "title": "x://a.pdf",
        },
        True,
    ),
    (
        {"type": "resource", "resource": {"uri": "x://a", "mimeType": "application/json", "text": "{}"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "{}"}, "title": "x://a"},
        True,
    ),
]


@pytest.mark.parametrize(("given", "expected", "is_noted"), MCP)
def test_media_of_an_mcp_server_arrives_under_its_registered_type(
    given: dict[str, Any], expected: dict[str, Any], is_noted: bool
) -> None:
    translated = translate_result({"content": [given]}, "mcp", "anthropic", call_id="a", name="f")
    (block,) = json.loads(translated.data)[0]["content"][0]["content"]
    assert block == expected
    assert any("type" in line.what for line in translated.receipt) is is_noted
