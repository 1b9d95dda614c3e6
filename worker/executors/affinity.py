"""Affinity: the cores that the threads of a model run on, where the Context binds them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ...comm.errors import UsageError
from ..api_types.device_context import CpuContext


def choose_cores(cpu: CpuContext, threads: int, usable: Sequence[int]) -> tuple[int, ...]:
    """The core of each thread, the caller's own first; () where the context binds none.

    `thread_affinity_core_list` counts before `thread_affinity_mode`; mode 1 takes the strongest of
    the `usable` cores first, mode 2 those after the strongest kind first. Where there are more
    threads than cores, cores repeat. Raises UsageError for a core that this process cannot run on.
    """
    listed = cpu.thread_affinity_core_list
    if listed:
        _require_runnable(listed)
    elif cpu.thread_affinity_mode:
        listed = _by_strength(usable, cpu.thread_affinity_mode == 1)
    return tuple(listed[thread % len(listed)] for thread in range(threads)) if listed else ()


@contextmanager
def bound_to(cores: Sequence[int]) -> Iterator[None]:
    """Run this thread on `cores` alone meanwhile; () changes nothing.

    Threads that it starts meanwhile keep these cores.
    """
    before = os.sched_getaffinity(0)
    if cores:
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        if cores:
            os.sched_setaffinity(0, before)


def _by_strength(usable: Sequence[int], strongest_first: bool) -> list[int]:
    """The cores by their speed; where the kernel tells no difference, all are of one kind."""
    speed = {core: core_speed(core) for core in usable}
    order = sorted(usable, key=lambda core: (-speed[core], core))
    strong = [core for core in order if speed[core] == speed[order[0]]]
    return order if strongest_first else [*order[len(strong) :], *strong]


def core_speed(core: int) -> int:
    """The speed of a core in the kernel's own measure; 0 where the kernel does not tell it."""
    for name in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        try:
            with open(f"/sys/devices/system/cpu/cpu{core}/{name}") as file:
                return int(file.read())
        except (OSError, ValueError):
            continue
    return 0


def _require_runnable(cores: Sequence[int]) -> None:
    """Try each core: the launcher's binding may be left, the container's set of cores may not."""
    before = os.sched_getaffinity(0)
    for core in cores:
        try:
            os.sched_setaffinity(0, [core])
        except (OSError, ValueError, OverflowError) as error:
            raise UsageError(
                f"cpu.thread_affinity_core_list is {list(cores)}, and this process cannot run on "
                f"core {core}: expected numbers such as {sorted(before)}."
            ) from error
        finally:
            os.sched_setaffinity(0, before)
