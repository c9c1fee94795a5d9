"""A recorded exchange beside the same one today: what was and is sent, what the client got and gets."""

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
    NOTHING,
    Difference,
    of_documents,
    of_receipts,
    of_streams,
    of_values,
)
from toolglot.recordings.format import UpstreamRequest
from toolglot.recordings.holes import fits_value, recorded
from toolglot.recordings.read import Attempt, Recording
from toolglot.recordings.redact import REDACTED
from toolglot.recordings.wording import decoded
from toolglot.wire import json

IDENTITIES = frozenset({"metadata", "prompt_cache_key", "safety_identifier", "user"})
"""Members that tell who asks. They are hashes of what the client tells, which may be redacted."""

LINES, CHARACTERS = 200, 500
"""Of a receipt no more is compared: no more is kept of one."""


class Sent(Struct, frozen=True, kw_only=True):
    """A request to an upstream."""

    upstream: str
    dialect: str
    path: str
    body: bytes


class Outcome(Struct, frozen=True, kw_only=True):
    """What comes of a recorded request today."""

    client: str
    """The dialect of the answer."""
    sent: tuple[Sent, ...] = ()
    status: int = 0
    body: bytes = b""
    receipt: tuple[Mapping[str, str], ...] = ()
    left: bool = False
    """The client went away, where the recording has nothing more."""
    is_cut: bool = False
    """Its connection was cut, where the upstream's was."""


class Comparison(Struct, kw_only=True):
    requests: list[list[Difference]] = field(default_factory=list)
    """For each call to an upstream."""
    answer: list[Difference] = field(default_factory=list)
    receipt: list[Difference] = field(default_factory=list)
    breaches: list[str] = field(default_factory=list)
    """Rules of the client's dialect that today's stream breaks."""

    @property
    def differences(self) -> list[Difference]:
        return [*(each for request in self.requests for each in request), *self.answer, *self.receipt]

    @property
    def differs(self) -> bool:
        return bool(self.differences or self.breaches)

    def told(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "differs": self.differs,
            "requests": [[each.told() for each in request] for request in self.requests],
            "answer": [each.told() for each in self.answer],
            "receipt": [each.told() for each in self.receipt],
            "breaches": self.breaches,
        }


def compared(recording: Recording, outcome: Outcome, document: Callable[[str, bytes], Any]) -> Comparison:
    """`document` reads a request of a dialect as JSON."""
    same_client = outcome.client == recording.head.client
    # Of a recording without its end nobody knows what was sent behind it.
    sent = outcome.sent if recording.whole else outcome.sent[: len(recording.attempts)]
    requests = _requests(recording.attempts, sent, document if same_client else None)
    if REDACTED.encode() in recording.request.data:
        requests = [[each for each in request if not _is_identity(each)] for request in requests]
    comparison = Comparison(requests=requests)
    answer = _of_answers(recording, outcome) if same_client else _of_meanings(recording, outcome)
    comparison.answer = _without_holes(answer)
    if same_client and recording.whole:
        comparison.receipt = of_receipts(_kept(recording.receipt), _kept(outcome.receipt))
    streamed = outcome.status == 200 and recording.head.stream and not outcome.body.startswith(b"[")
    if streamed and not outcome.left and not outcome.is_cut:
        comparison.breaches = [str(breach) for breach in lint(outcome.client, [outcome.body])]
    return comparison


def _requests(
    attempts: Sequence[Attempt], sent: Sequence[Sent], document: Callable[[str, bytes], Any] | None
) -> list[list[Difference]]:
    """Without `document`, only which calls there are: another dialect asks for the same in its own way."""
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
            differences = of_values(document(then.dialect, recorded(then)), document(now.dialect, now.body))
            found.append(_without_holes(differences))
    return found


def _without_holes(differences: Sequence[Difference]) -> list[Difference]:
    """What a recording does not tell differs in nothing: the names of tools stay, say, but not texts that have them."""
    return [each for each in differences if not fits_value(each.then, each.now)]


def _is_identity(difference: Difference) -> bool:
    return difference.path.partition(".")[0] in IDENTITIES


def _dialect(asked: UpstreamRequest | Sent | None) -> Any:
    return NOTHING if asked is None else asked.dialect


def _of_answers(recording: Recording, outcome: Outcome) -> list[Difference]:
    """Byte by byte: the same client gets the same answer."""
    if recording.response is None:
        return []  # nothing was told to the client any more
    then = recording.response.status
    if outcome.left and not outcome.status:
        return []  # the client has left, as it did then, and keep-alives were all that it had got
    found = [Difference("status", then, outcome.status)] if then != outcome.status else []
    if not recording.head.stream or then != 200 or recording.body.startswith(b"["):
        return found + _of_wholes(recording, outcome.body)
    client = find(outcome.client)
    asked = decoded(recording.head.client, recording.request.data)  # some keep-alives repeat its model
    keepalive = client.stream_encoder(asked, Receipt()).keepalive()
    begun = not recording.whole or (recording.end is not None and recording.end.cancelled)
    return found + of_streams(recording.body, outcome.body, keepalive, begun=begun, framing=client.stream.framing)


def _of_wholes(recording: Recording, now: bytes) -> list[Difference]:
    then = recording.body
    if then == now or (not recording.whole and now.startswith(then)):
        return []
    return of_documents(then, now) or [Difference("$", len(then), len(now), why="bytes; the same values")]


def _of_meanings(recording: Recording, outcome: Outcome) -> list[Difference]:
    """What another client is told, in its own words."""
    then = _meaning(recording.head.client, recording.body)
    now = _meaning(outcome.client, outcome.body)
    if recording.serves:
        then, now = _without_tools(then), _without_tools(now)
    return of_values(then, now, "answer")


def _without_tools(meaning: dict[str, Any]) -> dict[str, Any]:
    """What is said around tools that were run here. APIs without words for them tell of them as reasoning, and have a
    line between the texts of two rounds."""
    told = {name: value for name, value in meaning.items() if name != "reasoning"}
    return {name: " ".join(value.split()) if name == "text" else value for name, value in told.items()}


def _meaning(client: str, body: bytes) -> dict[str, Any]:
    try:
        response = _folded(client, body)
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


def _folded(client: str, body: bytes) -> Response | None:
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


def _kept(lines: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    return [{name: text[:CHARACTERS] for name, text in line.items()} for line in lines[:LINES]]
