"""Torch settings: say where and how torch computes, and turn the switches of its process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from .helper_threads import use_threads


@dataclass(frozen=True, slots=True)
class TorchSettings:
    """A device, and the number of threads, which are bound to `cores` together, where given.

    With `tf32` float32 numbers are multiplied in TF32. With `compiles` call lists are compiled.
    """

    device: torch.device
    threads: int = 1
    cores: Sequence[int] = ()
    tf32: bool = False
    compiles: bool = False

    def use_threads(self) -> None:
        """Compute with these threads in the calling thread."""
        use_threads(self.threads, self.cores)


@contextmanager
def float32_products(tf32: bool) -> Iterator[None]:
    """Work that starts inside multiplies float32 numbers of a GPU in TF32, or exactly.

    torch has one switch for the whole process, which others may use: it is set back.
    """
    switches = tf32_switches()
    before = [getattr(owner, name) for owner, name, *_ in switches]
    for owner, name, exact, fast in switches:
        setattr(owner, name, fast if tf32 else exact)
    try:
        yield
    finally:
        for (owner, name, *_), value in zip(switches, before, strict=True):
            setattr(owner, name, value)


def tf32_switches() -> list[tuple[Any, str, Any, Any]]:
    """Owners and names of torch's switches for products and convolutions, and their two values."""
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    if not hasattr(convolutions, "conv"):  # before torch 2.9
        return [(one, "allow_tf32", False, True) for one in (products, convolutions)]
    owners = (products, convolutions.conv, convolutions.rnn)
    return [(one, "fp32_precision", "ieee", "tf32") for one in owners]
