"""Model server: carries out an orchestrator's orders on tensors in shared memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod

import numpy as np

from ...comm.arrays import Array
from ...comm.errors import ModelError, OutOfMemory
from ...comm.job.rank import Rank
from ...comm.job_memory.progress import Progress
from ...comm.request_memory.tensor_arena import TensorArena, aligned
from ...comm.serving.orders import (
    AS_ORDERED,
    KEPT_ORDERS,
    Answer,
    OutputBuffer,
    Run,
    Switch,
    TensorRef,
)
from ...comm.serving.tensor_spec import TensorLayout, dtype_named
from ...comm.serving.warmup import WarmupSample
from ...comm.serving.weights import WeightReply, decode_weight_request, encode_weight_reply
from ..runtime.steps import UnexpectedShape
from .failed_answer import failed_answer, short_parts
from .order_source import OrderSource, OrderToDo
from .rank_model import RankModel
from .warmup_inputs import arrays_of, zeros


class ModelServer:
    """One open model and the arena of its requests' tensors; used by one thread, but for
    `reply`."""

    def __init__(
        self,
        model: RankModel,
        rank: Rank,
        tensors: TensorArena,
        progress: Progress,
        on_host: bool,
    ) -> None:
        """`on_host` says whether the model runs where the tensors are: what is bound is copied to
        any other device.
        """
        self._model = model
        self._tensors = tensors
        self._progress = progress
        self._alone = rank.world_size == 1
        self._rank = rank.rank
        self.report = model.report
        self._inputs = [(spec.name, dtype_named(spec.stored.dtype)) for spec in self.report.inputs]
        self._outputs = [spec.name for spec in self.report.outputs]
        self._inputs_of = lru_cache(KEPT_ORDERS)(
            self._viewed
        )  # the same arrays need not be bound again
        self._bound = lru_cache(KEPT_ORDERS)(self._bind)
        self._mapping = tensors.mapping
        self._binds = self._alone and on_host and all(spec.fixed for spec in self.report.inputs)
        self._run_time = self._collective_time = 0  # nanoseconds

    def carry_out(self, number: int, order: OrderToDo, orders: OrderSource) -> None:
        """Carry out one order and answer it, whatever happens."""
        if isinstance(order, Run):
            answer = self._timed(number, order, orders)
        elif isinstance(order, Switch):
            answer = self._switched(order)
        else:
            error = ModelError("got a step of a decoder, expected requests: the model is none.")
            answer = failed_answer(error)
        orders.reply(number, self._rank, answer)
        if answer.error and not self._alone:
            orders.hold(number, self._rank)

    def reply(self, question: bytes) -> bytes:
        """Do what is asked beside the orders, whatever happens; by another thread than the
        orders'."""
        try:
            reply = self._model.reply(decode_weight_request(question))
        except Exception as error:
            name, text, trace = short_parts(error)
            sys.stderr.write(trace)
            reply = WeightReply(error=name, text=text)
        return encode_weight_reply(reply)

    def _timed(self, number: int, order: Run, orders: OrderSource) -> Answer:
        """Run a request, and note how long that took."""
        model, begun = self._model, time.monotonic_ns()
        before = 0.0 if self._alone else model.collective_seconds
        answer = self._ran(number, order, orders)
        if not self._alone:
            self._collective_time += int(1e9 * (model.collective_seconds - before))
        self._run_time += time.monotonic_ns() - begun
        self._progress.note_times(self._run_time, self._collective_time)
        return answer

    def _ran(self, number: int, order: Run, orders: OrderSource) -> Answer:
        if self._tensors.mapping is not self._mapping:
            self._forget()
        try:
            run = self._bound(order)
            if run is None:
                return self._borrowed(number, order, orders)
            run()
            return AS_ORDERED
        except UnexpectedShape:
            self._binds = False
            self._bound.cache_clear()
            return self._borrowed(number, order, orders)
        except Exception as error:
            return failed_answer(error)

    def _borrowed(self, number: int, order: Run, orders: OrderSource) -> Answer:
        """As `_ran`, step by step."""
        before, ended = self._progress.count, False
        try:
            outputs = self._model.borrow(self._inputs_of(order))
            ended = True
            part = order.part(self._rank)
            given = [outputs[self._outputs[position]] for position in part.positions]
            if not given:
                return AS_ORDERED
            return Answer(self._placed(number, given, part.room, orders))
        except Exception as error:
            return failed_answer(error, ended, self._progress.count - before)

    def _switched(self, order: Switch) -> Answer:
        try:
            self._model.switch(order.number)
            self._forget()
            return AS_ORDERED
        except Exception as error:
            return failed_answer(error)

    def _forget(self) -> None:
        """Orders have to be looked at anew: the tensors or the model are others."""
        self._mapping = self._tensors.mapping
        self._inputs_of.cache_clear()
        self._bound.cache_clear()

    def _bind(self, order: Run) -> Callable[[], object] | None:
        """A call that carries the order out whenever it comes, and writes the outputs into its
        buffer.

        None where only a run tells their shapes, where others run their parts of it, or where
        tensors have to be copied to the device: a copy would be kept for each order.
        """
        part = order.part(self._rank)
        room, specs = (
            part.room,
            [self.report.outputs[position].stored for position in part.positions],
        )
        layout = TensorLayout.declared(specs) if self._binds else None
        if layout is None or layout.size > room.size or not all(part.size for part in layout.parts):
            return None
        outputs = {
            spec.name: self._tensors.view(room.offset + at, dtype, shape, size)
            for spec, (at, dtype, shape, size) in zip(specs, layout.parts, strict=True)
        }
        return self._model.bound(self._inputs_of(order), outputs)

    def _viewed(self, order: Run) -> dict[str, Array]:
        """The inputs of a request by name, where they are."""
        found = {}
        for (name, dtype), place in zip(self._inputs, order.inputs, strict=True):
            shape = tuple(place.shape)
            found[name] = self._tensors.view(
                place.offset, dtype, shape, dtype.itemsize * prod(shape)
            )
        return found

    def _placed(
        self, number: int, arrays: Sequence[Array], room: OutputBuffer, orders: OrderSource
    ) -> list[TensorRef]:
        """Where the outputs are: an input handed on stays where it is, everything else is copied
        into the room.
        """
        tensors, at, end, places = self._tensors, room.offset, room.offset + room.size, []
        for array in arrays:
            offset = tensors.offset_of(array)
            if offset is None:
                offset, at = at, at + aligned(array.nbytes)
                if at > end:
                    return self._placed(
                        number, arrays, self._more_room(number, arrays, orders), orders
                    )
                np.copyto(tensors.view(offset, array.dtype, array.shape, array.nbytes), array)
            places.append(TensorRef(offset, array.shape))
        return places

    def _more_room(self, number: int, arrays: Sequence[Array], orders: OrderSource) -> OutputBuffer:
        """Room for all of them; OutOfMemory where there is none."""
        needed = sum(
            aligned(array.nbytes) for array in arrays if self._tensors.offset_of(array) is None
        )
        room = orders.ask_for_room(number, self._rank, Answer([], needed=needed))
        if needed > room.size:
            raise OutOfMemory(
                f"there is no room for outputs of {needed} bytes in the memory that requests "
                f"share: send less at once, or let go of results."
            )
        return room

    def warm_up(self, samples: Sequence[WarmupSample]) -> None:
        """Run the samples; without any run once, if the shapes allow it, and no input is a text,
        of which any may be wrong. Nothing where that would change a state.

        Raises InputError, ModelError where a sample does not fit.
        """
        if self.report.stateful:
            return
        for sample in samples:
            inputs = arrays_of(sample)
            for _ in range(sample.count):
                self._model.borrow(inputs)
        specs = self.report.inputs
        if not samples and all(spec.fixed and not spec.strings for spec in specs):
            self._model.borrow({spec.name: zeros(spec) for spec in specs})
