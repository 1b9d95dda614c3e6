"""`rankmesh run --json`: one document on standard output, whatever happens."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from processes import PATIENCE, Running, rankmesh
from shards import summing, with_a_busy_rank, write_shard

ONE = np.ones(4, np.float32)


def no_constant(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


def document(*arguments: object, **environment: str) -> dict[str, Any]:
    """What a run with --json printed, which must be one document with its own exit code."""
    done = rankmesh("run", "--json", "--device", "cpu", *arguments, **environment)
    found: dict[str, Any] = json.loads(done.stdout, parse_constant=no_constant)
    assert found["exit_code"] == done.returncode, done.stderr
    return found


def test_a_run_with_references_and_latency(tmp_path: Path) -> None:
    np.savez(tmp_path / "both.npz", x=ONE, y=4 * ONE)
    both, pattern = tmp_path / "both.npz", summing(tmp_path)
    found = document(pattern, "--inputs", both, "--expect", both, "--repeat", 3)
    assert (found["exit_code"], found["error"], found["matches"], found["model"]) == (
        0,
        None,
        True,
        pattern,
    )
    assert found["verdict"].startswith("OK: 2 outputs of 2 ranks match") and found["notes"] == []
    timing = found["latency"]
    assert (
        timing["requests"] == 3
        and 0 < timing["p10_seconds"] <= timing["median_seconds"] <= timing["p90_seconds"]
    )
    assert [rank["rank"] for rank in found["ranks"]] == [0, 1]
    rank = found["ranks"][1]
    assert (
        rank["file"] == str(tmp_path / "sum1.onnx")
        and rank["error"] is None
        and len(rank["seconds"]) == 3
    )
    assert rank["outputs"] == [
        {
            "name": "y",
            "has_result": True,
            "dtype": "float32",
            "shape": [4],
            "bytes": 16,
            "first": [4.0] * 4,
            "comparison": {"matches": True, "max_abs_error": 0.0, "max_rel_error": 0.0, "text": ""},
        }
    ]


def test_a_run_whose_outputs_differ(tmp_path: Path) -> None:
    np.savez(tmp_path / "want.npz", y=5 * ONE)
    found = document(summing(tmp_path), "--expect", tmp_path / "want.npz")
    assert (found["exit_code"], found["matches"], found["latency"]) == (1, False, None)
    compared = found["ranks"][0]["outputs"][0]["comparison"]
    assert (
        not compared["matches"]
        and compared["max_abs_error"] == 1.0
        and "relative error" in compared["text"]
    )


def test_numbers_that_json_has_not_are_text(tmp_path: Path) -> None:
    nodes = [helper.make_node("Div", ["x", "x"], ["a"]), helper.make_node("Log", ["x"], ["b"])]
    write_shard(tmp_path / "m.onnx", nodes, outputs=["a", "b"])
    np.savez(tmp_path / "both.npz", x=0 * ONE, a=0 * ONE)
    found = document(tmp_path / "m.onnx", "--inputs", tmp_path / "both.npz")
    assert [output["first"] for output in found["ranks"][0]["outputs"]] == [
        ["nan"] * 4,
        ["-inf"] * 4,
    ]
    assert found["ranks"][0]["outputs"][0]["comparison"] is None


@pytest.mark.parametrize(
    ("arguments", "status", "kind", "phrase", "ranks"),
    [
        (["--inputs", "strange.npz"], 3, "InputError", "array 'strange'", True),
        (["--inputs", "missing.npz"], 3, "InputError", "missing.npz: no such file", False),
        (["--ranks", "3"], 3, "ModelError", "sum2.onnx: no such file", False),
        (["--ranks", "0"], 2, "UsageError", "--ranks 0", False),
    ],
)
def test_a_failure_is_in_the_document(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    status: int,
    kind: str,
    phrase: str,
    ranks: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez("strange.npz", strange=ONE)
    found = document(summing(tmp_path), *arguments)
    assert (found["exit_code"], found["error"]["type"], found["matches"]) == (status, kind, None)
    assert phrase in found["error"]["text"] and bool(found["ranks"]) == ranks
    assert all(phrase in rank["error"] for rank in found["ranks"])


def test_a_killed_rank_and_an_interrupted_run(tmp_path: Path) -> None:
    for number, status, kind in (
        (signal.SIGKILL, 4, "RankFailed"),
        (signal.SIGINT, 130, "Interrupted"),
    ):
        with Running(with_a_busy_rank(tmp_path), "--json", "--device", "cpu") as running:
            running.wait_inside_collective(0)
            victim = running.rank(1) if number == signal.SIGKILL else running.process
            victim.send_signal(number)
            out, _ = running.process.communicate(timeout=PATIENCE)
        found = json.loads(out)
        assert (found["exit_code"], running.process.returncode, found["error"]["type"]) == (
            status,
            status,
            kind,
        )


def test_whole_copies_are_noted(tmp_path: Path) -> None:
    write_shard(tmp_path / "m.onnx", [helper.make_node("Neg", ["x"], ["y"])])
    found = document(tmp_path / "m.onnx", "--ranks", 2)
    assert "2 whole copies" in found["notes"][0] and found["exit_code"] == 0


def test_what_cannot_be_compared_has_no_distance(tmp_path: Path) -> None:
    np.savez(tmp_path / "want.npz", y=np.ones(5, np.float32))
    compared = document(summing(tmp_path), "--expect", tmp_path / "want.npz")["ranks"][0][
        "outputs"
    ][0]["comparison"]
    assert (compared["matches"], compared["max_abs_error"], compared["max_rel_error"]) == (
        False,
        None,
        None,
    )
