"""Type conversion: other floating-point types for the nodes of a graph, with casts between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from .element_types import (
    BFLOAT16,
    FLOAT,
    HALF,
    NARROW,
    TypeVariables,
    element_types,
    fp16_unsafe,
    with_types,
)
from .onnx_values import captured, subgraphs

_SUFFIX = {FLOAT: "float32", HALF: "float16", BFLOAT16: "bfloat16"}
_LARGEST_HALF = float(np.finfo(np.float16).max)
# The element type for a node (None: unchanged), and whether it applies even to unsafe values.
Chooser = Callable[[NodeProto], "tuple[int | None, bool]"]
# Whether a kernel exists for an operator: the element type, its type, domain and opset version.
Kernels = Callable[[int, str, str, int], bool]


def retyped(
    model: ModelProto,
    choose: Chooser,
    kernels: Kernels,
    array_of: Callable[[TensorProto], np.ndarray],
) -> ModelProto:
    """A copy of `model` whose nodes compute in the types that `choose` returns.

    Inputs and outputs keep their types. float16 and bfloat16 become float32, float32 becomes
    float16 or bfloat16; other types stay. An operator without a kernel for these computes in
    float32 on rounded numbers, and its results are rounded too. `array_of` returns an initializer's
    numbers: finite numbers beyond float16's range become its largest, not infinite.
    """
    versions = {opset.domain: opset.version for opset in model.opset_import}
    shared = _Shared(choose, kernels, array_of, versions, set())
    return helper.make_model(
        _Retyped(with_types(model), model.graph, shared, {}).graph(),
        ir_version=model.ir_version,
        producer_name=model.producer_name,
        opset_imports=model.opset_import,
    )


class _Shared:
    """The state that a graph, its branches and its bodies share during the conversion."""

    def __init__(
        self,
        choose: Chooser,
        kernels: Kernels,
        array_of: Callable[[TensorProto], np.ndarray],
        versions: Mapping[str, int],
        names: set[str],
    ) -> None:
        self.choose = choose
        self.kernels = kernels
        self.array_of = array_of
        self.versions = versions
        self.names = names

    def fresh(self, stem: str) -> str:
        """A new name for a value."""
        name, count = stem, 1
        while name in self.names:
            count += 1
            name = f"{stem}_{count}"
        self.names.add(name)
        return name


class _Retyped:
    """One graph during the conversion. Each value has a name per element type, made on first
    use.
    """

    def __init__(
        self, typed: GraphProto, source: GraphProto, shared: _Shared, outer: Mapping[str, int]
    ) -> None:
        self.typed = typed
        self.source = source
        self.shared = shared
        self.kinds = {**outer, **element_types(typed), **element_types(source)}
        self.initializers = {tensor.name: tensor for tensor in source.initializer}
        self.names: dict[str, dict[int, str]] = {}
        self.rounded: dict[tuple[str, int], str] = {}
        self.nodes: list[NodeProto] = []
        self.added: list[TensorProto] = []
        shared.names.update(self.kinds, (n for node in source.node for n in node.output))

    def graph(self) -> GraphProto:
        """The converted graph."""
        exact = fp16_unsafe(self.source)
        for node, typed in zip(self.source.node, self.typed.node, strict=True):
            self._node(node, typed, exact)
        for info in self.source.output:
            self._own(info.name)
        used = {name for node in self.nodes for name in (*node.input, *captured(node))}
        used.update(info.name for info in self.source.output)
        kept = [t for t in self.source.initializer if t.name in used]
        return helper.make_graph(
            self.nodes,
            self.source.name,
            self.source.input,
            self.source.output,
            initializer=[*kept, *self.added],
        )

    def _node(self, node: NodeProto, typed: NodeProto, exact: set[str]) -> None:
        target = self._target(node, exact)
        copy = NodeProto()
        copy.CopyFrom(node)
        variables = (
            TypeVariables(copy, target, self._kind, self.shared.versions) if target else None
        )
        narrow = target if target in NARROW else None
        if node.op_type == "Cast" and narrow and self._kind(node.output[0]) == FLOAT:
            self._cast(copy, narrow)
        elif not variables:
            self._unchanged(copy, typed)
        elif narrow and not self._has_kernel(node, narrow):
            self._sandwich(copy, variables, narrow)
        else:
            assert target
            self._convert(copy, target, variables)

    def _target(self, node: NodeProto, exact: set[str]) -> int | None:
        """The element type for a node; None for a branch or loop, inside which single nodes
        change.
        """
        target, always = self.shared.choose(node)
        spoiled = target in NARROW and not always and not exact.isdisjoint(node.output)
        return None if spoiled or any(True for _ in subgraphs(node)) else target

    def _unchanged(self, node: NodeProto, typed: NodeProto) -> None:
        for index, name in enumerate(node.input):
            node.input[index] = self._own(name)
        for name in captured(node):
            self._own(name)
        for body, its_types in zip(subgraphs(node), subgraphs(typed), strict=True):
            body.CopyFrom(_Retyped(its_types, body, self.shared, self.kinds).graph())
        self.nodes.append(node)

    def _convert(self, node: NodeProto, target: int, variables: TypeVariables) -> None:
        """Add the node in `target`, with its inputs and outputs."""
        taken = variables.inputs()
        for index, name in enumerate(node.input):
            node.input[index] = self._as(name, target) if index in taken else self._own(name)
        for index, name in variables.outputs():
            node.output[index] = self.shared.fresh(f"{name}_{_SUFFIX[target]}")
            self.names[name] = {target: node.output[index]}
        self.nodes.append(node)

    def _sandwich(self, node: NodeProto, variables: TypeVariables, narrow: int) -> None:
        """Add the node as it is, between numbers rounded to `narrow`."""
        taken = variables.inputs()
        for index, name in enumerate(node.input):
            node.input[index] = self._rounded(name, narrow) if index in taken else self._own(name)
        casts = []
        for index, name in variables.outputs():
            node.output[index] = self.shared.fresh(f"{name}_wide")
            made = self.shared.fresh(f"{name}_{_SUFFIX[narrow]}")
            casts.append(_cast(node.output[index], made, narrow))
            self.names[name] = {narrow: made}
        self.nodes += [node, *casts]

    def _cast(self, node: NodeProto, narrow: int) -> None:
        """Replace a Cast to float32 by one to `narrow`; drop it where the number is one already."""
        source, made = node.input[0], node.output[0]
        if self._kind(source) in (FLOAT, narrow):
            self.names[made] = {narrow: self._as(source, narrow)}
            return
        node.input[0] = self._own(source)
        node.output[0] = self.shared.fresh(f"{made}_{_SUFFIX[narrow]}")
        next(a for a in node.attribute if a.name == "to").i = narrow
        self.names[made] = {narrow: node.output[0]}
        self.nodes.append(node)

    def _own(self, name: str) -> str:
        """A value in the type that the file gives it."""
        return self._as(name, self._kind(name)) if name in self.names else name

    def _as(self, name: str, kind: int) -> str:
        """A value in an element type, cast on first use."""
        own = self._kind(name)
        names = self.names.setdefault(name, {own: name})
        if kind not in names:
            made = name if kind == own else self.shared.fresh(f"{name}_{_SUFFIX[kind]}")
            saturated = self._saturated(name, made) if kind == HALF else None
            if saturated is None:
                self.nodes.append(_cast(names.get(own) or next(iter(names.values())), made, kind))
            else:
                self.added.append(saturated)
            names[kind] = made
        return names[kind]

    def _rounded(self, name: str, narrow: int) -> str:
        """A float32 value rounded to a number of `narrow`."""
        key = name, narrow
        if key not in self.rounded:
            rounded = self._as(name, narrow)
            wide = self.names[name].get(FLOAT)
            if wide is None:  # made in `narrow`: its own type is a cast of that
                self.rounded[key] = self._own(name)
            else:
                self.rounded[key] = self.shared.fresh(f"{name}_rounded")
                self.nodes.append(_cast(rounded, self.rounded[key], FLOAT))
        return self.rounded[key]

    def _saturated(self, name: str, made: str) -> TensorProto | None:
        """An initializer in float16, if any of its finite numbers would become infinite there."""
        if name not in self.initializers:
            return None
        array = self.shared.array_of(self.initializers[name])
        low, high = (
            np.fmin.reduce(array, axis=None, initial=0),
            np.fmax.reduce(array, axis=None, initial=0),
        )
        if max(-low, high) <= _LARGEST_HALF:
            return None
        clipped = np.where(np.isinf(array), array, np.clip(array, -_LARGEST_HALF, _LARGEST_HALF))
        return numpy_helper.from_array(clipped.astype(np.float16), made)

    def _has_kernel(self, node: NodeProto, narrow: int) -> bool:
        if any(a.name == "reduction" and a.s != b"none" for a in node.attribute):
            return False  # the CPU's ScatterND for float16 raises when it runs
        version = self.shared.versions.get(node.domain, 1)
        return self.shared.kernels(narrow, node.op_type, node.domain, version)

    def _kind(self, name: str) -> int:
        return self.kinds.get(name, 0)


def _cast(source: str, made: str, kind: int) -> NodeProto:
    return helper.make_node(
        "Cast", [source], [made], to=kind
    )  # no name: another node might have it
