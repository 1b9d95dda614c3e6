"""What a runner is asked for, from either generation of the API: its context, workers, devices and configuration."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ..comm.config import Config
from ..comm.context import Context
from ..comm.errors import UsageError
from ..comm.runner_config import RunnerConfig
from .runner_threads import Crew

_LOG = logging.getLogger("rankmesh")
_POOL = "shared_thread_pool"
_ENABLE = "enable_shared_thread_pool"
_LIMIT, _REMAINING = "thread_num_limit_per_worker", "thread_num_remaining_per_worker"
_MOST_TIMES = 5


@dataclass(frozen=True, slots=True)
class RunnerOptions:
    """`workers` is 0 where the machine decides; worker i runs on device `device_ids[i % len(device_ids)]`."""

    context: Context
    workers: int
    device_ids: tuple[int, ...]
    config: Config

    @classmethod
    def of_context(cls, context: Context) -> RunnerOptions:
        """What `context.parallel` says; UsageError where its configuration cannot be read."""
        parallel = context.parallel
        config = _read(parallel.config_path, parallel.sections)
        return cls(context, parallel.workers_num, tuple(parallel.device_ids), config)

    @classmethod
    def of_runner_config(cls, given: RunnerConfig | None) -> RunnerOptions:
        """The same of a RunnerConfig; a context that it names must have a device."""
        given = given or RunnerConfig()
        if given.context is not None and not given.context.has_device:
            raise UsageError("the context has no device: append_device_info(CPUDeviceInfo()), or set its target.")
        return cls(given.context or Context(), given.workers_num, (), _read(given.config_path, given.config_info))


def check_thread_pool(config: Config, context: Context, crew: Crew) -> None:
    """Check the section [shared_thread_pool]; UsageError where a number is out of its range.

    All workers share the threads that are not their own whatever it says, so that nothing is left to switch.
    """
    section = config.sections.get(_POOL, {})
    if section.get(_ENABLE, "").strip("\"'").lower() != "true":
        return
    if context.cpu.inter_op_parallel_num <= 1:
        _LOG.warning("[%s] has no effect: it needs inter_op_parallel_num above 1.", _POOL)
        return
    try:
        limit = int(section.get(_LIMIT, 2 * crew.threads))
        remaining = int(section.get(_REMAINING, 0))
    except ValueError as error:
        _LOG.warning("[%s] has no effect, %s and %s are whole numbers: %s", _POOL, _LIMIT, _REMAINING, error)
        return
    if not crew.threads < limit <= _MOST_TIMES * crew.threads:
        raise UsageError(f"[{_POOL}] {_LIMIT} is {limit}, expected more than thread_num ({crew.threads}) and at most "
                         f"{_MOST_TIMES * crew.threads}.")
    if not 0 <= remaining <= crew.threads:
        raise UsageError(f"[{_POOL}] {_REMAINING} is {remaining}, expected 0 to thread_num ({crew.threads}).")


def _read(path: str, sections: dict[str, dict[str, str]]) -> Config:
    try:
        return (Config.read(path) if path else Config()).updated(sections)
    except ValueError as error:
        raise UsageError(f"the configuration cannot be used: {error}") from error
