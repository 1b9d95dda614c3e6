"""One rank of `rankmesh run`: prepare the shard, run it, compare, report."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..comm.config import Config
from ..comm.decoding import decode_payloads
from ..comm.errors import InputError
from ..comm.progress import Stage
from ..comm.rendezvous import Meeting
from ..comm.shard import RANK, Shards
from ..worker.cache.build_cache import build_cache
from ..worker.companions import NO_COMPANIONS, Companions
from ..worker.equal_shards import asked
from ..worker.executors.onnxruntime import OnnxRuntime
from ..worker.executors.precise import Precise
from ..worker.meet import use_collectives
from ..worker.plan import Signature
from ..worker.precision import Precision
from ..worker.program import Program
from . import npz
from .compare import Distance
from .config_file import read_config
from .job import OutputReport, RankReport, RunJob

Array = NDArray[Any]
_FIRST = 10


class Saved(msgspec.Struct, frozen=True):
    """What a rank has to save, told to the others: whether it has results, and their digest."""

    has_results: bool
    digest: str


def run_rank(job: RunJob, meeting: Meeting) -> RankReport:
    """Carry out `job` as the rank of `meeting`; raises the errors of comm/errors.py."""
    rank = meeting.rank
    path = Shards(job.pattern, job.count).path(rank.rank)
    use_collectives(meeting, job.device, job.collectives)
    config = read_config(job.config)
    precision, companions = _configured(job, config)
    executor = Precise(OnnxRuntime(job.device, rank.device, job.threads, job.spin), precision, job.device)
    # the cache knows models by their own files alone
    cache = None if companions else build_cache(config, rank, executor, job.device)
    program = Program.open(path, meeting, executor, decryption=job.decryption, cache=cache, companions=companions,
                           equal_shards=asked(job.allow_equal_shards, same_inputs=RANK not in (job.inputs or "")))
    if not program.kept:
        precision.warn_of_unknown(path)
    meeting.enter(Stage.RUNNING)
    try:
        report = _ran(job, meeting, path, program)
    finally:
        program.close()
    if cache:
        cache.wait()  # whoever has a report takes it for the end
    return report


def _ran(job: RunJob, meeting: Meeting, path: str, program: Program) -> RankReport:
    rank = meeting.rank.rank
    inputs, references = _inputs(job, program, rank), _references(job, program, rank)
    outputs = program.predict(inputs)
    seconds, in_collectives = _timed(program, inputs, job.repeat)
    saved = _save(job, meeting, program, outputs)
    reports = tuple(_output(s, outputs[s.name], references, job) for s in program.plan.outputs)
    return RankReport(rank, path, reports, seconds, in_collectives, program.collectives.name, saved,
                      len(program.plan.exchanges))


def _configured(job: RunJob, config: Config) -> tuple[Precision, Companions]:
    """What the configuration says about precision and about files beside the model."""
    if job.config is None:
        return Precision.usual(job.device), NO_COMPANIONS
    from ..comm.context import Context

    context = Context()
    context.target = [job.device]
    return Precision.asked(context, config, job.device), Companions.of(context, config)


def _inputs(job: RunJob, program: Program, rank: int) -> dict[str, Array]:
    if job.inputs is None:
        return npz.ones(program.plan.inputs)
    outputs = [s.name for s in program.plan.outputs]
    return npz.read_inputs(job.inputs.replace(RANK, str(rank)), program.plan.inputs, outputs)


def _references(job: RunJob, program: Program, rank: int) -> dict[str, Array]:
    """The references of this rank's results; a file that has some but not all of them is an error."""
    outputs = program.plan.outputs
    if job.expect is None:
        return {}
    path = job.expect.replace(RANK, str(rank))
    found = npz.read_references(path, outputs, [s.name for s in program.plan.inputs])
    missing = [f"out_{i}" for i, s in enumerate(outputs) if s.has_result and s.name not in found]
    if found and missing:
        raise InputError(f"{path}: has no reference {missing[0]} of {len(outputs)} outputs; it has {sorted(found)}.")
    return found


def _timed(program: Program, inputs: Mapping[str, Array], repeat: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    seconds, in_collectives = [], []
    for _ in range(repeat):
        before, start = program.collective_seconds, time.perf_counter()
        program.predict(inputs)
        seconds.append(time.perf_counter() - start)
        in_collectives.append(program.collective_seconds - before)
    return tuple(seconds), tuple(in_collectives)


def _save(job: RunJob, meeting: Meeting, program: Program, outputs: Mapping[str, Array]) -> str:
    """Save this rank's results, or without `{rank}` those of the lowest rank that has any; returns a remark."""
    if job.save is None:
        return ""
    arrays = {f"out_{i}": outputs[s.name] for i, s in enumerate(program.plan.outputs) if s.has_result}
    rank = meeting.rank.rank
    if RANK in job.save:
        npz.write(job.save.replace(RANK, str(rank)), arrays)
        return ""
    mine = Saved(bool(arrays), _digest(arrays))
    all_ranks = decode_payloads(meeting.exchange(msgspec.msgpack.encode(mine)), Saved)
    writer = next((r for r, other in enumerate(all_ranks) if other.has_results), None)
    if writer != rank:
        return ""
    npz.write(job.save, arrays)
    same = len({other.digest for other in all_ranks if other.has_results}) == 1
    return "" if same else (f"{job.save} has the outputs of rank {rank}; other ranks' are not bit for bit the same: "
                            f"put {RANK} into the name to save all.")


def _digest(arrays: Mapping[str, Array]) -> str:
    from hashlib import blake2b  # loads OpenSSL

    digest = blake2b()
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype.name} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _output(signature: Signature, array: Array, references: Mapping[str, Array], job: RunJob) -> OutputReport:
    compared = signature.has_result and signature.name in references
    distance = Distance(array, references[signature.name], job.rtol, job.atol) if compared else None
    return OutputReport(
        signature.name, signature.has_result, array.dtype.name, array.shape, array.nbytes, array.size,
        tuple(str(value) for value in np.ravel(array)[:_FIRST]), compared,
        distance.max_absolute if distance else 0.0, distance.max_relative if distance else 0.0,
        distance.error if distance else "")
