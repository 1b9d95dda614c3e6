"""Sequences of ONNX: where their elements are known, the tensors themselves are converted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from conversion_models import SEQUENCES, SEQUENCES_TEXT

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.convert.conversion import convert_model
from rankmesh.compiler.convert.settings import ConversionSettings
from rankmesh.compiler.model_file.model_format import load_model

X = np.arange(12, dtype=np.float32).reshape(2, 6)


def source(folder: Path, text: str) -> str:
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    return str(path)


def test_sequences_whose_elements_are_known(tmp_path: Path) -> None:
    path = source(tmp_path, SEQUENCES_TEXT)
    given = {"x": X, "y": X[::-1] * 3}
    written = convert_model(ConversionSettings(path, str(tmp_path / "model")))
    found = load_model(str(written)).model
    kinds = {node.op_type for node in found.graph.node}
    assert not kinds & SEQUENCES
    expected = onnxruntime.InferenceSession(path).run(None, given)
    results = onnxruntime.InferenceSession(found.SerializeToString()).run(None, given)
    for one, other in zip(results, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_place_that_follows_from_a_length(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["": 18]>
last (float[3, 2] x) => (float[2] y) {
    rows = SplitToSequence <axis = 0, keepdims = 0> (x)
    count = SequenceLength (rows)
    one = Constant <value = int64 {1}> ()
    place = Sub (count, one)
    y = SequenceAt (rows, place)
}"""
    written = convert_model(ConversionSettings(source(tmp_path, text), str(tmp_path / "model")))
    session = onnxruntime.InferenceSession(load_model(str(written)).model.SerializeToString())
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], x[2])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("y = SequenceAt (given, place)", "the input 'given' is a sequence of tensors, and ranks"),
        ("s = SequenceConstruct (x)\n y = SequenceAt (s, place)", "computed by the model"),
        (
            "two = Constant <value = int64 {2}> ()\n s = SequenceConstruct (x)\n"
            "y = SequenceAt (s, two)",
            "its position 2 is not in a sequence of 1 elements",
        ),
        (
            "s = SequenceConstruct (x)\n y = Identity (x)\n z = SequenceInsert (s, x)",
            "the output 'z' is a sequence of tensors, and ranks",
        ),
    ],
    ids=["input", "place computed", "no such place", "output"],
)
@pytest.mark.pure
def test_other_sequences_are_refused(tmp_path: Path, line: str, words: str) -> None:
    more = ", seq(float[2]) z" if "z = " in line else ""
    given = ", seq(float[2]) given" if "given" in line else ""
    text = f"""<ir_version: 10, opset_import: ["": 18]>
refused (float[2] x, int64 place{given}) => (float[2] y{more}) {{ {line} }}"""
    with pytest.raises(ModelError, match=words):
        convert_model(ConversionSettings(source(tmp_path, text), str(tmp_path / "model")))
