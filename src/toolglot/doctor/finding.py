"""A result of the examination."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Status = Literal["ok", "warn", "fail"]


class Finding(Struct, frozen=True, kw_only=True):
    """A result of `toolglot doctor`. `warn`: it works, but perhaps not as expected. `fail`: something will not work. A
    finding never contains a key."""

    status: Status
    check: str
    """The check: `config`, `port`, `upstream` …"""
    subject: str = ""
    """The checked item, for example the upstream's name."""
    what: str
    advice: str | None = None
    """How to fix the problem."""
    command: tuple[str, ...] | None = None
    """A command that uses the result."""


def ok(check: str, what: str, subject: str = "") -> Finding:
    return Finding(status="ok", check=check, subject=subject, what=what)


def warn(check: str, what: str, advice: str | None = None, subject: str = "") -> Finding:
    return Finding(status="warn", check=check, subject=subject, what=what, advice=advice)


def fail(check: str, what: str, advice: str | None = None, subject: str = "") -> Finding:
    return Finding(status="fail", check=check, subject=subject, what=what, advice=advice)
