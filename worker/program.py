"""A model made ready on one rank: segments prepared, collectives joined, waiting for requests."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

from ..comm.collectives.base import Collectives
from ..comm.errors import InputError, ModelError
from ..comm.progress import Stage
from ..comm.rendezvous import Meeting
from .buffers import allocate
from .collective_types import result_shapes
from .cut import make_plan
from .executors.base import Executor, Runnable
from .external import external_array, lies_in
from .fingerprint import Fingerprint, fingerprint
from .mindir.crypto import Decryption
from .pivot import load_pivot
from .plan import Exchange, Plan, Segment, Signature
from .resized import load_resized
from .shard_check import check_shards

Array = NDArray[Any]
Memory = Mapping[str, memoryview]
_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(Fingerprint).decode


@dataclass(slots=True)
class Program:
    """One rank's model, ready to run. `predict` may be called any number of times, by one thread at a time."""

    plan: Plan
    collectives: Collectives
    _runnables: list[Runnable | None]
    _buffers: dict[str, Array]
    _constants: dict[str, Array]
    collective_seconds: float = 0.0

    @classmethod
    def open(cls, path: str, meeting: Meeting, executor: Executor,
             input_shapes: Sequence[tuple[int, ...]] | None = None, decryption: Decryption | None = None) -> Program:
        """Read a shard, check it against the other ranks', prepare it. All ranks of the job call this.

        `input_shapes`, in the order of the model's inputs, take the place of those that the file declares;
        `decryption` opens encrypted files, whose plain text is gone once the program is open.
        Raises ModelError (unreadable, unsupported), ShardMismatch (does not fit the others') or RankFailed
        (another rank did not get this far).
        """
        rank = meeting.rank
        meeting.enter(Stage.READING)
        pivot = load_pivot(path, decryption) if input_shapes is None else load_resized(path, input_shapes, decryption)
        plan = make_plan(pivot, rank.rank, rank.world_size)
        meeting.enter(Stage.CHECKING)
        prints = [_DECODE(payload) for payload in meeting.exchange(_ENCODE(fingerprint(plan, rank.rank)))]
        check_shards(prints, meeting.implementation)
        meeting.enter(Stage.BUILDING)
        collectives = meeting.collectives(_groups(prints), _pairs(prints))
        program = cls(plan, collectives, _prepared(plan, executor, pivot.memory), allocate(plan),
                      _constants(plan, pivot.memory))
        meeting.exchange(b"")  # nobody runs before everybody is ready
        meeting.enter(Stage.READY)
        return program

    def predict(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run once. `inputs` has one array per input of `plan.inputs`, by name, in its dtype and shape.

        Returns the outputs by name, in the model's order; the arrays belong to the caller. Raises InputError
        where the inputs do not fit: before anything ran, but for dimensions that the file leaves open.
        """
        values: dict[str, Array] = dict(self._constants)
        _refuse_unknown(self.plan, inputs)
        for signature in self.plan.inputs:
            values[signature.value] = _checked(signature, inputs, self.plan.path)
        fresh = {s.value: _empty(s) for s in self.plan.outputs}
        for step, runnable in zip(self.plan.steps, self._runnables, strict=True):
            arrays = [values[name] for name in step.inputs]
            outputs = [self._buffers[n] if n in self._buffers else fresh.get(n) for n in step.outputs]
            if isinstance(step, Exchange):
                results = self._exchange(step, arrays, outputs)
            else:
                assert runnable is not None
                results = list(runnable.run(arrays, outputs))
            values.update(zip(step.outputs, results, strict=True))
        return self._results(values)

    def close(self) -> None:
        """Leave the collectives and free the buffers."""
        self.collectives.close()
        self._runnables.clear()
        self._buffers.clear()

    def _results(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs; inputs, constants and what another output has already are copied."""
        shared = {s.value for s in self.plan.inputs} | self._constants.keys()
        results: dict[str, Array] = {}
        for signature in self.plan.outputs:
            array = values[signature.value]
            results[signature.name] = array.copy() if signature.value in shared else array
            shared.add(signature.value)
        return results

    def _exchange(self, step: Exchange, arrays: list[Array], outputs: list[Array | None]) -> list[Array]:
        start = time.perf_counter()
        results = [self._sized(step, i, arrays) if out is None else out for i, out in enumerate(outputs)]
        try:
            self.collectives.run(step.call, arrays, results)
        except ValueError as error:  # nothing but sizes that the file leaves open can be wrong here
            raise InputError(f"{self.plan.path}: node {step.call.node}: {error}.") from error
        self.collective_seconds += time.perf_counter() - start
        return results

    def _sized(self, step: Exchange, index: int, arrays: list[Array]) -> Array:
        """Room for a collective's result whose shape only the operands of this request tell."""
        shape = result_shapes(step.call, [a.shape for a in arrays])[index]
        return np.empty(shape, self.plan.types[step.outputs[index]].dtype)


def _empty(signature: Signature) -> Array | None:
    shape = signature.type.shape
    return None if shape is None or any(dim < 0 for dim in shape) else np.empty(shape, signature.type.dtype)


def _groups(prints: list[Fingerprint]) -> list[tuple[int, ...]]:
    """Every set of members that a collective of any rank uses, in an order that all ranks agree on."""
    return sorted({entry.call.group.ranks for one in prints for entry in one.entries if not _pairwise(entry.call)})


def _pairwise(call: Any) -> bool:
    return bool(call.sends_to or call.receives_from)


def _pairs(prints: list[Fingerprint]) -> list[tuple[int, int]]:
    """Every (source, destination) of point-to-point messages, likewise."""
    return sorted({(one.rank, entry.call.group.ranks[position])
                   for one in prints for entry in one.entries for position in entry.call.sends_to})


def _prepared(plan: Plan, executor: Executor, memory: Memory) -> list[Runnable | None]:
    try:
        return [executor.prepare(s, plan.folder, memory) if isinstance(s, Segment) else None for s in plan.steps]
    except ModelError as error:
        raise ModelError(f"{plan.path}: {error}") from error


def _constants(plan: Plan, memory: Memory) -> dict[str, Array]:
    try:
        return {name: _constant(plan, tensor, memory) for name, tensor in plan.constants.items()}
    except (ValueError, TypeError) as error:
        raise ModelError(f"{plan.path}: a constant is corrupt: {error}. Export or copy the file again.") from error


def _constant(plan: Plan, tensor: TensorProto, memory: Memory) -> Array:
    """An initializer as an array; an external one stays a view on its file, or leaves the memory, which is to go."""
    if tensor.data_location != TensorProto.EXTERNAL:
        array: Array = numpy_helper.to_array(tensor)
        return array
    view = external_array(tensor, plan.folder, memory)
    return view.copy() if lies_in(memory, tensor) else view


def _refuse_unknown(plan: Plan, inputs: Mapping[str, Array]) -> None:
    unknown = inputs.keys() - {s.name for s in plan.inputs}
    if unknown:
        raise InputError(f"{plan.path}: has no input '{min(unknown)}', but {[s.name for s in plan.inputs]}.")


def _checked(signature: Signature, inputs: Mapping[str, Array], path: str) -> Array:
    if signature.name not in inputs:
        raise InputError(f"{path}: the input '{signature.name}' is missing; got {list(inputs)}.")
    array, expected = inputs[signature.name], signature.type
    if array.dtype != expected.dtype:
        raise InputError(f"{path}: the input '{signature.name}' is {array.dtype}, expected {expected.dtype}.")
    fits = expected.shape is None or (len(array.shape) == len(expected.shape) and all(
        want < 0 or want == have for want, have in zip(expected.shape, array.shape, strict=True)))
    if not fits:
        raise InputError(f"{path}: the input '{signature.name}' has the shape {list(array.shape)}, expected "
                         f"{list(expected.shape or ())} (-1: any).")
    return array if array.flags.c_contiguous and array.flags.aligned else array.copy(order="C")
