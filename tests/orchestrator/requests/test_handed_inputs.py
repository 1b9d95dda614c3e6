"""Handed inputs: what one model has written is read in place by the next."""

from __future__ import annotations

import numpy as np
import pytest

from rankmesh.comm.request_memory.owned_arena import OwnedArena
from rankmesh.comm.serving.orders import GivenOutputs, Run, decode_order
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.orchestrator.requests.inputs import InputSpecs

pytestmark = pytest.mark.pure

SPECS = (TensorSpec("a", "float32", (-1, 4)), TensorSpec("b", "int64", (3,)))


def test_outputs_of_other_models_are_named_where_they_lie() -> None:
    arena = OwnedArena(1 << 20, 1 << 30)
    specs = InputSpecs("m", SPECS, arena)
    regions = arena.allocate(64), arena.allocate(64)
    given = {
        "a": regions[0].array(0, np.dtype(np.float32), (4, 4))[1:3],  # rows of a batch
        "b": regions[1].array(8, np.dtype(np.int64), (3,)),
    }
    before = arena.allocations
    inputs = specs.handed_on(given)
    assert arena.allocations == before
    order = decode_order(inputs.order(GivenOutputs({}), ()))
    assert isinstance(order, Run)
    assert [ref.offset for ref in order.inputs] == [regions[0].offset + 16, regions[1].offset + 8]
    assert inputs.region_at(regions[1].offset + 8, regions[1].offset + 32) is regions[1]
    beyond = max(region.offset + region.size for region in regions)
    assert inputs.region_at(beyond - 1, beyond + 1) is None
    arena.close()


def test_what_lies_elsewhere_or_in_pieces_is_copied() -> None:
    arena = OwnedArena(1 << 20, 1 << 30)
    wide = arena.allocate(256).array(0, np.dtype(np.float32), (2, 8))
    wide[...] = np.arange(16).reshape(2, 8)
    before = arena.allocations
    inputs = InputSpecs("m", SPECS, arena).handed_on({"a": wide[:, :4], "b": np.arange(3)})
    assert arena.allocations == before + 2
    np.testing.assert_array_equal(inputs.arrays[0], wide[:, :4])
    np.testing.assert_array_equal(inputs.arrays[1], np.arange(3))
    arena.close()
