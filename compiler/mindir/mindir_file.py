"""Model file: its bytes, mapped or decrypted into private memory."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass

from ...comm.host.regular_file import open_regular
from .crypto import Decryption, decrypt
from .segments import mode_of

_HEAD = 4  # bytes


@dataclass(frozen=True, slots=True)
class MindirFile:
    """`data` are the file's bytes, or their plain text where it is `encrypted`.

    It is `doubtful` where no tag vouches for the plain text: the key may be wrong.
    """

    data: memoryview
    encrypted: bool = False
    doubtful: bool = False

    @classmethod
    def open(cls, path: str, decryption: Decryption | None) -> MindirFile:
        """Map the file at `path`, decrypted if need be; raises as `decrypt`, and OSError."""
        with open_regular(path) as file:
            if not os.fstat(file.fileno()).st_size:
                return cls(memoryview(b""))
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        if not mode_of(data):
            if decryption:
                decryption.refuse_plain(path)
            return cls(data)
        plain = decrypt(path, data, decryption)
        return cls(plain.data, True, not plain.authentic)

    @property
    def memory(self) -> memoryview | None:
        """The plain text, None where the file itself has it."""
        return self.data if self.encrypted else None

    @property
    def words(self) -> str:
        """The state of the file, for messages."""
        return "encrypted" if self.encrypted else "not encrypted"


def is_encrypted(path: str) -> bool:
    """Whether the file at `path` begins as encrypted ones do; False where it cannot be read."""
    try:
        with open_regular(path) as file:
            return bool(mode_of(memoryview(file.read(_HEAD))))
    except OSError:
        return False
