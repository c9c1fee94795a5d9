"""Rules of Chat Completions streams that the Python and JavaScript SDKs, the AI SDK, opencode and Qwen enforce."""

from __future__ import annotations

from typing import Any

from toolglot.lint.report import LintFrame, LintReport, LintRules, is_object

RULES = {
    "has-data": "an event must have data (the SDKs read an `event:` line alone as broken JSON)",
    "object": 'every chunk must have `"object": "chat.completion.chunk"` (others are ignored)',
    "choices": "every chunk must have an array `choices`, and each choice an `index` and a `delta`",
    "role-first": "the first delta of a choice must have the role",
    "role-once": "the role must be sent once (the SDK joins repeated strings)",
    "call-index": "every part of a call must have its index, a number",
    "call-dense": "calls must count up from index 0",
    "call-order": "a call must be whole before the next one begins",
    "call-head": "the first part of a call must have its id, type and name",
    "call-once": "the id, type and name of a call must be sent once (the SDK joins repeated strings and fails on null)",
    "arguments": "the arguments of a call must form a JSON object, unless the output limit cut it",
    "finish-once": "every choice must have one finish_reason",
    "finish-last": "content must not follow the finish_reason",
    "usage-last": "usage must be in the last chunk, with empty choices or the finish_reason",
    "done-last": "`data: [DONE]` must end the stream",
}

_PARTS = {"function": "arguments", "custom": "input"}


class ChatCallState:
    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.kind = "function"


class ChatChoiceState:
    def __init__(self) -> None:
        self.role = False
        self.calls: list[ChatCallState] = []
        self.finish: str | None = None


class ChatLinter:
    def __init__(self, report: LintReport) -> None:
        self._report = report
        self._choices: dict[Any, ChatChoiceState] = {}
        self._usage: LintFrame | None = None
        self._failed = self._done = self._usage_reported = False

    def add(self, frame: LintFrame) -> None:
        report = self._report
        if frame.data is None:
            report.require(all(line.startswith(b":") for line in frame.lines), "has-data", frame)
            return
        if self._done or self._failed:
            if not (self._failed and frame.data == b"[DONE]"):
                report.breach("done-last", frame)
            return
        if frame.data == b"[DONE]":
            self._done = True
            return
        if frame.value is None:
            return
        if frame.fields.get("error"):
            self._failed = True
            return
        report.require(frame.fields.get("object") == "chat.completion.chunk", "object", frame)
        choices = frame.fields.get("choices")
        listed = choices if isinstance(choices, list) else []
        if report.require(isinstance(choices, list), "choices", frame):
            for choice in listed:
                self._add_choice(choice, frame)
        if self._usage is not None and not self._usage_reported:
            report.breach("usage-last", self._usage)
            self._usage_reported = True  # some servers put it in every chunk
        if frame.fields.get("usage"):
            self._usage = frame

    def close(self) -> None:
        if self._failed:
            return
        report = self._report
        report.require(self._done, "done-last", None)
        if not self._choices:
            report.breach("finish-once", None, "there is no choice")
        for index, choice in self._choices.items():
            report.require(choice.finish is not None, "finish-once", None, f"choice {index} has none")
            for number, call in enumerate(choice.calls):
                text = "".join(call.pieces)
                if call.kind == "function" and choice.finish != "length" and not is_object(text):
                    report.breach("arguments", None, f"call {number}: {text[-60:]}")

    def _add_choice(self, choice: Any, frame: LintFrame) -> None:
        fields = choice if isinstance(choice, dict) else {}
        index, delta = fields.get("index"), fields.get("delta")
        sound = isinstance(index, int) and isinstance(delta, dict)
        if not self._report.require(sound, "choices", frame) or not isinstance(delta, dict):
            return
        state = self._choices.setdefault(index, ChatChoiceState())
        self._check_role(state, delta, frame)
        if state.finish is not None and any(delta.get(key) for key in ("content", "tool_calls", "refusal")):
            self._report.breach("finish-last", frame)
        parts = delta.get("tool_calls")
        for part in parts if isinstance(parts, list) else ():
            self._add_call(state, part if isinstance(part, dict) else {}, frame)
        if fields.get("finish_reason"):
            self._report.require(state.finish is None, "finish-once", frame)
            state.finish = fields["finish_reason"]

    def _check_role(self, state: ChatChoiceState, delta: dict[str, Any], frame: LintFrame) -> None:
        if state.role:
            self._report.require(not delta.get("role"), "role-once", frame)
        else:
            self._report.require(bool(delta.get("role")), "role-first", frame)
            state.role = True

    def _add_call(self, state: ChatChoiceState, part: dict[str, Any], frame: LintFrame) -> None:
        report, index = self._report, part.get("index")
        if not report.require(type(index) is int, "call-index", frame) or type(index) is not int:
            return
        count = len(state.calls)
        if index >= count:
            report.require(index == count, "call-dense", frame, f"expected {count}, got {index}")
            state.calls.append(ChatCallState())
            self._check_head(state.calls[-1], part, frame)
            return
        report.require(index == count - 1, "call-order", frame, f"call {index} goes on after call {count - 1} began")
        call = state.calls[index]
        inner = part.get(call.kind)
        inner = inner if isinstance(inner, dict) else {}
        repeated = [key for key in ("id", "name") if (part if key == "id" else inner).get(key)]
        repeated += ["type"] if "type" in part else []
        report.require(not repeated, "call-once", frame, ", ".join(repeated))
        self._add_arguments(call, inner)

    def _check_head(self, call: ChatCallState, part: dict[str, Any], frame: LintFrame) -> None:
        call.kind = "custom" if part.get("type") == "custom" else "function"
        inner = part.get(call.kind)
        inner = inner if isinstance(inner, dict) else {}
        missing = [key for key in ("id", "type") if not part.get(key)] + ([] if inner.get("name") else ["name"])
        self._report.require(not missing, "call-head", frame, f"without {', '.join(missing)}")
        self._add_arguments(call, inner)

    @staticmethod
    def _add_arguments(call: ChatCallState, inner: dict[str, Any]) -> None:
        text = inner.get(_PARTS[call.kind])
        if isinstance(text, str):
            call.pieces.append(text)


def check(frames: list[LintFrame], report: LintReport) -> None:
    linter = ChatLinter(report)
    for frame in frames:
        linter.add(frame)
    linter.close()


LINT = LintRules(rules=RULES, check=check)
