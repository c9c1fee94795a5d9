"""Messages of Ollama <-> blocks of the IR. A message has one text, reasoning, images and calls, without an order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET, Raw, UnsetType

from toolglot.dialects.ollama.native import NAME
from toolglot.dialects.ollama.wire import OllamaCall
from toolglot.errors import DecodeError, expected
from toolglot.ir import Block, Media, Native, Refusal, Source, Text, Thinking, ToolCall, native_of, replace
from toolglot.receipt import Receipt, describe_block
from toolglot.wire import json
from toolglot.wire.bad_arguments import describe_bad_arguments, note_repeated_keys, show_bad_call
from toolglot.wire.data_url import read_url, write_url
from toolglot.wire.media_types import detect_media_type
from toolglot.wire.native import make_native, native_members
from toolglot.wire.structs import count_members, members_without
from toolglot.wire.text_separator import separator_between
from toolglot.wire.typed import UnsoundError, sound_text

_DATA_URL = "$data_url"
_OF_ANSWER = "$answer"
SEPARATOR_REASON = "Ollama has one text; a blank line marks where another block or message began"


def decode_images(images: Iterable[str] | UnsetType, *, of_answer: bool = False) -> tuple[Media, ...]:
    if images is UNSET:
        return ()
    decoded = tuple(map(_decode_image, images))
    if of_answer:
        return tuple(replace(each, native={NAME: {**native_of(each, NAME), _OF_ANSWER: True}}) for each in decoded)
    return decoded


def _decode_image(data: str) -> Media:
    """Decode an image. Some clients send a data URL, which Ollama's own server refuses."""
    source, spelled = read_url(data)
    if source.kind == "base64":
        return Media(kind="image", source=source, native={NAME: {_DATA_URL: spelled or True}})
    return Media(kind="image", source=Source("base64", data, detect_media_type(data)))


def decode_calls(calls: list[OllamaCall] | UnsetType, where: str, *, of_answer: bool) -> tuple[ToolCall, ...]:
    if calls is UNSET:
        return ()
    return tuple(decode_call(call, f"{where}[{n}]", of_answer=of_answer) for n, call in enumerate(calls))


def decode_call(call: OllamaCall, where: str, *, of_answer: bool) -> ToolCall:
    function = call.function
    arguments = "" if function.arguments is UNSET else _arguments_text(function.arguments, f"{where}.function")
    return ToolCall(
        id=call.id or "", name=function.name, arguments=arguments, native=_native_of_call(call, of_answer=of_answer)
    )


def decode_usual_call(call: OllamaCall) -> ToolCall | None:
    """Decode a call that has only an id, a name and an object of arguments. None for others."""
    function = call.function
    raw = function.arguments
    if not call.id or raw is UNSET or count_members(call) != 2 or count_members(function) != 2:
        return None
    try:
        text = sound_text(raw)
    except UnsoundError:
        return None
    return ToolCall(id=call.id, name=function.name, arguments=text) if text[0] == "{" else None


def _native_of_call(call: OllamaCall, *, of_answer: bool) -> Native:
    has_id = bool(call.id)
    inside = members_without(call.function, "name", "arguments")
    rest = members_without(call, "function", "id" if has_id else "")
    spelled = b"" if call.function.arguments is UNSET else bytes(call.function.arguments).strip()
    shape = {
        "no_id": None if has_id else True,
        "no_index": True if of_answer and "index" not in inside else None,
        "text": True if spelled.startswith(b'"') else None,
        "null": True if spelled == b"null" else None,
    }
    return make_native(NAME, {**rest, **({"function": inside} if inside else {})}, **shape)


def _arguments_text(raw: Raw, where: str) -> str:
    """Return the text of the arguments. Ollama's own server writes an object."""
    try:
        text = sound_text(raw)
    except UnsoundError:
        raise _explain_arguments(bytes(raw), f"{where}.arguments") from None
    if text == "null":  # Go servers and clients write it for no arguments
        return ""
    if text.startswith('"'):  # OpenAI's form, which clients of both APIs send
        return str(json.decode(text.encode()))
    if not text.startswith("{"):
        raise expected(f"{where}.arguments", "an object", json.decode(bytes(raw)))
    return text


def _explain_arguments(data: bytes, where: str) -> DecodeError:
    """Return the error in the arguments, with its path in the document."""
    try:
        json.decode(data)
    except DecodeError as error:
        return DecodeError(where + error.where.removeprefix("$"), error.what)
    return DecodeError(where, "the arguments cannot be read")


