"""Spectra of audio in .ms files, as TensorFlow defines them, and random numbers, against numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lite_models import ran

from rankmesh.comm.errors import ModelError

F32 = np.float32
R = np.random.default_rng(11)
FILTERS = {"freq_lower_limit": 20.0, "filter_bank_channel_num": 20, "dct_coeff_num": 13}
ENERGY = R.uniform(0, 4, (2, 3, 65)).astype(F32)


@pytest.mark.parametrize("squared", [False, True])
def test_a_spectrogram_is_of_frames_under_a_hann_window(tmp_path: Path, squared: bool) -> None:
    size, stride, filled = 12, 5, 16
    x = R.normal(size=(50, 2)).astype(F32)
    attributes = {"window_size": size, "stride": stride, "mag_square": squared}
    (result,) = ran(tmp_path, "AudioSpectrogram", [x], (), attributes)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    starts = range(0, len(x) - size + 1, stride)
    frames = np.stack([x[at : at + size].T * window for at in starts], axis=1)
    expected = np.abs(np.fft.rfft(frames, filled)) ** (2 if squared else 1)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def filtered(energy: np.ndarray, rate: int, low: float, high: float, count: int) -> np.ndarray:
    """The filters of TensorFlow's mfcc_mel_filterbank.cc, one frequency after another."""

    def mel(hertz: float) -> float:
        return 1127 * np.log1p(hertz / 700)

    step = 0.5 * rate / (energy.shape[-1] - 1)
    space = (mel(high) - mel(low)) / (count + 1)
    centers = [mel(low) + space * (at + 1) for at in range(count + 1)]
    found = np.zeros((*energy.shape[:-1], count))
    channel = 0
    for at in range(int(1.5 + low / step), int(high / step) + 1):
        while channel < count and centers[channel] < mel(at * step):
            channel += 1
        before = centers[channel - 1] if channel else mel(low)
        part = (centers[channel] - mel(at * step)) / (centers[channel] - before)
        value = np.sqrt(energy[..., at])
        if channel:
            found[..., channel - 1] += value * part
        if channel < count:
            found[..., channel] += value * (1 - part)
    return found


@pytest.mark.parametrize("high", [4000.0, 8000.0])
def test_coefficients_are_of_the_logarithm_of_filters(tmp_path: Path, high: float) -> None:
    attributes = {**FILTERS, "freq_upper_limit": high}
    (result,) = ran(tmp_path, "Mfcc", [ENERGY], [np.asarray(16000, np.int32)], attributes)
    logs = np.log(np.maximum(filtered(ENERGY, 16000, 20, high, 20), 1e-12))
    turns = np.outer(np.arange(13), np.arange(20) + 0.5) * np.pi / 20
    expected = logs @ (np.sqrt(2 / 20) * np.cos(turns)).T
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_frequencies_above_half_of_the_rate_are_refused(tmp_path: Path) -> None:
    attributes = {**FILTERS, "freq_upper_limit": 4001.0}
    with pytest.raises(ModelError, match=r"20\.0 to 4001\.0 Hz are filtered.*0 to 4000\.0 Hz"):
        ran(tmp_path, "Mfcc", [ENERGY], [np.asarray(8000, np.int32)], attributes)


@pytest.mark.parametrize(
    ("primitive", "attributes", "mean", "deviation"),
    [
        ("RandomNormal", {"mean": 3.0, "scale": 0.1, "seed": 1.0}, 3, 0.1),
        ("RandomStandardNormal", {"seed": 3}, 0, 1),
        ("UniformReal", {"seed": 2}, 0.5, 12**-0.5),
    ],
)
def test_random_numbers_have_their_distribution(
    tmp_path: Path, primitive: str, attributes: dict, mean: float, deviation: float
) -> None:
    (result,) = ran(tmp_path, primitive, [], [np.asarray([100, 200], np.int32)], attributes)
    assert result.shape == (100, 200)
    assert abs(result.mean() - mean) < 0.05 * deviation
    assert abs(result.std() / deviation - 1) < 0.05
