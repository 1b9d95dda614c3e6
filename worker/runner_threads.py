"""How many workers a runner has, with how many threads each, and on which cores: MindSpore Lite's rules."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass

from ..comm.device_context import CpuContext
from ..comm.errors import UsageError
from .affinity import core_speed

_LOG = logging.getLogger("rankmesh")
_MOST_PER_CORE = 5
_MANY_CORES, _AUTOMATIC_THREADS = 16, 8
_BIG, _MIDDLE = 1, 2


@dataclass(frozen=True, slots=True)
class Machine:
    """The cores that this process may use, the strongest first, and how many the machine has."""

    cores: tuple[int, ...]
    count: int

    @classmethod
    def here(cls) -> Machine:
        """This machine, as this process may use it now."""
        usable = sorted(os.sched_getaffinity(0), key=lambda core: (-core_speed(core), core))
        return cls(tuple(usable)[:max(1, _quota(len(usable)))], os.cpu_count() or len(usable))

    @property
    def restricted(self) -> bool:
        """Whether this process may not use the whole machine (cgroup limits, a launcher's binding)."""
        return len(self.cores) < self.count


@dataclass(frozen=True, slots=True)
class Crew:
    """`workers` workers with `threads` threads each; `cores` has one core per thread where they are bound."""

    workers: int
    threads: int
    cores: tuple[int, ...] = ()

    def cores_of(self, worker: int) -> Sequence[int]:
        """The core of a worker's own thread; none where it is not bound."""
        return self.cores[worker * self.threads:][:1]

    def helper_cores(self, worker: int) -> Sequence[int]:
        """The cores of a worker's other threads."""
        return self.cores[worker * self.threads + 1:(worker + 1) * self.threads]


def plan_crew(cpu: CpuContext, workers: int, machine: Machine) -> Crew:
    """The crew for a context's CPU settings and a number of workers, both 0 where the machine decides.

    Raises UsageError where they are too many for the machine, or the binding cannot be had.
    """
    cores = len(machine.cores)
    if workers > _MOST_PER_CORE * cores:
        raise UsageError(f"workers_num is {workers}, expected at most {_MOST_PER_CORE * cores}: {_MOST_PER_CORE} for "
                         f"each of the {cores} usable cores.")
    binding = _binding(cpu, machine)
    if binding and cpu.thread_num > cores:
        raise UsageError(f"thread_num is {cpu.thread_num}, and {cores} cores can be bound to: ask for fewer threads, "
                         f"or for no binding.")
    threads = _threads(cpu.thread_num, workers, cores)
    workers = workers or max(1, cores // threads)
    return Crew(workers, threads, _bound(cpu, workers * threads, machine) if binding else ())


def _threads(wanted: int, workers: int, cores: int) -> int:
    if wanted == 0:
        most = cores // 2 if cores <= _MANY_CORES else _AUTOMATIC_THREADS
        return max(1, min(most, cores // max(1, workers)))
    if wanted > _MOST_PER_CORE * cores:
        _LOG.warning("thread_num is %d, more than %d for each of the %d usable cores: %d are used.", wanted,
                     _MOST_PER_CORE, cores, _MOST_PER_CORE * cores)
    return min(wanted, _MOST_PER_CORE * cores)


def _binding(cpu: CpuContext, machine: Machine) -> bool:
    """Whether threads are to be bound; UsageError for a mode that a runner does not have."""
    if cpu.thread_affinity_core_list:
        wanted = True
    elif cpu.thread_affinity_mode == _MIDDLE:
        raise UsageError("thread_affinity_mode is 2 (middle cores), which runners do not have: use 0 (no binding), 1 "
                         "(big cores), or thread_affinity_core_list.")
    else:
        wanted = cpu.thread_affinity_mode == _BIG
    if wanted and machine.restricted:
        _LOG.warning("this process may use %d of %d cores: no thread is bound.", len(machine.cores), machine.count)
    return wanted and not machine.restricted


def _bound(cpu: CpuContext, threads: int, machine: Machine) -> tuple[int, ...]:
    """One core per thread."""
    listed = cpu.thread_affinity_core_list
    if not listed:
        if threads > len(machine.cores):
            _LOG.warning("there are %d threads on %d cores: no thread is bound.", threads, len(machine.cores))
            return ()
        return machine.cores[:threads]
    unknown = set(listed) - set(machine.cores)
    if unknown or len(listed) != threads:
        raise UsageError(f"thread_affinity_core_list is {listed}, expected {threads} ids (thread_num times "
                         f"workers_num) out of {sorted(machine.cores)}.")
    return tuple(listed)


def _quota(cores: int) -> int:
    """How many of `cores` the control group's time limit leaves (cgroup v2)."""
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            limit, period = file.read().split()
        return cores if limit == "max" else min(cores, -(-int(limit) // int(period)))
    except (OSError, ValueError):
        return cores
