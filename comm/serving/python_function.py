"""Python function: a callable of the operator that answers requests, and the tensors of these."""

from __future__ import annotations

import os

import msgspec

from .tensor_spec import TensorSpec


class PythonFunction(msgspec.Struct, frozen=True):
    """The callable `name` of `source`: the path of a file that ends in .py, else a module.

    `inputs` and `outputs` are what its configuration declares.
    """

    source: str
    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    @property
    def in_file(self) -> bool:
        """Whether the source is a file."""
        return is_file(self.source)

    @property
    def text(self) -> str:
        """The function as texts name it: without the folder of its file."""
        source = os.path.basename(self.source) if self.in_file else self.source
        return f"{source}:{self.name}"


def is_file(source: str) -> bool:
    """Whether the source of a function is the path of a file."""
    return source.endswith(".py")
