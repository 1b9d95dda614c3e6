"""Rank proofs: no shard is kept that ranks cannot load, or with which they answer otherwise."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import psutil
import pytest
from leftovers import nothing_left
from onnx import ModelProto, TensorProto, helper, numpy_helper
from processes import PATIENCE, rankmesh, wait_until
from sliced import example

from rankmesh import ModelError, plan_slices, slice_model
from rankmesh.comm.host.resources import MemoryLimit
from rankmesh.comm.processes.shard_trial import ShardTrial, TrialRequest
from rankmesh.compiler.slicing.emission import rank_proof

_DRAW = np.random.default_rng(0)
_WEIGHTS = {
    "up": _DRAW.standard_normal((64, 128), np.float32),
    "down": _DRAW.standard_normal((128, 64), np.float32),
}


def two_layers(edit: Callable[[ModelProto], object] = lambda _: None) -> ModelProto:
    """Two products, between which ranks need no collective, after an edit."""
    nodes = [
        helper.make_node("MatMul", ["x", "up"], ["wide"]),
        helper.make_node("Relu", ["wide"], ["active"]),
        helper.make_node("MatMul", ["active", "down"], ["y"]),
    ]
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 64]) for name in ("x", "y")
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in _WEIGHTS.items()]
    graph = helper.make_graph(nodes, "two", values[:1], values[1:], tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    edit(made)
    return made


def _with_sequence(model: ModelProto) -> None:
    graph = model.graph
    graph.node[2].output[0] = "z"
    graph.node.append(helper.make_node("SplitToSequence", ["z", "part"], ["y"], axis=1))
    graph.initializer.append(numpy_helper.from_array(np.array(32), "part"))
    graph.output[0].CopyFrom(helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None))


def _with_optional(model: ModelProto) -> None:
    kind = helper.make_optional_type_proto(
        helper.make_tensor_type_proto(TensorProto.FLOAT, [1, 64])
    )
    model.graph.input[0].CopyFrom(helper.make_value_info("o", kind))
    model.graph.node.insert(0, helper.make_node("OptionalGetElement", ["o"], ["x"]))


def _with_text(model: ModelProto) -> None:
    model.graph.initializer.append(helper.make_tensor("k", TensorProto.STRING, [1], [b"a"]))
    model.graph.node.append(helper.make_node("Identity", ["k"], ["t"]))
    model.graph.output.append(helper.make_tensor_value_info("t", TensorProto.STRING, [1]))


_ODD = {"sequence": _with_sequence, "optional": _with_optional, "text": _with_text}


@pytest.mark.parametrize("verify", ["blocks", "none"])
@pytest.mark.parametrize("edit", _ODD.values(), ids=_ODD)
def test_shards_that_no_rank_loads_are_not_kept(
    edit: Callable[[ModelProto], None], verify: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "odd.onnx")
    onnx.save(two_layers(edit), path)
    with pytest.raises(ModelError):
        slice_model(path, plan_slices(path, 2), str(tmp_path / "shards"), verify)
    assert [one.name for one in tmp_path.iterdir()] == ["odd.onnx"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("whole") / "two.onnx"
    onnx.save(two_layers(), path)
    return str(path)


@pytest.fixture(scope="module")
def pattern(whole: str) -> str:
    """Shards that are right."""
    folder = Path(whole).parent / "shards"
    report = slice_model(whole, plan_slices(whole, 2), str(folder))
    assert report.proof == "ranks"
    assert "; run by 2 ranks together, largest relative error" in report.verification
    return report.pattern


@pytest.mark.parametrize(("limit", "done"), [(100_000_000, "loaded"), (1000, "read")])
def test_where_memory_is_short_the_report_says_lockstep_only(
    limit: int, done: str, whole: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_proof, "memory_limit", lambda: MemoryLimit(limit))
    report = slice_model(whole, plan_slices(whole, 2), str(tmp_path / "shards"))
    assert report.proof == "lockstep only"
    assert f"lockstep only, each shard was {done} by itself: all ranks together need 0.1 GB" in (
        Path(report.folder, "report.txt").read_text()
    )


def test_without_a_proof_the_report_says_so(whole: str, tmp_path: Path) -> None:
    how = "slice", whole, "--ranks", 2, "-o", tmp_path / "shards", "--json", "--verify", "none"
    done = rankmesh(*how)
    found = json.loads(done.stdout)
    assert (found["proof"], found["error"]) == ("not verified", None)
    assert found["verification"] == "not verified; each shard was read by itself"


def test_another_answer_is_found(pattern: str, tmp_path: Path) -> None:
    x = np.ones((3, 64), np.float32)
    y = np.maximum(x @ _WEIGHTS["up"], 0) @ _WEIGHTS["down"]
    right, wrong, other = (str(tmp_path / f"{name}.npz") for name in ("right", "wrong", "other"))
    np.savez(right, in_0=x, out_0=y)
    np.savez(wrong, in_0=x, out_0=np.where(y == y.max(), 2 * y, y))
    np.savez(other, in_0=x, out_0=y[:2])
    with nothing_left(), ShardTrial() as trial:
        found = [
            trial.ask(TrialRequest(pattern, 2, "run", path, compares=True))
            for path in (right, wrong, other)
        ]
    assert found[0].largest < 1e-5 and not found[0].error and not found[0].differs
    assert found[1].largest > 0.1
    assert "has shape [3, 64], the reference [2, 64]" in found[2].differs


def test_a_rank_that_fails_or_dies_is_told(pattern: str, tmp_path: Path) -> None:
    shard = Path(pattern.replace("{rank}", "1"))
    for rank in (0, 1):
        (tmp_path / f"bad{rank}.onnx").write_bytes(shard.read_bytes())
    (tmp_path / shard.with_suffix(".data").name).write_bytes(b"")
    bad = str(tmp_path / "bad{rank}.onnx")
    np.savez(tmp_path / "x.npz", in_0=np.ones((3, 64), np.float32))
    with ShardTrial() as trial:
        for extent in ("read", "load", "run"):
            found = trial.ask(TrialRequest(bad, 2, extent, str(tmp_path / "x.npz")))
            assert found.error == "ModelError" and "bad" in found.text, found
        trial._process.kill()
        with pytest.raises(ModelError, match="was killed by SIGKILL"):
            trial.ask(TrialRequest(bad, 2, "read"))


def test_a_trial_ends_with_the_process_that_asks(pattern: str) -> None:
    script = (
        "import sys, time\n"
        "from rankmesh.comm.processes.shard_trial import ShardTrial\n"
        "with ShardTrial() as trial:\n"
        "    print(trial._process.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-P", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None
        pid = int(asking.stdout.readline())
        asking.send_signal(signal.SIGKILL)
        asking.wait(PATIENCE)
    wait_until(lambda: not psutil.pid_exists(pid), "the trial to end")


def test_weights_of_zeros_are_run_as_they_are(tmp_path: Path) -> None:
    """The lockstep replaces them, and ranks have the files."""
    path = str(tmp_path / "zeros.onnx")
    onnx.save(two_layers(lambda one: one.graph.initializer[1].ClearField("raw_data")), path)
    model = onnx.load(path)
    model.graph.initializer[1].raw_data = bytes(128 * 64 * 4)
    onnx.save(model, path)
    assert slice_model(path, plan_slices(path, 2), str(tmp_path / "s")).proof == "ranks"


def test_a_pipeline_is_run_by_its_ranks(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    example().main(path)
    plan = plan_slices(str(path), 4, stages=2)
    report = slice_model(str(path), plan, str(tmp_path / "s"))
    assert "; run by 4 ranks together, largest relative error" in report.verification


def _with_weights_of_8_bits(model: ModelProto) -> None:
    """Quantised weights, for which onnxruntime rounds what they are multiplied with, too."""
    graph = model.graph
    stored = np.clip(np.rint(_WEIGHTS["down"] * 40) + 128, 0, 255).astype(np.uint8)
    graph.initializer[1].CopyFrom(numpy_helper.from_array(stored, "stored"))
    graph.initializer.append(numpy_helper.from_array(np.full(64, 0.02, np.float32), "scale"))
    graph.initializer.append(numpy_helper.from_array(np.full(64, 128, np.uint8), "zero"))
    names = ["stored", "scale", "zero"]
    graph.node.insert(2, helper.make_node("DequantizeLinear", names, ["down"], axis=1))


def test_weights_of_8_bits_round_the_other_factor(tmp_path: Path) -> None:
    path = str(tmp_path / "quantised.onnx")
    onnx.save(two_layers(_with_weights_of_8_bits), path)
    report = slice_model(path, plan_slices(path, 2), str(tmp_path / "shards"))
    assert report.proof == "ranks"
