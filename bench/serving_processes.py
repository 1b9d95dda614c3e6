"""Server processes: the processor time of a 4 KB echo in each process, and what more cores allow.

    python bench/serving_processes.py [--rounds 9] [--requests 2000] [--clients 8]

A host of two cores shows no gain, as the load generator, the server and the rank need both. So the
second table is computed: requests a second are bounded by the slowest process, each of which has
one core, and by the cores of the host together.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_GENERATOR = str(Path(__file__).parent / "serving_http.py")
_SECOND = 1e6  # microseconds
_CORES = (2, 4, 8, 16, 32)
_PROCESSES = (1, 2, 4, 8)


@dataclass(frozen=True)
class ProcessCosts:
    """Microseconds of processor time per request: of the one process that does everything, and with
    server processes of the main one and of a server process; of a rank.
    """

    alone: float
    main: float
    server: float
    rank: float


def rate(costs: ProcessCosts, cores: int, processes: int, ranks: int) -> float:
    """Requests a second of `processes` server processes and `ranks` replicas of one rank; clients
    are on other hosts. One process has no main process beside it.
    """
    if processes == 1:
        slowest, total = [costs.alone, costs.rank / ranks], costs.alone + costs.rank
    else:
        slowest = [costs.main, costs.server / processes, costs.rank / ranks]
        total = costs.main + costs.server + costs.rank
    return _SECOND / max(*slowest, total / cores)


def table(costs: ProcessCosts) -> Iterator[list[str]]:
    """Rows of the second table: as many replicas as leave the rank out of the way."""
    for cores in _CORES:
        yield [str(cores), *(f"{rate(costs, cores, one, cores):.0f}" for one in _PROCESSES)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=8)
    given = parser.parse_args()
    from echo_servers import MODEL, Load, compare
    from report import print_table

    serve = (sys.executable, "-P", "-m", "rankmesh", "serve", MODEL, "--port", "0")
    servers = {
        "one process": serve,
        "one process (control)": serve,
        "two server processes": (*serve, "--server-processes", "2"),
    }
    found = compare(servers, _GENERATOR, given.rounds, Load(given.requests, given.clients))
    one, two = found["one process"], found["two server processes"]
    costs = ProcessCosts(one.own, two.own, two.ranks - one.ranks, one.ranks)
    print(f"\na server process: {costs.server:.0f} us, the main process: {costs.main:.0f} us\n")
    print_table(["cores", *(f"{count} processes" for count in _PROCESSES)], list(table(costs)))


if __name__ == "__main__":
    main()
