"""Compare a recorded exchange with its rerun: the requests to upstreams and the client's answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from toolglot.dialects import find
from toolglot.errors import DecodeError, UpstreamError
from toolglot.events import Event, Fault, Fold
from toolglot.ir import Response, Text, Thinking, ToolCall
from toolglot.lint import lint
from toolglot.receipt import Receipt
from toolglot.recordings.differences import (
    MISSING,
    Difference,
    compare_documents,
    compare_receipts,
    compare_streams,
    compare_values,
)
from toolglot.recordings.format import UpstreamRequest
from toolglot.recordings.read import Attempt, Recording
from toolglot.recordings.redact import REDACTED
from toolglot.recordings.redacted_spans import matches_value, recorded_body
from toolglot.recordings.summaries import decode_request
from toolglot.wire import json

IDENTITY_MEMBERS = frozenset({"metadata", "prompt_cache_key", "safety_identifier", "user"})
"""Members that identify the caller. They are hashes of the client's data, which may be redacted."""

MAX_RECEIPT_LINES, MAX_RECEIPT_CHARS = 200, 500
"""Maximum size of the compared part of a receipt, which equals the recorded part."""


class SentRequest(Struct, frozen=True, kw_only=True):
    """A request to an upstream."""

    upstream: str
    dialect: str
    path: str
    body: bytes


class RerunOutcome(Struct, frozen=True, kw_only=True):
    """The result of a recorded request with the current code."""

    client: str
    """The dialect of the answer."""
    sent: tuple[SentRequest, ...] = ()
    status: int = 0
    body: bytes = b""
    receipt: tuple[Mapping[str, str], ...] = ()
    left: bool = False
    """True if the client disconnected at the end of the recording."""
    is_cut: bool = False
    """True if the client's connection was cut because the upstream's was."""


class Comparison(Struct, kw_only=True):
    requests: list[list[Difference]] = field(default_factory=list)
    """One for each call to an upstream."""
    answer: list[Difference] = field(default_factory=list)
    receipt: list[Difference] = field(default_factory=list)
    breaches: list[str] = field(default_factory=list)
    """Rules of the client's dialect that the new stream violates."""

    @property
    def differences(self) -> list[Difference]:
        return [*(each for request in self.requests for each in request), *self.answer, *self.receipt]

    @property
    def differs(self) -> bool:
        return bool(self.differences or self.breaches)

    def to_json(self) -> dict[str, Any]:
        return {
            "differs": self.differs,
            "requests": [[each.to_json() for each in request] for request in self.requests],
            "answer": [each.to_json() for each in self.answer],
            "receipt": [each.to_json() for each in self.receipt],
            "breaches": self.breaches,
        }


def compare_rerun(recording: Recording, outcome: RerunOutcome, document: Callable[[str, bytes], Any]) -> Comparison:
    """Compare the recording with its rerun. `document` parses a request of a dialect as JSON."""
    same_client = outcome.client == recording.head.client
    # After the end of an incomplete recording, the requests are unknown.
    sent = outcome.sent if recording.whole else outcome.sent[: len(recording.attempts)]
    requests = _compare_requests(recording.attempts, sent, document if same_client else None)
    if REDACTED.encode() in recording.request.data:
        requests = [[each for each in request if not _is_identity(each)] for request in requests]
    comparison = Comparison(requests=requests)
    answer = _compare_answers(recording, outcome) if same_client else _compare_meanings(recording, outcome)
    comparison.answer = _without_redacted(answer)
    if same_client and recording.whole:
        comparison.receipt = compare_receipts(_limit_receipt(recording.receipt), _limit_receipt(outcome.receipt))
    streamed = outcome.status == 200 and recording.head.stream and not outcome.body.startswith(b"[")
    if streamed and not outcome.left and not outcome.is_cut:
        comparison.breaches = [str(breach) for breach in lint(outcome.client, [outcome.body])]
    return comparison


def _compare_requests(
    attempts: Sequence[Attempt], sent: Sequence[SentRequest], document: Callable[[str, bytes], Any] | None
) -> list[list[Difference]]:
    """Compare requests. Without `document`, compare only the list of calls, because another dialect writes the same
    request in its own form.
    """
    found: list[list[Difference]] = []
    for number in range(max(len(attempts), len(sent))):
        then = attempts[number].request if number < len(attempts) else None
        now = sent[number] if number < len(sent) else None
        if then is None or now is None:
            found.append([Difference(f"call {number + 1}", _dialect(then), _dialect(now))])
        elif then.dialect != now.dialect:
            found.append([Difference("dialect", then.dialect, now.dialect)])
        elif document is None or then.data == now.body:
            found.append([])
        else:
            differences = compare_values(document(then.dialect, recorded_body(then)), document(now.dialect, now.body))
            found.append(_without_redacted(differences))
    return found


