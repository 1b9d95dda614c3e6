"""Inputs of a bench: from an NPZ file, or random by what the model tells about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import numpy as np

from ...comm.arrays import Array
from ...comm.errors import InputError, UsageError
from ...comm.serving.string_tensor import strings_of
from ...comm.serving.tensor_spec import TensorSpec, dtype_named
from ...compiler.element_types.value_types import TensorType
from ...worker.partition.plan import Signature
from ..rank.npz import read_inputs, read_references
from .targets.target import BenchedModel

Shapes = Mapping[str, tuple[int, ...]]

_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", "S1")
_WORD = 8
"""Letters of a random text."""


def given_inputs(model: BenchedModel, path: str) -> dict[str, Array]:
    """The inputs of a file. Raises InputError."""
    outputs = [one.name for one in model.outputs]
    found = read_inputs(path, [_signature(one) for one in model.inputs], outputs)
    return {spec.name: _fitting(path, spec, found[spec.name]) for spec in model.inputs}


def expected_outputs(model: BenchedModel, path: str) -> dict[str, Array]:
    """The outputs of a file. Raises InputError."""
    inputs = [one.name for one in model.inputs]
    found = read_references(path, [_signature(one) for one in model.outputs], inputs)
    if not found:
        raise InputError(f"{path}: has no array for the outputs {[o.name for o in model.outputs]}.")
    return {name: _loaded(array) for name, array in found.items()}


def random_inputs(model: BenchedModel, shapes: Shapes, seed: int) -> dict[str, Array]:
    """Floats from 0 to 1, integers 0 and 1, which are positions of most tables, and texts of eight
    letters; `shapes` are those of inputs with open dimensions. Raises UsageError.
    """
    names = [one.name for one in model.inputs]
    for name in shapes:
        if name not in names:
            raise UsageError(f"--shape {name}: {model.name} has no such input, but {names}.")
    generator = np.random.default_rng(seed)
    return {spec.name: _random(spec, shapes.get(spec.name), generator) for spec in model.inputs}


def shapes_of(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The shapes of NAME:1,128 by name; UsageError for another text."""
    found = {}
    for text in texts:
        name, _, sizes = text.rpartition(":")
        numbers = sizes.split(",")
        if not name or not all(one.strip().isdecimal() for one in numbers):
            raise UsageError(f"--shape {text}: expected NAME:1,128, an input and its sizes.")
        found[name] = tuple(map(int, numbers))
    return found


def _fitting(path: str, spec: TensorSpec, array: Array) -> Array:
    found = _loaded(array)
    if found.dtype != dtype_named(spec.dtype) or not spec.fits(found.shape):
        raise InputError(
            f"{path}: the array for the input '{spec.name}' is {array.dtype.name} of the shape "
            f"{list(array.shape)}, expected {'texts' if spec.strings else spec.dtype} of "
            f"{_shape(spec)}."
        )
    return found


def _loaded(array: Array) -> Array:
    """An array of a file, where strings have a fixed length, as requests have it."""
    return strings_of(array) if array.dtype.kind in "US" else array


def _random(spec: TensorSpec, shape: Sequence[int] | None, generator: np.random.Generator) -> Array:
    if shape is None and not spec.fixed:
        example = ",".join("1" if size < 0 else str(size) for size in spec.shape or (-1,))
        raise UsageError(
            f"the input '{spec.name}' has the open shape {_shape(spec)}: give one with --shape "
            f"{spec.name}:{example}, or inputs with --inputs FILE.npz."
        )
    sizes = tuple(spec.shape or () if shape is None else shape)
    if not spec.fits(sizes):
        raise UsageError(
            f"--shape {spec.name}:{','.join(map(str, sizes))}: the model has {_shape(spec)}."
        )
    if spec.strings:
        letters = generator.choice(_LETTERS, (prod(sizes), _WORD))
        return strings_of([row.tobytes() for row in letters]).reshape(sizes)
    dtype = dtype_named(spec.dtype)
    if dtype.kind in "biu":
        return generator.integers(0, 2, prod(sizes)).astype(dtype).reshape(sizes)
    return generator.random(sizes, np.float32).astype(dtype)


def _shape(spec: TensorSpec) -> list[int]:
    return [-1] if spec.shape is None else list(spec.shape)


def _signature(spec: TensorSpec) -> Signature:
    """The spec as files of arrays are read by."""
    return Signature(spec.name, spec.name, TensorType(dtype_named(spec.dtype), spec.shape))
