"""The dashboard and the alert rules use metrics and labels that the gateway has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.deploy.files import DEPLOY, yaml_of
from tests.server.gateway import gateway
from toolglot.recordings.writing.recorder import OUTCOMES
from toolglot.server.metrics import Counter, Histogram, Metrics

DASHBOARD = json.loads((DEPLOY / "grafana" / "toolglot.json").read_text())
RULES = [rule for group in yaml_of(DEPLOY / "prometheus" / "alerts.yaml")["groups"] for rule in group["rules"]]

_FUNCTIONS = {"sum", "max", "min", "rate", "increase", "histogram_quantile", "by", "and", "le", "label_values"}
_OF_PROMETHEUS = {"up": {"job", "instance"}}
_TARGET_LABELS = {"job", "instance"}


def metrics() -> dict[str, set[str]]:
    """Names of series with their labels."""
    found: dict[str, set[str]] = dict(_OF_PROMETHEUS)
    for metric in vars(Metrics()).values():
        if isinstance(metric, Counter):
            found[metric.name] = {*metric.labels, *_TARGET_LABELS}
        elif isinstance(metric, Histogram):
            for end in ("_sum", "_count", "_bucket"):
                found[metric.name + end] = {*metric.labels, *_TARGET_LABELS, *({"le"} if end == "_bucket" else ())}
    gauges = Metrics().text(1, {"u": True}, {"s": True}).decode()
    for name in re.findall(r"^# TYPE (\S+) gauge$", gauges, re.MULTILINE):
        [series] = re.findall(rf"^{name}(?:\{{(.*)\}})? ", gauges, re.MULTILINE)
        found[name] = {*re.findall(r"(\w+)=", series), *_TARGET_LABELS}
    return found


METRICS = metrics()


def expressions() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield f"panel {panel['title']}", target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", variable["query"]["query"]
    for rule in RULES:
        yield f"alert {rule['alert']}", rule["expr"]


EXPRESSIONS = list(expressions())


def names_and_labels(expression: str) -> tuple[set[str], set[str]]:
    """Metrics and labels of an expression."""
    labels: set[str] = set(re.findall(r"\blabel_values\(\w+, (\w+)\)", expression))
    plain = re.sub(r"(label_values\(\w+), \w+\)", r"\1)", expression)
    for group in re.findall(r"\bby \(([^)]*)\)", plain):
        labels |= set(re.findall(r"\w+", group))
    plain = re.sub(r"\bby \([^)]*\)", "", plain)
    for selector in re.findall(r"\{([^}]*)\}", plain):
        labels |= set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))
    plain = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", plain)
    return set(re.findall(r"\b[a-z_]{2,}\b", plain)) - _FUNCTIONS, labels


@pytest.mark.parametrize(("place", "expression"), EXPRESSIONS, ids=[place for place, _ in EXPRESSIONS])
def test_an_expression_uses_metrics_and_labels_that_exist(place: str, expression: str) -> None:
    names, labels = names_and_labels(expression)
    assert names
    assert names <= METRICS.keys()
    known: set[str] = set().union(*(METRICS[name] for name in names))
    assert labels - {"le"} <= known
    assert expression.count("(") == expression.count(")")


def test_every_metric_of_a_gateway_is_one_that_is_compared_here() -> None:
    with gateway() as running:
        running.ask("openai_chat", model="demo")
        running.record()
        text = running.call("GET", "/metrics").body.decode()
    series = set(re.findall(r"^([a-z_]+)(?:\{| )", text, re.MULTILINE))
    assert series <= METRICS.keys()
    assert "toolglot_requests_total" in series


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_the_text_of_an_alert_names_labels_that_its_expression_keeps(rule: Any) -> None:
    named = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    grouped = re.findall(r"\bby \(([^)]*)\)", rule["expr"])
    kept = set(re.findall(r"\w+", grouped[0])) if grouped else _TARGET_LABELS
    assert named <= kept
    assert rule["labels"]["severity"] in ("critical", "warning", "info")


def test_the_outcomes_of_recordings_are_named_right() -> None:
    [rule] = [rule for rule in RULES if "recordings" in rule["expr"]]
    assert re.findall(r'outcome!="(\w+)"', rule["expr"])[0] in OUTCOMES


def test_panels_of_the_dashboard_do_not_overlap_and_have_titles() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert panel["title"]
        assert not own & cells
        assert max(x for x, _ in own) < 24
        cells |= own
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
