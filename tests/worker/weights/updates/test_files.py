"""Weights from files of every kind, and from files that are none."""

from __future__ import annotations

import json
import math
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from rankmesh.comm.errors import InputError
from rankmesh.worker.weights.updates.files import read_weights

pytestmark = pytest.mark.pure

DATA = Path(__file__).parents[3] / "data" / "mindir"


def test_safetensors_and_npz(tmp_path: Path) -> None:
    arrays = {"a.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array(3, np.int64)}
    half = {"h": np.ones(3, ml_dtypes.bfloat16)}
    safetensors.numpy.save_file({**arrays, **half}, tmp_path / "w.safetensors")
    np.savez(tmp_path / "w.npz", **arrays)
    for name, expected in (("w.safetensors", {**arrays, **half}), ("w.npz", arrays)):
        found = read_weights(str(tmp_path / name))
        assert found.keys() == expected.keys()
        for key, array in expected.items():
            assert found[key].dtype == array.dtype
            np.testing.assert_array_equal(found[key], array)


def test_a_mindir_gives_its_parameters() -> None:
    weights = read_weights(str(DATA / "mlp" / "mlp.mindir"))
    assert {name: array.shape for name, array in weights.items() if name.startswith("fc1")} == {
        "fc1.weight": (32, 16),
        "fc1.bias": (32,),
    }


def test_a_file_of_mindspore_lite_gives_its_parameters() -> None:
    weights = read_weights(str(DATA.parent / "ms" / "lenet_tod_infer.ms"))
    assert weights["fc1.weight"].shape == (120, 400)
    assert weights["conv2.weight"].shape == (16, 5, 5, 6)


@pytest.mark.parametrize("kind", ["safetensors", "npz", "mindir", "ms"])
@pytest.mark.parametrize("content", [b"", b"\xff" * 100, b'\x08\0\0\0\0\0\0\0{"a":1}.'])
def test_what_is_no_such_file(tmp_path: Path, kind: str, content: bytes) -> None:
    path = tmp_path / f"w.{kind}"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"w.{kind}: "):
        read_weights(str(path))


def test_another_suffix_or_no_file(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"come in .safetensors, .npz, .mindir or .ms files, got '.bin'"
    ):
        read_weights(str(tmp_path / "w.bin"))
    with pytest.raises(InputError, match=r"w.npz: there is no such file"):
        read_weights(str(tmp_path / "w.npz"))


def test_pickles_are_not_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", a=np.array([{}], object))
    with pytest.raises(InputError, match="holds Python objects"):
        read_weights(str(tmp_path / "w.npz"))


def test_every_type_of_safetensors(tmp_path: Path) -> None:
    """Of any shape, at any address."""
    types = [
        np.bool_,
        np.int8,
        np.int16,
        np.int32,
        np.int64,
        np.uint8,
        np.uint16,
        np.uint32,
        np.uint64,
        np.float16,
        np.float32,
        np.float64,
        np.complex64,
        ml_dtypes.bfloat16,
    ]
    arrays = {
        f"{np.dtype(kind).name} {shape}": np.arange(math.prod(shape)).astype(kind).reshape(shape)
        for kind in types
        for shape in ((), (3,), (0, 2), (3, 5))
    }
    safetensors.numpy.save_file(arrays, tmp_path / "w.safetensors", {"format": "np"})
    found = read_weights(str(tmp_path / "w.safetensors"))
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)


def test_a_type_that_numpy_lacks(tmp_path: Path) -> None:
    safetensors.numpy.save_file({"a": np.ones(4, np.uint8)}, tmp_path / "w.safetensors")
    content = (tmp_path / "w.safetensors").read_bytes().replace(b'"U8"', b'"F8_E4M3"')
    length = int.from_bytes(content[:8], "little") + 5
    (tmp_path / "w.safetensors").write_bytes(length.to_bytes(8, "little") + content[8:])
    with pytest.raises(InputError, match="cannot be read as safetensors: 'F8_E4M3'"):
        read_weights(str(tmp_path / "w.safetensors"))


@pytest.mark.parametrize("shape", [[1] * 5000 + [2], [0, 2**62]])
def test_shapes_that_numpy_lacks(tmp_path: Path, shape: list[int]) -> None:
    header = json.dumps(
        {"w": {"dtype": "F32", "shape": shape, "data_offsets": [0, 4 * math.prod(shape)]}}
    ).encode()
    (tmp_path / "w.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header + bytes(4 * math.prod(shape))
    )
    with pytest.raises(InputError, match=r"w.safetensors: cannot be read as safetensors: "):
        read_weights(str(tmp_path / "w.safetensors"))
