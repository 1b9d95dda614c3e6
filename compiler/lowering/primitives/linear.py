"""Matrix products: weights enter Gemm or MatMul as they are stored, never transposed or copied."""

from __future__ import annotations

import numpy as np
from onnx import helper

from ...element_types.dtypes import is_float
from ...element_types.value_types import TensorType
from ..builder import (
    Builder,
    ComplexPair,
    OnnxTensor,
    Value,
    arithmetic,
    as_dtype,
    layout,
    lowers,
)
from .complex_numbers import total


def gemm(
    b: Builder,
    x: OnnxTensor,
    y: OnnxTensor,
    bias: OnnxTensor | None = None,
    *,
    trans_a: bool = False,
    trans_b: bool = False,
) -> OnnxTensor:
    """A product of two matrices; MatMul for integers, which Gemm does not take."""
    if is_float(x.dtype):
        inputs = (x, y) if bias is None else (x, y, bias)
        return b.op(
            "Gemm",
            *inputs,
            type=TensorType(x.dtype, _product_shape(x, y, trans_a, trans_b)),
            transA=int(trans_a),
            transB=int(trans_b),
        )
    x = b.op("Transpose", x, perm=[1, 0]) if trans_a else x
    result = b.op("MatMul", x, b.op("Transpose", y, perm=[1, 0]) if trans_b else y)
    return result if bias is None else b.op("Add", result, bias)


def _product_shape(
    x: OnnxTensor, y: OnnxTensor, trans_a: bool, trans_b: bool
) -> tuple[int, ...] | None:
    if x.shape is None or y.shape is None:
        return None
    return x.shape[1 if trans_a else 0], y.shape[0 if trans_b else 1]


def linear(
    b: Builder, x: OnnxTensor, weight: OnnxTensor, bias: OnnxTensor | None = None
) -> OnnxTensor:
    """x @ weight^T + bias on the last axis, for x of any rank."""
    if x.shape is not None and x.rank == 2:
        return gemm(b, x, weight, bias, trans_b=True)
    if weight.shape is None or len(weight.shape) != 2:
        raise ValueError(f"the weight has the shape {weight.shape}, expected 2 dimensions")
    rows, features = weight.shape
    if min(rows, features) < 0:
        product = b.op("MatMul", x, b.op("Transpose", weight, perm=[1, 0]))
        return product if bias is None else arithmetic(b, "Add", product, bias)
    flat = b.op("Reshape", x, (-1, features), type=TensorType(x.dtype, (-1, features)))
    return _with_last(b, x, gemm(b, flat, weight, bias, trans_b=True), rows)


def _with_last(b: Builder, x: OnnxTensor, y: OnnxTensor, last: int) -> OnnxTensor:
    """y [rows, last] in the shape of x but for its last dimension.

    One unknown dimension is left to Reshape: reading shapes at run time takes as long as a small
    product.
    """
    leading = x.shape[:-1] if x.shape is not None else (-1, -1)
    if leading.count(-1) <= 1 and 0 not in (*leading, last):
        return b.op("Reshape", y, (*leading, last))
    target = b.op("Concat", b.op("Shape", x, end=-1), (last,), axis=0)
    return b.op("Reshape", y, target, allowzero=1)


def _transposed_weight(b: Builder, y: OnnxTensor) -> OnnxTensor | None:
    """The 2-d initializer whose transpose y is, if it is that."""
    found = b.made(y, "Transpose")
    source = found.inputs[0] if found else None
    return (
        source
        if source and b.is_constant(source) and source.shape and len(source.shape) == 2
        else None
    )


@lowers("MatMul", "Mm")
def mat_mul(
    b: Builder, input: Value, mat2: Value, transpose_a: Value = False, transpose_b: Value = False
) -> Value:
    """A product of two matrices, each transposed or not."""
    x, y = b.tensor(input), b.tensor(mat2)
    if x.shape is not None and y.shape is not None and (len(x.shape), len(y.shape)) != (2, 2):
        return batch_mat_mul(b, x, y, transpose_a, transpose_b)
    stored = _transposed_weight(b, y)
    if stored:
        y, transpose_b = stored, not transpose_b
    return gemm(b, x, y, trans_a=bool(transpose_a), trans_b=bool(transpose_b))


@lowers("BatchMatMul")
def batch_mat_mul(
    b: Builder, x: Value, y: Value, transpose_a: Value = False, transpose_b: Value = False
) -> Value:
    """Products of the last two axes, each transposed or not."""
    x, y = b.tensor(x), b.tensor(y)
    if transpose_b and not transpose_a and y.shape and len(y.shape) == 2 and b.is_constant(y):
        return linear(b, x, y)
    return mat_mul_ext(
        b, _swapped(b, x) if transpose_a else x, _swapped(b, y) if transpose_b else y
    )


def _swapped(b: Builder, x: OnnxTensor) -> OnnxTensor:
    axes = list(range(x.rank))
    return b.op("Transpose", x, perm=[*axes[:-2], axes[-1], axes[-2]])


@lowers("MatMulExt", "BatchMatMulExt", "Mv", "Dot", "Vdot")
def mat_mul_ext(b: Builder, input: Value, other: Value) -> Value:
    """A product as numpy.matmul has it."""
    x, y = b.tensor(input), b.tensor(other)
    stored = _transposed_weight(b, y)
    if stored and is_float(x.dtype) and (x.shape is None or x.rank > 1):
        return linear(b, x, stored)
    return b.op("MatMul", x, y)


