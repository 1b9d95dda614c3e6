"""Memory of a model: parameters and buffers that its nodes write over, as immutable values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...element_types.value_types import TensorType, TupleType
from ...mindir.graph import MindirModel
from ..builder import ASSIGNING, IN_PLACE, Builder, OnnxTensor, Value

_WRITING = ASSIGNING | IN_PLACE
# Primitives that hand on a buffer under another name; every other one has a result of its own.
_SAME_BUFFER = IN_PLACE | {"Depend", "Load", "MakeTuple", "TupleGetItem"}


@dataclass(frozen=True, slots=True)
class AssignedParameter:
    """A parameter that the model assigns to, by its key: its value depends on when it is read."""

    key: str


class AssignedParameterFound(Exception):
    """A parameter turned out to be assigned to: lowering starts again, knowing that."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class VariableTable:
    """The parameters of `keys`, and the tensor that each holds where lowering has arrived."""

    def __init__(self, model: MindirModel, keys: tuple[str, ...]) -> None:
        self._weights = {key: model.weights[key] for key in keys}
        self._initial: dict[str, OnnxTensor] = {}
        self._now: dict[str, OnnxTensor] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._weights

    @property
    def keys(self) -> tuple[str, ...]:
        """The parameters' keys."""
        return tuple(self._weights)

    @property
    def types(self) -> TupleType:
        """The types of all parameters."""
        weights = self._weights.values()
        return TupleType(tuple(TensorType(weight.dtype, weight.shape) for weight in weights))

    def start(self, key: str, initial: OnnxTensor) -> None:
        """Set the value that a parameter has when a request begins."""
        self._initial[key] = self._now[key] = initial

    def read(self, value: Value) -> Value:
        """A value with the tensors that assigned parameters hold now, in tuples too."""
        if isinstance(value, AssignedParameter):
            return self._now[value.key]
        if isinstance(value, tuple) and self._weights:
            return tuple(self.read(item) for item in value)
        return value

    def write(self, b: Builder, variable: AssignedParameter, value: Value) -> OnnxTensor:
        """Make a parameter hold `value` from now on."""
        old = self._now[variable.key]
        new = b.cast(b.tensor(value, old.dtype), old.dtype)
        self._now[variable.key] = OnnxTensor(new.name, old.dtype, old.shape)
        return self._now[variable.key]

    @property
    def held(self) -> tuple[OnnxTensor, ...]:
        """The tensors that all parameters hold now."""
        return tuple(self._now.values())

    @held.setter
    def held(self, tensors: tuple[OnnxTensor, ...]) -> None:
        self._now = dict(zip(self._now, tensors, strict=True))

    @property
    def changed(self) -> list[tuple[OnnxTensor, OnnxTensor]]:
        """(first, last) tensor of each parameter that a request leaves changed."""
        pairs = [(self._initial[key], now) for key, now in self._now.items()]
        return [(initial, now) for initial, now in pairs if now.name != initial.name]


class OverwrittenBuffers:
    """Values that were overwritten, and those that stand there now.

    A Load hands on a buffer, so reading it after an in-place node gives the new value. MindSpore
    puts a TensorMove where an earlier value is still needed, which has a name of its own here.
    """

    def __init__(self) -> None:
        self._now: dict[str | int, Value] = {}

    def copy(self) -> OverwrittenBuffers:
        """The same, to go on with in a branch."""
        other = OverwrittenBuffers()
        other._now = dict(self._now)
        return other

    def write(self, old: Value, new: Value) -> None:
        """Put `new` where `old` stands."""
        key = _buffer(old)
        if key is not None and key != _buffer(new):
            self._now[key] = new

    def read(self, value: Value) -> Value:
        """The value that stands in a value's buffer now."""
        if not self._now:
            return value
        if isinstance(value, tuple):
            return tuple(self.read(item) for item in value)
        while (key := _buffer(value)) in self._now:
            value = self._now[key]
        return value


def _buffer(value: Value) -> str | int | None:
    """The tensor's name, or the id of an array of the file; None for values without a buffer."""
    if isinstance(value, OnnxTensor):
        return value.name
    return id(value) if isinstance(value, np.ndarray) else None


class ModelMemory:
    """Contents of parameters and buffers at the point that lowering has reached."""

    def __init__(self, model: MindirModel, variables: tuple[str, ...]) -> None:
        self.variables = VariableTable(model, variables)
        self.overwritten = OverwrittenBuffers()
        self.plain: dict[str, str] = {}  # keys of the parameters not known to be written, by tensor
        used = {node.primitive for graph in model.graphs for node in graph.nodes}
        self.writes = not used.isdisjoint(_WRITING)
        self._overwrites = not used.isdisjoint(IN_PLACE)

    def read(self, value: Value) -> Value:
        """A value with what the parameters hold now."""
        return self.variables.read(value)

    def written(self, b: Builder, primitive: str, inputs: Sequence[Value], result: Value) -> Value:
        """The result of a node; a primitive that writes puts it in place of the first input."""
        target = inputs[0] if inputs else None
        if primitive in _WRITING:
            if isinstance(target, AssignedParameter):
                return self.variables.write(b, target, result)
            if isinstance(target, OnnxTensor) and target.name in self.plain:
                raise AssignedParameterFound(self.plain[target.name])
        return self._buffered(b, primitive, inputs, result) if self._overwrites else result

    def _buffered(
        self, b: Builder, primitive: str, inputs: Sequence[Value], result: Value
    ) -> Value:
        """The result in the buffer of the first input, or in one of its own."""
        if primitive in IN_PLACE:
            self.overwritten.write(inputs[0], result)
        elif isinstance(result, OnnxTensor) and primitive not in _SAME_BUFFER:
            taken = [x.name for x in inputs if isinstance(x, OnnxTensor)]
            if b.is_constant(result) or result.name in taken:
                return b.op("Identity", result, type=TensorType(result.dtype, result.shape))
        return result
