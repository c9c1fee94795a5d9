"""Save what the probes found where the gateway looks, so that `auto` knows how to give a model tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import time

from toolglot.config.schema import StoreConfig
from toolglot.doctor.finding import Finding, ok, warn
from toolglot.doctor.probes import ProbeResult
from toolglot.store import StoreError, ToolVerdict
from toolglot.store.sqlite import MEMORY, NO_STORE, SqliteStore, default_path
from toolglot.upstream.tool_mode import PROBE_TTL


async def save_verdicts(
    probed: Sequence[ProbeResult], config: StoreConfig, environ: Mapping[str, str]
) -> list[Finding]:
    """Nothing is saved for vendors whose models all take tools, nor if the store keeps nothing."""
    now = time()
    verdicts = [
        ToolVerdict(
            upstream=one.model.upstream.base_url,
            model=one.model.target.model,
            tools=one.tools,
            found=now,
            until=now + PROBE_TTL,
        )
        for one in probed
        if one.tools is not None and not one.model.upstream.native_tools
    ]
    path = config.path or str(default_path(environ, Path(environ.get("HOME") or "~").expanduser()))
    if path in (MEMORY, NO_STORE) and any(verdict.tools == "text" for verdict in verdicts):
        advice = "set the format in their sections: `tools = …`; otherwise they count as native until a request fails"
        where = "it is in memory only" if path == MEMORY else "there is none"
        return [warn("store", f"{where}: the need for text calls is not saved", advice)]
    if not verdicts or path in (MEMORY, NO_STORE):
        return []
    try:
        store = SqliteStore(path, max_bytes=config.max_bytes, max_age=config.max_age)
        try:
            for verdict in verdicts:
                await store.remember(verdict)
        finally:
            await store.close()
    except StoreError as error:
        advice = "the gateway will detect it at the first request with tools"
        return [warn("store", f"the results could not be saved: {error}", advice)]
    return [ok("store", "the tool modes of these models are saved for a month", path)]
