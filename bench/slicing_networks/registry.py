"""Registry of the networks for slicing: each one is a name, what it is, and a function that builds
it with random weights.

Nothing here imports torch, so that the names can be listed at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

Size = int | str
"""A dimension: a number, a symbol such as "batch", or a sum such as "past+sequence"."""


@dataclass(frozen=True)
class Field:
    """One input: its shape, its dtype by torch's name, and how its example is drawn.

    `draw` is "normal", "zeros", "ones", "ids" (integers from 0 to high - 1), "mask" (ones, and a
    zero at the end of the last row), "positions" (`past`, ... in the last axis), or "boxes".
    """

    name: str
    shape: tuple[Size, ...]
    dtype: str = "float32"
    draw: str = "normal"
    high: int = 0


@dataclass
class Made:
    """A module, whose forward takes the fields in order, and the names of its outputs.

    `sizes` gives the example's size of each symbol, `others` the sizes that open axes are tried at
    as well. Axes that are symbols are open in the file where `opens` is true.
    """

    module: nn.Module
    fields: list[Field]
    outputs: list[str]
    sizes: dict[str, int] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)
    opens: bool = False
    scaled: bool = True
    """Whether weights are drawn anew where they are small or constant."""


@dataclass(frozen=True)
class Network:
    """One network of the corpus and how it is written."""

    name: str
    kind: str
    source: str
    build: Callable[[], Made] | None = None
    opset: int = 17
    dynamo: bool = False
    external: bool = False
    """Whether weights go to a file of their own."""
    write: Callable[[Network, Any], dict[str, Any]] | None = None
    """Writes the files, where `build` does not serve, to a path without suffix."""
    seconds: float | None = None
    """Its own limit of time."""
    params: dict[str, Any] = field(default_factory=dict)


NETWORKS: dict[str, Network] = {}


def add(network: Network) -> None:
    """Registers a network under its name, which has to be new."""
    if network.name in NETWORKS:
        raise ValueError(f"two networks are called {network.name}: give one another name")
    NETWORKS[network.name] = network


def resolve(size: Size, sizes: dict[str, int]) -> int:
    """The number that a dimension stands for."""
    if isinstance(size, int):
        return size
    return sum(int(one) if one.isdigit() else sizes[one] for one in size.split("+"))