def encode_call(call: ToolCall, where: str, receipt: Receipt, *, index: int | None = None) -> dict[str, Any] | None:
    """Encode a call. Ollama requires an object as arguments. In a request, other arguments go into `_raw`, because a
    result may follow. In an answer, such a call must not run: the function returns None and adds a line to the receipt.

    `index`: the call's place among the calls of an answer; None in a request. Open WebUI treats calls with the same
    index as parts of one call, and calls without an index as the first call."""
    notes = native_of(call, NAME)
    of_request = index is None
    is_whole = call.complete or of_request
    arguments: Any = json.object_of(call.arguments, is_request=of_request) if is_whole else None
    if arguments is None and not notes.get("$text"):
        why = describe_bad_arguments(call.arguments)
        if not of_request:
            receipt.loss(where, f"call of {call.name}", f"{why}; it is shown as text")
            return None
        why = f"{why}; Ollama takes an object, so they are in `_raw` as text"
        receipt.loss(f"{where}.arguments", "arguments", why)
        arguments = {"_raw": call.arguments}
    note_repeated_keys(call.arguments, f"{where}.arguments", receipt)
    rest = native_members(notes)
    inside = rest.pop("function", {})
    identity = {} if notes.get("$no_id") or not call.id else {"id": call.id}
    spelled: Any = call.arguments if notes.get("$text") else arguments
    if notes.get("$null") and not call.arguments:
        spelled = None
    place = {} if of_request or notes.get("$no_index") else {"index": index}
    return {**identity, "function": {**place, "name": call.name, "arguments": spelled, **inside}, **rest}


def encode_usual_call(call: ToolCall) -> dict[str, Any] | None:
    """Encode a call from another API with an object of arguments. None for others."""
    if NAME in call.native or not call.complete or (arguments := json.plain_object(call.arguments)) is None:
        return None
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "function": function} if call.id else {"function": function}


def report_citations(count: int, where: str, receipt: Receipt) -> None:
    if count:
        receipt.loss(where, f"{count} citations", "Ollama has no place for them")


class OllamaMessageWriter:
    """Encodes the blocks of one message or answer as Ollama's members."""

    def __init__(self, receipt: Receipt, *, of_request: bool = False, calls_before: int = 0) -> None:
        """`of_request`: each text is separate, not a continuation of the one before. `calls_before`: the calls in
        earlier lines of a streamed answer."""
        self._receipt = receipt
        self._of_request = of_request
        self._calls_before = calls_before
        self._last_text = ""  # the latest text
        self._is_separate = False  # the next text is separate from the latest one
        self.texts: list[str] = []
        self.thoughts: list[str] = []
        self.images: list[str] = []
        self.calls: list[dict[str, Any]] = []

    def add(self, block: Block, where: str) -> None:
        self._is_separate = self._is_separate or self._of_request or not isinstance(block, Text) or block.new_message
        match block:
            case Text(text=text, citations=citations):
                report_citations(len(citations), where, self._receipt)
                self._add_text(text, where)
            case Refusal(text=text):
                self._add_text(text, where)
            case Thinking(text=text):
                if text:
                    self.thoughts.append(text)
                else:
                    self._receipt.loss(where, "reasoning without text", "only its owner can read it")
            case Media(kind="image") if not self._of_request and not native_of(block, NAME).get(_OF_ANSWER):
                # Ollama's SDK has such a member in answers, and raises an exception if it is present.
                self._receipt.loss(where, "image", "clients of Ollama's API do not read images in answers")
            case Media(source=Source(kind="base64", data=data), kind="image", detail=detail):
                if detail not in (None, "auto"):
                    self._receipt.loss(where, f"detail {detail}", "Ollama has no setting for image resolution")
                as_url = native_of(block, NAME).get(_DATA_URL)
                self.images.append(write_url(block.source, "image/png", as_url) if as_url else data)
            case ToolCall():
                index = None if self._of_request else self._calls_before + len(self.calls)
                call = encode_call(block, where, self._receipt, index=index)
                if call is not None:
                    self.calls.append(call)
                else:
                    self._add_text(show_bad_call(block.name, block.arguments), where)
            case _:
                self._receipt.loss(where, describe_block(block), "Ollama has no place for it")

    def _add_text(self, text: str, where: str) -> None:
        if self._is_separate and (gap := separator_between(self._last_text, text)):
            if not self._of_request:
                self._receipt.note(where, "text separate from the text before", SEPARATOR_REASON)
            self.texts.append(gap)
        if text and (self.images or self.calls):
            self._receipt.note(where, "text after an image or a call", "Ollama has one text, before both")
        self._is_separate, self._last_text = self._is_separate and not text, text or self._last_text
        self.texts.append(text)

    @property
    def content(self) -> str:
        return "".join(self.texts)

    def members(self) -> dict[str, Any]:
        """Return the members other than the text."""
        thinking = {"thinking": "\n\n".join(self.thoughts)} if self.thoughts else {}
        images = {"images": self.images} if self.images else {}
        return {**thinking, **images, **({"tool_calls": self.calls} if self.calls else {})}
