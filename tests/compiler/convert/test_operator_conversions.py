"""Conversions of operators: each becomes MindIR, is read again, and computes the same."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from conversion_cases import CASES, Case
from conversion_expansions import EXPANSIONS
from conversion_models import RANDOM, SEQUENCES
from conversion_old_forms import OLD_FORMS
from onnx import TensorProto, helper
from onnx.external_data_helper import load_external_data_for_model

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.convert.control_flow import CONTROL_FLOW
from rankmesh.compiler.convert.conversion import convert_model
from rankmesh.compiler.convert.expansion.registry import expansions
from rankmesh.compiler.convert.operators.registry import conversions
from rankmesh.compiler.convert.settings import ConversionSettings
from rankmesh.compiler.model_file.model_format import load_model

TOLERANCE = 1e-5
"""Of the largest magnitude: one float32 rounding or a few, as decompositions round differently."""


def run(model: onnx.ModelProto, inputs: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """The outputs of a model by onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [one.name for one in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs, strict=True)))


def converted(model: onnx.ModelProto, folder: Path) -> Path:
    """The MindIR file of a model."""
    onnx.save(model, folder / "case.onnx")
    return convert_model(ConversionSettings(str(folder / "case.onnx"), str(folder / "case")))


@pytest.mark.parametrize("case", [*CASES, *EXPANSIONS, *OLD_FORMS], ids=str)
def test_mindir_computes_what_the_operator_does(case: Case, tmp_path: Path) -> None:
    model = case.model()
    loaded = load_model(str(converted(model, tmp_path)))
    load_external_data_for_model(loaded.model, loaded.folder)
    expected = run(model, case.x)
    found = run(loaded.model, case.x)
    for got, want in zip(found, expected, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE * max(1, np.abs(want).max()))


def plain_operators() -> set[str]:
    """The operators of single nodes, but for collectives, which need several ranks."""
    found = {*conversions(), *expansions()}
    return {name for name in found if not name.startswith("rankmesh::")}


def test_every_conversion_has_a_case() -> None:
    tried = {case.operator for case in (*CASES, *EXPANSIONS)}
    of_open_sizes = {"ConstantOfShape", "Range", "Shape", "Size"}
    assert plain_operators() - tried == of_open_sizes | (RANDOM - {"Dropout"}) | SEQUENCES


def test_all_operators_without_a_counterpart_are_named_at_once(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Unique", ["x"], ["a"], name="first"),
        helper.make_node("NonMaxSuppression", ["x", "x"], ["b"], name="second"),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 3])]
    outputs = [
        helper.make_tensor_value_info("a", TensorProto.FLOAT, [1]),
        helper.make_tensor_value_info("b", TensorProto.INT64, [1, 3]),
    ]
    graph = helper.make_graph(nodes, "none", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    with pytest.raises(ModelError, match=r"NonMaxSuppression \(node sec(.|\n)*Unique \(node first"):
        converted(model, tmp_path)


def refusal(text: str, folder: Path) -> str:
    """Why a graph is not converted."""
    with pytest.raises(ModelError) as raised:
        head = '<ir_version: 10, opset_import: ["": 18]>'
        converted(onnx.parser.parse_model(f"{head} refused {text}"), folder)
    return str(raised.value)


def test_strings_are_refused_by_name(tmp_path: Path) -> None:
    found = refusal("(string[N] x) => (string[N] y) {y = Identity (x)}", tmp_path)
    assert "the input 'x' is a tensor of texts" in found


def test_computed_parts_are_refused(tmp_path: Path) -> None:
    values = "(float[5] x, int64[2] p) => (float[A] y, float[B] z)"
    found = refusal(f"{values} {{y, z = Split (x, p)}}", tmp_path)
    assert "'split' is computed by the model" in found


def test_the_page_names_every_operator() -> None:
    page = (Path(__file__).parents[3] / "docs" / "conversion.md").read_text()
    blocks = re.findall(r"```\n(.*?)```", page.partition("## Operators")[2], re.DOTALL)
    named = set(" ".join(blocks).split())
    assert named == {*conversions(), *expansions(), *CONTROL_FLOW}


def test_mindspore_ran_every_operator() -> None:
    page = (Path(__file__).parents[3] / "docs" / "conversion-results.md").read_text()
    listed = set(re.findall(r"^\| `([\w.:]+)` \|", page, re.MULTILINE))
    assert plain_operators() | set(CONTROL_FLOW) <= listed
