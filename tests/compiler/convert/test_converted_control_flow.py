"""Branches and loops of ONNX as functions of MindIR, read again and compared with onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from conversion_models import BRANCHES, COLLECTED, CONSTANT_START, TURNS

import rankmesh as mslite
from rankmesh.comm.errors import ModelError
from rankmesh.compiler.convert.conversion import convert_model
from rankmesh.compiler.convert.settings import ConversionSettings


def models(source: str, folder: Path) -> tuple[onnxruntime.InferenceSession, mslite.Model]:
    """The model in onnxruntime, and what it becomes."""
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(source), path)
    written = convert_model(ConversionSettings(str(path), str(folder / "model")))
    context = mslite.Context()
    context.target = ["cpu"]
    model = mslite.Model()
    model.build_from_file(str(written), mslite.ModelType.MINDIR, context)
    return onnxruntime.InferenceSession(str(path)), model


def check(session: onnxruntime.InferenceSession, model: mslite.Model, *inputs: np.ndarray) -> None:
    """Both give the same for some inputs."""
    names = [one.name for one in session.get_inputs()]
    expected = session.run(None, dict(zip(names, inputs, strict=True)))
    given = model.get_inputs()
    for tensor, array in zip(given, inputs, strict=True):
        tensor.set_data_from_numpy(array)
    for found, wanted in zip(model.predict(given), expected, strict=True):
        np.testing.assert_allclose(found.get_data_to_numpy(), wanted, rtol=0, atol=1e-6)


def test_branches(tmp_path: Path) -> None:
    session, model = models(BRANCHES, tmp_path)
    x = np.linspace(-1, 2, 20, dtype=np.float32).reshape(2, 10)
    check(session, model, x)
    check(session, model, -x)


@pytest.mark.parametrize("count", [0, 1, 3, 9])
def test_turns(tmp_path: Path, count: int) -> None:
    session, model = models(TURNS, tmp_path)
    x = np.linspace(-1, 2, 20, dtype=np.float32).reshape(2, 10)
    check(session, model, x, np.asarray(count))


def test_turns_that_begin_with_constants(tmp_path: Path) -> None:
    session, model = models(CONSTANT_START, tmp_path)
    check(session, model, np.float32([1, 2]))


@pytest.mark.parametrize("count", [1, 4])
def test_outputs_of_all_turns(tmp_path: Path, count: int) -> None:
    session, model = models(COLLECTED, tmp_path)
    check(session, model, np.float32([1, 2]), np.asarray(count))


GROWING = """
<ir_version: 10, opset_import: ["": 18]>
growing (float[2] x, int64 count) => (float[9] y, float[7, 7] rows, int64[1] size)
<float[2] grown, float[3] all>
{
    yes = Constant <value = bool {1}> ()
    two = Constant <value_ints = [2]> ()
    none = Constant <value_ints = [0]> ()
    grown, all = Loop (count, yes, x) <
        body = turn (int64 i, bool go, float[2] h) => (bool again, float[2] h_out, float[5] each) {
            again = Identity (go)
            h_out = Concat <axis = 0> (h, h)
            each = Slice (h, none, two)
        }
    >
    y = Neg (grown)
    rows = Exp (all)
    size = Shape (y)
}
"""
"""A body that gives other shapes than it declares, as do the loop and what takes its results."""


@pytest.mark.parametrize("count", [0, 1, 3])
def test_turns_that_change_a_declared_size(tmp_path: Path, count: int) -> None:
    """onnxruntime believes the shape declared for `grown`, and so is no judge of it."""
    _, model = models(GROWING, tmp_path)
    x = np.float32([1, -2])
    given = model.get_inputs()
    for tensor, array in zip(given, (x, np.asarray(count)), strict=True):
        tensor.set_data_from_numpy(array)
    y, rows, size = (one.get_data_to_numpy() for one in model.predict(given))
    np.testing.assert_array_equal(y, np.tile(-x, 2**count))
    assert rows.shape == (count, 2) and size.tolist() == [2 * 2**count]


def test_turns_that_change_the_number_of_dimensions(tmp_path: Path) -> None:
    source = GROWING.replace("Concat <axis = 0> (h, h)", "Unsqueeze (h, none)")
    with pytest.raises(ModelError, match="Loop.* the number of dimensions of a value changes"):
        models(source, tmp_path)
