"""Matrix products of .ms files: MindIR's BatchMatMul and ONNX's Gemm, with bias and activation."""

from __future__ import annotations

from ...element_types.value_types import TensorType
from ..builder import END, Builder, OnnxTensor, Value, dims, lowers
from ..primitives.linear import batch_mat_mul, gemm, linear
from .activation import activated


@lowers("Lite.MatMulFusion")
def mat_mul(
    b: Builder,
    x: Value,
    y: Value,
    bias: Value = None,
    *,
    transpose_a: bool,
    transpose_b: bool,
    activation_type: str,
) -> Value:
    """Products of the last two axes, each transposed or not, with a bias on the last axis."""
    left, right = b.tensor(x), b.tensor(y)
    if bias is not None and _is_linear(b, right, transpose_a, transpose_b):
        return activated(b, linear(b, left, right, b.tensor(bias)), activation_type)
    product = batch_mat_mul(b, left, right, transpose_a, transpose_b)
    if bias is not None:
        product = b.op("Add", product, b.tensor(bias))
    return activated(b, product, activation_type)


def _is_linear(b: Builder, weight: OnnxTensor, transpose_a: bool, transpose_b: bool) -> bool:
    matrix = weight.shape is not None and len(weight.shape) == 2
    return matrix and transpose_b and not transpose_a and b.is_constant(weight)


@lowers("Lite.FullConnection")
def full_connection(
    b: Builder,
    x: Value,
    weight: Value,
    bias: Value = None,
    *,
    use_axis: bool,
    axis: int,
    activation_type: str,
) -> Value:
    """Rows, which all axes from `axis` on make, times a weight [out, in], as Caffe has it."""
    tensor, w = b.tensor(x), b.tensor(weight)
    features = w.shape[1] if w.shape is not None else -1
    rows = b.op("Reshape", tensor, (-1, features))
    y = gemm(b, rows, w, None if bias is None else b.tensor(bias), trans_b=True)
    if use_axis and axis != 1:
        sizes = dims(b, tensor)[: axis % tensor.rank]
        y = b.op("Reshape", y, (*sizes, -1))
    return activated(b, y, activation_type)


@lowers("Lite.Affine")
def affine(
    b: Builder,
    x: Value,
    weight: Value,
    bias: Value = None,
    *,
    context: Value,
    activation_type: str,
    transpose_a: bool,
    transpose_b: bool,
) -> Value:
    """Frames [batch, time, features] with their neighbours, times a weight, as Kaldi has it."""
    tensor = b.tensor(x)
    first, reach = min(context), max(context) - min(context)
    parts = [
        b.op("Slice", tensor, (at - first,), (at - first - reach or END,), (1,)) for at in context
    ]
    wide = b.op("Concat", *parts, axis=-1, type=TensorType(tensor.dtype, (-1, -1, -1)))
    product = mat_mul(
        b,
        wide,
        weight,
        bias,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        activation_type=activation_type,
    )
    return product
