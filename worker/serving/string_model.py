"""String model: a whole ONNX model that takes or gives strings, as onnxruntime runs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace
from onnx import TensorProto, ValueInfoProto, numpy_helper

from ...comm.arrays import Array
from ...comm.errors import InputError, ModelError, UsageError
from ...comm.serving.orders import ModelReport
from ...comm.serving.string_tensor import packed, strings_of, unpacked
from ...comm.serving.tensor_spec import STRINGS, Default, TensorSpec
from ...comm.serving.weights import WeightReply, WeightRequest
from ...compiler.model_file.model_format import ONNX
from ...compiler.model_file.onnx_format import load_onnx
from ...compiler.onnx_graph.external import external_array
from ...compiler.onnx_graph.onnx_values import tensor_type
from ...compiler.onnx_graph.optional_inputs import optional_inputs
from ..executors.prepared_segment import session_error
from ..executors.registry import suited_to
from ..executors.settings import ONNXRUNTIME
from ..runtime.program_spec import ProgramSpec

if TYPE_CHECKING:
    from ...compiler.model_file.loaded_model import LoadedModel
    from ..executors.onnxruntime import OnnxRuntime


class StringModel:
    """See RankModel. It has no plan: its one session has the file, and its weights stay."""

    collective_seconds = 0.0

    def __init__(self, loaded: LoadedModel, executor: OnnxRuntime) -> None:
        """Raises ModelError where onnxruntime refuses the model."""
        graph, self._path = loaded.model.graph, loaded.path
        optional = optional_inputs(loaded.model)
        weights = {one.name for one in graph.initializer}
        inputs = _specs(self._path, (one for one in graph.input if one.name not in weights))
        inputs += _optional_specs(loaded, optional)
        outputs = _specs(self._path, graph.output)
        self._session = executor.session_of(self._path, loaded.model, loaded.folder)
        self.report = ModelReport(self._path, inputs, outputs, tuple(range(len(outputs))))

    def borrow(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """See RankModel. Raises InputError for bytes that are not text, ModelError."""
        given = {spec.name: _taken(spec, inputs[spec.name]) for spec in self.report.inputs}
        try:
            outputs = self._session.run(None, given)
        except Exception as error:  # onnxruntime's own classes share no base but Exception
            raise session_error(ModelError, f"{self._path} failed", error) from error
        return {
            spec.name: packed(strings_of(value)) if spec.strings else value
            for spec, value in zip(self.report.outputs, outputs, strict=True)
        }

    def bound(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """See RankModel: onnxruntime binds no strings."""

    def switch(self, number: int) -> None:
        """See RankModel: no weights are ever staged."""

    def reply(self, question: WeightRequest) -> WeightReply:
        """See RankModel. Raises UsageError."""
        raise UsageError(f"{self._path} takes or gives strings: its weights cannot be updated.")


def open_string_model(spec: ProgramSpec) -> StringModel | None:
    """The model of `spec`; None where no input or output is strings, where onnxruntime is not to
    run it, and where it cannot be read: the error of the program tells why. Raises ModelError.
    """
    name = spec.executor.name or suited_to(spec.device)
    if name != ONNXRUNTIME or not spec.path.endswith(ONNX.suffix):
        return None
    try:
        loaded = load_onnx(spec.path, spec.assets.folder, nodes_checked=True, texts=True)
    except (OSError, ModelError):
        return None
    graph = loaded.model.graph
    if not any(map(_is_strings, (*graph.input, *graph.output))):
        return None
    from ..executors.onnxruntime import open_executor

    return StringModel(loaded, open_executor(spec.executor))


def _optional_specs(
    loaded: LoadedModel, defaults: Mapping[str, TensorProto]
) -> tuple[TensorSpec, ...]:
    """The inputs of numbers that a request may leave out."""
    specs = _specs(loaded.path, (x for x in loaded.model.graph.input if x.name in defaults))
    return tuple(
        replace(spec, default=_default(loaded, defaults[spec.name]))
        for spec in specs
        if not spec.strings
    )


def _default(loaded: LoadedModel, tensor: TensorProto) -> Default:
    if tensor.data_location == TensorProto.EXTERNAL:
        array = external_array(tensor, loaded.folder)
    else:
        array = numpy_helper.to_array(tensor)
    return Default(array.shape, array.tobytes())


def _specs(path: str, infos: Iterable[ValueInfoProto]) -> tuple[TensorSpec, ...]:
    return tuple(_spec(path, info) for info in infos)


def _spec(path: str, info: ValueInfoProto) -> TensorSpec:
    if _is_strings(info):
        probe = ValueInfoProto()
        probe.CopyFrom(info)
        probe.type.tensor_type.elem_type = TensorProto.UINT8
        found = tensor_type(probe)
        return TensorSpec(info.name, STRINGS, None if found is None else found.shape)
    found = tensor_type(info)
    if found is None or found.dtype.kind == "V":
        raise ModelError(
            f"{path}: '{info.name}' is no tensor of strings, bools or numbers that numpy has, as "
            "a model with strings needs."
        )
    return TensorSpec(info.name, found.dtype.name, found.shape)


def _is_strings(info: ValueInfoProto) -> bool:
    return bool(info.type.tensor_type.elem_type == TensorProto.STRING)


def _taken(spec: TensorSpec, array: Array) -> Any:
    """An input as onnxruntime takes it: strings as texts."""
    if not spec.strings:
        return array
    given = unpacked(array)
    try:
        texts = [one.decode() for one in given.reshape(-1).tolist()]
    except UnicodeDecodeError as error:
        raise InputError(
            f"the input '{spec.name}' has bytes that are no text in UTF-8 ({error.reason}), which "
            "ONNX needs: send text, or give the model numbers."
        ) from None
    found = np.empty(len(texts), object)
    found[:] = texts
    return found.reshape(given.shape)
