"""Shape trace: one run of a call list that finds what the shapes of its inputs decide alone.

The calls that are left for inputs of these shapes compute no shapes: Shape, Gather and Concat of a
Reshape, masks and positions are constants then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from .call_list import NOTHING, CallList, TorchCall, store

_OF_SHAPE = ("Shape", "Size")
_MOST_BYTES = 1 << 20
"""The bytes of the largest value that is kept for inputs of one shape."""


class ShapeTrace:
    """A run that sorts values: `known` ones depend on shapes alone, `loose` ones have shapes that
    data decide."""

    def __init__(self, source: CallList) -> None:
        self._source = source
        self._known = {NOTHING, *source.constants}
        self._loose: set[int] = set()
        self._calls: list[TorchCall] = []
        self._numbers: dict[int, int] = {}
        self._values: list[Any] = []

    def run(self, inputs: Sequence[Any]) -> tuple[list[Any], CallList]:
        """The results, and the calls for all inputs of these shapes. Raises as CallList.run."""
        source = self._source
        self._values = values = source.template.copy()
        for slot, value in zip(source.arguments, inputs, strict=True):
            values[slot] = value
        for call in source.calls:
            made = call.made(values)
            store(values, call, made)
            self._sort(call)
            for slot in call.dead:
                if slot not in self._known:
                    values[slot] = None
        results = [values[slot] for slot in source.results]
        return results, self._list()

    def _sort(self, call: TorchCall) -> None:
        """Note what the outputs of a call depend on, and keep the call where it is needed."""
        made = [slot for slot in call.outputs if slot]
        if self._is_known(call) and all(map(self._is_small, made)):
            self._known.update(made)
            return
        if self._is_loose(call):
            self._loose.update(made)
        self._calls.append(replace(call, inputs=self._with_integers(call)))

    def _is_known(self, call: TorchCall) -> bool:
        if call.operator.random:
            return False
        if call.label.split(" ")[0] in _OF_SHAPE:
            return call.inputs[0] not in self._loose
        return self._known.issuperset(call.inputs)

    def _is_small(self, slot: int) -> bool:
        value = self._values[slot]
        return isinstance(value, torch.Tensor) and value.nbytes <= _MOST_BYTES

    def _is_loose(self, call: TorchCall) -> bool:
        sizes = [call.inputs[at] for at in call.operator.sizes if at < len(call.inputs)]
        return (
            call.operator.of_data
            or not self._loose.isdisjoint(call.inputs)
            or not self._known.issuperset(sizes)
        )

    def _with_integers(self, call: TorchCall) -> tuple[int, ...]:
        """The inputs of a call, where sizes that are known are tuples of integers."""
        inputs = list(call.inputs)
        for at in call.operator.sizes:
            if at < len(inputs) and inputs[at] and inputs[at] in self._known:
                inputs[at] = self._number(inputs[at])
        return tuple(inputs)

    def _number(self, slot: int) -> int:
        """The slot of a tensor's numbers."""
        if slot not in self._numbers:
            value = self._values[slot]
            self._numbers[slot] = len(self._values)
            self._known.add(len(self._values))
            self._values.append(tuple(value.reshape(-1).tolist()))
        return self._numbers[slot]

    def _list(self) -> CallList:
        used = {slot for call in self._calls for slot in call.inputs} | set(self._source.results)
        template = [
            value if slot in used and slot in self._known else None
            for slot, value in enumerate(self._values)
        ]
        source = self._source
        return CallList(self._calls, template, source.arguments, source.results, source.memory)
