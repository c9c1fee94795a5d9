"""The report says what was measured, what was not, and how far it is from the targets."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from bench.captures import Captured
from bench.gateway.cases import ANTHROPIC_TO_CHAT, Case, agent_cases
from bench.gateway.plot import panels, plot
from bench.gateway.report import markdown, tables, write_report
from bench.gateway.results import About, Results, ratio
from bench.gateway.tables import Table, as_markdown, as_text, number, times
from bench.gateway.targets import TARGETS, memory_per_stream, verdicts

from tests.bench.samples import COSTS, measured, results, row, standing

NOTHING = Results(date="", machine={}, settings={}, gateways=[], rows=[], standings=[])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0.02345, "0.023"),
        (1.234, "1.23"),
        (12.34, "12.3"),
        (1234.5, "1,234"),
        (0.0, "0.000"),
        (-2.5, "-2.50"),
    ],
)
def test_a_number_has_three_digits_that_say_something(value: float | None, shown: str) -> None:
    assert number(value) == shown


@pytest.mark.parametrize(
    ("value", "base", "expected"), [(3.0, 2.0, 1.5), (None, 2.0, None), (3.0, None, None), (3.0, 0.0, None)]
)
def test_a_ratio_is_there_where_both_numbers_are(
    value: float | None, base: float | None, expected: float | None
) -> None:
    assert ratio(value, base) == expected
    assert times(expected) == ("-" if expected is None else "1.50x")


def test_a_table_is_the_same_in_a_terminal_and_in_markdown() -> None:
    table = Table("Title", ("name", "x"), [("a", "1"), ("longer", "23")], "A note.")
    assert as_text(table) == "\nTitle\nA note.\nname     x\n----------\na        1\nlonger  23"
    assert as_markdown(table) == "## Title\n\nA note.\n\n| name | x |\n|---|--:|\n| a | 1 |\n| longer | 23 |\n"


def test_targets_are_met_by_round_numbers() -> None:
    found = {verdict.target.title: verdict for verdict in verdicts(results())}
    assert len(found) == len(TARGETS)
    missed = {title: round(verdict.missed_by or 0, 2) for title, verdict in found.items() if not verdict.met}
    # Twice nginx's cost, 1.25 times the base's, a five hundredth of LiteLLM's, half of the chunks on time.
    assert missed == {
        "CPU of chunks 10 ms apart, 64 connections: of nginx's": 1.33,
        "CPU of chunks 10 ms apart, 256 connections: of nginx's": 1.33,
        "CPU of a plain request, 64 connections: of the base's": 1.25,
        "CPU of chunks 10 ms apart, 64 connections, slowest pair: of the base's": 1.14,
        "CPU of chunks 10 ms apart, 256 connections, slowest pair: of the base's": 1.14,
        "1,000 slow streams: chunks on time": 1.98,
    }


def test_targets_that_were_not_measured_are_neither_met_nor_missed() -> None:
    assert {verdict.met for verdict in verdicts(NOTHING)} == {None}
    assert {verdict.missed_by for verdict in verdicts(NOTHING)} == {None}


def test_the_memory_of_a_stream_counts_those_that_were_really_open() -> None:
    whole = standing("toolglot", 2.0)
    half = [msgspec.structs.replace(whole.held[0], open=500)]
    for held, kilobytes in ((whole.held, 10.0), (half, 20.0)):
        found = Results("", {}, {}, [], [], [msgspec.structs.replace(whole, held=held)])
        assert memory_per_stream(found, "toolglot", 1000) == kilobytes
    assert memory_per_stream(NOTHING, "toolglot", 1000) is None


def test_costs_are_told_beside_nginx_and_litellm() -> None:
    table = next(table for table in tables(results()) if table.title == "Anthropic -> Chat: CPU milliseconds a request")
    plain = tuple(f"plain, {count}" for count in (1, 8, 64, 256, 1000))
    assert table.head == ("connections", *plain, "55 KB, 1", "55 KB, 8", "55 KB, 64")
    cells = {line[0]: line[1] for line in table.rows}
    assert cells == {
        "NGINX": "0.020",
        "BASE": "0.032 (1.60x)",
        "TOOLGLOT": "0.040 (2.00x)",
        "LITELLM": "20.0 (1,000x)",
        "LITELLM / TOOLGLOT": "500x",
    }


PAIR_TABLES = (
    ("All pairs: CPU milliseconds of a plain request, 64 connections", "0.040 (1.25x)"),
    ("All pairs: CPU seconds for 100,000 chunks at once, 8 connections", "0.200 (1.25x)"),
    ("All pairs: CPU seconds for 100,000 chunks 10 ms apart, 64 streams", "0.200 (1.25x)"),
    ("All pairs: CPU seconds for 100,000 chunks 10 ms apart, 256 streams", "0.200 (1.25x)"),
)


@pytest.mark.parametrize(("title", "cell"), PAIR_TABLES)
def test_every_pair_is_compared_with_the_base_from_anthropic_to_chat(title: str, cell: str) -> None:
    table = next(table for table in tables(results()) if table.title == title)
    assert table.head == ("", "NGINX", "BASE", "TOOLGLOT", "LITELLM")
    assert [line[0] for line in table.rows][:5] == [
        *("chat -> chat", "chat -> responses", "chat -> anthropic", "chat -> gemini"),
        "responses -> chat",
    ]
    assert [line[3] for line in table.rows] == [cell] * 16


def test_a_pair_that_a_version_cannot_serve_is_missing_and_not_zero() -> None:
    found = results()
    found.rows = [row for row in found.rows if row.gateway == "toolglot" or "gemini" not in row.route]
    table = next(table for table in tables(found) if table.title == PAIR_TABLES[0][0])
    cells = {line[0]: line[1:] for line in table.rows}
    assert cells["gemini -> chat"] == ("-", "-", "0.040 (1.25x)", "-")
    found.rows = [row for row in found.rows if row.gateway != "base"]
    table = next(table for table in tables(found) if table.title == PAIR_TABLES[0][0])
    assert (table.head[2], table.rows[0][2]) == ("TOOLGLOT", "0.040")
    worst = [verdict for verdict in verdicts(found) if "slowest pair" in verdict.target.title]
    assert {verdict.met for verdict in worst} == {None}


def test_requests_of_agents_are_compared_with_the_base_and_the_library() -> None:
    found = results()
    (case,) = agent_cases([Captured("codex-3", "openai_responses", b"{}", None)])[2:3]
    ours, base = (row(name, case, measured(COSTS[name])) for name in ("toolglot", "base"))
    found.rows += [
        msgspec.structs.replace(ours, request_bytes=41_000, library_us=405.4),
        msgspec.structs.replace(base, request_bytes=41_000),
    ]
    table = next(table for table in tables(found) if table.title == "Agents' requests: CPU milliseconds")
    assert table.head == ("", "KB", "pair", "BASE", "TOOLGLOT", "TOOLGLOT, library")
    assert table.rows == [
        ("codex-3", "41.0", "responses -> anthropic", "0.032 (1.00x)", "0.040 (1.25x)", "405"),
    ]


def test_added_times_are_those_above_direct() -> None:
    table = next(
        table for table in tables(results()) if table.title == "Anthropic -> Chat: milliseconds added to direct"
    )
    assert table.head[-1] == "first byte, 64"
    assert {line[0]: line[-1] for line in table.rows} == {
        "NGINX": "0.200 / 1.00",
        "BASE": "0.320 / 1.60",
        "TOOLGLOT": "0.400 / 2.00",
        "LITELLM": "200 / 1,000",
    }


def test_what_a_gateway_could_not_do_is_told() -> None:
    found = results()
    case = Case(ANTHROPIC_TO_CHAT, "plain", "small", 8)
    found.gateways.append(About("peer", "Peer", faults=["chat->chat, stream: no usage"]))
    found.rows.append(row("peer", case, measured(5.0, errors=3, bad=2, first_error="refused, status 500")))
    text = markdown(found)
    assert "not installed: no module" in text
    assert "| Peer | chat->chat, stream: no usage |" in text
    assert "3 errors and 2 bad answers to 1000 requests, the first: refused, status 500" in text


def test_a_case_in_which_nothing_was_answered_has_no_number() -> None:
    case = Case(ANTHROPIC_TO_CHAT, "plain", "small", 1000)
    stalled = measured(1.0, cpu_ms_per_request=None, whole_p50=None, whole_p99=None, requests=0)
    found = Results("", {}, {}, [About("peer", "Peer")], [row("peer", case, stalled)], [])
    table = next(table for table in tables(found) if "CPU milliseconds" in table.title)
    assert table.rows == [("Peer", "-")]


def test_the_plot_is_an_image_with_a_bar_for_every_gateway_that_has_a_number() -> None:
    found = results()
    drawn = ElementTree.fromstring(plot(found))
    names = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert names.count("TOOLGLOT") == names.count("NGINX") == len(panels(found)) == 6
    assert "Bifrost" not in names
    bars = [element for element in drawn.iter("{http://www.w3.org/2000/svg}rect") if element.get("rx")]
    widths = [float(element.get("width", "")) for element in bars]
    assert len(widths) == 6 * (len(COSTS) - 1)
    assert all(width > 0 for width in widths)
    # The cheapest first, on every panel.
    panel_widths = [widths[start : start + len(COSTS) - 1] for start in range(0, len(widths), len(COSTS) - 1)]
    assert all(sorted(each) == each for each in panel_widths)


def test_a_plot_of_nothing_is_an_image_too() -> None:
    assert ElementTree.fromstring(plot(NOTHING)).get("width") == "760"


def test_the_files_of_a_report_hold_the_same_numbers(tmp_path: Path) -> None:
    write_report(results(), tmp_path)
    again = msgspec.json.decode((tmp_path / "results.json").read_bytes(), type=Results)
    assert again == results()
    assert json.loads((tmp_path / "results.json").read_text())["rows"][0]["measured"]["requests"] == 1000
    assert (tmp_path / "RESULTS.md").read_text() == markdown(again)
    assert (tmp_path / "results.svg").read_text() == plot(again)
