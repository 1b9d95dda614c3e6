"""Node values: computes what one node gives for small tensors, by ONNX's reference implementation.

Shapes often depend on small integer tensors, which these values are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator


def evaluated(
    proto: onnx.NodeProto, inputs: Mapping[str, np.ndarray], opsets: Mapping[str, int]
) -> Sequence[np.ndarray]:
    """The outputs that the reference implementation of ONNX computes; nothing where it fails."""
    graph = helper.make_graph(
        [proto],
        "node",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in inputs.items()
        ],
        [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in proto.output if n],
    )
    ids = [helper.make_opsetid(name, number) for name, number in opsets.items()]
    try:
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(helper.make_model(graph, opset_imports=ids)).run(
                None, dict(inputs)
            )
    except Exception:  # the value then stays unknown, and nothing depends on it
        return []
    return [np.asarray(one) for one in found]
