"""How ranks of a rank table with several servers are told where to meet those of the other hosts."""

from __future__ import annotations

import os

from ..comm.key_file import keys_from_environment
from ..comm.place import place_of_table
from ..comm.rank import Rank
from .rank_table import read_rank_table


def meeting_variables(rank: Rank, rank_table: str | None) -> dict[str, str]:
    """The environment of a rank: none for a job of one host. Raises UsageError where there is no key file."""
    if rank_table is None or rank.local_size == rank.world_size:
        return {}
    keys_from_environment(os.environ)
    return place_of_table(read_rank_table(rank_table), os.environ).variables()
