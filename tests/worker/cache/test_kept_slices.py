"""Kept slices: made once, whole or not at all, whatever happens to the processes that make them."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from sliced import example

from rankmesh.comm.errors import ModelError, UsageError
from rankmesh.comm.host.resources import MemoryLimit
from rankmesh.comm.host.stamp import Stamp
from rankmesh.comm.processes import child_answer
from rankmesh.comm.processes.sliced_model import SliceAnswer, SliceRequest, slice_in_child
from rankmesh.compiler.slicing import hugging_face
from rankmesh.compiler.slicing.planning.host_costs import PlanCosts
from rankmesh.compiler.slicing.slicing_plan import SlicingPlan
from rankmesh.worker.cache import identity
from rankmesh.worker.cache import kept_slices as child


def perceptron(path: Path, width: int, layers: int = 2) -> str:
    """x [1, width] times square matrices, with Relu between them."""
    nodes, weights, name = [], [], "x"
    for layer in range(layers):
        array = np.random.default_rng(layer).standard_normal((width, width), np.float32)
        weights.append(numpy_helper.from_array(array, f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [name, f"w{layer}"], [f"m{layer}"], f"m{layer}"))
        nodes.append(helper.make_node("Relu", [f"m{layer}"], [f"r{layer}"], f"r{layer}"))
        name = f"r{layer}"
    ends = [
        helper.make_tensor_value_info(one, TensorProto.FLOAT, [1, width]) for one in ("x", name)
    ]
    graph = helper.make_graph(nodes, "perceptron", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return str(path)


def auto(model: str, folder: Path) -> SliceAnswer:
    return child.kept_slices(SliceRequest(model, 2, folder=str(folder), may_replicate=True))


def test_replicas_are_chosen_where_one_rank_is_faster_and_they_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = perceptron(tmp_path / "small.onnx", 8)
    answer = auto(small, tmp_path / "kept")
    assert (answer.pattern, answer.ranks, answer.replicas) == (small, 1, 2)
    assert auto(small, tmp_path / "kept") == answer
    example().main(tmp_path / "model.onnx")
    answer = auto(str(tmp_path / "model.onnx"), tmp_path / "kept")
    assert (os.path.basename(answer.pattern), answer.ranks) == ("model_rank{rank}.onnx", 2)
    for limit, chosen in ((2 * 8 * 8 * 4, (1, 1)), (100, (2, 0))):
        monkeypatch.setattr(child, "memory_limit", lambda limit=limit: MemoryLimit(limit))
        answer = auto(small, tmp_path / "kept")
        assert (answer.ranks, answer.replicas) == chosen


def test_a_hugging_face_folder_is_kept_like_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its replicas run one shard, as no rank loads the folder; transformers is not needed here."""
    folder = tmp_path / "tiny.v1"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_text("{}")
    network = onnx_ir.load(perceptron(tmp_path / "m.onnx", 8))
    monkeypatch.setattr(hugging_face, "read_folder", lambda path: network.clone())
    answer = auto(str(folder), tmp_path / "kept")
    assert (answer.ranks, answer.replicas) == (1, 2)
    assert answer.pattern.endswith("/tiny.v1_rank{rank}.onnx")
    assert auto(str(folder), tmp_path / "kept") == answer
    (x,) = (np.ones((1, 8), np.float32),)
    one, whole = (
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
        for path in (answer.pattern.format(rank=0), tmp_path / "m.onnx")
    )
    np.testing.assert_allclose(one[0], whole[0], rtol=1e-6)
    (folder / "model.safetensors").write_text("[]")  # of the same size
    assert auto(str(folder), tmp_path / "kept").pattern != answer.pattern
    with pytest.raises(ModelError, match="is a folder without config.json"):
        slice_in_child(SliceRequest(str(tmp_path), 2))


def test_two_programs_at_once_have_the_same_shards(tmp_path: Path) -> None:
    model = perceptron(tmp_path / "m.onnx", 64)
    request = SliceRequest(model, 2, cache=str(tmp_path / "cache"))
    with ThreadPoolExecutor() as threads:
        first, second = threads.map(slice_in_child, [request] * 2)
    assert first.pattern == second.pattern and os.path.exists(first.pattern.format(rank=1))
    first.close()
    second.close()
    assert len(list((tmp_path / "cache").glob("entries/*/plan.json"))) == 1


HELD_UP = """
import sys, time

def hang(event, arguments):
    if event == "open" and str(arguments[0]).endswith("rank3.data"):
        time.sleep(60)

sys.addaudithook(hang)
"""
"""Has the child wait before its last file: it is still there when it is to be killed."""


