"""MindSpore's own shards: plans of the same networks need no more collectives and bytes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from slicing import check_plan, graph_of

from rankmesh.compiler.model_file.model_format import load_model
from rankmesh.compiler.slicing.emission.localise import local_model
from rankmesh.compiler.slicing.planning.costs import HostCosts, collectives
from rankmesh.compiler.slicing.search.choose import choose_plan

pytest.importorskip("highspy", reason="highspy is not installed: pip install 'rankmesh[slice]'")

_DATA = Path(__file__).parents[2] / "data/mindir"

_MLP = """
    hidden = Gemm (x, w1, b1)
    active = Gelu <approximate = "tanh"> (hidden)
    output = Gemm (active, w2, b2)
"""
_HEADS = """
    query = Gemm <transB = 1> (normed, attn_q_w, attn_q_b)
    query_heads = Reshape (query, heads)
    q = Transpose <perm = [0, 2, 1, 3]> (query_heads)
    key = Gemm <transB = 1> (normed, attn_k_w, attn_k_b)
    key_heads = Reshape (key, heads)
    k = Transpose <perm = [0, 2, 3, 1]> (key_heads)
    value = Gemm <transB = 1> (normed, attn_v_w, attn_v_b)
    value_heads = Reshape (value, heads)
    v = Transpose <perm = [0, 2, 1, 3]> (value_heads)
    products = MatMul (q, k)
    scaled = Mul (products, scale)
    masked = Add (scaled, mask)
    weights = Softmax <axis = -1> (masked)
    mixed = MatMul (weights, v)
    rows = Transpose <perm = [0, 2, 1, 3]> (mixed)
    joined = Reshape (rows, flat)
    projected = Gemm <transB = 1> (joined, attn_o_w, attn_o_b)
    attended = Add (tokens, projected)
"""
_LAYER = f"""
    tokens = Reshape (x, flat)
    normed = LayerNormalization <axis = 1, epsilon = 0.00001> (tokens, ln1_gamma, ln1_beta)
    {_HEADS}
    inner = LayerNormalization <axis = 1, epsilon = 0.00001> (attended, ln2_gamma, ln2_beta)
    hidden = Gemm <transB = 1> (inner, fc1_w, fc1_b)
    active = Gelu <approximate = "tanh"> (hidden)
    fed = Gemm <transB = 1> (active, fc2_w, fc2_b)
    layer = Add (attended, fed)
    output = Reshape (layer, whole)
"""


def _rms(source: str, result: str, weight: str) -> str:
    return f"""
    {result}_square = Mul ({source}, {source})
    {result}_mean = ReduceMean <keepdims = 1> ({result}_square, last)
    {result}_safe = Add ({result}_mean, epsilon)
    {result}_root = Sqrt ({result}_safe)
    {result}_unit = Div ({source}, {result}_root)
    {result} = Mul ({result}_unit, {weight})
"""


_LLAMA = f"""
    embedded = Gather <axis = 0> (embed_table, x)
    tokens = Reshape (embedded, flat)
    {_rms("tokens", "normed", "norm1_weight")}
    {_HEADS}
    {_rms("attended", "inner", "norm2_weight")}
    gate = Gemm <transB = 1> (inner, gate_w)
    sigmoid = Sigmoid (gate)
    silu = Mul (gate, sigmoid)
    up = Gemm <transB = 1> (inner, up_w)
    gated = Mul (silu, up)
    fed = Gemm <transB = 1> (gated, down_w)
    layer = Add (attended, fed)
    logits = Gemm <transB = 1> (layer, head_w)
    output = Reshape (logits, vocabulary)
"""
_CONSTANTS = {
    "heads": np.array([2, 6, 4, 8]),
    "flat": np.array([12, 32]),
    "whole": np.array([2, 6, 32]),
    "vocabulary": np.array([2, 6, 64]),
    "last": np.array([-1]),
    "scale": np.array(8**-0.5, np.float32),
    "epsilon": np.array(1e-6, np.float32),
}
_NETWORK = HostCosts(exchanged_byte=1e-9)
"""A network of 1 GB/s: bytes cost more than the nodes around a collective."""
_GRAPHS = {"mlp_2": _MLP, "mlp_4": _MLP, "layer_2": _LAYER, "llama_2": _LLAMA}


@cache
def _example(name: str) -> dict[str, np.ndarray]:
    """The inputs and the result that MindSpore gave for the network that is not sliced."""
    with np.load(_DATA / f"dist_tp_{name}/dist_tp_{name}.npz") as data:
        return dict(data)


def _whole(name: str) -> onnx.ModelProto:
    """The network that MindSpore sliced, from its whole weights."""
    graph = onnx.parser.parse_graph(f"whole (float x) => (float output) {{{_GRAPHS[name]}}}")
    with np.load(_DATA / f"dist_tp_{name}/dist_tp_{name}_fullparams.npz") as data:
        arrays = _CONSTANTS | {key.replace(".", "_"): array for key, array in data.items()}
    used = {value for node in graph.node for value in node.input}
    graph.initializer.extend(
        numpy_helper.from_array(array, key) for key, array in arrays.items() if key in used
    )
    example = _example(name)
    del graph.input[:], graph.output[:]
    for key, array in zip(("x", "mask"), list(example.values())[:-1], strict=False):
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        graph.input.append(helper.make_tensor_value_info(key, kind, array.shape))
    shape = example["out_0"].shape
    graph.output.append(helper.make_tensor_value_info("output", TensorProto.FLOAT, shape))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _exchanged(model: onnx.ModelProto) -> Iterator[int]:
    """The bytes of the operand of each collective in a shard of MindSpore."""
    known = onnx.shape_inference.infer_shapes(model)
    shapes = {
        one.name: [axis.dim_value for axis in one.type.tensor_type.shape.dim]
        for one in known.graph.value_info
    }
    for node in model.graph.node:
        if node.domain == "rankmesh":
            yield 4 * int(np.prod(shapes[node.input[0]]))


@pytest.mark.parametrize("name", _GRAPHS)
def test_a_plan_exchanges_no_more_than_the_shards_of_mindspore(name: str) -> None:
    ranks = int(name[-1])
    graph = graph_of(_whole(name))
    plan = choose_plan(graph, ranks, costs=_NETWORK, seconds=5.0).plan
    example = _example(name)
    feeds = {
        key: example[f"in_{i}"] for i, key in enumerate(v.name for v in graph.model.graph.inputs)
    }
    check_plan(graph, plan, feeds, [example["out_0"]])
    ours = [
        made.nbytes
        for one in plan.conversions
        for made in collectives(graph.dims[one.value], 4.0, one.before, one.after, ranks)
    ]
    emitted = [one for one in local_model(graph, plan, 0).graph if one.domain == "rankmesh"]
    shard = load_model(str(_DATA / f"dist_tp_{name}/dist_tp_{name}_rank0.mindir")).model
    theirs = list(_exchanged(shard))
    assert theirs
    assert len(emitted) == len(ours) <= len(theirs)
    assert sum(ours) <= sum(theirs), f"{ours} bytes, MindSpore {theirs}"
