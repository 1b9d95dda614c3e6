"""MindIR files of one primitive: written with our own schema, read, lowered, run and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import ModelProto

from rankmesh.compiler.element_types import dtypes
from rankmesh.compiler.lowering.lower_mindir import lower_mindir
from rankmesh.compiler.mindir.mindir_pb2 import AttributeProto, GraphProto, TensorProto
from rankmesh.compiler.mindir.mindir_pb2 import ModelProto as MindIR
from rankmesh.compiler.mindir.reader import read_model

TOLERANCE = {"float32": 1e-4, "float64": 1e-4, "float16": 2e-3}


@dataclass(frozen=True)
class Fixed:
    """An array that is a constant of the file, not an input."""

    array: np.ndarray


@dataclass(frozen=True)
class Parameter:
    """An array that is a parameter (a weight) of the file."""

    array: np.ndarray


class Writer:
    """A MindIR model while a test writes it."""

    def __init__(self, dynamic: bool = False) -> None:
        self.model = MindIR(
            ir_version="1.1", producer_name="tests", model_version="1", little_endian=True
        )
        self.graph: GraphProto = self.model.graph
        self.graph.name = "g"
        self.dynamic = dynamic
        self.arrays: dict[str, np.ndarray] = {}

    def argument(self, value: Any) -> str:
        """The key of an argument: an input for an array, a MakeTuple for a list, else a
        constant."""
        if isinstance(value, np.ndarray):
            key = f"g:x{len(self.arrays)}"
            info = self.graph.input.add(name=key)
            info.tensor.add(dims=self.dims(value), data_type=dtypes.to_mindir(value.dtype))
            self.arrays[key[2:]] = value
            return key
        if isinstance(value, Parameter):
            key = f"g:p{len(self.graph.parameter)}"
            write_tensor(self.graph.parameter.add(name=key, ref_key=key[2:]), value.array)
            return key
        if isinstance(value, list):
            return self.node("MakeTuple", value, None)
        key = f"c{len(self.graph.node)}"
        node = self.graph.node.add(op_type="Constant", output=[key])
        write_value(node.attribute.add(name="value"), value)
        return key

    def node(
        self,
        primitive: str,
        arguments: Sequence[Any],
        result: Any,
        attributes: Mapping[str, Any] | None = None,
    ) -> str:
        """A node with its primitive record; `result` (arrays) gives its recorded type."""
        inputs = [
            a if isinstance(a, str) and a in self.keys() else self.argument(a) for a in arguments
        ]
        key = f"n{len(self.graph.node)}"
        record = self.model.primitives.add(
            name=f"{primitive}:{key}", op_type=primitive, prim_type=1
        )
        for name, value in (attributes or {}).items():
            write_value(record.attribute.add(name=name), value)
        node = self.graph.node.add(
            op_type=f"REF::{record.name}", output=[key], input=inputs, domain=f"Default/{primitive}"
        )
        if result is not None:
            self.type(node.attribute.add(name="shape"), result)
        return key

    def keys(self) -> set[str]:
        """All keys that may be referred to."""
        return (
            {n.output[0] for n in self.graph.node}
            | {i.name for i in self.graph.input}
            | {p.name for p in self.graph.parameter}
        )

    def type(self, attribute: AttributeProto, result: Any) -> None:
        """A recorded type, after an array, a Python number or a tuple of these."""
        if isinstance(result, tuple):
            attribute.type = 20
            for item in result:
                self.type(attribute.values.add(), item)
        elif isinstance(result, int):
            attribute.type = 39
            attribute.tensors.add(data_type=7, dims=[0])
        else:
            attribute.type = 19
            attribute.tensors.add(dims=self.dims(result), data_type=dtypes.to_mindir(result.dtype))

    def dims(self, array: np.ndarray) -> list[int]:
        """The dimensions as the file records them."""
        return [-1] * array.ndim if self.dynamic else list(array.shape)

    def save(self, path: Path, output: str, result: Any) -> Path:
        """The whole model as a file that returns `output`."""
        info = self.graph.output.add(name=output)
        if isinstance(result, (tuple, int)):
            self.type(info.attr_info, result)
        else:
            info.tensor.add(dims=self.dims(result), data_type=dtypes.to_mindir(result.dtype))
        path.write_bytes(self.model.SerializeToString())
        return path


def write_tensor(record: TensorProto, array: np.ndarray) -> None:
    """A tensor with its data."""
    record.dims.extend(array.shape)
    record.data_type = dtypes.to_mindir(array.dtype)
    record.raw_data = array.tobytes()


def write_value(attribute: AttributeProto, value: Any) -> None:
    """A constant as files hold it."""
    if value is None:
        attribute.type = 25
    elif isinstance(value, bool):
        attribute.type, attribute.i = 9, int(value)
    elif isinstance(value, int):
        attribute.type, attribute.i = 7, value
    elif isinstance(value, float):
        attribute.type, attribute.f = 1, value
    elif isinstance(value, str):
        attribute.type, attribute.s = 8, value.encode()
    elif isinstance(value, tuple):
        attribute.type = 20
        for item in value:
            write_value(attribute.values.add(), item)
    elif isinstance(value, Fixed):
        attribute.type = 19
        write_tensor(attribute.tensors.add(), value.array)
    elif isinstance(value, np.dtype):
        attribute.type = 19
        attribute.tensors.add(data_type=dtypes.to_mindir(value))
    else:
        raise TypeError(f"no constant: {value!r}")


def run(folder: Path, proto: ModelProto, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """An ONNX model on the CPU, its weights in `folder`."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", str(folder)
    )
    session = ort.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    results: list[np.ndarray] = session.run(None, dict(inputs))
    return results


def lowered(
    folder: Path,
    primitive: str,
    arguments: Sequence[Any],
    expected: Any,
    dynamic: bool = False,
    **attributes: Any,
) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """The ONNX model of one primitive, and its inputs."""
    writer = Writer(dynamic)
    output = writer.node(primitive, arguments, expected, attributes)
    path = writer.save(folder / "one.mindir", output, expected)
    return lower_mindir(read_model(str(path))), writer.arrays


def check(
    folder: Path,
    primitive: str,
    arguments: Sequence[Any],
    expected: Any,
    dynamic: bool = False,
    **attributes: Any,
) -> None:
    """The primitive, run on the arguments, gives the expected array, or tuple of arrays."""
    proto, inputs = lowered(folder, primitive, arguments, expected, dynamic, **attributes)
    results = run(folder, proto, inputs)
    wanted = expected if isinstance(expected, tuple) else (expected,)
    assert len(results) == len(wanted)
    for got, reference in zip(results, wanted, strict=True):
        same(got, np.asarray(reference))


def same(got: np.ndarray, reference: np.ndarray) -> None:
    """Equal dtype and shape; equal integers; floats within the tolerance of their dtype, NaN and
    infinities alike.
    """
    assert (got.dtype, got.shape) == (reference.dtype, reference.shape)
    if reference.dtype.kind != "f":
        np.testing.assert_array_equal(got, reference)
        return
    finite = np.isfinite(reference)
    np.testing.assert_array_equal(got[~finite], reference[~finite])
    largest = max(float(np.abs(reference[finite]).max(initial=0.0)), 1e-6)
    gap = np.abs(got[finite].astype(np.float64) - reference[finite].astype(np.float64)).max(
        initial=0.0
    )
    assert gap <= TOLERANCE[str(reference.dtype)] * largest, (
        f"off by {gap / largest:.2e} of the largest element"
    )
