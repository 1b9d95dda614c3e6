"""Run of one rank, for `rankmesh run`: prepares the shard, runs it, compares, and reports."""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec
import numpy as np

from ...comm.arrays import Array
from ...comm.decoding import decode_payloads
from ...comm.errors import InputError
from ...comm.host.visible_gpus import claim_gpu
from ...comm.job.shard import RANK, Shards
from ...comm.job_memory.progress import Stage
from ...comm.rendezvous.rendezvous import Rendezvous
from ...worker.partition.plan import Signature
from ...worker.runtime.opening import open_program
from ...worker.runtime.program import Program
from ...worker.session.meet import use_collectives
from . import npz
from .compare import Distance
from .default_inputs import default_inputs
from .job import OutputReport, RankReport, RunJob


class Saved(msgspec.Struct, frozen=True):
    """Message to the other ranks: whether this rank has results to save, and their digest."""

    has_results: bool
    digest: str


def run_rank(job: RunJob, rendezvous: Rendezvous) -> RankReport:
    """Carry out `job` as the rank of `rendezvous`; raises the errors of comm/errors.py."""
    number = rendezvous.rank.device
    spec = job.spec.at(
        Shards(job.spec.path, job.count).path(rendezvous.rank.rank),
        claim_gpu(number) if job.spec.device == "gpu" else number,
    )
    use_collectives(rendezvous, spec.executor, job.collectives)
    program = open_program(spec, rendezvous)
    rendezvous.enter(Stage.RUNNING)
    try:
        report = _ran(job, rendezvous, spec.path, program)
    finally:
        program.close()
    program.wait_until_kept()  # the report is taken for the end of the run
    return report


def _ran(job: RunJob, rendezvous: Rendezvous, path: str, program: Program) -> RankReport:
    rank = rendezvous.rank.rank
    inputs, remarks = _inputs(job, path, program, rendezvous)
    references = _references(job, program, rank)
    outputs = program.predict(inputs)
    seconds, in_collectives = _timed(program, inputs, job.repeat)
    saved = _save(job, rendezvous, program, outputs)
    reports = tuple(_output(s, outputs[s.name], references, job) for s in program.plan.outputs)
    return RankReport(
        rank,
        path,
        reports,
        seconds,
        in_collectives,
        rendezvous.choice,
        saved,
        len(program.plan.collectives),
        remarks,
    )


def _inputs(
    job: RunJob, path: str, program: Program, rendezvous: Rendezvous
) -> tuple[dict[str, Array], tuple[str, ...]]:
    """The inputs of this rank, and remarks on those that were not given."""
    if job.inputs is None:
        return default_inputs(job.spec, path, program.plan.inputs, rendezvous)
    outputs = [s.name for s in program.plan.outputs]
    file = job.inputs.replace(RANK, str(rendezvous.rank.rank))
    return npz.read_inputs(file, program.plan.inputs, outputs), ()


def _references(job: RunJob, program: Program, rank: int) -> dict[str, Array]:
    """The references of this rank's results; InputError for a file that lacks some of them."""
    outputs = program.plan.outputs
    if job.expect is None:
        return {}
    path = job.expect.replace(RANK, str(rank))
    found = npz.read_references(path, outputs, [s.name for s in program.plan.inputs])
    missing = [f"out_{i}" for i, s in enumerate(outputs) if s.has_result and s.name not in found]
    if found and missing:
        raise InputError(
            f"{path}: has no reference {missing[0]} of {len(outputs)} outputs; it has "
            f"{sorted(found)}."
        )
    return found


def _timed(
    program: Program, inputs: Mapping[str, Array], repeat: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    seconds, in_collectives = [], []
    for _ in range(repeat):
        before = program.collective_seconds
        start = time.perf_counter()
        program.predict(inputs)
        seconds.append(time.perf_counter() - start)
        in_collectives.append(program.collective_seconds - before)
    return tuple(seconds), tuple(in_collectives)


def _save(
    job: RunJob, rendezvous: Rendezvous, program: Program, outputs: Mapping[str, Array]
) -> str:
    """Save this rank's results, or without `{rank}` those of the lowest rank that has any.

    Returns a remark for the report, or "".
    """
    if job.save is None:
        return ""
    arrays = {
        f"out_{i}": outputs[s.name] for i, s in enumerate(program.plan.outputs) if s.has_result
    }
    rank = rendezvous.rank.rank
    if RANK in job.save:
        npz.write(job.save.replace(RANK, str(rank)), arrays)
        return ""
    mine = Saved(bool(arrays), _digest(arrays))
    all_ranks = decode_payloads(rendezvous.exchange(msgspec.msgpack.encode(mine)), Saved)
    writer = next((r for r, other in enumerate(all_ranks) if other.has_results), None)
    if writer != rank:
        return ""
    npz.write(job.save, arrays)
    if len({other.digest for other in all_ranks if other.has_results}) == 1:
        return ""
    return (
        f"{job.save} has the outputs of rank {rank}; other ranks' are not bit for bit the same: "
        f"put {RANK} into the name to save all."
    )


def _digest(arrays: Mapping[str, Array]) -> str:
    from hashlib import blake2b  # loads OpenSSL

    digest = blake2b()
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype.name} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _output(
    signature: Signature, array: Array, references: Mapping[str, Array], job: RunJob
) -> OutputReport:
    compared = signature.has_result and signature.name in references
    distance = Distance(array, references[signature.name], job.rtol, job.atol) if compared else None
    return OutputReport(
        signature.name,
        signature.has_result,
        array.dtype.name,
        array.shape,
        array.nbytes,
        array.size,
        tuple(str(value) for value in np.ravel(array)[:10]),
        compared,
        distance.max_absolute if distance else 0.0,
        distance.max_relative if distance else 0.0,
        distance.error if distance else "",
    )
