"""The check of plans: an edit that the model cannot follow is named with its node and reason."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from slicing import graph_of

from rankmesh.comm.errors import UsageError
from rankmesh.compiler.slicing.placement.operator_node import Strategy
from rankmesh.compiler.slicing.placement.placements import SUM, WHOLE, Split, Windows
from rankmesh.compiler.slicing.placement.slice_plan import Conversion, SlicePlan
from rankmesh.compiler.slicing.planning.plan_check import check_operators, check_plan, operators_of

pytestmark = pytest.mark.pure

COLUMNS, ROWS = Split(1, (0, 4, 8)), Split(0, (0, 4, 8))
LAST = Split(1, (0, 4, 8))
UP = Strategy((WHOLE, COLUMNS), (LAST,))
DOWN = Strategy((LAST, ROWS), (SUM,))
PLAN = SlicePlan(
    2,
    {"up": UP, "act": Strategy((LAST,), (LAST,)), "down": DOWN},
    (Conversion("y", SUM, WHOLE),),
)


def mlp():
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"], "up"),
        helper.make_node("Relu", ["h"], ["a"], "act"),
        helper.make_node("MatMul", ["a", "w2"], ["y"], "down"),
        helper.make_node("Cast", ["x"], ["z"], "odd", to=TensorProto.STRING),
    ]
    weights = [np.ones((4, 8), np.float32), np.ones((8, 4), np.float32)]
    info = [helper.make_tensor_value_info(name, 1, ["batch", 4]) for name in "xy"]
    tensors = [numpy_helper.from_array(w, f"w{i + 1}") for i, w in enumerate(weights)]
    graph = helper.make_graph(
        nodes, "mlp", info[:1], [info[1], helper.make_empty_tensor_value_info("z")], tensors
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_a_sound_plan_passes():
    check_plan(graph_of(mlp()), PLAN, "plan.json")


@pytest.mark.parametrize(
    ("change", "conversions", "reason"),
    [
        ({"upp": UP}, None, r"node upp: the model has no node of this name"),
        (
            {"up": Strategy((WHOLE,), (LAST,))},
            None,
            r"node up \(MatMul\): has 2 inputs, .* gives 1",
        ),
        ({"up": Strategy((WHOLE, Split(1, (0, 4, 9))), (LAST,))}, None, "has 8 elements"),
        ({"up": Strategy((WHOLE, Split(2, (0, 4, 8))), (LAST,))}, None, "has 2 axes"),
        ({"up": Strategy((Windows(1, (0, 1), (4, 5)), WHOLE), (WHOLE,))}, None, "has 4 elements"),
        ({"up": Strategy((ROWS, WHOLE), (WHOLE,))}, None, "is an open dimension"),
        (
            {"up": Strategy((WHOLE, COLUMNS), (WHOLE,))},
            None,
            "the rule does not allow .* it allows",
        ),
        ({"odd": Strategy((SUM,), (WHOLE,))}, None, r"node odd \(Cast\): .*rule"),
        ({"act": Strategy((WHOLE,), (WHOLE,))}, None, "h is split.*add this conversion"),
        ({}, (), "y is partial.*output y needs replicated: add this conversion"),
        ({}, (*PLAN.conversions, Conversion("x", WHOLE, COLUMNS)), "no node needs it"),
    ],
)
def test_a_bad_edit_is_named(change, conversions, reason):
    plan = replace(
        PLAN,
        strategies={**PLAN.strategies, **change},
        conversions=PLAN.conversions if conversions is None else conversions,
    )
    with pytest.raises(UsageError, match=f"plan.json: .*{reason}"):
        check_plan(graph_of(mlp()), plan, "plan.json")


def test_stages_that_cannot_be_are_named():
    graph = graph_of(mlp())
    for stages, reason in (
        ({"up": 1}, r"node up \(MatMul\) is in stage 1 of the plan, and stage 0 needs its output"),
        ({"else": 1}, "node else: the model has no node of this name"),
        ({"act": 1, "down": 1}, r"node odd \(Cast\): its output z has to go to another stage"),
    ):
        with pytest.raises(UsageError, match=f"plan.json: {reason}"):
            check_plan(graph, replace(PLAN, stages=2, stage_of=stages), "plan.json")
    sound = {"act": 1, "down": 1, "odd": 1}
    check_plan(graph, replace(PLAN, stages=2, stage_of=sound), "plan.json")


def test_the_operator_of_a_plan_file_is_that_of_the_model():
    graph = graph_of(mlp())
    name, kind = next(iter(operators_of(graph).items()))
    check_operators(graph, {name: kind, "of another model": "Conv"}, "plan.json")
    with pytest.raises(UsageError, match=f"node {name}: its operator is {kind}, and .* says Conv"):
        check_operators(graph, {name: "Conv"}, "plan.json")
