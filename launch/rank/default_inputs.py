"""Default inputs: ones, in shapes that the model runs with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ...comm.arrays import Array
from ...comm.decoding import decode_payloads
from ...comm.rendezvous.rendezvous import Rendezvous
from ...worker.partition.plan import Signature
from ...worker.runtime.program_spec import ProgramSpec
from . import npz

_ENCODE = msgspec.msgpack.Encoder().encode


class FoundShapes(msgspec.Struct, frozen=True):
    """Message to the other ranks: the shapes for inputs that a shard leaves open, by name.

    `notes` tell of dimensions that have only one right size.
    """

    shapes: Mapping[str, tuple[int, ...]]
    notes: tuple[str, ...] = ()


def default_inputs(
    spec: ProgramSpec, path: str, inputs: Sequence[Signature], rendezvous: Rendezvous
) -> tuple[dict[str, Array], tuple[str, ...]]:
    """Inputs of ones for the shard at `path`, and what is to be said of their shapes.

    All ranks of a job call this. One may take an input that only another one computes with: a size
    is the largest that a rank has found. Raises InputError.
    """
    mine = _found(spec, path, inputs)
    shapes: dict[str, tuple[int, ...]] = {}
    for found in decode_payloads(rendezvous.exchange(_ENCODE(mine)), FoundShapes):
        for name, shape in found.shapes.items():
            known = shapes.get(name, shape)
            shapes[name] = tuple(map(max, known, shape)) if len(known) == len(shape) else shape
    return npz.ones(inputs, shapes), mine.notes


def _found(spec: ProgramSpec, path: str, inputs: Sequence[Signature]) -> FoundShapes:
    if all(one.type.shape is not None and min(one.type.shape, default=0) >= 0 for one in inputs):
        return FoundShapes({})
    # a rank whose build is kept reads no model
    from ...compiler.model_file.model_format import load_model
    from ...compiler.right_sizes.default_shapes import default_shapes

    shapes = default_shapes(load_model(path, spec.decryption, spec.assets.folder))
    return FoundShapes(shapes.shapes, tuple(map(str, shapes.right)))
