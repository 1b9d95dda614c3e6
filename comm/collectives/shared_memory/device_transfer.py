"""Device transfers: Sends and Receives whose tensors go from device to device, not by the host.

The sender copies a piece of the tensor into memory of its device, which the receiver has mapped.
The mailbox of the pair then carries only the note that the piece is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from ..parts import Array, as_bytes, spans
from ..signature import Signer
from ..signed_tensor import SignedTensor
from .layout import CHUNKS
from .mailbox import MailboxEnd
from .shared_word import SharedWord

if TYPE_CHECKING:
    import torch

    from ...sharing.device_memory import DeviceMemory

Moved: TypeAlias = "Array | torch.Tensor"
SLOT_BYTES = 4 << 20
"""Bytes of one piece of a message."""
SLOTS = CHUNKS + 2
"""The receiver is behind by as many pieces as the mailbox has chunks, by the piece whose note it
has taken, and by the one that the sender writes now."""
RING_BYTES = SLOTS * SLOT_BYTES
_NOTE = np.empty(0, np.uint8)


class DeviceRing:
    """The slots of a pair of ranks, in memory of the sender's device, from the byte `start` on."""

    def __init__(self, memory: DeviceMemory, start: int) -> None:
        self.memory = memory
        self._start = start
        self._turn = 0

    def next(self) -> int:
        """The offset of the slot for the next piece."""
        self._turn += 1
        return self._start + self._turn % SLOTS * SLOT_BYTES


class DeviceTransfer:
    """One Send or Receive of a rank's program: of a tensor of the device, or an array of the
    host.
    """

    def __init__(self, sign: Signer, word: SharedWord, end: MailboxEnd, ring: DeviceRing) -> None:
        self._sign = sign
        self._word = word
        self._end = end
        self._ring = ring

    def __call__(self, inputs: Sequence[Moved], outputs: Sequence[Moved]) -> None:
        """Send the input, or fill the output; both are contiguous."""
        (given,) = (*inputs, *outputs)
        data, signature = self._described(given)
        self._end.begin()
        for lo, hi in spans(len(data), SLOT_BYTES):
            if self._end.sends:
                self._put(data[lo:hi])
                self._meet(signature)
            else:
                # The sender takes the note for leave to write to a slot that was read before.
                self._ring.memory.settle()
                self._meet(signature)
                self._take(data[lo:hi])

    def _described(self, given: Moved) -> tuple[Moved, int]:
        """The bytes, and the signature of the call with them."""
        if isinstance(given, np.ndarray):
            return as_bytes(given), self._sign(given.dtype, given.nbytes)
        import torch  # arrays of the host do without

        return given.view(-1).view(torch.uint8), self._sign(*SignedTensor.of(given))

    def _meet(self, signature: int) -> None:
        """Pass the note of one piece."""
        end = self._end
        if not self._word.has_come(*end.awaited):
            self._word.wait(*end.awaited, end)
        end.move(_NOTE, signature)

    def _put(self, piece: Moved) -> None:
        memory, slot = self._ring.memory, self._ring.next()
        if isinstance(piece, np.ndarray):
            memory.write(slot, piece)
        else:
            memory.put(slot, cast("torch.Tensor", piece))

    def _take(self, piece: Moved) -> None:
        memory, slot = self._ring.memory, self._ring.next()
        if isinstance(piece, np.ndarray):
            memory.read(slot, piece)
        else:
            memory.take(slot, cast("torch.Tensor", piece))
