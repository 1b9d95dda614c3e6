"""What `rankmesh run` says to bad models, inputs and options: exit code, file, expectation; and
nothing left.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save
from processes import rankmesh, segments
from shards import OPSETS, all_reduce, summing, write_shard


def refused(status: int, *phrases: str, arguments: list[object], **environment: str) -> None:
    """The run fails with `status`, says each phrase, shows no trace and leaves nothing."""
    before = segments()
    done = rankmesh("run", *arguments, **environment)
    assert done.returncode == status, done.stderr
    for phrase in phrases:
        assert phrase in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert segments() <= before


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    path = tmp_path / "in.npz"
    np.savez(path, in_0=np.ones(4, np.float32), out_0=np.full(4, 4.0, np.float32))
    return path


@pytest.mark.parametrize(
    ("content", "phrase"),
    [
        (b"", "is empty"),
        (b"hello, this is no model at all", "is a text that begins with 'hello"),
        (b"\x08\x0a\x12", "not a readable ONNX"),
        (b"\0\0\0\0MSL2\0\0", "not a readable .ms file"),
        (b"\xd8\x5e\x3a\x7f" + bytes(64), "encrypted"),
    ],
)
def test_file_that_is_no_model(tmp_path: Path, content: bytes, phrase: str) -> None:
    path = tmp_path / "model.mindir"
    path.write_bytes(content)
    refused(3, str(path), phrase, arguments=[path])


def test_bad_shard_is_named_with_its_rank(tmp_path: Path) -> None:
    pattern = summing(tmp_path)
    shard = tmp_path / "sum1.onnx"
    shard.write_bytes(shard.read_bytes()[:-9])
    refused(3, f"rankmesh: rank 1: {shard}: ", "not a readable ONNX", arguments=[pattern])


def test_model_that_is_missing(tmp_path: Path) -> None:
    refused(3, "none.mindir", "none0.mindir", arguments=[tmp_path / "none.mindir"])


def test_shard_that_is_missing(tmp_path: Path) -> None:
    pattern = summing(tmp_path, 3)
    (tmp_path / "sum1.onnx").unlink()
    refused(3, "sum1.onnx", "is missing", arguments=[pattern])
    refused(3, "sum3.onnx", "4 ranks", arguments=[summing(tmp_path, 3), "--ranks", 4])


def test_too_few_ranks(tmp_path: Path) -> None:
    for rank in range(2):
        write_shard(tmp_path / f"tp{rank}.onnx", [all_reduce("x", "y", ranks=[0, 1])])
    refused(
        3,
        "tp0.onnx",
        "was sliced for 2 ranks",
        "this is a job of 1 rank. Start 2.",
        arguments=[tmp_path / "tp0.onnx"],
    )


def test_shard_of_another_rank(tmp_path: Path) -> None:
    for rank in range(2):
        node = helper.make_node(
            "Broadcast", ["x"], ["y"], domain="rankmesh", group="world", position=1
        )
        write_shard(tmp_path / f"g{rank}.onnx", [node])
    refused(3, "g0.onnx", "given to rank 0", "member 1", arguments=[tmp_path / "g.onnx"])


def test_shards_of_different_models(tmp_path: Path) -> None:
    write_shard(tmp_path / "m0.onnx", [all_reduce("x", "y")])
    write_shard(tmp_path / "m1.onnx", [all_reduce("x", "y", reduction="max")])
    refused(
        3,
        "m0.onnx (rank 0)",
        "m1.onnx (rank 1)",
        "AllReduce",
        "max",
        arguments=[tmp_path / "m.onnx"],
    )


def test_external_data(tmp_path: Path) -> None:
    weight = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL
    )
    place = weight.external_data.add(key="location", value="weights.bin")
    weight.external_data.add(key="length", value="16")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        [weight],
    )
    model = tmp_path / "inside" / "model.onnx"
    model.parent.mkdir()

    def with_location(location: str) -> Path:
        place.value = location
        del graph.initializer[:]
        graph.initializer.append(weight)
        save(helper.make_model(graph, opset_imports=OPSETS, ir_version=10), str(model))
        return model

    refused(3, "weights.bin", "is missing", arguments=[with_location("weights.bin")])
    (model.parent / "weights.bin").write_bytes(bytes(12))
    refused(3, "weights.bin", "too short", "12", arguments=[with_location("weights.bin")])
    (tmp_path / "outside.bin").write_bytes(bytes(16))
    refused(
        3, "outside.bin", "outside the model's folder", arguments=[with_location("../outside.bin")]
    )
    (model.parent / "link.bin").symlink_to(tmp_path / "outside.bin")
    refused(3, "link.bin", "outside the model's folder", arguments=[with_location("link.bin")])


@pytest.mark.parametrize(
    ("arrays", "phrases"),
    [
        ({"in_0": np.ones(5, np.float32)}, ["'x'", "[5]", "[4]"]),
        ({"x": np.ones(4, np.float64)}, ["'x'", "float64", "float32"]),
        (
            {"in_0": np.ones(4, np.float32), "in_1": np.ones(4, np.float32)},
            ["'in_1'", "does not know"],
        ),
        ({"z": np.ones(4, np.float32)}, ["'z'", "does not know"]),
        ({"out_0": np.ones(4, np.float32)}, ["no array for the inputs", "'x'"]),
    ],
)
def test_inputs_that_do_not_fit(
    tmp_path: Path, arrays: dict[str, np.ndarray], phrases: list[str]
) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    refused(3, *phrases, arguments=[summing(tmp_path), "--inputs", tmp_path / "bad.npz"])


def test_reference_that_does_not_fit(tmp_path: Path, inputs: Path) -> None:
    pattern = summing(tmp_path)
    assert rankmesh("run", pattern, "--inputs", inputs, "--expect", inputs).returncode == 0
    np.savez(tmp_path / "far.npz", out_0=np.full(4, 5.0, np.float32))
    done = rankmesh("run", pattern, "--inputs", inputs, "--expect", tmp_path / "far.npz")
    assert done.returncode == 1 and "FAILED: 2 of 2 outputs differ" in done.stdout
    np.savez(tmp_path / "none.npz", in_0=np.ones(4, np.float32))
    done = rankmesh("run", pattern, "--expect", tmp_path / "none.npz")
    assert done.returncode == 1 and "nothing was compared" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "environment", "phrase"),
    [
        (["--ranks", 0], {}, "--ranks 0"),
        (["--rank-table", "nowhere.json"], {}, "nowhere.json"),
        (["--device", "gpu"], {"CUDA_VISIBLE_DEVICES": ""}, "--device gpu"),
        (["--device", "tpu"], {}, "tpu"),
        (["--collectives", "smoke"], {}, "smoke"),
        (
            ["--ranks", 3],
            {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"},
            "Open MPI, which started 2 ranks",
        ),
        (
            [],
            {"TORCHELASTIC_RUN_ID": "none", "RANK": "2", "WORLD_SIZE": "2"},
            "torchrun contradict",
        ),
        ([], {"RANKMESH_COLLECTIVE_TIMEOUT": "soon"}, "RANKMESH_COLLECTIVE_TIMEOUT"),
        (["--rtol", "x"], {}, "--rtol"),
    ],
)
def test_usage(
    tmp_path: Path, arguments: list[object], environment: dict[str, str], phrase: str
) -> None:
    refused(2, phrase, arguments=[summing(tmp_path), *arguments], **environment)


def test_rank_table(tmp_path: Path) -> None:
    def table(devices: list[tuple[int, int]]) -> Path:
        entries = ",".join(f'{{"device_id": "{d}", "rank_id": "{r}"}}' for d, r in devices)
        path = tmp_path / "table.json"
        path.write_text(
            '{"version": "1.0", "server_count": "1", "status": "completed", "server_list": '
            f'[{{"server_id": "10.9.8.7", "device": [{entries}]}}]}}'
        )
        return path

    pattern = summing(tmp_path)
    assert rankmesh("run", pattern, "--rank-table", table([(4, 0), (5, 1)])).returncode == 0
    refused(2, "rank_id", arguments=[pattern, "--rank-table", table([(4, 0), (5, 0)])])
    refused(
        2, "--ranks 3", arguments=[pattern, "--ranks", 3, "--rank-table", table([(4, 0), (5, 1)])]
    )


def test_save_and_repeat(tmp_path: Path, inputs: Path) -> None:
    done = rankmesh(
        "run",
        summing(tmp_path),
        "--inputs",
        inputs,
        "--save",
        tmp_path / "y{rank}.npz",
        "--repeat",
        3,
    )
    assert (
        done.returncode == 0
        and "latency of 3 requests" in done.stdout
        and "in collectives" in done.stdout
    )
    for rank in range(2):
        assert np.load(tmp_path / f"y{rank}.npz")["out_0"].tolist() == [4.0] * 4
    assert rankmesh("run", summing(tmp_path), "--save", tmp_path / "y.npz").returncode == 0
    assert np.load(tmp_path / "y.npz")["out_0"].tolist() == [4.0] * 4


def test_no_process_of_a_run_imports_torch(tmp_path: Path) -> None:
    """An onnxruntime run must not pay for torch: make importing it fatal."""
    (tmp_path / "torch.py").write_text("import os; os._exit(77)")
    done = rankmesh("run", summing(tmp_path), PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr


def test_scalar_output_keeps_its_shape(tmp_path: Path) -> None:
    """A 0-d output keeps its shape."""
    graph = helper.make_graph(
        [helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
        [numpy_helper.from_array(np.zeros(1), "unused")],
    )
    save(helper.make_model(graph, opset_imports=OPSETS, ir_version=10), str(tmp_path / "s.onnx"))
    np.savez(tmp_path / "s.npz", out_0=np.float32(4))
    done = rankmesh("run", tmp_path / "s.onnx", "--expect", tmp_path / "s.npz")
    assert done.returncode == 0, done.stdout + done.stderr
