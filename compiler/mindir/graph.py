"""MindIR model in memory: graphs of primitives, typed values, weights that stay in their file."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...comm.host.stamp import Files
from ..element_types.value_types import ValueType
from .paths import base_folder

MOST_DIMENSIONS = 32
"""Dimensions of an array in every numpy that may be installed; MindSpore has 8. The product of a
million, which a file can name, takes hours.
"""


@dataclass(frozen=True, slots=True)
class Monad:
    """An ordering token; carries no value."""


@dataclass(frozen=True, slots=True)
class NameConstant:
    """A constant that is only a name: a class, a name space or a symbol."""

    text: str


MONAD = Monad()
Constant: TypeAlias = Any
"""A number, str, None, np.dtype, np.ndarray, MONAD, NameConstant, or a tuple or dict of these."""


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """A parameter, left where it is stored: `length` bytes at `offset` of `path`.

    Row-major and little endian. `name` is the parameter's own name, without the graph's. Of an
    encrypted file `memory` is the plain text, in which `offset` counts.
    """

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    path: str
    offset: int
    length: int
    memory: memoryview | None = None

    def array(self) -> NDArray[Any]:
        """A read-only view on the mapped file or the plain text; nothing is copied."""
        if not self.length:
            return np.zeros(self.shape, self.dtype)
        if self.memory is not None:
            raw = np.frombuffer(self.memory, np.uint8, self.length, self.offset)
            return raw.view(self.dtype).reshape(self.shape)
        with open(self.path, "rb") as file:
            start = self.offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
            mapped = mmap.mmap(
                file.fileno(),
                self.offset - start + self.length,
                offset=start,
                access=mmap.ACCESS_READ,
            )
        raw = np.frombuffer(mapped, np.uint8, self.length, self.offset - start)
        return raw.view(self.dtype).reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Input:
    """One argument of a graph; nodes refer to its `key`, users to its `name`."""

    key: str
    name: str
    type: ValueType


@dataclass(frozen=True, slots=True)
class MindirNode:
    """One operation. `primitive` is the operator, or empty where `target` names what is called."""

    key: str
    primitive: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Constant]
    type: ValueType
    scope: str
    target: str = ""

    @property
    def label(self) -> str:
        """The node as error messages name it: its scope, else its key."""
        return self.scope or self.key


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in an order in which they can run; `output` is the key of what is returned."""

    name: str
    inputs: tuple[Input, ...]
    nodes: tuple[MindirNode, ...]
    output: str
    output_type: ValueType


@dataclass(frozen=True, slots=True)
class MindirModel:
    """A whole file: the entry graph, the functions it calls, constants and weights by key."""

    path: str
    producer: str
    entry: Graph
    functions: Mapping[str, Graph]
    constants: Mapping[str, Constant]
    weights: Mapping[str, StoredWeight]
    user_info: Mapping[str, str] = field(default_factory=dict)
    memory: Mapping[str, memoryview] = field(
        default_factory=dict
    )  # the plain text of encrypted files, by path
    weights_folder: str = ""
    """Where external weights lie, if not in the folder of `path`."""
    files: Files = field(default_factory=dict)

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The entry graph and all functions."""
        return (self.entry, *self.functions.values())

    @property
    def folder(self) -> str:
        """The folder inside which every file of this model lies."""
        return base_folder(self.path, self.weights_folder)

    def location(self, path: str) -> str:
        """A file's place relative to the model's folder, as ONNX names external data."""
        return os.path.relpath(os.path.realpath(path), os.path.realpath(self.folder))
