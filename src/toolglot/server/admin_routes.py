"""The admin API: the keys of a team, their spend, and the audit log.

Its credentials (`team.admins`, `team.viewers`) cannot call models, and model keys cannot call the admin API.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from time import time
from typing import Any

import msgspec
from msgspec.structs import asdict

from toolglot.errors import ApiError, DecodeError
from toolglot.gateway.errors import FailedError
from toolglot.server.asgi_request import AsgiRequest
from toolglot.server.routes import Match
from toolglot.server.service import Service
from toolglot.store import StoreError
from toolglot.team import sql
from toolglot.team.administration import (
    OVERLAP,
    AdministrationError,
    Administrator,
    CreatedKey,
    KeyChanges,
    describe_key,
    describe_limits,
    format_time,
)
from toolglot.team.keys import ApiKey, KeyStatus
from toolglot.team.limits import day_of, end_of, month_of
from toolglot.team.reports import describe_spend
from toolglot.team.service import Team
from toolglot.wire import json

_JSON = {"content-type": "application/json"}
_PAGE = 100
_MOST_ROWS = 1000
_MOST_DIGITS = 19
_STATUSES = {"key_not_found": 404, "name_taken": 409, "key_revoked": 409}


class _NewKey(KeyChanges, kw_only=True):
    name: str


class _Rotation(msgspec.Struct, forbid_unknown_fields=True):
    overlap: float = OVERLAP
    """Seconds for which the old secrets remain valid."""


_new_keys = msgspec.json.Decoder(_NewKey)
_changes = msgspec.json.Decoder(KeyChanges)
_rotations = msgspec.json.Decoder(_Rotation)


async def administer(service: Service, incoming: AsgiRequest, match: Match) -> None:
    """Answer a request of the admin API."""
    team = service.team
    if team is None:
        message = f"{match.route.path} is disabled: set `enabled` under `team` in the configuration"
        raise FailedError(ApiError(kind="not_found", code="unknown_path", message=message))
    handler = _HANDLERS[match.route.method, match.route.path]
    try:
        status, document = await handler(team, incoming, match.values)
    except AdministrationError as error:
        status = _STATUSES.get(error.code, 400)
        kind = "not_found" if status == 404 else "conflict" if status == 409 else "bad_request"
        raise FailedError(ApiError(kind=kind, code=error.code, message=str(error))) from None  # type: ignore[arg-type]
    except StoreError as error:
        message = f"The team database does not answer: {error}"
        away = ApiError(kind="overloaded", status=503, code="database_unavailable", message=message, retry_after=2.0)
        raise FailedError(away) from None
    await incoming.reply(status, _JSON, json.encode(document))


def _administrator(team: Team, incoming: AsgiRequest) -> Administrator:
    operator = incoming.operator
    assert operator is not None
    return Administrator(team.database, f"{operator.role}:{operator.name}", team.config.pepper)


async def _read(incoming: AsgiRequest, decoder: msgspec.json.Decoder[Any]) -> Any:
    """Decode the body. An empty body counts as an empty object."""
    body = await incoming.body() or b"{}"
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        message = str(error)
        what, _, where = message.partition(" - at `")
        raise DecodeError(where.rstrip("`") or "$", what) from None
    except msgspec.DecodeError as error:
        raise DecodeError("$", f"not JSON: {error}") from None


def _count(incoming: AsgiRequest, name: str, default: int, most: int) -> int:
    text = incoming.query.get(name, str(default))
    if not text.isascii() or not text.isdecimal() or len(text) > _MOST_DIGITS or not 1 <= int(text) <= most:
        message = f"{name}: expected a number from 1 to {most}"
        raise FailedError(ApiError(kind="bad_request", code="bad_parameter", param=name, message=message))
    return int(text)


# Keys


async def _list_keys(team: Team, incoming: AsgiRequest, values: Mapping[str, str]) -> tuple[int, Any]:
    limit = _count(incoming, "limit", _PAGE, _MOST_ROWS)
    found = await _administrator(team, incoming).list_keys(incoming.query.get("after", ""), limit + 1)
    listed = [describe_key(key, secrets) for key, secrets in found[:limit]]
    return 200, {"keys": listed, "next": listed[-1]["name"] if len(found) > limit else None}


async def _create_key(team: Team, incoming: AsgiRequest, values: Mapping[str, str]) -> tuple[int, Any]:
    asked = await _read(incoming, _new_keys)
    return 201, _describe_created(await _administrator(team, incoming).create(asked.name, asked, time()))


async def _show_key(team: Team, incoming: AsgiRequest, values: Mapping[str, str]) -> tuple[int, Any]:
    administrator = _administrator(team, incoming)
    key = await administrator.find(values["id"])
    return 200, describe_key(key, await administrator.secrets(key))


async def _change_key(team: Team, incoming: AsgiRequest, values: Mapping[str, str]) -> tuple[int, Any]:
    changes = await _read(incoming, _changes)
    administrator = _administrator(team, incoming)
    key = await administrator.change(values["id"], changes, time())
    return 200, describe_key(key, await administrator.secrets(key))


async def _rotate_key(team: Team, incoming: AsgiRequest, values: Mapping[str, str]) -> tuple[int, Any]:
    rotation = await _read(incoming, _rotations)
    if not 0 <= rotation.overlap <= 366 * 86400:
        raise AdministrationError("bad_overlap", "overlap: expected a number of seconds, at most a year")
    return 200, _describe_created(await _administrator(team, incoming).rotate(values["id"], time(), rotation.overlap))


async def _set_status(
    status: KeyStatus, team: Team, incoming: AsgiRequest, values: Mapping[str, str]
) -> tuple[int, Any]:
    administrator = _administrator(team, incoming)
    key = await administrator.set_status(values["id"], status, time())
    return 200, describe_key(key, await administrator.secrets(key))


def _describe_created(created: CreatedKey) -> dict[str, Any]:
    return {**describe_key(created.key), "secret": created.secret}


# Reports


async def _report_spend(team: Team, incoming: AsgiRequest, values: Mapping[str, str]) -> tuple[int, Any]:
    query = incoming.query
    groups = tuple(dict.fromkeys(query.get("by", "key").split(",")))
    for group in groups:
        if group not in sql.GROUPS:
            raise AdministrationError("bad_parameter", f"by: expected a list, with commas, of {', '.join(sql.GROUPS)}")
    today = datetime.now(UTC).date()
    since = _day(query.get("since") or (today - timedelta(days=30)).isoformat(), "since")
    until = _day(query.get("until") or today.isoformat(), "until")
    report = partial(sql.report_spend, since, until, groups, query.get("key"))
    rows = await team.database.run(report, writes=False)
    return 200, {"since": since, "until": until, "spend": [describe_spend(row, groups) for row in rows]}


def _day(text: str, name: str) -> str:
    try:
        return datetime.strptime(text, "%Y-%m-%d").date().isoformat()
    except ValueError:
        raise AdministrationError("bad_parameter", f"{name}: expected a day, for example 2026-11-18") from None


async def _list_audit(team: Team, incoming: AsgiRequest, values: Mapping[str, str]) -> tuple[int, Any]:
    limit = _count(incoming, "limit", _PAGE, _MOST_ROWS)
    before = _count(incoming, "before", 2**62, 2**62)
    entries = await team.database.run(partial(sql.list_audit, before, limit), writes=False)
    listed = [
        {**asdict(entry), "at": format_time(entry.at), "before": _raw(entry.before), "after": _raw(entry.after)}
        for entry in entries
    ]
    return 200, {"entries": listed, "next": entries[-1].seq if len(entries) == limit else None}


def _raw(text: str | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text.encode())


async def show_own_key(service: Service, incoming: AsgiRequest, match: Match) -> None:
    """Show a client its own key: its permissions and remaining budgets."""
    team, account = service.team, incoming.caller.account
    if team is None or account is None:
        message = "This key is not a team key, so it has no limits"
        raise FailedError(ApiError(kind="not_found", code="key_not_found", message=message))
    await incoming.reply(200, _JSON, json.encode(await _describe_own(team, account.key)))


async def _describe_own(team: Team, key: ApiKey) -> dict[str, Any]:
    now = time()
    windows = (day_of(now), month_of(now))
    amounts = await team.read_counts(key, windows)
    described = describe_key(key)
    hidden = ("id", "created_by", "secrets", "tags")
    spent = {}
    for name, window, each in zip(("day", "month"), windows, amounts, strict=True):
        spent[name] = {
            **describe_limits(each.tokens, each.nano_usd),
            "renews": format_time(round(end_of(window) * 1000)),
        }
    return {**{name: value for name, value in described.items() if name not in hidden}, "spent": spent}


Handler = Callable[[Team, AsgiRequest, Mapping[str, str]], Awaitable[tuple[int, Any]]]
_HANDLERS: dict[tuple[str, str], Handler] = {
    ("GET", "/admin/v1/keys"): _list_keys,
    ("POST", "/admin/v1/keys"): _create_key,
    ("GET", "/admin/v1/keys/{id}"): _show_key,
    ("PATCH", "/admin/v1/keys/{id}"): _change_key,
    ("POST", "/admin/v1/keys/{id}/rotate"): _rotate_key,
    ("POST", "/admin/v1/keys/{id}/suspend"): partial(_set_status, "suspended"),
    ("POST", "/admin/v1/keys/{id}/resume"): partial(_set_status, "active"),
    ("POST", "/admin/v1/keys/{id}/revoke"): partial(_set_status, "revoked"),
    ("GET", "/admin/v1/spend"): _report_spend,
    ("GET", "/admin/v1/audit"): _list_audit,
}
"""Viewers may use the methods that only read."""
