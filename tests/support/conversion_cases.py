"""Cases of conversions: nodes of ONNX, each with its inputs and attributes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def floats(*shape: int) -> np.ndarray:
    """Numbers between 0.1 and 2.1, other in each place."""
    count = int(np.prod(shape))
    return (0.1 + 2 * (np.arange(count) * 7 % 31) / 31).astype(np.float32).reshape(shape)


def signed(*shape: int) -> np.ndarray:
    """Numbers between -1 and 1."""
    return floats(*shape) - 1.1


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@dataclass(frozen=True)
class Case:
    """A node with its inputs: those of `x` are given at each run, all others are constants."""

    operator: str
    x: tuple[np.ndarray, ...]
    constants: tuple[np.ndarray | None, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    opset: int = 18

    def __str__(self) -> str:
        sizes = "_".join("x".join(map(str, one.shape)) for one in self.x)
        named = {key: one for key, one in self.attributes.items() if key != "body"}
        words = "_".join(f"{key}={value}" for key, value in named.items())
        return f"{self.operator}-{sizes}-{words}"[:80]

    def model(self) -> onnx.ModelProto:
        """The node as a model."""
        names = [f"x{index}" for index in range(len(self.x))]
        inputs = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in zip(names, self.x, strict=True)
        ]
        constants = {f"c{index}": value for index, value in enumerate(self.constants)}
        names += ["" if value is None else name for name, value in constants.items()]
        results = [f"y{index}" for index in range(self.outputs)]
        domain = "com.microsoft" if "::" in self.operator else ""
        node = helper.make_node(
            self.operator.rpartition("::")[2],
            names,
            results,
            name="node",
            domain=domain,
            **self.attributes,
        )
        graph = helper.make_graph(
            [node],
            "case",
            inputs,
            [helper.make_tensor_value_info(one, TensorProto.UNDEFINED, None) for one in results],
            [
                numpy_helper.from_array(value, name)
                for name, value in constants.items()
                if value is not None
            ],
        )
        for info in graph.output:
            info.ClearField("type")
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


UNARY = "Abs Acos Asin Atan Ceil Cos Cosh Erf Exp Floor Log Neg Reciprocal Round Sigmoid Sign Sin"
UNARY += " Sinh Softplus Softsign Sqrt Tan Tanh Relu Identity Asinh Atanh Mish HardSwish"
BINARY = "Add Sub Mul Div Pow Max Min Sum Mean"
COMPARISONS = "Equal Greater GreaterOrEqual Less LessOrEqual"
REDUCTIONS = "ReduceMean ReduceMax ReduceMin ReduceProd ReduceSum ReduceL1 ReduceL2 ReduceSumSquare"
IMAGE = floats(1, 4, 6, 6)
LINES = floats(2, 3, 7)
VOLUME = floats(1, 2, 4, 5, 6)
WHOLE = np.array([1, 12, -7], np.int32)
HIDDEN = {"hidden_size": 4}
TRUE = np.array([[True, False], [False, True]])

CASES = [
    *(Case(name, (floats(2, 3) / 2.2,)) for name in UNARY.split()),
    *(Case(name, (floats(2, 3), floats(3))) for name in BINARY.split()),
    *(Case(name, (floats(2, 3), floats(2, 3)[::-1].copy())) for name in COMPARISONS.split()),
    *(Case(name, (TRUE, TRUE[0])) for name in ("And", "Or", "Xor")),
    *(Case(name, (signed(2, 3, 4),), (integers(-1, 0),)) for name in REDUCTIONS.split()),
    Case("ReduceMax", (signed(2, 3),), (), {"keepdims": 0}),
    Case("ReduceMean", (signed(2, 3),), (), {"axes": [1]}, opset=13),
    Case("Acosh", (floats(3) + 1,)),
    Case("Not", (TRUE,)),
    Case("IsNaN", (np.array([1, np.nan], np.float32),)),
    Case("Div", (integers(7, -7, 8), integers(2, 2, -3))),
    Case("Mod", (integers(7, -7, 8), integers(3, 3, -3))),
    Case("Mod", (signed(4), np.float32([0.3])), (), {"fmod": 1}),
    Case("Where", (TRUE, floats(2, 2), signed(2, 2))),
    Case("Cast", (floats(3) * 3,), (), {"to": TensorProto.INT64}),
    Case("Clip", (signed(2, 3),), (np.float32(-0.5), np.float32(0.5))),
    Case("Clip", (signed(2, 3),), (None, np.float32(0.5))),
    Case("Gelu", (signed(2, 3),), opset=20),
    Case("Gelu", (signed(2, 3),), (), {"approximate": "tanh"}, opset=20),
    Case("com.microsoft::Gelu", (signed(2, 3),)),
    Case("LeakyRelu", (signed(2, 3),), (), {"alpha": 0.2}),
    Case("Elu", (signed(2, 3),), (), {"alpha": 0.5}),
    Case("Selu", (signed(2, 3),)),
    Case("HardSigmoid", (signed(2, 3) * 4,)),
    Case("PRelu", (signed(2, 3),), (np.float32([0.1, 0.2, 0.3]),)),
    Case("Softmax", (signed(2, 3, 4),), (), {"axis": 1}),
    Case("LogSoftmax", (signed(2, 3),)),
    Case("Dropout", (signed(2, 3),)),
    Case("MatMul", (signed(2, 3), floats(3, 4))),
    Case("MatMul", (signed(2, 3, 4),), (floats(4, 5),)),
    Case("MatMul", (signed(2, 3, 4), floats(2, 4, 5))),
    Case("MatMul", (signed(2, 1, 3, 4), floats(5, 4, 3))),
    Case("MatMul", (signed(3), floats(3, 4))),
    Case("Gemm", (signed(2, 3),), (floats(3, 4), floats(4))),
    Case("Gemm", (signed(3, 2),), (floats(4, 3), floats(2, 1)), {"transA": 1, "transB": 1}),
    Case("Gemm", (signed(2, 3),), (floats(3, 4), floats(4)), {"alpha": 0.5, "beta": 2.0}),
    Case("Reshape", (signed(2, 3, 4),), (integers(0, -1),)),
    Case("Transpose", (signed(2, 3, 4),), (), {"perm": [1, 0, 2]}),
    Case("Transpose", (signed(2, 3, 4),)),
    Case("Flatten", (signed(2, 3, 4),), (), {"axis": 2}),
    Case("Squeeze", (signed(1, 3, 1),), (integers(0),)),
    Case("Unsqueeze", (signed(2, 3),), (integers(0, -1),)),
    Case("Concat", (signed(2, 3), floats(2, 1)), (), {"axis": -1}),
    Case("Split", (signed(4, 6),), (), {"axis": 1, "num_outputs": 3}, 3),
    Case("Split", (signed(4, 6),), (integers(1, 2, 3),), {"axis": 1}, 3),
    Case(
        "Slice",
        (signed(5, 6),),
        (integers(1, -2), integers(9, -9), integers(0, 1), integers(2, -2)),
    ),
    Case("Slice", (signed(5, 6),), (integers(-3), integers(2**62), integers(1))),
    Case("Expand", (signed(3, 1),), (integers(2, 1, 4),)),
    Case("Tile", (signed(2, 3),), (integers(2, 1),)),
    Case("Pad", (signed(2, 3),), (integers(0, 1, 2, 0), np.float32(7))),
    Case("Pad", (signed(1, 2, 5),), (integers(0, 0, 2, 0, 0, 1),), {"mode": "reflect"}),
    Case("Gather", (signed(4, 3),), (integers(2, 0, -1),)),
    Case("Gather", (signed(4, 3),), (np.array(1),), {"axis": 1}),
    Case("GatherElements", (signed(2, 3),), (np.array([[0, 2], [1, 0]]),), {"axis": 1}),
    Case("GatherND", (signed(2, 3, 4),), (np.array([[0, 1], [1, 2]]),)),
    Case("ScatterND", (signed(4, 3),), (np.array([[1], [3]]), floats(2, 3))),
    Case("ScatterElements", (signed(2, 3),), (np.array([[0, 2]]), floats(1, 2)), {"axis": 1}),
    Case("TopK", (signed(3, 5),), (integers(2),), {}, 2),
    Case("TopK", (signed(3, 5),), (integers(2),), {"axis": 0, "largest": 0}, 2),
    Case("ArgMax", (signed(3, 5),), (), {"axis": 1}),
    Case("ArgMin", (signed(3, 5),), (), {"axis": 0, "keepdims": 0}),
    Case("CumSum", (signed(3, 5),), (np.array(1),), {"reverse": 1}),
    Case("OneHot", (integers(0, 2, 1),), (np.array(3), np.float32([0, 1]))),
    Case("Trilu", (signed(4, 4),), (np.array(1),)),
    Case("Trilu", (signed(4, 4),), (), {"upper": 0}),
    Case(
        "Conv", (IMAGE,), (signed(5, 4, 3, 3), signed(5)), {"pads": [1, 0, 2, 1], "strides": [2, 1]}
    ),
    Case("Conv", (IMAGE,), (signed(4, 1, 3, 3),), {"group": 4, "dilations": [2, 2]}),
    Case("Conv", (IMAGE,), (signed(2, 4, 4, 4),), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    Case(
        "Conv", (floats(1, 4, 9),), (signed(3, 4, 3), signed(3)), {"pads": [1, 2], "strides": [2]}
    ),
    Case(
        "MaxPool",
        (signed(1, 2, 7, 7),),
        (),
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    ),
    Case(
        "MaxPool",
        (signed(1, 2, 7, 8),),
        (),
        {"kernel_shape": [2, 3], "strides": [2, 2], "ceil_mode": 1},
    ),
    Case(
        "AveragePool",
        (signed(1, 2, 7, 7),),
        (),
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    ),
    Case(
        "AveragePool",
        (signed(1, 2, 7, 7),),
        (),
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    ),
    Case(
        "AveragePool",
        (signed(1, 2, 6, 6),),
        (),
        {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    ),
    Case(
        "AveragePool",
        (LINES,),
        (),
        {"kernel_shape": [3], "strides": [2], "pads": [1, 1], "ceil_mode": 1},
    ),
    Case("MaxPool", (LINES,), (), {"kernel_shape": [2], "strides": [2]}),
    Case("MaxPool", (LINES,), (), {"kernel_shape": [3], "dilations": [2], "pads": [2, 1]}),
    Case("MaxPool", (signed(1, 2, 9, 9),), (), {"kernel_shape": [3, 3], "dilations": [2, 3]}),
    Case(
        "MaxPool",
        (signed(1, 2, 9, 8),),
        (),
        {
            "kernel_shape": [3, 2],
            "dilations": [2, 1],
            "strides": [2, 2],
            "pads": [1, 0, 2, 0],
            "ceil_mode": 1,
        },
    ),
    Case(
        "AveragePool",
        (signed(1, 2, 9, 8),),
        (),
        {"kernel_shape": [3, 2], "dilations": [2, 3], "pads": [1, 1, 1, 0], "strides": [2, 1]},
        opset=19,
    ),
    Case(
        "AveragePool",
        (signed(1, 2, 9, 8),),
        (),
        {
            "kernel_shape": [3, 2],
            "dilations": [2, 3],
            "pads": [1, 1, 1, 0],
            "count_include_pad": 1,
        },
        opset=19,
    ),
    Case("GlobalAveragePool", (IMAGE,)),
    Case("GlobalMaxPool", (IMAGE,)),
    Case("BatchNormalization", (IMAGE,), (floats(4), signed(4), signed(4), floats(4))),
    Case(
        "BatchNormalization",
        (IMAGE,),
        (floats(4), signed(4), signed(4), floats(4)),
        {"training_mode": 1, "momentum": 0.75},
        outputs=3,
    ),
    Case("InstanceNormalization", (IMAGE,), (floats(4), signed(4))),
    Case("GroupNormalization", (IMAGE,), (floats(4), signed(4)), {"num_groups": 2}, opset=21),
    Case("LayerNormalization", (signed(2, 3, 4),), (floats(4), signed(4))),
    Case("LayerNormalization", (signed(2, 3, 4),), (floats(3, 4),), {"axis": 1, "epsilon": 1e-3}),
    Case("RMSNormalization", (signed(2, 3, 4),), (floats(4),), opset=23),
    Case(
        "Resize",
        (IMAGE,),
        (None, None, integers(1, 4, 12, 12)),
        {
            "mode": "nearest",
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        },
    ),
    Case("Resize", (IMAGE,), (None, np.float32([1, 1, 1.5, 2])), {"mode": "linear"}),
    Case(
        "Resize",
        (IMAGE,),
        (None, None, integers(1, 4, 9, 11)),
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ),
    *(
        Case("Resize", (IMAGE,), (None, np.float32([1, 1, 1.3, 0.8])), how)
        for how in (
            {"mode": "linear"},
            {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"},
            {"mode": "cubic"},
            {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5},
            {"mode": "nearest", "nearest_mode": "ceil"},
            {"mode": "nearest", "coordinate_transformation_mode": "align_corners"},
        )
    ),
    Case("Resize", (LINES,), (None, np.float32([1.7])), {"mode": "nearest", "axes": [2]}),
    *(
        Case(
            "GridSample",
            (IMAGE, signed(1, 3, 5, 2)),
            (),
            {"mode": mode, "padding_mode": border},
            1,
            opset,
        )
        for mode, border, opset in (
            ("linear", "zeros", 20),
            ("nearest", "border", 20),
            ("bicubic", "zeros", 16),
        )
    ),
    Case("GridSample", (VOLUME, signed(1, 2, 3, 4, 3)), (), {"align_corners": 1}, opset=20),
    Case("NonZero", (np.float32([[1, 0, 2], [0, 3, 0]]),)),
    Case("Det", (signed(2, 3, 3),)),
    Case("CumProd", (floats(2, 3),), (np.array(1),), opset=26),
    Case("CumProd", (floats(2, 3),), (np.array(-2),), {"exclusive": 1, "reverse": 1}, opset=26),
    Case("ReverseSequence", (signed(4, 3),), (integers(4, 2, 1),)),
    *(
        Case(name, (WHOLE, WHOLE[::-1].copy()))
        for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
    ),
    Case("BitwiseNot", (WHOLE,)),
    Case("BitwiseNot", (WHOLE.astype(np.uint8),)),
    *(
        Case("BitShift", (WHOLE.astype(np.uint8), np.uint8([1, 2, 3])), (), {"direction": way})
        for way in ("LEFT", "RIGHT")
    ),
    Case("Conv", (VOLUME,), (signed(6, 2, 2, 3, 2), signed(6)), {"pads": [0, 1, 1, 1, 0, 1]}),
    Case("Conv", (VOLUME,), (signed(4, 1, 3, 3, 3),), {"group": 2, "strides": [2, 1, 1]}),
    Case(
        "ConvTranspose",
        (VOLUME,),
        (signed(2, 3, 3, 2, 2), signed(3)),
        {"strides": [2, 1, 2], "pads": [1, 0, 0, 1, 1, 0], "output_padding": [1, 0, 0]},
    ),
    Case("MaxPool", (VOLUME,), (), {"kernel_shape": [2, 2, 2], "pads": [1, 0, 1, 0, 0, 1]}),
    Case("AveragePool", (VOLUME,), (), {"kernel_shape": [2, 3, 2], "strides": [2, 1, 2]}),
    Case(
        "AveragePool",
        (VOLUME,),
        (),
        {"kernel_shape": [2, 2, 2], "pads": [1, 1, 1, 0, 0, 0], "count_include_pad": 0},
    ),
    Case("DepthToSpace", (floats(1, 8, 2, 3),), (), {"blocksize": 2}),
    Case("DepthToSpace", (floats(1, 8, 2, 3),), (), {"blocksize": 2, "mode": "CRD"}),
    Case("SpaceToDepth", (floats(1, 2, 4, 6),), (), {"blocksize": 2}),
    Case("ConvTranspose", (IMAGE,), (signed(4, 3, 3, 3), signed(3)), {"strides": [2, 2]}),
    Case(
        "ConvTranspose",
        (IMAGE,),
        (signed(4, 2, 3, 3),),
        {"pads": [1, 1, 1, 1], "strides": [2, 2], "output_padding": [1, 1], "group": 2},
    ),
    Case("ConvTranspose", (LINES,), (signed(3, 2, 3), signed(2)), {"strides": [2]}),
    Case(
        "ConvTranspose",
        (IMAGE,),
        (signed(4, 2, 3, 3),),
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    ),
    Case(
        "ConvTranspose",
        (IMAGE,),
        (signed(4, 2, 3, 3),),
        {"output_shape": [12, 13], "strides": [2, 2]},
    ),
    Case("LSTM", (signed(5, 2, 3),), (signed(1, 16, 3), signed(1, 16, 4)), HIDDEN, 3),
    Case(
        "LSTM",
        (signed(5, 2, 3),),
        (
            signed(2, 16, 3),
            signed(2, 16, 4),
            signed(2, 32),
            None,
            signed(2, 2, 4),
            floats(2, 2, 4),
        ),
        {**HIDDEN, "direction": "bidirectional"},
        3,
    ),
    Case("GRU", (signed(5, 2, 3),), (signed(1, 12, 3), signed(1, 12, 4)), HIDDEN, 2),
    Case(
        "GRU",
        (signed(5, 2, 3),),
        (signed(2, 12, 3), signed(2, 12, 4), signed(2, 24), None, signed(2, 2, 4)),
        {**HIDDEN, "direction": "bidirectional", "linear_before_reset": 1},
        2,
    ),
    Case(
        "RNN",
        (signed(5, 2, 3),),
        (signed(1, 4, 3), signed(1, 4, 4), signed(1, 8)),
        {**HIDDEN, "direction": "reverse", "activations": ["Relu"]},
        2,
    ),
    Case("EyeLike", (signed(2, 3),), (), {"k": 1}),
]
