"""Spectra in .ms files: the Fourier transform of real signals, and its parts."""

from __future__ import annotations

from ...element_types.value_types import TensorType
from ..builder import Builder, ComplexPair, Value, lowers


@lowers("Lite.Rfft")
def rfft(b: Builder, x: Value, *, fft_length: int) -> Value:
    """The one-sided transform of the last axis, of fft_length elements."""
    tensor = b.tensor(x)
    rank = tensor.rank
    last = b.op("Unsqueeze", tensor, (-1,))
    found = b.op("DFT", last, fft_length or None, rank - 1, onesided=1)
    kind = TensorType(tensor.dtype, None)
    parts = (b.op("Gather", found, at, axis=-1, type=kind) for at in (b.tensor(0), b.tensor(1)))
    return ComplexPair(*parts)


@lowers("Lite.FftReal", imaginary=False)
@lowers("Lite.FftImag", imaginary=True)
def part(b: Builder, x: Value, *, imaginary: bool) -> Value:
    """The real or the imaginary part of a spectrum."""
    if not isinstance(x, ComplexPair):
        raise ValueError("its input is not a spectrum")
    return x.imag if imaginary else x.real
