"""Files that a conversion writes: whole or split, plain or encrypted, and what weights become."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rankmesh.comm.errors import ModelError, UsageError
from rankmesh.compiler.convert.conversion import convert_model
from rankmesh.compiler.convert.mindir import model_files
from rankmesh.compiler.convert.settings import (
    ConversionSettings,
    decryption_of,
    encryption_of,
    shapes_of,
)
from rankmesh.compiler.mindir.reader import read_model

pytestmark = pytest.mark.pure
KEY = "00112233445566778899aabbccddeeff"
WEIGHT = np.arange(6000, dtype=np.float32).reshape(20, 300) / 7
BIAS = np.arange(300, dtype=np.float32) / 3


@pytest.fixture
def source(tmp_path: Path) -> str:
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["product"], name="product"),
        helper.make_node("Add", ["product", "bias"], ["y"], name="sum"),
    ]
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 20])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 300])],
        [numpy_helper.from_array(WEIGHT, "weight"), numpy_helper.from_array(BIAS, "bias")],
    )
    path = tmp_path / "linear.onnx"
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return str(path)


def weights_of(path: Path, key: str = "", mode: str = "AES-GCM") -> dict[str, np.ndarray]:
    """The weights of a MindIR file, by their names."""
    model = read_model(str(path), decryption_of(key, mode))
    return {one.name: one.array() for one in model.weights.values()}


def check(found: dict[str, np.ndarray], tolerance: float = 0.0) -> None:
    """Compare with the weights of the source."""
    assert found.keys() == {"weight", "bias"}
    np.testing.assert_allclose(found["weight"], WEIGHT, rtol=tolerance)
    np.testing.assert_allclose(found["bias"], BIAS, rtol=tolerance)


def test_one_file(source: str, tmp_path: Path) -> None:
    written = convert_model(ConversionSettings(source, str(tmp_path / "SD2.1_bs1")))
    assert written.name == "SD2.1_bs1.mindir"
    check(weights_of(written))
    model = read_model(str(written))
    assert model.user_info["source"] == "linear.onnx"
    assert [one.name for one in model.entry.inputs] == ["x"]


@pytest.mark.parametrize("mode", ["AES-GCM", "AES-CBC", "SM4-CBC"])
@pytest.mark.parametrize("split", [False, True])
def test_encrypted_files(
    source: str, tmp_path: Path, mode: str, split: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_files, "SINGLE_FILE", 0 if split else 1 << 30)
    encryption = encryption_of(KEY, mode)
    settings = ConversionSettings(source, str(tmp_path / "secret"), encryption=encryption)
    written = convert_model(settings)
    files = [one for one in tmp_path.rglob("*") if one.is_file() and one.suffix != ".onnx"]
    assert not any(WEIGHT[3].tobytes() in one.read_bytes() for one in files)
    check(weights_of(written, KEY, mode))
    with pytest.raises(ModelError):
        read_model(str(written))


def test_weights_of_a_large_model_lie_beside_its_graph(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_files, "SINGLE_FILE", 1000)
    for _ in range(2):  # the second takes the place of the first
        written = convert_model(ConversionSettings(source, str(tmp_path / "large")))
        assert written.name == "large_graph.mindir"
        names = sorted(one.name for one in tmp_path.iterdir())
        assert names == ["large_graph.mindir", "large_variables", "linear.onnx"]
        variables = (tmp_path / "large_variables" / "data_0").read_bytes()
        assert variables[0] == 1 and not any(variables[1:64])
        check(weights_of(written))


def test_half_weights(source: str, tmp_path: Path) -> None:
    settings = ConversionSettings(source, str(tmp_path / "half"), half_weights=True)
    found = weights_of(convert_model(settings))
    assert {one.dtype for one in found.values()} == {np.dtype(np.float16)}
    check(found, 1e-3)


def test_a_failure_leaves_what_was_there(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = convert_model(ConversionSettings(source, str(tmp_path / "kept")))
    before = written.read_bytes()

    def full(*given: object) -> None:
        raise OSError(28, "No space left on device", str(tmp_path))

    monkeypatch.setattr(model_files, "write_single", full)
    with pytest.raises(UsageError, match="No space left"):
        convert_model(ConversionSettings(source, str(tmp_path / "kept")))
    assert written.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["kept.mindir", "linear.onnx"]


@pytest.mark.parametrize(
    ("key", "words"),
    [("00ff", "has 16, 24, 32 bytes, and this one has 2"), ("secret", "holds no key: expected")],
)
def test_keys_that_are_none(key: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        encryption_of(key)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("sample:1,4,64,64;timestep:1", {"sample": (1, 4, 64, 64), "timestep": (1,)}),
        (" a:b:2,3 ; ", {"a:b": (2, 3)}),
        ("x:-1,3", {"x": (-1, 3)}),
        ("scalar:", {"scalar": ()}),
        ("", {}),
    ],
)
def test_shapes_as_text(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    assert shapes_of(text) == shapes


@pytest.mark.parametrize("text", ["x", "x:1,a", "x:0", ":1", "x:1,,2"])
def test_texts_that_are_no_shapes(text: str) -> None:
    with pytest.raises(UsageError, match="expected NAME:SIZE"):
        shapes_of(text)
