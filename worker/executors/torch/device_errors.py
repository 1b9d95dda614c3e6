"""Errors of a device in words: out of memory with the numbers, and libraries' codes with causes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

import psutil
import torch

_HOLDER = re.compile(r"[Pp]rocess (\d+) has ([\d.]+ [KMG]iB) memory in use")
_WANTED = re.compile(r"Tried to allocate ([\d.]+ [KMG]iB)")


def out_of_memory(where: str, device: torch.device, error: Exception) -> str:
    """The sentence for a device whose memory did not suffice: needed, free, and what holds it."""
    text = str(error)
    wanted = _WANTED.search(text)
    if device.type == "cpu" or wanted is None:
        return f"{where}: {text}"
    free, total = torch.get_device_module(device).mem_get_info(device)
    return memory_sentence(where, str(device), wanted[1], free, total, holders(text))


def memory_sentence(
    where: str, device: str, wanted: str, free: int, total: int, held: Sequence[str]
) -> str:
    """The sentence of `out_of_memory`; `free` and `total` in bytes."""
    by = f"; {', '.join(held)}" if held else ""
    return (
        f"{where}: {device} has no memory left: {wanted} more are needed, and "
        f"{free / 2**30:.2f} of {total / 2**30:.2f} GiB are free{by}. End other processes there, "
        "or use smaller shapes, fewer replicas or another GPU."
    )


def holders(text: str) -> list[str]:
    """The processes that hold memory of a GPU, from torch's text: "process 7 (python) has 3 GiB".

    In a container torch may name processes by numbers of the host, which have no name here.
    """
    return [f"process {pid}{_name(int(pid))} has {size}" for pid, size in _HOLDER.findall(text)]


def _name(pid: int) -> str:
    with suppress(psutil.Error):
        return f" ({psutil.Process(pid).name()})"
    return ""
