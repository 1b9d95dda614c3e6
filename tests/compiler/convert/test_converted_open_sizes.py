"""Models with open sizes: they stay open in MindIR, and the sizes that are computed are right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from conversion_models import FOLDS, GATES, IMAGES, STEPS

import rankmesh as mslite
from rankmesh.comm.errors import InputError
from rankmesh.compiler.convert.conversion import convert_model
from rankmesh.compiler.convert.settings import ConversionSettings


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("open") / "folds.onnx"
    onnx.save(onnx.parser.parse_model(FOLDS), path)
    return path


def model_of(path: Path) -> mslite.Model:
    """A MindIR model on a CPU."""
    context = mslite.Context()
    context.target = ["cpu"]
    model = mslite.Model()
    model.build_from_file(str(path), mslite.ModelType.MINDIR, context)
    return model


def check(model: mslite.Model, x: np.ndarray) -> None:
    """Compare one run with numpy."""
    (given,) = model.get_inputs()
    given.set_data_from_numpy(x)
    flat, places = (one.get_data_to_numpy() for one in model.predict([given]))
    np.testing.assert_array_equal(flat, x.reshape(-1, 4))
    np.testing.assert_array_equal(places, np.arange(x.shape[1]))


def test_sizes_stay_open(source: Path, tmp_path: Path) -> None:
    model = model_of(convert_model(ConversionSettings(str(source), str(tmp_path / "folds"))))
    assert model.get_inputs()[0].shape == [-1, -1, 4]
    for shape in ([2, 3, 4], [1, 5, 4]):
        model.resize(model.get_inputs(), [shape])
        check(model, np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


def test_sizes_that_are_given_are_fixed(source: Path, tmp_path: Path) -> None:
    settings = ConversionSettings(str(source), str(tmp_path / "folds"), {"x": (2, 3, 4)})
    model = model_of(convert_model(settings))
    assert model.get_inputs()[0].shape == [2, 3, 4]
    check(model, np.arange(24, dtype=np.float32).reshape(2, 3, 4))


@pytest.mark.parametrize(
    ("shapes", "words"),
    [({"z": (1,)}, "no input 'z'; it has x"), ({"x": (1, 2)}, "3 dimensions, .* has 2")],
)
def test_shapes_that_do_not_fit(
    source: Path, tmp_path: Path, shapes: dict[str, tuple[int, ...]], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        convert_model(ConversionSettings(str(source), str(tmp_path / "folds"), shapes))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (IMAGES, ((2, 4, 9, 7), (1, 4, 6, 8))),
        (STEPS, ((4, 2, 3), (1, 5, 3))),
        (GATES, ((4, 2, 3), (4, 1, 3))),
    ],
)
def test_layers_of_open_sizes(
    text: str, shapes: tuple[tuple[int, ...], ...], tmp_path: Path
) -> None:
    onnx.save(onnx.parser.parse_model(text), tmp_path / "source.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "source.onnx")
    settings = ConversionSettings(str(tmp_path / "source.onnx"), str(tmp_path / "open"))
    model = model_of(convert_model(settings))
    for shape in shapes:
        x = np.linspace(-1, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        model.resize(model.get_inputs(), [list(shape)])
        (given,) = model.get_inputs()
        given.set_data_from_numpy(x)
        for found, wanted in zip(model.predict([given]), session.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(found.get_data_to_numpy(), wanted, rtol=0, atol=1e-5)
