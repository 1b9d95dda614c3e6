"""Threads of a runner: plans workers, threads, cores and pools by MindSpore Lite's rules."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from ...comm.errors import UsageError
from ...comm.loggers import LOG
from ...compiler.model_file.config import Config
from ..api_types.context import Context
from ..api_types.device_context import CpuContext
from ..executors.affinity import core_speed

_MOST_PER_CORE = 5
_MANY_CORES, _AUTOMATIC_THREADS = 16, 8
_BIG, _MIDDLE = 1, 2
_SECTION = "shared_thread_pool"
_ENABLE = "enable_shared_thread_pool"
_LIMIT, _REMAINING = "thread_num_limit_per_worker", "thread_num_remaining_per_worker"
_MOST_TIMES = 5


@dataclass(frozen=True, slots=True)
class UsableCores:
    """The cores that this process may use, the strongest first, and how many the machine has."""

    cores: tuple[int, ...]
    count: int

    @classmethod
    def here(cls) -> UsableCores:
        """This machine, as this process may use it now."""
        usable = sorted(os.sched_getaffinity(0), key=lambda core: (-core_speed(core), core))
        return cls(tuple(usable)[: max(1, _quota(len(usable)))], os.cpu_count() or len(usable))

    @property
    def restricted(self) -> bool:
        """Whether this process may not use the whole machine (cgroup limits, a launcher's
        binding)."""
        return len(self.cores) < self.count


@dataclass(frozen=True, slots=True)
class WorkerLayout:
    """`workers` workers with `threads` threads each; `cores` has one core per thread where they are
    bound.
    """

    workers: int
    threads: int
    cores: tuple[int, ...] = ()

    def cores_of(self, worker: int) -> Sequence[int]:
        """The core of a worker's own thread; none where it is not bound."""
        return self.cores[worker * self.threads :][:1]

    def helper_cores(self, worker: int) -> Sequence[int]:
        """The cores of a worker's other threads."""
        return self.cores[worker * self.threads + 1 : (worker + 1) * self.threads]


