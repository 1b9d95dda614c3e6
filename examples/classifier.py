"""A classifier for the examples: a MobileNetV2 of two blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

IMAGE = (1, 224, 224, 3)


class Classifier:
    """The graph under construction; its methods return the names of their results.

    The model is written as ONNX, whatever the name of the file: the content decides. Outputs of
    ONNX have the names that the documents print. MindIR keeps no names of outputs, which are
    output_0, output_1, ... there.
    """

    def __init__(self, classes: int) -> None:
        self._random = np.random.default_rng(0)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        x = self._op("Transpose", "image", perm=[0, 3, 1, 2])  # channels come first in what follows
        x = self._relu6(self._convolution(x, 3, 8, stride=2))
        x = self._block(self._block(x, 8, 16, stride=2), 16, 16, stride=1)
        x = self._op("Flatten", self._op("GlobalAveragePool", x))
        self._scores = self._op(
            "Gemm", x, self._random.standard_normal((16, classes), np.float32) / 4
        )
        self._classes = classes

    def save(self, path: Path, output: str) -> None:
        """Write the model, whose output has this name, and beside it input.bin, an image for it."""
        last = helper.make_node("Softmax", [self._scores], [output])
        graph = helper.make_graph(
            [*self._nodes, last],
            "classifier",
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, IMAGE)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, (1, self._classes))],
            self._constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        path.write_bytes(model.SerializeToString())
        self._random.random(IMAGE, np.float32).tofile(path.with_name("input.bin"))

    def _op(self, kind: str, *inputs: Any, **attributes: Any) -> str:
        """A node; inputs other than names are constants."""
        names = [entry if isinstance(entry, str) else self._constant(entry) for entry in inputs]
        output = f"value_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, names, [output], **attributes))
        return output

    def _constant(self, value: Any) -> str:
        name = f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def _convolution(
        self, x: str, channels: int, wanted: int, size: int = 3, stride: int = 1, group: int = 1
    ) -> str:
        kernel = self._random.standard_normal((wanted, channels // group, size, size), np.float32)
        kernel *= (2 / kernel[0].size) ** 0.5  # what comes out is about as large as what goes in
        return self._op("Conv", x, kernel, strides=[stride] * 2, pads=[size // 2] * 4, group=group)

    def _relu6(self, x: str) -> str:
        return self._op("Clip", x, 0, 6)

    def _block(self, x: str, channels: int, wanted: int, stride: int) -> str:
        """An inverted residual: more channels, a filter for each of them, fewer channels."""
        wide = self._relu6(self._convolution(x, channels, 3 * channels, size=1))
        wide = self._relu6(
            self._convolution(wide, 3 * channels, 3 * channels, stride=stride, group=3 * channels)
        )
        narrow = self._convolution(wide, 3 * channels, wanted, size=1)
        return self._op("Add", x, narrow) if (channels, stride) == (wanted, 1) else narrow
