"""All that nodes overwrite while a model is lowered: parameters that keep their value, and buffers that do not."""

from __future__ import annotations

from collections.abc import Sequence

from ..mindir.graph import Model, TensorType
from .buffers import IN_PLACE, SAME_BUFFER, Overwritten
from .builder import Builder, Tensor, Value
from .variables import ASSIGNING, FoundVariable, Variable, Variables

_WRITING = ASSIGNING | IN_PLACE


class Memory:
    """What stands in parameters and buffers at the point that lowering has reached."""

    def __init__(self, model: Model, variables: tuple[str, ...]) -> None:
        self.variables = Variables(model, variables)
        self.overwritten = Overwritten()
        self.plain: dict[str, str] = {}  # tensors of the parameters not known to be written, and their keys
        used = {node.primitive for graph in (model.entry, *model.functions.values()) for node in graph.nodes}
        self.writes = not used.isdisjoint(_WRITING)
        self._overwrites = not used.isdisjoint(IN_PLACE)

    def read(self, value: Value) -> Value:
        """A value with what stands in the parameters now."""
        return self.variables.read(value)

    def written(self, b: Builder, primitive: str, inputs: Sequence[Value], result: Value) -> Value:
        """The result of a node, which stands in its first input from now on if the primitive says so."""
        target = inputs[0] if inputs else None
        if primitive in _WRITING:
            if isinstance(target, Variable):
                return self.variables.write(b, target, result)
            if isinstance(target, Tensor) and target.name in self.plain:
                raise FoundVariable(self.plain[target.name])
        return self._buffered(b, primitive, inputs, result) if self._overwrites else result

    def _buffered(self, b: Builder, primitive: str, inputs: Sequence[Value], result: Value) -> Value:
        """The result in the buffer of the first input, or in one of its own, as MindSpore has it."""
        if primitive in IN_PLACE:
            self.overwritten.write(inputs[0], result)
        elif isinstance(result, Tensor) and primitive not in SAME_BUFFER:
            if b.is_constant(result) or result.name in [x.name for x in inputs if isinstance(x, Tensor)]:
                copy: Tensor = b.op("Identity", result, type=TensorType(result.dtype, result.shape))
                return copy
        return result
