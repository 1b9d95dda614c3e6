"""Opening of programs: executor, precision and model cache are put together as a spec says.

Models, runners, ranks of an orchestrator and ranks of `rankmesh run` all open their programs here.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import cast

import msgspec

from ...comm.collectives.device_choice import HOST
from ...comm.decoding import decode_payloads
from ...comm.job.rank import Rank
from ...comm.job_memory.progress import Stage
from ...comm.loggers import LOG
from ...comm.rendezvous.rendezvous import Rendezvous
from ...compiler.onnx_graph.external import NO_MEMORY
from ..cache.build_cache import Build, BuildCache, open_cache, read_build
from ..executors.base import DeviceQueue, Executor, Runnable, Shareable, device_queue
from ..executors.precise import Precision, PrecisionExecutor
from ..executors.registry import executor_named, open_executor, suited_to
from ..executors.settings import executor_name
from ..partition.collective_choice import agreed_choice, choice_by_devices
from ..partition.equal_shards import asked, check_equal_shards
from ..partition.fingerprint import Fingerprint, fingerprint
from ..partition.plan import Origin, Segment
from ..partition.shard_check import check_shards
from .joined_build import joined_build
from .program import Program
from .program_spec import ProgramSpec
from .stage_devices import join_on_devices
from .weight_source import PRIVATE, WeightSource

_ENCODE = msgspec.msgpack.Encoder().encode
executor_named(
    executor_name() or suited_to("cpu")
)  # imported here: ranks import all at once, which is fast


def open_program(
    spec: ProgramSpec, rendezvous: Rendezvous, source: WeightSource = PRIVATE
) -> Program:
    """Read a shard, check it against the other ranks', prepare it; all ranks of the job call this.

    `source` is where the weights come from. The plain text of an encrypted file is gone once the
    program is open. Raises ModelError (unreadable, unsupported), ShardMismatch (does not fit the
    others'), RankFailed (another rank did not get this far), and UsageError.
    """
    rank, precision = rendezvous.rank, Precision(spec.precision.mode, spec.precision.nodes)
    executor = _executor(spec, precision, source)
    cache = open_cache(spec.cache, rank, executor)
    rendezvous.enter(Stage.READING)
    build = read_build(
        spec.path, rank, executor, spec.input_shapes, spec.decryption, cache, spec.assets
    )
    rendezvous.enter(Stage.CHECKING)
    queue = device_queue(executor)
    prints = _checked(spec, build, rendezvous, source.live, queue)
    rendezvous.enter(Stage.BUILDING)
    _choose(rendezvous, prints)
    collectives = rendezvous.collectives(_groups(prints), _pairs(prints))
    join_on_devices(collectives, rendezvous, prints, queue)
    joined = joined_build(build, executor, rendezvous)
    with source.opening(joined, collectives, rank, executor) as (opened, live):
        cores = spec.executor.cores[:1]
        program = Program.ready(opened, collectives, live, cores, cache, queue)
    del opened, joined
    _keep(spec, build, cache)
    del build
    rendezvous.exchange(b"")  # no rank runs before all are ready
    rendezvous.enter(Stage.READY)
    if not program.kept and spec.input_shapes is None:  # a kept build has looked at no node
        precision.warn_of_unknown(spec.path)
    return program


def reopen(spec: ProgramSpec, program: Program, rank: Rank, source: WeightSource) -> Program:
    """The program that `spec` opened, with weights of another source, for later requests.

    Both programs use the same collectives.
    """
    executor = _executor(spec, Precision(spec.precision.mode, spec.precision.nodes), source)
    plan, collectives = program.plan, program.collectives
    build = Build(
        plan, NO_MEMORY, lambda segment: executor.prepare(segment, plan.folder), program.kept
    )
    with source.opening(build, collectives, rank, executor) as (opened, live):
        queue = device_queue(executor)
        return Program.ready(opened, collectives, live, program.cores, program.cache, queue)


def _checked(
    spec: ProgramSpec,
    build: Build,
    rendezvous: Rendezvous,
    live: bool,
    queue: DeviceQueue | None,
) -> list[Fingerprint]:
    """The fingerprints of all ranks, which fit together; raises ShardMismatch where not."""
    rank = rendezvous.rank.rank
    policy = asked(spec.allow_equal_shards, spec.same_inputs)
    place = queue.place() if queue else HOST
    mine = msgspec.structs.replace(
        fingerprint(build.plan, rank, live, policy), collectives=rendezvous.choice, place=place
    )
    prints = decode_payloads(rendezvous.exchange(_ENCODE(mine)), Fingerprint)
    check_shards(prints, agreed_choice(prints).name)
    check_equal_shards(prints, rank, partial(_whole_origins, build, rank), rendezvous.exchange)
    return prints


def _choose(rendezvous: Rendezvous, prints: list[Fingerprint]) -> None:
    """Have the ranks join the collectives of their devices, where all results stay on these."""
    rendezvous.choice = choice_by_devices(prints)
    if len(prints) > 1:
        LOG.info("%s: collectives %s", rendezvous.rank, rendezvous.choice)


def _keep(spec: ProgramSpec, build: Build, cache: BuildCache | None) -> None:
    """Keep a build in the cache, but for one that is there or whose plain text no file may hold."""
    if build.memory:
        gc.collect()  # lowering may leave cycles, which would hold the plain text
    elif cache and not build.kept:
        cache.keep(build.plan, spec.input_shapes, build.files)


def open_twins(
    specs: Sequence[ProgramSpec], rendezvous: Rendezvous, source: WeightSource = PRIVATE
) -> list[Program]:
    """One program per spec, in a process that runs alone, each for a thread of its own.

    The specs differ in their executors only. Programs of one spec object share their sessions.
    Raises as open_program.
    """
    precision = Precision(specs[0].precision.mode, specs[0].precision.nodes)
    opened: dict[int, Iterator[Program]] = {}
    for spec in specs:
        if id(spec) not in opened:
            count = sum(other is spec for other in specs)
            opened[id(spec)] = iter(_twins(spec, rendezvous, count, precision, source))
    if specs[0].input_shapes is None:
        precision.warn_of_unknown(specs[0].path)
    return [next(opened[id(spec)]) for spec in specs]


def _twins(
    spec: ProgramSpec,
    rendezvous: Rendezvous,
    count: int,
    precision: Precision,
    source: WeightSource,
) -> list[Program]:
    executor = _executor(spec, precision, source)
    cache = open_cache(spec.cache, rendezvous.rank, executor)
    rendezvous.enter(Stage.READING)
    build = read_build(
        spec.path, rendezvous.rank, executor, spec.input_shapes, spec.decryption, cache, spec.assets
    )
    rendezvous.enter(Stage.BUILDING)
    shared = joined_build(build, executor, rendezvous)
    shared = shared._replace(load=_shared(shared.load))
    programs = [
        Program.ready(shared, rendezvous.collectives([], []), queue=device_queue(executor))
        for _ in range(count)
    ]
    del shared
    _keep(spec, build, cache)
    return programs


def _executor(spec: ProgramSpec, precision: Precision, source: WeightSource) -> Executor:
    settings = msgspec.structs.replace(spec.executor, tf32=spec.precision.tf32)
    return PrecisionExecutor(source.executor(open_executor(settings)), precision)


def _shared(load: Callable[[Segment], Runnable]) -> Callable[[Segment], Runnable]:
    """`load`, once per segment; later calls get a twin of what it gave."""
    loaded: dict[int, Runnable] = {}

    def shared(segment: Segment) -> Runnable:
        known = loaded.get(id(segment))
        if known is not None:
            return cast(Shareable, known).twin()
        return loaded.setdefault(id(segment), load(segment))

    return shared


def _whole_origins(build: Build, rank: int) -> tuple[Origin, ...]:
    """The origins that every byte of the weights counts for."""
    from ..partition.origin import origins

    return origins(build.plan, rank, build.memory, whole=True)


def _groups(prints: list[Fingerprint]) -> list[tuple[int, ...]]:
    """Every set of members that a collective of any rank uses, in an order that all ranks agree on.

    Ranks whose weights may change agree on the version, all together.
    """
    used = {
        entry.call.group.ranks
        for one in prints
        for entry in one.entries
        if not entry.call.sends_to and not entry.call.receives_from
    }
    everybody = (
        {tuple(range(len(prints)))}
        if any(one.live for one in prints) and len(prints) > 1
        else set()
    )
    return sorted(used | everybody)


def _pairs(prints: list[Fingerprint]) -> list[tuple[int, int]]:
    """Every (source, destination) of point-to-point messages, likewise."""
    return sorted(
        {
            (one.rank, entry.call.group.ranks[position])
            for one in prints
            for entry in one.entries
            for position in entry.call.sends_to
        }
    )
