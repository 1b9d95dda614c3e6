"""Review of a rank table file: its format and table, or all its faults."""

from __future__ import annotations

import os

import msgspec

from .fault import RankTableFault
from .readers import checked_draft
from .table import RankTable, read_table_file


class Review(msgspec.Struct, frozen=True):
    """The format ("version 1.2", "group_list with rank ids") and table of a file, or its faults."""

    faults: tuple[RankTableFault, ...] = ()
    format: str = ""
    table: RankTable | None = None


def review(path: str | os.PathLike[str]) -> Review:
    """Read a rank table of any version, or find all its faults (MOST_FAULTS at most)."""
    try:
        draft = checked_draft(read_table_file(path))
    except RankTableFault as fault:
        return Review(fault.all)
    return Review((), draft.format, RankTable(draft.servers, draft.super_pods))
