"""Graphs of random models while they are made: values with their shapes, constants in every form.

All randomness comes from one `random.Random`, so a seed or hypothesis can draw the same models.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import FunctionProto, NodeProto, TensorProto, helper, numpy_helper

BATCH = 3
"""The size of the first dimension where it is open; no other dimension has it."""
SIZES = (1, 2, 4, 5, 6, 8)
FLOATS = (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16))
BF16 = np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True)
class Value:
    """A tensor of a graph.

    `exact` says that no rounding went into it, so that a comparison has one right answer.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    exact: bool = False

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS


@dataclass
class Draft:
    """A graph that grows: its nodes, constants and values so far, and what they may use.

    `outer` is the draft of the graph around a branch, whose values the branch may capture.
    """

    random: Random
    opset: int
    batch: int
    dtype: np.dtype[Any]
    nodes: list[NodeProto] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    initializers: list[TensorProto] = field(default_factory=list)
    sparse: list[onnx.SparseTensorProto] = field(default_factory=list)
    functions: list[FunctionProto] = field(default_factory=list)
    domains: dict[str, int] = field(default_factory=dict)
    counter: list[int] = field(default_factory=lambda: [0])
    outer: Draft | None = None

    def inner(self) -> Draft:
        """The draft of a branch, which sees the values of this one."""
        return replace(
            self, nodes=[], values=list(self.values), initializers=[], sparse=[], outer=self
        )

    def chance(self, share: float) -> bool:
        return self.random.randrange(1000) < share * 1000

    def fresh(self, stem: str = "v") -> str:
        self.counter[0] += 1
        return f"{stem}{self.counter[0]}"

    def pick(self, *, floats: bool = True, rank: int | None = None) -> Value | None:
        """A value of the dtype of the model, or of any; the last ones come more often."""
        found = [
            one
            for one in self.values
            if (not floats or one.dtype == self.dtype) and rank in (None, len(one.shape))
        ]
        if not found:
            return None
        return found[-1] if self.chance(0.6) else self.random.choice(found)

    def node(
        self,
        operator: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        domain: str = "",
        **attributes: object,
    ) -> NodeProto:
        """Append a node."""
        name = f"{operator} {outputs[0]}"
        made = helper.make_node(operator, inputs, outputs, name, domain=domain, **attributes)
        self.nodes.append(made)
        return made

    def add(self, value: Value) -> Value:
        self.values.append(value)
        return value

    def apply(
        self,
        operator: str,
        inputs: Sequence[str],
        like: Value,
        shape: Iterable[int] | None = None,
        dtype: np.dtype[Any] | None = None,
        exact: bool = False,
        domain: str = "",
        **attributes: object,
    ) -> Value:
        """Append a node with one output, which is as `like` but for what is given."""
        out = self.fresh()
        self.node(operator, inputs, [out], domain, **attributes)
        shape = like.shape if shape is None else tuple(int(dim) for dim in shape)
        return self.add(Value(out, dtype or like.dtype, shape, exact and like.exact))

    def open_axes(self, value: Value) -> list[int]:
        return [axis for axis, dim in enumerate(value.shape) if dim == self.batch]

    def free_axes(self, value: Value) -> list[int]:
        """The axes whose sizes do not change with the batch."""
        return [axis for axis, dim in enumerate(value.shape) if dim != self.batch]

    def weight(self, *shape: int, spread: float = 1.0, dtype: np.dtype[Any] | None = None) -> str:
        """A constant of small random numbers."""
        numbers = [self.random.randrange(-100, 101) for _ in range(int(np.prod(shape)))]
        array = np.array(numbers, np.float64).reshape(shape) / 100 * spread
        return self.constant(array.astype(dtype or self.dtype))

    def ints(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    def constant(self, array: np.ndarray[Any, Any]) -> str:
        """A constant: an initializer, or a node Constant in one of its forms."""
        name = self.fresh("c")
        kind = self.random.randrange(10)
        if kind == 8 and array.size and self.outer is not None:
            self.initializers.append(_tensor(self.random, array, name))
        elif kind == 9 and self.outer is not None:  # an initializer that only branches use
            self.outermost().initializers.append(_tensor(self.random, array, name))
        elif kind >= 6:
            self.node("Constant", [], [name], **_literal(self.random, array, name))
        elif kind == 5 and array.dtype == np.float32 and array.ndim in (1, 2) and array.size:
            self._sparse(array, name)
        else:
            self.outermost().initializers.append(_tensor(self.random, array, name))
        return name

    def outermost(self) -> Draft:
        return self.outer.outermost() if self.outer else self

    def _sparse(self, array: np.ndarray[Any, Any], name: str) -> None:
        sparse = _sparse_tensor(array, name)
        if self.chance(0.5):
            self.node("Constant", [], [name], sparse_value=sparse)
        else:
            self.outermost().sparse.append(sparse)


def _tensor(random: Random, array: np.ndarray[Any, Any], name: str) -> TensorProto:
    """The elements as bytes, or as numbers."""
    plain = array.dtype.kind in "fib" and array.dtype != np.float16 and array.dtype != BF16
    if random.randrange(4) or not plain:
        return numpy_helper.from_array(array, name)
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor(name, kind, array.shape, array.ravel().tolist())


def _literal(random: Random, array: np.ndarray[Any, Any], name: str) -> dict[str, object]:
    """The attribute of a node Constant; lists and numbers where they can hold the array."""
    short = array.ndim == 1 and random.randrange(2)
    if short and array.dtype == np.float32 and array.size:
        return {"value_floats": array.tolist()}
    if short and array.dtype == np.int64 and array.size:
        return {"value_ints": array.tolist()}
    if array.ndim == 0 and array.dtype == np.float32:
        return {"value_float": float(array)}
    if array.ndim == 0 and array.dtype == np.int64:
        return {"value_int": int(array)}
    return {"value": numpy_helper.from_array(array, name)}


def _sparse_tensor(array: np.ndarray[Any, Any], name: str) -> onnx.SparseTensorProto:
    flat = array.ravel()
    places = np.flatnonzero(flat).astype(np.int64)
    values = numpy_helper.from_array(flat[places], name)
    return helper.make_sparse_tensor(values, numpy_helper.from_array(places, ""), array.shape)
