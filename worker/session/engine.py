"""Specification of a Model's program: rank, file, device and threads, from Context and Config."""

from __future__ import annotations

import os

import msgspec

from ...comm.errors import ModelError
from ...comm.host.resources import gpu_count
from ...comm.host.visible_gpus import claim_gpu
from ...comm.job.rank import Rank
from ...comm.job.shard import find_shards
from ...comm.rendezvous.rendezvous import Rendezvous
from ...comm.text import counted
from ...compiler.mindir.crypto import Decryption
from ...compiler.model_file.config import Config
from ...compiler.model_file.model_assets import ModelAssets
from ..api_types.context import Context
from ..cache.settings import configured_cache
from ..executors.affinity import choose_cores
from ..executors.settings import ExecutorSettings, PrecisionSettings
from ..runtime.opening import open_program
from ..runtime.program import Program
from ..runtime.program_spec import ProgramSpec
from ..runtime.weight_source import PRIVATE, WeightSource
from .executor_options import with_options
from .hardware import agree_on_cores, device_id, device_of_targets
from .loading_line import LoadingLine, ShownRendezvous
from .meet import use_collectives


def model_spec(
    path: str,
    context: Context,
    config: Config,
    rendezvous: Rendezvous,
    decryption: Decryption | None = None,
    workspace: bool = False,
) -> ProgramSpec:
    """The program of the model at `path` on this rank. All ranks call this: they share out cores.

    `workspace` is whether the model computes in one memory with others of this process. Raises
    ModelError where there is no shard for this rank, and UsageError.
    """
    device = device_of_targets(context.target)
    precision = PrecisionSettings.asked(context, config, device)
    executor = _executor_settings(context, rendezvous, device, workspace)
    executor = with_options(executor, context, config, precision)
    shard = _shard(path, rendezvous.rank)
    assets = ModelAssets.of(config, context.group_info_file)
    # the cache knows models by their own files alone
    cache = configured_cache(config) if device == "cpu" and not assets else None
    return ProgramSpec(shard, executor, precision, cache, decryption, assets)


def _executor_settings(
    context: Context, rendezvous: Rendezvous, device: str, workspace: bool
) -> ExecutorSettings:
    """The executor's settings, with a core per thread where the context binds them."""
    cores = agree_on_cores(rendezvous)
    if cores and rendezvous.rank.local_size > 1:
        os.sched_setaffinity(0, cores)
    listed = context.cpu.thread_affinity_core_list
    threads = context.cpu.thread_num or max(1, len(listed or cores))
    bound = choose_cores(context.cpu, threads, cores or sorted(os.sched_getaffinity(0)))
    number = device_id(device, context, rendezvous.rank, gpu_count())
    return ExecutorSettings(
        device,
        claim_gpu(number) if device == "gpu" else number,
        threads,
        threads <= len(cores),
        own_pools=rendezvous.rank.world_size == 1,
        workspace=workspace,
        cores=bound,
    )


def _shard(path: str, rank: Rank) -> str:
    """The file of this rank; the model may be one for all ranks, or numbered ones, one per rank."""
    shards = find_shards(path)
    if shards.numbered and shards.count != rank.world_size:
        raise ModelError(
            f"{path}: names {counted(shards.count, 'shard')} ({shards.path(0)}, ...), and this is "
            f"a job of {counted(rank.world_size, 'rank')}: start {shards.count} (rankmesh launch "
            f"--ranks {shards.count} SCRIPT, or mpirun -n {shards.count} ...), or name one file."
        )
    return shards.path(rank.rank)


def open_model(
    spec: ProgramSpec, rendezvous: Rendezvous, source: WeightSource = PRIVATE
) -> Program:
    """Open the program of `spec` with the ranks of `rendezvous`; a terminal shows its progress.

    `source` is where the weights come from. Raises as open_program.
    """
    use_collectives(rendezvous, spec.executor)
    if source is not PRIVATE:  # the cache knows models by their own files alone
        spec = msgspec.structs.replace(spec, cache=None)
    with LoadingLine(spec.path, rendezvous.rank) as line:
        return open_program(spec, ShownRendezvous(rendezvous, line), source)
