"""Visible GPUs: the NVIDIA GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""

from __future__ import annotations

import glob
import os
import re

VARIABLE = "CUDA_VISIBLE_DEVICES"
_MIG, _UUID = "MIG-", "GPU-"
_NUMBER = re.compile(r"\s*(\d+)")


def visible_gpus() -> tuple[str, ...]:
    """Their names, in the order of their numbers here; MIG instances count as GPUs."""
    return gpus_listed(os.environ.get(VARIABLE), len(glob.glob("/dev/nvidia[0-9]*")))


def gpus_listed(text: str | None, present: int) -> tuple[str, ...]:
    """The GPUs that CUDA takes from a list, of `present` ones; without a list all of them.

    A list has numbers, or UUIDs (GPU-...), or MIG instances (MIG-...; of these there may be more
    than GPUs). CUDA ignores it from an invalid item on, and takes nothing from one with an item
    twice.
    https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables
    """
    if text is None:
        return tuple(map(str, range(present)))
    items = [item.strip() for item in text.split(",")]
    prefix = next((one for one in (_MIG, _UUID) if items[0].startswith(one)), "")
    found: list[str] = []
    for item in items:
        name = _named(item, present) if not prefix else item if item.startswith(prefix) else ""
        if not name:
            break
        if name in found:
            return ()
        found.append(name)
    return tuple(found if prefix == _MIG and present else found[:present])


def _named(item: str, present: int) -> str:
    """A number as CUDA reads it ("1", and "1st"); "" for one that no GPU has."""
    number = _NUMBER.match(item)
    return number[1] if number and int(number[1]) < present else ""


def claim_gpu(number: int) -> int:
    """The number that the visible GPU `number` has in this process from now on.

    CUDA shows a process one MIG instance only, whatever the list has: it is made the whole list.
    For a process that has not used CUDA so far.
    """
    names = visible_gpus()
    if not names:
        return number
    name = names[number % len(names)]
    if not name.startswith(_MIG):
        return number % len(names)
    os.environ[VARIABLE] = name
    return 0
