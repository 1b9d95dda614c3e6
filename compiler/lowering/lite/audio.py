"""Audio in .ms files: spectrograms and their cepstral coefficients, as TensorFlow has them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...element_types.dtypes import FLOAT32
from ..builder import Builder, Value, integer, known, lowers, moderate

_MOST = 1 << 24  # elements of the constant matrix of a transform
_FLOOR = 1e-12  # the least energy of which a logarithm is taken


@lowers("Lite.AudioSpectrogram")
def spectrogram(b: Builder, x: Value, *, window_size: int, stride: int, mag_square: bool) -> Value:
    """TensorFlow's AudioSpectrogram: of samples [time, channels] the magnitudes [channels, frames,
    frequencies] of frames under a Hann window, filled up to a power of two.
    """
    if window_size < 2 or stride < 1:
        raise ValueError(
            f"a window of {window_size} samples every {stride}, expected 2 or more, every 1 or more"
        )
    bins = (1 << (window_size - 1).bit_length()) // 2 + 1
    moderate(2 * bins * window_size, "the elements of the transform", _MOST)
    channels = b.op("Unsqueeze", b.op("Transpose", b.tensor(x), perm=[1, 0]), (1,))
    parts = b.op("Conv", channels, _waves(window_size, bins), strides=[stride])
    square = b.op("Reshape", b.op("Mul", parts, parts), (0, 2, bins, -1))
    energy = b.op("ReduceSum", square, (1,), keepdims=0)
    y = b.op("Transpose", energy, perm=[0, 2, 1])
    return y if mag_square else b.op("Sqrt", y)


def _waves(size: int, bins: int) -> NDArray[np.float32]:
    """[2 x bins, 1, size]: the cosine and the sine of each frequency, under the window."""
    time = np.arange(size)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * time / size)
    angle = np.pi * (np.outer(np.arange(bins), time) % (2 * bins - 2)) / (bins - 1)
    waves = np.concatenate([np.cos(angle), np.sin(angle)]) * window
    return waves.astype(np.float32)[:, None, :]


@lowers("Lite.Mfcc")
def mfcc(
    b: Builder,
    x: Value,
    rate: Value,
    *,
    freq_upper_limit: float,
    freq_lower_limit: float,
    filter_bank_channel_num: int,
    dct_coeff_num: int,
) -> Value:
    """TensorFlow's Mfcc: of squared magnitudes [channels, frames, frequencies] the cosine transform
    of the logarithm of their energies in triangles that lie evenly on the mel scale.
    """
    spectrum = b.tensor(x)
    bins, filters = known(spectrum, 2), filter_bank_channel_num
    moderate(bins * filters, "the elements of the filters", _MOST)
    if bins < 2 or not 1 <= dct_coeff_num <= filters:
        raise ValueError(
            f"{bins} frequencies, {filters} filters and {dct_coeff_num} coefficients: expected 2 "
            "frequencies or more, and at most as many coefficients as filters"
        )
    highest = 0.5 * integer(rate, "the sample rate")
    if not 0 <= freq_lower_limit < freq_upper_limit <= highest:
        raise ValueError(
            f"frequencies of {freq_lower_limit} to {freq_upper_limit} Hz are filtered, expected "
            f"some of 0 to {highest} Hz, half of the sample rate"
        )
    steps = np.arange(bins) * (highest / (bins - 1))
    triangles = _triangles(steps, filters, freq_lower_limit, freq_upper_limit)
    energy = b.op("MatMul", b.op("Sqrt", spectrum), triangles)
    logarithm = b.op("Log", b.op("Max", energy, b.tensor(_FLOOR, FLOAT32)))
    turns = np.outer(np.arange(filters) + 0.5, np.arange(dct_coeff_num)) * np.pi / filters
    waves = np.sqrt(2 / filters) * np.cos(turns)
    return b.op("MatMul", logarithm, waves.astype(np.float32))


def _triangles(hertz: NDArray[Any], filters: int, low: float, high: float) -> NDArray[np.float32]:
    """[frequencies, filters]: the weight of each frequency, in Hz, in each triangle."""
    corners = np.linspace(_mel(low), _mel(high), filters + 2)
    mels = _mel(hertz)[:, None]
    rising = (mels - corners[:-2]) / np.diff(corners)[:-1]
    falling = (corners[2:] - mels) / np.diff(corners)[1:]
    weights = np.minimum(rising, falling).clip(0)
    weights[: int(1.5 + low / hertz[1])] = 0
    weights[int(high / hertz[1]) + 1 :] = 0
    return weights.astype(np.float32)


def _mel(hertz: NDArray[Any] | float) -> NDArray[np.float64]:
    return 1127 * np.log1p(np.asarray(hertz, np.float64) / 700)
