"""What of MCP servers must not reach a log, and what of it no model may see either.

Whatever is in here is blotted out wherever it stands. So a value is left out that is no secret and would take half of
a log with it: one that is short (`1`, `true`, `prod`), one plain word, a path. Where the name of a variable, a header
or an option speaks of a secret, any value of six characters counts, whatever it looks like, but for words that say how
a secret is used (`AUTH_MODE=bearer`).

What models see has less blotted out: what is a secret by its name, or by its place in an address. Anything else (an id,
a folder) may well be what a tool is asked about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from toolglot.config.schema import Config, McpServerConfig

SHORTEST = 6
_NAMED = re.compile(
    r"key|token|secret|pass[wpc]|pwd|auth(?!or(?!i[sz]))|credential|cookie|session|signature|dsn|private|bearer|jwt"
    r"|webhook|conn(?:ection)?[_-]?str|(?<![a-z])(?:pat|pass|pw|sig)(?![a-z])",
    re.IGNORECASE,
)
"""Names that speak of a secret: short words only where they stand alone (not `PATH`), and no `GIT_AUTHOR_NAME`."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_USES = frozenset(
    {"basic", "bearer", "oauth2", "header", "cookie", "session", "password", "required", "optional"}
    | {"enabled", "disabled", "default", "public", "private", "always"}
)
_HARMLESS = re.compile(r"[A-Za-z]+|[0-9.]+|(?:~|\.{0,2}|[A-Za-z]:)[/\\][\w./\\ @-]*")
_ORDINARY = re.compile(
    r"[A-Za-z]{1,24}|[0-9.]{1,10}|[a-z*]+/[a-z*][a-z.+*-]*(?:; ?[a-z]+=[a-z0-9.-]{1,12})*"
    r"(?:, ?[a-z*]+/[a-z*][a-z.+*-]*(?:; ?[a-z]+=[a-z0-9.-]{1,12})*)*"
)
"""Values of headers that are no secret: a word, a number, media types. They may stand in a conversation, as a part of
its protocol (`assistant`, `application/json`)."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9-]* +(?=\S)")
_OPTION = re.compile(r"-{1,2}([A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)
_SEGMENT = re.compile(r"[A-Za-z0-9_=.~-]{20,}")
_LINE = 16


def mcp_secrets(config: Config) -> tuple[str, ...]:
    """Values of environments and headers, and what addresses and arguments hold of credentials; each once."""
    found = [secret for server in config.mcp.servers.values() for secret in _of_server(server)]
    return _counted(found)


def credentials_of(server: McpServerConfig) -> tuple[str, ...]:
    """What no model may see of a server's configuration; each once."""
    return _counted(_credentials(server))


def header_secrets(headers: Mapping[str, str]) -> Iterator[str]:
    """What configured headers hold of credentials: any value, unless it is an ordinary one under an ordinary name."""
    for name, value in headers.items():
        if _tells(name, _bare(value)) or not (_ORDINARY.fullmatch(value) or _is_open_address(value)):
            # Texts may have the credential without the word before it.
            yield from (value, _bare(value))


def _is_open_address(value: str) -> bool:
    return _is_address(value) and not [*_of_address(value, ours=True)]


def _counted(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(secret for secret in found if len(secret) >= SHORTEST))


def _of_server(server: McpServerConfig) -> Iterator[str]:
    for value in server.env.values():
        if not (_HARMLESS.fullmatch(value) or _is_address(value)):
            yield value
    yield from header_secrets(server.headers)
    yield from _credentials(server)


def _credentials(server: McpServerConfig) -> Iterator[str]:
    for name, value in server.env.items():
        yield from _of_value(name, value)
    for name, value in server.headers.items():
        if _tells(name, _bare(value)):
            yield _bare(value)
    yield from _of_address(server.url or "", ours=True)
    yield from _of_arguments(server.args)


def _bare(header: str) -> str:
    return _SCHEME.sub("", header, count=1).strip()


def _of_value(name: str, value: str) -> Iterator[str]:
    if _tells(name, value.strip()):
        yield from (value, value.strip())
        # Of a key in many lines any may be shown, and in quoted text they end otherwise.
        yield from (line for line in value.split() if "\n" in value and len(line) >= _LINE)
    yield from _of_address(value.strip())


def _tells(name: str, value: str) -> bool:
    """Is this value a secret by its name? A short number under `MAX_TOKENS` is none."""
    if value.isdecimal() and len(value) < 10:
        return False
    return _NAMED.search(_CAMEL.sub("_", name)) is not None and value.lower() not in _USES


def _is_address(value: str) -> bool:
    return re.match(r"[a-z][a-z0-9+.-]*://", value, re.IGNORECASE) is not None


def _of_address(url: str, *, ours: bool = False) -> Iterator[str]:
    """The password, or a name that stands there instead of one; what the query says under a telling name; and of a
    server's own address (`ours`) the name beside a password and what in its path looks like a key."""
    if not _is_address(url):
        return
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    yield from _of_user(parts, ours)
    for name, value in parse_qsl(parts.query):
        if _tells(name, value):
            yield value
    if ours:
        yield from (segment for segment in parts.path.split("/") if _SEGMENT.fullmatch(segment) and _is_mixed(segment))


def _of_user(parts: SplitResult, ours: bool) -> Iterator[str]:
    name, password = parts.username, parts.password
    for part in (password or name, name if ours else None):
        if part:
            yield from (part, unquote(part))


def _is_mixed(text: str) -> bool:
    """Keys have digits, and more than the years and versions of words do."""
    return sum(char.isdigit() for char in text) >= 3


def _of_arguments(arguments: Iterable[str]) -> Iterator[str]:
    before = ""
    for argument in arguments:
        option = _OPTION.fullmatch(argument)
        if option is None and before:
            yield from _of_value(before, argument)
        yield from _of_address(argument)
        if option is not None and option[2] is not None:
            yield from _of_value(option[1], option[2])
        before = option[1] if option is not None and option[2] is None else ""
