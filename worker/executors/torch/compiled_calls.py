"""Compiled calls: a call list that torch.compile has made one program of, for one set of shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from ....comm.loggers import LOG
from .call_list import CallList

_told: set[str] = set()  # once per process


class CompiledCalls:
    """The result of `compile_calls`, which runs as the call list does, by other kernels."""

    def __init__(self, source: CallList, function: Callable[..., Any]) -> None:
        self.memory = source.memory
        """See CallList."""

        self._function = function
        self._constants = list(_tensors(source).values())

    def run(self, inputs: Sequence[torch.Tensor]) -> list[Any]:
        """See CallList.run."""
        with torch.inference_mode(False), torch.no_grad():
            return list(self._function(*inputs, *self._constants))


def compile_calls(
    calls: CallList, inputs: Sequence[torch.Tensor], label: str
) -> CompiledCalls | None:
    """The calls compiled for inputs like these, which are run once.

    None, and a warning the first time, where torch cannot compile them: there is no compiler, or
    the calls depend on the numbers of tensors. `label` names the calls in the warning.
    """
    try:
        with torch.inference_mode(False), torch.no_grad():
            graph = _graph(calls, inputs)
            compiled = CompiledCalls(calls, torch.compile(graph, fullgraph=True, dynamic=False))
        compiled.run(inputs)  # now, and not while the device is captured
    except Exception as error:  # compilers raise errors of all classes
        cause = getattr(error, "inner_exception", error)
        reason = str(cause).strip().partition("\n")[0] or type(cause).__name__
        if reason not in _told:
            _told.add(reason)
            LOG.warning("%s is not compiled, and runs call by call: %s", label, reason)
        return None
    return compiled


def _graph(calls: CallList, inputs: Sequence[torch.Tensor]) -> GraphModule:
    """The calls as a graph of torch; raises where a call reads the numbers of a tensor."""
    constants = _tensors(calls)

    def run(*tensors: torch.Tensor) -> list[Any]:
        given = dict(zip(constants, tensors[len(inputs) :], strict=True))
        values = [given.get(slot, value) for slot, value in enumerate(calls.template)]
        return calls.run_on(values, tensors[: len(inputs)])

    made: GraphModule = make_fx(run, tracing_mode="fake")(*inputs, *constants.values())
    return made


def _tensors(calls: CallList) -> dict[int, torch.Tensor]:
    """The constants that are tensors, by slot."""
    return {slot: one for slot, one in calls.constants.items() if isinstance(one, torch.Tensor)}
