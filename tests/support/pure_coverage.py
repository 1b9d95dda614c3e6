"""Coverage of pure tests: the share of comm and orchestrator that their pure tests run.

    python tests/support/pure_coverage.py FOLDER    print it, from what tests left there

With PURE_COVERAGE=FOLDER, tests/conftest.py measures the pure tests in tests/comm and
tests/orchestrator. Only lines in functions count, as imports run all others. Tests of processes are
left out: most of the lines that they run are in other processes. So the share is a lower bound.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[2]
MEASURED = "comm", "orchestrator"
FOLDERS = tuple(ROOT / "tests" / name for name in MEASURED)
_WARNINGS = ["no-data-collected", "module-not-measured", "module-not-imported"]


class PureCoverage:
    """Measures tests of this process, where PURE_COVERAGE names a folder."""

    def __init__(self) -> None:
        self._folder = os.environ.get("PURE_COVERAGE")
        self._coverage: Any = None

    @contextmanager
    def measured(self, test: Path) -> Iterator[None]:
        """Measure a test in this file, if it counts; explorations of interleavings do not."""
        counts = self._folder and any(map(test.is_relative_to, FOLDERS))
        if not counts or "interleavings" in test.name:
            yield
            return
        self._coverage = self._coverage or _coverage(str(self._folder), data_suffix=True)
        self._coverage.start()
        try:
            yield
        finally:
            self._coverage.stop()

    def save(self) -> None:
        """Write what was measured into the folder."""
        if self._coverage is not None:
            self._coverage.save()


def share(folder: str) -> tuple[int, int]:
    """The lines in functions that ran, and all of them."""
    coverage = _coverage(folder)
    coverage.combine()
    with TemporaryDirectory() as made:
        report = Path(made) / "report.json"
        coverage.json_report(outfile=str(report))
        files = json.loads(report.read_text())["files"].values()
    counts = [
        function["summary"]
        for file in files
        for name, function in file["functions"].items()
        if name
    ]
    return sum(one["covered_lines"] for one in counts), sum(one["num_statements"] for one in counts)


def _coverage(folder: str, **options: Any) -> Any:
    import coverage  # only where it is wanted: each process of tests would pay for it

    if sys.version_info >= (3, 12):
        os.environ.setdefault("COVERAGE_CORE", "sysmon")  # which costs next to nothing
    source, data = [str(ROOT / name) for name in MEASURED], str(Path(folder) / "pure")
    made = coverage.Coverage(data_file=data, config_file=False, source=source, **options)
    made.set_option("run:disable_warnings", _WARNINGS)
    return made


if __name__ == "__main__":
    ran, lines = share(sys.argv[1])
    print(f"coverage: pure tests run {100 * ran / lines:.1f} % of the {lines:,} lines in functions")
    print(f"of {' and '.join(MEASURED)}; tests of processes are not measured")
