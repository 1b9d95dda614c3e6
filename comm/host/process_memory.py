"""Process memory: reads from /proc how many bytes of a process are in memory, by kind."""

from __future__ import annotations

from typing import NamedTuple

_KEYS = {b"RssAnon:": "private", b"RssFile:": "file", b"RssShmem:": "shared"}


class ProcessMemory(NamedTuple):
    """Bytes of a process that are in memory: its `private` ones, those of mapped files, and those
    of `shared` memory. Several processes may share the last two.
    """

    private: int
    file: int
    shared: int

    @classmethod
    def of(cls, pid: int) -> ProcessMemory | None:
        """The memory of the process that has this id now; None where there is none to be read."""
        found = {}
        try:
            with open(f"/proc/{pid}/status", "rb") as lines:
                for line in lines:
                    key, *value = line.split()
                    if key in _KEYS:
                        found[_KEYS[key]] = 1024 * int(value[0])
            return cls(**found)
        except (OSError, ValueError, IndexError, TypeError):  # it has ended: no lines, or not all
            return None
