"""Growth of a request's cost with the ranks of a replica, beside pipes to as many processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

import numpy as np
from orchestrator_models import write_ranks
from report import print_table, spread

_RANKS = (1, 2, 4, 8, 16, 32, 64)
_REQUESTS = 200
_BAR = 4.0
_PAUSES = (0.0, 0.004, 0.007)
"""Seconds between requests to one rank: about as long as 64 ranks take for one."""

_ARRAY = np.ones(1 << 10, np.float32)


def growth(rounds: int, folder: str) -> None:
    """What a request costs the control plane with more and more ranks, and the plan of a
    thousand."""
    rows, own, pipes = [], {}, {}
    for ranks in _RANKS:
        with _piped(ranks) as ask, _orchestrator(folder, ranks) as (predict, pids):
            figures = [(_cost(predict), _cost(ask)) for _ in range(rounds)]
            idle = _idle_share(pids)
        own[ranks] = [cost for (cost, _), _ in figures]
        pipes[ranks] = [cost for _, (cost, _) in figures]
        walls = [wall for (_, wall), _ in figures]
        told = [spread(one, 0) for one in (own[ranks], walls, pipes[ranks])]
        rows.append((str(ranks), *told, f"{idle:.2%}"))
    titles = ("ranks", "the orchestrator's own µs per request", "round trip, µs")
    print_table((*titles, "a pipe to each, own µs", "an idle rank, of a core"), rows)
    for name, costs in (("orchestrator", own), ("a pipe to each", pipes)):
        slope = (median(costs[_RANKS[-1]]) - median(costs[1])) / (_RANKS[-1] - 1)
        print(f"{name}: {slope:.2f} µs per additional rank and request, bar {_BAR:g}")
    _rest(rounds, folder)
    _plan()


def _rest(rounds: int, folder: str) -> None:
    """What a request to one rank costs where the orchestrator has slept before."""
    with _orchestrator(folder, 1) as (predict, _):
        for pause in _PAUSES:
            costs = [_cost_after(pause, predict) for _ in range(rounds)]
            print(f"1 rank, {pause * 1e3:g} ms after the last answer: {spread(costs, 0)} µs")


def _cost_after(pause: float, request: Callable[[], object]) -> float:
    def sleep_and_request() -> None:
        time.sleep(pause)
        request()

    return _cost(sleep_and_request)[0] - _cost(partial(time.sleep, pause))[0]


@contextmanager
def _orchestrator(folder: str, ranks: int) -> Iterator[tuple[Callable[[], object], list[int]]]:
    """A request of 4 KB, and the ranks' processes."""
    from rankmesh import Orchestrator

    with Orchestrator(write_ranks(Path(folder), ranks), ranks) as orchestrator:
        pids = [rank.pid for rank in orchestrator.status().ranks if rank.pid]
        yield lambda: orchestrator.predict(_ARRAY), pids


@contextmanager
def _piped(ranks: int) -> Iterator[Callable[[], object]]:
    """A request of a few bytes to each of as many plain processes, and their answers.

    They are forked, so there must be no threads yet.
    """
    context = get_context("fork")
    pairs = [context.Pipe() for _ in range(ranks)]
    processes = [context.Process(target=_echo, args=(theirs,), daemon=True) for _, theirs in pairs]
    for process in processes:
        process.start()
    ours = [mine for mine, _ in pairs]

    def ask() -> None:
        for one in ours:
            one.send_bytes(b"order")
        for one in ours:
            one.recv_bytes()

    yield ask
    for process in processes:
        process.terminate()
        process.join()


def _echo(pipe: Connection) -> None:
    while True:
        pipe.send_bytes(pipe.recv_bytes())


def _cost(request: Callable[[], object]) -> tuple[float, float]:
    """Microseconds of this process, and in all, for one request of many."""
    for _ in range(20):
        request()
    before, start = time.process_time(), time.perf_counter()
    for _ in range(_REQUESTS):
        request()
    own, wall = time.process_time() - before, time.perf_counter() - start
    return own / _REQUESTS * 1e6, wall / _REQUESTS * 1e6


def _plan() -> None:
    from rankmesh.comm.job.shard import Shards
    from rankmesh.orchestrator.config.settings import ModelSettings
    from rankmesh.orchestrator.config.topology import ModelFiles, plan_replicas

    start = time.perf_counter()
    model = ModelFiles(
        ModelSettings("m_rank{rank}.onnx", ranks=8, replicas=125), Shards("m_rank{rank}.onnx", 8)
    )
    plans = plan_replicas([model], "host", list(range(1000)))
    print(
        f"the plan of {sum(len(plan.ranks) for plan in plans)} ranks: "
        f"{(time.perf_counter() - start) * 1e3:.1f} ms"
    )


def _idle_share(pids: list[int]) -> float:
    """The most that one of these processes takes of a core while nothing is asked of it."""
    before = [_cpu_seconds(pid) for pid in pids]
    time.sleep(3)
    return max(_cpu_seconds(pid) - used for pid, used in zip(pids, before, strict=True)) / 3


def _cpu_seconds(pid: int) -> float:
    """What the threads of a process have used, in nanoseconds' precision: others count ticks of 10
    ms.
    """
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
