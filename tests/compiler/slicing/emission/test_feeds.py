"""Feeds: random inputs have the types and shapes that the model declares."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser
from slicing import graph_of

from rankmesh.compiler.slicing.emission.feeds import random_feeds

pytestmark = pytest.mark.pure


def test_inputs_of_no_axes_are_arrays() -> None:
    text = """<ir_version: 9, opset_import: ["" : 18]>
    graph (bool flag, int64 mask, float scale, float[2] x) => (float[2] y) {
        number = Cast<to = 1>(mask)
        product = Mul(x, number)
        scaled = Mul(product, scale)
        y = Where(flag, scaled, x)
    }"""
    feeds = random_feeds(graph_of(parser.parse_model(text)), {})
    assert {name: (one.dtype.name, one.shape) for name, one in feeds.items()} == {
        "flag": ("bool", ()),
        "mask": ("int64", ()),
        "scale": ("float32", ()),
        "x": ("float32", (2,)),
    }
    assert all(isinstance(one, np.ndarray) for one in feeds.values())
