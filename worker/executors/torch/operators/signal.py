"""Signals: Fourier transforms, and windows and filters for them."""

from __future__ import annotations

from math import log, pi
from typing import Any

import torch

from ..operator_node import TorchNode
from ..registry import Compute, computes, integers


def _complex(x: torch.Tensor) -> torch.Tensor:
    """Numbers whose last axis has a real part, and maybe an imaginary one."""
    return x[..., 0] if x.shape[-1] == 1 else torch.view_as_complex(x.contiguous())


@computes("DFT", sizes=(1, 2))
def dft(node: TorchNode) -> Compute:
    """Discrete Fourier transform or its inverse; one-sided where the signal is real."""
    inverse, onesided = bool(node.integer("inverse")), bool(node.integer("onesided"))

    def run(x: torch.Tensor, length: Any = None, axes: Any = None) -> torch.Tensor:
        default = node.integer("axis", 1 if node.opset < 20 else -2)
        axis = (default if axes is None else integers(axes)[0]) % x.dim()
        count = None if length is None else integers(length)[0]
        signal = _complex(x)
        if inverse and onesided:
            made = torch.fft.irfft(signal, count, axis)
            return made.unsqueeze(-1).to(x.dtype)
        if inverse:
            return torch.view_as_real(torch.fft.ifft(signal, count, axis)).to(x.dtype)
        if onesided and not signal.is_complex():
            return torch.view_as_real(torch.fft.rfft(signal, count, axis)).to(x.dtype)
        made = torch.fft.fft(signal, count, axis)
        if onesided:
            made = made.narrow(axis, 0, made.shape[axis] // 2 + 1)
        return torch.view_as_real(made).to(x.dtype)

    return run


@computes("STFT", sizes=(1, 3))
def stft(node: TorchNode) -> Compute:
    """Fourier transforms of frames of a signal."""
    onesided = bool(node.integer("onesided", 1))

    def run(x: torch.Tensor, step: Any, window: Any = None, length: Any = None) -> torch.Tensor:
        signal = _complex(x)
        count = signal.shape[-1] if window is None else window.shape[0]
        count = count if length is None else integers(length)[0]
        frames = signal.unfold(-1, count, integers(step)[0])
        frames = frames if window is None else frames * window
        made = torch.fft.fft(frames, dim=-1)
        made = made[..., : count // 2 + 1] if onesided else made
        return torch.view_as_real(made).to(x.dtype)

    return run


def _window(node: TorchNode, *weights: float) -> Compute:
    """A sum of cosines over a period, or over a period and its first element again."""
    dtype, periodic = node.dtype("output_datatype", 1), bool(node.integer("periodic", 1))

    def run(size: Any) -> torch.Tensor:
        count = integers(size)[0]
        angles = torch.arange(count, dtype=torch.float64, device=node.device)
        angles = angles * (2 * pi / max(count if periodic else count - 1, 1))
        made = torch.zeros_like(angles)
        for at, weight in enumerate(weights):
            made = made + weight * torch.cos(at * angles)
        return made.to(dtype)

    return run


@computes("HannWindow", sizes=(0,))
def hann_window(node: TorchNode) -> Compute:
    """Hann's window."""
    return _window(node, 0.5, -0.5)


@computes("HammingWindow", sizes=(0,))
def hamming_window(node: TorchNode) -> Compute:
    """Hamming's window."""
    return _window(node, 25 / 46, -21 / 46)


@computes("BlackmanWindow", sizes=(0,))
def blackman_window(node: TorchNode) -> Compute:
    """Blackman's window."""
    return _window(node, 0.42, -0.5, 0.08)


@computes("MelWeightMatrix", sizes=(0, 1))
def mel_weight_matrix(node: TorchNode) -> Compute:
    """Triangular filters of the mel scale, a column for each."""
    dtype = node.dtype("output_datatype", 1)

    def run(bins: Any, length: Any, rate: Any, low: Any, high: Any) -> torch.Tensor:
        count, size = integers(bins)[0], integers(length)[0]
        ends = [2595 * log(1 + float(end) / 700) / log(10) for end in (low, high)]
        steps = torch.arange(count + 2, dtype=torch.float64)
        mels = steps * ((ends[1] - ends[0]) / (count + 2)) + ends[0]
        hertz = 700 * torch.expm1(mels / 2595 * log(10))
        edges = torch.floor((size + 1) * hertz / float(rate)).tolist()
        made = torch.zeros(size // 2 + 1, count, dtype=torch.float64)
        for at in range(count):
            _triangle(made[:, at], *map(int, edges[at : at + 3]))
        return made.to(dtype).to(node.device)

    return run


def _triangle(column: torch.Tensor, start: int, top: int, end: int) -> None:
    """Fill a column: it rises from start to top, and falls to end."""
    if top == start:
        column[top] = 1
    for row in range(start, top + 1 if top > start else start):
        column[row] = (row - start) / (top - start)
    for row in range(top, end):
        column[row] = (end - row) / (end - top)