@lowers("Dense")
def dense(b: Builder, input: Value, weight: Value, bias: Value = None) -> Value:
    """input @ weight^T + bias."""
    x, w = b.tensor(input), b.tensor(weight)
    c = None if bias is None else b.tensor(bias)
    if w.shape is not None and len(w.shape) == 1:
        y = b.op("MatMul", x, w)
        return y if c is None else b.op("Add", y, c)
    return linear(b, x, w, c)


@lowers("Addmm", "Baddbmm", "Addmv", over_batch=False)
@lowers("Addbmm", over_batch=True)
def addmm(
    b: Builder,
    input: Value,
    mat1: Value,
    mat2: Value,
    beta: Value = 1,
    alpha: Value = 1,
    *,
    over_batch: bool,
) -> Value:
    """beta * input + alpha * mat1 @ mat2, or that product summed over the batch."""
    product = b.op("MatMul", b.tensor(mat1), b.tensor(mat2))
    if over_batch:
        product = b.op("ReduceSum", product, (0,), keepdims=0)
    scaled = product if alpha == 1 else arithmetic(b, "Mul", product, alpha)
    return arithmetic(b, "Add", input if beta == 1 else arithmetic(b, "Mul", input, beta), scaled)


@lowers("BiasAdd")
def bias_add(b: Builder, input_x: Value, bias: Value, data_format: Value = "NCHW") -> Value:
    """input_x plus a bias per channel, folded into the product or convolution before it."""
    x = b.tensor(input_x)
    c = as_dtype(b, bias, x.dtype)
    last = layout(data_format) == "NHWC" or (x.shape is not None and len(x.shape) == 2)
    for op_type in ("Gemm",) if last else ("Conv", "ConvTranspose"):
        folded = _with_bias(b, x, op_type, c)
        if folded:
            return folded
    if not last:
        c = b.op("Reshape", c, (-1,) + (1,) * (x.rank - 2))
    return b.op("Add", x, c)


@lowers("Add", "TensorAdd")
def add(b: Builder, input: Value, other: Value) -> Value:
    """input + other; a bias after a product is folded into it."""
    if any(isinstance(value, ComplexPair) for value in (input, other)):
        return total(b, "Add", input, other)
    for x, bias in ((input, other), (other, input)):
        if isinstance(x, OnnxTensor) and b.made(x, "Gemm") and _is_bias(bias):
            folded = _with_bias(b, x, "Gemm", b.tensor(bias))
            if folded:
                return folded
    return arithmetic(b, "Add", input, other)


def _with_bias(b: Builder, tensor: OnnxTensor, op_type: str, bias: OnnxTensor) -> OnnxTensor | None:
    """The `op_type` node that gives `tensor`, made again with a bias as its third input.

    None where it is another node, has a bias already, or is needed without one.
    """
    found = b.made(tensor, op_type)
    if found is None or len(found.inputs) != 2 or b.uses(tensor) > 1 or bias.dtype != tensor.dtype:
        return None
    attributes = {a.name: helper.get_attribute_value(a) for a in found.node.attribute}
    result = b.op(op_type, *found.inputs, bias, **attributes)
    if merged := b.made(result, op_type):
        merged.node.doc_string = found.node.name  # users may ask for either (precise.py)
    return result


def _is_bias(value: Value) -> bool:
    shape = value.shape if isinstance(value, (OnnxTensor, np.ndarray)) else None
    return shape is not None and len(shape) == 1 and shape[0] > 0


@lowers("Einsum")
def einsum(b: Builder, x: Value, *, equation: str) -> Value:
    """A sum of products over a tuple of tensors, in Einstein's notation."""
    return b.op("Einsum", *(b.tensor(item) for item in x), equation=equation)


@lowers("Outer", "Ger")
def outer(b: Builder, input: Value, vec2: Value) -> Value:
    """All products of the elements of two vectors."""
    return arithmetic(b, "Mul", b.op("Unsqueeze", b.tensor(input), (1,)), vec2)


@lowers("MatrixDeterminant")
def determinant(b: Builder, x: Value) -> Value:
    """The determinants of the matrices of the last two axes."""
    return b.op("Det", b.tensor(x))


@lowers("MatrixPower")
def matrix_power(b: Builder, x: Value, *, n: int) -> Value:
    """A product of n equal matrices."""
    matrix = b.tensor(x)
    if not 1 <= n <= 64:
        raise ValueError(f"the power {n} of a matrix is not supported: 1 to 64 are")
    result = matrix
    for bit in bin(n)[3:]:
        result = b.op("MatMul", result, result)
        result = b.op("MatMul", result, matrix) if bit == "1" else result
    return result


@lowers("GroupedMatmul")
def grouped_matmul(
    b: Builder,
    x: Value,
    weight: Value,
    bias: Value = None,
    scale: Value = None,
    offset: Value = None,
    antiquant_scale: Value = None,
    antiquant_offset: Value = None,
    group_list: Value = None,
    split_item: Value = 0,
    group_type: Value = -1,
    transpose_a: Value = False,
    transpose_b: Value = False,
) -> Value:
    """One product per pair of a tensor and a weight."""
    quantisation = (scale, offset, antiquant_scale, antiquant_offset)
    if group_list is not None or any(given is not None for given in quantisation):
        raise ValueError(
            "rows grouped at run time and quantised weights are not supported: write a MatMul per "
            "expert"
        )
    biases = bias if isinstance(bias, tuple) and bias else (None,) * len(x)
    found = []
    for rows, w, c in zip(x, weight, biases, strict=True):
        bias = None if c is None else b.tensor(c)
        found.append(gemm(b, b.tensor(rows), b.tensor(w), bias, trans_b=bool(transpose_b)))
    return tuple(found)
