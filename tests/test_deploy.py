"""The alert rules and the dashboard of docs/deploy: their form, and what promtool says.

tests/orchestrator/server/rest/test_rest.py compares their metrics with those of a server.
"""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from deploy import ALERTS, alert_rules, dashboard, metrics_of, targets, used_metrics

UNIT_TESTS = Path(__file__).parent / "data" / "deploy" / "alerts_test.yaml"
COLUMNS = 24
DURATION = r"^[0-9]+[smhd]$"


class Rule(msgspec.Struct, forbid_unknown_fields=True):
    """An alert rule, as Prometheus documents it."""

    alert: str
    expr: str
    labels: dict[str, str]
    annotations: dict[str, str]
    hold: str = msgspec.field(name="for", default="0s")


class Group(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    rules: list[Rule]


class Document(msgspec.Struct, forbid_unknown_fields=True):
    groups: list[Group]


@pytest.mark.pure
def test_alert_rules_have_the_form_of_prometheus() -> None:
    document = msgspec.convert(yaml.safe_load(ALERTS.read_text()), Document)
    rules = [rule for group in document.groups for rule in group.rules]
    assert len({rule.alert for rule in rules}) == len(rules) > 10
    for rule in rules:
        assert re.fullmatch(r"Rankmesh[A-Za-z]+", rule.alert)
        assert re.match(DURATION, rule.hold)
        assert rule.labels.keys() == {"severity"}
        assert rule.labels["severity"] in ("critical", "warning", "info")
        assert rule.annotations.keys() == {"summary", "description"}
        assert metrics_of(rule.expr)


def promtool(*arguments: str) -> str:
    """What promtool writes; it must be content."""
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed: apt-get install prometheus")
    done = subprocess.run([found, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_promtool_accepts_the_rules_and_they_fire_when_they_should() -> None:
    assert f"{len(alert_rules())} rules found" in promtool("check", "rules", str(ALERTS))
    assert "SUCCESS" in promtool("test", "rules", str(UNIT_TESTS))


def test_promtool_accepts_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {
            "record": f"query:{number}",
            "expr": re.sub(r"\$\w+", lambda name: variable(name[0]), one["expr"]),
        }
        for number, one in enumerate(targets())
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(file))


def variable(name: str) -> str:
    """A value of a variable of Grafana."""
    return "5m" if name == "$__rate_interval" else "some"


@pytest.mark.pure
def test_panels_have_places_of_their_own_and_queries() -> None:
    board = dashboard()
    panels: list[dict[str, Any]] = board["panels"]
    assert board["uid"] == "rankmesh" and board["schemaVersion"] >= 36
    assert len({one["id"] for one in panels}) == len(panels) > 20
    for one in panels:
        place = one["gridPos"]
        assert place["x"] >= 0 and place["x"] + place["w"] <= COLUMNS, one["title"]
        if one["type"] != "row":
            assert one["description"] and one["fieldConfig"]["defaults"]["unit"], one["title"]
            references = [target["refId"] for target in one["targets"]]
            assert len(set(references)) == len(references) > 0
    for one, other in itertools.combinations([one["gridPos"] for one in panels], 2):
        apart = one["x"] >= other["x"] + other["w"] or other["x"] >= one["x"] + one["w"]
        above = one["y"] >= other["y"] + other["h"] or other["y"] >= one["y"] + one["h"]
        assert apart or above, (one, other)


@pytest.mark.pure
def test_queries_use_the_variables_that_there_are() -> None:
    board = dashboard()
    names = {one["name"] for one in board["templating"]["list"]}
    used = set()
    for target in targets():
        assert target["datasource"]["uid"] == "${datasource}" and target["legendFormat"]
        used |= set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval"}
    assert used | {"datasource"} == names


@pytest.mark.pure
def test_metrics_of_expressions_are_found() -> None:
    expression = 'sum by (le, a) (rate(x_bucket{job="y"}[5m])) > 1.5 * up and on (a) z_total'
    assert metrics_of(expression) == {"x_bucket", "up", "z_total"}
    assert metrics_of('label_values(x{a=~"$b"}, c)') == {"x"}
    assert "rankmesh_rank_collective_seconds_total" in used_metrics()
