"""Branches and loops of ONNX as functions of MindIR, read again and compared with onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import rankmesh as mslite
from rankmesh.comm.errors import ModelError
from rankmesh.worker.convert.conversion import convert_model
from rankmesh.worker.convert.settings import ConversionSettings

WEIGHT = ", ".join(str(0.01 * (number % 13) - 0.05) for number in range(100))
BRANCHES = f"""
<ir_version: 10, opset_import: ["": 18]>
branches (float[2, 10] x) => (float[2, 10] y, float[2, 10] z)
<float[10, 10] weight = {{{WEIGHT}}}>
{{
    total = ReduceSum <keepdims = 0> (x)
    zero = Constant <value = float {{0.0}}> ()
    positive = Greater (total, zero)
    y, z = If (positive) <
        then_branch = yes () => (float[2, 10] a, float[2, 10] b) {{
            a = MatMul (x, weight)
            b = Add (a, x)
        }},
        else_branch = no () => (float[2, 10] c, float[2, 10] d) {{
            c = Neg (x)
            d = Mul (c, total)
        }}
    >
}}
"""
TURNS = f"""
<ir_version: 10, opset_import: ["": 18]>
turns (float[2, 10] x, int64 count) => (float[2, 10] y, float steps)
<float[10, 10] weight = {{{WEIGHT}}}>
{{
    yes = Constant <value = bool {{1}}> ()
    none = Constant <value = float {{0.0}}> ()
    limit = Constant <value = float {{5.0}}> ()
    y, steps = Loop (count, yes, x, none) <
        body = turn (int64 i, bool go, float[2, 10] h, float n)
            => (bool again, float[2, 10] h_out, float n_out) {{
            one = Constant <value = float {{1.0}}> ()
            moved = MatMul (h, weight)
            h_out = Add (moved, x)
            n_out = Add (n, one)
            again = Less (n_out, limit)
        }}
    >
}}
"""
COLLECTED = """
<ir_version: 10, opset_import: ["": 18]>
collected (float[2] x, int64 count) => (float[2] y, float[K, 2] all)
{
    yes = Constant <value = bool {1}> ()
    y, all = Loop (count, yes, x) <
        body = turn (int64 i, bool go, float[2] h) => (bool again, float[2] h_out, float[2] each) {
            again = Identity (go)
            h_out = Add (h, h)
            each = Neg (h)
        }
    >
}
"""


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


def test_outputs_of_all_turns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"Loop \(node .*outputs of all turns are not supported"):
        models(COLLECTED, tmp_path)
