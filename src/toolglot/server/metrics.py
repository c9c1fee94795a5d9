"""Counters and histograms in Prometheus' text format. Labels are routes, dialects and upstreams, never user input.

The names that begin with `gen_ai_` are those of OpenTelemetry's conventions for generative AI.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from toolglot.gateway.request_record import NANO, RequestRecord
from toolglot.ir import Usage

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304)

SHARES = (0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1)

BATCH_SIZE = 64
"""Simple requests that are counted in one batch."""

Labels = tuple[str, ...]


class PoolMember(Struct, frozen=True):
    """The gauges of one member of a pool."""

    upstream: str
    member: str
    in_flight: int
    is_cooling: bool


class Snapshot(Struct, frozen=True, kw_only=True):
    """The counts of one process by metric name, and its current gauges."""

    counted: dict[str, list[tuple[Labels, list[float]]]]
    in_flight: int = 0
    resting: dict[str, bool] = {}
    up: dict[str, bool] = {}
    members: list[PoolMember] = []


class Counter:
    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        self.name, self.text, self.labels = name, text, tuple(labels)
        self._cells: dict[Labels, list[float]] = {}

    def cell(self, labels: Labels) -> list[float]:
        """Return the cell of these labels. A frequent caller can keep it."""
        found = self._cells.get(labels)
        if found is None:
            found = self._cells[labels] = [0]
        return found

    def add(self, labels: Labels, amount: float = 1) -> None:
        self.cell(labels)[0] += amount

    def counted(self) -> list[tuple[Labels, list[float]]]:
        return [(labels, list(cell)) for labels, cell in self._cells.items()]

    def add_counted(self, labels: Labels, numbers: Sequence[float]) -> None:
        self.add(labels, numbers[0])

    def lines(self) -> Iterator[str]:
        yield from _encode_metadata(self.name, self.text, "counter")
        for labels, (value,) in self._cells.items():
            yield f"{self.name}{_encode_labels(self.labels, labels)} {_format_number(value)}"


class Histogram:
    def __init__(self, name: str, text: str, labels: Sequence[str], bounds: Sequence[float]) -> None:
        self.name, self.text, self.labels = name, text, tuple(labels)
        self._bounds = tuple(bounds)
        self._cells: dict[Labels, list[float]] = {}

    def cell(self, labels: Labels) -> list[float]:
        """Return the cell of these labels: the count per bucket, then the sum of all values."""
        found = self._cells.get(labels)
        if found is None:
            found = self._cells[labels] = [0] * (len(self._bounds) + 2)
        return found

    def note(self, cell: list[float], value: float) -> None:
        cell[bisect_left(self._bounds, value)] += 1
        cell[-1] += value

    def observe(self, labels: Labels, value: float) -> None:
        self.note(self.cell(labels), value)

    def counted(self) -> list[tuple[Labels, list[float]]]:
        return [(labels, list(cell)) for labels, cell in self._cells.items()]

    def add_counted(self, labels: Labels, numbers: Sequence[float]) -> None:
        cell = self.cell(labels)
        cell[:] = [before + more for before, more in zip(cell, numbers, strict=True)]

    def lines(self) -> Iterator[str]:
        yield from _encode_metadata(self.name, self.text, "histogram")
        for labels, (*counts, total) in self._cells.items():
            below = 0
            for bound, count in zip((*map(_format_number, self._bounds), "+Inf"), counts, strict=True):
                below += int(count)
                yield f"{self.name}_bucket{_encode_labels((*self.labels, 'le'), (*labels, bound))} {below}"
            yield f"{self.name}_sum{_encode_labels(self.labels, labels)} {_format_number(total)}"
            yield f"{self.name}_count{_encode_labels(self.labels, labels)} {below}"


class _SimpleCells(Struct):
    """The cells that count simple requests with the same labels."""

    requests: list[float]
    simple: list[float]
    bytes_in: list[float]
    bytes_out: list[float]
    calls: list[float]
    duration: list[float]
    first: list[float] | None = None
    tokens: tuple[list[float], list[float]] | None = None


class Metrics:
    """All metrics. `observe` gets the record of each finished request."""

    def __init__(self) -> None:
        path = ("client", "upstream_dialect", "upstream")
        self.requests = Counter("toolglot_requests_total", "Requests answered.", ("route", *path, "status"))
        self.upstream = Counter("toolglot_upstream_attempts_total", "Calls to upstreams.", ("upstream",))
        self.retries = Counter("toolglot_retries_total", "Calls to upstreams beyond the first.", ("upstream",))
        self.fallbacks = Counter("toolglot_fallbacks_total", "Answers by a fallback target.", ("upstream",))
        self.mended = Counter(
            "toolglot_mended_total", "Requests changed after an upstream refused them.", ("upstream",)
        )
        self.asked_again = Counter(
            "toolglot_asked_again_total", "Repeated model calls because of a call that cannot be run.", ("upstream",)
        )
        self.served = Counter(
            "toolglot_mcp_calls_total", "Calls of MCP tools that the gateway ran.", ("server", "outcome")
        )
        self.cancelled = Counter(
            "toolglot_cancelled_total", "Clients that disconnected before the end.", ("route", *path)
        )
        self.errors = Counter("toolglot_errors_total", "Errors sent to clients.", ("route", *path, "kind"))
        self.lines = Counter(
            "toolglot_receipt_lines_total",
            "Losses and changes in translations.",
            ("client", "upstream_dialect", "severity"),
        )
        self.recordings = Counter(
            "toolglot_recordings_total", "Recordings of exchanges: written, cut or dropped.", ("outcome",)
        )
        self.bytes = Counter("toolglot_bytes_total", "Bytes of bodies.", ("route", "direction"))
        self.prefixes = Histogram(
            "toolglot_prefix_reuse_ratio",
            "Share of the history sent to the upstream that was already sent in the previous turn.",
            ("upstream",),
            SHARES,
        )
        self.cache_reads = Histogram(
            "toolglot_cache_read_ratio",
            "Share of a request's input tokens that the upstream read from its prompt cache.",
            ("upstream",),
            SHARES,
        )
        self.simple = Counter(
            "toolglot_express_total", "Requests that one call answered, without a separate task or timer.", path
        )
        self.costs = Counter(
            "toolglot_cost_usd_total",
            "Known costs of answers in USD. `model` is its name in the prices.",
            ("upstream", "model"),
        )
        self.unpriced = Counter(
            "toolglot_unpriced_total",
            "Model calls whose cost is unknown: because of the price, its rate for a service tier, or the usage.",
            ("upstream", "reason"),
        )
        self.member_calls = Counter(
            "toolglot_pool_calls_total",
            "Calls to members of pools: ok, failed, rate_limit, credential, model, or unknown if the client left.",
            ("upstream", "member", "outcome"),
        )
        self.moved = Counter(
            "toolglot_pool_moved_total",
            "Answers by another member than the one that the conversation belongs to.",
            ("upstream",),
        )
        self.local_limits = Counter(
            "toolglot_local_limits_total", "Requests whose limits were counted locally while Redis was away.", ()
        )
        model = ("gen_ai_operation_name", "gen_ai_provider_name")
        self.tokens = Histogram(
            "gen_ai_client_token_usage", "Tokens of a request.", (*model, "gen_ai_token_type"), TOKENS
        )
        self.duration = Histogram(
            "gen_ai_server_request_duration_seconds", "From the request to the end of its answer.", model, SECONDS
        )
        self.first = Histogram(
            "gen_ai_server_time_to_first_token_seconds",
            "From the request to the first byte of a stream.",
            model,
            SECONDS,
        )

        self._simple_cells: dict[Labels, _SimpleCells] = {}
        self._uncounted: list[RequestRecord] = []

    def _all(self) -> list[Counter | Histogram]:
        self._count_simple()
        return [metric for metric in vars(self).values() if isinstance(metric, (Counter, Histogram))]

    def _count_simple(self) -> None:
        """Count the pending simple requests: a batch is cheaper than one at a time."""
        uncounted, self._uncounted = self._uncounted, []
        for record in uncounted:
            self._observe_simple(record)

    def _observe_simple(self, record: RequestRecord) -> None:
        """Observe a simple request, like `observe`."""
        key = (record.route, record.client or "", record.upstream_dialect or "", record.upstream or "")
        cells = self._simple_cells.get(key)
        if cells is None:
            cells = self._simple_cells[key] = self._cells_of(key)
        cells.requests[0] += 1
        cells.simple[0] += 1
        cells.calls[0] += 1
        cells.bytes_in[0] += record.bytes_in
        cells.bytes_out[0] += record.bytes_out
        started = record.started
        seconds = (record.ended or started) - started
        cells.duration[bisect_left(SECONDS, seconds)] += 1
        cells.duration[-1] += seconds
        if record.stream and record.first_byte is not None:
            if cells.first is None:
                cells.first = self.first.cell(("chat", key[-1]))
            self.first.note(cells.first, record.first_byte - started)
        if (usage := record.usage) is not None:
            if cells.tokens is None:
                model = ("chat", key[-1])
                cells.tokens = self.tokens.cell((*model, "input")), self.tokens.cell((*model, "output"))
            before, after = cells.tokens
            for cell, tokens in ((before, usage.input_tokens), (after, usage.output_tokens)):
                if tokens is not None:
                    cell[bisect_left(TOKENS, tokens)] += 1
                    cell[-1] += tokens
            self._observe_cache(usage, key[-1])
        if record.charges:
            self._observe_costs(record)
        if record.losses or record.notes:
            self._observe_lines(record)
        for answering, share in record.prefix_reuse:
            self.prefixes.observe((answering,), share)

    def _observe_cache(self, usage: Usage, upstream: str) -> None:
        if usage.input_tokens and usage.cached_tokens is not None:
            self.cache_reads.observe((upstream,), usage.cached_tokens / usage.input_tokens)

    def _observe_costs(self, record: RequestRecord) -> None:
        for charge in record.charges:
            if charge.cost is not None:
                self.costs.add((charge.upstream, charge.priced_as or ""), charge.cost / NANO)
            else:
                self.unpriced.add((charge.upstream, charge.why_unpriced))

    def _observe_lines(self, record: RequestRecord) -> None:
        for severity, amount in (("loss", record.losses), ("note", record.notes)):
            if amount:
                self.lines.add((record.client or "", record.upstream_dialect or "", severity), amount)

    def _cells_of(self, key: Labels) -> _SimpleCells:
        route, *path = key
        return _SimpleCells(
            requests=self.requests.cell((*key, "200")),
            simple=self.simple.cell(tuple(path)),
            bytes_in=self.bytes.cell((route, "in")),
            bytes_out=self.bytes.cell((route, "out")),
            calls=self.upstream.cell((key[-1],)),
            duration=self.duration.cell(("chat", key[-1])),
        )

    def observe(self, record: RequestRecord) -> None:
        if record.is_simple:
            self._uncounted.append(record)
            if len(self._uncounted) >= BATCH_SIZE:
                self._count_simple()
            return
        route = record.route or "(none)"
        upstream = record.upstream or ""
        path = (record.client or "", record.upstream_dialect or "", upstream)
        self.requests.add((route, *path, str(record.status)))
        if record.error is not None:
            self.errors.add((route, *path, record.error))
        if record.cancelled:
            self.cancelled.add((route, *path))
        self.bytes.add((route, "in"), record.bytes_in)
        self.bytes.add((route, "out"), record.bytes_out)
        if record.attempts:
            self._observe_model(record, upstream)

    def _observe_model(self, record: RequestRecord, upstream: str) -> None:
        for called, times in record.calls.items():
            self.upstream.add((called,), times)
            if times > record.rounds:
                self.retries.add((called,), times - record.rounds)
        for server, calls in record.served.items():
            failed = record.served_failed.get(server, 0)
            for outcome, amount in (("failed", failed), ("ok", calls - failed)):
                if amount:
                    self.served.add((server, outcome), amount)
        for counter, amount in (
            (self.fallbacks, record.fallbacks),
            (self.mended, record.mended),
            (self.asked_again, record.asked_again),
        ):
            if amount:
                counter.add((upstream,), amount)
        for call in record.member_calls:
            self.member_calls.add(call)
        if record.moved:
            self.moved.add((upstream,))
        self._observe_lines(record)
        self._observe_costs(record)
        for answering, share in record.prefix_reuse:
            self.prefixes.observe((answering,), share)
        labels = ("chat", upstream)
        self.duration.observe(labels, record.seconds)
        if record.stream and record.first_byte is not None:
            self.first.observe(labels, record.first_byte - record.started)
        if record.usage is not None:
            for kind, tokens in (("input", record.usage.input_tokens), ("output", record.usage.output_tokens)):
                if tokens is not None:
                    self.tokens.observe((*labels, kind), tokens)
            self._observe_cache(record.usage, upstream)

    def snapshot(
        self,
        in_flight: int,
        resting: Mapping[str, bool],
        up: Mapping[str, bool],
        members: Sequence[PoolMember] = (),
    ) -> Snapshot:
        counted = {metric.name: metric.counted() for metric in self._all()}
        return Snapshot(counted=counted, in_flight=in_flight, resting=dict(resting), up=dict(up), members=list(members))

    def add(self, snapshot: Snapshot) -> None:
        """Add the counts of another process."""
        for metric in self._all():
            for labels, numbers in snapshot.counted.get(metric.name, ()):
                metric.add_counted(labels, numbers)

    def text(
        self,
        in_flight: int,
        resting: Mapping[str, bool],
        up: Mapping[str, bool] | None = None,
        members: Sequence[PoolMember] = (),
    ) -> bytes:
        """Encode all metrics, with gauges: requests in flight, resting upstreams, members of pools, and MCP servers
        that are up."""
        lines: list[str] = []
        name = "toolglot_requests_in_flight"
        lines += [*_encode_metadata(name, "Requests in progress.", "gauge"), f"{name} {in_flight}"]
        name = "toolglot_upstream_resting"
        lines += _encode_metadata(name, "1 while an upstream is skipped because it has failed repeatedly.", "gauge")
        lines += [
            f"{name}{_encode_labels(('upstream',), (upstream,))} {int(rests)}" for upstream, rests in resting.items()
        ]
        if up:
            name = "toolglot_mcp_up"
            lines += _encode_metadata(name, "1 while an MCP server is ready.", "gauge")
            lines += [f"{name}{_encode_labels(('server',), (server,))} {int(is_up)}" for server, is_up in up.items()]
        lines += _encode_members(members)
        for metric in self._all():
            lines += metric.lines()
        return ("\n".join(lines) + "\n").encode()


def encode_merged(snapshots: Iterable[Snapshot]) -> bytes:
    """Encode the metrics of several processes as one. An upstream rests if it does in any process, and an MCP server is
    up if it is in all."""
    metrics, in_flight = Metrics(), 0
    resting: dict[str, bool] = {}
    up: dict[str, bool] = {}
    members: dict[Labels, PoolMember] = {}
    for snapshot in snapshots:
        metrics.add(snapshot)
        in_flight += snapshot.in_flight
        for name, rests in snapshot.resting.items():
            resting[name] = resting.get(name, False) or rests
        for name, is_up in snapshot.up.items():
            up[name] = up.get(name, True) and is_up
        for member in snapshot.members:
            key = (member.upstream, member.member)
            known = members.get(key)
            members[key] = member if known is None else _add_members(known, member)
    return metrics.text(in_flight, resting, up, list(members.values()))


def _add_members(one: PoolMember, other: PoolMember) -> PoolMember:
    """Add the gauges of two processes: a member cools down if it does in any."""
    in_flight, is_cooling = one.in_flight + other.in_flight, one.is_cooling or other.is_cooling
    return PoolMember(one.upstream, one.member, in_flight, is_cooling)


def _encode_members(members: Sequence[PoolMember]) -> Iterator[str]:
    if not members:
        return
    labels = [_encode_labels(("upstream", "member"), (each.upstream, each.member)) for each in members]
    name = "toolglot_pool_in_flight"
    yield from _encode_metadata(name, "Calls to a member of a pool that have not ended.", "gauge")
    yield from (f"{name}{label} {each.in_flight}" for label, each in zip(labels, members, strict=True))
    name = "toolglot_pool_cooling"
    yield from _encode_metadata(name, "1 while a member of a pool gets no requests after errors.", "gauge")
    yield from (f"{name}{label} {int(each.is_cooling)}" for label, each in zip(labels, members, strict=True))


def _encode_metadata(name: str, text: str, kind: str) -> tuple[str, str]:
    return f"# HELP {name} {text}", f"# TYPE {name} {kind}"


def _encode_labels(names: Sequence[str], values: Labels) -> str:
    escaped = (value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for value in values)
    return "{" + ",".join(f'{name}="{value}"' for name, value in zip(names, escaped, strict=True)) + "}"


def _format_number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
