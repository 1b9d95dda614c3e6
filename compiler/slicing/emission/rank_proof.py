"""Rank proof: the shards that were written are loaded by ranks, which run one input together.

The lockstep has the graphs of all ranks, and knows nothing of what a rank does with its file: how
it reads it, cuts it at the collectives, and has onnxruntime optimize the parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ....comm.errors import ModelError, UsageError
from ....comm.host.resources import memory_limit
from ....comm.processes.shard_trial import ShardTrial, TrialAnswer, TrialRequest
from ....comm.text import counted
from ...source_graph.source_graph import SourceGraph
from .blocks import is_plain
from .feeds import random_feeds
from .trial import MappedSession, relative_error, run_model
from .verify import Proof
from .widened import is_narrow, widened

RANKS, LOCKSTEP, NOTHING = "ranks", "lockstep only", "not verified"

_COPIES = 2
"""How many times the weights of a rank are in memory: mapped, and packed for the processor."""

_RANK_BYTES = 64 << 20
"""The memory of a rank besides its weights and activations."""

_FUSED = 1e-4
"""The least tolerance of ranks: what onnxruntime fuses, it rounds otherwise."""

_COARSE = 5e-2
"""The least tolerance of a model whose values are rounded to 8 bits, in lockstep too."""

_SPREADS = 3
"""How many times the spread of such a model ranks may be off: by so much its own answers change
when onnxruntime fuses its nodes, as it does in ranks, for then values are rounded a step further.
"""

_NARROW = 5e-2
"""The tolerance of ranks that compute in bfloat16: they are compared with float32."""


class RankProof(NamedTuple):
    """How far shards are proved, one of RANKS, LOCKSTEP and NOTHING, and a line that says so."""

    reach: str
    text: str


class WrittenShards(NamedTuple):
    """Shards in a folder that is not in place yet.

    `needed` has the bytes of weights and activations of each rank.
    """

    graph: SourceGraph
    pattern: str
    needed: Sequence[int]

    @property
    def ranks(self) -> int:
        """The number of shards."""
        return len(self.needed)


def prove_by_ranks(shards: WrittenShards, proof: Proof, trial: ShardTrial) -> RankProof:
    """Have ranks load and run shards; ModelError where they do not, or answer something else.

    Without a proof in lockstep the shards are only read. Where the memory does not suffice for all
    ranks together, each shard is loaded alone.
    """
    if proof.mode == "none":
        accepted(shards, trial.ask(TrialRequest(shards.pattern, shards.ranks, "read")))
        return RankProof(NOTHING, "each shard was read by itself")
    reason = obstacle(shards)
    if not reason:
        found = _run(shards, proof, trial)
        if isinstance(found, RankProof):
            return found
        reason = found
    return _loaded_alone(shards, reason, trial)


def obstacle(shards: WrittenShards) -> str:
    """Why the ranks cannot run together here; "" where they can."""
    inputs = shards.graph.model.graph.inputs
    odd = next((value for value in inputs if not is_plain(value)), None)
    if odd is not None and not is_narrow(shards.graph):
        return f"no numbers are drawn for the input '{odd.name}'"
    wanted = _memory(shards.needed)
    limit = memory_limit().size
    if wanted > limit:
        return (
            f"all ranks together need {wanted / 1e9:.1f} GB of memory, and this process may have "
            f"{limit / 1e9:.1f} GB"
        )
    return ""


def _memory(needed: Sequence[int]) -> int:
    """The memory of ranks that need so many bytes of weights and activations."""
    return sum(_COPIES * one + _RANK_BYTES for one in needed)


def _run(shards: WrittenShards, proof: Proof, trial: ShardTrial) -> RankProof | str:
    """The proof by a run of all ranks, or why there is none."""
    narrow, rounds = is_narrow(shards.graph), _rounds(shards.graph, proof)
    place = Path(shards.pattern).parent / "trial.npz"  # goes with the folder, if it has to
    try:
        compares, spread = _write_example(shards.graph, proof.sizes, place, rounds)
        request = TrialRequest(shards.pattern, shards.ranks, "run", str(place), compares)
        answer = trial.ask(request)
    finally:
        place.unlink(missing_ok=True)
    most = _NARROW if narrow else max(proof.tolerance, _FUSED, _SPREADS * spread)
    if answer.short_of_memory:
        return f"the ranks found too little memory together: {answer.text}"
    if narrow and answer.error:
        return f"this host does not compute with the model's bfloat16: {answer.text}"
    accepted(shards, answer)
    check_error(answer, most)
    compared = f"largest relative error {answer.largest:.1e} (tolerance {most:.0e})"
    text = f"run by {counted(shards.ranks, 'rank')} together" + f", {compared}" * compares
    return RankProof(RANKS, text)


def check_error(answer: TrialAnswer, most: float) -> None:
    """Raise ModelError where an output of the ranks has a larger relative error than `most`."""
    if not answer.largest <= most:
        raise ModelError(
            f"The ranks answer something else than the unsliced model: the largest relative error "
            f"of an output is {answer.largest:.1e}, expected at most {most:.0e}. {_ADVICE}"
        )


def _rounds(graph: SourceGraph, proof: Proof) -> bool:
    """Whether values are rounded to 8 bits: by the model, or because its weights have so many, for
    which onnxruntime rounds the inputs of products, too.
    """
    stored = any(node.op_type == "DequantizeLinear" for node in graph.nodes)
    return stored or proof.tolerance >= _COARSE


_ADVICE = (
    "No shard was written. Let a plan file (--plan) compute the nodes before it whole, and report "
    "the model."
)


def _loaded_alone(shards: WrittenShards, reason: str, trial: ShardTrial) -> RankProof:
    """Each shard loaded by itself, or only read, where the host cannot do more."""
    read = TrialRequest(shards.pattern, shards.ranks, "read")
    if _memory([max(shards.needed)]) <= memory_limit().size:
        answer = trial.ask(TrialRequest(shards.pattern, shards.ranks, "load"))
        if not (answer.short_of_memory or answer.error and is_narrow(shards.graph)):
            accepted(shards, answer)
            return RankProof(LOCKSTEP, f"{LOCKSTEP}, each shard was loaded by itself: {reason}")
    accepted(shards, trial.ask(read))
    return RankProof(LOCKSTEP, f"{LOCKSTEP}, each shard was read by itself: {reason}")


def accepted(shards: WrittenShards, answer: TrialAnswer) -> None:
    """Raise ModelError for an answer that is a failure."""
    if answer.differs:
        raise ModelError(
            f"The ranks answer something else than the unsliced model: {answer.differs}. {_ADVICE}"
        )
    if answer.error:
        folder = str(Path(shards.pattern).parent)
        text = answer.text.replace(f"{folder}/", "")
        if answer.error == UsageError.__name__:  # the shards are not to blame
            raise UsageError(f"The ranks of the proof cannot run: {text} No shard was written.")
        raise ModelError(
            f"The ranks cannot run the shards: {text} No shard was written. Make the model one "
            "that `rankmesh run` runs unsliced, or report it."
        )


def _write_example(
    graph: SourceGraph, sizes: Sequence[Mapping[str, int]], path: Path, rounds: bool
) -> tuple[bool, float]:
    """Write an input that the unsliced model takes, and the outputs, unless numpy lacks a type.

    Returns whether there are outputs, and the spread of a model that `rounds`.
    """
    if is_narrow(graph):
        graph = widened(graph)
    session = MappedSession(graph.model.clone())
    seed = list(graph.size_choices).index(sizes[0])  # as in the lockstep
    feeds = random_feeds(graph, sizes[0], seed)
    arrays = {f"in_{index}": array for index, array in enumerate(feeds.values())}
    outputs, spread = list(graph.model.graph.outputs), 0.0
    compares = all(map(is_plain, outputs))
    if compares:
        expected = session.run(feeds)
        pairs = zip(outputs, expected, strict=True)
        arrays |= {f"out_{outputs.index(value)}": array for value, array in pairs}
        if rounds:
            spread = relative_error(run_model(graph.model.clone(), feeds, fused=True), expected)
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return compares, spread
