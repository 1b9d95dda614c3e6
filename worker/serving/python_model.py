"""Python model: a callable of the operator that answers requests, with its tensors checked."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...comm.arrays import Array
from ...comm.errors import InputError, ModelError, UsageError
from ...comm.job_memory.progress import Progress, Stage
from ...comm.rendezvous.rendezvous import Rendezvous
from ...comm.request_memory.tensor_arena import TensorArena
from ...comm.serving.orders import ModelReport, ServeJob
from ...comm.serving.python_function import PythonFunction
from ...comm.serving.string_tensor import packed, strings_of, unpacked
from ...comm.serving.tensor_spec import TensorSpec, dtype_named
from ...comm.serving.weights import WeightReply, WeightRequest
from .model_server import ModelServer
from .python_source import load_callable, sentence


class PythonModel:
    """See RankModel. The callable gets arrays that it may only read, and only until it returns."""

    collective_seconds = 0.0

    def __init__(self, function: PythonFunction, call: Callable[..., object]) -> None:
        self._function = function
        self._call = call
        self._names = [spec.name for spec in function.outputs]
        outputs = tuple(range(len(self._names)))
        self.report = ModelReport(function.text, function.inputs, function.outputs, outputs)

    def borrow(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """See RankModel. Raises InputError as the callable does, ModelError for any other error of
        it, and where it does not return what is declared.
        """
        given = [_argument(spec, inputs[spec.name]) for spec in self._function.inputs]
        text = self._function.text
        try:
            returned = self._call(*given)
        except InputError as error:
            raise InputError(f"{text}: {error}") from error
        except (Exception, SystemExit) as error:
            sys.stderr.write(traceback.format_exc())
            raise ModelError(f"{text} failed: {sentence(error)}") from error
        return {
            spec.name: self._checked(spec, value, given)
            for spec, value in zip(self._function.outputs, self._in_order(returned), strict=True)
        }

    def bound(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """See RankModel: a callable has memory of its own for what it returns."""

    def switch(self, number: int) -> None:
        """See RankModel: no weights are ever staged."""

    def reply(self, question: WeightRequest) -> WeightReply:
        """See RankModel. Raises UsageError."""
        raise UsageError(f"{self._function.text} is a Python function: it has no weights.")

    def _in_order(self, returned: object) -> Sequence[object]:
        """The values that the callable returned, output by output."""
        if isinstance(returned, Mapping):
            if returned.keys() != set(self._names):
                raise self._unfit(f"returned {list(returned)}")
            return [returned[name] for name in self._names]
        if isinstance(returned, tuple):
            if len(returned) != len(self._names):
                raise self._unfit(f"returned {len(returned)} values")
            return returned
        if len(self._names) != 1:
            raise self._unfit(f"returned {type(returned).__name__}")
        return [returned]

    def _checked(self, spec: TensorSpec, value: object, given: Sequence[Array]) -> Array:
        """An output as declared, in memory of its own or in that of an input."""
        try:
            array = strings_of(value) if spec.strings else np.asarray(value)
        except ValueError as error:
            raise self._unfit(f"returned '{spec.name}': {error}") from error
        expected = dtype_named(spec.dtype)
        if array.dtype != expected or not spec.fits(array.shape):
            raise self._unfit(
                f"returned '{spec.name}' as {array.dtype} of shape {list(array.shape)}"
            )
        if spec.strings:
            return packed(array)
        return array if _owned(array) or any(array is one for one in given) else array.copy()

    def _unfit(self, got: str) -> ModelError:
        declared = ", ".join(
            f"'{one.name}' ({one.dtype} of {list(one.shape or ())})"
            for one in self._function.outputs
        )
        return ModelError(f"{self._function.text} {got}, expected {declared}, as it is declared.")


def open_function(
    job: ServeJob, rendezvous: Rendezvous, tensors: TensorArena, progress: Progress
) -> ModelServer:
    """Import the callable of a job, which has one. Raises ModelError."""
    assert job.function is not None
    rendezvous.enter(Stage.READING)
    model = PythonModel(job.function, load_callable(job.function))
    rendezvous.enter(Stage.READY)
    return ModelServer(model, rendezvous.rank, tensors, progress, True)


def _argument(spec: TensorSpec, array: Array) -> Array:
    """An input as the callable gets it."""
    if spec.strings:
        return unpacked(array)
    view = array.view()
    view.flags.writeable = False
    return view


def _owned(array: Array) -> bool:
    """Whether the memory of an array is numpy's: that of requests is used again."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.flags.owndata
