"""Step server: carries out an orchestrator's steps of a decoder."""

from __future__ import annotations

import time

import numpy as np
import onnxruntime

from ...comm.arrays import Array
from ...comm.errors import UsageError
from ...comm.job.rank import Rank
from ...comm.job_memory.progress import Progress
from ...comm.rendezvous.rendezvous import Rendezvous
from ...comm.request_memory.tensor_arena import TensorArena
from ...comm.serving.orders import AS_ORDERED, Answer, ModelReport, ServeJob
from ...comm.serving.steps import DecodedTokens, DecoderReport, DecoderStep
from ...comm.serving.weights import WeightReply, encode_weight_reply
from ...compiler.decoders.genai_config import read_genai_config
from ..decoding.self_test import inexact
from ..decoding.step_program import StepProgram
from ..runtime.opening import open_program
from ..session.meet import use_collectives
from .failed_answer import failed_answer
from .order_source import OrderSource, OrderToDo
from .shard_model import spec_of

_LEAST_ONNXRUNTIME = (1, 32)
"""The first version whose attention takes queries of different lengths."""


def open_decoder(
    job: ServeJob, rendezvous: Rendezvous, tensors: TensorArena, progress: Progress
) -> StepServer:
    """Join the other ranks, open the decoder, and test whether it is exact.

    Raises as open_program, and UsageError where onnxruntime is too old.
    """
    assert job.decoder is not None
    _require_version()
    spec = spec_of(job, rendezvous.rank)
    use_collectives(rendezvous, spec.executor, job.collectives)
    config = read_genai_config(job.decoder.config)
    program = open_program(spec, rendezvous)
    longest = config.model.context_length
    model = StepProgram(
        program, job.decoder, rendezvous.rank.rank, min(job.decoder.capacity or longest, longest)
    )
    vocabulary = config.model.vocab_size
    columns = [int(one) for one in rendezvous.exchange(str(model.columns).encode())]
    report = DecoderReport(
        model.memory.slots,
        model.capacity,
        model.memory.slot_bytes // model.capacity,
        vocabulary,
        _first(columns, rendezvous.rank.rank, vocabulary),
        model.columns,
        config.end_tokens,
        inexact(model, vocabulary),
    )
    served = ModelReport(spec.path, (), (), (), False, _collectives(rendezvous), report)
    return StepServer(model, served, rendezvous.rank, tensors, progress)


def _first(columns: list[int], rank: int, vocabulary: int) -> int:
    """The first token whose logits a rank has: parts lie one behind the other, or each is whole."""
    return 0 if columns[rank] == vocabulary else sum(columns[:rank])


def _require_version() -> None:
    found = tuple(map(int, onnxruntime.__version__.split(".")[:2]))
    if found < _LEAST_ONNXRUNTIME:
        least = ".".join(map(str, _LEAST_ONNXRUNTIME))
        raise UsageError(
            f"onnxruntime {onnxruntime.__version__} cannot generate text: install onnxruntime "
            f"{least} or newer, which needs Python 3.11 or newer."
        )


def _collectives(rendezvous: Rendezvous) -> str:
    return str(rendezvous.choice) if rendezvous.rank.world_size > 1 else ""


class StepServer:
    """See OrderServer. One decoder, and the arena for results."""

    def __init__(
        self,
        model: StepProgram,
        report: ModelReport,
        rank: Rank,
        tensors: TensorArena,
        progress: Progress,
    ) -> None:
        assert report.decoder is not None
        self.report = report
        self._model = model
        self._first = report.decoder.first
        self._columns = report.decoder.columns
        self._rank = rank.rank
        self._alone = rank.world_size == 1
        self._tensors = tensors
        self._progress = progress
        self._run_time = 0  # nanoseconds

    def carry_out(self, number: int, order: OrderToDo, orders: OrderSource) -> None:
        """See OrderServer."""
        begun = time.monotonic_ns()
        answer = self._answer(order)
        self._run_time += time.monotonic_ns() - begun
        self._progress.note_times(self._run_time, 0)
        orders.reply(number, self._rank, answer)
        if answer.error and not self._alone:
            orders.hold(number, self._rank)

    def reply(self, question: bytes) -> bytes:
        """See OrderServer: its weights stay."""
        text = "the weights of a decoder are not updated."
        return encode_weight_reply(WeightReply(error="UsageError", text=text))

    def _answer(self, order: OrderToDo) -> Answer:
        before = self._progress.count
        try:
            if not isinstance(order, DecoderStep):
                raise UsageError("got a request with tensors, expected a step of a decoder.")
            self._write(order, self._model.run(order))
            return AS_ORDERED
        except Exception as error:  # of any class: the orchestrator has to hear of it
            return failed_answer(error, entered=self._progress.count - before)

    def _write(self, step: DecoderStep, logits: Array) -> None:
        """Write the best next tokens, and the logits that are wanted, where the step says."""
        place = step.rooms[self._rank]
        results = DecodedTokens.at(self._tensors, place, len(logits), step.logits, self._columns)
        best = logits.argmax(1)
        results.tokens[...] = best + self._first
        results.best[...] = logits[np.arange(len(logits)), best]
        results.logits[...] = logits[: step.logits]
