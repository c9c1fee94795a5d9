"""The lines of a recorded exchange. Each is a JSON object. `type` says what happened, and `at` is the number of seconds
since the request arrived. Later versions may add members and types; readers ignore unknown ones.

    exchange the first line: facts about the exchange
    client.request      the client's request
    upstream.request    a request to an upstream; several after a retry or a fallback
    upstream.response   the head of its answer
    upstream.data       a piece of its body, cut at the end of a line if possible
    upstream.end        its body is complete, or has broken off
    client.response the head of the client's answer
    client.data         a piece of its body
    store.read the store's data for the conversation, which the requests contain
    served.tools        the MCP servers that are available to the exchange, with their tools
    served.progress     progress of one of these tools while it ran
    served.result its result, as its server sent it
    served a tool that the gateway ran, and the outcome
    receipt losses and changes
    end the end of the exchange: the last line of a complete recording

Bodies and pieces are `text` if they are UTF-8, otherwise `base64`. Joined, the pieces of a body are its bytes, except
for redacted parts.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any, Literal

import msgspec
from msgspec import Struct

from toolglot.errors import DecodeError
from toolglot.wire import incremental_encode, incremental_json

VERSION = 1
SUFFIX = ".exchange.jsonl"
PARTIAL_SUFFIX = ".partial"
"""Suffix of an unfinished file: it is being written, or its writer died."""
UNREAD = "closed before its end"
"""Error in `upstream.end` for an answer that the gateway stopped reading because the rest was not needed."""


class RecordingLine(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    at: float = 0.0


class RecordedData(RecordingLine, frozen=True, kw_only=True, omit_defaults=True):
    """A line with a body."""

    text: str | None = None
    base64: str | None = None

    @property
    def data(self) -> bytes:
        """Raises `DecodeError` if the base64 is invalid."""
        if self.base64 is None:
            return (self.text or "").encode("utf-8", "surrogatepass")
        try:
            return b64decode(self.base64, validate=True)
        except ValueError as error:
            raise DecodeError("base64", str(error)) from None


class RecordingHead(RecordingLine, frozen=True, kw_only=True, omit_defaults=True, tag="exchange"):
    version: int = 0
    id: str = ""
    """The request id, as in `x-request-id`, the log and the receipt."""
    time: str = ""
    """Time of arrival, in ISO 8601."""
    toolglot: str = ""
    client: str = ""
    """The client's dialect."""
    model: str = ""
    """The model's name in the client's request."""
    stream: bool = False
    key: str | None = None
    """The label of the client's key."""


class RecordedClientRequest(RecordedData, frozen=True, kw_only=True, omit_defaults=True, tag="client.request"):
    method: str = "POST"
    path: str = ""
    """Includes the query."""
    headers: dict[str, str] = {}


class CallSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The gateway's settings for a call. Missing ones have their defaults."""

    text_format: str | None = None
    """Text format of calls; with `rescue`, the format of leaked calls."""
    bad_calls: str = "pass"
    rescue: bool = False
    starts_in_reasoning: bool = False
    quirks: dict[str, Any] = {}
    """Capabilities of the model that differ from its dialect."""
    history: dict[str, Any] = {}
    """The history policy in effect."""
    exact: list[str] = []
    """Limits that were applied exactly."""
    strict: bool = False
    verbatim: bool = True
    """True if bytes may be forwarded unchanged."""
    keeps_state: bool = False
    """True if reasoning state that the client cannot carry is stored."""
    can_cut: bool = False
    """True if the client's connection could be cut if the upstream's was."""
    issuer: str = ""
    """The server that accepts the state that the client carries."""
    state_put_back: bool = False
    """True if stored state was added to the request."""
    conversation_put_back: bool = False
    """True if the upstream's own earlier messages of the conversation were added."""
    cache_marks: Literal["auto", "always", "never"] = "never"
    """When to set prompt cache breakpoints for clients that set none."""
    prefix_repeats: bool = False
    """True if the same tools and system text were sent a short time before."""
    warp_history: str | None = None
    """For Warp: the form of the conversation."""
    disable_warp_tools: bool = True


class UpstreamRequest(RecordedData, frozen=True, kw_only=True, omit_defaults=True, tag="upstream.request"):
    attempt: int = 1
    """Counts over all upstreams."""
    upstream: str = ""
    dialect: str = ""
    model: str = ""
    """The upstream's name of the model."""
    stream: bool = False
    method: str = "POST"
    url: str = ""
    headers: dict[str, str] = {}
    settings: CallSettings | None = None
    """None in recordings of earlier versions."""
    numbers: list[int] = []
    """Positions in the text where numbers were redacted to nines: start and length of each, in one flat list."""


