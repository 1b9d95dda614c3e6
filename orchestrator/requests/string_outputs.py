"""String outputs: turns those of a result from their form in shared memory into arrays of bytes."""

from __future__ import annotations

from collections.abc import Sequence

from ...comm.errors import ModelError
from ...comm.serving.string_tensor import unpacked
from ...comm.serving.tensor_spec import TensorSpec
from .request import Outputs, Result


class StringOutputs:
    """The outputs of one model that are strings; most models have none."""

    def __init__(self, specs: Sequence[TensorSpec]) -> None:
        self._names = frozenset(spec.name for spec in specs if spec.strings)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._names)

    def unpacked(self, result: Result) -> Result:
        """A result for callers. Raises ModelError where a rank wrote no strings."""
        if not self._names:
            return result
        if isinstance(result, dict):
            return self._outputs(result)
        return [self._outputs(one) for one in result]

    def _outputs(self, outputs: Outputs) -> Outputs:
        found = dict(outputs)
        for name in self._names & found.keys():
            try:
                found[name] = unpacked(outputs[name])
            except ValueError as error:
                text = f"the output '{name}' is no tensor of strings: it {error}."
                raise ModelError(text) from None
        return found
