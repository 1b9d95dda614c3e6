"""AllReduce of float32 on two hosts with two ranks each: leaders of hosts against flat gloo.

    python bench/hosts_allreduce.py [--rounds 9]

The hosts are network namespaces with a virtual cable between them, which needs root and `ip`. Each
host has one core. Rounds are interleaved, and each contender runs in processes of its own; ours run
twice per round as a control. The table gives the median of the rounds' medians in microseconds, and
how many times as long as ours a contender takes.
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
from pathlib import Path
from statistics import median

from hosts_allreduce_rank import SIZES

from rankmesh.comm.job_memory.arena import Arena

_IP = shutil.which("ip") or "ip"
_RANK = str(Path(__file__).with_name("hosts_allreduce_rank.py"))
_HOSTS, _EACH = 2, 2
_ADDRESS = "10.78.0.{}"
_CONTENDERS = ("hierarchical", "hierarchical again", "gloo", "torch.distributed")
_BARS = {("gloo", 1024**2): 1.5}

Medians = dict[int, float]


@contextmanager
def hosts() -> Iterator[list[str]]:
    """The names of two network namespaces with a cable between them."""
    names = [f"bench-{os.getpid()}-{index}" for index in range(_HOSTS)]
    try:
        for name in names:
            _ip("netns", "add", name)
        ends = [word for name in names for word in ("name", "cable", "netns", name)]
        _ip("link", "add", *ends[:4], "type", "veth", "peer", *ends[4:])
        for index, name in enumerate(names):
            _ip("-n", name, "address", "add", _ADDRESS.format(index + 1) + "/24", "dev", "cable")
            _ip("-n", name, "link", "set", "cable", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            subprocess.run([_IP, "netns", "delete", name], check=False)


def run(contender: str, names: list[str]) -> Medians:
    """The medians of one round, which rank 0 prints."""
    arenas = [Arena.create(_HOSTS * _EACH) for _ in names]
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            _start(contender, host * _EACH + index, name, arena.fd, f"{folder}/store")
            for host, (name, arena) in enumerate(zip(names, arenas, strict=True))
            for index in range(_EACH)
        ]
        printed = "".join(rank.communicate()[0] for rank in ranks)
    for arena in arenas:
        arena.close()
    if any(rank.returncode for rank in ranks):
        sys.exit(f"a rank of {contender} failed: {[rank.returncode for rank in ranks]}")
    return {int(nbytes): us for nbytes, us in json.loads(printed).items()}


def _start(contender: str, rank: int, name: str, arena: int, store: str) -> subprocess.Popen[str]:
    words = [contender.removesuffix(" again"), store, str(arena), str(rank)]
    command = [_IP, "netns", "exec", name, sys.executable, _RANK, *words]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "cable", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, pass_fds=(arena,), env=environment
    )


def _ip(*arguments: str) -> None:
    subprocess.run([_IP, *arguments], check=True, capture_output=True)


def _print_table(results: dict[str, list[Medians]]) -> None:
    print(f"{_HOSTS} hosts x {_EACH} ranks: median us [fastest-slowest round], and times ours")
    for nbytes in SIZES:
        ours = median(row[nbytes] for row in results[_CONTENDERS[0]])
        cells = [f"{nbytes // 1024:>6} KB"]
        for contender, rows in results.items():
            us = [row[nbytes] for row in rows]
            ratio, bar = median(us) / ours, _BARS.get((contender, nbytes))
            verdict = "" if bar is None else f" ({'meets' if ratio >= bar else 'MISSES'} {bar})"
            spread = f"[{min(us):.0f}-{max(us):.0f}]"
            cells.append(f"{contender} {median(us):.0f} {spread} x{ratio:.2f}{verdict}")
        print(" | ".join(cells))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    results: dict[str, list[Medians]] = {contender: [] for contender in _CONTENDERS}
    with hosts() as names:
        for _ in range(rounds):
            for contender in _CONTENDERS:
                results[contender].append(run(contender, names))
    _print_table(results)


if __name__ == "__main__":
    main()
