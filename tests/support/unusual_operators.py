"""Operators of random models: each function appends one or a few nodes to a draft.

It takes values that are there and keeps the numbers of the order of one. None where no value fits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from unusual_graphs import BF16, FLOATS, SIZES, Draft, Value

Operator = Callable[[Draft], "Value | None"]
INT64, BOOL = np.dtype(np.int64), np.dtype(bool)
_SMOOTH = ("Sigmoid", "Tanh", "Softplus", "Softsign", "Erf", "Sin", "Cos", "Elu", "Selu", "Celu")
_EXACT = ("Relu", "Neg", "Abs", "Identity")
_NEWER = {"HardSwish": 14, "Gelu": 20, "Mish": 18}


def unary(draft: Draft) -> Value | None:
    x = draft.pick()
    if x is None:
        return None
    newer = [name for name, since in _NEWER.items() if draft.opset >= since]
    operator = draft.random.choice([*_SMOOTH, *_EXACT, *_EXACT, *newer])
    narrow = x.dtype != np.float32
    if narrow and operator in ("Erf", "Elu", "Selu", "Celu", "Softsign", "Mish", "HardSwish"):
        operator = "Relu"
    return draft.apply(operator, [x.name], x, exact=operator in _EXACT)


def leaky(draft: Draft) -> Value | None:
    x = draft.pick()
    if x is None:
        return None
    operator, name = draft.random.choice(
        [("LeakyRelu", "alpha"), ("ThresholdedRelu", "alpha"), ("HardSigmoid", "beta")]
    )
    if operator == "ThresholdedRelu" and not x.exact or x.dtype != np.float32:
        operator, name = "LeakyRelu", "alpha"
    if x.dtype == np.float16:  # onnxruntime has none
        return None
    attributes = {name: draft.random.choice([0.1, 0.25, 0.4])} if draft.chance(0.8) else {}
    return draft.apply(operator, [x.name], x, **attributes)


def clip(draft: Draft) -> Value | None:
    x = draft.pick()
    if x is None:
        return None
    low = draft.constant(np.array(-0.5, x.dtype)) if draft.chance(0.6) else ""
    high = draft.constant(np.array(0.75, x.dtype)) if draft.chance(0.6) else ""
    return draft.apply("Clip", [x.name, low, high], x, exact=True)


def positive(draft: Draft) -> Value | None:
    """A square root, logarithm or reciprocal of what is positive."""
    x = draft.pick()
    if x is None:
        return None
    size = draft.apply("Abs", [x.name], x)
    more = draft.apply("Add", [size.name, draft.constant(np.array(1, x.dtype))], x)
    return draft.apply(draft.random.choice(["Sqrt", "Log", "Reciprocal"]), [more.name], x)


def binary(draft: Draft) -> Value | None:
    x = draft.pick()
    if x is None:
        return None
    kinds = ["Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean", "PRelu"]
    operator = draft.random.choice(kinds[:5] if x.dtype == np.float16 else kinds)
    others = [one for one in draft.values if one.shape == x.shape and one.dtype == x.dtype]
    if others and draft.chance(0.4) and operator != "PRelu":
        second = draft.random.choice(others).name
    else:
        second = draft.weight(*_broadcast(draft, x))
    inputs = [x.name, second]
    if operator not in ("PRelu", "Sub") and draft.chance(0.4):
        inputs.reverse()
    if operator in ("Max", "Min", "Sum", "Mean") and x.shape and draft.chance(0.3):
        inputs.append(draft.weight(1))
    return draft.apply(operator, inputs, x)


def _broadcast(draft: Draft, x: Value) -> list[int]:
    """A shape that extends to that of `x`, without its batch."""
    shape = [1 if dim == draft.batch or draft.chance(0.3) else dim for dim in x.shape]
    while shape and (shape[0] == 1 or not shape[0]) and draft.chance(0.6):
        shape.pop(0)
    return shape


def matmul(draft: Draft) -> Value | None:
    x = draft.pick()
    if x is None or not x.shape or x.shape[-1] == draft.batch or not x.shape[-1]:
        return None
    out = draft.random.choice(SIZES)
    weight = draft.weight(x.shape[-1], out)
    shape = (*x.shape[:-1], out)
    if draft.chance(0.25) and x.dtype == np.float32 and len(x.shape) > 1:
        draft.domains["com.microsoft"] = 1
        weight = draft.weight(out, x.shape[-1])
        return draft.apply(
            "FusedMatMul", [x.name, weight], x, shape, domain="com.microsoft", transB=1, alpha=0.5
        )
    return draft.apply("MatMul", [x.name, weight], x, shape)


def gemm(draft: Draft) -> Value | None:
    x = draft.pick(rank=2)
    if x is None or x.shape[-1] == draft.batch or not x.shape[-1] or x.dtype == np.float16:
        return None
    out, transposed = draft.random.choice(SIZES), draft.random.randrange(2)
    size = (out, x.shape[1]) if transposed else (x.shape[1], out)
    inputs = [x.name, draft.weight(*size)]
    if draft.chance(0.7):
        inputs.append(draft.weight(out) if draft.chance(0.7) else draft.weight(1, out))
    elif draft.chance(0.3):
        inputs.append("")
    attributes = {"alpha": 0.5, "beta": 2.0} if draft.chance(0.3) else {}
    if transposed or draft.chance(0.3):
        attributes["transB"] = transposed
    return draft.apply("Gemm", inputs, x, (x.shape[0], out), **attributes)


def products(draft: Draft) -> Value | None:
    """Scores of a value with itself, as attention has them."""
    x = draft.pick(rank=3)
    if x is None or 0 in x.shape or draft.open_axes(x) not in ([], [0]):
        return None
    turned = draft.apply("Transpose", [x.name], x, [x.shape[i] for i in (0, 2, 1)], perm=[0, 2, 1])
    scores = draft.apply("MatMul", [x.name, turned.name], x, (*x.shape[:2], x.shape[1]))
    weights = draft.apply("Softmax", [scores.name], scores, axis=-1)
    return draft.apply("MatMul", [weights.name, x.name], x)


def transpose(draft: Draft) -> Value | None:
    x = draft.pick(floats=False)
    if x is None or not x.shape:
        return None
    if draft.chance(0.2):
        return draft.apply("Transpose", [x.name], x, reversed(x.shape), exact=True)
    perm = draft.random.sample(range(len(x.shape)), len(x.shape))
    shape = [x.shape[i] for i in perm]
    return draft.apply("Transpose", [x.name], x, shape, exact=True, perm=perm)


def reshape(draft: Draft) -> Value | None:
    """Another form of the same elements; the batch stays first."""
    x = draft.pick(floats=False)
    if x is None or draft.open_axes(x) not in ([], [0]) or 0 in x.shape[1:]:
        return None
    first = x.shape[:1] if draft.open_axes(x) else ()
    rest = int(np.prod(x.shape[len(first) :]))
    factor = draft.random.choice([one for one in (1, 2, 4, 5) if rest % one == 0])
    tail = draft.random.choice([(rest,), (factor, rest // factor), (factor, 1, rest // factor)])
    if draft.batch in tail:
        tail = (rest,)
    if draft.batch in tail:
        return None
    wanted = [*(0 for _ in first), *tail]
    if draft.chance(0.3) and 0 not in x.shape:
        wanted[-1] = -1
    return draft.apply("Reshape", [x.name, draft.ints(*wanted)], x, (*first, *tail), exact=True)


def computed_reshape(draft: Draft) -> Value | None:
    """A Reshape to what Shape, Gather and Concat compute."""
    x = draft.pick(floats=False)
    if x is None or len(x.shape) < 2 or draft.open_axes(x) not in ([], [0]) or 0 in x.shape:
        return None
    shape, first = draft.fresh(), draft.fresh()
    wanted = draft.fresh()
    draft.node("Shape", [x.name], [shape])
    draft.node("Gather", [shape, draft.ints(0)], [first], axis=0)
    draft.node("Concat", [first, draft.ints(-1)], [wanted], axis=0)
    rest = int(np.prod(x.shape[1:]))
    if rest == draft.batch:
        return None
    return draft.apply("Reshape", [x.name, wanted], x, (x.shape[0], rest), exact=True)


def flatten(draft: Draft) -> Value | None:
    x = draft.pick()
    if x is None or len(x.shape) < 2 or draft.open_axes(x) not in ([], [0]):
        return None
    rest = int(np.prod(x.shape[1:]))
    if rest == draft.batch:
        return None
    return draft.apply("Flatten", [x.name], x, (x.shape[0], rest), exact=True)


def squeeze(draft: Draft) -> Value | None:
    x = draft.pick(floats=False)
    if x is None:
        return None
    ones = [axis for axis, dim in enumerate(x.shape) if dim == 1]
    if ones and draft.chance(0.5):
        axis = draft.random.choice(ones)
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        return draft.apply("Squeeze", [x.name, draft.ints(axis)], x, shape, exact=True)
    if len(x.shape) > 3:
        return None
    axis = draft.random.randrange(len(x.shape) + 1)
    shape = (*x.shape[:axis], 1, *x.shape[axis:])
    given = axis - len(shape) if draft.chance(0.3) else axis
    return draft.apply("Unsqueeze", [x.name, draft.ints(given)], x, shape, exact=True)


def concat(draft: Draft) -> Value | None:
    x = draft.pick()
    axes = draft.free_axes(x) if x else []
    if x is None or not axes:
        return None
    axis = draft.random.choice(axes)
    same = [one for one in draft.values if one.shape == x.shape and one.dtype == x.dtype]
    parts = [x, draft.random.choice(same)]
    shape = list(x.shape)
    shape[axis] *= 2
    if shape[axis] == draft.batch or shape[axis] > 16:
        return None
    return draft.apply("Concat", [one.name for one in parts], x, shape, axis=axis)


def split(draft: Draft) -> Value | None:
    x = draft.pick()
    axes = [axis for axis in draft.free_axes(x) if x.shape[axis] > 1] if x else []
    if x is None or not axes:
        return None
    axis = draft.random.choice(axes)
    size = x.shape[axis]
    half = size // 2
    names, inputs, attributes = [draft.fresh(), draft.fresh()], [x.name], {"axis": axis}
    parts = (size - half, half) if draft.opset >= 18 else (half, size - half)
    if draft.chance(0.6) or size % 2:
        inputs.append(draft.ints(*parts))
    elif draft.opset >= 18:
        attributes["num_outputs"] = 2
    draft.node("Split", inputs, names, **attributes)
    made = None
    for name, part in zip(names, parts, strict=True):
        shape = (*x.shape[:axis], part, *x.shape[axis + 1 :])
        if draft.batch not in (part,):
            made = draft.add(Value(name, x.dtype, shape, x.exact))
    return made


def slices(draft: Draft) -> Value | None:
    x = draft.pick(floats=False)
    axes = [axis for axis in draft.free_axes(x) if x.shape[axis] > 1] if x else []
    if x is None or not axes:
        return None
    axis = draft.random.choice(axes)
    size = x.shape[axis]
    start, end, step = draft.random.choice(
        [(0, -1, 1), (1, 1 << 40, 1), (0, size, 2), (-2, size, 1)]
    )
    if draft.chance(0.15):
        start, end, step = size, -(1 << 40), -1
    length = len(range(size)[start:end:step])
    if length == draft.batch:
        return None
    inputs = [x.name, draft.ints(start), draft.ints(end), draft.ints(axis)]
    if step != 1 or draft.chance(0.4):
        inputs.append(draft.ints(step))
    shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
    return draft.apply("Slice", inputs, x, shape, exact=True)


def gather(draft: Draft) -> Value | None:
    x = draft.pick(floats=False)
    axes = [axis for axis in draft.free_axes(x) if x.shape[axis]] if x else []
    if x is None or not axes:
        return None
    axis = draft.random.choice(axes)
    shape = draft.random.choice([(), (2,), (1, 2)])
    numbers = [
        draft.random.randrange(-x.shape[axis], x.shape[axis]) for _ in range(int(np.prod(shape)))
    ]
    indices = draft.constant(np.array(numbers, np.int64).reshape(shape))
    made = (*x.shape[:axis], *shape, *x.shape[axis + 1 :])
    return draft.apply("Gather", [x.name, indices], x, made, exact=True, axis=axis)


def softmax(draft: Draft) -> Value | None:
    x = draft.pick()
    axes = draft.free_axes(x) if x else []
    if x is None or not axes:
        return None
    axis = draft.random.choice(axes)
    given = {} if axis == len(x.shape) - 1 and draft.chance(0.5) else {"axis": axis - len(x.shape)}
    return draft.apply(
        draft.random.choice(["Softmax", "Softmax", "LogSoftmax"]), [x.name], x, **given
    )


def layer_norm(draft: Draft) -> Value | None:
    x = draft.pick()
    if x is None or draft.opset < 17 or not x.shape or x.shape[-1] in (draft.batch, 0, 1):
        return None
    inputs = [x.name, draft.weight(x.shape[-1])]
    if draft.chance(0.7):
        inputs.append(draft.weight(x.shape[-1]))
    out = draft.fresh()
    outputs = [out, "", ""] if draft.chance(0.2) else [out]
    draft.node("LayerNormalization", inputs, outputs, axis=-1, epsilon=1e-3)
    return draft.add(Value(out, x.dtype, x.shape))


def reduce(draft: Draft) -> Value | None:
    x = draft.pick()
    axes = [axis for axis in draft.free_axes(x) if x.shape[axis]] if x else []
    if x is None or not axes or x.dtype == np.float16:
        return None
    operator = draft.random.choice(
        ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2"]
    )
    axis, keep = draft.random.choice(axes), draft.random.randrange(2)
    shape = (*x.shape[:axis], *([1] if keep else []), *x.shape[axis + 1 :])
    by_input = draft.opset >= (13 if operator == "ReduceSum" else 18)
    given = {} if by_input else {"axes": [axis - len(x.shape)]}
    inputs = [x.name, draft.ints(axis)] if by_input else [x.name]
    if not keep or draft.chance(0.5):
        given["keepdims"] = keep
    return draft.apply(operator, inputs, x, shape, **given)


def chosen(draft: Draft) -> Value | None:
    """Where, by a comparison of exact numbers."""
    x = draft.pick()
    exact = [one for one in draft.values if one.exact and one.dtype == draft.dtype]
    if x is None or not exact:
        return None
    source = draft.random.choice(exact)
    if source.shape != x.shape:
        x = source
    operator = draft.random.choice(["Greater", "Less", "GreaterOrEqual"])
    zero = draft.constant(np.array(0.1, x.dtype))
    where = draft.apply(operator, [source.name, zero], source, dtype=BOOL, exact=True)
    if draft.chance(0.3):
        where = draft.apply("Not", [where.name], where, exact=True)
    other = draft.weight(*_broadcast(draft, x))
    return draft.apply("Where", [where.name, x.name, other], x)


def cast(draft: Draft) -> Value | None:
    """To another dtype and back, or for good."""
    x = draft.pick()
    if x is None:
        return None
    kind = draft.random.choice([one for one in (*FLOATS, BF16) if one != x.dtype])
    there = draft.apply("Cast", [x.name], x, dtype=kind, to=_code(kind))
    if draft.chance(0.7) or kind == BF16:
        return draft.apply("Cast", [there.name], x, dtype=x.dtype, to=_code(x.dtype))
    return there


def whole_numbers(draft: Draft) -> Value | None:
    """Integers: positions of the largest, or comparisons as numbers."""
    exact = [one for one in draft.values if one.exact and one.is_float and one.dtype != np.float16]
    if not exact:
        return None
    x = draft.random.choice(exact)
    axes = [axis for axis in draft.free_axes(x) if x.shape[axis]]
    if axes and draft.chance(0.5):
        axis = draft.random.choice(axes)
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        return draft.apply("ArgMax", [x.name], x, shape, INT64, True, axis=axis, keepdims=0)
    sign = draft.apply(
        "Greater", [x.name, draft.constant(np.array(0, x.dtype))], x, dtype=BOOL, exact=True
    )
    kind = np.dtype(draft.random.choice([np.int32, np.int64, x.dtype]))
    return draft.apply("Cast", [sign.name], x, dtype=kind, exact=True, to=_code(kind))


def whole_arithmetic(draft: Draft) -> Value | None:
    found = [one for one in draft.values if one.dtype.kind == "i"]
    if not found:
        return None
    x = draft.random.choice(found)
    operator = draft.random.choice(["Add", "Mul", "Sub"])
    return draft.apply(operator, [x.name, draft.constant(np.array(3, x.dtype))], x, exact=True)


def convolution(draft: Draft) -> Value | None:
    x = draft.pick(rank=4)
    if x is None or x.dtype != np.float32 or draft.open_axes(x) not in ([], [0]) or 0 in x.shape:
        return None
    if min(x.shape[2:]) < 2:
        return None
    out, size = draft.random.choice((2, 4, 8)), draft.random.choice((1, 2))
    inputs = [x.name, draft.weight(out, x.shape[1], size, size)]
    if draft.chance(0.6):
        inputs.append(draft.weight(out))
    pads = draft.random.choice([0, 0, 1])
    side = [dim + 2 * pads - size + 1 for dim in x.shape[2:]]
    if draft.batch in side:
        return None
    given = {"kernel_shape": [size, size]} if draft.chance(0.6) else {}
    if pads or draft.chance(0.3):
        given["pads"] = [pads] * 4
    return draft.apply("Conv", inputs, x, (x.shape[0], out, *side), **given)


def pool(draft: Draft) -> Value | None:
    x = draft.pick(rank=4)
    if x is None or x.dtype != np.float32 or draft.open_axes(x) not in ([], [0]) or 0 in x.shape:
        return None
    operator = draft.random.choice(["MaxPool", "AveragePool", "GlobalAveragePool"])
    if operator == "GlobalAveragePool":
        return draft.apply(operator, [x.name], x, (*x.shape[:2], 1, 1))
    side = [dim - 1 for dim in x.shape[2:]]
    if min(side) < 1 or draft.batch in side:
        return None
    return draft.apply(operator, [x.name], x, (*x.shape[:2], *side), kernel_shape=[2, 2])


def quantised_weight(draft: Draft) -> Value | None:
    """A MatMul with a weight of 8 bits."""
    import ml_dtypes

    x = draft.pick()
    if x is None or not x.shape or x.shape[-1] in (draft.batch, 0) or x.dtype != np.float32:
        return None
    kinds = [np.int8, np.uint8]
    if draft.opset >= 19:
        kinds += [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
    kind = np.dtype(draft.random.choice(kinds))
    out = draft.random.choice(SIZES)
    numbers = [draft.random.randrange(0, 5) for _ in range(x.shape[-1] * out)]
    weight = draft.constant(np.array(numbers).reshape(-1, out).astype(kind))
    per_channel = draft.chance(0.5)
    scale = np.full(out, 0.1, np.float32) if per_channel else np.array(0.1, np.float32)
    inputs = [weight, draft.constant(scale)]
    if draft.chance(0.5):
        inputs.append(draft.constant(np.zeros(scale.shape, kind)))
    found = draft.fresh()
    draft.node("DequantizeLinear", inputs, [found], **({"axis": 1} if per_channel else {}))
    return draft.apply("MatMul", [x.name, found], x, (*x.shape[:-1], out))


def spread(draft: Draft) -> Value | None:
    """Expand, Tile or Pad, along dimensions that are known."""
    x = draft.pick()
    axes = [axis for axis in draft.free_axes(x) if x.shape[axis] in (1, 2, 4)] if x else []
    if x is None or not axes:
        return None
    axis = draft.random.choice(axes)
    shape = list(x.shape)
    if shape[axis] == 1:
        shape[axis] = 4
        wanted = [dim if dim == 4 and i == axis else 1 for i, dim in enumerate(shape)]
        return draft.apply("Expand", [x.name, draft.ints(*wanted)], x, shape, exact=True)
    if draft.chance(0.5):
        repeats = [2 if i == axis else 1 for i in range(len(shape))]
        shape[axis] *= 2
        return draft.apply("Tile", [x.name, draft.ints(*repeats)], x, shape, exact=True)
    ends = [0] * (2 * len(shape))
    ends[axis], ends[len(shape) + axis] = 1, 1
    shape[axis] += 2
    inputs = [x.name, draft.ints(*ends)]
    if draft.chance(0.5):
        inputs.append(draft.constant(np.array(0.5, x.dtype)))
    return draft.apply("Pad", inputs, x, shape, exact=True)


def _code(kind: np.dtype) -> int:
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(kind))


OPERATORS: tuple[Operator, ...] = (
    *(unary, unary, leaky, leaky, clip, positive, binary, binary, binary, matmul, matmul, matmul),
    *(gemm, gemm, products, transpose, reshape, reshape, computed_reshape, flatten, squeeze),
    *(concat, split, slices, gather, softmax, layer_norm, reduce, chosen, cast, whole_numbers),
    *(whole_arithmetic, convolution, pool, quantised_weight, spread),
)
