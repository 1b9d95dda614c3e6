"""Random numbers of ONNX: as MindIR and as .ms files, with their distributions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from rankmesh.compiler.convert.conversion import convert_model
from rankmesh.compiler.convert.settings import ConversionSettings
from rankmesh.compiler.model_file.model_format import load_model

X = np.linspace(0.2, 0.8, 4000, dtype=np.float32).reshape(4, 1000)


def results(folder: Path, body: str, kind: str = "float", lite: bool = False) -> list[np.ndarray]:
    """What two runs of a converted model give; it has the input x and the output y."""
    text = f"""<ir_version: 10, opset_import: ["": 18]>
drawn (float[4, N] x) => ({kind}[A, B] y) {{ {body} }}"""
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    written = convert_model(ConversionSettings(str(path), str(folder / "model"), lite=lite))
    session = onnxruntime.InferenceSession(load_model(str(written)).model.SerializeToString())
    return [session.run(None, {"x": X})[0] for _ in range(2)]


@pytest.mark.parametrize("lite", [False, True], ids=["MindIR", "ms"])
@pytest.mark.parametrize(
    ("body", "kind", "mean", "deviation"),
    [
        ("y = RandomUniformLike <low = 2.0, high = 4.0> (x)", "float", 3, 2 / 12**0.5),
        ("y = RandomNormalLike <mean = 1.0, scale = 3.0, seed = 2.5> (x)", "float", 1, 3),
        ("y = RandomUniform <shape = [4, 900]> ()", "float", 0.5, 1 / 12**0.5),
        ("y = RandomNormal <shape = [4, 900], dtype = 11> ()", "double", 0, 1),
        ("y = Bernoulli <dtype = 7> (x)", "int64", 0.5, 0.5),
    ],
)
def test_numbers_have_their_distribution(
    tmp_path: Path, body: str, kind: str, mean: float, deviation: float, lite: bool
) -> None:
    first, second = results(tmp_path, body, kind, lite)
    for one in (first, second):
        assert one.size > 3000 and abs(one.mean() - mean) < 0.06 * max(1, deviation)
        assert abs(one.std() - deviation) < 0.06 * max(1, deviation)
    assert not np.array_equal(first, second)


def test_dropout_in_training(tmp_path: Path) -> None:
    body = """part = Constant <value = float {0.25}> ()
    yes = Constant <value = bool {1}> ()
    y = Dropout (x, part, yes)"""
    first, second = results(tmp_path, body)
    for one in (first, second):
        kept = one != 0
        np.testing.assert_allclose(one[kept], (X / 0.75)[kept], rtol=1e-6)
        assert abs(kept.mean() - 0.75) < 0.03
    assert not np.array_equal(first, second)


def test_dropout_in_inference_changes_nothing(tmp_path: Path) -> None:
    np.testing.assert_array_equal(results(tmp_path, "y = Dropout (x)")[0], X)


def test_classes_are_chosen_by_their_probabilities(tmp_path: Path) -> None:
    body = """shares = Constant <value = float[4, 3] {0, 0, 0, 9, 0, 0, 0, 1, 0, -9, -9, 0}> ()
    small = ReduceMin <keepdims = 0> (x)
    same = Sub (small, small)
    logits = Add (shares, same)
    y = Multinomial <sample_size = 2000> (logits)"""
    chosen = results(tmp_path, body, "int32")[0]
    assert chosen.shape == (4, 2000) and chosen.dtype == np.int32
    found = np.stack([(chosen == one).mean(1) for one in range(3)], 1)
    logits = np.asarray([[0, 0, 0], [9, 0, 0], [0, 1, 0], [-9, -9, 0]], np.float64)
    np.testing.assert_allclose(
        found, np.exp(logits) / np.exp(logits).sum(1, keepdims=True), atol=0.05
    )
