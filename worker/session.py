"""A program with the input shapes chosen now, which may change."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ..comm.config import Config
from ..comm.context import Context
from ..comm.counted import counted
from ..comm.errors import InputError, UsageError
from ..comm.shard import find_shards
from ..comm.sharing.undumpable import close_to_others
from ..comm.tensor import OutputTensor, Slot, Tensor
from .affinity import bound_to
from .companions import Companions
from .device import choose_device
from .dynamic_shapes import DynamicShapes, closed
from .engine import open_program
from .feed import feed, fits
from .group_share import GroupShare
from .mindir.crypto import Decryption
from .mindir.source import is_encrypted
from .pivot import is_onnx
from .plan import Plan
from .program import Program
from .shape_inference import output_shapes
from .weights.settings import WeightSettings

if TYPE_CHECKING:
    from .weights.owner import Owner
    from .weights.user import User

_LOG = logging.getLogger("rankmesh")
Array = NDArray[Any]
Shape = tuple[int, ...]
_LARGEST_DIM = 2**31 - 1
_UNKNOWN_RANK = (-2,)


class RankMismatch(InputError, ValueError):
    """New dimensions of an input that has another number of them."""


class Session:
    """One open model. `inputs` are the slots that tensors of its inputs share; used by one thread at a time."""

    def __init__(self, path: str, context: Context, config: Config, decryption: Decryption | None = None,
                 share: GroupShare | None = None) -> None:
        """`share` is what the model has in common with those of its group. Raises what open_program raises."""
        settings = WeightSettings.of(config)
        declared = DynamicShapes.of(context.target[0].lower(), config)
        self._origin = (path, context, config)
        self._decryption = decryption
        self._share = share
        self._turn = (share and share.turn) or threading.Lock()
        self._settings = settings
        self._device = choose_device(context.target)
        live = self._lives_with_group() or settings.live
        self.weights: Owner | User | None = self._new_weights() if live else None
        self._shapes: Sequence[Shape] | None = None
        self._program = self._first()
        plan = self.plan
        self._exported = plan.inputs
        self.inputs = [Slot.of(s.name, s.type.dtype, _shown(s.type.shape)) for s in plan.inputs]
        self._output_shapes = [s.type.shape for s in plan.outputs]
        self._allowed = declared if self._device != "cpu" else None
        if declared:
            self._declare(declared)

    def make_live(self) -> Owner | User:
        """The weights, in memory of this process from now on; where they were not yet, the program is built anew.

        Raises UsageError where another mode is forced.
        """
        if self._settings.mode in ("packed", "private"):
            raise UsageError(f"weights_mode is '{self._settings.mode}', and only live weights can be shared or "
                             f"updated. Leave it away, or set it to live.")
        if self.weights is None:
            self.weights = self._new_weights()
            try:
                program = self._first()
            except BaseException:
                self.weights = None
                raise
            self._replace(program)
            if self._shapes is not None:
                self._replace(self._opened(self._shapes))
        if self._share and self._share.weights and self._device == "cpu":
            self._share.live = True
        return self.weights

    @property
    def weights_mode(self) -> str:
        """Where its weights lie: live (memory that is shared or changes), packed (the model cache) or private."""
        return "live" if self.weights else "packed" if self._program.kept else "private"

    @property
    def lags(self) -> bool:
        """Whether the weights are not live, and those of the model's group are."""
        return bool(self.weights is None and self._device == "cpu" and self._share and self._share.live
                    and self._settings.mode in ("", "live"))

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

        return {} if is_onnx(self.plan.path) else dict(
            read_model(self.plan.path, self._decryption, Companions.of(*self._origin[1:]).folder).user_info)

    def run(self, values: Sequence[Tensor | Array]) -> dict[str, Array]:
        """The outputs by name; InputError where `values`, in the order of the inputs, do not fit."""
        fed = feed(self.plan.inputs, [slot.shape for slot in self.inputs], values)
        if self._allowed:
            self._allowed.check({name: array.shape for name, array in fed.items()})
        with self._turn:
            if not self._program.cores:
                return self._program.predict(fed)
            with bound_to(self._program.cores):
                return self._program.predict(fed)

    def resize(self, shapes: Sequence[Shape]) -> None:
        """Take new input shapes; where the program is not made for them, it is built anew. Raises as opening does."""
        self._check(shapes)
        if self._allowed:
            self._allowed.check({slot.name: shape for slot, shape in zip(self.inputs, shapes, strict=True)})
        if self._fit(self.plan.inputs, shapes):
            self._output_shapes = output_shapes(self.plan, shapes)
        else:
            self._open_for(shapes)
        for slot, shape in zip(self.inputs, shapes, strict=True):
            slot.shape = list(shape)

    def _declare(self, declared: DynamicShapes) -> None:
        """Take the shapes that the configuration declares; what it and the model leave open comes with a request."""
        shapes = declared.shapes_of(self._exported)
        if closed(shapes):
            self.resize(shapes)
            return
        for slot, shape in zip(self.inputs, shapes, strict=True):
            slot.shape = list(shape)

    def _open_for(self, shapes: Sequence[Shape]) -> None:
        chosen = None if self._fit(self._exported, shapes) else shapes
        program = self._opened(chosen)
        try:
            self._output_shapes = output_shapes(program.plan, shapes)
        except BaseException:  # an interrupt, too, must not leave the new program open
            program.close()
            raise
        self._replace(program)
        self._shapes = chosen

    def _opened(self, shapes: Sequence[Shape] | None) -> Program:
        return open_program(*self._origin, shapes, self._decryption, self.weights, self._share)

    def _first(self) -> Program:
        """The program of the model as exported, which is what processes that share weights compare."""
        try:
            program = self._opened(None)
        except BaseException:
            if self.weights:
                self.weights.close()
            raise
        if self.weights:
            weakref.finalize(self, self.weights.close)
        return program

    def _new_weights(self) -> Owner | User:
        """Weights in memory of this process, with those of its group if it is in one; or those of another process."""
        from .weights.owner import Owner
        from .weights.user import User

        close_to_others()  # before the model is read: it may be encrypted
        if self._settings.handle is not None:
            return User(self._settings.handle)
        together = self._share and self._share.weights and self._device == "cpu"
        return Owner(self._settings, self._share.memory() if self._share and together else None)

    def _lives_with_group(self) -> bool:
        """Whether the weights lie in memory with those of the model's group.

        The first model that shares or updates weights, or is encrypted, whose plain text no file may hold, decides.
        """
        path, share = self._origin[0], self._share
        if not (share and share.weights):
            return False
        reason = (f"runs on {self._device}" if self._device != "cpu" else
                  "uses weights of another process" if self._settings.handle is not None else
                  f"has weights_mode={self._settings.mode}" if self._settings.mode in ("packed", "private") else "")
        if reason:
            _LOG.warning("%s %s: it shares no weights with the models of its group.", path, reason)
            return False
        share.live = share.live or self._settings.live or is_encrypted(find_shards(path).path(0))
        return share.live

    def _replace(self, program: Program) -> None:
        program.states.take_from(self._program.states)
        self._program.close()
        self._program = program

    def _fit(self, signatures: Sequence[Any], shapes: Sequence[Shape]) -> bool:
        return all(fits(signature, shape) for signature, shape in zip(signatures, shapes, strict=True))

    def _check(self, shapes: Sequence[Shape]) -> None:
        if len(shapes) != len(self.inputs):
            raise InputError(f"the model has {counted(len(self.inputs), 'input')}, got dims for {len(shapes)}.")
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
