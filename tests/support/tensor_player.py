"""Collectives on tensors as those on arrays, for the cases that both must get right."""

from __future__ import annotations

from collections.abc import Sequence

from rankmesh.comm.collective_call import Call
from rankmesh.comm.collectives.backend import TensorCollectives
from rankmesh.comm.collectives.parts import Array
from rankmesh.worker.executors.torch.tensors import as_array, as_tensor


class OnTensors:
    """See Collectives; arrays go in and out as tensors of a CPU."""

    name = "tensors"

    def __init__(self, tensors: TensorCollectives) -> None:
        self._tensors = tensors

    def run(self, call: Call, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        given = [as_tensor(one) for one in inputs]
        results = self._tensors.enqueue(call, given, False, ())
        for made, out in zip(results, outputs, strict=True):
            out[...] = as_array(made).reshape(out.shape)

    def close(self) -> None:
        """Nothing is its own."""
