"""Complex numbers: pairs of tensors, as onnxruntime has no complex dtypes."""

from __future__ import annotations

import numpy as np

from ..builder import Builder, ComplexPair, OnnxTensor, Value, lowers


@lowers("Complex")
def pair(b: Builder, real: Value, imag: Value) -> Value:
    """real + i * imag."""
    return ComplexPair(b.tensor(real), b.tensor(imag))


@lowers("Polar")
def polar(b: Builder, abs: Value, angle: Value) -> Value:
    """abs * (cos(angle) + i * sin(angle))."""
    size, turn = b.tensor(abs), b.tensor(angle)
    return ComplexPair(b.op("Mul", size, b.op("Cos", turn)), b.op("Mul", size, b.op("Sin", turn)))


def _pair(value: Value) -> ComplexPair:
    if not isinstance(value, ComplexPair):
        raise ValueError(
            "complex numbers from outside the model are not supported: give the real and the "
            "imaginary part as two tensors and join them with Complex"
        )
    return value


@lowers("Real")
def real(b: Builder, input: Value) -> Value:
    """The real part; of real numbers, these."""
    return input if isinstance(input, OnnxTensor) and input.dtype.kind != "c" else _pair(input).real


@lowers("Imag")
def imag(b: Builder, input: Value) -> Value:
    """The imaginary part."""
    return _pair(input).imag


@lowers("Conj")
def conjugate(b: Builder, input: Value) -> Value:
    """The imaginary part negated; real numbers as they are."""
    if isinstance(input, OnnxTensor) and input.dtype.kind != "c":
        return input
    value = _pair(input)
    return ComplexPair(value.real, b.op("Neg", value.imag))


@lowers("ComplexAbs")
def absolute(b: Builder, x: Value) -> Value:
    """The square root of the sum of both squares."""
    value = _pair(x)
    squares = [b.op("Mul", part, part) for part in (value.real, value.imag)]
    return b.op("Sqrt", b.op("Add", *squares))


def _parts(b: Builder, value: Value) -> tuple[OnnxTensor, OnnxTensor]:
    """Both parts; of real numbers, 0 as the imaginary one."""
    if isinstance(value, ComplexPair):
        return value.real, value.imag
    real = b.tensor(value)
    return real, b.tensor(np.zeros((), real.dtype))


def product(b: Builder, x: Value, y: Value) -> ComplexPair:
    """x * y."""
    (a, c), (d, e) = _parts(b, x), _parts(b, y)
    return ComplexPair(
        b.op("Sub", b.op("Mul", a, d), b.op("Mul", c, e)),
        b.op("Add", b.op("Mul", a, e), b.op("Mul", c, d)),
    )


def total(b: Builder, op_type: str, x: Value, y: Value) -> ComplexPair:
    """x + y or x - y, by the ONNX operator's name."""
    return ComplexPair(
        *(b.op(op_type, *pair) for pair in zip(_parts(b, x), _parts(b, y), strict=True))
    )
