"""The lines of a recorded exchange. Each is a JSON object whose `type` says what happened, `at` how many seconds after
the request came. A later version may add members and types: a reader leaves alone what it does not know.

    exchange            what the file is: the first line
    client.request      what the client asked
    upstream.request    what an upstream was asked; there are more where it was asked again, or another one was
    upstream.response   the head of its answer
    upstream.data       a piece of its body, cut at the end of a line where it can be
    upstream.end        its body is over, or has broken off
    client.response     the head of what the client got
    client.data         a piece of its body
    store.read          what the store had of the conversation, which went into the requests
    served.tools        the MCP servers that are at hand for the exchange, with their tools
    served.progress     what one of these tools said while it ran
    served.result       what it returned, as its server sent it
    served              a tool that was run here in between: how that went
    receipt             what was lost or changed
    end                 how it all ended: the last line of a whole recording

Bodies and pieces are `text` where they are UTF-8, else `base64`. Put together, the pieces of a body are its bytes, but
for what was redacted.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any, Literal

import msgspec
from msgspec import Struct

from toolglot.errors import DecodeError
from toolglot.wire import large, large_writing

VERSION = 1
SUFFIX = ".exchange.jsonl"
PARTIAL = ".partial"
"""Behind the name of a file that is still being written, or whose writer died."""
UNREAD = "closed before its end"
"""What `upstream.end` tells of an answer that the gateway read no further, because nobody wanted the rest."""


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    at: float = 0.0


class Data(Line, frozen=True, kw_only=True, omit_defaults=True):
    """Bytes."""

    text: str | None = None
    base64: str | None = None

    @property
    def data(self) -> bytes:
        """Raises `DecodeError` where it says that it is base64, and is not."""
        if self.base64 is None:
            return (self.text or "").encode("utf-8", "surrogatepass")
        try:
            return b64decode(self.base64, validate=True)
        except ValueError as error:
            raise DecodeError("base64", str(error)) from None


class Head(Line, frozen=True, kw_only=True, omit_defaults=True, tag="exchange"):
    version: int = 0
    id: str = ""
    """The request's id, as in `x-request-id`, the log and the receipt."""
    time: str = ""
    """When it came, in ISO 8601."""
    toolglot: str = ""
    client: str = ""
    """The client's dialect."""
    model: str = ""
    """As the client named it."""
    stream: bool = False
    key: str | None = None
    """The label of the client's key."""


class ClientRequest(Data, frozen=True, kw_only=True, omit_defaults=True, tag="client.request"):
    method: str = "POST"
    path: str = ""
    """With its query."""
    headers: dict[str, str] = {}


class CallSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the gateway was set for a call. What is not said is as usual."""

    text_format: str | None = None
    """In which calls are written as text, or with `rescue` picked out of it."""
    bad_calls: str = "pass"
    rescue: bool = False
    starts_in_reasoning: bool = False
    quirks: dict[str, Any] = {}
    """Capabilities in which the model differs from its dialect."""
    history: dict[str, Any] = {}
    """The history policy that was kept to."""
    exact: list[str] = []
    """The limits of it that cut to the brim."""
    strict: bool = False
    verbatim: bool = True
    """Bytes may go through as they are."""
    keeps_state: bool = False
    """Reasoning state that the client cannot carry is kept."""
    can_cut: bool = False
    """The client's connection could be cut where the upstream's was."""
    issuer: str = ""
    """The server that takes back what the client carries."""
    state_put_back: bool = False
    """What was kept was put into the request."""
    conversation_put_back: bool = False
    """So was what the upstream had sent of the conversation itself."""
    cache_marks: Literal["auto", "always", "never"] = "never"
    """When breakpoints of the prompt cache are set for clients that set none."""
    prefix_repeats: bool = False
    """Tools and system text had come before, a short time ago."""
    warp_history: str | None = None
    """Of Warp: how the conversation is told."""
    disable_warp_tools: bool = True


class UpstreamRequest(Data, frozen=True, kw_only=True, omit_defaults=True, tag="upstream.request"):
    attempt: int = 1
    """Counts up over all upstreams."""
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
    """Where in the text numbers were redacted to nines: where each begins, and its length, one after the other."""


class UpstreamResponse(Line, frozen=True, kw_only=True, omit_defaults=True, tag="upstream.response"):
    attempt: int = 1
    status: int = 200
    headers: dict[str, str] = {}


class UpstreamData(Data, frozen=True, kw_only=True, omit_defaults=True, tag="upstream.data"):
    attempt: int = 1


class UpstreamEnd(Line, frozen=True, kw_only=True, omit_defaults=True, tag="upstream.end"):
    attempt: int = 1
    error: str | None = None
    """Why it broke off, or why there was no answer at all."""


class ClientResponse(Line, frozen=True, kw_only=True, omit_defaults=True, tag="client.response"):
    status: int = 200
    headers: dict[str, str] = {}


class ClientData(Data, frozen=True, kw_only=True, omit_defaults=True, tag="client.data"):
    pass


class Served(Line, frozen=True, kw_only=True, omit_defaults=True, tag="served"):
    server: str = ""
    tool: str = ""
    call: str = ""
    arguments: str = ""
    failed: bool = False
    seconds: float = 0.0


class StoreRead(Data, frozen=True, kw_only=True, omit_defaults=True, tag="store.read"):
    """The body is what was found, as JSON. Reads of one kind stand in their order."""

    what: str = ""
    """`history`, `holders`, `rounds`, `states` or `replay`."""
    failure: str | None = None
    """Why nothing could be read: the kind of failure, and its words in `message`."""
    message: str = ""


class ServedTools(Data, frozen=True, kw_only=True, omit_defaults=True, tag="served.tools"):
    """The body is the list of servers as JSON: `served.py`."""

    limits: dict[str, Any] = {}
    """How far tools may go, as in the configuration."""
    keeps: bool = False
    """What is run is kept for the next turn."""


class ServedProgress(Line, frozen=True, kw_only=True, omit_defaults=True, tag="served.progress"):
    call: str = ""
    server: str = ""
    tool: str = ""
    done: float = 0.0
    total: float | None = None
    message: str | None = None


class ServedResult(Data, frozen=True, kw_only=True, omit_defaults=True, tag="served.result"):
    """The body is the result as JSON; there is none where `failure` tells why."""

    call: str = ""
    server: str = ""
    tool: str = ""
    arguments: str = ""
    failure: str | None = None
    """`failed`: `message` has the reason. `late`: the time for all calls was over. `broken`: something unforeseen.
    `unwritable`: there was a result, which no JSON can say."""
    message: str = ""


class ReceiptLines(Line, frozen=True, kw_only=True, omit_defaults=True, tag="receipt"):
    lines: list[dict[str, str]] = []
    """Each with `severity`, `where`, `what` and `why`."""


class End(Line, frozen=True, kw_only=True, omit_defaults=True, tag="end"):
    error: str | None = None
    message: str | None = None
    stop: str | None = None
    usage: dict[str, Any] | None = None
    cancelled: bool = False
    """The client went away."""
    cut: str | None = None
    """Why the recording is not whole: it grew too large, say."""


AnyLine = (
    Head
    | ClientRequest
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
    | Served
    | ReceiptLines
    | End
)

encoder = msgspec.json.Encoder()
decoder: msgspec.json.Decoder[AnyLine] = msgspec.json.Decoder(AnyLine)


def written(line: Line) -> bytes:
    """A line as it stands in the file. One with a large body is written in slices, since others wait meanwhile."""
    body = getattr(line, "text", None) or ""
    if len(body) <= large.PIECE:
        return encoder.encode(line) + b"\n"
    return large.joined(large_writing.encode(msgspec.to_builtins(line)), b"\n")


def body_of(data: bytes) -> dict[str, str]:
    """Bytes as the members of a line: `text` or `base64`."""
    try:
        return {"text": large.decoded(data)}
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode("ascii")}
