"""Clocks: deadlines and ages are of the monotonic clock, as the clock of the day may jump."""

from __future__ import annotations

import ast
import re

import pytest
from import_graph import Module, read

pytestmark = pytest.mark.pure
_DAY = re.compile(r"(^|\.)(time\.time|time\.time_ns|datetime\.(now|utcnow|today)|date\.today)$")

ALLOWED = {
    "launch/bench/bench.py": "the date of a report",
    "orchestrator/replica/outage.py": "the date of an outage",
    "orchestrator/server/access/tls_files.py": "the dates of certificates",
    "orchestrator/server/inference.py": "the date of the last request of a model",
    "orchestrator/server/observation/access_log.py": "the date of a line",
    "orchestrator/server/observation/request_tracer.py": "the date of a span, which lasts as the "
    "monotonic clock says",
    "orchestrator/server/server_state.py": "the dates of the start and of the page",
    "worker/cache/identity.py": "the age of a file: bounded, digests are at most read again",
    "worker/cache/received_files.py": "the age of a part of a file: at most it is fetched again",
    "worker/cache/store.py": "the age of a folder without a lock: at most its writer begins again",
    "worker/cache/verification.py": "the age of a check: at most it is made again, or later",
}
"""Files that ask for the time of the day, and for what."""


def asks_for_the_day(module: Module) -> bool:
    """Whether a file names a clock of the day."""
    names = [ast.unparse(node) for node in module.nodes if isinstance(node, ast.Attribute)]
    imported = [
        f"time.{one.name}"
        for node in module.nodes
        if isinstance(node, ast.ImportFrom) and node.module == "time"
        for one in node.names
    ]
    return any(map(_DAY.search, names + imported))


def test_only_dates_come_from_the_clock_of_the_day() -> None:
    assert {str(one.path) for one in read() if asks_for_the_day(one)} == {*ALLOWED}
