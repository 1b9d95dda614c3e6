"""Conversions to .ms: operators, functions and networks, read again and compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from conversion_cases import CASES, Case
from conversion_models import BRANCHES, TURNS
from lite_models import run_model

import rankmesh as mslite
from rankmesh.comm.errors import ModelError, UsageError
from rankmesh.compiler.convert.conversion import convert_model
from rankmesh.compiler.convert.settings import ConversionSettings, encryption_of
from rankmesh.compiler.lite.lite_file import read_lite
from rankmesh.compiler.mindir.reader import read_model

DATA = Path(__file__).parents[2] / "data"
NETWORKS = (
    "mlp",
    "lenet5",
    "lstm_cell",
    "cf_while",
    "dyn_mlp",
    "fp16_mlp",
    "tuple_io",
    "zoo_shape",
)
WITHOUT = {
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "BitShift",
    "BitwiseAnd",
    "BitwiseNot",
}
WITHOUT |= {"BitwiseOr", "BitwiseXor", "CumProd", "Det", "GridSample"}
"""Operators that MindSpore Lite has no primitives for."""
OF_IMAGES = {"AveragePool", "Conv", "ConvTranspose", "MaxPool"}
"""Operators that it has primitives for in two dimensions alone."""


def written(source: Path, **settings: object) -> Path:
    """The .ms file of a model."""
    given = ConversionSettings(str(source), str(source.with_suffix("")), lite=True, **settings)
    return convert_model(given)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ms_computes_what_the_operator_does(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "case.onnx"
    onnx.save(case.model(), path)
    volumes = case.x[0].ndim == 5 and case.operator in OF_IMAGES
    if case.operator in WITHOUT or volumes:
        with pytest.raises(ModelError, match="MindSpore Lite has no primitive like"):
            written(path)
        return
    session = onnxruntime.InferenceSession(str(path))
    names = [one.name for one in session.get_inputs()]
    expected = session.run(None, dict(zip(names, case.x, strict=True)))
    for got, want in zip(run_model(read_lite(str(written(path))), case.x), expected, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * max(1, np.abs(want).max()))


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_give_the_same_numbers_as_ms(name: str, tmp_path: Path) -> None:
    source = next((DATA / "mindir" / name).glob("*.mindir"))
    path = convert_model(ConversionSettings(str(source), str(tmp_path / name), lite=True))
    assert path == tmp_path / f"{name}.ms"
    model = read_model(str(source))
    random = np.random.default_rng(5)
    inputs = [
        random.random([max(n, 4) if n < 0 else n for n in one.type.shape])
        for one in model.entry.inputs
    ]
    inputs = [x.astype(one.type.dtype) for x, one in zip(inputs, model.entry.inputs, strict=True)]
    expected = run_model(model, inputs)
    for got, want in zip(run_model(read_lite(str(path)), inputs), expected, strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("text", "more"), [(BRANCHES, []), (TURNS, [0]), (TURNS, [3])])
def test_branches_and_turns(text: str, more: list[int], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    session = onnxruntime.InferenceSession(str(path))
    names = [one.name for one in session.get_inputs()]
    model = read_lite(str(written(path)))
    for sign in (1, -1):
        x = sign * np.linspace(-1, 2, 20, dtype=np.float32).reshape(2, 10)
        inputs = [x, *map(np.asarray, more)]
        expected = session.run(None, dict(zip(names, inputs, strict=True)))
        for got, want in zip(run_model(model, inputs), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-6)


def test_a_converter_writes_ms(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = next((DATA / "mindir" / "mlp").glob("*.mindir"))
    converter = mslite.Converter()
    converter.save_type = mslite.ModelType.MINDIR_LITE
    converter.weight_fp16 = True
    converter.convert(mslite.FmkType.MINDIR, str(source), str(tmp_path / "half.v1"))
    assert "CONVERT RESULT SUCCESS:0" in capfd.readouterr().out
    model = read_lite(str(tmp_path / "half.v1.ms"))
    large = [one for one in model.weights.values() if len(one.shape) == 2]
    assert large and {one.dtype for one in large} == {np.dtype(np.float16)}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["half.v1.ms"]


def test_ms_is_not_encrypted(tmp_path: Path) -> None:
    source = next((DATA / "mindir" / "mlp").glob("*.mindir"))
    with pytest.raises(UsageError, match=r"\.ms files cannot be encrypted"):
        key = encryption_of("00" * 16)
        convert_model(
            ConversionSettings(str(source), str(tmp_path / "m"), encryption=key, lite=True)
        )
    assert not list(tmp_path.iterdir())


def test_ms_becomes_mindir_and_ms_again(tmp_path: Path) -> None:
    source = DATA / "ms" / "lenet_tod_infer.ms"
    x = np.random.default_rng(2).random((2, 32, 32, 1), np.float32)
    expected = run_model(read_lite(str(source)), [x])[0]
    mindir = convert_model(ConversionSettings(str(source), str(tmp_path / "lenet")))
    again = convert_model(ConversionSettings(str(mindir), str(tmp_path / "again"), lite=True))
    for model in (read_model(str(mindir)), read_lite(str(again))):
        np.testing.assert_allclose(run_model(model, [x])[0], expected, rtol=1e-4, atol=1e-8)
