"""Models of old opsets are sliced as what they mean, or refused with a reason."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import parser
from slicing import check_plan, graph_of

from rankmesh import ModelError
from rankmesh.compiler.slicing.planning.propagate import propagate
from rankmesh.compiler.slicing.planning.random_plans import random_plan

OLD = """<ir_version: 6, opset_import: ["" : 11]>
main (float[4, 6, 8] x) => (float[4, 6, 1] y, float[4, 48] z) {
    a = Softmax<axis = 1>(x)
    b = Unsqueeze<axes = [1]>(a)
    c = Dropout<ratio = 0.5>(b)
    d, e = Split<axis = 3, split = [4, 4]>(c)
    f = Squeeze<axes = [1]>(d)
    y = ReduceSum<axes = [2]>(f)
    g = LogSoftmax(x)
    z = Flatten(g)
}"""


def test_softmax_of_opset_11_is_over_all_later_axes() -> None:
    model = parser.parse_model(OLD)
    feeds = {"x": np.random.default_rng(2).standard_normal((4, 6, 8)).astype(np.float32)}
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected = session.run(None, feeds)
    graph = graph_of(model)
    for ranks in (2, 3):
        found = propagate(graph, ranks)
        for seed in range(4):
            check_plan(graph, random_plan(graph, found, ranks, seed), feeds, expected)


def test_an_operator_that_cannot_be_converted_is_refused() -> None:
    model = parser.parse_model(
        """<ir_version: 6, opset_import: ["" : 8]>
        main (float[4, 6] x, float[6] w) => (float[4, 6] y) {
            y = BatchNormalization<spatial = 0>(x, w, w, w, w)
        }"""
    )
    with pytest.raises(ModelError, match=r"model.onnx: has opset 8, and 13 or later is needed"):
        graph_of(model)
