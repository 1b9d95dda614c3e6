"""A program with the input shapes chosen now, which may change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from ..comm.config import Config
from ..comm.context import Context
from ..comm.errors import InputError
from ..comm.tensor import OutputTensor, Slot, Tensor
from .engine import open_program
from .feed import feed, fits
from .mindir.crypto import Decryption
from .pivot import is_onnx
from .plan import Plan
from .shape_inference import output_shapes

Array = NDArray[Any]
Shape = tuple[int, ...]
_LARGEST_DIM = 2**31 - 1
_UNKNOWN_RANK = (-2,)


class RankMismatch(InputError, ValueError):
    """New dimensions of an input that has another number of them."""


class Session:
    """One open model. `inputs` are the slots that tensors of its inputs share; used by one thread at a time."""

    def __init__(self, path: str, context: Context, config: Config, decryption: Decryption | None = None) -> None:
        self._origin = (path, context, config)
        self._decryption = decryption
        self._program = open_program(*self._origin, decryption=decryption)
        plan = self.plan
        self._exported = plan.inputs
        self.inputs = [Slot.of(s.name, s.type.dtype, _shown(s.type.shape)) for s in plan.inputs]
        self._output_shapes = [s.type.shape for s in plan.outputs]

    @property
    def plan(self) -> Plan:
        """The plan that runs now."""
        return self._program.plan

    @property
    def outputs(self) -> list[OutputTensor]:
        """The outputs as far as they are known before a run."""
        return [OutputTensor(s.name, s.type.dtype, _shown(shape))
                for s, shape in zip(self.plan.outputs, self._output_shapes, strict=True)]

    @property
    def user_info(self) -> dict[str, str]:
        """What the exporter noted in the model file."""
        from .mindir.reader import read_model

        return {} if is_onnx(self.plan.path) else dict(read_model(self.plan.path, self._decryption).user_info)

    def run(self, values: Sequence[Tensor | Array]) -> dict[str, Array]:
        """The outputs by name; InputError where `values`, in the order of the inputs, do not fit."""
        return self._program.predict(feed(self.plan.inputs, [slot.shape for slot in self.inputs], values))

    def resize(self, shapes: Sequence[Shape]) -> None:
        """Take new input shapes; where the program is not made for them, it is built anew. Raises as opening does."""
        self._check(shapes)
        if self._fit(self.plan.inputs, shapes):
            self._output_shapes = output_shapes(self.plan, shapes)
        else:
            self._open_for(shapes)
        for slot, shape in zip(self.inputs, shapes, strict=True):
            slot.shape = list(shape)

    def _open_for(self, shapes: Sequence[Shape]) -> None:
        program = open_program(*self._origin, None if self._fit(self._exported, shapes) else shapes,
                               self._decryption)
        try:
            self._output_shapes = output_shapes(program.plan, shapes)
        except BaseException:  # an interrupt, too, must not leave the new program open
            program.close()
            raise
        program.states.take_from(self._program.states)
        self._program.close()
        self._program = program

    def _fit(self, signatures: Sequence[Any], shapes: Sequence[Shape]) -> bool:
        return all(fits(signature, shape) for signature, shape in zip(signatures, shapes, strict=True))

    def _check(self, shapes: Sequence[Shape]) -> None:
        if len(shapes) != len(self.inputs):
            raise InputError(f"the model has {len(self.inputs)} inputs, got dims for {len(shapes)}.")
        for slot, signature, shape in zip(self.inputs, self._exported, shapes, strict=True):
            if signature.type.shape is not None and len(shape) != len(signature.type.shape):
                raise RankMismatch(f"one of inputs' size does not match one of dims's size: '{slot.name}' has "
                                   f"{len(signature.type.shape)} dimensions, got {list(shape)}.")
            if not all(0 < dim <= _LARGEST_DIM for dim in shape):
                raise InputError(f"the dims {list(shape)} of the input '{slot.name}' are not all from 1 to "
                                 f"{_LARGEST_DIM}.")


def _shown(shape: Shape | None) -> Shape:
    """A shape as users see it: MindSpore writes one dimension of -2 for an unknown rank."""
    return _UNKNOWN_RANK if shape is None else shape
