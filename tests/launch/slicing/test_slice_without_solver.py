"""`rankmesh slice` where highspy cannot be imported: it says so, with the remedy, and goes on."""

import json

import processes
import pytest
from sliced import example

REMEDY = "pip install 'rankmesh[slice]'"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "model.onnx"
    example().main(path)
    return path


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    """The variables of a process that cannot import highspy."""
    folder = tmp_path_factory.mktemp("packages")
    (folder / "highspy.py").write_text("raise ImportError('no HiGHS here')\n")
    return {"PYTHONPATH": str(folder)}


def test_the_text_the_report_and_json_say_that_the_search_was_greedy(model, without, tmp_path):
    done = processes.rankmesh("slice", model, "--ranks", 2, "-o", tmp_path / "text", **without)
    assert done.returncode == 0, done.stderr
    report = (tmp_path / "text" / "report.txt").read_text()
    for text in (done.stdout, report):
        (line,) = [one for one in text.splitlines() if "greedy" in one]
        assert "highspy cannot be imported (no HiGHS here)" in line and REMEDY in line
    assert "verified (blocks)" in report
    done = processes.rankmesh("slice", model, "--ranks", 2, "--dry-run", "--json", **without)
    assert done.returncode == 0, done.stderr
    fields = json.loads(done.stdout)
    assert fields["search"] == "greedy" and REMEDY in fields["note"]


def test_a_memory_that_no_greedy_plan_fits_names_the_remedy(model, without):
    done = processes.rankmesh("slice", model, "--ranks", 2, "--memory", "1kB", **without)
    assert done.returncode == 2
    assert "Plan more ranks or more memory. The search was greedy" in done.stderr
    assert REMEDY in done.stderr


def test_with_the_solver_nothing_is_said(model):
    pytest.importorskip("highspy", reason="highspy is not installed: pip install 'rankmesh[slice]'")
    done = processes.rankmesh("slice", model, "--ranks", 2, "--dry-run", "--json")
    fields = json.loads(done.stdout)
    assert (fields["search"], fields["note"]) == ("solver", None)
    done = processes.rankmesh("slice", model, "--ranks", 2, "--dry-run")
    assert "greedy" not in done.stdout and "highspy" not in done.stdout
