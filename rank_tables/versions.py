"""Which reader a rank table needs: one per version of the format, each from JSON to a draft."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import msgspec

from .check import check
from .draft import Draft
from .fault import RankTableFault, raise_all
from .group_list import group_list
from .node import Node
from .version_1 import version_1_0, version_1_2
from .version_2 import version_2_0

MAX_BYTES = 32 << 20
_READERS: dict[str, Callable[[Node], Draft]] = {"1.0": version_1_0, "1.2": version_1_2, "2.0": version_2_0}
_SUPPORTED = "one of " + ", ".join(f'"{name}"' for name in _READERS)


def checked_draft(data: bytes) -> Draft:
    """The consistent draft of a file of any version; raises its first fault, with the others attached."""
    draft = _read(Node(_decode(data)))
    raise_all(chain(draft.faults, check(draft)))
    return draft


def _read(root: Node) -> Draft:
    reader = _reader(root)
    _check_completed(root.at("status"))
    return reader(root)


def _reader(root: Node) -> Callable[[Node], Draft]:
    version = root.get("version")
    if version is None:
        if root.get("group_list") is not None:
            return group_list
        raise RankTableFault(f"is missing, expected {_SUPPORTED} (only tables with a group_list have none)", "version")
    reader = _READERS.get(version.value) if isinstance(version.value, str) else None
    if reader is None:
        version.expected(_SUPPORTED)
    return reader


def _check_completed(status: Node) -> None:
    if status.text() == "initializing":
        status.fail("got 'initializing': the table is not finished; use it once its status is 'completed'")
    if status.text() != "completed":
        status.expected("'completed'")


def _decode(data: bytes) -> object:
    if len(data) > MAX_BYTES:
        raise RankTableFault(f"is larger than {MAX_BYTES >> 20} MiB, which no rank table is")
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise RankTableFault(f"is not JSON ({error})") from error
