"""Split MindIR models over one data file of 1 GiB, laid out as MindSpore 2.10 does, and their ONNX
twins.

`dense`: a chain of Dense layers; onnxruntime repacks every weight. `table`: the same bytes as one
embedding table, which onnxruntime reads where it lies.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import NodeProto, TensorProto, helper
from onnx_writer import IR_VERSION, OPSET

from rankmesh.compiler.mindir import mindir_pb2 as mindir

LAYERS, WIDTH, ROWS = 16, 4096, 4
TABLE_ROWS, TABLE_WIDTH = LAYERS * WIDTH * 4, WIDTH // 4
WEIGHT_BYTES = LAYERS * WIDTH * WIDTH * 4
_DATA = "dense_variables/data_0"
_HEAD, _ALIGNED = 64, 64
_FLOAT32, _INT32 = 1, 6
_INT64_VALUE, _BOOL_VALUE, _TENSORS, _MONAD = 7, 9, 19, 23
_GRAPH = "90_46_bench_construct_19"


def write(folder: Path) -> None:
    """Write dense_graph.mindir, table_graph.mindir, dense.onnx, table.onnx and the data file that
    they share.
    """
    places = _write_data(folder)
    _write_dense(folder, places)
    _write_table(folder)
    _write_onnx(folder, places)


def _write_data(folder: Path) -> dict[str, int]:
    """The data file: 64 bytes that tell the byte order, then the parameters by name; returns their
    offsets.
    """
    random = np.random.default_rng(0)
    path = folder / _DATA
    path.parent.mkdir()
    places = {}
    with open(path, "wb") as file:
        file.write(b"\1".ljust(_HEAD, b"\0"))
        for layer in range(LAYERS):
            for name, shape, scale in (
                ("bias", (WIDTH,), 0.1),
                ("weight", (WIDTH, WIDTH), (2 / WIDTH) ** 0.5),
            ):
                places[f"fc{layer:02}.{name}"] = file.tell()
                file.write((random.standard_normal(shape, np.float32) * np.float32(scale)).data)
                file.write(bytes(-file.tell() % _ALIGNED))
    return places


def _write_dense(folder: Path, places: dict[str, int]) -> None:
    graph = _MindirGraph(_FLOAT32, (ROWS, WIDTH))
    monad, no, yes, channels_first = (
        graph.monad(),
        graph.constant(_BOOL_VALUE, 0),
        graph.constant(_BOOL_VALUE, 1),
        graph.constant(_INT64_VALUE, 0),
    )
    x = graph.input
    for layer in range(LAYERS):
        weight, bias = f"fc{layer:02}.weight", f"fc{layer:02}.bias"
        w = graph.node(
            "Load", (WIDTH, WIDTH), graph.parameter(weight, (WIDTH, WIDTH), places[weight]), monad
        )
        x = graph.node("MatMul", (ROWS, WIDTH), x, w, no, yes)
        c = graph.node("Load", (WIDTH,), graph.parameter(bias, (WIDTH,), places[bias]), monad)
        x = graph.node("BiasAdd", (ROWS, WIDTH), x, c, channels_first)
        x = graph.node("ReLU", (ROWS, WIDTH), x)
    graph.save(folder / "dense_graph.mindir", x, (ROWS, WIDTH))


def _write_table(folder: Path) -> None:
    graph = _MindirGraph(_INT32, (ROWS,))
    monad, zero = graph.monad(), graph.constant(_INT64_VALUE, 0)
    shape = (TABLE_ROWS, TABLE_WIDTH)
    table = graph.node("Load", shape, graph.parameter("table", shape, _HEAD), monad)
    x = graph.node("Gather", (ROWS, TABLE_WIDTH), table, graph.input, zero, zero)
    graph.save(folder / "table_graph.mindir", x, (ROWS, TABLE_WIDTH))


class _MindirGraph:
    """One MindIR model of a single graph and a single input `x`, while it is being built."""

    def __init__(self, dtype: int, shape: tuple[int, ...]) -> None:
        self._model = mindir.ModelProto(
            ir_version="1.1",
            producer_name="MindSpore",
            model_version="2.10.0",
            little_endian=True,
            mind_ir_version=3,
        )
        self._graph = self._model.graph
        self._graph.name = _GRAPH
        self._primitives: dict[str, str] = {}
        self._count = 0
        self.input = f"{_GRAPH}:x"
        self._graph.input.add(name=self.input).tensor.add(dims=shape, data_type=dtype)

    def parameter(self, name: str, shape: tuple[int, ...], offset: int) -> str:
        """A float32 parameter in the data file; returns its name."""
        record = self._graph.parameter.add(
            name=f"{_GRAPH}:{name}",
            dims=shape,
            data_type=_FLOAT32,
            ref_key=name,
            compression_type=0,
        )
        record.external_data.location = _DATA
        record.external_data.offset, record.external_data.length = offset, 4 * int(np.prod(shape))
        return record.name

    def monad(self) -> str:
        """The ordering token that every Load takes; returns its name."""
        return self._constant(mindir.AttributeProto(name="value", type=_MONAD))

    def constant(self, kind: int, value: int) -> str:
        """A Python integer or bool; returns its name."""
        return self._constant(mindir.AttributeProto(name="value", type=kind, i=value))

    def node(self, primitive: str, shape: tuple[int, ...], *inputs: str) -> str:
        """A node whose result is float32 of `shape`; returns its name."""
        self._count += 1
        name = f"{_GRAPH}:CNode_{self._count}:{self._count}"
        target = self._primitives.setdefault(primitive, f"{primitive}:{len(self._primitives)}")
        node = self._graph.node.add(
            name=name,
            input=inputs,
            output=[name],
            op_type=f"REF::{target}",
            domain=f"Default/{primitive}-op{self._count}",
        )
        node.attribute.add(name="shape", type=_TENSORS).tensors.add(dims=shape, data_type=_FLOAT32)
        return name

    def save(self, path: Path, output: str, shape: tuple[int, ...]) -> None:
        """Write the model, which returns `output`, float32 of `shape`."""
        self._graph.output.add(name=output).tensor.add(dims=shape, data_type=_FLOAT32)
        for primitive, name in self._primitives.items():
            self._model.primitives.add(name=name, op_type=primitive, instance_name="", prim_type=1)
        path.write_bytes(self._model.SerializeToString())

    def _constant(self, value: mindir.AttributeProto) -> str:
        self._count += 1
        name = f"ValueNode_{self._count}"
        self._graph.node.add(name=name, output=[name], op_type="Constant", attribute=[value])
        return name


def _write_onnx(folder: Path, places: dict[str, int]) -> None:
    """The same two models as ONNX, over the same data file."""
    records: list[TensorProto] = []
    nodes: list[NodeProto] = []
    x = "x"
    for layer in range(LAYERS):
        weight, bias = f"fc{layer:02}.weight", f"fc{layer:02}.bias"
        records += [
            _record(weight, (WIDTH, WIDTH), places[weight]),
            _record(bias, (WIDTH,), places[bias]),
        ]
        nodes += [
            helper.make_node("Gemm", [x, weight, bias], [f"gemm_{layer}"], transB=1),
            helper.make_node("Relu", [f"gemm_{layer}"], [f"relu_{layer}"]),
        ]
        x = f"relu_{layer}"
    _save_onnx(
        folder / "dense.onnx", nodes, records, (TensorProto.FLOAT, (ROWS, WIDTH)), x, (ROWS, WIDTH)
    )
    _save_onnx(
        folder / "table.onnx",
        [helper.make_node("Gather", ["table", "x"], ["rows"])],
        [_record("table", (TABLE_ROWS, TABLE_WIDTH), _HEAD)],
        (TensorProto.INT32, (ROWS,)),
        "rows",
        (ROWS, TABLE_WIDTH),
    )


def _record(name: str, shape: tuple[int, ...], offset: int) -> TensorProto:
    record = TensorProto(
        name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL
    )
    for key, text in (("location", _DATA), ("offset", offset), ("length", 4 * int(np.prod(shape)))):
        record.external_data.add(key=key, value=str(text))
    return record


def _save_onnx(
    path: Path,
    nodes: list[NodeProto],
    records: list[TensorProto],
    given: tuple[int, tuple[int, ...]],
    output: str,
    shape: tuple[int, ...],
) -> None:
    graph = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info("x", *given)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
        records,
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    path.write_bytes(model.SerializeToString())
