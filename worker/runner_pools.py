"""The section [shared_thread_pool]: how many threads a runner's request may have, and from which pools."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from ..comm.config import Config
from ..comm.context import Context
from ..comm.errors import UsageError
from .runner_threads import Crew

_LOG = logging.getLogger("rankmesh")
_SECTION = "shared_thread_pool"
_ENABLE = "enable_shared_thread_pool"
_LIMIT, _REMAINING = "thread_num_limit_per_worker", "thread_num_remaining_per_worker"
_MOST_TIMES = 5


@dataclass(frozen=True, slots=True)
class Pools:
    """`count` pools of `helpers` threads each: worker i is helped by those of pool `i % count`, beside its own thread.

    So a request runs in at most `helpers` + 1 threads.
    """

    count: int
    helpers: int

    def cores(self, pool: int, crew: Crew) -> Sequence[int]:
        """A core per thread of a pool's session where the crew is bound, the calling worker's first."""
        if not crew.cores:
            return ()
        mine = [core for worker in range(pool, crew.workers, self.count) for core in crew.helper_cores(worker)]
        lent = [core for core in crew.cores if core not in mine]
        wanted = [*mine, *lent]
        return [crew.cores[pool * crew.threads], *(wanted[index % len(wanted)] for index in range(self.helpers))]


def plan_pools(config: Config, context: Context, crew: Crew) -> Pools:
    """The pools for a crew; UsageError where a number of the section is out of its range.

    Without the section one pool serves all workers. Switched off, each worker keeps its threads for itself. Switched
    on, a request may run in its worker's threads and in those that the others lend, up to the limit; what a worker
    does not lend stays in a pool of fewer workers.
    """
    switch = config.bare(_SECTION, _ENABLE).lower()
    if switch == "false":
        return _divided(crew, crew.threads)
    if switch != "true" or not _takes_effect(context):
        return Pools(1, crew.workers * (crew.threads - 1))
    limit, remaining = _number(config, _LIMIT, 2 * crew.threads), _number(config, _REMAINING, 0)
    if limit is None or remaining is None:
        return Pools(1, crew.workers * (crew.threads - 1))
    if not crew.threads < limit <= _MOST_TIMES * crew.threads:
        raise UsageError(f"[{_SECTION}] {_LIMIT} is {limit}, expected more than thread_num ({crew.threads}) and at "
                         f"most {_MOST_TIMES * crew.threads}.")
    if not 0 <= remaining <= crew.threads:
        raise UsageError(f"[{_SECTION}] {_REMAINING} is {remaining}, expected 0 to thread_num ({crew.threads}).")
    return _divided(crew, min(limit, crew.threads + (crew.workers - 1) * (crew.threads - remaining)))


def _divided(crew: Crew, most: int) -> Pools:
    """As few pools as give a request at most `most` threads, and the workers together all that they have."""
    helpers = most - 1
    if not helpers:
        return Pools(1, 0)
    return Pools(min(crew.workers, max(1, -(-crew.workers * (crew.threads - 1) // helpers))), helpers)


def _takes_effect(context: Context) -> bool:
    if context.cpu.inter_op_parallel_num > 1:
        return True
    _LOG.warning("[%s] has no effect: it needs inter_op_parallel_num above 1.", _SECTION)
    return False


def _number(config: Config, key: str, default: int) -> int | None:
    """A key's value, None with a warning where it is no number."""
    text = config.bare(_SECTION, key)
    try:
        return int(text) if text else default
    except ValueError:
        _LOG.warning("[%s] has no effect: %s is '%s', which is no whole number.", _SECTION, key, text)
        return None
