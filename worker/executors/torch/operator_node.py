"""Torch node: an ONNX node as the function sees it that turns it into a torch call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from .tensors import as_tensor, torch_dtype


class Body(Protocol):
    """A branch or body, compiled."""

    results: int
    """How many results it has."""

    @property
    def result_types(self) -> Sequence[tuple[torch.dtype, tuple[int, ...]]]:
        """The dtype and shape that it states for each result; 0 for an open dimension."""

    def run(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """The results for its own inputs and then the outer values that it takes."""


class TorchNode:
    """One node: its attributes, the opset of its domain, and the constants among its inputs.

    `constants` has a tensor for each input that is known before the run, by position.
    """

    def __init__(
        self,
        proto: NodeProto,
        opset: int,
        constants: Mapping[int, torch.Tensor],
        device: torch.device,
        compile_body: Callable[[GraphProto], Body],
    ) -> None:
        self.op_type = proto.op_type
        self.inputs = tuple(proto.input)
        self.outputs = tuple(proto.output)
        self.opset = opset
        self.constants = constants
        self.device = device
        self.attributes = {one.name: one for one in proto.attribute}
        self._compile_body = compile_body

    def has(self, name: str) -> bool:
        """Whether the node has an attribute."""
        return name in self.attributes

    def integer(self, name: str, default: int = 0) -> int:
        """An attribute that is one integer."""
        return int(self.attributes[name].i) if name in self.attributes else default

    def real(self, name: str, default: float = 0.0) -> float:
        """An attribute that is one number."""
        return float(self.attributes[name].f) if name in self.attributes else default

    def text(self, name: str, default: str = "") -> str:
        """An attribute that is a text."""
        return self.attributes[name].s.decode() if name in self.attributes else default

    def integers(self, name: str) -> list[int] | None:
        """An attribute that is a list of integers; None where it is missing."""
        return list(self.attributes[name].ints) if name in self.attributes else None

    def reals(self, name: str) -> list[float] | None:
        """An attribute that is a list of numbers; None where it is missing."""
        return list(self.attributes[name].floats) if name in self.attributes else None

    def texts(self, name: str) -> list[str] | None:
        """An attribute that is a list of texts; None where it is missing."""
        if name not in self.attributes:
            return None
        return [text.decode() for text in self.attributes[name].strings]

    def dtype(self, name: str, default: int) -> torch.dtype:
        """The dtype that an attribute names."""
        return torch_dtype(self.integer(name, default))

    def value(self, name: str) -> Any:
        """An attribute as onnx gives it; None where it is missing."""
        found = self.attributes.get(name)
        return helper.get_attribute_value(found) if found is not None else None

    def body(self, name: str) -> Body:
        """A branch or body of the node, compiled."""
        return self._compile_body(self.attributes[name].g)

    def gives(self, position: int) -> bool:
        """Whether an output is wanted."""
        return position < len(self.outputs) and bool(self.outputs[position])


def constant_tensor(proto: TensorProto, device: torch.device) -> torch.Tensor:
    """The tensor of data inside the model; ValueError for an element type that torch lacks."""
    torch_dtype(proto.data_type)
    return as_tensor(numpy_helper.to_array(proto)).to(device)
