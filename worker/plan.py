"""The plan of one rank: segments without collectives and the collectives between them, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from onnx import ModelProto, TensorProto

from ..comm.collectives.base import Call
from .mindir.graph import TensorType


@dataclass(frozen=True, slots=True)
class Signature:
    """One input or output of the model: the user's name for it, the plan's, and its type."""

    name: str
    value: str
    type: TensorType
    has_result: bool = True


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the graph without collectives, as an ONNX model of its own."""

    model: ModelProto
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One collective and the values that it reads and makes."""

    call: Call
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


Step: TypeAlias = Segment | Exchange


@dataclass(frozen=True, slots=True)
class Plan:
    """What one rank does for a request, in order. `types` has every value that passes between steps.

    `constants` are the initializers that a collective or an output takes directly.
    """

    path: str
    folder: str
    inputs: tuple[Signature, ...]
    outputs: tuple[Signature, ...]
    steps: tuple[Step, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, TensorProto]

    @property
    def exchanges(self) -> list[Exchange]:
        """The collectives, in the order in which this rank enters them."""
        return [step for step in self.steps if isinstance(step, Exchange)]
