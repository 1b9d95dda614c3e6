"""AllReduce of float32 on one host: Rankmesh's shared memory against gloo and Open MPI.

    python bench/allreduce.py [--rounds 9] [--ranks 2 4] [--busy 0]

Rounds are interleaved, each contender runs in processes of its own, each rank is pinned to one
core; ours and Open MPI's run twice per round as controls. The table gives the median of the rounds'
medians in microseconds, and how many times as long as ours a contender takes. `--busy N` runs N
processes beside them that compute all the time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from allreduce_rank import SIZES

from rankmesh.comm.job_memory.arena import Arena

_RANK = str(Path(__file__).with_name("allreduce_rank.py"))
_BARS = {  # (ranks, contender): {bytes: how many times as long as ours it must take}
    (2, "gloo"): {4096: 30, 1024**2: 7},
    (2, "mpi"): {64 * 1024: 1 / 1.1, 384 * 1024: 1 / 1.1, 1024**2: 1 / 1.1, 16 * 1024**2: 1 / 1.1},
    (4, "gloo"): {4096: 40, 1024**2: 8},
    (4, "mpi"): dict.fromkeys(SIZES, 0.95),
}

Medians = dict[int, float]


def run_ours(world: int) -> Medians:
    arena = Arena.create(world)
    try:
        return _gather(
            [_start("ours", str(arena.fd), rank, world, (arena.fd,)) for rank in range(world)]
        )
    finally:
        arena.close()


def run_gloo(world: int) -> Medians:
    with tempfile.TemporaryDirectory() as folder:
        return _gather([_start("gloo", f"{folder}/store", rank, world) for rank in range(world)])


def run_mpi(world: int) -> Medians:
    cores = len(os.sched_getaffinity(0))
    shared = (
        ["--map-by", ":OVERSUBSCRIBE", "--mca", "mpi_yield_when_idle", "1"] if world > cores else []
    )
    command = [
        _mpirun() or "mpirun",
        "-n",
        str(world),
        "--bind-to",
        "none",
        *shared,
        "--mca",
        "pml",
        "ob1",
        "--mca",
        "btl",
        "self,sm",
        sys.executable,
        _RANK,
        "mpi",
        "-",
        "0",
        str(world),
    ]
    environment = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    return _gather([subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)])


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Processes that compute all the time, on whichever core the kernel gives them."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


CONTENDERS = {
    "ours": run_ours,
    "ours again": run_ours,
    "gloo": run_gloo,
    "mpi": run_mpi,
    "mpi again": run_mpi,
}


def missing(contender: str) -> str | None:
    """Why a contender cannot take part."""
    if contender == "gloo" and not find_spec("torch"):
        return "torch is not installed"
    if contender.startswith("mpi") and not find_spec("mpi4py"):
        return "mpi4py is not installed"
    if contender.startswith("mpi") and not _mpirun():
        return "there is no mpirun"
    return None


def _mpirun() -> str | None:
    return shutil.which(
        "mpirun", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
    )


def _start(
    contender: str, where: str, rank: int, world: int, fds: tuple[int, ...] = ()
) -> subprocess.Popen[str]:
    command = [sys.executable, _RANK, contender, where, str(rank), str(world)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=fds)


def _gather(processes: list[subprocess.Popen[str]]) -> Medians:
    """What rank 0 (or mpirun) printed."""
    printed = "".join(process.communicate()[0] for process in processes)
    if any(process.returncode for process in processes):
        sys.exit(f"a rank failed: {[process.returncode for process in processes]}")
    return {int(nbytes): us for nbytes, us in json.loads(printed).items()}


def compare(world: int, rounds: int) -> None:
    taking_part = []
    for contender in CONTENDERS:
        if reason := missing(contender):
            print(f"{contender}: skipped, {reason}")
        else:
            taking_part.append(contender)
    results: dict[str, list[Medians]] = {contender: [] for contender in taking_part}
    for _ in range(rounds):
        for contender in taking_part:
            results[contender].append(CONTENDERS[contender](world))
    _print_table(world, results)


def _print_table(world: int, results: dict[str, list[Medians]]) -> None:
    cores = len(os.sched_getaffinity(0))
    print(f"\n{world} ranks on {cores} cores: median us [fastest-slowest round], and times ours")
    for nbytes in SIZES:
        ours = median(r[nbytes] for r in results["ours"])
        cells = [f"{nbytes // 1024:>6} KB"]
        for contender, rows in results.items():
            us = [row[nbytes] for row in rows]
            ratio = median(us) / ours
            bar = _BARS.get((world, contender), {}).get(nbytes)
            verdict = "" if bar is None else f" ({'meets' if ratio >= bar else 'MISSES'} {bar:.3g})"
            cells.append(
                f"{contender} {median(us):.1f} [{min(us):.1f}-{max(us):.1f}] x{ratio:.2f}{verdict}"
            )
        print(" | ".join(cells))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--busy", type=int, default=0)
    options = parser.parse_args()
    with busy_processes(options.busy):
        for world in options.ranks:
            compare(world, options.rounds)


if __name__ == "__main__":
    main()
