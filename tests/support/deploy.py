"""Files of docs/deploy: the alert rules and the dashboard, and the metrics that they name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "docs" / "deploy"
ALERTS = FOLDER / "alerts.yaml"
DASHBOARD = FOLDER / "grafana-dashboard.json"
OF_PROMETHEUS = {"up"}
"""Metrics that Prometheus makes itself."""

_WORDS = {"and", "or", "unless", "bool"}


def alert_rules() -> list[dict[str, Any]]:
    document = yaml.safe_load(ALERTS.read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def targets() -> Iterator[dict[str, Any]]:
    """The queries of all panels."""
    for panel in dashboard()["panels"]:
        yield from panel.get("targets", ())


def metrics_of(expression: str) -> set[str]:
    """The metrics that an expression of PromQL or a query of a variable names."""
    plain = re.sub(r'"[^"]*"', "", expression)
    plain = re.sub(r"\{[^}]*\}|\[[^]]*\]", " ", plain)
    plain = re.sub(r"\b(?:by|on|without|ignoring)\s*\([^)]*\)", " ", plain)
    plain = re.sub(r"label_values\((\w+)\s*,\s*\w+\)", r"\1", plain)
    return set(re.findall(r"\b[a-z_]\w*\b(?!\s*\()", plain)) - _WORDS


def used_metrics() -> set[str]:
    """The metrics of all files but those of Prometheus itself."""
    expressions = [rule["expr"] for rule in alert_rules()]
    expressions += [target["expr"] for target in targets()]
    for variable in dashboard()["templating"]["list"]:
        if isinstance(variable["query"], dict):
            expressions.append(variable["query"]["query"])
    return set().union(*map(metrics_of, expressions)) - OF_PROMETHEUS


def page_metrics(page: str) -> set[str]:
    """All names that samples of a page may have, by its lines `# TYPE`."""
    found = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", page, re.M):
        ends = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        found |= {name + end for end in ends}
    return found
