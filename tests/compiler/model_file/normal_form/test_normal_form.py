"""The normal form of models: domains, imports, functions, order, and what has none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    checker,
    helper,
    numpy_helper,
)
from onnx.reference import ReferenceEvaluator

from rankmesh.comm.errors import ModelError
from rankmesh.compiler.model_file.normal_form.normal_form import normalise

pytestmark = pytest.mark.pure

X = np.linspace(-2, 3, 6, dtype=np.float32).reshape(2, 3)
OWN = "own"


def info(name: str, shape: Sequence[int | str] = (2, 3)) -> object:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def node(op_type: str, inputs: str, outputs: str, **attributes: object) -> NodeProto:
    return helper.make_node(op_type, inputs.split(), outputs.split(), **attributes)


def call(name: str, inputs: str, outputs: str, **attributes: object) -> NodeProto:
    return helper.make_node(name, inputs.split(), outputs.split(), domain=OWN, **attributes)


def refer(made: NodeProto, name: str, source: str, kind: int) -> NodeProto:
    """The node, whose attribute `name` is the attribute `source` of its function."""
    made.attribute.append(AttributeProto(name=name, ref_attr_name=source, type=kind))
    return made


def function(
    name: str,
    inputs: str,
    outputs: str,
    nodes: Sequence[NodeProto],
    opset: int = 17,
    defaults: Sequence[AttributeProto] = (),
    attributes: Sequence[str] = (),
) -> FunctionProto:
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(OWN, 1)]
    return helper.make_function(
        OWN,
        name,
        inputs.split(),
        outputs.split(),
        nodes,
        imports,
        attributes=list(attributes),
        attribute_protos=list(defaults),
    )


def model(
    nodes: Sequence[NodeProto], functions: Sequence[FunctionProto] = (), opset: int = 17
) -> ModelProto:
    graph = helper.make_graph(nodes, "g", [info("x")], [info("y", ["m", "n"])])
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(OWN, 1)]
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)


def normal(made: ModelProto) -> ModelProto:
    """The normal form of a model, which is itself a good ONNX file."""
    normalise(made, "m.onnx")
    assert not made.functions
    checker.check_model(made)
    return made


def computed(made: ModelProto, **inputs: np.ndarray) -> np.ndarray:
    (found,) = ReferenceEvaluator(made).run(None, inputs or {"x": X})
    return np.asarray(found)


def leaky(slope: float) -> np.ndarray:
    return np.where(X < 0, X * np.float32(slope), X)


SLOPE = helper.make_attribute("slope", 0.25)
LEAKY = function(
    "Leaky",
    "a",
    "b",
    [refer(node("LeakyRelu", "a", "b"), "alpha", "slope", AttributeProto.FLOAT)],
    defaults=[SLOPE],
)


def test_a_default_attribute_of_a_function_is_used() -> None:
    made = normal(model([call("Leaky", "x", "y")], [LEAKY]))
    np.testing.assert_array_equal(computed(made), leaky(0.25))


def test_an_attribute_of_a_call_is_used_instead() -> None:
    made = normal(model([call("Leaky", "x", "y", slope=0.5)], [LEAKY]))
    np.testing.assert_array_equal(computed(made), leaky(0.5))


@pytest.mark.parametrize(("given", "expected"), [({}, 0.25), ({"outer": 0.75}, 0.75)])
def test_an_attribute_that_no_call_on_the_way_gives_has_the_inner_default(
    given: dict[str, float], expected: float
) -> None:
    inner = refer(call("Leaky", "a", "b"), "slope", "outer", AttributeProto.FLOAT)
    outer = function("Outer", "a", "b", [inner], attributes=["outer"])
    made = normal(model([call("Outer", "x", "y", **given)], [outer, LEAKY]))
    np.testing.assert_array_equal(computed(made), leaky(expected))


def test_a_reference_without_value_leaves_the_operator_its_own_default() -> None:
    body = refer(node("LeakyRelu", "a", "b"), "alpha", "slope", AttributeProto.FLOAT)
    plain = function("Plain", "a", "b", [body], attributes=["slope"])
    made = normal(model([call("Plain", "x", "y")], [plain]))
    np.testing.assert_allclose(computed(made), leaky(0.01), rtol=1e-6)


def test_references_in_branches_of_functions_are_replaced() -> None:
    then = helper.make_graph([call("Leaky", "a", "t")], "then", [], [info("t", ["m", "n"])])
    relu = refer(node("LeakyRelu", "a", "e"), "alpha", "slope", AttributeProto.FLOAT)
    other = helper.make_graph([relu], "else", [], [info("e", ["m", "n"])])
    constant = node("Constant", "", "c", value=numpy_helper.from_array(np.array(False)))
    either = function(
        "Either",
        "a",
        "b",
        [constant, node("If", "c", "b", then_branch=then, else_branch=other)],
        defaults=[helper.make_attribute("slope", 0.125)],
    )
    made = normal(model([call("Either", "x", "y")], [either, LEAKY]))
    np.testing.assert_array_equal(computed(made), leaky(0.125))


def test_a_graph_given_as_an_attribute_sees_the_values_around_the_call() -> None:
    branch = helper.make_graph([node("Neg", "t", "r")], "given", [], [info("r", ["m", "n"])])
    constant = node("Constant", "", "t", value=numpy_helper.from_array(np.array(True)))
    other = helper.make_graph([node("Abs", "a", "e")], "else", [], [info("e", ["m", "n"])])
    chosen = node("If", "t", "b", else_branch=other)
    body = [constant, refer(chosen, "then_branch", "then", AttributeProto.GRAPH)]
    choose = function("Choose", "a", "b", body, attributes=["then"])
    nodes = [node("Exp", "x", "t"), call("Choose", "x", "y", then=branch)]
    np.testing.assert_allclose(computed(normal(model(nodes, [choose]))), -np.exp(X), rtol=1e-6)


def test_values_of_two_calls_and_of_the_graph_have_names_of_their_own() -> None:
    twice = function("Twice", "a", "b", [node("Add", "a a", "h"), node("Identity", "h", "b")])
    nodes = [call("Twice", "x", "h"), call("Twice", "h", "k"), node("Sub", "k h", "y")]
    np.testing.assert_array_equal(computed(normal(model(nodes, [twice]))), 2 * X)


@pytest.mark.parametrize("outputs", ["a", "b b"])
def test_a_function_may_hand_an_input_on_and_give_a_value_twice(outputs: str) -> None:
    hand = function("Hand", "a", outputs, [node("Neg", "a", "b")])
    results = ["y", "z"][: len(outputs.split())]
    nodes = [call("Hand", "x", " ".join(results))]
    expected = X if outputs == "a" else -X
    np.testing.assert_array_equal(computed(normal(model(nodes, [hand]))), expected)


def test_inputs_and_outputs_that_a_call_leaves_out() -> None:
    clip = function("Clip2", "a low high", "b n", [node("Clip", "a low high", "b"),
                                                   node("Neg", "b", "n")])  # fmt: skip
    low = node("Constant", "", "low", value=numpy_helper.from_array(np.float32(0)))
    made = normal(model([low, helper.make_node("Clip2", ["x", "low"], ["y"], domain=OWN)], [clip]))
    np.testing.assert_array_equal(computed(made), np.maximum(X, 0))


OLDER = [
    (11, [node("Unsqueeze", "a", "h", axes=[0]), node("Squeeze", "h", "b", axes=[0])], X),
    (12, [node("ReduceSum", "a", "b", axes=[1], keepdims=0)], X.sum(-1)),
    (11, [node("Relu", "a", "b")], np.maximum(X, 0)),
]


@pytest.mark.parametrize(("opset", "nodes", "expected"), OLDER)
def test_functions_of_an_older_opset(
    opset: int, nodes: Sequence[NodeProto], expected: np.ndarray
) -> None:
    old = function("Old", "a", "b", nodes, opset=opset)
    made = normal(model([call("Old", "x", "y")], [old]))
    np.testing.assert_allclose(computed(made), expected, rtol=1e-6)


def test_a_softmax_of_opset_11_keeps_its_meaning() -> None:
    old = function("Old", "a", "b", [node("Softmax", "a", "b", axis=0)], opset=11)
    made = normal(model([call("Old", "x", "y")], [old]))
    whole = np.exp(X) / np.exp(X).sum()  # over both axes: those from `axis` on are one
    np.testing.assert_allclose(computed(made), whole, rtol=1e-6)


def test_a_function_of_a_later_opset_whose_operators_are_the_same() -> None:
    later = function("Later", "a", "b", [node("Relu", "a", "b")], opset=17)
    made = normal(model([call("Later", "x", "y")], [later], opset=13))
    np.testing.assert_array_equal(computed(made), np.maximum(X, 0))


def test_a_function_of_an_opset_that_has_no_way_to_the_models() -> None:
    split = node("Split", "a", "b c", axis=0, num_outputs=2)
    later = function("Later", "a", "b", [split], opset=18)
    with pytest.raises(ModelError, match="m.onnx: the local function 'Later' is of opset 18, whose "
                       "Split is another operator than that of opset 17"):  # fmt: skip
        normalise(model([call("Later", "x", "y")], [later]), "m.onnx")


def test_a_call_with_more_inputs_than_the_function_has() -> None:
    with pytest.raises(ModelError, match="calls the local function 'Leaky' with 2 inputs, and it "
                       "has 1"):  # fmt: skip
        normalise(model([call("Leaky", "x x", "y")], [LEAKY]), "m.onnx")


def test_nodes_are_ordered_and_otherwise_stay() -> None:
    branch = helper.make_graph(
        [node("Neg", "p", "r"), node("Add", "h h", "p")], "b", [], [info("r", ["m", "n"])]
    )
    nodes = [
        node("If", "c", "y", then_branch=branch, else_branch=branch),
        node("Exp", "x", "h"),
        node("Constant", "", "c", value=numpy_helper.from_array(np.array(True))),
        node("Abs", "x", "unused"),
    ]
    made = normal(model(nodes))
    assert [one.op_type for one in made.graph.node] == ["Exp", "Constant", "If", "Abs"]
    np.testing.assert_allclose(computed(made), -2 * np.exp(X), rtol=1e-6)


@pytest.mark.parametrize("place", ["import", "nodes", "both"])
def test_the_other_name_of_onnx_own_domain(place: str) -> None:
    branch = helper.make_graph([node("Neg", "x", "r")], "b", [], [info("r", ["m", "n"])])
    branch.node[0].domain = "ai.onnx"
    constant = node("Constant", "", "c", value=numpy_helper.from_array(np.array(True)))
    made = model([constant, node("If", "c", "y", then_branch=branch, else_branch=branch)])
    if place != "nodes":
        made.opset_import[0].domain = "ai.onnx"
    for one in made.graph.node if place != "import" else ():
        one.domain = "ai.onnx"
    normal(made)
    assert [one.domain for one in made.opset_import] == ["", OWN]
    np.testing.assert_array_equal(computed(made), -X)


def test_domains_without_import_get_the_version_that_onnxruntime_assumes() -> None:
    made = model([helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")])
    normalise(made, "m.onnx")
    assert ("com.microsoft", 1) in [(one.domain, one.version) for one in made.opset_import]


def test_negative_dimensions_are_open() -> None:
    made = model([node("Relu", "x", "y")])
    made.graph.input[0].CopyFrom(info("x", (-1, 3)))
    normal(made)
    first, second = made.graph.input[0].type.tensor_type.shape.dim
    assert not first.HasField("dim_value")
    assert second.dim_value == 3


@pytest.mark.parametrize(("version", "inputs"), [(3, ["x"]), (4, ["x", "w"])])
def test_weights_that_are_listed_as_inputs(version: int, inputs: Sequence[str]) -> None:
    made = model([node("Mul", "x w", "y")], opset=8)
    made.graph.input.append(info("w", ()))
    made.graph.initializer.append(numpy_helper.from_array(np.float32(3), "w"))
    made.ir_version = version
    normalise(made, "m.onnx")
    assert [one.name for one in made.graph.input] == inputs
    assert made.ir_version == 4  # where weights need not be inputs, for onnx's inference too


@pytest.mark.parametrize("version", [-1, 1 << 40])
def test_versions_that_no_domain_has(version: int) -> None:
    made = model([node("Neg", "x", "y")])
    made.opset_import[0].version = version
    with pytest.raises(ModelError, match=f"m.onnx: imports version {version} of the domain ''"):
        normalise(made, "m.onnx")


def cyclic() -> ModelProto:
    return model([node("Neg", "q", "h"), node("Abs", "h", "q"), node("Add", "h x", "y")])


def unmade_in_a_branch() -> ModelProto:
    branch = helper.make_graph([node("Neg", "nowhere", "r")], "b", [], [info("r", ["m", "n"])])
    constant = node("Constant", "", "c", value=numpy_helper.from_array(np.array(True)))
    return model([constant, node("If", "c", "y", then_branch=branch, else_branch=branch)])


def without_import() -> ModelProto:
    made = model([node("Neg", "x", "y")])
    del made.opset_import[:]
    return made


def without_outputs() -> ModelProto:
    made = model([node("Neg", "x", "y")])
    del made.graph.output[:]
    return made


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (model([node("Neg", "x", "h")]), "the output 'y' is made by no node"),
        (model([node("Neg", "q", "y")]), "takes the value 'q', which no node makes"),
        (unmade_in_a_branch(), "takes the value 'nowhere', which no node makes"),
        (cyclic(), "waits for its own result"),
        (model([node("Neg", "x", "y"), node("Abs", "x", "y")]), "'y' is made by .* another node's"),
        (model([node("Neg", "x", "x"), node("Abs", "x", "y")]), "'x' is made by .* an input"),
        (without_import(), "imports no operator set"),
        (without_outputs(), "has no outputs"),
    ],
)
def test_models_without_a_normal_form(made: ModelProto, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence) as raised:
        normalise(made, "m.onnx")
    assert str(raised.value).startswith("m.onnx: ")


def test_a_normal_form_stays_as_it_is() -> None:
    made = normal(model([node("Exp", "x", "h"), node("Neg", "h", "y")]))
    before = GraphProto.FromString(made.graph.SerializeToString())
    normalise(made, "m.onnx")
    assert made.graph == before
