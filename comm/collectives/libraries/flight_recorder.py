"""Flight recorder: names the collectives that torch has begun and not ended, for errors of hangs.

torch keeps the last collectives of a process in a ring:
https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html
"""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec
import torch

from ...decoding import guarded

_SIZE, _OLDER = "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"
"""The variables with the length of the ring, 0 by default; torch 2.9 and later warn of the older
one."""
_KEPT = "256"
_DUMPS = {"nccl": "_dump_nccl_trace_json", "gloo": "_dump_fr_trace_json"}
_TOLD = 4


class RecordedCollective(msgspec.Struct, frozen=True):
    """A collective in the ring: its number in its group, its tensors and its state.

    It has ended once it is `retired`.
    """

    profiling_name: str
    state: str
    retired: bool
    collective_seq_id: int
    p2p_seq_id: int = 0
    is_p2p: bool = False
    process_group: tuple[str, ...] = ()
    input_dtypes: tuple[str, ...] = ()
    input_sizes: tuple[tuple[int, ...], ...] = ()

    def __str__(self) -> str:
        number = self.p2p_seq_id if self.is_p2p else self.collective_seq_id
        tensors = ", ".join(
            f"{dtype}{list(sizes)}"
            for dtype, sizes in zip(self.input_dtypes, self.input_sizes, strict=False)
        )
        group = f" of group {self.process_group[0]}" if self.process_group else ""
        return f"{self.profiling_name} {number}{group} on {tensors or 'no tensors'} is {self.state}"


class Recording(msgspec.Struct, frozen=True):
    """The ring, the oldest collective first."""

    entries: tuple[RecordedCollective, ...] = ()

    @property
    def unfinished(self) -> list[RecordedCollective]:
        """The collectives that have not ended."""
        return [one for one in self.entries if not one.retired]


_decode = guarded(msgspec.json.Decoder(Recording))


def record_collectives() -> None:
    """Have torch keep the collectives of process groups that are made from now on."""
    if _OLDER in os.environ:  # a user's choice
        return
    os.environ.setdefault(_SIZE, _KEPT)
    if _version() < (2, 9):
        os.environ[_OLDER] = os.environ[_SIZE]


def _version() -> tuple[int, ...]:
    return tuple(map(int, torch.__version__.split(".")[:2]))


def unfinished_collectives(backend: str) -> str:
    """The collectives of a backend that torch has not ended, in words; "" without any."""
    dump: Callable[[], bytes] | None = getattr(
        torch._C._distributed_c10d, _DUMPS.get(backend, ""), None
    )
    return described(dump()) if dump else ""


def described(recording: bytes) -> str:
    """The collectives without an end in a dump of torch (JSON), in words."""
    try:
        found = _decode(recording).unfinished
    except msgspec.DecodeError:  # of a version of torch that writes it otherwise
        return ""
    more = f"; and {len(found) - _TOLD} more" if len(found) > _TOLD else ""
    return "; ".join(map(str, found[:_TOLD])) + more
