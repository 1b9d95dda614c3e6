"""Random numbers: each node has a generator, of its own seed or of one by chance."""

from __future__ import annotations

from typing import Any

import torch

from ..operator_node import TorchNode
from ..registry import Compute, computes


def _generator(node: TorchNode) -> torch.Generator:
    """A generator of the node's seed, else of one that differs from process to process."""
    made = torch.Generator(node.device)
    if node.has("seed"):
        made.manual_seed(int(node.real("seed")))
    else:
        made.seed()
    return made


def _drawn(node: TorchNode, normal: bool) -> Any:
    """A function that draws numbers of a shape and a dtype."""
    generator = _generator(node)
    first, second = (
        (node.real("mean"), node.real("scale", 1.0))
        if normal
        else (node.real("low"), node.real("high", 1.0))
    )

    def draw(shape: Any, dtype: torch.dtype) -> torch.Tensor:
        made = torch.empty(tuple(shape), dtype=dtype, device=node.device)
        if normal:
            return made.normal_(first, second, generator=generator)
        return made.uniform_(first, second, generator=generator)

    return draw


def _of_shape(node: TorchNode, normal: bool) -> Compute:
    draw, shape, dtype = _drawn(node, normal), node.integers("shape") or [], node.dtype("dtype", 1)
    return lambda: draw(shape, dtype)


def _like(node: TorchNode, normal: bool) -> Compute:
    draw = _drawn(node, normal)
    dtype = node.dtype("dtype", 1) if node.has("dtype") else None
    return lambda x: draw(x.shape, dtype or x.dtype)


@computes("RandomNormal", random=True)
def random_normal(node: TorchNode) -> Compute:
    """Numbers of a normal distribution."""
    return _of_shape(node, True)


@computes("RandomNormalLike", random=True)
def random_normal_like(node: TorchNode) -> Compute:
    """Numbers of a normal distribution in the shape of the input."""
    return _like(node, True)


@computes("RandomUniform", random=True)
def random_uniform(node: TorchNode) -> Compute:
    """Numbers of a uniform distribution."""
    return _of_shape(node, False)


@computes("RandomUniformLike", random=True)
def random_uniform_like(node: TorchNode) -> Compute:
    """Numbers of a uniform distribution in the shape of the input."""
    return _like(node, False)


@computes("Bernoulli", random=True)
def bernoulli(node: TorchNode) -> Compute:
    """One with the probability that the input has, else zero."""
    generator = _generator(node)
    dtype = node.dtype("dtype", 1) if node.has("dtype") else None
    return lambda x: torch.bernoulli(x, generator=generator).to(dtype or x.dtype)


@computes("Multinomial", random=True)
def multinomial(node: TorchNode) -> Compute:
    """Classes, drawn by the logarithms of their probabilities."""
    generator, count = _generator(node), node.integer("sample_size", 1)
    dtype = node.dtype("dtype", 6)

    def run(x: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(x.to(torch.float32), -1)
        return torch.multinomial(weights, count, True, generator=generator).to(dtype)

    return run