def test_a_killed_child_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(HELD_UP)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    model, kept = perceptron(tmp_path / "m.onnx", 512), tmp_path / "kept"
    started: list[subprocess.Popen[bytes]] = []

    class Recorded(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *given: object, **more: object) -> None:
            super().__init__(*given, **more)  # type: ignore[call-overload]
            started.append(self)

    monkeypatch.setattr(child_answer.subprocess, "Popen", Recorded)

    def kill() -> None:
        deadline = time.monotonic() + 60
        while not list(kept.glob("**/*rank0.data")) and time.monotonic() < deadline:
            time.sleep(0.001)
        started[0].kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(ModelError, match="was killed by SIGKILL"):
        slice_in_child(SliceRequest(model, 4, cache=str(kept)))
    killer.join()
    left = [path for path in kept.glob("**/*") if path.is_file()]
    assert [path for path in left if path.parent.name != "identities"] == []
    assert not list(kept.glob("writing-*"))


def test_shards_that_the_cache_cannot_take_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKMESH_CACHE_SIZE", "1")
    request = SliceRequest(perceptron(tmp_path / "m.onnx", 512), 2, cache=str(tmp_path / "cache"))
    with pytest.raises(UsageError, match="the cache has 1 MiB at most .* --slice-dir FOLDER"):
        child.kept_slices(request)
    assert not list((tmp_path / "cache" / "entries").iterdir())


def test_measured_costs_make_other_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = SliceRequest(perceptron(tmp_path / "m.onnx", 64), 2, folder=str(tmp_path / "kept"))
    before = child.kept_slices(request).pattern
    monkeypatch.setattr(child, "plan_costs", lambda ranks: PlanCosts(measured=True))
    assert child.kept_slices(request).pattern != before


_LONG_AGO_NS = 10**18


def scaled(path: Path, factor: float) -> str:
    """y = x times a matrix of this factor, with the same time whatever the factor."""
    ends = [helper.make_tensor_value_info(one, TensorProto.FLOAT, [1, 64]) for one in ("x", "y")]
    weight = numpy_helper.from_array(np.full((64, 64), factor, np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "m")]
    graph = helper.make_graph(nodes, "scaled", ends[:1], ends[1:], [weight])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    os.utime(path, ns=(_LONG_AGO_NS, _LONG_AGO_NS))
    return str(path)


def weights_of(answer: SliceAnswer) -> list[float]:
    """The different numbers in the weights of the first shard."""
    data = Path(answer.pattern.format(rank=0)).with_suffix(".data")
    return sorted(set(np.fromfile(data, np.float32)) - {0.0})


@pytest.mark.parametrize("where", ["cache", "folder"])
def test_weights_of_equal_size_and_time_make_other_shards(tmp_path: Path, where: str) -> None:
    """As in images whose files all have one time."""
    found = []
    for factor in (1.0, 2.0, 1.0):
        model = scaled(tmp_path / "m.onnx", factor)
        answer = child.kept_slices(SliceRequest(model, 2, **{where: str(tmp_path / "kept")}))
        found.append((answer.pattern, weights_of(answer)))
    assert [weights for _, weights in found] == [[1.0], [2.0], [1.0]]
    assert found[0] == found[2]


@pytest.mark.parametrize("where", ["cache", "folder"])
def test_settled_files_are_read_once(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "SETTLED_NS", 0)
    request = SliceRequest(scaled(tmp_path / "m.onnx", 1.0), 2, **{where: str(tmp_path / "kept")})
    answer = child.kept_slices(request)
    monkeypatch.setattr(child, "source_files", None)
    assert child.kept_slices(request) == answer


@pytest.mark.parametrize("settled_ns", [0, identity.SETTLED_NS])
@pytest.mark.parametrize("where", ["cache", "folder"])
def test_a_model_that_changes_while_it_is_sliced_is_refused(
    tmp_path: Path, where: str, settled_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the change shows in none of the times of the file system."""
    monkeypatch.setattr(identity, "SETTLED_NS", settled_ns)
    if settled_ns:
        monkeypatch.setattr(Stamp, "holds", True)
    plan = child.plan_slices

    def retrained(path: str, ranks: int, **more: int) -> SlicingPlan:
        scaled(tmp_path / "m.onnx", 2.0)
        return plan(path, ranks, **more)

    monkeypatch.setattr(child, "plan_slices", retrained)
    model = scaled(tmp_path / "m.onnx", 1.0)
    with pytest.raises(ModelError, match="changes while it is read"):
        child.kept_slices(SliceRequest(model, 2, **{where: str(tmp_path / "kept")}))
    assert not list((tmp_path / "kept").glob("**/*rank0*"))
