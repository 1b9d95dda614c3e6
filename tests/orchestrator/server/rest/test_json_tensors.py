"""Numbers of JSON: the largest of each datatype are taken as they are, and larger ones refused."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from rankmesh.comm.errors import InputError
from rankmesh.comm.serving.tensor_spec import TensorSpec
from rankmesh.orchestrator.server.catalog import TensorDescription
from rankmesh.orchestrator.server.rest.json_tensors import array_of

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("dtype", "fits", "beyond"),
    [
        *(
            (name, [np.iinfo(name).min, np.iinfo(name).max], [np.iinfo(name).max + 1])
            for name in ("int8", "int64")
        ),
        ("uint8", [0, 255], [-1]),
        ("uint64", [0, 2**64 - 1], [2**64]),
        ("float16", [-65504.0, 65504.0], [65520.0]),
        ("float32", [-(2.0**127), 2.0**127], [1e39]),
        ("bfloat16", [-0.5, 1.5], [1e39]),
    ],
)
def test_the_range_of_each_datatype(dtype: str, fits: list[float], beyond: list[float]) -> None:
    tensor = TensorDescription.of(TensorSpec("x", dtype, (-1,)))
    found = array_of(tensor, (2,), msgspec.Raw(msgspec.json.encode(fits)))
    assert found.tolist() == fits
    with pytest.raises(InputError, match=f"out of the range of {tensor.datatype}"):
        array_of(tensor, (1,), msgspec.Raw(msgspec.json.encode(beyond)))
