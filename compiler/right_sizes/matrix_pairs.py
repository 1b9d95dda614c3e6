"""Matrices, convolutions and recurrent layers: the sizes that weights give to what they meet."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ..source_graph.contrib_node import ContribNode
from .size_pair import Pairs, PairsOf, SizePair, broadcast, broadcast_to, exactly


def _product(one: ContribNode, left: int = 0, right: int = 1) -> Pairs:
    a, b = one.shape(left), one.shape(right)
    if not a or not b or one.int_of("transBatchA") or one.int_of("transBatchB"):
        return
    inner = a[-2] if one.int_of("transA") and len(a) > 1 else a[-1]
    across = b[-1] if one.int_of("transB") or len(b) == 1 else b[-2]
    yield SizePair(inner, across)
    yield from broadcast(a[:-2], b[:-2])


def _affine(one: ContribNode, right: int = 1, added: int = 2) -> Pairs:
    a, b = one.shape(0), one.shape(right)
    if a is None or b is None or len(a) != 2 or len(b) != 2:
        return
    rows, inner = a[::-1] if one.int_of("transA") else a
    across, columns = b[::-1] if one.int_of("transB") else b
    yield SizePair(inner, across)
    yield from broadcast_to((rows, columns), one.shape(added))


def _packed_product(one: ContribNode) -> Pairs:
    given = one.shape(0)
    if given:
        yield SizePair(given[-1], one.int_of("K"))


def _convolution(one: ContribNode, right: int = 1) -> Pairs:
    image, kernel = one.shape(0), one.shape(right)
    if image and kernel and len(kernel) > 1 and not one.int_of("channels_last"):
        yield SizePair(image[1], kernel[1] * one.int_of("group", 1))


def _transposed(one: ContribNode) -> Pairs:
    image, kernel = one.shape(0), one.shape(1)
    if image and kernel:
        yield SizePair(image[1], kernel[0])


def _recurrent(one: ContribNode) -> Pairs:
    given, weights, inner = one.shape(0), one.shape(1), one.shape(2)
    if not given or not weights or not inner or one.int_of("layout"):
        return
    yield SizePair(given[2], weights[2])
    yield from exactly(one.shape(4), given[1:2])
    for state in (5, 6):
        yield from exactly(one.shape(state), (weights[0], given[1], inner[2]))


def _einsum(one: ContribNode) -> Pairs:
    terms = one.node.attributes["equation"].as_string().replace(" ", "").split("->")[0].split(",")
    sizes: dict[str, int] = {}
    for index, term in enumerate(terms):
        shape = one.shape(index)
        if shape is None or len(shape) != len(term):
            continue
        for letter, size in zip(term, shape, strict=True):
            yield SizePair(sizes.setdefault(letter, size), size, True, True)


MATRICES: Mapping[str, PairsOf] = {
    **dict.fromkeys(
        """MatMul FusedMatMul TransposeMatMul MatMulInteger MatMulIntegerToFloat
        DynamicQuantizeMatMul""".split(),
        _product,
    ),
    "QLinearMatMul": partial(_product, right=3),
    "Gemm": _affine,
    "FusedGemm": _affine,
    "QGemm": partial(_affine, right=3, added=6),
    "MatMulNBits": _packed_product,
    "MatMulBnb4": _packed_product,
    "Conv": _convolution,
    "FusedConv": _convolution,
    "ConvInteger": _convolution,
    "QLinearConv": partial(_convolution, right=3),
    "ConvTranspose": _transposed,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    "Einsum": _einsum,
}
"""The pairs of each operator."""
