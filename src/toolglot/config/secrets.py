"""Secrets that must not reach a log: of MCP servers, and of a team. Models must not see some of them either.

Everything listed here is redacted wherever it occurs. So values that are not secret, and would redact much of a log,
are excluded: short ones (`1`, `true`, `prod`), one plain word, a path. If the name of a variable, a header or an option
indicates a secret, any value of six characters counts, except for words that say how a secret is used
(`AUTH_MODE=bearer`).

Less is redacted for models: only values that are secrets by their names, or by their positions in an address. Other
values (an id, a folder) may be the subject of a tool call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from toolglot.config.schema import Config, McpServerConfig, TeamConfig

MIN_SECRET_LENGTH = 6
_SECRET_NAME = re.compile(
    r"key|token|secret|pass[wpc]|pwd|auth(?!or(?!i[sz]))|credential|cookie|session|signature|dsn|private|bearer|jwt"
    r"|webhook|conn(?:ection)?[_-]?str|(?<![a-z])(?:pat|pass|pw|sig)(?![a-z])",
    re.IGNORECASE,
)
"""Names that indicate a secret: short words only as whole words (not `PATH`), and no `GIT_AUTHOR_NAME`."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_USAGE_WORDS = frozenset(
    {"basic", "bearer", "oauth2", "header", "cookie", "session", "password", "required", "optional"}
    | {"enabled", "disabled", "default", "public", "private", "always"}
)
_HARMLESS_NAMES = re.compile(r"[A-Za-z]+|[0-9.]+|(?:~|\.{0,2}|[A-Za-z]:)[/\\][\w./\\ @-]*")
_ORDINARY_VALUE = re.compile(
    r"[A-Za-z]{1,24}|[0-9.]{1,10}|[a-z*]+/[a-z*][a-z.+*-]*(?:; ?[a-z]+=[a-z0-9.-]{1,12})*"
    r"(?:, ?[a-z*]+/[a-z*][a-z.+*-]*(?:; ?[a-z]+=[a-z0-9.-]{1,12})*)*"
)
"""Header values that are not secret: a word, a number, media types. They may occur in a conversation, as a part of its
protocol (`assistant`, `application/json`)."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9-]* +(?=\S)")
_OPTION = re.compile(r"-{1,2}([A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)
_SEGMENT = re.compile(r"[A-Za-z0-9_=.~-]{20,}")
_LINE = 16


def mcp_secrets(config: Config) -> tuple[str, ...]:
    """Return the values of environments and headers, and credentials in addresses and arguments; each once."""
    found = [secret for server in config.mcp.servers.values() for secret in _server_secrets(server)]
    return _unique(found)


def team_secrets(team: TeamConfig) -> tuple[str, ...]:
    """Return the credentials of a team's operators, its pepper, and the passwords of its servers."""
    addresses = [urlsplit(address) for address in (team.database, team.limits) if address and "://" in address]
    passwords = [unquote(address.password) for address in addresses if address.password]
    people = [
        "" if team.oidc is None else team.oidc.client_secret,
        "" if team.proxy is None else team.proxy.secret,
    ]
    return _unique([team.pepper, *team.admins.values(), *team.viewers.values(), *people, *passwords])


def credentials_of(server: McpServerConfig) -> tuple[str, ...]:
    """Return the secrets of a server's configuration that models must not see; each once."""
    return _unique(_server_credentials(server))


def header_secrets(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the credentials in configured headers: any value, unless it is an ordinary one under an ordinary name."""
    for name, value in headers.items():
        if _is_secret_by_name(name, _without_scheme(value)) or not (
            _ORDINARY_VALUE.fullmatch(value) or _is_open_address(value)
        ):
            # Texts may contain the credential without its scheme.
            yield from (value, _without_scheme(value))


def _is_open_address(value: str) -> bool:
    return _is_address(value) and not [*_address_secrets(value, ours=True)]


def _unique(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(secret for secret in found if len(secret) >= MIN_SECRET_LENGTH))


def _server_secrets(server: McpServerConfig) -> Iterator[str]:
    for value in server.env.values():
        if not (_HARMLESS_NAMES.fullmatch(value) or _is_address(value)):
            yield value
    yield from header_secrets(server.headers)
    yield from _server_credentials(server)


def _server_credentials(server: McpServerConfig) -> Iterator[str]:
    for name, value in server.env.items():
        yield from _value_secrets(name, value)
    for name, value in server.headers.items():
        if _is_secret_by_name(name, _without_scheme(value)):
            yield _without_scheme(value)
    yield from _address_secrets(server.url or "", ours=True)
    yield from _argument_secrets(server.args)


def _without_scheme(header: str) -> str:
    return _SCHEME.sub("", header, count=1).strip()


def _value_secrets(name: str, value: str) -> Iterator[str]:
    if _is_secret_by_name(name, value.strip()):
        yield from (value, value.strip())
        # Any line of a multi-line key may be shown, and in quoted text the lines end differently.
        yield from (line for line in value.split() if "\n" in value and len(line) >= _LINE)
    yield from _address_secrets(value.strip())


def _is_secret_by_name(name: str, value: str) -> bool:
    """Return whether this value is a secret by its name. A short number under `MAX_TOKENS` is not."""
    if value.isdecimal() and len(value) < 10:
        return False
    return _SECRET_NAME.search(_CAMEL.sub("_", name)) is not None and value.lower() not in _USAGE_WORDS


def _is_address(value: str) -> bool:
    return re.match(r"[a-z][a-z0-9+.-]*://", value, re.IGNORECASE) is not None


def _address_secrets(url: str, *, ours: bool = False) -> Iterator[str]:
    """Yield the password, or a user name in its place; query values with secret names; and for a server's own address
    (`ours`) the name beside a password and path segments that look like a key."""
    if not _is_address(url):
        return
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    yield from _user_secrets(parts, ours)
    for name, value in parse_qsl(parts.query):
        if _is_secret_by_name(name, value):
            yield value
    if ours:
        yield from (segment for segment in parts.path.split("/") if _SEGMENT.fullmatch(segment) and _is_mixed(segment))


def _user_secrets(parts: SplitResult, ours: bool) -> Iterator[str]:
    name, password = parts.username, parts.password
    for part in (password or name, name if ours else None):
        if part:
            yield from (part, unquote(part))


def _is_mixed(text: str) -> bool:
    """Return whether a text looks like a key: it has digits, and more than the years and versions in words."""
    return sum(char.isdigit() for char in text) >= 3


def _argument_secrets(arguments: Iterable[str]) -> Iterator[str]:
    before = ""
    for argument in arguments:
        option = _OPTION.fullmatch(argument)
        if option is None and before:
            yield from _value_secrets(before, argument)
        yield from _address_secrets(argument)
        if option is not None and option[2] is not None:
            yield from _value_secrets(option[1], option[2])
        before = option[1] if option is not None and option[2] is None else ""
