"""From a runner's options to the programs of its workers: which file, which devices, which threads."""

from __future__ import annotations

import logging
import os
import socket

from ..comm.errors import ModelError, UsageError
from ..comm.gpus import gpu_count
from ..comm.rank import Rank
from ..comm.shard import find_shards
from .cache.build_cache import build_cache
from .companions import Companions
from .device import choose_device, device_id
from .dynamic_shapes import DynamicShapes
from .executors.base import Executor
from .executors.packed import Packed, PackedFolder
from .executors.precise import Precise
from .mindir.crypto import decryption_from_environment
from .precision import Precision
from .runner_options import RunnerOptions
from .runner_pools import Pools, plan_pools
from .runner_programs import Place, Programs
from .runner_threads import Crew, Machine, plan_crew
from .weights.settings import WeightSettings

_LOG = logging.getLogger("rankmesh")


def open_programs(path: str, options: RunnerOptions) -> tuple[Programs, Crew]:
    """The programs of all workers, and how many workers there are. Raises the errors of comm/errors.py."""
    crew = plan_crew(options.context.cpu, options.workers, Machine.here())
    companions = Companions.of(options.context, options.config)
    declared = DynamicShapes.of(options.context.target[0].lower(), options.config)
    if WeightSettings.of(options.config).live:
        _LOG.warning("%s: keys of shared and updated weights have no effect in a runner: use Model.", path)
    device = choose_device(options.context.target)
    pools = plan_pools(options.config, options.context, crew)
    precision = Precision.asked(options.context, options.config, device)
    places = _places(options, device, crew, pools, precision, companions)
    programs = Programs(_whole(path), _rank(), places, decryption_from_environment(os.environ, "AES-GCM"),
                        companions)
    if declared:
        programs.declare(declared, device != "cpu")
    precision.warn_of_unknown(path)
    return programs, crew


def _places(options: RunnerOptions, device: str, crew: Crew, pools: Pools, precision: Precision,
            companions: Companions) -> list[Place]:
    """Where each worker's programs run; workers of one pool on one device have theirs in common."""
    numbers = _device_numbers(options, device, crew.workers)
    folder = PackedFolder() if pools.count > 1 and device == "cpu" else None  # or each pool had weights of its own
    made = {}
    for place in {(number, worker % pools.count) for worker, number in enumerate(numbers)}:
        own = _executor(device, *place, crew, pools)
        executor = Precise(Packed(own, folder) if folder else own, precision, device)
        # the cache knows models by their own files alone
        cache = None if companions else build_cache(options.config, _rank(), executor, device)
        made[place] = Place(executor, cache)
    return [made[number, worker % pools.count] for worker, number in enumerate(numbers)]


def _device_numbers(options: RunnerOptions, device: str, workers: int) -> list[int]:
    """The number of each worker's device."""
    listed = options.device_ids
    if listed and device == "cpu":
        _LOG.warning("device_ids %s have no effect on a CPU.", list(listed))
    if not listed or device == "cpu":
        return [device_id(device, options.context, _rank(), gpu_count())] * workers
    if device == "gpu" and max(listed) >= gpu_count():
        raise UsageError(f"device_ids are {list(listed)}, and this machine has the GPUs 0 to {gpu_count() - 1}.")
    return [listed[worker % len(listed)] for worker in range(workers)]


def _executor(device: str, number: int, pool: int, crew: Crew, pools: Pools) -> Executor:
    """Sessions that all workers of a pool run: one thread is the worker's own, the others are the pool's."""
    from .executors.onnxruntime import OnnxRuntime

    spin = crew.workers + pools.count * pools.helpers <= len(os.sched_getaffinity(0))
    return OnnxRuntime(device, number, 1 + pools.helpers, spin, own_pools=True, cores=pools.cores(pool, crew))


def _whole(path: str) -> str:
    """The file at `path`, which must be a whole model."""
    shards = find_shards(path)
    if shards.numbered:
        raise ModelError(f"{path}: there are {shards.count} shards ({shards.path(0)}, ...), and a runner runs whole "
                         f"models: name one file, or run the shards with Model, one process per rank.")
    return shards.path(0)


def _rank() -> Rank:
    """A runner never meets other ranks, whoever started its process."""
    return Rank(0, 1, 0, 1, socket.gethostname(), 0)
