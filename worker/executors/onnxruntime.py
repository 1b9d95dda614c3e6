"""The onnxruntime executor: one session per segment, inputs and outputs bound in place."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from ...comm.errors import ModelError, OutOfMemory, RankFailed, RankmeshError, UsageError
from .. import dtypes
from ..affinity import bound_to
from ..external import NO_MEMORY, external_array, lies_in
from ..plan import Segment
from .base import Array, Operand
from .forked_child import let_forked_children_end
from .saved_weights import align
from .views import View, output_views, without_copies

try:
    import onnxruntime as ort
except ImportError as error:
    raise UsageError(f"models need onnxruntime, which cannot be imported ({error}). Install it with: "
                     f"pip install 'rankmesh[cpu]' (with NVIDIA GPUs: 'rankmesh[gpu]').") from None

_LOG = logging.getLogger("rankmesh")
_CPU = "CPUExecutionProvider"
_CUDA = "CUDAExecutionProvider"
_CANN = "CANNExecutionProvider"
_ON_GPU = "cuda"  # onnxruntime's name of the device
_ERRORS_ONLY, _FATAL = 3, 4
_NO_MEMORY = ("bad_alloc", "Failed to allocate memory", "out of memory")
# On a CPU the fused SkipLayerNormalization takes 394 us for [128, 768], its Adds and LayerNormalization apart 60 us.
_SLOW_ON_CPU = ["SkipLayerNormFusion"]
_AFFINITIES = "session.intra_op_thread_affinities"
_WEIGHTS_FILE = "session.optimized_model_external_initializers_file_name"
_SAVED = {"session.optimized_model_external_initializers_min_size_in_bytes": "1024",
          "session.save_external_prepacked_constant_initializers": "1"}
# Only what is touched of a chunk is memory, but onnxruntime notes something for every 256 bytes of it, 3 %. Smaller
# ones, one after the other, would not serve the largest model too.
_WORKSPACE = {"initial_chunk_size_bytes": 256 << 20, "initial_growth_chunk_size_bytes": 256 << 20}
_IN_WORKSPACE = {"session.use_env_allocators": "1", "session.use_device_allocator_for_initializers": "1"}
_PROVIDERS = {"cpu": [], "gpu": [_CUDA], "ascend": [_CANN]}
_INSTALL = {"gpu": "rankmesh[gpu]", "ascend": "an onnxruntime that was built with CANN"}

let_forked_children_end()  # which loading onnxruntime has made impossible


class OnnxRuntime:
    """Sessions of one process on one device (`cpu`, `gpu` or `ascend`), with `threads` threads in all.

    More than one thread means one global pool for all sessions: a pool per session spins against the
    others (25 segments ran 5 times slower). From then on onnxruntime refuses any session of this process that
    wants a pool of its own, the caller's too: `own_pools` is for models of one segment in a caller's process.
    `workspace` is whether activations lie in one memory of the process instead of one of each session.
    `spin` is whether idle threads may spin, right only where no other process needs their cores. `cores` has one per
    thread where they are bound; the first thread is whoever calls, which the caller binds.
    """

    name = "onnxruntime"
    _pool_threads = 0  # of this process; onnxruntime's global pool can be set only once
    _workspace_made = False  # likewise
    _pool_cores: Sequence[int] = ()

    def __init__(self, device: str = "cpu", device_id: int = 0, threads: int = 1, spin: bool = True,
                 own_pools: bool = False, workspace: bool = False, cores: Sequence[int] = ()) -> None:
        self._providers = _providers(device, device_id)
        self._disabled = _SLOW_ON_CPU if device == "cpu" else []
        self._threads = threads
        self._spin = spin
        self._workspace = workspace and device == "cpu"
        self._own_pools = own_pools or threads == 1
        self._cores = cores[1:]
        ort.disable_telemetry_events()
        ort.set_default_logger_severity(_ERRORS_ONLY)

    def prepare(self, segment: Segment, folder: str, memory: Mapping[str, memoryview] = NO_MEMORY) -> PreparedSegment:
        """A session for `segment`; ModelError where onnxruntime refuses it."""
        options = self._options(folder)
        held = dict(_in_memory(segment, memory))
        if held:  # onnxruntime copies them, so nothing needs to outlive the session's making
            options.add_external_initializers(list(held), list(held.values()))
        return self._prepared(self._session(segment, _serialized(segment), options), segment)

    def save(self, segment: Segment, folder: str, place: str) -> None:
        """See Executor.save: the graph as it was optimized, the weights as they were packed for this CPU."""
        options = self._options(folder)
        options.optimized_model_filepath = place
        for key, value in _SAVED.items():
            options.add_session_config_entry(key, value)
        options.add_session_config_entry(_WEIGHTS_FILE, os.path.basename(place) + ".weights")
        self._session(segment, _serialized(segment), options)
        _require_whole(place)
        align(place)

    def load(self, segment: Segment, place: str) -> PreparedSegment:
        """See Executor.load."""
        options = self._options(os.path.dirname(place))
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # it was optimized before
        return self._prepared(self._session(segment, place, options), segment)

    @property
    def options(self) -> str:
        """See Executor.options."""
        return f"{self.name} {self._providers} {self._disabled} aligned"

    def _prepared(self, session: Any, segment: Segment) -> PreparedSegment:
        given = {slot.name for slot in session.get_outputs()}
        views = {name: view for name, view in output_views(segment.model).items() if view.matrix in given}
        return PreparedSegment(session, segment, len(self._providers) > 1, views)

    def _session(self, segment: Segment, model: bytes | str, options: Any) -> Any:
        try:
            return ort.InferenceSession(model, options, providers=self._providers, disabled_optimizers=self._disabled)
        except Exception as error:  # onnxruntime's own classes share no base but Exception
            what = f"onnxruntime refuses the segment that ends in {segment.outputs[0]}"
            raise _fault(ModelError, what, error) from error

    def _options(self, folder: str) -> Any:
        options = ort.SessionOptions()
        options.log_severity_level = _FATAL  # its errors are raised, and say the same
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        options.add_session_config_entry("session.intra_op.allow_spinning", "1" if self._spin else "0")
        if OnnxRuntime._pool_threads or not self._own_pools:
            self._share_pool()
            options.use_per_session_threads = False
        else:
            options.intra_op_num_threads = self._threads
            options.inter_op_num_threads = 1
            if self._cores:  # onnxruntime counts cores from 1
                options.add_session_config_entry(_AFFINITIES, ";".join(str(core + 1) for core in self._cores))
        if self._workspace:
            self._share_workspace(options)
        return options

    def _share_workspace(self, options: Any) -> None:
        if not OnnxRuntime._workspace_made:
            info = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
            ort.create_and_register_allocator(info, ort.OrtArenaCfg(_WORKSPACE))
            OnnxRuntime._workspace_made = True
        for key, value in _IN_WORKSPACE.items():
            options.add_session_config_entry(key, value)

    def _share_pool(self) -> None:
        if not OnnxRuntime._pool_threads:
            with bound_to(self._cores):  # its threads inherit it
                ort.set_global_thread_pool_sizes(self._threads, 1)
            OnnxRuntime._pool_threads, OnnxRuntime._pool_cores = self._threads, self._cores
        elif self._cores and set(self._cores) != set(OnnxRuntime._pool_cores):
            _LOG.warning("the threads of this process are bound to the cores %s already, not to %s: models share them.",
                         list(OnnxRuntime._pool_cores) or "that the process may use", list(self._cores))


def _serialized(segment: Segment) -> bytes:
    model: bytes = without_copies(segment.model).SerializeToString()
    return model


def _require_whole(place: str) -> None:
    """Raise OSError where the weights beside a saved model end early: onnxruntime does not notice a full disk."""
    for tensor in onnx.load(place, load_external_data=False).graph.initializer:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if entries:
            file = os.path.join(os.path.dirname(place), entries["location"])
            if os.path.getsize(file) < int(entries.get("offset", "0")) + int(entries.get("length", "0")):
                raise OSError(errno.ENOSPC, f"{file} ends before the weight '{tensor.name}'")


def _providers(device: str, device_id: int) -> list[Any]:
    wanted = _PROVIDERS[device]
    missing = [name for name in wanted if name not in ort.get_available_providers()]
    if missing:
        present = ", ".join(ort.get_available_providers())
        raise UsageError(f"device {device}: this onnxruntime has no {missing[0]} (it has {present}). "
                         f"Install {_INSTALL[device]}, or run on the CPU (--device cpu, RANKMESH_DEVICE=cpu).")
    return [(name, {"device_id": str(device_id)}) for name in wanted] + [_CPU]


class PreparedSegment:
    """One session with its bindings; arrays stay bound, and held, until others take their place.

    onnxruntime keeps raw pointers only: holding the arrays here is what keeps those pointers true.
    """

    def __init__(self, session: Any, segment: Segment, copies: bool, views: Mapping[str, View]) -> None:
        """`copies`: binding copies the host's arrays to a device, so that each run's are bound anew, changed or not.

        `views` are the outputs of the segment that are others' memory.
        """
        self._session = session
        self._copies = copies
        self._segment = segment
        self._views = views
        self._binding = session.io_binding()
        self._inputs = segment.inputs
        self._outputs = segment.outputs
        self._bound_inputs: list[Operand | None] = [None] * len(segment.inputs)
        self._bound_outputs: list[Array | None] = [None] * len(segment.outputs)

    def twin(self) -> PreparedSegment:
        """See Shareable.twin: onnxruntime runs one session in any number of threads, each with bindings of its own."""
        return PreparedSegment(self._session, self._segment, self._copies, self._views)

    def run(self, inputs: Sequence[Operand], outputs: Sequence[Array | None]) -> Sequence[Array]:
        """See Runnable.run."""
        for index, array in enumerate(inputs):
            if array is not self._bound_inputs[index] or self._copies and isinstance(array, np.ndarray):
                self._bind_input(index, array)
        for index, out in enumerate(outputs):
            if out is None or out is not self._bound_outputs[index]:
                self._bind_output(index, out)
        try:
            self._session.run_with_iobinding(self._binding)
        except Exception as error:  # as above
            what = f"onnxruntime failed in the segment that ends in {self._outputs[0]}"
            raise _fault(RankFailed, what, error) from error
        return self._results(outputs)

    def _bind_input(self, index: int, array: Operand) -> None:
        name, dtype = self._inputs[index], _element_type(array.dtype)
        if isinstance(array, np.ndarray):
            self._binding.bind_input(name, "cpu", 0, dtype, array.shape, _address(array))
        else:
            self._binding.bind_input(name, _ON_GPU, array.number, dtype, array.shape, array.pointer)
        self._bound_inputs[index] = array

    def _bind_output(self, index: int, out: Array | None) -> None:
        name = self._outputs[index]
        view = self._views.get(name)
        if out is None:
            self._binding.bind_output(view.matrix if view else name, "cpu")
        elif view:
            matrix = out.reshape(view.matrix_shape)  # ValueError where the sizes differ, before anything is written
            self._binding.bind_output(view.matrix, "cpu", 0, _element_type(out.dtype), matrix.shape, _address(matrix))
        else:
            self._binding.bind_output(name, "cpu", 0, _element_type(out.dtype), out.shape, _address(out))
        self._bound_outputs[index] = out

    def _results(self, outputs: Sequence[Array | None]) -> Sequence[Array]:
        values, results = None, []
        for index, out in enumerate(outputs):  # loops cost less than what they are shorter for: see Program._run
            if out is None:
                values = values or self._binding.get_outputs()
                out = self._new(index, values[index])
            results.append(out)
        return results

    def _new(self, index: int, value: Any) -> Array:
        array, view = _copied(value), self._views.get(self._outputs[index])
        return array.reshape(view.shape) if view else array


def _fault(kind: type[RankmeshError], what: str, error: Exception) -> RankmeshError:
    """What onnxruntime raised, as ours: it says in words only that there was no memory."""
    return (OutOfMemory if any(words in str(error) for words in _NO_MEMORY) else kind)(f"{what}: {error}")


def _in_memory(segment: Segment, memory: Mapping[str, memoryview]) -> Iterator[tuple[str, Any]]:
    """The initializers that lie in memory, as onnxruntime's values by name."""
    for record in segment.model.graph.initializer:
        if lies_in(memory, record):
            array = external_array(record, "", memory)
            if record.data_type == TensorProto.BFLOAT16:
                value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), TensorProto.BFLOAT16)
            else:
                value = ort.OrtValue.ortvalue_from_numpy(array)
            yield record.name, value


def _copied(value: Any) -> Array:
    """A result as an array of its own; onnxruntime itself cannot give bfloat16 to numpy."""
    if value.element_type() != TensorProto.BFLOAT16:
        array: Array = value.numpy()
        return array
    dtype, shape = dtypes.from_onnx(TensorProto.BFLOAT16), value.shape()
    if not prod(shape):
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * (prod(shape) * dtype.itemsize)).from_address(value.data_ptr())
    return np.frombuffer(memory, dtype).reshape(shape).copy()


def _element_type(dtype: np.dtype[Any]) -> Any:
    return dtypes.to_onnx(dtype) if dtype.kind == "V" else dtype.type


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
