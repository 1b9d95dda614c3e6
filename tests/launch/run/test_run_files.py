"""What `rankmesh run` says about its NPZ files before any rank starts; and the one file for inputs
and outputs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, save
from processes import rankmesh
from shards import summing

X = np.ones(4, np.float32)


def before_any_rank(folder: Path, *arguments: object) -> str:
    """What a run says that fails where no rank could even import onnxruntime."""
    shadow = folder / "shadow"
    shadow.mkdir(exist_ok=True)
    (shadow / "onnxruntime.py").write_text("raise ModuleNotFoundError\n")
    done = rankmesh("run", *arguments, "--device", "cpu", PYTHONPATH=str(shadow))
    assert done.returncode == 3 and len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    "arrays", [{"x": X, "y": 4 * X}, {"x": X, "out_0": 4 * X}, {"in_0": X, "y": 4 * X}]
)
def test_one_file_with_names_is_inputs_and_references(
    tmp_path: Path, arrays: dict[str, np.ndarray]
) -> None:
    both = tmp_path / "both.npz"
    np.savez(both, **arrays)
    done = rankmesh("run", summing(tmp_path), "--inputs", both, "--expect", both)
    assert done.returncode == 0 and "OK: 2 outputs of 2 ranks match" in done.stdout, done.stderr


@pytest.mark.parametrize("key", ["x", "in_0"])
@pytest.mark.parametrize("name", ["in.npz", "in{rank}.npz"])
def test_float64_is_told_how_to_convert(tmp_path: Path, key: str, name: str) -> None:
    for rank in (0, 1):
        np.savez_compressed(
            tmp_path / name.format(rank=rank), **{key: X.astype(np.float64 if rank else np.float32)}
        )
    text = before_any_rank(tmp_path, summing(tmp_path), "--inputs", tmp_path / name)
    path = tmp_path / name.format(rank=1)
    assert f"{path}: the array '{key}' is float64" in text and "the input 'x' is float32" in text
    assert f"np.savez('{path}', {key}={key}.astype(np.float32))" in text


def test_float64_runs_where_the_model_takes_it(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])],
        "g",
        [info("x", TensorProto.DOUBLE, [4])],
        [info("y", TensorProto.DOUBLE, [4])],
    )
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10),
        str(tmp_path / "m.onnx"),
    )
    both = tmp_path / "both.npz"
    np.savez(both, x=X.astype(np.float64), y=-X.astype(np.float64))
    done = rankmesh(
        "run", tmp_path / "m.onnx", "--inputs", both, "--expect", both, "--device", "cpu"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("option", ["--inputs", "--expect"])
def test_a_file_that_is_missing(tmp_path: Path, option: str) -> None:
    np.savez(tmp_path / "a0.npz", x=X)
    text = before_any_rank(tmp_path, summing(tmp_path), option, tmp_path / "a{rank}.npz")
    assert text == f"rankmesh: {tmp_path / 'a1.npz'}: no such file.\n"


def test_another_placeholder_gets_use_rank(tmp_path: Path) -> None:
    text = before_any_rank(tmp_path, summing(tmp_path), "--inputs", tmp_path / "a{ranke}.npz")
    assert "use {rank}" in text and f"instead of {{ranke}}: '{tmp_path / 'a{rank}.npz'}'" in text


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    text = before_any_rank(tmp_path, summing(tmp_path), "--save", tmp_path / "none" / "out.npz")
    assert f"there is no folder {tmp_path / 'none'}: make it first" in text
