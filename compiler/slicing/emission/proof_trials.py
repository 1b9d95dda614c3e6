"""Proof trials: the inputs that a proof tries, of several sizes and magnitudes.

Sums may leave the range of their type for large inputs only. A model that rounding alone makes as
uncertain for these as the slices are tells nothing of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ...source_graph.source_graph import SourceGraph
from .feeds import random_feeds, scaled

MAGNITUDES = (1e2, 1e4)
"""How many times as large as usual the inputs are that are tried, too."""

_MARGIN = 10.0
"""Slices may differ from the model so many times as much as the model from itself, for inputs that
one more rounding has changed."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Inputs of one proof: the sizes of open dimensions, and how many times as large they are."""

    sizes: Mapping[str, int]
    seed: int
    scale: float = 1.0

    @property
    def is_plain(self) -> bool:
        """Whether the inputs are as large as usual."""
        return self.scale == 1

    @property
    def note(self) -> str:
        """The words about larger inputs in an error, if these are."""
        return "" if self.is_plain else f", for inputs {self.scale:,.0f} times as large as usual"

    def feeds(self, graph: SourceGraph) -> dict[str, np.ndarray]:
        """The inputs of a graph."""
        return random_feeds(graph, self.sizes, self.seed, self.scale)


def trials(graph: SourceGraph) -> list[Trial]:
    """All sizes with usual inputs, then one of the smaller with inputs that are larger."""
    choices = list(graph.size_choices)
    found = [Trial(sizes, seed) for seed, sizes in enumerate(choices)]
    if any(value.dtype is not None and value.dtype.is_floating_point() for value in _inputs(graph)):
        small = found[min(1, len(found) - 1)]
        found += [Trial(small.sizes, small.seed, scale) for scale in MAGNITUDES]
    return found


def nudged(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same inputs, each changed by about one rounding."""
    draw = np.random.default_rng(0)
    return {
        name: scaled(array, 1 + float(np.finfo(array.dtype).eps) * float(draw.choice((-1, 1))))
        if array.dtype.kind == "f"
        else array
        for name, array in feeds.items()
    }


def is_explained(error: float, own: float) -> bool:
    """Whether a model that differs by `own` from itself explains an error of its slices."""
    return error <= _MARGIN * own


def _inputs(graph: SourceGraph) -> Sequence[ir.Value]:
    return graph.model.graph.inputs
