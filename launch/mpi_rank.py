"""A rank that mpirun started for `rankmesh launch`: fills in its arguments and becomes the user's script."""

from __future__ import annotations

import os
import sys

import msgspec

from ..comm.identity import detect
from ..comm.processes.parent import die_with
from ..comm.rank import Rank
from .rank_environment import rank_variables, replaced
from .rank_log import log_to
from .rank_table import read_rank_table


def main() -> None:
    """Replace this process by `python PROGRAM` with this rank's variables.

    A folder for log files and a rank table, or "" for either, come before PROGRAM.
    """
    die_with(os.getppid())  # mpirun, which cannot end its ranks when it is killed
    log_dir, table, *program = sys.argv[1:]
    rank, devices = _with_devices(detect().rank, table)
    os.environ.update(rank_variables(rank, devices, table or None, os.environ))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # mpirun's own pipe to rank 0 may never end
    if log_dir:
        log_to(os.path.join(log_dir, f"rank_{rank.rank}.log"))
    os.execv(sys.executable, [sys.executable, *replaced(program, rank)])


def _with_devices(rank: Rank, table: str) -> tuple[Rank, list[int]]:
    """The rank with its device, and the devices of all ranks on its host, in rank order."""
    if not table:
        return rank, list(range(rank.local_size))
    content = read_rank_table(table)
    server = content.server_of(rank.rank)
    devices = [content.device_of(r).device_id for r in server.ranks]
    return msgspec.structs.replace(rank, device=content.device_of(rank.rank).device_id), devices


if __name__ == "__main__":
    main()
