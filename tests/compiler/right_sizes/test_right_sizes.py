"""Right sizes: onnxruntime runs a model with the size that is found, and with no other one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
from decoders import grouped_decoder
from onnx import TensorProto, helper, numpy_helper, parser
from slicing import graph_of

from rankmesh.comm.errors import InputError
from rankmesh.compiler.model_file.loaded_model import LoadedModel
from rankmesh.compiler.right_sizes.default_shapes import default_shapes
from rankmesh.compiler.right_sizes.right_sizes import RightSizes, right_sizes
from rankmesh.compiler.right_sizes.shapes import source_graph
from rankmesh.compiler.source_graph.open_dimensions import open_dimensions
from rankmesh.compiler.source_graph.source_graph import source_model

Weights = Mapping[str, tuple[int, ...] | list[int]]

FIXED: dict[str, tuple[str, Weights, dict[str, int], dict[str, int]]] = {
    # the graph, its weights (a tuple is a shape, a list has integers), right sizes, other sizes
    "MatMul": ("(float[n,d] x) => (y) { y = MatMul(x, w) }", {"w": (6, 4)}, {"d": 6}, {"n": 3}),
    "MatMul, from the left": (
        "(float[n,d] x) => (y) { y = MatMul(w, x) }", {"w": (4, 6)}, {"n": 6}, {"d": 3},
    ),
    "Gemm, transposed": (
        "(float[d,n] x) => (y) { y = Gemm<transA = 1, transB = 1>(x, w, b) }",
        {"w": (4, 6), "b": (4,)}, {"d": 6}, {"n": 3},
    ),
    "Concat and MatMul": (
        "(float[n,d] x) => (y) { c = Concat<axis = 1>(x, k)\n y = MatMul(c, w) }",
        {"w": (9, 4), "k": (2, 3)}, {"n": 2, "d": 6}, {},
    ),
    "MatMul of twice the size": (
        "(float[n,d] x) => (y) { c = Concat<axis = 1>(x, x)\n y = MatMul(c, w) }",
        {"w": (12, 4)}, {"d": 6}, {"n": 3},
    ),
    "Reshape": (
        "(float[n,d] x) => (y) { y = Reshape(x, s) }", {"s": [0, 2, 3]}, {"d": 6}, {"n": 3},
    ),
    "Reshape to what a Shape says": (
        "(float[n,s,d] x) => (y) { a = Shape<end = 2>(x)\n t = Concat<axis = 0>(a, k)\n"
        " y = Reshape(x, t) }",
        {"k": [2, 3]}, {"d": 6}, {"n": 2, "s": 5},
    ),
    "Conv": (
        "(float[n,c,h] x) => (y) { y = Conv<group = 2>(x, w) }", {"w": (4, 3, 1)}, {"c": 6},
        {"n": 2, "h": 5},
    ),
    "ConvTranspose": (
        "(float[n,c,h] x) => (y) { y = ConvTranspose(x, w) }", {"w": (6, 3, 1)}, {"c": 6},
        {"n": 2, "h": 5},
    ),
    "LayerNormalization": (
        "(float[n,d] x) => (y) { y = LayerNormalization(x, w) }", {"w": (6,)}, {"d": 6}, {"n": 3},
    ),
    "BatchNormalization": (
        "(float[n,c,h] x) => (y) { y = BatchNormalization(x, w, w, w, w) }", {"w": (6,)},
        {"c": 6}, {"n": 3, "h": 4},
    ),
    "LSTM": (
        "(float[s,n,d] x, float[k,n,h] a, float[k,n,h] c) => (y) "
        "{ y = LSTM<hidden_size = 4>(x, w, r, , , a, c) }",
        {"w": (1, 16, 6), "r": (1, 16, 4)}, {"d": 6, "k": 1, "h": 4}, {"s": 3, "n": 2},
    ),
    "Split": (
        "(float[n,d] x) => (y, z) { y, z = Split<axis = 1>(x, s) }", {"s": [2, 4]}, {"d": 6},
        {"n": 3},
    ),
    "Squeeze": ("(float[n,d] x) => (y) { y = Squeeze(x, a) }", {"a": [1]}, {"d": 1}, {"n": 3}),
    "Attention of ONNX": (
        "(float[n,2,s,d] q, float[n,2,p,e] pk, float[n,2,p,e] pv, float[n,2,s,3] k) => (y, a, b) "
        "{ y, a, b = Attention(q, k, k, , pk, pv) }",
        {}, {"d": 3, "e": 3}, {"n": 2, "s": 4, "p": 5},
    ),
    "RotaryEmbedding of ONNX": (
        "(float[n,2,s,d] x, int64[n,s] at) => (y) { y = RotaryEmbedding(x, c, c, at) }",
        {"c": (9, 3)}, {"d": 6}, {"n": 2, "s": 4},
    ),
}  # fmt: skip

CONTRIBUTED: dict[str, tuple[str, Weights, dict[str, int], dict[str, int]]] = {
    "MultiHeadAttention": (
        "(float[n,s,6] q, float[n,2,p,d] pk, float[n,2,p,d] pv) => (y, a, b) { y, a, b = "
        "com.microsoft.MultiHeadAttention<num_heads = 2>(q, q, q, , , , pk, pv) }",
        {}, {"d": 3}, {"n": 2, "s": 4, "p": 5},
    ),
    "Attention": (
        "(float[n,s,d] x, float[2,n,2,p,h] past) => (y, present) { y, present = "
        "com.microsoft.Attention<num_heads = 2>(x, w, b, , past) }",
        {"w": (4, 18), "b": (18,)}, {"d": 4, "h": 3}, {"n": 2, "s": 4, "p": 5},
    ),
    "RotaryEmbedding": (
        "(float[n,s,d] x, int64[n,s] at) => (y) { y = "
        "com.microsoft.RotaryEmbedding<num_heads = 2>(x, at, c, c) }",
        {"c": (9, 3)}, {"d": 12}, {"n": 2, "s": 4},
    ),
    "SkipLayerNormalization": (
        "(float[n,s,d] x) => (y) { y = com.microsoft.SkipLayerNormalization(x, x, w) }",
        {"w": (6,)}, {"d": 6}, {"n": 2, "s": 4},
    ),
    "FusedMatMul": (
        "(float[n,d] x) => (y) { y = com.microsoft.FusedMatMul<transB = 1>(x, w) }",
        {"w": (4, 6)}, {"d": 6}, {"n": 3},
    ),
}  # fmt: skip

FREE: dict[str, tuple[str, Weights]] = {
    "elementwise": ("(float[n,d] x) => (y) { y = Relu(x) }", {}),
    "two inputs of one size": ("(float[n,d] x, float[n,d] z) => (y) { y = Add(x, z) }", {}),
    "a Gather of a place": ("(float[n,d] x) => (y) { y = Gather<axis = 1>(x, i) }", {"i": [5]}),
    "a Reshape of what is left": ("(float[n,d] x) => (y) { y = Reshape(x, s) }", {"s": [0, -1, 2]}),
    "rows of a table": (
        "(float[n,64] x) => (y) { a = Shape<end = 1>(x)\n r = Slice(t, z, a, z)\n y = Add(x, r) }",
        {"t": (9, 64), "z": [0]},
    ),
    "a mean": ("(float[n,d] x) => (y) { m = ReduceMean(x)\n y = Sub(x, m) }", {}),
    "a number": ("(float[n,d] x) => (y) { y = Add(x, w) }", {"w": (1,)}),
}


def made(text: str, weights: Weights, contributed: bool = False) -> onnx.ModelProto:
    """A model of a graph's text, with weights of random numbers."""
    domain = ', "com.microsoft" : 1' if contributed else ""
    head, body = text.split("=>", 1)
    outputs, nodes = body.split("{", 1)
    typed = ", ".join(f"float {name.strip()}" for name in outputs.strip(" ()").split(","))
    opset = 17 if contributed else 23
    header = f'<ir_version: 10, opset_import: ["" : {opset}{domain}]>'
    model = parser.parse_model(f"{header} graph {head} => ({typed}) {{{nodes}")
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    draw = np.random.default_rng(0)
    for name, one in weights.items():
        array = np.array(one) if isinstance(one, list) else draw.random(one).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    for index, node in enumerate(model.graph.node):
        node.name = f"node{index}"
    return model


