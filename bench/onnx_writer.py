"""An ONNX model under construction whose weights go straight into a file beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

OPSET, IR_VERSION = 20, 10
_ALIGNED = 4096
Array = NDArray[np.float32]


class OnnxWriter:
    """Adds nodes one after the other; `save` writes NAME.onnx, whose weights lie in NAME.data."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f"{name}.onnx"
        self._location = f"{name}.data"
        self._data = open(folder / self._location, "wb")
        self._nodes: list[Any] = []
        self._initializers: list[Any] = []
        self._count = 0

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node of one output; returns the output's name."""
        self._count += 1
        name = f"{kind}_{self._count}"
        self._nodes.append(
            helper.make_node(kind, list(inputs), [name], name=name, domain=domain, **attributes)
        )
        return name

    def weight(self, array: Array) -> str:
        """A weight, written to the data file; returns its name."""
        self._data.seek(-self._data.tell() % _ALIGNED, 1)
        record = TensorProto(
            name=f"weight_{len(self._initializers)}",
            data_type=TensorProto.FLOAT,
            dims=array.shape,
            data_location=TensorProto.EXTERNAL,
        )
        for key, text in (
            ("location", self._location),
            ("offset", self._data.tell()),
            ("length", array.nbytes),
        ):
            record.external_data.add(key=key, value=str(text))
        self._data.write(np.ascontiguousarray(array).data)
        self._initializers.append(record)
        return str(record.name)

    def constant(self, array: NDArray[Any]) -> str:
        """A small constant, kept inside the model; returns its name."""
        name = f"constant_{len(self._initializers)}"
        self._initializers.append(
            helper.make_tensor(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, array.ravel()
            )
        )
        return name

    def save(self, inputs: dict[str, Sequence[int]], output: str, shape: Sequence[int]) -> None:
        """Write the model: float32 `inputs` by name, and `output` of `shape` under the name `y`."""
        self._data.close()
        self._nodes.append(helper.make_node("Identity", [output], ["y"], name="y"))
        graph = helper.make_graph(
            self._nodes,
            self._path.stem,
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
                for name, dims in inputs.items()
            ],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
            self._initializers,
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("rankmesh", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        self._path.write_bytes(model.SerializeToString())
