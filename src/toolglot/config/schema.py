"""The configuration schema. The loader checks a file against these records, and the published JSON Schema is generated
from them. Every field has a default, so an empty file is valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import asdict

from toolglot.passes import CacheMarks
from toolglot.passes.history_policy import HistoryPolicy
from toolglot.textcalls.settings import BadCalls
from toolglot.upstream.transport import Timeouts
from toolglot.wire.json import MAX_DOCUMENT_BYTES

if TYPE_CHECKING:
    from toolglot.prices import PriceOverride

YEAR = 366 * 24 * 3600.0

WarpHistory = Literal["replay", "native", "text"]
"""How a conversation is sent to a Warp upstream: `dialects/warp/history.py`."""

ReplaySpeed = Literal["none", "real"]

Secret: TypeAlias = Annotated[str, Meta(min_length=1, extra={"secret": True})]
"""Text that is never printed. It may be a reference to a file (`file:PATH`)."""
Value: TypeAlias = Annotated[str, Meta(extra={"secret": True})]
"""Text that is never printed, and may be empty."""
Quirks: TypeAlias = Annotated[dict[str, Any], Meta(extra={"quirks": True})]
"""Capabilities that differ, by the names of `toolglot.dialect.Capabilities`; the loader converts their values."""
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=512)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=YEAR)]
Pause: TypeAlias = Annotated[float, Meta(ge=0, le=YEAR)]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=2**40)]
Dollars: TypeAlias = Annotated[float, Meta(ge=0, le=1_000_000)]
CountOrNone: TypeAlias = Annotated[int, Meta(ge=0, le=2**40)]
"""0: no limit."""

HIDDEN = "(hidden)"


def _repr_without_secrets(record: Struct, hidden: Mapping[str, object]) -> str:
    """Return a `repr` without secrets, so that neither logs nor tracebacks contain them."""
    values = {name: hidden[name] if value and name in hidden else value for name, value in asdict(record).items()}
    return f"{type(record).__name__}({', '.join(f'{name}={value!r}' for name, value in values.items())})"


class Retries(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often to retry a call that failed before its first byte, and how long to wait (seconds)."""

    attempts: Annotated[int, Meta(ge=1, le=100)] = 3
    """Total number of calls, including the first."""
    first_wait: Pause = 0.5
    """Upper bound of the wait before the first retry. It doubles with each retry; each wait is a random time below
    it."""
    longest_wait: Pause = 30.0
    """Upper bound of every wait, including `Retry-After`. A longer `Retry-After` makes the request go to the next
    fallback or fail."""


class BreakerConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Circuit breaker: after several consecutive failures, an upstream is skipped for a while."""

    failures: Count = 5
    """Consecutive failures that open the breaker."""
    rest: Pause = 30.0
    """Seconds for which the upstream is skipped and fallbacks answer."""


class PoolMemberConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One key or server of an upstream that has several. It differs from the upstream only in these fields."""

    name: Name | None = None
    """Name in logs, metrics and the header `x-toolglot-member`. Default: its position, from 1."""
    key: Secret | None = None
    """API key. Default: the upstream's `key`."""
    base_url: str | None = None
    """Base URL. Default: the upstream's."""
    headers: dict[str, Secret] = {}
    """Extra headers, in addition to the upstream's."""
    weight: Annotated[float, Meta(gt=0, le=1000)] = 1.0
    """Share of the conversations, relative to the other members."""
    quota_group: Name | None = None
    """Members with the same group share their rate limits, usually because their keys belong to one account: when one
    reaches its limit, all of them wait. Default: limits of its own."""

    def __repr__(self) -> str:
        return _repr_without_secrets(self, {"key": HIDDEN, "headers": dict.fromkeys(self.headers, HIDDEN)})


class UpstreamConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One model server. `vendor` supplies defaults for the other fields."""

    vendor: str | None = None
    """A vendor or a type of local server. Default: the upstream's name, if it is a vendor's name."""
    dialect: str | None = None
    """API of the upstream: openai_chat, openai_responses, anthropic, gemini, ollama or warp. Default: the vendor's."""
    base_url: str | None = None
    """Base URL, including the version path if there is one (`/v1`). Default: the vendor's."""
    key: Secret | None = None
    """API key, preferably a reference: `${OPENAI_API_KEY}` or `file:/run/secrets/openai`. Default: the vendor's
    environment variable, unless `base_url` is set."""
    key_header: str | None = None
    """Header that carries the key. Default: the dialect's header. `authorization` adds the prefix `Bearer`."""
    headers: dict[str, Secret] = {}
    """Extra headers for every call."""
    models: tuple[Name, ...] = ()
    """Names or patterns of the models it serves. Requests for these models are routed here."""
    default_model: Name | None = None
    """Model to use for names that reach this upstream only because it is the default. Without it, the requested name is
    sent unchanged."""
    quirks: Quirks = {}
    """Capabilities that differ from the dialect's, by their names in `toolglot dialects --json`."""
    verbatim: bool | None = None
    """Forward bytes unchanged to clients of the same dialect. False decodes and re-encodes them, for servers that omit
    fields that clients need. Default: the vendor's setting."""
    cache_marks: CacheMarks = "auto"
    """When to add prompt-cache breakpoints for clients whose API has none. Only for models that cache nothing without
    them (Claude): `auto` in tool loops and where tools and system text repeat, `always`, or `never`."""
    max_history_messages: CountOrNone | None = None
    """Maximum number of messages to send, not counting system text. The oldest are dropped, calls together with their
    results. 0 means no limit, the default except for Warp (50)."""
    max_tool_results: CountOrNone | None = None
    """Maximum number of tool results to send. The oldest are dropped together with their calls. 0 means no limit, the
    default except for Warp (10)."""
    warp_history: WarpHistory = "replay"
    """Warp only: how to send the conversation. `replay` sends back the server's own messages from the store; `native`
    builds tasks from the client's history; `text` writes everything into one query."""
    disable_warp_tools: bool = True
    """Warp only: offer the model only the client's tools, not the tools of Warp's app."""
    refresh_token: Secret | None = None
    """Warp only: refresh token that renews an expired bearer token. Requires `refresh_key`."""
    refresh_key: Secret | None = None
    """Warp only: API key of the token service."""
    refresh_url: str = "https://securetoken.googleapis.com/v1/token"
    """Warp only: URL of the token service."""
    replay_speed: ReplaySpeed = "none"
    """Recordings only (`base_url = "replay:FOLDER"`): `none` answers without delay, `real` uses the recorded timing."""
    history: HistoryPolicy = HistoryPolicy()
    """How much of a conversation to send, and what to repair in it. These limits cut in steps; `max_history_messages`
    and `max_tool_results` cut exactly to the limit."""
    timeouts: Timeouts = Timeouts()
    """Timeouts of calls."""
    retries: Retries = Retries()
    """Retries after failed calls."""
    breaker: BreakerConfig = BreakerConfig()
    """When to skip the upstream after failures."""
    pool: tuple[PoolMemberConfig, ...] = ()
    """Several keys or servers that share the requests. They speak the same API and have the same models. Conversations
    stay with a member, so that prompt caches are used."""

    def __repr__(self) -> str:
        hidden = dict.fromkeys(("key", "refresh_token", "refresh_key"), HIDDEN)
        return _repr_without_secrets(self, {**hidden, "headers": dict.fromkeys(self.headers, HIDDEN)})


class ModelConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Route for a model name or a pattern of names (`claude-*`)."""

    upstream: str
    """Name of the upstream, as under `upstreams`. `demo` always exists."""
    model: Name | None = None
    """Model name to send to the upstream. Default: the requested name. `*` inserts the text that the pattern's `*`
    matched."""
    fallbacks: tuple[Name, ...] = ()
    """Models to try in order if a call fails before its first byte, by client-facing name or as `upstream/model`. `*`
    works as in `model`. `upstream/model` always goes to that upstream, even if a pattern matches it."""
    strict: bool = False
    """Reject requests and responses that would lose data in translation."""
    context_window: Count | None = None
    """Context window in tokens, reported to clients that list models. Ollama is asked for it with every request that
    does not set `num_ctx`."""
    max_output_tokens: Count | None = None
    """Maximum output in tokens, reported to clients that list models."""
    quirks: Quirks = {}
    """Capabilities that differ from the dialect's, by their names in `toolglot dialects --json`."""
    hidden: bool = False
    """Omit the model from the list of models."""
    tools: Name = "auto"
    """How tools are offered to the model. `native`: through its API. The name of a text format: written into the
    prompt, with calls parsed from the answer. `auto`: native, unless the model is known or found not to support it."""
    bad_calls: BadCalls = "pass"
    """What to do with a text call that cannot be run: `pass` it to the client, `ask` the model once more, or `fail`."""
    rescue: bool | Name = False
    """Extract calls that a native model's server left in the text. True uses the format of the model's family; or name
    a format, or `auto` for any."""
    starts_in_reasoning: bool = False
    """With text tools: the server's template opens the reasoning block, so the answer contains only its end marker."""
    history: Name | HistoryPolicy | None = None
    """How much of a conversation to send, and what to repair in it. A string instead of a table sets only `calls`: the
    text format (or `auto` for any) of calls that old clients wrote into the conversation."""
    mcp: tuple[Name, ...] = ()
    """MCP servers, by their names under `mcp.servers`. The gateway offers their tools to the model in addition to the
    client's, and runs them."""


Policy = Literal["auto", "ask", "never"]
"""Whether a tool runs: always, after approval, or never."""


class McpServerConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One MCP server: a local `command` to start, or the `url` of a remote server."""

    command: Annotated[str, Meta(min_length=1)] | None = None
    """Program to start. It speaks MCP on standard input and output."""
    args: tuple[str, ...] = ()
    """Arguments of the program."""
    env: dict[str, Value] = {}
    """Environment variables, in addition to the few that every program needs."""
    cwd: Annotated[str, Meta(min_length=1)] | None = None
    """Working directory, relative to the configuration file."""
    url: str | None = None
    """URL of a Streamable HTTP server."""
    headers: dict[str, Secret] = {}
    """Extra headers for every request."""
    protocol: Literal["auto", "stateless", "handshake"] = "auto"
    """Protocol generation: `stateless` (2026-07-28 and later), `handshake` (earlier), or `auto` to detect it."""
    policy: Policy = "ask"
    """Whether tools run: `auto`, `ask` or `never`. `ask` runs tools that declare themselves read-only; others need
    approval, and are not offered to the model where no user can approve."""
    tools: dict[str, Policy] = {}
    """Policies of single tools, by name or pattern (`read_*`). The most specific match wins."""
    timeout: Seconds = 60.0
    """Time limit of one call, in seconds."""
    start_timeout: Seconds = 30.0
    """Time limit of the start, or of the first response, in seconds."""
    by_header: bool = True
    """Let clients use the tools with any model, through the header `x-toolglot-mcp` or by naming the server's
    address."""
    may_waive: bool = True
    """Let clients that name the server approve all calls in advance (`require_approval: never`). False: each call that
    `ask` covers needs its own approval."""
    keys: tuple[Name, ...] = ()
    """Labels of the keys that may use the tools (`key-1` is the first of `server.keys`). Empty: all keys."""

    def __repr__(self) -> str:
        hidden = {name: dict.fromkeys(getattr(self, name), HIDDEN) for name in ("env", "headers")}
        # An address may have a key in its query.
        address, question, _ = (self.url or "").partition("?")
        url = f"{address}?{HIDDEN}" if question else self.url
        return _repr_without_secrets(self, {**hidden, "args": (HIDDEN,) * len(self.args), "url": url})


class McpConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """MCP servers, and the limits of tool use for one request."""

    servers: dict[str, McpServerConfig] = {}
    """The servers, by names that you choose."""
    files: tuple[str, ...] = ()
    """JSON files with `mcpServers`, in the format of other programs. Their servers are added."""
    rounds: Count = 20
    """Maximum number of model calls for one request. In the last call the model must answer without tools."""
    calls: Count = 100
    """Maximum number of tool calls for one request."""
    parallel: Count = 8
    """Maximum number of concurrent tool calls for one request."""
    seconds: Seconds = 600.0
    """Time limit of all rounds of one request, in seconds."""
    result_bytes: Count = 100_000
    """Maximum size of one result. The rest is cut off, and the model sees a note about it."""
    show: bool = True
    """Report the calls to the client in its API's format. False: the client sees only the answer."""


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits in bytes, seconds and counts."""

    body: Annotated[int, Meta(ge=1, le=MAX_DOCUMENT_BYTES)] = 32 * 1024 * 1024
    """Maximum size of a request, at most 64 MB."""
    response: Count = 64 * 1024 * 1024
    """Maximum size of a response that is read in full."""
    body_idle: Seconds = 30.0
    """Idle time after which an unfinished request is dropped."""
    body_time: Seconds = 300.0
    """Time limit for receiving a whole request."""
    bodies: Count = 1024 * 1024 * 1024
    """Memory for the bodies of all requests together, in all their forms: about four times the bytes received. Bodies
    up to 64 KB are not counted. Workers get equal shares."""
    body_wait: Seconds = 10.0
    """How long a request waits for this memory before it gets status 503."""
    write_idle: Seconds = 120.0
    """How long a client may leave a response unread."""
    connections: Count = 10_000
    """Maximum number of client connections."""
    concurrent_requests: Count = 2_000
    """Maximum number of concurrent requests; further requests get status 503."""
    upstream_connections: Count = 2_000
    """Maximum number of connections to all upstreams together."""
    drain: Pause = 30.0
    """How long running requests may continue after SIGTERM."""
    retire: Pause = 600.0
    """How long running requests may continue in a worker that was replaced after SIGUSR2."""
    worker_silence: Seconds = 10.0
    """How long a worker may leave pings unanswered before it is killed and restarted."""
    keepalive: Seconds = 15.0
    """Idle time after which a streaming client gets a keep-alive."""
    messages: Count = 100_000
    """Maximum number of messages in one request."""
    tools: Count = 5_000
    """Maximum number of tools in one request."""


class ServerConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the gateway listens, and which clients it accepts."""

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    """Address to listen on. Addresses other than loopback require `keys`."""
    port: Annotated[int, Meta(ge=1, le=65535)] = 4141
    """Port to listen on."""
    keys: tuple[Secret, ...] = ()
    """Accepted client keys; a client must send one of them. May be empty only on loopback."""
    hosts: tuple[str, ...] = ()
    """Host names that clients may use for this server, in addition to loopback names and `host`. `*.` matches all
    subdomains."""
    origins: tuple[str, ...] = ()
    """Web origins that may call this server, each as scheme://host[:port]."""
    insecure: bool = False
    """Allow other machines to connect without keys."""
    workers: Annotated[int, Meta(ge=1, le=1024)] = 1
    """Number of worker processes; use one per core. Workers get equal shares of the connections, requests and body
    memory in `limits`."""
    warp_bridge: bool = False
    """Also serve `/api/encode`, `/api/decode` and `/api/stream-decode`, which convert Warp's protobuf to JSON and
    back."""

    def __repr__(self) -> str:
        return _repr_without_secrets(self, {"keys": (HIDDEN,) * len(self.keys)})


class StoreConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stored responses and conversations."""

    path: str | None = None
    """SQLite file. Default: `toolglot/toolglot.sqlite3` in the user's state directory. `:memory:` keeps data until the
    gateway exits; `none` stores nothing."""
    max_bytes: Count = 512 * 1024 * 1024
    """Maximum size of the stored data. The oldest data is deleted first."""
    max_age: Seconds = 30 * 24 * 3600.0
    """Seconds after which a response is deleted."""


POSTGRES = ("postgresql://", "postgres://")
REDIS = ("redis://", "rediss://", "unix://")
"""Beginnings of the addresses of servers that gateways share."""


class ProxyConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A proxy that signs people in, and sends their names. Its headers count only in requests from its own address that
    carry the shared secret."""

    secret: Secret
    """Secret that the proxy sends in `secret_header`."""
    peers: tuple[Name, ...] = ("127.0.0.1", "::1")
    """Addresses or networks of the proxy."""
    secret_header: Name = "x-toolglot-proxy-secret"
    """Header with the secret, in lower case."""
    header: Name = "x-forwarded-email"
    """Header with the person's name, in lower case."""
    groups_header: Name = "x-forwarded-groups"
    """Header with the person's groups, separated by commas, in lower case."""

    def __repr__(self) -> str:
        return _repr_without_secrets(self, {"secret": HIDDEN})


class OidcConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An identity provider with which people sign in at `/auth/login` (OpenID Connect)."""

    issuer: Name
    """URL of the provider. Its metadata is at `/.well-known/openid-configuration` below it."""
    client_id: Name
    """Id of this gateway at the provider."""
    client_secret: Secret
    """Secret of this gateway at the provider."""
    redirect_url: Name
    """URL of this gateway's `/auth/callback`, exactly as the provider knows it."""
    scope: Name = "openid email profile"
    """Scopes to request. Some providers send groups only for a scope of their own."""
    groups_claim: Name = "groups"
    """Claim of the ID token that has the person's groups."""
    session_seconds: Count = 8 * 3600
    """Seconds after which a person must sign in again."""

    def __repr__(self) -> str:
        return _repr_without_secrets(self, {"client_secret": HIDDEN})


class TeamConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keys for a team: each with an owner, allowed models, limits and budgets. `toolglot keys` creates them."""

    enabled: bool = False
    """Require a key for every request: one that `toolglot keys create` made, or one of `server.keys`."""
    database: Value | None = None
    """SQLite file with keys and spend. Default: `toolglot/team.sqlite3` in the user's state directory. Gateways on
    several machines share a PostgreSQL database: `postgresql://user:password@host/name` (extra `postgres`)."""
    admins: dict[str, Secret] = {}
    """Credentials of the admin API (`/admin/v1`), by the names of those who use them. They are no keys for models."""
    viewers: dict[str, Secret] = {}
    """Credentials that may only read: keys, spend, the audit log and metrics."""
    admin_groups: tuple[Name, ...] = ()
    """Groups of people who administer the team after they have signed in."""
    viewer_groups: tuple[Name, ...] = ()
    """Groups of people who may only read."""
    proxy: ProxyConfig | None = None
    """A proxy that signs people in."""
    oidc: OidcConfig | None = None
    """An identity provider with which people sign in."""
    spool: Annotated[str, Meta(min_length=1)] | None = None
    """Directory in which usage waits until it is in the database. Default: beside the database, or in the user's state
    directory."""
    unknown_price: Literal["deny", "allow"] = "deny"
    """What happens if a key with a budget in USD requests a model whose price is unknown: `deny` refuses the request,
    `allow` answers it; its tokens count, its cost does not."""
    hold_output: Count = 8192
    """Maximum number of output tokens that a running request reserves from a budget. Agents ask for many more tokens
    than they use."""
    limits: Value | None = None
    """Where limits are counted, if several gateways share them: `redis://:password@host:6379/0` (Redis or Valkey), or
    the path of a file for gateways on one machine. Default: in memory, or in a file beside the database with several
    `workers`."""
    pepper: Value = ""
    """Secret that is mixed into the hashes of keys, so that a copy of the database alone is worth nothing. If it
    changes, all keys become invalid."""

    def __repr__(self) -> str:
        operators = {name: dict.fromkeys(getattr(self, name), HIDDEN) for name in ("admins", "viewers")}
        return _repr_without_secrets(self, {**dict.fromkeys(("database", "limits", "pepper"), HIDDEN), **operators})


class RecordConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Recordings of exchanges, one file each. Recording is off without a `directory`."""

    directory: Annotated[str, Meta(min_length=1)] | None = None
    """Directory for the recordings. It is created if it does not exist."""
    models: tuple[Name, ...] = ()
    """Record only these models, by client-facing names or patterns. Empty: all."""
    keys: tuple[Name, ...] = ()
    """Record only clients with these key labels (`key-1` is the first of `server.keys`). Empty: all."""
    redact: tuple[Annotated[str, Meta(min_length=1, max_length=1000)], ...] = ()
    """Regular expressions for text to redact, in addition to all keys and tokens."""
    max_bytes: Count = 1024 * 1024 * 1024
    """Maximum total size. The oldest files are deleted first."""
    max_files: Count = 10_000
    """Maximum number of files. The oldest files are deleted first."""
    max_exchange_bytes: Count = 32 * 1024 * 1024
    """Maximum size of one file. The rest is not recorded, and the file says so."""


class LogConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Log on standard error, one line per request."""

    format: Literal["auto", "json", "text"] = "auto"
    """`auto`: text on a terminal, JSON otherwise."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """`warning` and `error` log only failed requests; only `debug` logs health checks."""


class PriceConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Price of a model, or of `upstream/model`, in USD per million tokens. Each field replaces that of the table of
    prices, for requests of every size, hour and service tier."""

    input: Dollars | None = None
    """Input tokens. A free model has `input = 0` and `output = 0`."""
    output: Dollars | None = None
    """Output tokens, including reasoning."""
    cache_read: Dollars | None = None
    """Input tokens read from the prompt cache. Default: the table's, or `input`."""
    cache_write: Dollars | None = None
    """Input tokens written to the prompt cache. Default: the table's, or `input`."""
    cache_write_long: Dollars | None = None
    """Those written with the longer lifetime (Anthropic: an hour, OpenAI: twelve hours). Default: the table's."""

    def to_override(self) -> PriceOverride:
        from toolglot.prices import PriceOverride

        nano = {name: None if usd is None else round(usd * 1_000_000_000) for name, usd in asdict(self).items()}
        return PriceOverride(**nano)


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The configuration of toolglot."""

    server: ServerConfig = ServerConfig()
    """Where the gateway listens, and which clients it accepts."""
    upstreams: dict[str, UpstreamConfig] = {}
    """Model servers, by names that you choose."""
    models: dict[str, ModelConfig] = {}
    """Routes for model names: exact names first, then patterns from most to least specific."""
    default_upstream: str | None = None
    """Upstream for models without another route."""
    prices: dict[str, PriceConfig] = {}
    """Prices of models, by name or as `upstream/model`, where the table of prices has none or another."""
    mcp: McpConfig = McpConfig()
    """MCP servers whose tools the gateway runs."""
    history: HistoryPolicy = HistoryPolicy()
    """How much of a conversation to send to upstreams, and what to repair in it."""
    limits: Limits = Limits()
    """Limits in bytes, seconds and counts."""
    store: StoreConfig = StoreConfig()
    """Where responses are stored, and for how long."""
    team: TeamConfig = TeamConfig()
    """Keys for a team, with limits and budgets."""
    record: RecordConfig = RecordConfig()
    """Recordings of exchanges."""
    log: LogConfig = LogConfig()
    """Log on standard error."""
    transport: Literal["lean", "aiohttp"] = "lean"
    """Has no effect: there is only one HTTP client. Accepted so that older files still load."""
    discover: bool = True
    """Also use API keys from the environment and local servers that respond."""
    strict: bool = False
    """Apply `strict` to every model."""
