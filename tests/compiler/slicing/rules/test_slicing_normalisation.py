"""Every strategy of softmax, normalisation and running sums gives the whole result."""

from __future__ import annotations

import numpy as np
import pytest
from slicing import check_strategies, one_node

DRAW = np.random.default_rng(16)


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [0, -1])
def test_softmax(operator: str, axis: int) -> None:
    check_strategies(*one_node(operator, [normal(4, 5, 6)], axis=axis), least=2)


@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("outputs", [1, 3])
def test_layer_normalization(axis: int, outputs: int) -> None:
    shape = (5, 6) if axis == 1 else (6,)
    inputs = [normal(4, 5, 6), normal(*shape), normal(*shape)]
    model = one_node("LayerNormalization", inputs, (1, 2), outputs=outputs, axis=axis)
    check_strategies(*model, least=1)


def test_normalization_by_root_mean_square() -> None:
    check_strategies(*one_node("RMSNormalization", [normal(4, 5, 6), normal(6)], opset=23), least=2)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("axis", [1, -1])
def test_running_sum(exclusive: int, axis: int) -> None:
    inputs = [normal(4, 5, 6), np.array(axis, np.int64)]
    model = one_node("CumSum", inputs, (1,), exclusive=exclusive, reverse=1)
    check_strategies(*model, least=2)


@pytest.mark.parametrize("axis", [1, -1])
def test_largest_elements(axis: int) -> None:
    model = one_node("TopK", [normal(4, 5, 6), integers(3)], (1,), outputs=2, axis=axis)
    check_strategies(*model, least=2)


def test_norms() -> None:
    check_strategies(*one_node("LpNormalization", [normal(4, 5, 6)], axis=1, p=2), least=2)
    check_strategies(*one_node("LRN", [normal(4, 6, 5, 3)], size=3), least=2)
    check_strategies(*one_node("MeanVarianceNormalization", [normal(4, 6, 5, 3)]), least=1)


def test_batch_normalization() -> None:
    inputs = [normal(4, 6, 5), *(np.abs(normal(6)) for _ in range(4))]
    check_strategies(*one_node("BatchNormalization", inputs, (1, 2, 3, 4)), least=3)


def test_batch_normalization_in_training_mode_by_channel() -> None:
    inputs = [normal(4, 6, 5), *(np.abs(normal(6)) for _ in range(4))]
    model = one_node("BatchNormalization", inputs, (1, 2, 3, 4), outputs=3, training_mode=1)
    check_strategies(*model, ranks=(2, 3), least=1)


def test_instance_normalization() -> None:
    inputs = [normal(4, 6, 5), normal(6), normal(6)]
    check_strategies(*one_node("InstanceNormalization", inputs, (1, 2)), least=2)


@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("groups", [4, 2, 1])
def test_group_normalization(opset: int, groups: int) -> None:
    each = 8 if opset == 21 else groups
    inputs = [normal(4, 8, 5), normal(each), normal(each)]
    model = one_node("GroupNormalization", inputs, (1, 2), opset=opset, num_groups=groups)
    check_strategies(*model, ranks=(2, 3), least=1 if groups < 3 else 2)


def test_fourier_transform() -> None:
    inputs = [normal(4, 8, 5, 1), None, np.array(1, np.int64)]
    check_strategies(*one_node("DFT", inputs, (2,), opset=20), least=2)


@pytest.mark.parametrize("axis", [1, 2])
def test_fourier_transform_whose_axis_is_an_attribute(axis: int) -> None:
    model = one_node("DFT", [normal(4, 8, 6, 1)], opset=17, axis=axis)
    check_strategies(*model, ranks=(2, 3), least=2)


@pytest.mark.parametrize("opset", [17, 20])
def test_fourier_transform_along_the_axis_of_its_opset(opset: int) -> None:
    check_strategies(*one_node("DFT", [normal(4, 8, 6, 1)], opset=opset), ranks=(2, 3))
