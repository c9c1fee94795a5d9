"""What can be configured. These records are the schema: the loader checks a file against them, and the published
JSON Schema is made from them. Everything has a default, so that an empty file is a configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import asdict

from toolglot.passes import CacheMarks
from toolglot.passes.history_policy import HistoryPolicy
from toolglot.textcalls.settings import BadCalls
from toolglot.upstream.transport import Timeouts
from toolglot.wire.json import MAX_DOCUMENT_BYTES

YEAR = 366 * 24 * 3600.0

WarpHistory = Literal["replay", "native", "text"]
"""How a conversation is told to a Warp upstream: `dialects/warp/history.py`."""

ReplaySpeed = Literal["none", "real"]

Secret: TypeAlias = Annotated[str, Meta(min_length=1, extra={"secret": True})]
"""Text that is never shown, and that may stand in a file of its own (`file:PATH`)."""
Value: TypeAlias = Annotated[str, Meta(extra={"secret": True})]
"""The same, where empty text says something too."""
Quirks: TypeAlias = Annotated[dict[str, Any], Meta(extra={"quirks": True})]
"""Capabilities that differ, by the names of `toolglot.dialect.Capabilities`; the loader converts their values."""
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=512)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=YEAR)]
Pause: TypeAlias = Annotated[float, Meta(ge=0, le=YEAR)]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=2**40)]
CountOrNone: TypeAlias = Annotated[int, Meta(ge=0, le=2**40)]
"""0: no limit."""

HIDDEN = "(hidden)"


def _repr_without_secrets(record: Struct, hidden: Mapping[str, object]) -> str:
    """How a record with secrets is printed: whatever prints it, a log or a traceback, they are not in it."""
    values = {name: hidden[name] if value and name in hidden else value for name, value in asdict(record).items()}
    return f"{type(record).__name__}({', '.join(f'{name}={value!r}' for name, value in values.items())})"


class Retries(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often a call that failed before its first byte is made again, and how long to wait (seconds)."""

    attempts: Annotated[int, Meta(ge=1, le=100)] = 3
    """Calls in all, the first one included."""
    first_wait: Pause = 0.5
    """The longest wait before the second call; it doubles before each further one. Chance makes each shorter."""
    longest_wait: Pause = 30.0
    """Also the longest `Retry-After` that is waited for; a longer one goes to the next fallback or to the client."""


class BreakerConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """After so many failures in a row an upstream is left alone for a while (seconds)."""

    failures: Count = 5
    """Failures in a row."""
    rest: Pause = 30.0
    """How long it is left alone, while fallbacks answer."""


class UpstreamConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One server that answers. With a `vendor` its row gives whatever is not said here."""

    vendor: str | None = None
    """A vendor or a kind of local server; an upstream that has a vendor's name need not say it."""
    dialect: str | None = None
    """What it speaks: openai_chat, openai_responses, anthropic, gemini or warp. A vendor's row knows it."""
    base_url: str | None = None
    """Where it is, with the version in its path if it has one there. A vendor's row knows it."""
    key: Secret | None = None
    """The credential; best a reference: `${OPENAI_API_KEY}` or `file:/run/secrets/openai`. Without it, and without a
    `base_url`, the vendor's own variable is used."""
    key_header: str | None = None
    """The header that carries the key, when it is not the dialect's; `authorization` gets `Bearer` before it."""
    headers: dict[str, Secret] = {}
    """Sent with every call."""
    models: tuple[Name, ...] = ()
    """Names or patterns of the models it serves: a request for one of them is routed here."""
    default_model: Name | None = None
    """The model for names that come here only because nothing else claims them; without it they stay as they are."""
    quirks: Quirks = {}
    """Capabilities in which this upstream differs from its dialect, by their names in `toolglot dialects --json`."""
    verbatim: bool | None = None
    """Let bytes through as they are to clients of the same dialect; false reads and writes them anew, for servers that
    leave out what the dialect's clients need. Without it the vendor's row decides."""
    cache_marks: CacheMarks = "auto"
    """When prompt-cache breakpoints are set for clients whose API has none, at models that cache nothing without them
    (Claude): `auto` in tool loops and where tools and system text repeat, `always`, or `never`."""
    max_history_messages: CountOrNone | None = None
    """Messages of a conversation that it is sent at most, beside system text: the oldest go, calls with their results.
    0 is no limit, which is the default but for Warp (50)."""
    max_tool_results: CountOrNone | None = None
    """Results of tools that it is sent at most: of the oldest, call and result go. 0 is no limit, which is the default
    but for Warp (10)."""
    warp_history: WarpHistory = "replay"
    """Of Warp: how a conversation is told. `replay` sends back what the server itself sent, which the store keeps;
    `native` makes tasks of the client's history; `text` writes it all into one query."""
    disable_warp_tools: bool = True
    """Of Warp: let the model use the client's tools alone, and not those of Warp's own app."""
    refresh_token: Secret | None = None
    """Of Warp: what a new bearer token is got for when the old one is over. Needs `refresh_key`."""
    refresh_key: Secret | None = None
    """Of Warp: the key of the service that gives tokens."""
    refresh_url: str = "https://securetoken.googleapis.com/v1/token"
    """Of Warp: where that service is."""
    replay_speed: ReplaySpeed = "none"
    """Of recordings (`base_url = "replay:FOLDER"`): `none` answers at once, `real` as fast as was recorded."""
    history: HistoryPolicy = HistoryPolicy()
    """How much of a conversation it is sent, and what of it is mended. `max_history_messages` and `max_tool_results`
    cut to the brim, these cut in steps."""
    timeouts: Timeouts = Timeouts()
    """How long to wait for what."""
    retries: Retries = Retries()
    """How often to ask again."""
    breaker: BreakerConfig = BreakerConfig()
    """When to leave it alone."""

    def __repr__(self) -> str:
        hidden = dict.fromkeys(("key", "refresh_token", "refresh_key"), HIDDEN)
        return _repr_without_secrets(self, {**hidden, "headers": dict.fromkeys(self.headers, HIDDEN)})


class ModelConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model's name, or a pattern of names (`claude-*`), stands for."""

    upstream: str
    """The upstream that answers, by its name under `upstreams`; `demo` is always there."""
    model: Name | None = None
    """The upstream's name of the model; without it the client's. `*` stands for what the pattern's `*` matched."""
    fallbacks: tuple[Name, ...] = ()
    """Other models, by the names clients use (or `upstream/model`), tried in order before the first byte. `*` as in
    `model`. `upstream/model` goes to that upstream, also where a pattern matches it."""
    strict: bool = False
    """Refuse requests and answers that would lose something in translation."""
    context_window: Count | None = None
    """Tokens; told to clients that ask."""
    max_output_tokens: Count | None = None
    """Tokens; told to clients that ask."""
    quirks: Quirks = {}
    """Capabilities in which this model differs from its dialect, by their names in `toolglot dialects --json`."""
    hidden: bool = False
    """Not listed to clients that ask for the models."""
    tools: Name = "auto"
    """How it is given tools: `native`, as its API has them; the name of a text format, written into the prompt and read
    out of its text; `auto`: native, unless it is known or turns out not to take them."""
    bad_calls: BadCalls = "pass"
    """What becomes of a call in text that cannot be run: `pass` it on, `ask` the model once more, or `fail`."""
    rescue: bool | Name = False
    """Pick calls out of the text that a native model's server failed to read: true in the format of the model's family,
    or the name of a format, or `auto` for any."""
    starts_in_reasoning: bool = False
    """With tools as text: the server's template has opened the reasoning before the answer begins, so that only its end
    stands in the text."""
    history: Name | HistoryPolicy | None = None
    """How much of a conversation it is sent, and what of it is mended. A text instead of a table is `calls` alone: the
    text format, or `auto` for any, in which old clients have written calls into the conversation."""
    mcp: tuple[Name, ...] = ()
    """MCP servers, by their names under `mcp.servers`, whose tools the model is given beside the client's: the gateway
    runs them itself."""


Policy = Literal["auto", "ask", "never"]
"""Whether a tool is run: without a word, after somebody has agreed, or not at all."""


class McpServerConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One MCP server: a `command` that is started here, or the `url` of one that runs elsewhere."""

    command: Annotated[str, Meta(min_length=1)] | None = None
    """The program to start, which speaks MCP on its standard input and output."""
    args: tuple[str, ...] = ()
    """Its arguments."""
    env: dict[str, Value] = {}
    """Its environment, beside the few variables that every program needs."""
    cwd: Annotated[str, Meta(min_length=1)] | None = None
    """The folder that it is started in; relative to that of the configuration."""
    url: str | None = None
    """Where a server of the Streamable HTTP transport is."""
    headers: dict[str, Secret] = {}
    """Sent with every request to it."""
    protocol: Literal["auto", "stateless", "handshake"] = "auto"
    """The generation of the protocol: `stateless` since 2026-07-28, `handshake` before; `auto` finds out."""
    policy: Policy = "ask"
    """What becomes of calls to its tools. `ask` runs those that say they only read; the others need somebody's yes, and
    where nobody can be asked the model is not offered them."""
    tools: dict[str, Policy] = {}
    """Policies of single tools, by name or pattern (`read_*`); the most specific one counts."""
    timeout: Seconds = 60.0
    """How long one call may take."""
    start_timeout: Seconds = 30.0
    """How long it may take to start, or to answer for the first time."""
    by_header: bool = True
    """Clients may have its tools run for any model: with the header `x-toolglot-mcp`, or by naming its address."""
    may_waive: bool = True
    """Clients that name the server may approve of all calls beforehand (`require_approval: never`). With false every
    call that `ask` would ask about needs an approval of its own."""
    keys: tuple[Name, ...] = ()
    """Labels of the keys for which its tools are run (`key-1` is the first of `server.keys`); empty: all keys."""

    def __repr__(self) -> str:
        hidden = {name: dict.fromkeys(getattr(self, name), HIDDEN) for name in ("env", "headers")}
        # An address may have a key in its query.
        address, question, _ = (self.url or "").partition("?")
        url = f"{address}?{HIDDEN}" if question else self.url
        return _repr_without_secrets(self, {**hidden, "args": (HIDDEN,) * len(self.args), "url": url})


class McpConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """MCP servers, and how far their tools may go for one request."""

    servers: dict[str, McpServerConfig] = {}
    """The servers, by names of your own."""
    files: tuple[str, ...] = ()
    """JSON files with `mcpServers`, as other programs have them: their servers are used as well."""
    rounds: Count = 20
    """How often the model may be asked for one request; the last time it is given no tools."""
    calls: Count = 100
    """Calls that are run for one request."""
    parallel: Count = 8
    """Calls that run at the same time for one request."""
    seconds: Seconds = 600.0
    """How long all the rounds of one request may take."""
    result_bytes: Count = 100_000
    """How much of one result the model is given; the rest is cut off, and it is told so."""
    show: bool = True
    """Tell clients of the calls that were run, in the words of their API; false tells them the answer alone."""


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bytes, seconds and counts."""

    body: Annotated[int, Meta(ge=1, le=MAX_DOCUMENT_BYTES)] = 32 * 1024 * 1024
    """Bytes of a request, 64 MB at the most."""
    response: Count = 64 * 1024 * 1024
    """Bytes of an answer that is read as a whole."""
    body_idle: Seconds = 30.0
    """The silence after which a request that is still being sent is given up."""
    body_time: Seconds = 300.0
    """How long a whole request may take to be sent."""
    bodies: Count = 1024 * 1024 * 1024
    """Bytes of memory that the bodies of all requests may take together, in every form that they are held in: about
    four times what was sent. Bodies up to 64 KB are not counted. Workers have equal shares."""
    body_wait: Seconds = 10.0
    """How long a request waits for room among the bodies before it gets status 503."""
    write_idle: Seconds = 120.0
    """How long a client may leave an answer unread."""
    connections: Count = 10_000
    """Connections of clients."""
    concurrent_requests: Count = 2_000
    """Requests that are answered at the same time; further ones get status 503."""
    upstream_connections: Count = 2_000
    """Connections to upstreams, all together."""
    drain: Pause = 30.0
    """How long running requests may go on after SIGTERM."""
    retire: Pause = 600.0
    """How long running requests may go on in a worker that another one has replaced, after SIGUSR2."""
    worker_silence: Seconds = 10.0
    """How long a worker may leave its parent's pings unanswered before it is killed and started again."""
    keepalive: Seconds = 15.0
    """The silence after which a stream's client gets a keep-alive."""
    messages: Count = 100_000
    """Messages of one request."""
    tools: Count = 5_000
    """Tools of one request."""


class ServerConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the gateway listens, and to whom."""

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    """The address to listen on. Beyond loopback, `keys` are needed."""
    port: Annotated[int, Meta(ge=1, le=65535)] = 4141
    """The port to listen on."""
    keys: tuple[Secret, ...] = ()
    """What clients must show. Empty is allowed on loopback alone."""
    hosts: tuple[str, ...] = ()
    """Names that clients may call this server by, beside loopback ones and `host`; `*.` stands for all below a name."""
    origins: tuple[str, ...] = ()
    """Web pages that may call this server, each as scheme://host[:port]."""
    insecure: bool = False
    """Serve beyond loopback without keys."""
    workers: Annotated[int, Meta(ge=1, le=1024)] = 1
    """Processes that serve: one for each core that is to be used. The connections, requests and memory of bodies that
    `limits` allows are shared out equally."""
    warp_bridge: bool = False
    """Also serve `/api/encode`, `/api/decode` and `/api/stream-decode`: Warp's protobuf as JSON, and back."""

    def __repr__(self) -> str:
        return _repr_without_secrets(self, {"keys": (HIDDEN,) * len(self.keys)})


class StoreConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stored responses and conversations."""

    path: str | None = None
    """The SQLite file; without it `toolglot/toolglot.sqlite3` in the user's state folder. `:memory:` forgets everything
    when the gateway ends; `none` keeps nothing at all."""
    max_bytes: Count = 512 * 1024 * 1024
    """Bytes of all that is stored; beyond them the oldest goes."""
    max_age: Seconds = 30 * 24 * 3600.0
    """Seconds after which a response is forgotten."""


class RecordConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Recordings of exchanges, each in a file of its own. Without a `directory` nothing is recorded."""

    directory: Annotated[str, Meta(min_length=1)] | None = None
    """The folder that they are written to. It is made if it is not there."""
    models: tuple[Name, ...] = ()
    """Names or patterns, as clients use them, of the models whose exchanges are recorded; empty: of all."""
    keys: tuple[Name, ...] = ()
    """Labels, as in the log (`key-1` is the first of `server.keys`), of the clients that are recorded; empty: all."""
    redact: tuple[Annotated[str, Meta(min_length=1, max_length=1000)], ...] = ()
    """Regular expressions of what must not be in a recording, beside all keys and tokens."""
    max_bytes: Count = 1024 * 1024 * 1024
    """Bytes of all files together; beyond them the oldest goes."""
    max_files: Count = 10_000
    """Files; beyond them the oldest goes."""
    max_exchange_bytes: Count = 32 * 1024 * 1024
    """Bytes of one file; what is beyond them is not recorded, and the file says so."""


class LogConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line a request, on standard error."""

    format: Literal["auto", "json", "text"] = "auto"
    """`auto`: text on a terminal, JSON otherwise."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Of requests `warning` and `error` tell those that failed; only `debug` tells health checks."""


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of toolglot."""

    server: ServerConfig = ServerConfig()
    """Where the gateway listens, and to whom."""
    upstreams: dict[str, UpstreamConfig] = {}
    """The servers that answer, by names of your own."""
    models: dict[str, ModelConfig] = {}
    """What names of models stand for: exact names first, then patterns from the most to the least specific."""
    default_upstream: str | None = None
    """Where a model goes that nothing else claims."""
    mcp: McpConfig = McpConfig()
    """MCP servers, whose tools the gateway runs."""
    history: HistoryPolicy = HistoryPolicy()
    """How much of a conversation upstreams are sent, and what of it is mended."""
    limits: Limits = Limits()
    """How much, how long, how many."""
    store: StoreConfig = StoreConfig()
    """Where responses are stored, and for how long."""
    record: RecordConfig = RecordConfig()
    """Where exchanges are recorded, if they are."""
    log: LogConfig = LogConfig()
    """What is told on standard error."""
    transport: Literal["lean", "aiohttp"] = "lean"
    """Has no effect: there is one HTTP client. Kept so that older files are read."""
    discover: bool = True
    """Also use the keys in the environment and the local servers that answer."""
    strict: bool = False
    """`strict` for every model."""
