"""Whether two processes build the same model: a hash of what it computes and of its weights' contents."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from math import prod

import msgspec
from onnx import TensorProto

from ..plan import Plan
from ..plan_coding import encode_plan
from .live_plan import WeightReader, type_of

_WHOLE = 1 << 20
"""Bytes up to which a tensor is hashed whole."""

_SAMPLES, _SAMPLE = 64, 4096
"""How many places, and how many bytes at each, are hashed of larger ones."""


def model_identity(plan: Plan, weights: Mapping[str, bytes], reader: WeightReader) -> str:
    """The hash (BLAKE2b, hex) of a plan whose live weights have the digests `weights`, whatever its files are called.

    It takes milliseconds, as users are to build in milliseconds: of a tensor above 1 MiB, 64 pieces of 4 KiB spread
    over it are hashed. That tells any two models that were trained apart; it is a check against mistakes, not
    against forgery, which the whitelist is for.
    """
    bare = msgspec.structs.replace(plan, path="", folder="", states=())
    total = hashlib.blake2b(encode_plan(bare), digest_size=20)
    states = [(state.initial.name, _digest(state.initial, reader)) for state in plan.states]
    for name, digest in (*sorted(weights.items()), *states):
        total.update(name.encode())
        total.update(digest)
    return total.hexdigest()


def content_digests(weights: Mapping[str, TensorProto], reader: WeightReader) -> dict[str, bytes]:
    """The hash of each weight's type and contents."""
    return {name: _digest(tensor, reader) for name, tensor in weights.items()}


def _digest(tensor: TensorProto, reader: WeightReader) -> bytes:
    kind = type_of(tensor)
    digest = hashlib.blake2b(f"{kind.dtype} {kind.shape}".encode(), digest_size=20)
    for start, length in _pieces(prod(kind.shape or ()) * kind.dtype.itemsize):
        digest.update(reader.part(tensor, start, length))
    return digest.digest()


def _pieces(size: int) -> Iterator[tuple[int, int]]:
    if size <= _WHOLE:
        yield 0, size
        return
    for number in range(_SAMPLES):
        yield number * (size - _SAMPLE) // (_SAMPLES - 1), _SAMPLE
