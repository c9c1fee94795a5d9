"""Command groups that suggest the nearest command. Click suggests options, but not commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import click

from toolglot.nearest import nearest


class Group(click.Group):
    meant: ClassVar[Mapping[str, str]] = {}
    """Words that users try as commands, and the commands they mean."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-") and (near := nearest(name, (*known, *self.meant))):
            ctx.fail(f"there is no command {name!r}; did you mean `{self.meant.get(near, near)}`?")
        return super().resolve_command(ctx, args)
