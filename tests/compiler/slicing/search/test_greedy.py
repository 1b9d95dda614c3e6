"""Without the solver: Megatron's form by a greedy search."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, shape_inference
from slicing import check_plan, graph_of

from rankmesh.compiler.slicing.emission.trial import run_model
from rankmesh.compiler.slicing.search.choose import choose_plan


@pytest.mark.parametrize("ranks", [2, 3])
def test_two_layers_without_highspy(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    for module in ("limit_search", "solve", "integer_search"):
        name = f"rankmesh.compiler.slicing.search.{module}"
        monkeypatch.delitem(sys.modules, name, raising=False)
    draw = np.random.default_rng(1)
    nodes, weights, x = [], [], "x"
    for layer in range(2):
        for name, shape in (("up", (32, 96)), ("down", (96, 32))):
            array = draw.standard_normal(shape).astype(np.float32)
            weights.append(numpy_helper.from_array(array, f"{name}{layer}"))
        steps = (
            ("MatMul", [x, f"up{layer}"], f"h{layer}"),
            ("Relu", [f"h{layer}"], f"a{layer}"),
            ("MatMul", [f"a{layer}", f"down{layer}"], f"d{layer}"),
            ("Add", [x, f"d{layer}"], f"s{layer}"),
            ("Softmax", [f"s{layer}"], f"y{layer}"),
        )
        nodes += [helper.make_node(op, ins, [out], name=out) for op, ins, out in steps]
        x = f"y{layer}"
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, 8, 32))],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, None)],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    source = graph_of(shape_inference.infer_shapes(model))
    choice = choose_plan(source, ranks)
    assert choice.gap is None
    reduced = [one for one in choice.plan.conversions if str(one.before) == "partial(sum)"]
    assert 2 <= len(reduced) <= 4
    assert choice.prediction.heaviest == 4 * 32 * 4 * (96 // ranks)
    feeds = {"x": draw.standard_normal((4, 8, 32)).astype(np.float32)}
    check_plan(source, choice.plan, feeds, run_model(source.model.clone(), feeds))
