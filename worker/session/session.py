"""Session: one open model, its input shapes and its weights, all of which may change."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ...comm.arrays import Array, Shape
from ...comm.errors import InputError, ModelError, UsageError
from ...comm.job.names import require_utf8_path
from ...comm.text import counted
from ...compiler.mindir.crypto import Decryption
from ...compiler.model_file.config import Config
from ..api_types.context import Context
from ..api_types.tensor import OutputTensor, Tensor
from ..api_types.tensor_meta import TensorSlot
from ..executors.affinity import bound_to
from ..partition.plan import Plan
from ..runtime.program import Program
from ..runtime.weight_source import PRIVATE, PackedWeights, WeightSource
from ..weights.settings import WeightSettings
from .dynamic_shapes import DynamicShapes, closed
from .engine import model_spec, open_model
from .group_share import GroupShare, live_source, lives_with_group
from .meet import meet
from .request_tensors import all_fit, feed, least_inputs, shown_shape
from .shape_inference import output_shapes
from .sliced_shards import shards_of

if TYPE_CHECKING:
    from ..weights.live_source import LiveSource
    from ..weights.weight_client import WeightClient
    from ..weights.weight_owner import WeightOwner

_LARGEST_DIM = 2**31 - 1


class RankMismatch(InputError, ValueError):
    """New dimensions of an input that has another number of them."""


class Session:
    """One open model, for any number of threads, which take turns.

    `inputs` are the slots that tensors of its inputs share.
    """

    def __init__(
        self,
        path: str,
        context: Context,
        config: Config,
        decryption: Decryption | None = None,
        share: GroupShare | None = None,
    ) -> None:
        """`share` is what the model has in common with those of its group. Raises what open_model
        raises.
        """
        require_utf8_path(path)
        settings = WeightSettings.of(config)
        declared = DynamicShapes.of(context.target[0].lower(), config)
        self._meet = partial(meet, context, config)
        self._share = share
        self._turn = share.turn if share else None
        self._lock = threading.Lock()
        self._settings = settings
        workspace = bool(share and share.workspace)
        path = shards_of(path, config, self._meet(), decryption, self)
        self._spec = model_spec(path, context, config, self._meet(), decryption, workspace)
        shared = lives_with_group(path, share, settings, self._spec.device)
        self._live = self._live_source() if shared or settings.live else None
        packed = share is not None and share.weights
        self._file_weights = PackedWeights(share.folder()) if share and packed else PRIVATE
        self._shapes: Sequence[Shape] | None = None
        self._program = self._first(self._live or self._file_weights)
        plan = self.plan
        self._exported = plan.inputs
        self.inputs = [
            TensorSlot.of(s.name, s.type.dtype, shown_shape(s.type.shape)) for s in plan.inputs
        ]
        self._output_shapes = [s.type.shape for s in plan.outputs]
        self._allowed = declared if self._spec.device != "cpu" else None
        if declared:
            self._declare(declared)
        if share:
            share.add(self, path)

    def owner(self) -> WeightOwner:
        """The weights in memory of this process, which may change them; made live if need be.

        Raises UsageError where another mode is forced, or where the weights are another process's.
        """
        from ..weights.weight_owner import WeightOwner

        if self._live is None:
            with self._lock:
                self._make_live()
        self.spread_live_weights()
        if not isinstance(self.weights, WeightOwner):
            raise UsageError(
                "these weights belong to another process, and only their owner updates them: "
                "update them there, and this model uses them from its next predict on."
            )
        return self.weights

    def spread_live_weights(self) -> None:
        """Have all models of the group follow it, this one first. Raises as a build does."""
        if self._share:
            for member in (self, *self._share.others(self)):
                member.follow_group()

    def follow_group(self) -> None:
        """See GroupMember.follow_group."""
        if self._lags():
            with self._lock:
                self._make_live()

    def _make_live(self) -> None:
        """Have the weights in memory of this process from now on; the program is built anew."""
        if self._settings.mode in ("packed", "private"):
            raise UsageError(
                f"weights_mode is '{self._settings.mode}', and only live weights can be shared or "
                f"updated. Leave it away, or set it to live."
            )
        if self._live is None:
            live = self._live_source()
            self._replace(self._first(live))
            self._live = live
            if self._shapes is not None:
                self._replace(self._opened(self._shapes))
        if self._share and self._share.weights and self._spec.device == "cpu":
            self._share.live = True

    @property
    def weights(self) -> WeightOwner | WeightClient | None:
        """The live weights; None where the weights are private or packed."""
        return self._live.weights if self._live else None

    @property
    def weights_mode(self) -> str:
        """Where its weights lie: live (memory that is shared or changes), packed (the model cache)
        or private.
        """
        return "live" if self._live else "packed" if self._program.kept else "private"

    def _lags(self) -> bool:
        """Whether the weights are not live, and those of the model's group are."""
        return bool(
            self._live is None
            and self._spec.device == "cpu"
            and self._share
            and self._share.live
            and self._settings.mode in ("", "live")
        )

    @property
    def plan(self) -> Plan:
        """The plan that runs now."""
        return self._program.plan

    @property
    def least_inputs(self) -> int:
        """The number of inputs that a request has to give; the others have defaults."""
        return least_inputs(self._exported)

    @property
    def outputs(self) -> list[OutputTensor]:
        """The outputs as far as they are known before a run."""
        return [
            OutputTensor(s.name, s.type.dtype, shown_shape(shape))
            for s, shape in zip(self.plan.outputs, self._output_shapes, strict=True)
        ]

    @property
    def user_info(self) -> dict[str, str]:
        """The notes of the exporter in the model file, by name."""
        from ...compiler.model_file.model_format import format_of

        path = self.plan.path
        found = format_of(path)
        return dict(found.user_info(path, self._spec.decryption, self._spec.assets.folder))

    def run(self, values: Sequence[Tensor | Array]) -> dict[str, Array]:
        """The outputs by name; InputError where `values`, in the order of the inputs, do not
        fit."""
        with self._lock:
            fed = feed(self.plan.inputs, [slot.shape for slot in self.inputs], values)
            if self._allowed:
                self._allowed.check({name: array.shape for name, array in fed.items()})
            if self._turn is None:
                return self._predict(fed)
            with self._turn:
                return self._predict(fed)

    def _predict(self, fed: dict[str, Array]) -> dict[str, Array]:
        if not self._program.cores:
            return self._program.predict(fed)
        with bound_to(self._program.cores):
            return self._program.predict(fed)

    def resize(self, shapes: Sequence[Shape]) -> None:
        """Take new input shapes; where the program is not made for them, it is built anew. Raises
        as opening does.
        """
        with self._lock:
            self._resize(shapes)

    def _resize(self, shapes: Sequence[Shape]) -> None:
        self._check(shapes)
        if self._allowed:
            self._allowed.check(
                {slot.name: shape for slot, shape in zip(self.inputs, shapes, strict=True)}
            )
        if all_fit(self.plan.inputs, shapes):
            self._output_shapes = self._results(self.plan, shapes)
        else:
            self._open_for(shapes)
        for slot, shape in zip(self.inputs, shapes, strict=True):
            slot.shape = list(shape)

    def _declare(self, declared: DynamicShapes) -> None:
        """Take the shapes that the configuration declares; what it and the model leave open comes
        with a request.
        """
        shapes = declared.shapes_of(self._exported)
        if closed(shapes):
            self._resize(shapes)
            return
        for slot, shape in zip(self.inputs, shapes, strict=True):
            slot.shape = list(shape)

    def _open_for(self, shapes: Sequence[Shape]) -> None:
        chosen = None if all_fit(self._exported, shapes) else shapes
        program = self._opened(chosen)
        try:
            self._output_shapes = self._results(program.plan, shapes)
        except BaseException:  # an interrupt, too, must not leave the new program open
            program.close()
            raise
        self._replace(program)
        self._shapes = chosen

    def _results(self, plan: Plan, shapes: Sequence[Shape]) -> list[Shape | None]:
        """The shapes of the outputs; ModelError names the constant that stands against them."""
        try:
            return output_shapes(plan, shapes)
        except ModelError:
            from ...compiler.resizing.resize_check import check_file

            exported = [one.type.shape for one in self._exported]
            spec = self._spec
            check_file(spec.path, spec.decryption, spec.assets.folder, exported, shapes)
            raise

    def _opened(self, shapes: Sequence[Shape] | None) -> Program:
        spec = self._spec.resized(None if shapes is None else tuple(shapes))
        return open_model(spec, self._meet(), self._live or self._file_weights)

    def _first(self, source: WeightSource) -> Program:
        """The program of the model as exported, which processes that share weights compare."""
        try:
            program = open_model(self._spec, self._meet(), source)
        except BaseException:
            source.close()
            raise
        weakref.finalize(self, source.close)
        return program

    def _live_source(self) -> LiveSource[WeightOwner | WeightClient]:
        return live_source(self._share, self._settings, self._spec.device)

    def _replace(self, program: Program) -> None:
        program.states.take_from(self._program.states)
        self._program.close()
        self._program = program

    def _check(self, shapes: Sequence[Shape]) -> None:
        if len(shapes) != len(self.inputs):
            raise InputError(
                f"the model has {counted(len(self.inputs), 'input')}, got dims for {len(shapes)}."
            )
        for slot, signature, shape in zip(self.inputs, self._exported, shapes, strict=True):
            if signature.type.shape is not None and len(shape) != len(signature.type.shape):
                raise RankMismatch(
                    f"one of inputs' size does not match one of dims's size: '{slot.name}' has "
                    f"{len(signature.type.shape)} dimensions, got {list(shape)}."
                )
            open_sizes = signature.type.shape or (-1,) * len(shape)
            for dim, size in zip(shape, open_sizes, strict=True):
                if not (dim > 0 or dim == 0 > size) or dim > _LARGEST_DIM:
                    raise InputError(
                        f"the dims {list(shape)} of the input '{slot.name}' are not all from 1 to "
                        f"{_LARGEST_DIM}, or 0 where the model leaves the size open."
                    )
