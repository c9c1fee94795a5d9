"""Prometheus' text: what is counted, under which labels, in which form."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.server.test_logs import record
from toolglot.ir import Usage
from toolglot.server.metrics import BATCH_SIZE, Metrics

LINE = re.compile(r'^[a-z_]+(\{([a-z_]+="[^"\n]*"(,(?!\})|(?=\})))+\})? [0-9.e+-]+$')


def text(*entries: object) -> list[str]:
    metrics = Metrics()
    for entry in entries:
        metrics.observe(entry)  # type: ignore[arg-type]
    return metrics.text(2, {"local": True, "other": False}).decode().splitlines()


def test_every_line_is_a_comment_or_a_sample_and_every_metric_has_a_type() -> None:
    lines = text(record(), record(error="server", status=502, cancelled=True, mended=1, fallbacks=1, notes=2))
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    for line in lines:
        if not line.startswith("#"):
            assert LINE.match(line), line
            name = re.sub(r"_(bucket|sum|count)$", "", line.partition("{")[0].partition(" ")[0])
            assert name in typed, line


def test_a_request_is_counted_by_route_dialects_upstream_and_status() -> None:
    labels = 'route="/v1/messages",client="anthropic",upstream_dialect="openai_chat",upstream="local"'
    lines = text(record(), record(), record(status=502, error="server", cancelled=True))
    assert f'toolglot_requests_total{{{labels},status="200"}} 2' in lines
    assert f'toolglot_requests_total{{{labels},status="502"}} 1' in lines
    assert f'toolglot_errors_total{{{labels},kind="server"}} 1' in lines
    assert f"toolglot_cancelled_total{{{labels}}} 1" in lines
    assert 'toolglot_upstream_attempts_total{upstream="local"} 6' in lines
    assert 'toolglot_retries_total{upstream="local"} 3' in lines
    assert 'toolglot_receipt_lines_total{client="anthropic",upstream_dialect="openai_chat",severity="loss"} 3' in lines
    assert "toolglot_requests_in_flight 2" in lines
    assert 'toolglot_upstream_resting{upstream="local"} 1' in lines
    assert 'toolglot_upstream_resting{upstream="other"} 0' in lines


def test_each_upstream_is_counted_by_its_own_calls() -> None:
    lines = text(record(calls={"first": 3, "local": 1}, fallbacks=1))
    assert 'toolglot_upstream_attempts_total{upstream="first"} 3' in lines
    assert 'toolglot_upstream_attempts_total{upstream="local"} 1' in lines
    assert 'toolglot_retries_total{upstream="first"} 2' in lines
    assert not [line for line in lines if line.startswith("toolglot_retries_total") and "local" in line]


def test_the_share_of_input_that_was_read_from_the_cache_is_a_histogram() -> None:
    half = Usage(input_tokens=100, cached_tokens=50)
    entries = [
        record(usage=half),
        record(usage=half, is_simple=True),
        record(usage=Usage()),
        record(usage=None),
    ]
    lines = text(*entries)
    assert 'toolglot_cache_read_ratio_bucket{upstream="local",le="0.25"} 0' in lines
    assert 'toolglot_cache_read_ratio_bucket{upstream="local",le="0.5"} 2' in lines
    assert 'toolglot_cache_read_ratio_count{upstream="local"} 2' in lines
    assert 'toolglot_cache_read_ratio_sum{upstream="local"} 1' in lines


def test_times_and_tokens_are_histograms_whose_buckets_add_up() -> None:
    labels = 'gen_ai_operation_name="chat",gen_ai_provider_name="local"'
    lines = text(record(), record(ended=10.02))
    name = "gen_ai_server_request_duration_seconds"
    assert f'{name}_bucket{{{labels},le="0.02"}} 1' in lines
    assert f'{name}_bucket{{{labels},le="1.28"}} 1' in lines
    assert f'{name}_bucket{{{labels},le="2.56"}} 2' in lines
    assert f'{name}_bucket{{{labels},le="+Inf"}} 2' in lines
    assert f"{name}_count{{{labels}}} 2" in lines
    assert f'gen_ai_client_token_usage_sum{{{labels},gen_ai_token_type="input"}} 24' in lines
    assert f'gen_ai_client_token_usage_sum{{{labels},gen_ai_token_type="output"}} 6' in lines
    assert f"gen_ai_server_time_to_first_token_seconds_sum{{{labels}}} 0.5" in lines


def test_no_label_holds_what_a_client_said() -> None:
    lines = "\n".join(text(record(model="secret-model", path="/v1/messages/secret", user_agent="secret", key="secret")))
    assert "secret" not in lines


def test_a_request_that_asked_no_model_counts_as_a_request_alone() -> None:
    lines = text(record(route="", client=None, upstream=None, upstream_dialect=None, calls={}, status=404))
    assert 'toolglot_requests_total{route="(none)",client="",upstream_dialect="",upstream="",status="404"} 1' in lines
    assert not [line for line in lines if line.startswith("gen_ai")]


@pytest.mark.parametrize("fields", [{}, {"notes": 2, "losses": 1}, {"prefix_reuse": (("up", 0.5),)}, {"stream": False}])
@pytest.mark.parametrize("count", [1, BATCH_SIZE - 1, 2 * BATCH_SIZE + 1])
def test_simple_requests_are_counted_as_all_others_are_however_many_there_are(
    fields: dict[str, Any], count: int
) -> None:
    plain: dict[str, Any] = {"calls": {"local": 1}, "losses": 0, **fields}
    simple, others = (text(*[record(is_simple=is_simple, **plain)] * count) for is_simple in (True, False))
    assert (
        f'toolglot_express_total{{client="anthropic",upstream_dialect="openai_chat",upstream="local"}} {count}'
        in simple
    )
    assert [line for line in simple if not line.startswith("toolglot_express_total{")] == others
