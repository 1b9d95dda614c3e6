"""Graph reader: the graphs of a .ms file as typed graphs of primitives, as MindIR has them.

Nodes get the names of their primitives, behind `Lite.` where MindIR's differ; results and weights
get the numbers of their tensors. Where a node computes with quantised numbers, its inputs are made
floats before it and its results are quantised behind it: no other primitive sees such numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from keyword import iskeyword
from typing import Any

import numpy as np

from ...comm.errors import ModelError
from ..element_types.dtypes import FLOAT32, is_float
from ..element_types.value_types import OtherType, TensorType, TupleType, ValueType
from ..mindir.graph import Constant, Graph, Input, MindirNode, StoredWeight
from .equal_primitives import PREFIX, primitive_name
from .flatbuffer import Table
from .lite_tensors import LiteTensor, LiteTensors
from .node_quantization import NodeQuantization

_VALUES = frozenset(
    "Clip CropAndResize Fill LinSpace LshProjection NonMaxSuppression OneHot PadFusion Range "
    "Resize".split()
)
"""Primitives that need the values of small floating inputs: these are then constants."""
_FEW = 1024
_WEIGHTS_ONLY = ("QUANT_NONE", "QUANT_WEIGHT", "WeightQuant", "QUANT_DYNAMIC")
"""Quantisations of nodes that compute with floats."""
_CHOICES = {"Switch": "Switch", "SwitchLayer": "switch_layer"}
"""Primitives that choose a function, each with that of MindIR."""


class GraphReader:
    """The graphs of one file, and the constants and weights that they use, by key."""

    def __init__(self, path: str, root: Table, tensors: LiteTensors) -> None:
        self._path = path
        self._root = root
        self._tensors = tensors
        self._nodes: list[Table] = root["nodes"]
        self._quantization = NodeQuantization(root["version"], tensors)
        self._rounded: set[int] = set()  # tensors of dynamic quantisation, which stay floats
        self.constants: dict[str, Constant] = {}
        self.weights: dict[str, StoredWeight] = {}

    def graphs(self) -> tuple[Graph, Mapping[str, Graph]]:
        """The graph that starts, and the others by their names."""
        records = self._root["subGraph"]
        if not records:
            every = range(len(self._nodes))
            return self._graph("0", self._root["inputIndex"], every, self._root["outputIndex"]), {}
        graphs = [
            self._graph(str(at), one["inputIndices"], one["nodeIndices"], one["outputIndices"])
            for at, one in enumerate(records)
        ]
        return graphs[0], {one.name: one for one in graphs[1:]}

    def output_names(self) -> list[str]:
        """The names of the results of the graph that starts: those of their tensors."""
        records = self._root["subGraph"]
        numbers = records[0]["outputIndices"] if records else self._root["outputIndex"]
        return [self._tensors[int(one)].name for one in numbers]

    def _graph(
        self, number: str, inputs: Sequence[int], nodes: Sequence[int], outputs: Sequence[int]
    ) -> Graph:
        name = f"subgraph_{number}"
        if not len(outputs):
            raise ModelError(f"{self._path}: graph {number} has no outputs.")
        made: list[MindirNode] = []
        for index in nodes:
            made += self._node(int(index))
        for index in map(int, outputs):
            self._need(index, "")
            if index in self._rounded:
                raise ModelError(
                    f"{self._path}: the output '{self._tensors[index].name}' is quantised by "
                    "scales that the model computes, which is not supported: expected floats."
                )
        kinds = tuple(self._tensors[int(index)].type for index in outputs)
        keys = tuple(_key(int(index)) for index in outputs)
        if len(keys) == 1:
            return Graph(name, self._inputs(inputs), tuple(made), keys[0], kinds[0])
        whole = self._giving(nodes, outputs)
        if whole:
            return Graph(name, self._inputs(inputs), tuple(made), whole, TupleType(kinds))
        result = MindirNode(f"{name}_result", "MakeTuple", keys, {}, TupleType(kinds), "")
        return Graph(name, self._inputs(inputs), (*made, result), result.key, result.type)

    def _giving(self, nodes: Sequence[int], outputs: Sequence[int]) -> str:
        """The key of a node whose results are those of the graph, as a call at its end has them."""
        for index in nodes:
            if list(self._nodes[index]["outputIndex"]) == list(outputs):
                plain = all(self._quantization.of_output(int(one)) is None for one in outputs)
                return f"node_{index}" if plain else ""
        return ""

    def _inputs(self, numbers: Sequence[int]) -> tuple[Input, ...]:
        """The inputs of a graph; one without sizes is a number."""
        found = []
        for number in numbers:
            tensor = self._tensors[int(number)]
            kind = tensor.type
            if isinstance(kind, TensorType) and kind.shape is None:
                kind = TensorType(kind.dtype, ())
            found.append(Input(_key(int(number)), tensor.name, kind))
        return tuple(found)

    def _node(self, index: int) -> Iterator[MindirNode]:
        if not 0 <= index < len(self._nodes):
            raise ValueError(f"node {index} does not exist: the file has {len(self._nodes)}")
        record = self._nodes[index]
        name = record["name"] or f"node_{index}"
        primitive = record["primitive"] and record["primitive"]["value"]
        if primitive is None:
            raise ValueError(f"node {name} has no primitive")
        inputs = [int(one) for one in record["inputIndex"]]
        outputs = [int(one) for one in record["outputIndex"]]
        for one in inputs:
            self._need(one, primitive.name)
        self._note_rounded(primitive, inputs, outputs)
        before, keys = self._as_floats(index, record, primitive, inputs)
        yield from before
        behind = [self._quantized(one, name) for one in outputs]
        results = [key for key, _ in behind]
        yield from self._computing(index, name, primitive, keys, outputs, results)
        for _, quantizing in behind:
            yield from quantizing

    def _note_rounded(
        self, primitive: Table, inputs: Sequence[int], outputs: Sequence[int]
    ) -> None:
        """Note the results of DynamicQuant, and of nodes that move them."""
        if primitive.name != "DynamicQuant" and self._rounded.isdisjoint(inputs):
            return
        self._rounded |= {one for one in outputs if self._tensors[one].dtype == np.int8}

    def _computing(
        self,
        index: int,
        name: str,
        primitive: Table,
        inputs: tuple[str, ...],
        outputs: Sequence[int],
        results: Sequence[str],
    ) -> Iterator[MindirNode]:
        """The node itself; each of several results is taken from a tuple behind it."""
        kinds = [self._computed_type(one) for one in outputs]
        alone = len(outputs) == 1
        key = results[0] if alone else f"node_{index}"
        kind = kinds[0] if alone else TupleType(tuple(kinds))
        if primitive.name == "SwitchLayer":  # MindIR's takes all functions as one tuple
            every = f"node_{index}_functions"
            yield MindirNode(every, "MakeTuple", inputs[1:], {}, OtherType("closure"), name)
            inputs = (*inputs[:1], every)
        yield self._translated(key, name, primitive, inputs, kind)
        for at, (result, one) in enumerate(zip(results, kinds, strict=True) if not alone else ()):
            yield MindirNode(result, "TupleGetItem", (key, self._number(at)), {}, one, name)

    def _translated(
        self, key: str, name: str, primitive: Table, inputs: tuple[str, ...], kind: ValueType
    ) -> MindirNode:
        """A node of MindIR's form; calls and closures become MindIR's own."""
        if primitive.name == "PartialFusion":
            function = f"subgraph_{primitive['sub_graph_index']}"
            return MindirNode(key, "Partial", (function, *inputs), {}, OtherType("closure"), name)
        if primitive.name in _CHOICES:
            word = _CHOICES[primitive.name]
            return MindirNode(key, word, inputs, {}, OtherType("closure"), name)
        if primitive.name == "Call":
            return MindirNode(key, "", inputs[1:], {}, kind, name, inputs[0] if inputs else "")
        attributes = {_word(field): _value(primitive[field]) for field in primitive.fields}
        return MindirNode(key, primitive_name(primitive.name), inputs, attributes, kind, name)

    def _as_floats(
        self, index: int, record: Table, primitive: Table, inputs: Sequence[int]
    ) -> tuple[list[MindirNode], tuple[str, ...]]:
        """Nodes that make quantised inputs floats, and the keys that the node takes."""
        nodes, keys = [], []
        for place, number in enumerate(inputs):
            rounded = number in self._rounded
            found = None if rounded else self._quantization.of_input(primitive, inputs, place)
            if found is None:
                keys.append(_key(number))
                continue
            key = f"{_key(number)}_float_{index}_{place}"
            kind = TensorType(FLOAT32, _shape(self._tensors[number]))
            parts = tuple(self._array(f"{key}_{at}", part) for at, part in enumerate(found.arrays))
            word = PREFIX + found.primitive
            constant = self._tensors[number].extent is not None
            exact = constant and record["quantType"] in _WEIGHTS_ONLY
            attributes = {"axis": found.axis, "exact": exact}
            nodes.append(MindirNode(key, word, (_key(number), *parts), attributes, kind, key))
            keys.append(key)
        return nodes, tuple(keys)

    def _quantized(self, number: int, name: str) -> tuple[str, list[MindirNode]]:
        """The key of a result as it is computed, and the node that quantises it, if need be."""
        found = self._quantization.of_output(number)
        key = _key(number)
        if found is None or number in self._rounded:
            return key, []
        parts = tuple(self._array(f"{key}_{at}", part) for at, part in enumerate(found.arrays))
        kind = self._tensors[number].type
        inputs = (f"{key}_float", *parts)
        return inputs[0], [MindirNode(key, PREFIX + found.primitive, inputs, {}, kind, name)]

    def _computed_type(self, number: int) -> ValueType:
        kind = self._tensors[number].type
        if number not in self._rounded and self._quantization.of_output(number) is None:
            return kind
        return TensorType(FLOAT32, _shape(self._tensors[number]))

    def _need(self, number: int, primitive: str) -> None:
        """Keep a tensor, if it is a constant, as a constant or as a weight."""
        tensor, key = self._tensors[number], _key(number)
        if tensor.extent is None or key in self.constants:
            return
        if self._is_weight(tensor, primitive):
            self.weights[key] = tensor.weight()
        else:
            self.constants[key] = tensor.array()
            self.weights.pop(key, None)

    def _is_weight(self, tensor: LiteTensor, primitive: str) -> bool:
        if tensor.packed is not None or not tensor.shape or tensor.dtype is None:
            return False
        if tensor.quantization is not None:
            return True
        few = primitive in _VALUES and np.prod(tensor.shape) <= _FEW
        return is_float(tensor.dtype) and not few

    def _array(self, key: str, array: Any) -> str:
        self.constants[key] = array
        return key

    def _number(self, value: int) -> str:
        self.constants[f"number_{value}"] = value
        return f"number_{value}"


def _key(number: int) -> str:
    return f"tensor_{number}"


def _shape(tensor: LiteTensor) -> tuple[int, ...] | None:
    return tensor.type.shape if isinstance(tensor.type, TensorType) else None


def _word(field: str) -> str:
    """The name of a field as a Python parameter."""
    return f"{field}_" if iskeyword(field) else field


def _value(field: Any) -> Constant:
    """A field of a primitive as an attribute: arrays become tuples, tables tuples of their rows."""
    if isinstance(field, np.ndarray):
        return tuple(field.tolist())
    if isinstance(field, Table):
        return _value(field["data"])
    if isinstance(field, list):
        return tuple(_value(one) if isinstance(one, Table) else one for one in field)
    return field