def _without_redacted(differences: Sequence[Difference]) -> list[Difference]:
    """Remove the differences that are only redactions: a recording keeps the names of tools, for example, but redacts
    texts that contain them."""
    return [each for each in differences if not matches_value(each.then, each.now)]


def _is_identity(difference: Difference) -> bool:
    return difference.path.partition(".")[0] in IDENTITY_MEMBERS


def _dialect(asked: UpstreamRequest | SentRequest | None) -> Any:
    return MISSING if asked is None else asked.dialect


def _compare_answers(recording: Recording, outcome: RerunOutcome) -> list[Difference]:
    """Compare byte by byte: the same client gets the same answer."""
    if recording.response is None:
        return []  # nothing more was sent to the client
    then = recording.response.status
    if outcome.left and not outcome.status:
        return []  # the client disconnected, as it did then, after nothing but keep-alives
    found = [Difference("status", then, outcome.status)] if then != outcome.status else []
    if not recording.head.stream or then != 200 or recording.body.startswith(b"["):
        return found + _compare_documents(recording, outcome.body)
    client = find(outcome.client)
    asked = decode_request(recording.head.client, recording.request.data)  # some keep-alives repeat the request's model
    keepalive = client.stream_encoder(asked, Receipt()).keepalive()
    begun = not recording.whole or (recording.end is not None and recording.end.cancelled)
    return found + compare_streams(recording.body, outcome.body, keepalive, begun=begun, framing=client.stream.framing)


def _compare_documents(recording: Recording, now: bytes) -> list[Difference]:
    then = recording.body
    if then == now or (not recording.whole and now.startswith(then)):
        return []
    return compare_documents(then, now) or [Difference("$", len(then), len(now), why="bytes; the same values")]


def _compare_meanings(recording: Recording, outcome: RerunOutcome) -> list[Difference]:
    """Compare the content of answers in different dialects."""
    then = _extract_meaning(recording.head.client, recording.body)
    now = _extract_meaning(outcome.client, outcome.body)
    if recording.runs_tools:
        then, now = _without_tools(then), _without_tools(now)
    return compare_values(then, now, "answer")


def _without_tools(meaning: dict[str, Any]) -> dict[str, Any]:
    """Keep only the content around tools that the gateway ran. APIs without a form for such tools report them as
    reasoning, and have a line between the texts of two rounds.
    """
    told = {name: value for name, value in meaning.items() if name != "reasoning"}
    return {name: " ".join(value.split()) if name == "text" else value for name, value in told.items()}


def _extract_meaning(client: str, body: bytes) -> dict[str, Any]:
    try:
        response = _fold_answer(client, body)
    except (DecodeError, UpstreamError) as error:
        return {"error": str(error)}
    if response is None:
        return {"error": "this is no answer"}
    texts = {name: _text(response, kind) for name, kind in _TEXTS}
    calls = [block for block in response.content if isinstance(block, ToolCall)]
    return {
        **{name: text for name, text in texts.items() if text},
        "calls": [{"name": call.name, "arguments": _arguments(call.arguments)} for call in calls],
        "stop": response.stop.reason,
    }


def _text(response: Response, kind: type[Text | Thinking]) -> str:
    return "".join(block.text for block in response.content if isinstance(block, kind))


_TEXTS: tuple[tuple[str, type[Text | Thinking]], ...] = (("text", Text), ("reasoning", Thinking))


def _arguments(text: str) -> Any:
    try:
        return json.decode_frame(text.encode())
    except DecodeError:
        return text


def _fold_answer(client: str, body: bytes) -> Response | None:
    dialect = find(client)
    if dialect.stream.framing.is_document(body):
        return dialect.decode_response(body)
    decoder = dialect.stream_decoder(Receipt())
    folded, events = Fold(), [*decoder.feed(body), *decoder.close()]
    for event in _until_fault(events):
        folded.add(event)
    if folded.fault is not None:
        raise UpstreamError(folded.fault)
    return folded.response() if events else None


def _until_fault(events: Sequence[Event]) -> Sequence[Event]:
    end = next((at for at, event in enumerate(events) if isinstance(event, Fault)), len(events))
    return events[: end + 1]


def _limit_receipt(lines: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    return [{name: text[:MAX_RECEIPT_CHARS] for name, text in line.items()} for line in lines[:MAX_RECEIPT_LINES]]
