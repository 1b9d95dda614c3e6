"""Verification: proves a plan on random inputs, against the model that is not sliced.

The ranks run in lockstep in this process. Every value that all ranks hold whole is compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ....comm.errors import ModelError
from ...source_graph.source_graph import SourceGraph
from ..placement.placements import WHOLE
from ..placement.slice_plan import SlicePlan
from .blocks import BlockCutter, ProofBlock
from .localise import localise
from .lockstep import merged
from .proof_trials import is_explained, nudged, trials
from .trial import Difference, MappedSession, relative_error
from .weight_part import WeightPart
from .widened import is_narrow, widened, widened_weights
from .write import Progress, Stored

BLOCK_BYTES = 256 << 20
"""Bytes of the weights of a block."""

_PERIOD = 1_000_003
"""Random numbers that fill a weight of zeros, again and again: a prime, so that no two rows are
alike."""

_TOLERANCES = {
    ir.DataType.FLOAT: 1e-5,
    ir.DataType.DOUBLE: 1e-6,
    ir.DataType.FLOAT16: 2e-2,
}
_QUANTISED = (
    *(ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT4, ir.DataType.UINT4),
    *(ir.DataType.FLOAT8E4M3FN, ir.DataType.FLOAT8E4M3FNUZ),
    *(ir.DataType.FLOAT8E5M2, ir.DataType.FLOAT8E5M2FNUZ),
)
_INSIDE = 4
"""How many times the tolerance of outputs other values may have: rounding grows on its way where a
model divides by small numbers, and shrinks again."""

_REMEDY = (
    ". No shard was written. Let a plan file (--plan) compute the nodes before it whole, and "
    "report the model."
)

_COARSE = 5e-2
"""The tolerance of models with quantised values: a rounding that falls otherwise changes a whole
step."""


@dataclass(slots=True)
class Proof:
    """The record of a verification: what was compared, and the largest error.

    `error` is the largest difference to the largest value of a tensor; `sizes` has the sizes of
    open dimensions that were tried, `magnitudes` how many times as large as usual inputs were, too;
    `unsure` says why larger ones were not.
    """

    mode: str
    tolerance: float
    blocks: int = 0
    compared: int = 0
    error: float = 0.0
    sizes: Sequence[Mapping[str, int]] = ()
    magnitudes: Sequence[float] = ()
    unsure: str = ""

    def __str__(self) -> str:
        if self.mode == "none":
            return "not verified"
        tried = len(self.sizes)
        inside = f", inside {_INSIDE * self.tolerance:.0e}" if self.error > self.tolerance else ""
        return (
            f"verified ({self.mode}): {self.compared} values compared in {self.blocks} block"
            f"{'s' if self.blocks != 1 else ''} with {tried} choice{'s' if tried != 1 else ''} of "
            f"sizes, {self._larger()}largest relative error {self.error:.1e} "
            f"(tolerance {self.tolerance:.0e}{inside}){self.unsure and f'; {self.unsure}'}"
        )

    def _larger(self) -> str:
        """The larger inputs that were tried."""
        listed = " and ".join(f"{scale:,.0f}" for scale in self.magnitudes)
        return f"inputs also {listed} times as large, " if listed else ""


def verify(
    graph: SourceGraph,
    plan: SlicePlan,
    mode: str = "blocks",
    stored: Sequence[Stored] = (),
    progress: Progress | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> Proof:
    """Prove a plan; ModelError names the first value that differs.

    `mode` is "blocks", of weights of `block_bytes` each, or "full", all in one block. `stored` has
    the weights of each rank as its files hold them: then these are what is tried. Graphs of
    bfloat16 are tried in float32.
    """
    if is_narrow(graph):
        graph, stored = widened(graph), [widened_weights(one) for one in stored]
    most = None if mode == "full" else block_bytes
    return _Verification(graph, plan, Proof(mode, tolerance(graph)), stored, most).run(progress)


class _Verification:
    """The values of the whole model for each choice of sizes, while block after block is run."""

    def __init__(
        self,
        graph: SourceGraph,
        plan: SlicePlan,
        proof: Proof,
        stored: Sequence[Stored],
        most: int | None,
    ) -> None:
        self._graph = graph
        self._cutter = BlockCutter(graph, plan, most)
        self._stored = stored
        self._trials = trials(graph)
        self._values = [one.feeds(graph) for one in self._trials]
        self._ends = {value.name for value in graph.model.graph.outputs}
        self._refused: dict[int, str] = {}
        self._proof = proof

    def run(self, progress: Progress | None) -> Proof:
        """Run all blocks."""
        blocks = len(self._cutter)
        for number, block in enumerate(self._cutter):
            self._check(block)
            self._proof.blocks += 1
            if progress is not None:
                progress("verify", min(number + 1, blocks), blocks)
        if not self._proof.compared:
            raise ModelError("No value could be compared: slice with --verify none, or report it.")
        tried = [one for at, one in enumerate(self._trials) if at not in self._refused]
        self._proof.sizes = [one.sizes for one in tried if one.is_plain]
        self._proof.magnitudes = [one.scale for one in tried if not one.is_plain]
        return self._proof

    def _check(self, block: ProofBlock) -> None:
        """Run one block whole and sliced, for all sizes, and compare."""
        _randomise(block.graph)
        whole = MappedSession(block.graph.model.clone())
        plan, first = block.plan, block.stage * block.plan.ranks
        sliced = MappedSession(
            merged([self._local(block.graph, plan, r, first + r) for r in range(plan.world_size)])
        )
        last = first + plan.world_size - plan.ranks
        for index, values in enumerate(self._values):
            if index in self._refused:
                continue
            feeds = {name: values[source] for name, source in block.inputs.items()}
            try:
                expected = whole.run(feeds)
            except ModelError as error:
                self._refuse(index, error)
                continue
            got = sliced.run(feeds)[-len(block.outputs) * plan.ranks :]
            found = self._differing(block.outputs, expected, got, last)
            if found is not None and not self._is_unsure(index, found, whole, feeds, expected):
                raise ModelError(f"{found}{self._trials[index].note}{_REMEDY}")
            if index in self._refused:
                continue
            values.update(zip(block.outputs, expected, strict=True))
            for name in block.done:
                values.pop(name, None)

    def _refuse(self, index: int, error: ModelError) -> None:
        """Go on without a choice of sizes that the model itself refuses, unless it is the last."""
        self._leave_out(index, str(error))
        if all(at in self._refused for at, one in enumerate(self._trials) if one.is_plain):
            raise error

    def _leave_out(self, index: int, reason: str) -> None:
        self._refused[index] = reason
        self._values[index].clear()

    def _is_unsure(
        self,
        index: int,
        found: Difference,
        whole: MappedSession,
        feeds: Mapping[str, np.ndarray],
        expected: Sequence[np.ndarray],
    ) -> bool:
        """Leave larger inputs out for which a rounding changes the model as much as slicing does;
        return whether these are such ones.
        """
        trial = self._trials[index]
        if trial.is_plain:
            return False
        own = relative_error(whole.run(nudged(feeds)), expected)
        if not is_explained(found.error, own):
            return False
        self._proof.unsure = (
            f"for inputs {trial.scale:,.0f} times as large, one rounding changes value "
            f"'{found.value}' as much as slicing does: nothing behind it was compared"
        )
        self._leave_out(index, self._proof.unsure)
        return True

    def _local(self, graph: SourceGraph, plan: SlicePlan, rank: int, file: int) -> ir.Model:
        """The graph of one rank, with the weights of its file where these are not zero."""
        local = localise(graph, plan, rank)
        stored = self._stored[file] if self._stored else {}
        random = _random_names(graph)
        for name, part in local.weights.items():
            found = stored.get((part.weight, part.placement))
            if found is not None and part.weight not in random:
                local.model.graph.initializers[name].const_value = found
        return local.model

    def _differing(
        self,
        outputs: Sequence[str],
        expected: Sequence[np.ndarray],
        got: Sequence[np.ndarray],
        first: int,
    ) -> Difference | None:
        """The first output of ranks, from the rank `first` on, whose error is too large."""
        count = len(outputs)
        for position, found in enumerate(got):
            rank, index = divmod(position, count)
            error = relative_error([found], [expected[index]])
            self._proof.compared += 1
            most = self._proof.tolerance * (1 if outputs[index] in self._ends else _INSIDE)
            if not error <= most:
                return Difference(outputs[index], first + rank, error, most)
            self._proof.error = max(self._proof.error, error)
        return None


def _tensors(graph: SourceGraph) -> Iterator[tuple[str, ir.TensorProtocol]]:
    for name, value in graph.weights.items():
        assert value.const_value is not None
        yield name, value.const_value


def tolerance(graph: SourceGraph) -> float:
    """The largest relative error that rounding explains, by the types of the model's values.

    Weights of few bits are the same on all ranks; only values that are computed round otherwise.
    """
    found = 1e-6
    for node in graph.nodes:
        if _rounds_inside(node) or any(value.dtype in _QUANTISED for value in node.outputs):
            found = max(found, _COARSE)
        for value in (*node.inputs, *node.outputs):
            if value is not None and value.dtype is not None:
                found = max(found, _TOLERANCES.get(value.dtype, 0.0))
    return found


def _rounds_inside(node: ir.Node) -> bool:
    """Whether an operator rounds its input to 8 bits, though it takes and returns floats."""
    level = node.attributes.get("accuracy_level")
    return node.op_type.startswith("DynamicQuantize") or level is not None and level.as_int() == 4


_RANDOM = "rankmesh.random"


def _randomise(graph: SourceGraph) -> None:
    """Replace weights of zeros by random ones, as zeros would hide every error."""
    for name, tensor in _tensors(graph):
        if name in graph.constants or tensor.size <= 16 or tensor.dtype not in _TOLERANCES:
            continue
        if next(WeightPart(name, tensor, WHOLE, 0).pieces(), None) is None:
            graph.weights[name].const_value = _random(name, tensor)


def _random_names(graph: SourceGraph) -> set[str]:
    return {name for name, tensor in _tensors(graph) if tensor.doc_string == _RANDOM}


def _random(name: str, tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """Random numbers of the shape and type of a weight, as large as trained ones are."""
    shape = tensor.shape.numpy()
    fan = max(1, tensor.size // shape[-1]) if len(shape) > 1 else 4
    draw = np.random.default_rng(sum(name.encode()))
    some = draw.standard_normal(min(tensor.size, _PERIOD), np.float32) / np.float32(fan**0.5)
    array = np.resize(some.astype(tensor.dtype.numpy()), shape)
    return ir.Tensor(array, dtype=tensor.dtype, name=name, doc_string=_RANDOM)
