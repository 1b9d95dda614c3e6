"""Captured calls: what of a segment's calls a CUDA graph cannot capture, found without a GPU.

The calls for known shapes run twice on tensors that claim to be on a device and have no numbers
(torch's FakeTensorMode). In the second run, copies from the host and waits for numbers are noted.

    python tests/support/captured_calls.py primitives|nodes [ONE_OF]    prints what it finds as JSON
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import backend_nodes
import numpy as np
import torch
from onnx import ModelProto
from recorded_runs import FAMILIES, RUNS, computed, label
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from rankmesh.comm.errors import RankmeshError
from rankmesh.compiler.lowering.unsupported import unsupported
from rankmesh.compiler.mindir.reader import read_model
from rankmesh.worker.executors.torch import TorchExecutor
from rankmesh.worker.executors.torch.call_list import CallList, TorchCall, store
from rankmesh.worker.executors.torch.graph_compiler import GraphCompiler
from rankmesh.worker.executors.torch.operator_node import TorchNode
from rankmesh.worker.executors.torch.registry import known_operators
from rankmesh.worker.executors.torch.torch_segment import TorchSegment
from rankmesh.worker.partition.plan import Segment

DEVICE = torch.device("privateuseone", 0)
"""A device without kernels; "cuda" needs a torch that was built with it."""
Case = tuple[str, Callable[[TorchExecutor], object]]


class _Copies(TorchDispatchMode):
    """Counts the copies between the host and the device."""

    def __init__(self) -> None:
        super().__init__()
        self.found = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        tensors = [one for one in tree_leaves((args, made)) if isinstance(one, torch.Tensor)]
        name = str(func)
        if name.startswith(("aten._to_copy", "aten.copy_", "aten.to.")):
            self.found += len({one.device.type for one in tensors}) > 1
        return made


class NotedExecutor(TorchExecutor):
    """Keeps its last segment, with the nodes of its operators and the inputs of its run."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[TorchNode] = []
        self.segment: TorchSegment | None = None

    def prepare(self, *given: Any) -> TorchSegment:
        """See Executor.prepare."""
        self.nodes.clear()
        self.segment = super().prepare(*given)
        return self.segment


def noted_executor() -> NotedExecutor:
    """An executor that notes its nodes; there is one in a process."""
    executor, node_of = NotedExecutor(), GraphCompiler._node

    def noted(self: GraphCompiler, *given: Any) -> TorchNode:
        executor.nodes.append(node_of(self, *given))
        return executor.nodes[-1]

    GraphCompiler._node = noted  # type: ignore[method-assign]
    return executor


def uncaptured(executor: NotedExecutor) -> list[str]:
    """The calls of the last segment that a graph cannot capture, each with the reason."""
    assert executor.segment is not None
    for node in executor.nodes:
        node.device = DEVICE
    calls = next(iter(executor.segment.lists.values()))
    assert isinstance(calls, CallList)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    _ran(calls, executor.segment._tensors, mode)
    return _ran(calls, executor.segment._tensors, mode)


def _ran(calls: CallList, inputs: Sequence[torch.Tensor], mode: FakeTensorMode) -> list[str]:
    values = [_there(one, mode) for one in calls.template]
    for slot, value in zip(calls.arguments, inputs, strict=True):
        values[slot] = _there(value, mode)
    found = []
    for call in calls.calls:
        copies = _Copies()
        try:
            with torch.inference_mode(), mode, copies:
                store(values, call, call.made(values))
        except Exception as error:  # of torch, of many kinds
            return [*found, f"{_name(call)}: {type(error.__cause__ or error).__name__}: {error}"]
        found += [f"{_name(call)}: a copy"] * copies.found
    return found


def _there(one: Any, mode: FakeTensorMode) -> Any:
    return FakeTensor(mode, one.to("meta"), DEVICE) if isinstance(one, torch.Tensor) else one


def _name(call: TorchCall) -> str:
    return call.label.partition(" ")[0]


def primitives(one_of: int) -> Iterator[Case]:
    """Some of MindSpore's recorded primitives."""
    with tempfile.TemporaryDirectory() as scratch:
        for at, run in enumerate(RUNS[::one_of]):
            family, path = FAMILIES[run[0]], Path(scratch, f"{at}.mindir")
            record = family.records[run[1]]
            path.write_bytes(family.file(record))
            source = read_model(str(path))
            if not unsupported(source):
                yield label(run), partial(computed, source, path.parent, record)


def nodes(one_of: int) -> Iterator[Case]:
    """ONNX's tests of single nodes, with their sizes as constants."""
    for case in backend_nodes.selected()[::one_of]:
        yield case.name, partial(_run_node, case)


def _run_node(case: Any, executor: TorchExecutor) -> None:
    model = ModelProto()
    model.CopyFrom(case.model)
    given = zip(model.graph.input, case.data_sets[0][0], strict=False)
    arrays = {info.name: backend_nodes._array(one).copy() for info, one in given}
    constants = _sizes(model)
    for name in constants & set(arrays):
        model.graph.initializer.append(
            backend_nodes.numpy_helper.from_array(arrays.pop(name), name)
        )
    segment = Segment(model, tuple(arrays), tuple(info.name for info in model.graph.output))
    prepared = executor.prepare(segment, "/")
    prepared.run(list(arrays.values()), [None] * len(segment.outputs))


def _sizes(model: ModelProto) -> set[str]:
    known = known_operators()
    return {
        node.input[at]
        for node in model.graph.node
        if node.op_type in known
        for at in known[node.op_type].sizes
        if at < len(node.input)
    }


def found_in(cases: Iterable[Case]) -> tuple[int, dict[str, str]]:
    """How many cases ran, and those whose calls cannot be captured."""
    executor, ran, found = noted_executor(), 0, {}
    for name, run in cases:
        try:
            run(executor)
        except RankmeshError:  # of operators that torch does not have
            continue
        ran += 1
        if texts := uncaptured(executor):
            found[name] = texts[0][:300]
    return ran, found


if __name__ == "__main__":
    _setup_privateuseone_for_python_backend()
    np.seterr(all="ignore")
    CHOSEN = {"primitives": primitives, "nodes": nodes}[sys.argv[1]]
    COUNT, FOUND = found_in(CHOSEN(int(sys.argv[2]) if len(sys.argv) > 2 else 1))
    print(json.dumps({"ran": COUNT, "found": FOUND}))
