"""Precision executor: it gives the nodes of a segment the precision that the user asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from ...comm.errors import ModelError
from ...comm.loggers import LOG
from ...compiler.onnx_graph.element_types import HALF, NARROW, has_halves
from ...compiler.onnx_graph.external import NO_MEMORY, external_array
from ..partition.plan import Segment
from .base import Executor, ExecutorLayer, JoiningExecutor, PartRunnable, Runnable, joining
from .settings import EXECUTION_PLAN

_warned: set[str] = set()  # once per process and device
_NUMBERED = re.compile(r"_\d+$")


@dataclass(slots=True)
class Precision:
    """`mode` is the ONNX element type to compute in, None for what the file says; `nodes` those of
    single nodes.

    A key of `nodes` is a node's name as the model file has it (`Default/fc1-Dense/MatMul-op0`),
    where `*` stands for any text. A node's own type counts more than the mode.
    """

    mode: int | None = None
    nodes: Mapping[str, int] = field(default_factory=dict)
    _patterns: list[tuple[str, re.Pattern[str]]] = field(init=False, repr=False)
    _found: set[str] = field(init=False, repr=False, default_factory=set)
    _seen: set[str] = field(init=False, repr=False, default_factory=set)

    def __post_init__(self) -> None:
        self._patterns = [
            (name, re.compile(".*".join(map(re.escape, name.split("*"))), re.DOTALL))
            for name in self.nodes
            if "*" in name
        ]

    def node_type(self, node: NodeProto) -> int | None:
        """The element type that the user gave this node, if any."""
        if not self.nodes:
            return None
        names = list(_names(node))
        self._seen.update(names)
        for name in names:
            if name in self.nodes:
                self._found.add(name)
                return self.nodes[name]
        for text, pattern in self._patterns:
            if any(map(pattern.fullmatch, names)):
                self._found.add(text)
                return self.nodes[text]
        return None

    def warn_of_unknown(self, path: str) -> None:
        """Log the names that no node had; for when every node of the model at `path` was asked for.

        Nothing is logged where no node was, as for a model that was prepared before.
        """
        import difflib

        for name in self.nodes.keys() - self._found if self._seen else ():
            near = difflib.get_close_matches(name, self._seen, 1)
            LOG.warning(
                "[%s] %s: no node of %s has this name, it is ignored%s.",
                EXECUTION_PLAN,
                name,
                path,
                f"; the nearest is {near[0]}" if near else "",
            )


def _names(node: NodeProto) -> Iterable[str]:
    """The names by which a user may mean a node: its own, that without our numbering, and those of
    nodes merged into it.
    """
    name = node.name
    yield name
    while _NUMBERED.search(name):
        name = _NUMBERED.sub("", name)
        yield name
    yield from filter(None, node.doc_string.split("\n"))


class PrecisionExecutor(ExecutorLayer):
    """Retypes segments for the executor behind it."""

    def __init__(self, executor: Executor, precision: Precision) -> None:
        super().__init__(executor)
        self._precision = precision

    def prepare(
        self, segment: Segment, folder: str, memory: Mapping[str, memoryview] = NO_MEMORY
    ) -> Runnable:
        """See Executor.prepare."""
        return self._executor.prepare(self._asked(segment, folder, memory), folder, memory)

    def save(self, segment: Segment, folder: str, place: str) -> None:
        """See Executor.save."""
        self._executor.save(self._asked(segment, folder, NO_MEMORY), folder, place)

    @property
    def joins(self) -> bool:
        """See joining: what `save` writes has its precision."""
        return joining(self._executor) is not None

    def load_part(self, segment: Segment, place: str) -> PartRunnable:
        """See JoiningExecutor.load_part."""
        return cast(JoiningExecutor, self._executor).load_part(segment, place)

    @property
    def options(self) -> str:
        """See Executor.options."""
        return (
            f"{self._executor.options} {self._precision.mode} "
            f"{sorted(self._precision.nodes.items())}"
        )

    def _asked(self, segment: Segment, folder: str, memory: Mapping[str, memoryview]) -> Segment:
        """The segment in the precision that was asked for."""
        if not self._concerns(segment.model):
            return segment
        self._warn()
        return msgspec.structs.replace(segment, model=self._retyped(segment, folder, memory))

    def _concerns(self, model: ModelProto) -> bool:
        """Whether any node may change. Of most models, all in float32, none does."""
        precision = self._precision
        return (
            bool(precision.nodes)
            or precision.mode in NARROW
            or (precision.mode is not None and has_halves(model.graph))
        )

    def _retyped(
        self, segment: Segment, folder: str, memory: Mapping[str, memoryview]
    ) -> ModelProto:
        def array_of(tensor: TensorProto) -> NDArray[Any]:
            if tensor.data_location == TensorProto.EXTERNAL:
                return external_array(tensor, folder, memory)
            array: NDArray[Any] = numpy_helper.to_array(tensor)
            return array

        from ...compiler.onnx_graph.retype import retyped  # few models need it

        try:
            return retyped(segment.model, self._chosen, self.has_kernel, array_of)
        except (ValueError, TypeError) as error:
            raise ModelError(
                f"the segment that ends in {segment.outputs[0]} cannot be given another precision: "
                f"{error}. Leave precision_mode and [execution_plan] away."
            ) from error

    def _chosen(self, node: NodeProto) -> tuple[int | None, bool]:
        own = self._precision.node_type(node)
        return (own, True) if own is not None else (self._precision.mode, False)

    def _warn(self) -> None:
        asked = {self._precision.mode, *self._precision.nodes.values()} & set(NARROW)
        if not asked or self.device.kind != "cpu" or "cpu" in _warned:
            return
        _warned.add("cpu")
        name = "float16" if HALF in asked else "bfloat16"
        LOG.warning(
            "%s was asked for on a CPU, which has few kernels for it: it runs slower than float32, "
            "on numbers rounded to %s.",
            name,
            name,
        )
