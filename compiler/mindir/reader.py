"""Reader of .mindir files: mapped, checked against their bounds, with weights left in place."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from google.protobuf.message import DecodeError

from ...comm.errors import ModelError
from ...comm.host.stamp import Stamp
from ...comm.wire_fields import WireError
from ..element_types import dtypes
from ..element_types.value_types import OtherType, ValueType
from .crypto import Decryption
from .graph import Constant, Graph, Input, MindirModel, MindirNode, StoredWeight
from .mindir_file import MindirFile
from .mindir_pb2 import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    PrimitiveProto,
    TensorProto,
    ValueInfoProto,
)
from .paths import DataFolders
from .segments import SegmentError
from .values import attributes, check_size, constant, info_type, value_type
from .wire import cut_weights

_REF = "REF::"
_CONSTANT = "Constant"
_SIGNATURE = "S-Prim-"  # before bare names of old files


def read_model(
    path: str, decryption: Decryption | None = None, weights_folder: str = ""
) -> MindirModel:
    """Read the model at `path` (a whole .mindir, or the `_graph.mindir` of a split one).

    `decryption` opens encrypted files; with it, others are refused unless it allows them. External
    weights lie in `weights_folder`, by default in the folder of `path`. Raises ModelError, which
    names the file, the byte or node, and what was expected.
    """
    reader = _Reader(path, decryption, weights_folder)
    try:
        return reader.model()
    except WireError as error:
        raise ModelError(
            f"{path}: not a readable MindIR file: {error} of {reader.size}{reader.doubt}. The file "
            f"is truncated, corrupt, or of another kind: export or copy it again."
        ) from error
    except SegmentError as error:
        raise ModelError(f"{path}: {error}. Export or copy it again, whole.") from error
    except (DecodeError, ValueError) as error:
        raise ModelError(
            f"{path}: not a readable MindIR file: {error}{reader.doubt}. Export or copy it again."
        ) from error
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}.") from error


class _Reader:
    """One file while it is being read."""

    def __init__(self, path: str, decryption: Decryption | None, weights_folder: str) -> None:
        self.path = path
        self.decryption = decryption
        self.sources: dict[str, MindirFile] = {}
        self.files: dict[str, Stamp] = {}
        self.weights_folder = weights_folder
        self.folders = DataFolders(path, weights_folder)
        self.constants: dict[str, Constant] = {}
        self.primitives: dict[str, PrimitiveProto] = {}
        self.attributes: dict[str, dict[str, Constant]] = {}
        self.functions: dict[str, GraphProto] = {}

    def model(self) -> MindirModel:
        """Parse, check and type the whole file."""
        proto, places = self._parse()
        if not proto.HasField("graph") or not (proto.graph.output or proto.graph.node):
            raise ModelError(
                f"{self.path}: not a MindIR model: it holds no graph{self.doubt}. Expected a file "
                f"that mindspore.export(..., file_format='MINDIR') wrote."
            )
        if proto.HasField("little_endian") and not proto.little_endian:
            raise ModelError(
                f"{self.path}: was exported on a big-endian machine, which is not supported."
            )
        self.primitives = {record.name: record for record in proto.primitives}
        self.functions = {graph.name: graph for graph in proto.functions}
        weights = self._weights(proto.graph, places)
        entry = self._graph(proto.graph)
        return MindirModel(
            self.path,
            f"{proto.producer_name} {proto.model_version}".strip(),
            entry,
            {name: self._graph(graph) for name, graph in self.functions.items()},
            self.constants,
            weights,
            dict(proto.user_info),
            {path: source.data for path, source in self.sources.items() if source.encrypted},
            self.weights_folder,
            self.files,
        )

    @property
    def size(self) -> int:
        """The bytes of the graph's file, decrypted."""
        return len(self.sources[self.path].data)

    @property
    def doubt(self) -> str:
        """A wrong key as another cause of a fault; empty where a tag vouches for the key."""
        source = self.sources.get(self.path)
        if source is None or not source.doubtful:
            return ""
        return " once decrypted: wrong key or mode, if the file is whole"

    @contextmanager
    def _naming(self, what: str) -> Iterator[None]:
        """A scope whose ValueErrors become ModelErrors that name the file and `what`."""
        try:
            yield
        except ValueError as error:
            raise ModelError(f"{self.path}: {what}: {error}. Export or copy it again.") from error

    def _parse(self) -> tuple[ModelProto, list[tuple[int, int] | None]]:
        self.files[""] = Stamp.of(self.path)
        source = self._source(self.path)
        if not len(source.data):
            raise ModelError(
                f"{self.path}: is empty. Expected a MindIR model: export or copy it again."
            )
        cut = cut_weights(source.data)
        proto = ModelProto()
        proto.ParseFromString(cut.message)
        return proto, cut.weights

    def _source(self, path: str) -> MindirFile:
        if path not in self.sources:
            self.sources[path] = MindirFile.open(path, self.decryption)
        return self.sources[path]

    def _weights(
        self, graph: GraphProto, places: list[tuple[int, int] | None]
    ) -> dict[str, StoredWeight]:
        if len(graph.map_parameter):
            raise ModelError(
                f"{self.path}: has map parameters ({graph.map_parameter[0].name}), which are not "
                f"supported."
            )
        return {
            record.name: self._weight(record, place)
            for record, place in zip(graph.parameter, places, strict=True)
        }

    def _weight(self, record: TensorProto, place: tuple[int, int] | None) -> StoredWeight:
        name = record.ref_key or record.name.partition(":")[2] or record.name
        if record.compression_type:
            raise ModelError(
                f"{self.path}: parameter '{name}' is compressed (type {record.compression_type}), "
                f"which is not supported: export it uncompressed."
            )
        with self._naming(f"parameter '{name}'"):
            dtype, shape = dtypes.from_mindir(record.data_type), tuple(record.dims)
        if any(dim < 0 for dim in shape):
            raise ModelError(
                f"{self.path}: parameter '{name}' has the impossible shape {list(shape)}."
            )
        path = self.path
        if record.HasField("external_data"):
            path, place = self._external(record, name)
        if place is None:
            raise ModelError(
                f"{self.path}: parameter '{name}' has no data, neither in the file nor beside it."
            )
        check_size(f"parameter '{name}'", dtype, shape, place[1])
        return StoredWeight(name, dtype, shape, path, *place, self.sources[path].memory)

    def _external(self, record: TensorProto, name: str) -> tuple[str, tuple[int, int]]:
        external = record.external_data
        path = self.folders.resolve(external.location, f"{self.path}: parameter '{name}'")
        if external.location not in self.files:
            named = os.path.join(self.folders.named, external.location)
            self.files[external.location] = Stamp.of(named)
        offset, length = external.offset, external.length
        source, graph = self._source(path), self.sources[self.path]
        if source.encrypted != graph.encrypted:
            raise ModelError(
                f"{path}: is {source.words}, and {self.path}, which names it, is {graph.words}: "
                f"the files are not of one export. Copy both again."
            )
        size = len(source.data)
        if offset < 0 or length < 0 or offset + length > size:
            raise ModelError(
                f"{path}: is too short or of another model: parameter '{name}' of {self.path} lies "
                f"at bytes {offset} to {offset + length}, and the file has {size}. Copy it again, "
                f"whole."
            )
        return path, (offset, length)

    def _graph(self, graph: GraphProto) -> Graph:
        if len(graph.output) != 1:
            raise ModelError(
                f"{self.path}: graph '{graph.name}' has {len(graph.output)} outputs, expected 1."
            )
        nodes = tuple(self._node(node) for node in graph.node if not self._take_constant(node))
        inputs = tuple(
            Input(info.name, info.name.partition(":")[2] or info.name, self._type(info, "input"))
            for info in graph.input
        )
        output = graph.output[0]
        return Graph(graph.name, inputs, nodes, output.name, self._type(output, "output"))

    def _type(self, info: ValueInfoProto, what: str) -> ValueType:
        with self._naming(f"{what} '{info.name}'"):
            return info_type(info)

    def _take_constant(self, node: NodeProto) -> bool:
        if node.op_type != _CONSTANT:
            return False
        if len(node.output) != 1 or len(node.attribute) != 1:
            raise ModelError(
                f"{self.path}: the constant '{node.name}' has {len(node.output)} outputs and "
                f"{len(node.attribute)} values, expected one of each."
            )
        with self._naming(f"the constant '{node.output[0]}'"):
            self.constants[node.output[0]] = constant(node.attribute[0])
        return True

    def _node(self, node: NodeProto) -> MindirNode:
        if len(node.output) != 1:
            raise ModelError(
                f"{self.path}: node '{node.name}' has {len(node.output)} outputs, expected 1."
            )
        with self._naming(f"node {node.domain or node.name}"):
            result: ValueType = OtherType("none")
            own = []
            for attribute in node.attribute:
                if attribute.name == "shape" or attribute.ref_attr_name.startswith("shape:"):
                    result = value_type(attribute)
                else:
                    own.append(attribute)
            primitive, target, found = self._operator(node, own)
        inputs, scope = tuple(node.input), node.domain
        return MindirNode(node.output[0], primitive, inputs, found, result, scope, target)

    def _operator(
        self, node: NodeProto, own: Sequence[AttributeProto]
    ) -> tuple[str, str, Mapping[str, Constant]]:
        """(primitive, callee, attributes) of a node; one of the first two is empty."""
        if node.op_type and not node.op_type.startswith(_REF):
            return node.op_type.removeprefix(_SIGNATURE), "", attributes(own)
        target = node.op_type[len(_REF) :]
        record = self.primitives.get(target)
        if not (record.op_type if record else target):
            raise ModelError(
                f"{self.path}: node '{node.output[0]}' names neither a primitive nor what it calls."
            )
        if record is None:
            return "", target, {}
        if target not in self.attributes:
            self.attributes[target] = attributes(record.attribute)
        return record.op_type, "", self.attributes[target]
