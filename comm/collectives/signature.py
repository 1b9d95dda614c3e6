"""Signature of an entered collective: one word, quick to compare with those of other members."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..collective_call import REDUCING, Call, Kind, Reduction

_KINDS = list(Kind)
_REDUCTIONS = list(Reduction)
_ROOTED = frozenset((Kind.BROADCAST, Kind.REDUCE, Kind.GATHER, Kind.SCATTER))
_LETTERS = {"f": "float", "i": "int", "u": "uint", "b": "bool", "c": "complex", "V": "bfloat"}


def sign(call: Call, dtype: np.dtype[Any], nbytes: int) -> int:
    """Pack kind, reduction, root (or tag), dtype and size into one word.

    Members that fit together have the same.
    """
    # A Send and its Receive have the same signature, as they are compared with each other.
    kind = Kind.SEND if call.kind is Kind.RECEIVE else call.kind
    reduction = _REDUCTIONS.index(call.reduction) if kind in REDUCING else 0
    root = call.root if kind in _ROOTED else call.tag if kind is Kind.SEND else 0
    head = (_KINDS.index(kind) << 2 | reduction) << 8 | root & 0xFF
    form = ord(dtype.kind) << 3 | dtype.itemsize.bit_length() & 7
    return (head << 10 | form) << 40 | nbytes & (1 << 40) - 1


class Signer:
    """Signs one call again and again; the arrays are mostly those of the last time."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._dtype: np.dtype[Any] | None = None
        self._nbytes = -1
        self._signature = 0

    def __call__(self, dtype: np.dtype[Any], nbytes: int) -> int:
        """The signature of the call with `nbytes` of data of this type; see `sign`."""
        if dtype is not self._dtype or nbytes != self._nbytes:
            self._dtype = dtype
            self._nbytes = nbytes
            self._signature = sign(self._call, dtype, nbytes)
        return self._signature


def describe(signature: int) -> str:
    """A signature in words, for the message of a mismatch."""
    nbytes, form, head = signature & (1 << 40) - 1, signature >> 40 & 1023, signature >> 50
    kind, root = _KINDS[head >> 10], head & 0xFF
    said = kind.value
    if kind in REDUCING:
        said += f"({_REDUCTIONS[head >> 8 & 3].value})"
    if kind in _ROOTED:
        said += f" with root {root}"
    if kind is Kind.SEND:
        said += f"/Receive with tag {root}"
    letter = _LETTERS.get(chr(form >> 3), chr(form >> 3))
    bits = (1 << (form & 7)) * 4
    return f"{said} of {nbytes} bytes of {letter}{'' if letter == 'bool' else bits}"
