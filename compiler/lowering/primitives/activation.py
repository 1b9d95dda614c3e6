"""Activations: the nonlinear functions of networks, as operators that onnxruntime fuses."""

from __future__ import annotations

from ...element_types.dtypes import is_float
from ..builder import (
    FLOAT32,
    Builder,
    Value,
    dtype_of,
    filled_like,
    floating,
    integer,
    integers,
    lowers,
    lowers_each,
    number,
    where,
)

_PLAIN = {
    "HSwish": "HardSwish",
    "Softsign": "Softsign",
    "Mish": "Mish",
    "MishExt": "Mish",
    "Softplus": "Softplus",
}


@lowers_each("op_type", _PLAIN)
def plain(b: Builder, input: Value, *, op_type: str) -> Value:
    """The ONNX operator of that name."""
    return b.op(op_type, b.tensor(input))


@lowers("ReLU", "ReLUV3")
def relu(b: Builder, input: Value) -> Value:
    """max(input, 0), of integers too."""
    x = b.tensor(input)
    return b.op("Relu", x) if is_float(x.dtype) else b.op("Max", x, 0)


@lowers("ReLU6", "Hardtanh")
def relu6(b: Builder, x: Value, min_val: Value = 0.0, max_val: Value = 6.0) -> Value:
    """x held between 0 and 6, or the bounds of Hardtanh."""
    x = b.tensor(x)
    bounds = [b.tensor(number(bound, "a bound"), x.dtype) for bound in (min_val, max_val)]
    return b.op("Clip", x, *bounds)


@lowers("GeLU", "Gelu")
def gelu_tanh(b: Builder, input: Value) -> Value:
    """GELU in its tanh form."""
    return b.op("Gelu", b.tensor(input), approximate="tanh")


@lowers("GeluExt", "NpuGelu")
def gelu(b: Builder, input: Value, approximate: Value = 0) -> Value:
    """GELU, exact (0) or in its tanh form (1)."""
    tanh = approximate == "tanh" or approximate == 1
    return b.op("Gelu", b.tensor(input), approximate="tanh" if tanh else "none")


@lowers("FastGeLU", "FastGelu")
def fast_gelu(b: Builder, input: Value) -> Value:
    """input * sigmoid(1.702 * input), which onnxruntime fuses."""
    x = b.tensor(input)
    return b.op("Mul", x, b.op("Sigmoid", b.op("Mul", x, 1.702)))


@lowers("SiLU")
def silu(b: Builder, input: Value) -> Value:
    """input * sigmoid(input), which onnxruntime fuses."""
    x = b.tensor(input)
    return b.op("Mul", x, b.op("Sigmoid", x))


@lowers("GLU")
def glu(b: Builder, x: Value, *, axis: int = -1) -> Value:
    """The first half times the sigmoid of the second."""
    left, right = b.ops("Split", b.tensor(x), outputs=2, axis=axis, num_outputs=2)
    return b.op("Mul", left, b.op("Sigmoid", right))


@lowers("Swiglu")
def swiglu(b: Builder, input: Value, dim: Value = -1) -> Value:
    """silu of the first half, times the second."""
    axis = integer(dim, "dim")
    left, right = b.ops("Split", b.tensor(input), outputs=2, axis=axis, num_outputs=2)
    return b.op("Mul", silu(b, left), right)


@lowers("HSigmoid")
def hard_sigmoid(b: Builder, input: Value) -> Value:
    """input / 6 + 0.5, held between 0 and 1."""
    return b.op("HardSigmoid", b.tensor(input), alpha=1 / 6, beta=0.5)


@lowers("HShrink")
def hard_shrink(b: Builder, input: Value, lambd: Value = 0.5) -> Value:
    """0 between -lambd and lambd."""
    return b.op("Shrink", b.tensor(input), lambd=number(lambd, "lambd"), bias=0.0)


@lowers("SoftShrink")
def soft_shrink(b: Builder, input: Value, lambd: Value = 0.5) -> Value:
    """0 between -lambd and lambd, moved towards 0 outside."""
    bound = number(lambd, "lambd")
    return b.op("Shrink", b.tensor(input), lambd=bound, bias=bound)


@lowers("Elu", "EluExt")
def elu(b: Builder, input: Value, alpha: Value = 1.0) -> Value:
    """input where positive, else alpha * (exp(input) - 1)."""
    return b.op("Elu", b.tensor(input), alpha=number(alpha, "alpha"))


