"""`rankmesh slice`: shards that run, plans that are obeyed, and nothing left of what fails."""

import json
import os
import signal
import subprocess
import time

import numpy as np
import onnx
import processes
import pytest
from sliced import example

import rankmesh
from rankmesh.launch.slicing.slice import size_of, sizes_of


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "model.onnx"
    example().main(path)
    return path


@pytest.fixture(scope="module")
def sliced(model):
    """The report of the command, and the folder."""
    folder = model.parent / "shards"
    done = processes.rankmesh(
        "slice", model, "--ranks", 2, "-o", folder, "--json", "--picture", f"{folder}.svg"
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), folder


def test_the_shards_run_and_compute_what_the_model_computes(sliced, model):
    report, folder = sliced
    case = model.with_suffix(".npz")
    done = processes.rankmesh(
        "run", f"{folder}/model_rank{{rank}}.onnx", "--inputs", case, "--expect", case
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with open(f"{folder}.svg", encoding="utf-8") as picture:
        assert "2 AllReduce" in picture.read()
    assert report["error"] <= 1e-5 and "verified (blocks)" in report["verification"]
    assert max(report["weight_bytes"]) <= 0.51 * 853_888
    assert sorted(os.listdir(folder)) == [
        "model_rank0.data", "model_rank0.onnx", "model_rank1.data", "model_rank1.onnx",
        "plan.json", "report.txt", "weights.json",
    ]  # fmt: skip


def test_shards_have_the_inputs_and_outputs_of_the_model(sliced, model):
    whole = onnx.load(model)
    for path in sliced[0]["files"]:
        shard = onnx.load(path)
        assert shard.graph.input == whole.graph.input
        assert shard.graph.output == whole.graph.output
        assert shard.ir_version <= 11
        names = {tensor.name for tensor in shard.graph.initializer}
        assert {"embedding", "layers.0.up.weight", "logits.weight"} <= names


def test_shards_of_two_slicings_are_not_mixed(sliced, model, tmp_path):
    other = model.parent / "other.onnx"
    changed = onnx.load(model)
    logits = next(one for one in changed.graph.initializer if one.name == "logits.weight")
    logits.raw_data = (onnx.numpy_helper.to_array(logits) * np.float32(2)).tobytes()
    onnx.save(changed, other)
    rankmesh.slice_model(
        str(other), rankmesh.plan_slices(str(other), 2), str(tmp_path), verify="none"
    )
    first, second = sliced[1] / "model_rank0.onnx", tmp_path / "other_rank1.onnx"
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    for rank, path in enumerate((first, second)):
        for suffix in (".onnx", ".data"):
            source = path.with_suffix(suffix)
            (mixed / f"m_rank{rank}{suffix}").write_bytes(source.read_bytes())
            (mixed / source.name).write_bytes(source.read_bytes())
    done = processes.rankmesh("run", f"{mixed}/m_rank{{rank}}.onnx")
    assert done.returncode != 0
    assert "were not sliced together" in done.stderr


def test_a_plan_file_is_obeyed_and_a_bad_edit_is_named(sliced, model, tmp_path):
    plan = json.loads((sliced[1] / "plan.json").read_text())
    whole = "layers.1.up"
    found = rankmesh.read_slicing_plan(str(model), str(sliced[1] / "plan.json"))
    found.set_strategy(whole, ["replicated", "replicated"], ["replicated"])
    found.save(str(tmp_path / "edited.json"))
    report = rankmesh.slice_model(str(model), str(tmp_path / "edited.json"), str(tmp_path / "s"))
    shard = onnx.load(report.files[0])
    shapes = {tensor.name: list(tensor.dims) for tensor in shard.graph.initializer}
    assert shapes[f"{whole}.weight"] == [64, 256] and shapes["layers.0.up.weight"] == [64, 128]
    assert report.error <= 1e-5
    plan["nodes"]["layers.0.up"]["outputs"] = ["partial(sum)"]
    (tmp_path / "bad.json").write_text(json.dumps(plan))
    done = processes.rankmesh(
        "slice", model, "--plan", tmp_path / "bad.json", "-o", tmp_path / "bad"
    )
    assert done.returncode == 2
    assert "bad.json: node layers.0.up (MatMul): the rule does not allow" in done.stderr
    assert not (tmp_path / "bad").exists()


def test_a_dry_run_prints_the_plan_and_writes_it_alone(model, tmp_path):
    done = processes.rankmesh("slice", model, "--ranks", 2, "--dry-run", "-o", tmp_path / "plan")
    assert done.returncode == 0, done.stderr
    assert "layers.0" in done.stdout and "2 AllReduce" in done.stdout
    assert os.listdir(tmp_path / "plan") == ["plan.json"]


HELD_UP = """
import sys, time

def hang(event, arguments):
    if event == "open" and str(arguments[0]).endswith("rank1.data"):
        time.sleep(60)

sys.addaudithook(hang)
"""
"""Has the command wait before its last file: it is still there when the signal comes."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing(model, tmp_path, number):
    late = model.parent / "late"
    late.mkdir(exist_ok=True)
    (late / "sitecustomize.py").write_text(HELD_UP)
    more = {"env": {**os.environ, "PYTHONPATH": str(late)}}
    command = [*processes.COMMAND, "slice", str(model), "--ranks", "2", "-o", str(tmp_path / "s")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **more) as process:
        deadline = time.monotonic() + 60
        while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.002)
        process.send_signal(number)
        assert process.wait(60) == 128 + number
        ends = f"rankmesh: stopped by {number.name}; no shards were written\n"
        assert process.stderr.read().endswith(ends)
    assert list(tmp_path.iterdir()) == []


def test_shards_and_too_little_memory_are_refused(sliced, model):
    with pytest.raises(rankmesh.ModelError, match="is a collective: the model is sliced already"):
        rankmesh.plan_slices(sliced[0]["files"][0], 2)
    with pytest.raises(rankmesh.UsageError, match="rank 0 of 2 needs .* bytes"):
        rankmesh.plan_slices(str(model), 2, memory=1000)


@pytest.mark.pure
def test_sizes_are_read():
    assert size_of("12GB") == 12 * 10**9 and size_of("1.5 GiB") == 3 << 29
    assert sizes_of("batch=2, sequence=7") == {"batch": 2, "sequence": 7}
    for wrong in ("12XB", "GB", "-1"):
        with pytest.raises(rankmesh.UsageError, match="expected a size"):
            size_of(wrong)
    for wrong in ("batch", "batch=0", "=3"):
        with pytest.raises(rankmesh.UsageError, match="expected NAME=N"):
            sizes_of(wrong)


def test_a_pipeline_is_proved_and_runs(model, tmp_path):
    plan = rankmesh.plan_slices(str(model), 4, stages=2)
    report = rankmesh.slice_model(str(model), plan, str(tmp_path / "s"))
    assert report.error <= 1e-5
    assert max(plan.weight_bytes) <= 0.35 * 853_888
    case = model.with_suffix(".npz")
    done = processes.rankmesh("run", report.pattern, "--inputs", case, "--expect", case)
    assert done.returncode == 0, done.stdout + done.stderr


def test_shards_with_the_nodes_of_tensorrt_run_and_stages_are_refused(model, tmp_path):
    options = ("--collectives", "tensorrt", "--verify", "none", "-o", tmp_path / "s")
    done = processes.rankmesh(
        "slice", model, "--ranks", 3, *options
    )  # three ranks share four heads unevenly
    assert done.returncode == 0, done.stderr
    shard = onnx.load(tmp_path / "s" / "model_rank1.onnx", load_external_data=False)
    assert "DistCollective" in {node.op_type for node in shard.graph.node}
    assert "rankmesh" not in {one.domain for one in (*shard.graph.node, *shard.opset_import)}
    case = model.with_suffix(".npz")
    files = ("--inputs", case, "--expect", case, "--rtol", 1e-4, "--atol", 1e-5)
    done = processes.rankmesh("run", tmp_path / "s" / "model_rank{rank}.onnx", *files)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "OK" in done.stdout
    done = processes.rankmesh("slice", model, "--ranks", 2, "--stages", 2, *options)
    assert done.returncode == 2
    assert "the plan has 2 stages" in done.stderr and "DistCollective has no Send" in done.stderr
