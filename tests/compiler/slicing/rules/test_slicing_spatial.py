"""Every strategy of convolutions, pooling and resizing gives what the whole node gives."""

from __future__ import annotations

import numpy as np
import pytest
from slicing import check_strategies, graph_of, one_node

from rankmesh.compiler.slicing.emission.localise import local_model
from rankmesh.compiler.slicing.placement.operator_node import Strategy
from rankmesh.compiler.slicing.placement.placements import SUM, WHOLE, even_split
from rankmesh.compiler.slicing.planning.needed_conversions import with_conversions

DRAW = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return DRAW.standard_normal(shape).astype(np.float32)


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("channels", "out", "groups"),
    [(6, 5, 1), (6, 12, 6), (6, 6, 6), (8, 4, 4), (6, 12, 3), (10, 15, 5)],
)
def test_conv(channels: int, out: int, groups: int, bias: bool) -> None:
    inputs = [normal(4, channels, 5, 5), normal(out, channels // groups, 3, 3)]
    inputs += [normal(out)] if bias else []
    model = one_node("Conv", inputs, (1, 2), group=groups, pads=[1, 1, 1, 1], strides=[2, 1])
    check_strategies(*model, least=1 if groups == 3 else 2)


def test_a_conv_that_adds_no_bias_has_no_third_input() -> None:
    """With an empty one, onnxruntime does not convolve in its own layout, and is slower."""
    model, _ = one_node("Conv", [normal(1, 4, 5, 5), normal(3, 4, 1, 1), normal(3)], (1, 2))
    graph, part = graph_of(model), even_split(1, 4, 2)
    assert part is not None
    plan = with_conversions(graph, {"node": Strategy((part, part, WHOLE), (SUM,))}, 2)
    inputs = [
        len(one.inputs)
        for rank in range(2)
        for one in local_model(graph, plan, rank).graph
        if one.op_type == "Conv"
    ]
    assert inputs == [3, 2]


@pytest.mark.parametrize("bias", [True, False])
def test_ranks_share_a_group_of_a_conv(bias: bool) -> None:
    inputs = [normal(1, 6, 5, 5), normal(16, 3, 3, 3), *([normal(16)] if bias else [])]
    model = one_node("Conv", inputs, (1, 2), group=2, pads=[1, 1, 1, 1])
    check_strategies(*model, ranks=(4, 8), least=1)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("groups", [2, 4])
def test_ranks_have_parts_of_several_groups_of_a_conv(groups: int, bias: bool) -> None:
    """Of 2 groups on 3 ranks, the second one has the end of one and the beginning of the other."""
    inputs = [normal(1, 8, 5, 5), normal(28, 8 // groups, 3, 3), *([normal(28)] if bias else [])]
    model = one_node("Conv", inputs, (1, 2), group=groups, pads=[1, 1, 1, 1], strides=[2, 1])
    check_strategies(*model, ranks=(3, 5), least=1)


def test_conv_of_one_axis_with_open_batch() -> None:
    model = one_node("Conv", [normal(2, 6, 9), normal(4, 6, 3)], (1,), open_axes={0: (0, 2)})
    check_strategies(*model, least=2)


@pytest.mark.parametrize(("out", "groups"), [(5, 1), (2, 6), (2, 3)])
def test_conv_transpose(out: int, groups: int) -> None:
    inputs = [normal(4, 6, 4, 4), normal(6, out, 3, 3), normal(out * groups)]
    model = one_node("ConvTranspose", inputs, (1, 2), group=groups, strides=[2, 2])
    check_strategies(*model, ranks=(2, 3), least=2)


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
def test_pooling(operator: str) -> None:
    check_strategies(*one_node(operator, [normal(4, 5, 6, 6)], kernel_shape=[2, 3]), least=2)


def test_max_pool_with_indices_is_whole() -> None:
    model = one_node("MaxPool", [normal(4, 5, 6, 6)], outputs=2, kernel_shape=[2, 2])
    check_strategies(*model, least=0)


@pytest.mark.parametrize("operator", ["GlobalAveragePool", "GlobalMaxPool"])
def test_global_pooling(operator: str) -> None:
    check_strategies(*one_node(operator, [normal(4, 5, 6, 7)]), least=4)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize_by_scales(mode: str) -> None:
    scales = np.array([1, 1, 2, 1.5], np.float32)
    model = one_node("Resize", [normal(4, 5, 6, 6), None, scales], (2,), mode=mode)
    check_strategies(*model, least=2)


@pytest.mark.parametrize(
    ("place", "rounding", "least"),
    [
        ("asymmetric", "floor", 4),
        ("asymmetric", "round_prefer_floor", 2),
        ("half_pixel", "round_prefer_ceil", 4),
        ("align_corners", "floor", 2),
    ],
)
def test_resize_that_repeats_elements(place: str, rounding: str, least: int) -> None:
    scales = np.array([1, 1, 3, 2], np.float32)
    more = {"coordinate_transformation_mode": place, "nearest_mode": rounding}
    model = one_node("Resize", [normal(4, 5, 6, 7), None, scales], (2,), **more)
    check_strategies(*model, least=least)


def test_resize_to_sizes() -> None:
    inputs = [normal(4, 5, 6, 6), None, None, integers(4, 5, 9, 6)]
    check_strategies(*one_node("Resize", inputs, (3,)), least=3)


def test_resize_of_some_axes() -> None:
    inputs = [normal(4, 5, 6, 6), None, None, integers(6, 9)]
    check_strategies(*one_node("Resize", inputs, (3,), axes=[2, 3]), least=3)


def test_grid_sample() -> None:
    grid = DRAW.uniform(-1, 1, (4, 6, 5, 2)).astype(np.float32)
    check_strategies(*one_node("GridSample", [normal(4, 5, 6, 6), grid]), least=4)


def test_regions() -> None:
    boxes = np.sort(DRAW.uniform(0, 6, (5, 2, 2)), axis=1).reshape(5, 4).astype(np.float32)
    inputs = [normal(2, 6, 8, 8), boxes, integers(0, 1, 0, 1, 1)]
    model = one_node("RoiAlign", inputs, output_height=3, output_width=2)
    check_strategies(*model, least=2)


def test_blocks_to_image() -> None:
    inputs = [normal(4, 5 * 6, 8), integers(5, 5), integers(2, 3)]
    model = one_node("Col2Im", inputs, (1, 2), dilations=[1, 1], strides=[1, 2])
    check_strategies(*model, ranks=(2, 3), least=2)