@lowers("SeLU", "SeLUExt")
def selu(b: Builder, input: Value) -> Value:
    """SELU; of integers Elu, as MindSpore cuts SELU's constants to 1 there."""
    x = b.tensor(input)
    if is_float(x.dtype):
        return b.op("Selu", x)
    return b.cast(b.op("Elu", b.cast(x, FLOAT32), alpha=1.0), x.dtype)


@lowers("CeLU")
def celu(b: Builder, x: Value, alpha: Value = 1.0) -> Value:
    """alpha * elu(x / alpha); onnxruntime's Celu has no float16."""
    x, scale = b.tensor(x), number(alpha, "alpha")
    if scale == 1:
        return b.op("Elu", x, alpha=1.0)
    return b.op("Mul", b.op("Elu", b.op("Div", x, scale), alpha=1.0), scale)


@lowers("LeakyReLUExt")
def leaky_relu(b: Builder, input: Value, negative_slope: Value = 0.01) -> Value:
    """input, times the slope where negative."""
    return b.op("LeakyRelu", b.tensor(input), alpha=number(negative_slope, "negative_slope"))


@lowers("PReLU")
def prelu(b: Builder, input: Value, weight: Value) -> Value:
    """input, times a slope per channel (axis 1) where negative."""
    x = b.tensor(input)
    slope = b.cast(b.tensor(weight), x.dtype)
    if x.rank > 2 and slope.shape != (1,):
        slope = b.op("Reshape", slope, (-1,) + (1,) * (x.rank - 2))
    return b.op("PRelu", x, slope)


@lowers("LogSigmoid")
def log_sigmoid(b: Builder, input: Value) -> Value:
    """(-softplus(-input), a buffer that only training reads)."""
    return b.op("Neg", b.op("Softplus", b.op("Neg", b.tensor(input)))), None


@lowers("Logit")
def logit(b: Builder, input: Value, eps: Value = -1.0) -> Value:
    """log(input / (1 - input)), of input held between eps and 1 - eps where eps is not negative."""
    x, bound = b.tensor(input), number(eps, "eps")
    if bound >= 0:
        x = b.op("Clip", x, b.tensor(bound, x.dtype), b.tensor(1 - bound, x.dtype))
    return b.op("Log", b.op("Div", x, b.op("Sub", b.tensor(1.0, x.dtype), x)))


@lowers("Threshold")
def threshold(b: Builder, input: Value, threshold: Value, value: Value) -> Value:
    """input where above a threshold, else a value."""
    x = b.tensor(input)
    above = b.op("Greater", x, b.tensor(number(threshold, "the threshold"), x.dtype))
    return where(b, above, x, number(value, "the value"), x.dtype)


@lowers("SoftplusExt")
def softplus(b: Builder, input: Value, beta: Value = 1, threshold: Value = 20) -> Value:
    """log(1 + exp(beta * input)) / beta, and input itself beyond the threshold."""
    x, scale = b.tensor(input), float(number(beta, "beta"))
    scaled = b.op("Mul", x, scale)
    linear = b.op("Greater", scaled, float(number(threshold, "threshold")))
    return where(b, linear, x, b.op("Div", b.op("Softplus", scaled), scale), x.dtype)


@lowers("Softmax", op_type="Softmax")
@lowers("LogSoftmax", op_type="LogSoftmax")
def softmax(b: Builder, input: Value, axis: Value = -1, *, op_type: str) -> Value:
    """Softmax or its logarithm along one axis."""
    axes = integers(axis, "the axis")
    if len(axes) != 1:
        raise ValueError(f"Softmax along the axes {list(axes)} at once is not supported")
    return b.op(op_type, floating(b, input), axis=axes[0])


@lowers("LogSoftmaxExt")
def log_softmax(b: Builder, input: Value, dim: Value = -1, dtype: Value = None) -> Value:
    """LogSoftmax along dim, in another dtype if asked."""
    x = b.tensor(input)
    x = b.cast(x, dtype_of(dtype, x.dtype))
    return b.op("LogSoftmax", x, axis=-1 if dim is None else integer(dim, "dim"))


@lowers("Dropout")
def dropout(
    b: Builder, x: Value, keep_prob: Value = 0.5, seed0: Value = 0, seed1: Value = 0
) -> Value:
    """(x, ones) where everything is kept."""
    if number(keep_prob, "keep_prob") != 1:
        raise ValueError(
            "it draws random numbers: export the network for evaluation (set_train(False))"
        )
    tensor = b.tensor(x)
    return tensor, filled_like(b, 1, tensor, tensor.dtype)
