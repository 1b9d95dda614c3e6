"""Control flow: branches, loops, and scans."""

from __future__ import annotations

from typing import Any

import torch

from ..operator_node import TorchNode
from ..registry import Compute, computes


@computes("If", of_data=True)
def branch(node: TorchNode) -> Compute:
    """One of two branches."""
    yes, no = node.body("then_branch"), node.body("else_branch")

    def run(condition: torch.Tensor, *outer: Any) -> tuple[Any, ...]:
        return tuple((yes if bool(condition) else no).run(outer))

    return run


@computes("Loop", of_data=True)
def loop(node: TorchNode) -> Compute:
    """A body that runs a number of times, while a condition holds."""
    body, carried_count = node.body("body"), len(node.inputs) - 2
    stacks = body.results - 1 - carried_count

    def run(most: Any, condition: Any, *given: Any) -> tuple[Any, ...]:
        carried, outer = list(given[:carried_count]), given[carried_count:]
        limit = None if most is None else int(most.item())
        go_on = condition if condition is not None else _true(node)
        rows: list[list[torch.Tensor]] = [[] for _ in range(stacks)]
        number = 0
        while bool(go_on) and (limit is None or number < limit):
            round_ = torch.full((), number, dtype=torch.int64, device=node.device)
            go_on, *results = body.run((round_, go_on, *carried, *outer))
            carried = results[:carried_count]
            for kept, row in zip(rows, results[carried_count:], strict=True):
                kept.append(row)
            number += 1
        stacked = [
            _stacked(kept, body, carried_count + 1 + at, node.device)
            for at, kept in enumerate(rows)
        ]
        return (*carried, *stacked)

    return run


def _true(node: TorchNode) -> torch.Tensor:
    return torch.ones((), dtype=torch.bool, device=node.device)


def _stacked(rows: list[torch.Tensor], body: Any, at: int, device: torch.device) -> torch.Tensor:
    """The rows of all rounds; of none, a tensor of the type that the body states."""
    if rows:
        return torch.stack(rows)
    dtype, shape = body.result_types[at]
    return torch.zeros(0, *shape, dtype=dtype, device=device)


@computes("Scan", of_data=True)
def scan(node: TorchNode) -> Compute:
    """A body that runs once for each slice of some inputs."""
    if node.opset < 9:
        raise ValueError(f"opset {node.opset}, expected 9 or later")
    body, slices = node.body("body"), node.integer("num_scan_inputs")
    states = len(node.inputs) - slices
    stacks = body.results - states
    axes, backwards = (
        _each(node, "scan_input_axes", slices),
        _each(node, "scan_input_directions", slices),
    )
    out_axes, out_backwards = (
        _each(node, f"scan_output_{what}", stacks) for what in ("axes", "directions")
    )

    def run(*given: Any) -> tuple[Any, ...]:
        carried, scanned = list(given[:states]), given[states : states + slices]
        outer = given[states + slices :]
        rows: list[list[torch.Tensor]] = [[] for _ in range(stacks)]
        count = scanned[0].shape[axes[0]]
        for number in range(count):
            taken = [
                one.select(axis, count - 1 - number if back else number)
                for one, axis, back in zip(scanned, axes, backwards, strict=True)
            ]
            results = body.run((*carried, *taken, *outer))
            carried = list(results[:states])
            for kept, row in zip(rows, results[states:], strict=True):
                kept.append(row)
        stacked = []
        for at, kept in enumerate(rows):
            if not kept:
                stacked.append(_stacked(kept, body, states + at, node.device))
                continue
            stacked.append(torch.stack(kept[::-1] if out_backwards[at] else kept, out_axes[at]))
        return (*carried, *stacked)

    return run


def _each(node: TorchNode, name: str, count: int) -> list[int]:
    return node.integers(name) or [0] * count