def plan_workers(cpu: CpuContext, workers: int, machine: UsableCores) -> WorkerLayout:
    """The layout for a context's CPU settings and a number of workers, both 0 where the machine
    decides.

    Raises UsageError where they are too many for the machine, or the binding cannot be had.
    """
    cores = len(machine.cores)
    if workers > _MOST_PER_CORE * cores:
        raise UsageError(
            f"workers_num is {workers}, expected at most {_MOST_PER_CORE * cores}: "
            f"{_MOST_PER_CORE} for each of the {cores} usable cores."
        )
    binding = _binding(cpu, machine)
    if binding and cpu.thread_num > cores:
        raise UsageError(
            f"thread_num is {cpu.thread_num}, and {cores} cores can be bound to: ask for fewer "
            f"threads, or for no binding."
        )
    threads = _threads(cpu.thread_num, workers, cores)
    workers = workers or max(1, cores // threads)
    return WorkerLayout(
        workers, threads, _bound(cpu, workers * threads, machine) if binding else ()
    )


def _threads(wanted: int, workers: int, cores: int) -> int:
    if wanted == 0:
        most = cores // 2 if cores <= _MANY_CORES else _AUTOMATIC_THREADS
        return max(1, min(most, cores // max(1, workers)))
    if wanted > _MOST_PER_CORE * cores:
        LOG.warning(
            "thread_num is %d, more than %d for each of the %d usable cores: %d are used.",
            wanted,
            _MOST_PER_CORE,
            cores,
            _MOST_PER_CORE * cores,
        )
    return min(wanted, _MOST_PER_CORE * cores)


def _binding(cpu: CpuContext, machine: UsableCores) -> bool:
    """Whether threads are to be bound; UsageError for a mode that a runner does not have."""
    if cpu.thread_affinity_core_list:
        wanted = True
    elif cpu.thread_affinity_mode == _MIDDLE:
        raise UsageError(
            "thread_affinity_mode is 2 (middle cores), which runners do not have: use 0 (no "
            "binding), 1 (big cores), or thread_affinity_core_list."
        )
    else:
        wanted = cpu.thread_affinity_mode == _BIG
    if wanted and machine.restricted:
        LOG.warning(
            "this process may use %d of %d cores: no thread is bound.",
            len(machine.cores),
            machine.count,
        )
    return wanted and not machine.restricted


def _bound(cpu: CpuContext, threads: int, machine: UsableCores) -> tuple[int, ...]:
    """One core per thread."""
    listed = cpu.thread_affinity_core_list
    if not listed:
        if threads > len(machine.cores):
            LOG.warning(
                "there are %d threads on %d cores: no thread is bound.", threads, len(machine.cores)
            )
            return ()
        return machine.cores[:threads]
    unknown = set(listed) - set(machine.cores)
    if unknown or len(listed) != threads:
        raise UsageError(
            f"thread_affinity_core_list is {listed}, expected {threads} ids (thread_num times "
            f"workers_num) out of {sorted(machine.cores)}."
        )
    return tuple(listed)


def _quota(cores: int) -> int:
    """How many of `cores` the control group's time limit leaves (cgroup v2)."""
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            limit, period = file.read().split()
        return cores if limit == "max" else min(cores, -(-int(limit) // int(period)))
    except (OSError, ValueError):
        return cores


@dataclass(frozen=True, slots=True)
class ThreadPools:
    """`count` pools of `helpers` threads each: worker i is helped by those of pool `i % count`,
    beside its own thread.

    So a request runs in at most `helpers` + 1 threads.
    """

    count: int
    helpers: int

    def cores(self, pool: int, layout: WorkerLayout) -> Sequence[int]:
        """A core per thread of a pool's session where the layout is bound, the calling worker's
        first.
        """
        if not layout.cores:
            return ()
        mine = [
            core
            for worker in range(pool, layout.workers, self.count)
            for core in layout.helper_cores(worker)
        ]
        lent = [core for core in layout.cores if core not in mine]
        wanted = [*mine, *lent]
        return [
            layout.cores[pool * layout.threads],
            *(wanted[index % len(wanted)] for index in range(self.helpers)),
        ]


def plan_pools(config: Config, context: Context, layout: WorkerLayout) -> ThreadPools:
    """The pools for a layout; UsageError where a number of the section is out of its range.

    Without the section one pool serves all workers. Switched off, each worker keeps its threads for
    itself. Switched on, a request may run in its worker's threads and in those that the others
    lend, up to the limit; what a worker does not lend stays in a pool of fewer workers.
    """
    switch = config.bare(_SECTION, _ENABLE).lower()
    if switch == "false":
        return _divided(layout, layout.threads)
    if switch != "true" or not _takes_effect(context):
        return ThreadPools(1, layout.workers * (layout.threads - 1))
    limit, remaining = _number(config, _LIMIT, 2 * layout.threads), _number(config, _REMAINING, 0)
    if limit is None or remaining is None:
        return ThreadPools(1, layout.workers * (layout.threads - 1))
    if not layout.threads < limit <= _MOST_TIMES * layout.threads:
        raise UsageError(
            f"[{_SECTION}] {_LIMIT} is {limit}, expected more than thread_num ({layout.threads}) "
            f"and at most {_MOST_TIMES * layout.threads}."
        )
    if not 0 <= remaining <= layout.threads:
        raise UsageError(
            f"[{_SECTION}] {_REMAINING} is {remaining}, expected 0 to thread_num "
            f"({layout.threads})."
        )
    return _divided(
        layout, min(limit, layout.threads + (layout.workers - 1) * (layout.threads - remaining))
    )


def _divided(layout: WorkerLayout, most: int) -> ThreadPools:
    """As few pools as give a request at most `most` threads, and the workers together all that they
    have.
    """
    helpers = most - 1
    if not helpers:
        return ThreadPools(1, 0)
    return ThreadPools(
        min(layout.workers, max(1, -(-layout.workers * (layout.threads - 1) // helpers))), helpers
    )


def _takes_effect(context: Context) -> bool:
    if context.cpu.inter_op_parallel_num > 1:
        return True
    LOG.warning("[%s] has no effect: it needs inter_op_parallel_num above 1.", _SECTION)
    return False


def _number(config: Config, key: str, default: int) -> int | None:
    """The value of a key, `default` without one; None, with a warning, where it is not a whole
    number.
    """
    text = config.bare(_SECTION, key)
    try:
        return int(text) if text else default
    except ValueError:
        LOG.warning(
            "[%s] has no effect: %s is '%s', which is no whole number.", _SECTION, key, text
        )
        return None
