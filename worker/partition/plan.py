"""The plan of one rank: segments, and the collectives and control flow between them, in order.

Between the loaded model and its run: `Program` (worker/runtime) makes a plan ready and runs it,
step by step, for each request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np
from google.protobuf.message import DecodeError, Message
from onnx import ModelProto, TensorProto

from ...comm.collective_call import Call
from ...comm.decoding import guarded
from ...compiler.element_types import dtypes
from ...compiler.element_types.value_types import TensorType


class Signature(msgspec.Struct, frozen=True):
    """One input or output of the model: its name for users, its name in the plan, and its type.

    `has_result` is false for an output that is meaningless on this rank.
    """

    name: str
    value: str
    type: TensorType
    has_result: bool = True
    default: TensorProto | None = None
    """The array of an optional input, of the last ones, that a request leaves out."""

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether the input may have this shape: all dimensions that the model fixes are equal."""
        declared = self.type.shape
        return declared is None or (
            len(declared) == len(shape)
            and all(want < 0 or want == have for want, have in zip(declared, shape, strict=True))
        )


class StateVariable(msgspec.Struct, frozen=True):
    """A value that a request leaves for the next one: `value` of a request is `result` of the last.

    The first request finds `initial`. `value` is the name of the parameter.
    """

    value: str
    result: str
    initial: TensorProto


class Segment(msgspec.Struct, frozen=True, tag=True):
    """A stretch of the graph without collectives, as an ONNX model of its own."""

    model: ModelProto
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class CollectiveStep(msgspec.Struct, frozen=True, tag=True):
    """One collective, the values that it reads, and those that it makes."""

    call: Call
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Block(msgspec.Struct, frozen=True):
    """A branch or body with collectives: a plan inside the plan, which sees all values around
    it.
    """

    steps: tuple[Step, ...]
    arguments: tuple[str, ...]
    results: tuple[str, ...]


class BranchStep(msgspec.Struct, frozen=True, tag=True):
    """ONNX If: one of two blocks, by a bool of one element.

    `inputs` has all values that either block takes from outside.
    """

    condition: str
    yes: Block
    no: Block
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Both blocks."""
        return self.yes, self.no


class LoopStep(msgspec.Struct, frozen=True, tag=True):
    """ONNX Loop: a block that runs at most `count` times, and while `condition` holds; "" sets no
    limit.

    The arguments of the block are the number of the round, the condition, and the carried values,
    which start as `initial`. Its results are the condition, the carried values, and values that
    `outputs` has of all rounds, stacked.
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


Step: TypeAlias = Segment | CollectiveStep | BranchStep | LoopStep


class Origin(msgspec.Struct, frozen=True):
    """The computation behind a value: of weights alone, or with `of_inputs` of a request's inputs
    too.

    `weights` names some of its weights whose elements are not all equal.
    """

    digest: bytes
    weights: tuple[str, ...] = ()
    of_inputs: bool = False


class Plan(msgspec.Struct, frozen=True):
    """The work of one rank for a request: steps, in order.

    `types` has every value that passes between steps. `constants` has the initializers that a
    collective, a control step or an output takes directly.
    """

    path: str
    folder: str
    inputs: tuple[Signature, ...]
    outputs: tuple[Signature, ...]
    steps: tuple[Step, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, TensorProto]
    states: tuple[StateVariable, ...] = ()
    unused: tuple[str, ...] = ()
    """The parameters of a MindIR that none of its nodes takes."""

    origins: tuple[Origin, ...] = ()
    """The origins of the operands of each of `collectives`; empty where unknown."""

    slicing: str = ""
    """The text that is the same in all shards of one slicing; "" in shards of another origin."""

    placed: bool = False
    """Whether the shard says which member of its groups it was written for, as those of a slicing
    do: loading has refused it on other ranks."""

    @property
    def collectives(self) -> list[CollectiveStep]:
        """The collectives in file order, in which this rank enters them if every block runs
        once.
        """
        return [step for step in walk(self.steps) if isinstance(step, CollectiveStep)]

    @property
    def segments(self) -> list[Segment]:
        """The segments in file order."""
        return [step for step in walk(self.steps) if isinstance(step, Segment)]


def walk(steps: Sequence[Step]) -> Iterator[Step]:
    """All steps and those in their blocks; each block follows its step."""
    for step in steps:
        yield step
        if isinstance(step, (BranchStep, LoopStep)):
            for block in step.blocks:
                yield from walk(block.steps)


def _encode(value: Any) -> Any:
    if isinstance(value, np.dtype):
        return dtypes.to_onnx(value)
    if isinstance(value, Message):
        return value.SerializeToString()
    raise NotImplementedError(f"{type(value).__name__} in a plan")


def _decode(kind: Any, value: Any) -> Any:
    if getattr(kind, "__origin__", kind) is np.dtype:
        return dtypes.from_onnx(value)
    if issubclass(kind, Message):
        try:
            return kind.FromString(value)
        except DecodeError as error:  # msgspec knows only Python's own errors
            raise ValueError(str(error)) from error
    raise NotImplementedError(f"{kind.__name__} in a plan")


encode_plan = msgspec.msgpack.Encoder(enc_hook=_encode).encode
decode_plan = guarded(msgspec.msgpack.Decoder(Plan, dec_hook=_decode))
