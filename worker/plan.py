"""The plan of one rank: segments without collectives, and between them collectives and what contains some, in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec
from onnx import ModelProto, TensorProto

from ..comm.collectives.base import Call
from .mindir.graph import TensorType


class Signature(msgspec.Struct, frozen=True):
    """One input or output of the model: the user's name for it, the plan's, and its type."""

    name: str
    value: str
    type: TensorType
    has_result: bool = True


class State(msgspec.Struct, frozen=True):
    """A value that one request leaves for the next: what a request finds as `value` is the last one's `result`.

    The first finds `initial`. `value` is the parameter's name.
    """

    value: str
    result: str
    initial: TensorProto


class Segment(msgspec.Struct, frozen=True, tag=True):
    """A stretch of the graph without collectives, as an ONNX model of its own."""

    model: ModelProto
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Exchange(msgspec.Struct, frozen=True, tag=True):
    """One collective and the values that it reads and makes."""

    call: Call
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Block(msgspec.Struct, frozen=True):
    """A branch or body that contains collectives: a plan inside the plan, which sees all values around it."""

    steps: tuple[Step, ...]
    arguments: tuple[str, ...]
    results: tuple[str, ...]


class Branch(msgspec.Struct, frozen=True, tag=True):
    """ONNX If: one block or the other, by a bool of one element. `inputs` is all that either takes from outside."""

    condition: str
    yes: Block
    no: Block
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Both blocks."""
        return self.yes, self.no


class Repeat(msgspec.Struct, frozen=True, tag=True):
    """ONNX Loop: a block, over and over, at most `count` times and while `condition` holds; "" is no such limit.

    The block's arguments are the round's number, the condition and the carried values, which start as `initial`; its
    results are the condition, the carried values, and values of which `outputs` has those of all rounds, stacked.
    """

    count: str
    condition: str
    initial: tuple[str, ...]
    body: Block
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The one block."""
        return (self.body,)


Step: TypeAlias = Segment | Exchange | Branch | Repeat


class Origin(msgspec.Struct, frozen=True):
    """What a value is computed from: weights alone, or also what a request brings (`of_inputs`).

    `weights` names some of the weights in it that are not one number all over.
    """

    digest: bytes
    weights: tuple[str, ...] = ()
    of_inputs: bool = False


class Plan(msgspec.Struct, frozen=True):
    """What one rank does for a request, in order. `types` has every value that passes between steps.

    `constants` are the initializers that a collective, a control step or an output takes directly.
    """

    path: str
    folder: str
    inputs: tuple[Signature, ...]
    outputs: tuple[Signature, ...]
    steps: tuple[Step, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, TensorProto]
    states: tuple[State, ...] = ()
    unused: tuple[str, ...] = ()
    """The parameters of a MindIR that none of its nodes takes."""

    origins: tuple[Origin, ...] = ()
    """Of the operands of each of `exchanges`; empty where they were not worked out (see origin.py)."""

    @property
    def exchanges(self) -> list[Exchange]:
        """The collectives, in file order: that in which this rank enters them if every block runs once."""
        return [step for step in walk(self.steps) if isinstance(step, Exchange)]

    @property
    def segments(self) -> list[Segment]:
        """The segments, likewise."""
        return [step for step in walk(self.steps) if isinstance(step, Segment)]


def walk(steps: Sequence[Step]) -> Iterator[Step]:
    """Steps and those in their blocks, each block after the step that it belongs to."""
    for step in steps:
        yield step
        if isinstance(step, (Branch, Repeat)):
            for block in step.blocks:
                yield from walk(block.steps)
