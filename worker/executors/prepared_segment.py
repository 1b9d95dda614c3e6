"""A prepared segment of onnxruntime: one session with its inputs and outputs bound in place."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto

from ...comm.arrays import Array
from ...comm.errors import ModelError, OutOfMemory, RankFailed, RankmeshError
from ...compiler.element_types import dtypes
from ...compiler.element_types.value_types import TensorType
from ..partition.plan import Segment
from .base import Operand
from .views import OutputView

GPU_DEVICE = "cuda"
"""onnxruntime's name of the device that holds shared weights of a GPU."""

_SAME = "bool float16 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
_NUMPY = {"float": "float32", "double": "float64"} | {name: name for name in _SAME}
"""numpy's names of types of values between segments, by onnxruntime's names."""

_NO_MEMORY = ("bad_alloc", "Failed to allocate memory", "out of memory")


class PreparedSegment:
    """One session with its bindings.

    onnxruntime keeps raw pointers only. The arrays that it reads and writes stay bound, and are
    held here, until others take their place.
    """

    def __init__(
        self, session: Any, segment: Segment, copies: bool, views: Mapping[str, OutputView]
    ) -> None:
        """`copies` says that binding copies arrays of the host to a device, so that every run binds
        them anew, changed or not. `views` are the outputs that lie in memory of other values.
        """
        self._session = session
        self._copies = copies
        self._segment = segment
        self._views = views
        self._binding = session.io_binding()
        self._inputs = segment.inputs
        self._outputs = segment.outputs
        self._bound_inputs: list[Operand | None] = [None] * len(segment.inputs)
        self._bound_outputs: list[Array | None] = [None] * len(segment.outputs)
        self._declared_wrong = False

    def twin(self) -> PreparedSegment:
        """See Shareable.twin: one session runs in any number of threads, each with its bindings."""
        return PreparedSegment(self._session, self._segment, self._copies, self._views)

    def output_types(self) -> dict[str, TensorType]:
        """See PartRunnable.output_types. Raises ModelError for a type that numpy lacks."""
        return {one.name: _tensor_type(one) for one in self._session.get_outputs()}

    def run(self, inputs: Sequence[Operand], outputs: Sequence[Array | None]) -> Sequence[Array]:
        """See Runnable.run."""
        if self._declared_wrong:
            outputs = [None] * len(outputs)
        for index, array in enumerate(inputs):
            if (
                array is not self._bound_inputs[index]
                or self._copies
                and isinstance(array, np.ndarray)
            ):
                self._bind_input(index, array)
        for index, out in enumerate(outputs):
            if out is None or not out.ndim or out is not self._bound_outputs[index]:
                self._bind_output(index, out)
        try:
            self._session.run_with_iobinding(self._binding)
        except Exception as error:  # onnxruntime's own classes share no base but Exception
            return self._run_without_room(outputs, error)
        return self._results(outputs)

    def _run_without_room(
        self, outputs: Sequence[Array | None], error: Exception
    ) -> Sequence[Array]:
        """Run again, the results in arrays of their own: the shapes that a file declares may be
        wrong, and onnxruntime runs such a model. Raises RankFailed where that fails too.
        """
        what = f"onnxruntime failed in the segment that ends in {self._outputs[0]}"
        failure = session_error(RankFailed, what, error)
        if isinstance(failure, OutOfMemory) or all(out is None for out in outputs):
            raise failure from error
        for index in range(len(outputs)):
            self._bind_output(index, None)
        try:
            self._session.run_with_iobinding(self._binding)
        except Exception as again:  # onnxruntime's own classes share no base but Exception
            raise session_error(RankFailed, what, again) from again
        self._declared_wrong = True
        return self._results([None] * len(outputs))

    def _bind_input(self, index: int, array: Operand) -> None:
        name, dtype = self._inputs[index], _element_type(array.dtype)
        if isinstance(array, np.ndarray):
            self._binding.bind_input(name, "cpu", 0, dtype, array.shape, _address(array))
        else:
            self._binding.bind_input(
                name, GPU_DEVICE, array.number, dtype, array.shape, array.pointer
            )
        self._bound_inputs[index] = array

    def _bind_output(self, index: int, out: Array | None) -> None:
        name = self._outputs[index]
        view = self._views.get(name)
        bound = view.matrix if view else name
        if out is None or not out.ndim:  # one number of any rank would fit into it, unseen
            self._binding.bind_output(bound, "cpu")
        else:  # ValueError where the sizes differ, before anything is written
            room = out.reshape(view.matrix_shape) if view else out
            self._binding.bind_output(
                bound, "cpu", 0, _element_type(out.dtype), room.shape, _address(room)
            )
        self._bound_outputs[index] = out

    def _results(self, outputs: Sequence[Array | None]) -> Sequence[Array]:
        values, results = None, []
        for index, out in enumerate(
            outputs
        ):  # a loop costs less than a comprehension: see Program._run
            if out is None or not out.ndim:
                values = values or self._binding.get_outputs()
                out = _placed(self._new(index, values[index]), out)
            results.append(out)
        return results

    def _new(self, index: int, value: Any) -> Array:
        array, view = _copied(value), self._views.get(self._outputs[index])
        return array.reshape(view.shape) if view else array


def _placed(result: Array, out: Array | None) -> Array:
    """A result in its place, where it has one and its shape."""
    if out is None or result.ndim:
        return result
    out[...] = result
    return out


def session_error(kind: type[RankmeshError], what: str, error: Exception) -> RankmeshError:
    """An error of onnxruntime as one of comm/errors.py: OutOfMemory where its text says so."""
    out_of_memory = any(words in str(error) for words in _NO_MEMORY)
    return (OutOfMemory if out_of_memory else kind)(f"{what}: {error}")


def _tensor_type(output: Any) -> TensorType:
    name = output.type.removeprefix("tensor(").removesuffix(")")
    if name not in _NUMPY:
        raise ModelError(f"onnxruntime makes the value '{output.name}' a {output.type}.")
    shape = tuple(dim if isinstance(dim, int) else -1 for dim in output.shape)
    return TensorType(np.dtype(_NUMPY[name]), shape)


def _copied(value: Any) -> Array:
    """A result as an array of its own; onnxruntime itself cannot give bfloat16 to numpy."""
    if value.element_type() != TensorProto.BFLOAT16:
        array: Array = value.numpy()
        return array
    dtype, shape = dtypes.from_onnx(TensorProto.BFLOAT16), value.shape()
    if not prod(shape):
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * (prod(shape) * dtype.itemsize)).from_address(value.data_ptr())
    return np.frombuffer(memory, dtype).reshape(shape).copy()


def _element_type(dtype: np.dtype[Any]) -> Any:
    return dtypes.to_onnx(dtype) if dtype.kind == "V" else dtype.type


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
