"""Rank tables as the command line reads them: every fault becomes a usage error."""

from __future__ import annotations

from ..comm.errors import UsageError
from ..rank_tables.fault import RankTableFault
from ..rank_tables.table import RankTable


def read_rank_table(path: str) -> RankTable:
    """The rank table at `path`; UsageError names the file, the JSON path and the fault."""
    try:
        return RankTable.read(path)
    except RankTableFault as fault:
        raise UsageError(str(fault)) from fault
