"""Contributed operators' shapes: compute the outputs of operators that only onnxruntime knows.

ONNX has no schema of the domain com.microsoft. Most of its operators have the shape of an ONNX
operator on some of their inputs, which stands in for them; the others have a function here.
Source: the schemas in onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, helper

from .collective_shapes import DOMAIN as COLLECTIVES
from .collective_shapes import collective_dtype, collective_shapes
from .contrib_node import ContribNode, Shape

DOMAIN = "com.microsoft"


ShapesOf = Callable[[ContribNode], Sequence[Shape | None]]


def _same(one: ContribNode) -> Sequence[Shape | None]:
    """One output, shaped as the first input."""
    return [one.shape(0)]


def _normalised(one: ContribNode) -> Sequence[Shape | None]:
    """As the first input; the statistics have size 1 along the last axis; the sum is whole."""
    first = one.shape(0)
    assert first is not None
    statistics = (*first[:-1], 1)
    return [first, statistics, statistics, first]


def _axis_normalised(one: ContribNode) -> Sequence[Shape | None]:
    first = one.shape(0)
    assert first is not None
    axis = one.int_of("axis", -1) % len(first)
    statistics = (*first[:axis], *[1] * (len(first) - axis))
    return [first, statistics, statistics]


def _embedded(one: ContribNode) -> Sequence[Shape | None]:
    """Rows of the embedding for each index, a number for each sequence."""
    ids, words = one.shape(0), one.shape(2)
    assert ids is not None and words is not None
    rows = (*ids, words[-1])
    return [rows, ids[:1], rows]


def _attention(one: ContribNode) -> Sequence[Shape | None]:
    first, weights, past = one.shape(0), one.shape(1), one.shape(8 if _quantised(one) else 4)
    assert first is not None and weights is not None
    sizes = one.node.attributes.get("qkv_hidden_sizes")
    hidden = sizes.as_ints()[2] if sizes is not None else weights[1] // 3
    heads = one.int_of("num_heads")
    length = first[1] + (past[3] if past else 0)
    present = past if past and one.int_of("past_present_share_buffer") else None
    present = present or (2, first[0], heads, length, hidden // heads)
    return [(*first[:2], hidden), present]


def _quantised(one: ContribNode) -> bool:
    return one.node.op_type == "QAttention"


def _multi_head(one: ContribNode) -> Sequence[Shape | None]:
    query, key, value = one.shape(0), one.shape(1), one.shape(2)
    assert query is not None
    heads = one.int_of("num_heads")
    batch, length = query[:2]
    past = one.shape(5 if one.node.op_type.startswith("Decoder") else 6)
    width = heads * query[-1] if len(query) == 5 else query[2]
    if len(query) == 3 and key is None:
        width //= 3
    own = width // heads
    before, many = past[2] if past else 0, length
    if key is not None:
        many = key[2] if len(key) == 4 else key[1]
    total = before + (0 if key is not None and len(key) == 4 else many) or many
    if one.int_of("past_present_share_buffer") and past:
        total = past[2]
    out = width if value is None else value[2] if len(value) == 3 else heads * value[3]
    present = (batch, heads, total, own)
    scores = (batch, heads, length, total)
    return [(batch, length, out), present, (*present[:3], out // heads), scores]


def _grouped(one: ContribNode) -> Sequence[Shape | None]:
    query, past = one.shape(0), one.shape(3)
    assert query is not None
    heads, groups = one.int_of("num_heads"), one.int_of("kv_num_heads")
    batch, length, width = query
    own = width // (heads if one.shape(1) else heads + 2 * groups)
    total = length + (past[2] if past else 0)
    stated = one.values.get(one.name(6))
    if stated is not None:
        total = int(stated.flat[0])
    kept = max(total, past[2]) if past else total
    present = (batch, groups, kept, own)
    scores = (batch, heads, length, total)
    return [(batch, length, heads * own), present, present, scores]


def _product(one: ContribNode) -> Sequence[Shape | None]:
    a, b = one.shape(0), one.shape(1)
    if one.int_of("transBatchA") or one.int_of("transBatchB") or not a or not b:
        return [None]
    if min(len(a), len(b)) < 2:
        return [None]
    rows = a[-1] if one.int_of("transA") else a[-2]
    columns = b[-2] if one.int_of("transB") else b[-1]
    return [(*np.broadcast_shapes(a[:-2], b[:-2]), rows, columns)]


def _columns(one: ContribNode) -> Sequence[Shape | None]:
    first = one.shape(0)
    assert first is not None
    return [(*first[:-1], one.int_of("N"))]


def _half(one: ContribNode) -> Sequence[Shape | None]:
    first = one.shape(0)
    assert first is not None
    return [(*first[:-1], first[-1] // 2)]


def _gathered_blocks(one: ContribNode) -> Sequence[Shape | None]:
    data, picked = one.shape(0), one.shape(1)
    assert data is not None and picked is not None
    source = one.node.inputs[0]
    packed = source is not None and source.dtype == ir.DataType.UINT8
    axis = one.int_of("gather_axis") % len(data)
    width = data[-1] * (8 // one.int_of("bits", 4) if packed else 1)
    whole = (*data[:-1], width)
    return [(*whole[:axis], *picked, *whole[axis + 1 :])]


_SHAPES: Mapping[str, ShapesOf] = {
    **dict.fromkeys(
        """Gelu FastGelu QuickGelu BiasGelu BiasAdd RotaryEmbedding MoE QMoE QuantizeLinear
        DequantizeLinear QLinearSigmoid QLinearLeakyRelu QLinearSoftmax BiasSoftmax GroupNorm
        Trilu GroupNormalization MeanVarianceNormalization""".split(),
        _same,
    ),
    "SkipLayerNormalization": _normalised,
    "SkipSimplifiedLayerNormalization": _normalised,
    "LayerNormalization": _axis_normalised,
    "SimplifiedLayerNormalization": _axis_normalised,
    "EmbedLayerNormalization": _embedded,
    "Attention": _attention,
    "QAttention": _attention,
    "MultiHeadAttention": _multi_head,
    "DecoderMaskedMultiHeadAttention": _multi_head,
    "GroupQueryAttention": _grouped,
    "FusedMatMul": _product,
    "TransposeMatMul": _product,
    "MatMulNBits": _columns,
    "MatMulBnb4": _columns,
    "BiasSplitGelu": _half,
    "GatherBlockQuantized": _gathered_blocks,
}

_STAND_INS: Mapping[str, tuple[str, slice | tuple[int, ...]]] = {
    "FusedConv": ("Conv", (0, 1)),
    "FusedGemm": ("Gemm", (0, 1)),
    "QGemm": ("Gemm", (0, 3)),
    "QLinearAdd": ("Add", (0, 3)),
    "QLinearMul": ("Mul", (0, 3)),
    "QLinearWhere": ("Where", (0, 1, 4)),
    "QLinearConcat": ("Concat", slice(2, None, 3)),
    "QLinearAveragePool": ("AveragePool", (0,)),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", (0,)),
    "MatMulIntegerToFloat": ("MatMul", (0, 1)),
    "DynamicQuantizeMatMul": ("MatMul", (0, 1)),
}
"""The ONNX operator whose output has the same shape, and the inputs that it takes."""

_TYPES: Mapping[str, Sequence[int]] = {
    "EmbedLayerNormalization": (2, 0, 2),
    "QAttention": (2, 2),
    "GroupQueryAttention": (0, 3, 3, 0),
    "GatherBlockQuantized": (2,),
    "QuantizeLinear": (2,),
    "DequantizeLinear": (1,),
    "QLinearWhere": (1,),
    "QLinearConcat": (1,),
    "QGemm": (8,),
    "MatMulIntegerToFloat": (2,),
}
"""The inputs whose dtypes the outputs have, where that is not the first."""

_WITHOUT: Mapping[str, ir.DataType] = {
    "QuantizeLinear": ir.DataType.UINT8,
    "QGemm": ir.DataType.FLOAT,
}
"""The dtype of the outputs where the input that would tell it is missing."""

_STATISTICS = {"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"}
"""Operators whose second and third output are float32 for inputs of any type."""


def is_contributed(node: ir.Node, opset: int) -> bool:
    """Whether ONNX infers no shapes of an operator; its own domain has a few of these, too."""
    if node.domain in (DOMAIN, COLLECTIVES):
        return True
    if node.domain not in ("", "ai.onnx"):
        return False
    if not onnx.defs.has(node.op_type, opset, ""):
        return True
    schema = onnx.defs.get_schema(node.op_type, opset, "")
    return not schema.has_type_and_shape_inference_function


def contrib_shapes(one: ContribNode, opset: int) -> Sequence[Shape | None]:
    """The shapes of a node's outputs, None where they are unknown."""
    if one.node.domain == COLLECTIVES:
        return collective_shapes(one)
    operator = one.node.op_type
    if operator in _STAND_INS:
        if one.int_of("channels_last"):
            return []
        return [_stood_in(one, *_STAND_INS[operator], opset)]
    return _SHAPES[operator](one) if operator in _SHAPES else []


