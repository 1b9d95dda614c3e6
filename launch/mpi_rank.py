"""A rank that mpirun started for `rankmesh launch`: fills in its arguments and becomes the user's script."""

from __future__ import annotations

import os
import sys

from ..comm.identity import detect
from .rank_environment import rank_variables, replaced


def main() -> None:
    """Replace this process by `python PROGRAM` with this rank's variables."""
    rank = detect().rank
    table = os.environ.get("RANK_TABLE_FILE")
    os.environ.update(rank_variables(rank, range(rank.local_size), table, os.environ))
    os.execv(sys.executable, [sys.executable, *replaced(sys.argv[1:], rank)])


if __name__ == "__main__":
    main()
