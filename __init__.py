"""Rankmesh: distributed inference with one process per rank. Public names are imported on first use."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankmesh.comm.errors import CollectiveAborted as CollectiveAborted
    from rankmesh.comm.errors import CollectiveMismatch as CollectiveMismatch
    from rankmesh.comm.errors import CollectiveTimeout as CollectiveTimeout
    from rankmesh.comm.errors import InputError as InputError
    from rankmesh.comm.errors import ModelError as ModelError
    from rankmesh.comm.errors import RankFailed as RankFailed
    from rankmesh.comm.errors import RankmeshError as RankmeshError
    from rankmesh.comm.errors import ShardMismatch as ShardMismatch
    from rankmesh.comm.errors import UnsupportedPrimitives as UnsupportedPrimitives
    from rankmesh.comm.errors import UsageError as UsageError
    from rankmesh.comm.rank import Rank as Rank
    from rankmesh.rank_tables.fault import RankTableFault as RankTableFault
    from rankmesh.rank_tables.table import RankTable as RankTable

if sys.platform != "linux" or os.uname().machine not in ("x86_64", "aarch64"):
    raise ImportError(f"Rankmesh runs on Linux (x86-64 and aarch64); this Python runs on {sys.platform}.")

__version__ = "0.1.0"

_HOME = {
    "CollectiveAborted": "comm.errors",
    "CollectiveMismatch": "comm.errors",
    "CollectiveTimeout": "comm.errors",
    "InputError": "comm.errors",
    "ModelError": "comm.errors",
    "Rank": "comm.rank",
    "RankFailed": "comm.errors",
    "RankTable": "rank_tables.table",
    "RankTableFault": "rank_tables.fault",
    "RankmeshError": "comm.errors",
    "ShardMismatch": "comm.errors",
    "UnsupportedPrimitives": "comm.errors",
    "UsageError": "comm.errors",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in _HOME:
        raise AttributeError(f"module 'rankmesh' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"rankmesh.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """All public names, imported or not."""
    return sorted({*globals(), *_HOME})
