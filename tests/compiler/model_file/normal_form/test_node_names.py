"""Names of nodes that come from functions: no two nodes of a graph have the same."""

from __future__ import annotations

import pytest
from onnx import helper
from onnx_models import model, node

from rankmesh.compiler.model_file.normal_form.normal_form import normalise

pytestmark = pytest.mark.pure


def test_nodes_without_names_in_two_calls_without_names() -> None:
    body = [helper.make_node("Neg", ["t"], ["u"]), helper.make_node("Neg", ["u"], ["r"])]
    imports = [helper.make_opsetid("", 21)]
    function = helper.make_function("own", "Twice", ["t"], ["r"], body, imports)
    calls = [
        helper.make_node("Twice", ["x"], ["h"], domain="own"),
        helper.make_node("Twice", ["h"], ["y"], domain="own"),
    ]
    made = model([*calls, node("Abs", "y", "z")], {"x": [4]}, {"z": [4]}, functions=[function])
    normalise(made, "m.onnx")
    names = [one.name for one in made.graph.node]
    assert len(set(names)) == len(names) == 5