def contrib_dtype(one: ContribNode, output: int) -> ir.DataType | None:
    """The dtype of an output."""
    if one.node.domain == COLLECTIVES:
        return collective_dtype(one, output)
    operator = one.node.op_type
    if operator in _STATISTICS and output in (1, 2):
        return ir.DataType.FLOAT
    sources = _TYPES.get(operator, ())
    source = sources[output] if output < len(sources) else 0
    inputs = one.node.inputs
    value = inputs[source] if source < len(inputs) else None
    if value is None and operator in _WITHOUT:
        return _WITHOUT[operator]
    value = value or inputs[0]
    return None if value is None else value.dtype


def _stood_in(
    one: ContribNode, operator: str, inputs: slice | tuple[int, ...], opset: int
) -> Shape | None:
    """The shape that ONNX infers for another operator, given the attributes that both have."""
    schema = onnx.defs.get_schema(operator, opset, "")
    every = range(len(one.node.inputs))
    names = [one.name(i) for i in (every[inputs] if isinstance(inputs, slice) else inputs)]
    proto = ir.to_proto(one.node)
    attributes = [found for found in proto.attribute if found.name in schema.attributes]
    proto = helper.make_node(operator, names, ["y"])
    proto.attribute.extend(attributes)
    types = {
        name: helper.make_tensor_type_proto(TensorProto.FLOAT, one.shapes[name]) for name in names
    }
    if operator == "Where":
        types[names[0]].tensor_type.elem_type = TensorProto.BOOL
    found = onnx.shape_inference.infer_node_outputs(
        schema, proto, types, {}, opset_imports=[helper.make_opsetid("", opset)]
    )
    return tuple(dim.dim_value for dim in found["y"].tensor_type.shape.dim)
