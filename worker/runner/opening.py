"""Opening of a runner: turns its options into the specs and programs of its workers."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from ...comm.errors import ModelError, UsageError
from ...comm.host.resources import gpu_count
from ...comm.job.rank import Rank
from ...comm.job.shard import find_shards
from ...comm.loggers import LOG
from ...compiler.mindir.crypto import decryption_from_environment
from ...compiler.model_file.config import Config
from ...compiler.model_file.model_assets import ModelAssets
from ..api_types.context import Context, RunnerConfig
from ..cache.settings import configured_cache
from ..executors.packed import PackedFolder
from ..executors.settings import ExecutorSettings, PrecisionSettings
from ..runtime.program_spec import ProgramSpec
from ..runtime.weight_source import PRIVATE, PackedWeights
from ..session.dynamic_shapes import DynamicShapes
from ..session.executor_options import with_options
from ..session.hardware import device_id, device_of_targets
from ..weights.settings import WeightSettings
from .programs import RunnerPrograms
from .threads import ThreadPools, UsableCores, WorkerLayout, plan_pools, plan_workers


def open_programs(path: str, options: RunnerOptions) -> tuple[RunnerPrograms, WorkerLayout]:
    """The programs of all workers, and the layout of the workers. Raises the errors of
    comm/errors.py.
    """
    layout = plan_workers(options.context.cpu, options.workers, UsableCores.here())
    assets = ModelAssets.of(options.config, options.context.group_info_file)
    declared = DynamicShapes.of(options.context.target[0].lower(), options.config)
    if WeightSettings.of(options.config).live:
        LOG.warning(
            "%s: keys of shared and updated weights have no effect in a runner: use Model.", path
        )
    device = device_of_targets(options.context.target)
    pools = plan_pools(options.config, options.context, layout)
    precision = PrecisionSettings.asked(options.context, options.config, device)
    executors = _executors(options, device, layout, pools, precision)
    # the cache knows models by their own files alone
    cache = configured_cache(options.config) if device == "cpu" and not assets else None
    key = decryption_from_environment(os.environ, "AES-GCM")
    made = {
        id(one): ProgramSpec(_whole(path), one, precision, cache, key, assets) for one in executors
    }
    # without a folder in common each pool would have weights of its own
    source = PackedWeights(PackedFolder()) if pools.count > 1 else PRIVATE
    programs = RunnerPrograms([made[id(one)] for one in executors], _rank(), source)
    if declared:
        programs.declare(declared, device != "cpu")
    return programs, layout


def _executors(
    options: RunnerOptions,
    device: str,
    layout: WorkerLayout,
    pools: ThreadPools,
    precision: PrecisionSettings,
) -> list[ExecutorSettings]:
    """The executor settings of each worker; workers of one pool on one device share one object."""
    spin = layout.workers + pools.count * pools.helpers <= len(os.sched_getaffinity(0))
    made = {}
    found = []
    for worker, number in enumerate(_device_numbers(options, device, layout.workers)):
        pool = worker % pools.count
        if (number, pool) not in made:  # one thread is the worker's own, the others are the pool's
            settings = ExecutorSettings(
                device,
                number,
                1 + pools.helpers,
                spin,
                own_pools=True,
                cores=tuple(pools.cores(pool, layout)),
            )
            asked = with_options(settings, options.context, options.config, precision)
            made[number, pool] = asked
        found.append(made[number, pool])
    return found


def _device_numbers(options: RunnerOptions, device: str, workers: int) -> list[int]:
    """The number of each worker's device."""
    listed = options.device_ids
    if listed and device == "cpu":
        LOG.warning("device_ids %s have no effect on a CPU.", list(listed))
    if not listed or device == "cpu":
        return [device_id(device, options.context, _rank(), gpu_count())] * workers
    if device == "gpu" and max(listed) >= gpu_count():
        raise UsageError(
            f"device_ids are {list(listed)}, and this machine has the GPUs 0 to {gpu_count() - 1}."
        )
    return [listed[worker % len(listed)] for worker in range(workers)]


def _whole(path: str) -> str:
    """The file at `path`, which must be a whole model."""
    shards = find_shards(path)
    if shards.numbered:
        raise ModelError(
            f"{path}: there are {shards.count} shards ({shards.path(0)}, ...), and a runner runs "
            f"whole models: name one file, or run the shards with Model, one process per rank."
        )
    return shards.path(0)


def _rank() -> Rank:
    """The rank of a runner, which runs alone under any launcher."""
    return Rank(0, 1, 0, 1, socket.gethostname(), 0)


@dataclass(frozen=True, slots=True)
class RunnerOptions:
    """`workers` is 0 where the machine decides; worker i runs on device `device_ids[i %
    len(device_ids)]`.
    """

    context: Context
    workers: int
    device_ids: tuple[int, ...]
    config: Config

    @classmethod
    def of(cls, given: Context | RunnerConfig) -> RunnerOptions:
        """The options in a Context, or in a RunnerConfig of older scripts.

        Raises UsageError where their configuration cannot be read, or where a RunnerConfig names a
        context without a device.
        """
        if isinstance(given, Context):
            parallel = given.parallel
            config = _read(parallel.config_path, parallel.sections)
            return cls(given, parallel.workers_num, tuple(parallel.device_ids), config)
        if given.context is not None and not given.context.has_device:
            raise UsageError(
                "the context has no device: append_device_info(CPUDeviceInfo()), or set its target."
            )
        config = _read(given.config_path, given.config_info)
        return cls(given.context or Context(), given.workers_num, (), config)


def _read(path: str, sections: dict[str, dict[str, str]]) -> Config:
    try:
        return (Config.read(path) if path else Config()).updated(sections)
    except ValueError as error:
        raise UsageError(f"the configuration cannot be used: {error}") from error
