"""Weight slices: an update's slice of a whole weight is the part that the slicer writes."""

import numpy as np
import onnx_ir as ir
import pytest

from rankmesh.comm.errors import InputError
from rankmesh.comm.serving.weight_slices import WeightSlices
from rankmesh.compiler.slicing.emission.weight_map import slice_of
from rankmesh.compiler.slicing.emission.weight_part import WeightPart
from rankmesh.compiler.slicing.placement.placements import MAX, SUM, WHOLE, Split

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    "placement",
    [WHOLE, SUM, MAX, Split(0, (0, 5, 6)), Split(1, (0, 1, 2), (2, 1, 1)), Split(2, (0, 3, 5))],
    ids=str,
)
@pytest.mark.parametrize("rank", [0, 1])
def test_slices_are_the_parts(placement, rank):
    whole = np.random.default_rng(0).standard_normal((6, 8, 5)).astype(np.float32)
    part = WeightPart("w", ir.tensor(whole), placement, rank)
    np.testing.assert_array_equal(slice_of(part).of(whole), part.array())


def test_wrong_names_and_shapes_list_whole_ones():
    part = WeightPart("up.weight", ir.tensor(np.ones((4, 6), np.float32)), Split(1, (0, 3, 6)), 0)
    mine = {"up.weight.part": slice_of(part)}
    slices = WeightSlices("m_rank{rank}.onnx", (mine,), {"scale": "it is small"})
    for given, words in (
        ({"up.wait": np.ones((4, 6))}, "has no weight 'up.wait'; near: up.weight.$"),
        ({"a": np.ones(1), "scale": np.ones(1)}, "no weight 'a'; .* Likewise scale, 2 in all"),
        ({"scale": np.ones(1)}, "'scale' of .* cannot be updated: it is small"),
        ({"up.weight": np.ones((4, 3))}, r"'up.weight' has the shape \[4, 3\], expected \[4, 6\]"),
    ):
        with pytest.raises(InputError, match=words):
            slices.of(given)