class UpstreamResponse(RecordingLine, frozen=True, kw_only=True, omit_defaults=True, tag="upstream.response"):
    attempt: int = 1
    status: int = 200
    headers: dict[str, str] = {}


class UpstreamData(RecordedData, frozen=True, kw_only=True, omit_defaults=True, tag="upstream.data"):
    attempt: int = 1


class UpstreamEnd(RecordingLine, frozen=True, kw_only=True, omit_defaults=True, tag="upstream.end"):
    attempt: int = 1
    error: str | None = None
    """The reason why it broke off, or why there was no answer."""


class ClientResponse(RecordingLine, frozen=True, kw_only=True, omit_defaults=True, tag="client.response"):
    status: int = 200
    headers: dict[str, str] = {}


class ClientData(RecordedData, frozen=True, kw_only=True, omit_defaults=True, tag="client.data"):
    pass


class ServedToolLine(RecordingLine, frozen=True, kw_only=True, omit_defaults=True, tag="served"):
    server: str = ""
    tool: str = ""
    call: str = ""
    arguments: str = ""
    failed: bool = False
    seconds: float = 0.0


class StoreRead(RecordedData, frozen=True, kw_only=True, omit_defaults=True, tag="store.read"):
    """The body has the data that was found, as JSON. Reads of one kind are in order."""

    what: str = ""
    """`history`, `holders`, `rounds`, `states` or `replay`."""
    failure: str | None = None
    """The kind of failure if nothing could be read; `message` has its text."""
    message: str = ""


class ServedTools(RecordedData, frozen=True, kw_only=True, omit_defaults=True, tag="served.tools"):
    """The line with the available MCP servers. The body is the list of servers as JSON (`served_servers.py`)."""

    limits: dict[str, Any] = {}
    """Limits for tools, as configured."""
    keeps: bool = False
    """True if tool results are stored for the next turn."""


class ServedProgress(RecordingLine, frozen=True, kw_only=True, omit_defaults=True, tag="served.progress"):
    call: str = ""
    server: str = ""
    tool: str = ""
    done: float = 0.0
    total: float | None = None
    message: str | None = None


class ServedResult(RecordedData, frozen=True, kw_only=True, omit_defaults=True, tag="served.result"):
    """The line with a tool's result. The body is the result as JSON; missing if there is a `failure`."""

    call: str = ""
    server: str = ""
    tool: str = ""
    arguments: str = ""
    failure: str | None = None
    """`failed`: `message` has the reason. `late`: the time limit of all calls was exceeded. `broken`: an unexpected
    error. `unwritable`: the result cannot be written as JSON.
    """
    message: str = ""


class ReceiptLines(RecordingLine, frozen=True, kw_only=True, omit_defaults=True, tag="receipt"):
    lines: list[dict[str, str]] = []
    """Each with `severity`, `where`, `what` and `why`."""


class RecordingEnd(RecordingLine, frozen=True, kw_only=True, omit_defaults=True, tag="end"):
    error: str | None = None
    message: str | None = None
    stop: str | None = None
    usage: dict[str, Any] | None = None
    cancelled: bool = False
    """True if the client disconnected."""
    cut: str | None = None
    """The reason why the recording is incomplete, for example its size."""


AnyLine = (
    RecordingHead
    | RecordedClientRequest
    | UpstreamRequest
    | UpstreamResponse
    | UpstreamData
    | UpstreamEnd
    | ClientResponse
    | ClientData
    | StoreRead
    | ServedTools
    | ServedProgress
    | ServedResult
    | ServedToolLine
    | ReceiptLines
    | RecordingEnd
)

encoder = msgspec.json.Encoder()
decoder: msgspec.json.Decoder[AnyLine] = msgspec.json.Decoder(AnyLine)


def encode_line(line: RecordingLine) -> bytes:
    """Encode a line for the file. A large body is written in slices, so that other work does not wait."""
    body = getattr(line, "text", None) or ""
    if len(body) <= incremental_json.PIECE:
        return encoder.encode(line) + b"\n"
    return incremental_json.join_bytes(incremental_encode.encode(msgspec.to_builtins(line)), b"\n")


def body_members(data: bytes) -> dict[str, str]:
    """Return bytes as the members of a line: `text` or `base64`."""
    try:
        return {"text": incremental_json.decode_utf8(data)}
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode("ascii")}
