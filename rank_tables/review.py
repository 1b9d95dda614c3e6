"""What there is to say about a rank table file: its format and table, or everything that is wrong with it."""

from __future__ import annotations

import os

import msgspec

from .fault import RankTableFault
from .table import RankTable, read_bytes
from .versions import checked_draft


class Review(msgspec.Struct, frozen=True):
    """The format ("version 1.2", "group_list with rank ids") and table of a file; one with faults has neither."""

    faults: tuple[RankTableFault, ...] = ()
    format: str = ""
    table: RankTable | None = None


def review(path: str | os.PathLike[str]) -> Review:
    """Read a rank table of any version and find all its faults (MOST_FAULTS at most), not only the first."""
    try:
        draft = checked_draft(read_bytes(path))
    except RankTableFault as fault:
        return Review(fault.all)
    return Review((), draft.format, RankTable(draft.servers, draft.super_pods))
