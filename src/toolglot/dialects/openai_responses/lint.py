"""Rules of Responses streams, from the official SDK's accumulator, the AI SDK and Codex.

They need different events: the SDK reads `added` events and `response.completed`, Codex reads only `done` events. So a
stream must send all of them, and they must be consistent.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from toolglot.lint.report import LintFrame, LintReport, LintRules, is_object, plain

RULES = {
    "event-line": "an `event:` line, if there is one, must name the type of the data",
    "created-first": "response.created must come first, once",
    "sequence": "sequence_number must count up by one",
    "response-id": "the response must have one id",
    "item-added": "an item must be added once, in the order of output_index from 0, with an id",
    "item-known": "an event must belong to an item that was added and is not done, by output_index and item_id",
    "item-same": "an item must keep its type, id and call_id",
    "item-done": "every item that was added must be done, once",
    "part-added": "text must belong to a content part that was added",
    "call-id": "every call must have a unique call_id",
    "agree": "the deltas, the done event and the item must say the same",
    "arguments": "the arguments of a call must be a JSON object when it is done, unless the output limit cut it",
    "output": "the output of the final response must be the items that are done",
    "terminal": "response.completed, .incomplete or .failed must end the stream",
    "nothing-after": "the end must be the last event: no `data: [DONE]` follows",
}


class _TextStream(Struct, frozen=True):
    """A kind of text that arrives in deltas: the member that holds it when done, and the index that names the part."""

    done: str
    part: str | None = None


_STREAMS = {
    "response.output_text": _TextStream("text", "content_index"),
    "response.refusal": _TextStream("refusal", "content_index"),
    "response.reasoning_summary_text": _TextStream("text", "summary_index"),
    "response.reasoning_text": _TextStream("text", "content_index"),
    "response.function_call_arguments": _TextStream("arguments"),
    "response.custom_tool_call_input": _TextStream("input"),
}
_IN_PARTS = ("response.output_text", "response.refusal")
_TERMINAL = ("response.completed", "response.incomplete", "response.failed")
_STABLE_MEMBERS = ("type", "id", "call_id")


class ResponsesItemState:
    def __init__(self, fields: dict[str, Any]) -> None:
        self.added = fields
        self.done: dict[str, Any] | None = None
        self.parts: set[Any] = set()
        self.pieces: dict[tuple[str, Any], list[str]] = {}


class ResponsesLinter:
    def __init__(self, report: LintReport) -> None:
        self._report = report
        self._items: dict[int | str | None, ResponsesItemState] = {}
        self._calls: set[str] = set()
        self._id: Any = None
        self._sequence: int | None = None
        self._started = self._ended = self._failed = False
        self._broken: list[tuple[LintFrame, str]] = []
        self._final: str = ""

    def add(self, frame: LintFrame) -> None:
        report = self._report
        if frame.data is None:
            return
        if self._ended:
            report.breach("nothing-after", frame)
            return
        if frame.data == b"[DONE]" or frame.value is None:
            return
        kind = frame.fields.get("type")
        kind = kind if isinstance(kind, str) else ""
        report.require(frame.event is None or frame.event == kind, "event-line", frame, f"event: {frame.event}")
        if not self._started:
            report.require(kind in ("response.created", "error"), "created-first", frame)
        elif kind == "response.created":
            report.breach("created-first", frame)
        self._started = True
        self._check_sequence(frame)
        if isinstance(response := frame.fields.get("response"), dict):
            self._id = self._id or response.get("id")
            report.require(response.get("id") == self._id, "response-id", frame, f"first {self._id}")
        self._handle(kind, frame)

    def _handle(self, kind: str, frame: LintFrame) -> None:
        stem, _, verb = kind.rpartition(".")
        if kind == "response.output_item.added":
            self._add_item(frame)
        elif kind == "response.output_item.done":
            self._end_item(frame)
        elif kind in _TERMINAL:
            self._check_end(kind, frame)
        elif kind == "error":
            self._failed = True
        elif kind == "response.content_part.added":
            if item := self._find_item(frame):
                item.parts.add(plain(frame.fields.get("content_index")))
        elif stem in _STREAMS and verb in ("delta", "done"):
            self._check_text(stem, verb, frame)

    def _check_sequence(self, frame: LintFrame) -> None:
        number = frame.fields.get("sequence_number")
        expected = number if self._sequence is None else self._sequence + 1
        sound = type(number) is int and number == expected
        self._report.require(sound, "sequence", frame, f"expected {expected}, got {number}")
        if type(number) is int:
            self._sequence = number
        elif self._sequence is not None:
            self._sequence += 1

    def _find_item(self, frame: LintFrame) -> ResponsesItemState | None:
        item = self._items.get(plain(frame.fields.get("output_index")))
        item_id = frame.fields.get("item_id")
        known = item is not None and item.done is None and item_id == item.added.get("id")
        self._report.require(known, "item-known", frame)
        return item

    def _add_item(self, frame: LintFrame) -> None:
        index, item = plain(frame.fields.get("output_index")), frame.fields.get("item")
        fields = item if isinstance(item, dict) else {}
        sound = index == len(self._items) and bool(fields.get("id")) and bool(fields.get("type"))
        self._report.require(sound, "item-added", frame, f"index {index}, expected {len(self._items)}")
        self._items[index] = ResponsesItemState(fields)
        if "call_id" in fields and not str(fields.get("type")).endswith("_output"):
            call_id = str(fields["call_id"])
            self._report.require(call_id not in self._calls, "call-id", frame, call_id)
            self._calls.add(call_id)

    def _check_text(self, stem: str, verb: str, frame: LintFrame) -> None:
        item, stream = self._find_item(frame), _STREAMS[stem]
        if item is None:
            return
        part = plain(frame.fields.get(stream.part)) if stream.part else None
        if stem in _IN_PARTS:
            self._report.require(part in item.parts, "part-added", frame, f"{stream.part} {part}")
        pieces = item.pieces.setdefault((stem, part), [])
        if verb == "delta":
            if isinstance(delta := frame.fields.get("delta"), str):
                pieces.append(delta)
        elif pieces or frame.fields.get(stream.done):
            self._report.require("".join(pieces) == frame.fields.get(stream.done), "agree", frame)

    def _end_item(self, frame: LintFrame) -> None:
        index, wire = plain(frame.fields.get("output_index")), frame.fields.get("item")
        item, fields = self._items.get(index), wire if isinstance(wire, dict) else {}
        if not self._report.require(item is not None, "item-known", frame) or item is None:
            return
        self._report.require(item.done is None, "item-done", frame, "done twice")
        item.done = fields
        changed = [key for key in _STABLE_MEMBERS if item.added.get(key) not in (None, fields.get(key))]
        self._report.require(not changed, "item-same", frame, ", ".join(changed))
        said = _item_texts(fields)
        for key, pieces in item.pieces.items():
            if pieces and key in said:
                self._report.require("".join(pieces) == said[key], "agree", frame, key[0])
        arguments = fields.get("arguments")
        if fields.get("type") == "function_call" and isinstance(arguments, str) and not is_object(arguments):
            self._broken.append((frame, arguments))

    def _check_end(self, kind: str, frame: LintFrame) -> None:
        self._ended, self._final = True, kind
        if kind == "response.failed":
            return
        for index, item in self._items.items():
            self._report.require(item.done is not None, "item-done", frame, f"item {index}")
        response = frame.fields.get("response")
        output = response.get("output") if isinstance(response, dict) else None
        done = [item.done for item in self._items.values() if item.done is not None]
        self._report.require(output == done, "output", frame)

    def close(self) -> None:
        self._report.require(self._ended or self._failed, "terminal", None)
        if self._final == "response.completed":
            for frame, text in self._broken:
                self._report.breach("arguments", frame, text[-60:])


def _item_texts(item: dict[str, Any]) -> dict[tuple[str, Any], Any]:
    """Return the texts of a whole item, by the keys of its deltas."""
    texts: dict[tuple[str, Any], Any] = {}
    kind = item.get("type")
    if kind == "function_call":
        texts["response.function_call_arguments", None] = item.get("arguments")
    elif kind == "custom_tool_call":
        texts["response.custom_tool_call_input", None] = item.get("input")
    members = (("content", "response.reasoning_text"), ("summary", "response.reasoning_summary_text"))
    for member, stem in members:
        parts = item.get(member)
        for index, part in enumerate(parts if isinstance(parts, list) else ()):
            if isinstance(part, dict) and kind == "reasoning":
                texts[stem, index] = part.get("text")
            elif isinstance(part, dict) and part.get("type") == "output_text":
                texts["response.output_text", index] = part.get("text")
            elif isinstance(part, dict) and part.get("type") == "refusal":
                texts["response.refusal", index] = part.get("refusal")
    return texts


def check(frames: list[LintFrame], report: LintReport) -> None:
    linter = ResponsesLinter(report)
    for frame in frames:
        linter.add(frame)
    linter.close()


LINT = LintRules(rules=RULES, check=check)
