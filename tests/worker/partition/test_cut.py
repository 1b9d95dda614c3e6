from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx_models import collective, graph, loaded, model, node

from rankmesh.comm.collective_call import Kind, Reduction
from rankmesh.comm.errors import ModelError
from rankmesh.compiler.element_types.value_types import TensorType
from rankmesh.compiler.model_file.loaded_model import LoadedModel
from rankmesh.compiler.model_file.normal_form.normal_form import normalise
from rankmesh.worker.partition.cut import make_plan
from rankmesh.worker.partition.fingerprint import fingerprint
from rankmesh.worker.partition.plan import (
    BranchStep,
    CollectiveStep,
    LoopStep,
    Plan,
    Segment,
    Step,
    walk,
)

pytestmark = pytest.mark.pure

F32, I64 = np.dtype(np.float32), np.dtype(np.int64)
X, Y = {"x": [4]}, {"y": [4]}
W = {"w": np.arange(4, dtype=np.float32)}


def cut(
    nodes: Sequence[Any],
    inputs: Any = None,
    outputs: Any = None,
    *,
    rank: int = 0,
    world: int = 2,
    **more: Any,
) -> Plan:
    return make_plan(loaded(nodes, inputs or X, outputs or Y, **more), rank, world)


def steps(plan: Plan) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Each step as (nodes or collective, inputs, outputs)."""
    return [shown(step) for step in plan.steps]


def shown(step: Step) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    assert isinstance(step, (Segment, CollectiveStep))
    if isinstance(step, Segment):
        return "+".join(n.op_type for n in step.model.graph.node), step.inputs, step.outputs
    return step.call.kind.value, step.inputs, step.outputs


def weights(plan: Plan) -> list[list[str]]:
    return [
        [t.name for t in s.model.graph.initializer] for s in plan.steps if isinstance(s, Segment)
    ]


def refusal(nodes: Sequence[Any], inputs: Any = None, outputs: Any = None, **more: Any) -> str:
    with pytest.raises(ModelError) as caught:
        cut(nodes, inputs, outputs, **more)
    assert str(caught.value).startswith("m.onnx: ")
    return str(caught.value)


def test_a_graph_without_collectives_is_one_segment() -> None:
    plan = cut([node("Add", "x w", "a"), node("Relu", "a", "y")], constants=W)
    assert steps(plan) == [("Add+Relu", ("x",), ("y",))]
    assert weights(plan) == [["w"]] and not plan.constants
    assert [(s.name, s.value, s.type, s.has_result) for s in (*plan.inputs, *plan.outputs)] == [
        ("x", "x", TensorType(F32, (4,)), True),
        ("y", "y", TensorType(F32, (4,)), True),
    ]


def test_segments_take_and_give_only_what_others_need() -> None:
    plan = cut(
        [
            node("Mul", "x w", "a"),
            node("Neg", "a", "b"),
            collective("AllReduce", "b", "c"),
            node("Add", "c a", "d"),
            node("Relu", "x", "e"),
            collective("AllReduce", "d", "f"),
            node("Add", "f w", "y"),
        ],
        constants=W,
        known={"a": [4], "b": [4], "d": [4]},
    )
    assert steps(plan) == [
        ("Mul+Neg", ("x",), ("a", "b")),
        ("AllReduce", ("b",), ("c",)),
        ("Add", ("c", "a"), ("d",)),
        ("AllReduce", ("d",), ("f",)),
        ("Add", ("f",), ("y",)),
    ]
    assert weights(plan) == [["w"], [], ["w"]]
    assert [step.call.index for step in plan.collectives] == [0, 1]


def test_collectives_one_after_the_other_have_nothing_between() -> None:
    plan = cut(
        [
            collective("AllReduce", "x", "a"),
            collective("AllGather", "a", "b"),
            collective("ReduceScatter", "b", "y", reduction="max"),
        ]
    )
    assert [s[0] for s in steps(plan)] == ["AllReduce", "AllGather", "ReduceScatter"]
    assert plan.types["b"] == TensorType(F32, (8,))
    assert plan.collectives[2].call.reduction is Reduction.MAX


def test_dead_code_is_left_out() -> None:
    plan = cut(
        [
            node("Neg", "x", "dead"),
            node("Relu", "x", "b"),
            collective("AllReduce", "b", "y"),
            node("StringNormalizer", "dead", "dead2"),
        ]
    )
    assert steps(plan) == [("Relu", ("x",), ("b",)), ("AllReduce", ("b",), ("y",))]


def test_passed_through_inputs_and_constants() -> None:
    plan = cut([node("Relu", "x", "r")], outputs={"x": [4], "w": [4], "r": [4]}, constants=W)
    assert [(s.name, s.value) for s in plan.outputs] == [("x", "x"), ("w", "w"), ("r", "r")]
    assert list(plan.constants) == ["w"] and steps(plan) == [("Relu", ("x",), ("r",))]


def test_identities_vanish() -> None:
    plan = cut(
        [
            node("Identity", "x", "i"),
            node("Identity", "i", "j"),
            collective("AllReduce", "j", "r"),
            node("Identity", "r", "y"),
            node("Identity", "y", "z"),
            node("Identity", "w", "v"),
        ],
        outputs={"y": [4], "z": [4], "j": [4], "v": [4]},
        constants=W,
    )
    assert steps(plan) == [("AllReduce", ("x",), ("r",))]
    assert [(s.name, s.value) for s in plan.outputs] == [
        ("y", "r"),
        ("z", "r"),
        ("j", "x"),
        ("v", "w"),
    ]


def test_constants_go_straight_into_collectives() -> None:
    constant = helper.make_node(
        "Constant", [], ["c"], value=numpy_helper.from_array(np.ones(4, np.float32), "other")
    )
    plan = cut(
        [
            constant,
            collective("AllReduce", "w", "a"),
            collective("AllReduce", "c", "b"),
            node("Add", "a b", "s"),
            node("Add", "s c", "y"),
        ],
        constants=W,
        known={"s": [4]},
    )
    assert steps(plan) == [
        ("AllReduce", ("w",), ("a",)),
        ("AllReduce", ("c",), ("b",)),
        ("Add+Add", ("a", "b"), ("y",)),
    ]
    assert sorted(plan.constants) == ["c", "w"] and plan.constants["c"].name == "c"
    assert weights(plan) == [["c"]]


def branch(*nodes: Any, **outputs: Any) -> Any:
    return graph(nodes, {}, outputs)


def conditional(then: Any, other: Any, output: str = "y") -> Any:
    return node("If", "go", output, then_branch=then, else_branch=other)


GO = {"go": np.array(True)}


def test_branches_and_bodies_take_outer_values() -> None:
    then, other = branch(node("Add", "a w", "t"), t=[4]), branch(node("Neg", "r", "e"), e=[4])
    plan = cut(
        [node("Relu", "x", "a"), collective("AllReduce", "a", "r"), conditional(then, other)],
        constants={**W, **GO},
        known={"a": [4]},
    )
    assert [s[0] for s in steps(plan)] == ["Relu", "AllReduce", "If"]
    assert steps(plan)[0][2] == ("a",) and set(steps(plan)[2][1]) == {"a", "r"}
    assert set(weights(plan)[1]) == {"w", "go"}


def test_identities_that_branches_see_stay() -> None:
    then, other = branch(node("Neg", "i", "t"), t=[4]), branch(node("Add", "j j", "e"), e=[4])
    plan = cut(
        [node("Identity", "x", "i"), node("Identity", "i", "j"), conditional(then, other)],
        constants=GO,
        world=1,
    )
    assert steps(plan) == [("Identity+Identity+If", ("x",), ("y",))]


def test_a_branch_with_a_collective_is_a_step() -> None:
    then = branch(
        node("Neg", "x", "n"), collective("AllReduce", "n", "r"), node("Mul", "r w", "t"), t=[4]
    )
    plan = cut(
        [node("Abs", "x", "a"), conditional(then, branch(node("Add", "a w", "e"), e=[4]))],
        constants={"w": np.ones(4, F32), **GO},
    )
    step = plan.steps[1]
    assert isinstance(step, BranchStep) and (step.condition, step.inputs, step.outputs) == (
        "go",
        ("go", "x", "a"),
        ("y",),
    )
    assert [shown(one) for one in step.yes.steps] == [
        ("Neg", ("x",), ("n",)),
        ("AllReduce", ("n",), ("r",)),
        ("Mul", ("r",), ("t",)),
    ]
    assert [shown(one) for one in step.no.steps] == [("Add", ("a",), ("e",))]
    assert (step.yes.results, step.no.results) == (("t",), ("e",)) and list(plan.constants) == [
        "go"
    ]
    assert plan.types["y"] == plan.types["r"] == TensorType(np.dtype(F32), (4,))
    assert [len(s.model.graph.initializer) for s in plan.segments] == [0, 0, 1, 1]
    assert [s.call.index for s in plan.collectives] == [0]


def test_branches_may_use_the_same_names() -> None:
    then, other = (
        branch(node(op, "x", "t"), collective("AllReduce", "t", "r"), r=[4])
        for op in ("Neg", "Abs")
    )
    then.node.append(
        node(
            "If",
            "go",
            "u",
            then_branch=branch(node("Relu", "t", "i"), i=[4]),
            else_branch=branch(node("Exp", "r", "i"), i=[4]),
        )
    )
    then.output[0].name = "u"
    then = branch(conditional(then, other, "z"), z=[4])
    plan = cut([conditional(then, other)], constants=GO)
    names = [name for step in walk(plan.steps) for name in step.outputs]
    assert len(set(names)) == len(names) == 9
    assert [step.call.index for step in plan.collectives] == [0, 1, 2]


def test_a_loop_with_a_collective_is_a_step() -> None:
    body = graph(
        [node("Identity", "c", "d"), collective("AllReduce", "v", "r"), node("Add", "r x", "s")],
        {"i": (I64, []), "c": (bool, []), "v": None},
        {"d": (bool, []), "r": [4], "s": [4]},
    )
    plan = cut(
        [node("Loop", "n go x", "y all", body=body)],
        outputs={"y": [4], "all": None},
        constants={"n": np.array(3), **GO},
    )
    (step,) = plan.steps
    assert isinstance(step, LoopStep) and (step.count, step.condition, step.initial) == (
        "n",
        "go",
        ("x",),
    )
    assert (step.body.arguments, step.body.results) == (("i", "c", "v"), ("c", "r", "s"))
    assert (
        step.inputs == ("n", "go", "x")
        and step.outputs == ("y", "all")
        and set(plan.constants) == {"n", "go"}
    )
    assert plan.types["v"].shape is None and plan.types["all"] == TensorType(np.dtype(F32), (-1, 4))


def test_what_a_branch_spoils() -> None:
    then = branch(collective("Reduce", "x", "t", root=1), t=[4])
    plan = cut([conditional(then, branch(node("Neg", "x", "e"), e=[4]))], constants=GO)
    assert not plan.outputs[0].has_result


def test_control_flow_that_does_not_fit() -> None:
    reduced = collective("AllReduce", "x", "t")
    said = refusal(
        [conditional(branch(reduced, t=[4]), branch(node("Cast", "x", "e", to=7), e=(I64, [4])))],
        constants=GO,
    )
    assert "node If y (If): a result is float32 in one branch and int64 in the other" in said
    said = refusal([conditional(branch(reduced, t=[4]), branch(t=[4], x=[4]))], constants=GO)
    assert "node If y (If): its inputs and outputs do not fit those of its graphs" in said
    scan = graph([collective("AllReduce", "v", "r")], {"v": []}, {"r": []})
    said = refusal([node("Scan", "x", "y", body=scan, num_scan_inputs=1)])
    assert "node Scan y (Scan): contains a collective, which only If and Loop may" in said


def test_states() -> None:
    nodes = [
        node("Add", "x w", "s"),
        collective("AllReduce", "s", "y"),
        collective("Assign", "s", "", state="w"),
    ]
    plan = cut(nodes, constants={"w": np.ones(4, F32)})
    assert [(state.value, state.result) for state in plan.states] == [("w", "s")]
    assert steps(plan)[0] == ("Add", ("x", "w"), ("s",)) and [s.name for s in plan.inputs] == ["x"]
    assert not plan.constants and not plan.segments[0].model.graph.initializer


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (
            [collective("Assign", "x", "", state="w"), collective("Assign", "x", "", state="w")],
            "another node does so too",
        ),
        ([collective("Assign", "x", "", state="v")], "assigns to 'v', which is not an initializer"),
        (
            [collective("Assign", "x", "y", state="w")],
            "has 1 input, 1 output and the attributes ['state']",
        ),
        (
            [collective("Assign", "x", "", group="w")],
            "the attributes ['group'], expected 1, 0 and 'state'",
        ),
        (
            [node("Cast", "x", "i", to=7), collective("Assign", "i", "", state="w")],
            "the initializer 'w' is float32, and a node assigns int64",
        ),
    ],
)
def test_states_that_cannot_be(nodes: list[NodeProto], words: str) -> None:
    assert words in refusal([*nodes, node("Neg", "x", "y")], constants={"w": np.ones(4, F32)})


def function(name: str, *nodes: Any) -> FunctionProto:
    return helper.make_function(
        "own",
        name,
        ["p"],
        ["q"],
        nodes,
        [helper.make_opsetid("", 21), helper.make_opsetid("rankmesh", 1)],
    )


def test_collectives_of_local_functions_are_steps() -> None:
    double = function("Double", helper.make_node("Add", ["p", "p"], ["q"]))
    summed = function(
        "Summed",
        helper.make_node("Relu", ["p"], ["h"]),
        collective("AllReduce", "h", "q", ranks=[0, 1]),
    )
    calls = [
        helper.make_node("Double", ["x"], ["d"], domain="own"),
        helper.make_node("Summed", ["d"], ["y"], domain="own"),
    ]
    made = model(calls, {"x": [4]}, {"y": [4]}, functions=[double, summed])
    normalise(made, "m.onnx")
    plan = make_plan(LoadedModel(made, "m.onnx"), 0, 2)
    assert [s[0] for s in steps(plan)] == ["Add+Relu", "AllReduce"]
    assert plan.collectives[0].call.group.ranks == (0, 1)


def test_types_that_are_not_declared_are_inferred() -> None:
    plan = cut(
        [
            node("Unsqueeze", "x axis", "a"),
            node("Cast", "a", "b", to=TensorProto.INT64),
            collective("AllGather", "b", "c"),
            node("Cast", "c", "y", to=TensorProto.FLOAT),
        ],
        outputs={"y": [8, 1]},
        constants={"axis": np.array([1])},
    )
    assert plan.types["b"] == TensorType(I64, (4, 1)) and plan.types["c"] == TensorType(I64, (8, 1))


def test_models_that_take_texts_are_refused() -> None:
    texts = helper.make_graph(
        [node("StringConcat", "x x", "y")],
        "texts",
        [helper.make_tensor_value_info("x", TensorProto.STRING, [2])],
        [helper.make_tensor_value_info("y", TensorProto.STRING, [2])],
    )
    made = helper.make_model(texts, opset_imports=[helper.make_opsetid("", 20)])
    with pytest.raises(ModelError, match="the value 'x' is a tensor of texts"):
        make_plan(LoadedModel(made, "m.onnx"), 0, 1)


def test_shapes_that_are_not_declared_are_inferred() -> None:
    nodes = [
        node("Unsqueeze", "x axis", "a"),
        collective("AllGather", "a", "b"),
        node("Squeeze", "b axis", "y"),
    ]
    known, axis = {"a": None, "b": None}, {"axis": np.array([1])}
    plan = cut(nodes, outputs={"y": [8]}, known=known, constants=axis)
    assert (plan.types["a"], plan.types["b"]) == (TensorType(F32, (4, 1)), TensorType(F32, (8, 1)))


def test_a_shape_that_cannot_be_inferred_stays_unknown() -> None:
    nodes = [
        helper.make_node("Mystery", ["x"], ["a"], domain="elsewhere"),
        collective("AllReduce", "a", "y"),
    ]
    plan = cut(nodes, known={"a": None})
    assert plan.types["a"] == TensorType(F32, None)


def test_types_that_cannot_be_inferred() -> None:
    said = refusal(
        [
            helper.make_node("Mystery", ["x"], ["a"], domain="elsewhere"),
            collective("AllReduce", "a", "y"),
        ]
    )
    assert (
        "the types of ['a'] are not declared and cannot be inferred" in said
        and "value_info" in said
    )
    said = refusal([node("SequenceConstruct", "x", "s"), collective("AllReduce", "s", "y")])
    assert "the value 's' is a sequence of tensors" in said


def test_texts_and_packed_numbers_stay_inside_segments() -> None:
    packed = TensorProto(name="q", data_type=TensorProto.INT4, dims=[4], raw_data=b"\x21\x43")
    plan = cut(
        [
            node("DequantizeLinear", "q scale", "d"),
            node("Add", "x d", "a"),
            collective("AllReduce", "a", "y"),
        ],
        constants={"q": packed, "scale": np.array(1, np.float32)},
    )
    assert steps(plan)[0] == ("DequantizeLinear+Add", ("x",), ("a",))
    said = refusal(
        [collective("AllReduce", "q", "a"), node("Relu", "x", "y")], constants={"q": packed}
    )
    assert "'q'" in said and "not a tensor of numbers or bools" in said
    assert "'t'" in refusal([node("Relu", "x", "y")], inputs={**X, "t": (TensorProto.STRING, [1])})


@pytest.mark.parametrize(
    "unsorted",
    [
        [node("Add", "late x", "y"), node("Relu", "x", "late")],
        [collective("AllReduce", "late", "y"), node("Relu", "x", "late")],
        [node("Add", "x nothing", "y")],
    ],
)
def test_values_that_nothing_makes_before(unsorted: list[Any]) -> None:
    assert "is used before a node makes it" in refusal(
        unsorted, known={"late": [4], "nothing": [4]}
    )


def test_an_output_that_nothing_makes() -> None:
    assert "'y' is used before a node makes it" in refusal([node("Relu", "x", "z")])


# Results that mean nothing.


def has_result(plan: Plan) -> list[bool]:
    return [s.has_result for s in plan.outputs]


@pytest.mark.parametrize("kind", ["Reduce", "CollectiveGather"])
@pytest.mark.parametrize(("rank", "root"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_rooted_results_mean_something_at_the_root_alone(kind: str, rank: int, root: int) -> None:
    nodes = [
        collective(kind, "x", "r", root=root),
        node("Neg", "r", "n"),
        collective("AllReduce", "n", "s"),
        collective("Broadcast", "s", "b", root=root),
        node("Relu", "x", "clean"),
    ]
    size = [8] if kind == "CollectiveGather" else [4]
    plan = cut(
        nodes,
        outputs={name: size for name in "rnsb"} | {"clean": [4]},
        rank=rank,
        known={"n": size},
    )
    mine = rank == root
    assert has_result(plan) == [mine, mine, mine, True, True]


def test_what_branches_see_taints_them_too() -> None:
    then, other = branch(node("Neg", "r", "t"), t=[4]), branch(node("Neg", "x", "e"), e=[4])
    nodes = [collective("Reduce", "x", "r", root=1), conditional(then, other)]
    assert has_result(cut(nodes, constants=GO)) == [False]
    assert has_result(cut(nodes, constants=GO, rank=1)) == [True]


def test_what_another_rank_sends_is_not_tainted() -> None:
    nodes = [
        collective("Reduce", "x", "r", root=1),
        collective("NeighborExchange", "r", "n", sends_to=[1], receives_from=[1]),
        collective("Receive", "", "v", source=1, shape=[4], dtype=TensorProto.FLOAT),
        collective("CollectiveScatter", "r", "s", root=1),
    ]
    plan = cut(nodes, outputs={"r": [4], "n": [4], "v": [4], "s": [2]})
    assert has_result(plan) == [False, True, True, True]


def test_an_input_of_a_receive_says_its_open_dimensions() -> None:
    receive = collective("Receive", "n", "y", source=1, shape=[-1], dtype=TensorProto.FLOAT)
    plan = cut([receive], {"n": (np.int64, [1])}, {"y": ["batch"]})
    assert plan.types["y"] == TensorType(F32, (-1,))
    (entry,) = fingerprint(plan, 0).entries
    assert entry.sends == ()  # the shape is not sent
    assert [str(one) for one in entry.receives] == ["float32[-1]"]


def test_the_file_says_the_shape_elsewhere_than_at_the_root() -> None:
    for kind in ("Reduce", "CollectiveGather"):
        plan = cut([collective(kind, "x", "y", root=1)], outputs={"y": [1]})
        assert plan.types["y"] == TensorType(F32, (1,))
        assert "declares float32[1]" in refusal(
            [collective(kind, "x", "y", root=0)], outputs={"y": [1]}
        )


def test_a_constant_behind_a_send_is_no_result() -> None:
    nodes = [collective("Send", "x", "", to=1), node("Identity", "w", "i")]
    outputs = {"w": [4], "i": [4], "x": [4]}
    assert has_result(cut(nodes, outputs=outputs, constants=W)) == [False, False, True]
    assert has_result(cut(nodes[1:], outputs=outputs, constants=W)) == [True, True, True]
    small = cut(nodes, outputs={"i": [3, "batch"]}, constants={"w": np.float32(0)})
    assert small.outputs[0].type == TensorType(F32, (3, -1))  # a later stage's, as the file says
    made = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(W["w"]))
    assert has_result(cut([made, *nodes], outputs=outputs)) == [False, False, True]


# What collectives make of types.


@pytest.mark.parametrize(
    ("kind", "shape", "result"),
    [
        ("AllReduce", [3, 2], (3, 2)),
        ("AllReduce", [], ()),
        ("AllGather", [3, 2], (6, 2)),
        ("AllGather", [0], (0,)),
        ("AllGather", ["n", 2], (-1, 2)),
        ("ReduceScatter", [4, 2], (2, 2)),
        ("ReduceScatter", ["n"], (-1,)),
        ("AllToAll", [4, 2], (4, 2)),
        ("CollectiveScatter", [6], (3,)),
        ("Broadcast", [], ()),
        ("AllReduce", None, None),
        ("AllGather", None, None),
        ("Reduce", [5], (5,)),
        ("CollectiveGather", [5], (10,)),
    ],
)
def test_shapes_of_results(kind: str, shape: Any, result: Any) -> None:
    plan = cut(
        [collective(kind, "x", "a"), node("Shape", "a", "y")], {"x": shape}, {"y": (I64, None)}
    )
    assert plan.types["a"] == TensorType(F32, result)


@pytest.mark.parametrize(
    ("kind", "shape", "phrase"),
    [
        ("ReduceScatter", [3], "multiple of 2"),
        ("AllToAll", [5, 2], "multiple of 2"),
        ("CollectiveScatter", [1], "multiple"),
        ("AllGather", [], "needs a first axis"),
        ("ReduceScatter", [], "needs a first axis that is a multiple"),
        ("CollectiveGather", [], "first axis"),
    ],
)
def test_shapes_that_cannot_be_taken(kind: str, shape: list[int], phrase: str) -> None:
    said = refusal([collective(kind, "x", "y")], {"x": shape}, {"y": None})
    assert phrase in said and f"node {kind} y ({kind})" in said and str(shape) in said


def test_what_the_file_declares_completes_what_is_computed() -> None:
    plan = cut([collective("AllReduce", "x", "y")], {"x": ["n", 3]}, {"y": [4, None]})
    assert plan.types["y"] == TensorType(F32, (4, 3))
    assert cut([collective("AllReduce", "x", "y")], {"x": None}, {"y": [4, None]}).types[
        "y"
    ].shape == (4, -1)


@pytest.mark.parametrize("declared", [[8], [4, 1], (np.int32, [4])])
def test_what_the_file_declares_must_not_contradict(declared: Any) -> None:
    said = refusal([collective("AllReduce", "x", "y")], outputs={"y": declared})
    assert "gives float32[4], and the file declares" in said and "AllReduce y" in said


def test_types_of_a_neighbor_exchange_are_the_files() -> None:
    nodes = [
        collective("NeighborExchange", "x x", "a b", sends_to=[1, 1], receives_from=[1, 1]),
        node("Relu", "a", "y"),
    ]
    plan = cut(nodes, known={"a": [4], "b": (I64, [2, 3])})
    assert plan.types["b"] == TensorType(I64, (2, 3))
    for unknown in ({"a": [4]}, {"a": [4], "b": ["n"]}, {"a": [4], "b": None}):
        assert "'b', which comes from another rank" in refusal(nodes, known=unknown)


def test_a_broadcast_of_several() -> None:
    plan = cut(
        [collective("Broadcast", "x k", "y z", root=1)],
        {"x": [4], "k": (I64, [2])},
        {"y": [4], "z": (I64, None)},
    )
    assert plan.types["z"] == TensorType(I64, (2,)) and plan.collectives[0].call.root == 1


# Nodes that are malformed or of another job.

RECEIVE = {"source": 1, "shape": [4], "dtype": TensorProto.FLOAT}


@pytest.mark.parametrize(
    ("bad", "phrase"),
    [
        (collective("AllReduce", "x x", "y"), "has 2 inputs and 1 output"),
        (collective("AllReduce", "x", ""), "has 1 input and 0 outputs"),
        (collective("AllReduce", "", "y"), "has 0 inputs"),
        (helper.make_node("AllReduce", [""], ["y"], domain="rankmesh"), "nameless"),
        (
            collective("Broadcast", "", ""),
            "has 0 inputs and 0 outputs (or nameless ones), expected 1 and 1",
        ),
        (collective("Broadcast", "x x", "y"), "expected 2 and 2"),
        (collective("Send", "x", "y", to=1), "expected 1 and 0"),
        (collective("Send", "x", ""), "lacks the attribute 'to'"),
        (collective("Receive", "x x", "y", **RECEIVE), "has 2 inputs and 1 output"),
        (collective("Receive", "x", "y", **RECEIVE), "input is float32[4], expected int64[1]"),
        (
            collective("Receive", "n", "y", source=1, shape=[-1, 2], dtype=1),
            "input is int64[1], expected int64[2]",
        ),
        (collective("Receive", "n", "y", source=1, shape=[-2], dtype=1), "has the shape [-2]"),
        (collective("Receive", "", "y", source=1, dtype=1), "lacks the attribute 'shape'"),
        (collective("Receive", "", "y", source=1, shape=[4]), "lacks the attribute 'dtype'"),
        (collective("Receive", "", "y", shape=[4], dtype=1), "lacks the attribute 'source'"),
        (collective("Receive", "", "y", source=1, shape=[-1], dtype=1), "the whole shape of 'y'"),
        (
            collective("Receive", "", "y", source=1, shape=[4], dtype=TensorProto.STRING),
            "not supported",
        ),
        (
            collective("NeighborExchange", "x", "y", sends_to=[1, 0], receives_from=[1]),
            "expected 2 and 1",
        ),
        (collective("AllReduce", "x", "y", op="sum"), "'op' is unknown"),
        (collective("AllReduce", "x", "y", root=1.0), "'root' is unknown or of another type"),
        (collective("AllReduce", "x", "y", ranks=1), "'ranks' is unknown or of another type"),
        (collective("AllReduce", "x", "y", reduction="mean"), "supported are AllReduce, AllGather"),
        (collective("AllDance", "x", "y"), "'AllDance' is not a valid"),
        (collective("Broadcast", "x", "y", root=2), "names member 2 of a group of 2"),
        (collective("Send", "x", "", to=-1), "names member -1"),
        (collective("AllReduce", "x", "y", ranks=[0, 0]), "is ranks [0, 0]"),
        (collective("AllReduce", "x", "y", ranks=[-1, 0]), "is ranks [-1, 0]"),
        (collective("AllReduce", "x", "y", ranks=[0, 1], size=4), "has the size 4"),
        (
            collective("AllReduce", "x", "y", group="tp"),
            "does not say which ranks the group 'tp' has",
        ),
        (
            collective("AllReduce", "x", "y", size=4),
            "sliced for 4 ranks, and this is a job of 2 ranks. Start 4",
        ),
        (
            collective("AllReduce", "x", "y", group="tp", ranks=[0, 3]),
            "at least 4 ranks (group 'tp' is ranks [0, 3])",
        ),
        (
            collective("AllReduce", "x", "y", group="hccl_world_group", ranks=[0]),
            "sliced for 1 rank (group 'hccl",
        ),
        (
            collective("AllReduce", "x", "y", group="hccl_world_group", ranks=[0, 1, 2]),
            "sliced for 3 ranks",
        ),
        (
            collective("AllReduce", "x", "y", group="tp", ranks=[1]),
            "given to rank 0, but its group 'tp' is ranks [1]",
        ),
    ],
)
def test_malformed_collectives(bad: Any, phrase: str) -> None:
    said = refusal([bad, node("Relu", "x", "y2")], constants={"n": np.array([4])})
    assert phrase in said and f"node {bad.name} ({bad.op_type})" in said


@pytest.mark.parametrize(
    "name", ["", "world", "hccl_world_group", "nccl_world_group", "mccl_world_group"]
)
def test_names_of_the_whole_world(name: str) -> None:
    plan = cut([collective("AllReduce", "x", "y", group=name, size=3)], world=3, rank=2)
    assert plan.collectives[0].call.group.ranks == (0, 1, 2)


def test_sub_groups_and_positions() -> None:
    plan = cut(
        [collective("Reduce", "x", "y", group="g", ranks=[3, 1], root=1, position=1, tag=7)],
        world=4,
        rank=1,
    )
    exchange = plan.collectives[0]
    assert (exchange.call.kind, exchange.call.group.ranks, exchange.call.root) == (
        Kind.REDUCE,
        (3, 1),
        1,
    )
    assert exchange.call.tag == 7 and exchange.call.node == "Reduce y"
    assert (
        cut([collective("AllReduce", "x", "y", ranks=[1])], world=4, rank=1)
        .collectives[0]
        .call.group.size
        == 1
    )


def test_inputs_with_a_default_are_the_last_ones() -> None:
    plan = cut([node("Add", "x w", "y")], {"w": [4], "x": [4]}, constants=W)
    assert [(s.name, s.default is None) for s in plan.inputs] == [("x", True), ("w", False)]


def whole() -> ModelProto:
    """A model with a bit of everything."""
    then, other = branch(node("Neg", "a", "t"), t=[4]), branch(node("Add", "a w", "e"), e=[4])
    return model(
        [
            node("Add", "x w", "a"),
            node("Identity", "a", "i"),
            collective("AllReduce", "i", "b", ranks=[0, 1], group="g"),
            conditional(then, other, "c"),
            collective("Receive", "", "d", **RECEIVE),
            collective("Send", "c", "", to=1),
            node("Add", "b d", "y"),
        ],
        X,
        Y,
        {"a": [4], "c": [4]},
        {**W, **GO},
    )


def test_corrupt_models_end_in_one_error_or_a_plan() -> None:
    data, random = whole().SerializeToString(), np.random.default_rng(1)
    outcomes = {True: 0, False: 0}
    for _ in range(1500):
        broken = bytearray(data)
        for at in random.integers(0, len(data), random.integers(1, 4)):
            broken[at] = random.integers(0, 256)
        try:
            parsed = ModelProto.FromString(bytes(broken))
        except Exception:  # the reader's part, see test_model_format
            continue
        try:
            plan = make_plan(LoadedModel(parsed, "m.onnx"), 0, 2)
        except ModelError:
            outcomes[False] += 1
        else:
            outcomes[True] += 1
            assert all(
                isinstance(step, CollectiveStep | Segment | BranchStep | LoopStep)
                for step in plan.steps
            )
    assert min(outcomes.values()) > 50
