"""Decoders in the form of onnxruntime-genai's builder: the size of a head is an open dimension."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HEADS, GROUPS, OWN, WIDTH = 4, 1, 8, 16


def grouped_decoder(packed: bool) -> onnx.ModelProto:
    """Projections, a GroupQueryAttention with a cache, and the lengths that it takes from a mask.

    `packed`: queries, keys and values are one matrix.
    """
    names = ["qkv"] if packed else ["q", "key", "value"]
    columns = [(HEADS + 2 * GROUPS) * OWN] if packed else [HEADS * OWN, GROUPS * OWN, GROUPS * OWN]
    taken = [*names, "", ""][:3] if packed else names
    nodes = [
        helper.make_node("ReduceSum", ["mask", "one"], ["sum"], "sum", keepdims=0),
        helper.make_node("Sub", ["sum", "one"], ["less"], "less"),
        helper.make_node("Cast", ["less"], ["lengths"], "lengths", to=TensorProto.INT32),
        helper.make_node("Shape", ["mask"], ["shape"], "shape"),
        helper.make_node("Gather", ["shape", "index"], ["length"], "length"),
        helper.make_node("Cast", ["length"], ["total"], "total", to=TensorProto.INT32),
        *(helper.make_node("MatMul", ["x", f"w_{n}"], [n], f"proj_{n}") for n in names),
        helper.make_node(
            "GroupQueryAttention", [*taken, "k", "v", "lengths", "total"], ["a", "k1", "v1"],
            "attention", domain="com.microsoft", num_heads=HEADS, kv_num_heads=GROUPS,
        ),
        helper.make_node("MatMul", ["a", "w_out"], ["y"], "proj_out"),
    ]  # fmt: skip
    cache = ["batch", GROUPS, "past", "kv_cache_dim"]
    inputs = {"x": ["batch", "sequence", WIDTH], "mask": ["batch", "total"], "k": cache, "v": cache}
    outputs = {"y": inputs["x"], **dict.fromkeys(("k1", "v1"), ["batch", GROUPS, "total", OWN])}
    infos = [
        [
            helper.make_tensor_value_info(
                name, TensorProto.INT64 if name == "mask" else TensorProto.FLOAT, shape
            )
            for name, shape in shapes.items()
        ]
        for shapes in (inputs, outputs)
    ]
    draw = np.random.default_rng(0)
    weights = {f"w_{n}": (WIDTH, c) for n, c in zip(names, columns, strict=True)}
    arrays = {
        name: (draw.standard_normal(shape) / 4).astype(np.float32)
        for name, shape in {**weights, "w_out": (HEADS * OWN, WIDTH)}.items()
    }
    arrays |= {"one": np.array([1], np.int64), "index": np.array(1, np.int64)}
    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "decoder", *infos, tensors)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)