def found_in(model: onnx.ModelProto) -> RightSizes:
    uniform = source_model(LoadedModel(model, "model.onnx"))
    return right_sizes(uniform, open_dimensions(uniform))


def runs(model: onnx.ModelProto, sizes: Mapping[str, int]) -> bool:
    """Whether onnxruntime runs a model with these sizes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    feeds = {}
    for one in model.graph.input:
        dims = one.type.tensor_type.shape.dim
        shape = [sizes.get(dim.dim_param, dim.dim_value) for dim in dims]
        kind = helper.tensor_dtype_to_np_dtype(one.type.tensor_type.elem_type)
        feeds[one.name] = np.ones(shape, kind)
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        session.run(None, feeds)
    except Exception:  # onnxruntime's own exception classes have no common base
        return False
    return True


@pytest.mark.parametrize(
    ("model", "right", "others"),
    [
        pytest.param(made(text, weights, table is CONTRIBUTED), right, others, id=name)
        for table in (FIXED, CONTRIBUTED)
        for name, (text, weights, right, others) in table.items()
    ],
)
def test_the_size_that_is_found_is_the_only_one(
    model: onnx.ModelProto, right: dict[str, int], others: dict[str, int]
) -> None:
    found = found_in(model)
    assert {name: one.size for name, one in found.fixed.items()} == right
    assert found.exact == right
    assert all(one.node.startswith("node node") for one in found.fixed.values())
    assert runs(model, {**right, **others})
    for name, size in right.items():
        assert not runs(model, {**right, **others, name: 2 * size + 1}), name


@pytest.mark.parametrize("name", FREE)
def test_sizes_that_may_differ_stay_open(name: str) -> None:
    found = found_in(made(*FREE[name]))
    assert not found.exact and all(one.takes(1) for one in found.fixed.values())


@pytest.mark.parametrize("operator", ["Add", "Mul", "Where", "Expand"])
def test_what_a_partner_fixes_may_be_repeated_too(operator: str) -> None:
    """Elements that meet a weight are as many as it has, or one that is repeated."""
    calls = {"Where": "Where(w, x, x)", "Expand": "Expand(x, w)"}
    weights: Weights = {"w": [6]} if operator == "Expand" else {"w": (6,)}
    text = f"(float[n,d] x) => (y) {{ y = {calls.get(operator, operator + '(x, w)')} }}"
    model = made(text, weights)
    if operator == "Where":
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones(6, bool), "w"))
    found = found_in(model).fixed["d"]
    assert (found.size, found.or_one) == (6, True)
    assert [runs(model, {"n": 3, "d": size}) for size in (6, 1, 5)] == [True, True, False]


def test_a_length_that_is_a_sum_is_known_as_one() -> None:
    text = "(float[n,p] a, float[n,s] b, float[n,t] m) => (y) { c = Concat<axis = 1>(a, b)\n"
    assert found_in(made(text + " y = Add(c, m) }", {})).sums == {"t": ("p", "s")}


@pytest.mark.parametrize("packed", [True, False])
def test_the_head_size_of_a_decoder_is_found(packed: bool) -> None:
    model = grouped_decoder(packed)
    found = found_in(model)
    assert found.exact == {"kv_cache_dim": 8}
    assert found.fixed["kv_cache_dim"].node == "node attention (GroupQueryAttention)"
    assert found.likely == {"total": ("sequence", "past")}
    shapes = default_shapes(LoadedModel(model, "model.onnx")).shapes
    assert shapes == {"x": (1, 1, 16), "mask": (1, 2), **dict.fromkeys(("k", "v"), (1, 1, 1, 8))}
    sizes = {"batch": 1, "sequence": 1, "past": 1, "total": 2}
    assert runs(model, {**sizes, "kv_cache_dim": 8})
    assert not runs(model, {**sizes, "kv_cache_dim": 1})


def test_a_graph_has_the_right_size_and_obeys_given_ones() -> None:
    """A dimension with one right size is open no more; given sizes are in all choices."""
    graph = graph_of(grouped_decoder(True))
    assert graph.model.graph.inputs[2].shape[3] == 8
    assert [len(set(dim)) for dim in graph.dims["k"]] == [2, 1, 3, 1]
    assert all(one["total"] == one["past"] + one["sequence"] for one in graph.size_choices)
    model = source_model(LoadedModel(grouped_decoder(True), "model.onnx"))
    given = {"batch": 2, "total": 9, "sequence": 1, "kv_cache_dim": 8}
    graph = source_graph(model, "model.onnx", given)
    assert graph.size_choices == [{"batch": 2, "sequence": 1, "total": 9, "past": 8}]
    assert len(set(graph.dims["x"][0])) > 1, "the batch is not split, whatever is given"


def test_a_size_that_the_model_does_not_run_with_is_refused() -> None:
    model = source_model(LoadedModel(grouped_decoder(True), "model.onnx"))
    with pytest.raises(InputError) as refused:
        source_graph(model, "model.onnx", {"kv_cache_dim": 4})
    assert str(refused.value) == (
        "model.onnx: kv_cache_dim=4: expected 8, as node attention (GroupQueryAttention) takes no "
        "other size. Give kv_cache_dim=8, or leave it out."
    )


def test_dimensions_without_names_are_fixed_as_well() -> None:
    nodes: Sequence[onnx.NodeProto] = [helper.make_node("MatMul", ["x", "w"], ["y"], "up")]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, None])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None])]
    weight = numpy_helper.from_array(np.ones((6, 4), np.float32), "w")
    graph = helper.make_graph(nodes, "unnamed", inputs, outputs, [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    assert found_in(model).exact == {"x.1": 6}
    assert default_shapes(LoadedModel(model, "model.onnx")).shapes == {"x": (1, 6)}
