"""The onnxruntime executor: one session per segment of a plan."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper

from ...comm.errors import ModelError, UsageError
from ...comm.loggers import LOG
from ...compiler.onnx_graph.external import NO_MEMORY, external_array, lies_in
from ..partition.plan import Segment
from .affinity import bound_to
from .base import DeviceQueue, ExecutorDevice, Runnable
from .narrow_kernels import has_narrow_kernel
from .prepared_segment import PreparedSegment, session_error
from .providers import PROVIDERS, chosen_providers, for_session, shared_stream
from .saved_weights import align, require_whole
from .settings import ExecutorSettings, TensorRtSettings
from .views import output_views, without_copies

try:
    import onnxruntime as ort
except ImportError as error:
    raise UsageError(
        f"models need onnxruntime, which cannot be imported ({error}). Install it with: pip "
        "install 'rankmesh[cpu]' (with NVIDIA GPUs: 'rankmesh[gpu]')."
    ) from None

_ERRORS_ONLY, _FATAL = 3, 4
# On a CPU the fused SkipLayerNormalization takes 394 us for [128, 768], its Adds and
# LayerNormalization apart 60 us.
_SLOW_ON_CPU = ["SkipLayerNormFusion"]
_SAVED = {
    "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
    "session.save_external_prepacked_constant_initializers": "1",
}
# Only what is touched of a chunk is memory, but onnxruntime notes something for every 256 bytes of
# it, 3 %. Smaller ones, one after the other, would not serve the largest model too.
_WORKSPACE = {"initial_chunk_size_bytes": 256 << 20, "initial_growth_chunk_size_bytes": 256 << 20}
_IN_WORKSPACE = {
    "session.use_env_allocators": "1",
    "session.use_device_allocator_for_initializers": "1",
}


class OnnxRuntime:
    """Sessions of one process on one device, with `threads` threads in all.

    More than one thread means one global pool for all sessions: a pool per session spins against
    the others (25 segments ran 5 times slower). From then on onnxruntime refuses any session of
    this process that wants a pool of its own, the caller's too: `own_pools` is for models of one
    segment in a caller's process. With `workspace` activations lie in one memory of the process
    instead of one of each session. `spin` lets idle threads spin, right only where no other process
    needs their cores. `cores` has one core per thread where threads are bound. The first thread is
    the calling one, which the caller binds.
    """

    name = "onnxruntime"
    _pool_threads = 0  # of this process; onnxruntime's global pool can be set only once
    _workspace_made = False  # likewise
    _pool_cores: Sequence[int] = ()

    def __init__(
        self,
        device: str = "cpu",
        device_id: int = 0,
        threads: int = 1,
        spin: bool = True,
        own_pools: bool = False,
        workspace: bool = False,
        cores: Sequence[int] = (),
        tf32: bool = False,
        tensorrt: TensorRtSettings | None = None,
    ) -> None:
        self.device = ExecutorDevice(device, device_id)
        self._providers = chosen_providers(
            device, device_id, ort.get_available_providers(), tf32, tensorrt
        )
        self._stream = shared_stream(device, device_id)
        self._disabled = _SLOW_ON_CPU if device == "cpu" else []
        self._threads = threads
        self._spin = spin
        self._workspace = workspace and device == "cpu"
        self._own_pools = own_pools or threads == 1
        self._cores = cores[1:]
        ort.disable_telemetry_events()
        ort.set_default_logger_severity(_ERRORS_ONLY)

    def queue(self) -> DeviceQueue | None:
        """See device_queue."""
        return self._stream.queue() if self._stream else None

    def has_kernel(self, element_type: int, op_type: str, domain: str, version: int) -> bool:
        """See has_kernel of base.py."""
        return has_narrow_kernel(self.device.kind, element_type, op_type, domain, version)

    def prepare(
        self, segment: Segment, folder: str, memory: Mapping[str, memoryview] = NO_MEMORY
    ) -> Runnable:
        """A session for `segment`. Raises ModelError where onnxruntime refuses it."""
        options = self._options(folder)
        held = dict(_in_memory(segment, memory))
        if held:  # onnxruntime copies them, so nothing needs to outlive the session's making
            options.add_external_initializers(list(held), list(held.values()))
        return self._prepared(self._session(segment, _serialized(segment), options), segment)

    def session_of(self, path: str, model: ModelProto, folder: str) -> Any:
        """A session of a whole model, of the file at `path`, whose external weights lie in
        `folder`. Raises ModelError where onnxruntime refuses it.
        """
        try:
            return ort.InferenceSession(
                model.SerializeToString(), self._options(folder), providers=self._providers
            )
        except Exception as error:  # onnxruntime's own classes share no base but Exception
            raise session_error(ModelError, f"onnxruntime refuses {path}", error) from error

    def save(self, segment: Segment, folder: str, place: str) -> None:
        """See Executor.save: the optimized graph, and the weights as packed for this CPU."""
        options = self._options(folder)
        options.optimized_model_filepath = place
        options.add_session_config_entry(
            "session.optimized_model_external_initializers_file_name",
            os.path.basename(place) + ".weights",
        )
        for key, value in _SAVED.items():
            options.add_session_config_entry(key, value)
        self._session(segment, _serialized(segment), options)
        require_whole(place)
        align(place)

    def load(self, segment: Segment, place: str) -> Runnable:
        """See Executor.load."""
        options = self._options(os.path.dirname(place))
        options.graph_optimization_level = (
            ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        )  # it was optimized before
        return self._prepared(self._session(segment, place, options), segment)

    @property
    def joins(self) -> bool:
        """See joining: kernels of the CPU have a layout of images of their own."""
        return self.device.kind == "cpu"

    def load_part(self, segment: Segment, place: str) -> PreparedSegment:
        """See JoiningExecutor.load_part."""
        options = self._options(os.path.dirname(place))
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = self._session(segment, segment.model.SerializeToString(), options)
        return PreparedSegment(session, segment, False, {})

    @property
    def options(self) -> str:
        """See Executor.options."""
        return f"{self.name} {self._providers} {self._disabled} aligned joined"

    def _prepared(self, session: Any, segment: Segment) -> Runnable:
        given = {slot.name for slot in session.get_outputs()}
        views = {
            name: view for name, view in output_views(segment.model).items() if view.matrix in given
        }
        if self._stream:
            return self._stream.prepared(session, segment, views)
        return PreparedSegment(session, segment, len(self._providers) > 1, views)

    def _session(self, segment: Segment, model: bytes | str, options: Any) -> Any:
        try:
            stream = self._stream.options if self._stream else {}
            providers = for_session(self._providers, segment.inputs, stream)
            return ort.InferenceSession(
                model, options, providers=providers, disabled_optimizers=self._disabled
            )
        except Exception as error:  # onnxruntime's own classes share no base but Exception
            what = f"onnxruntime refuses the segment that ends in {segment.outputs[0]}"
            raise session_error(ModelError, what, error) from error

    def _options(self, folder: str) -> Any:
        options = ort.SessionOptions()
        options.log_severity_level = _FATAL  # its errors are raised, and say the same
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", folder
        )
        options.add_session_config_entry(
            "session.intra_op.allow_spinning", "1" if self._spin else "0"
        )
        if OnnxRuntime._pool_threads or not self._own_pools:
            self._share_pool()
            options.use_per_session_threads = False
        else:
            options.intra_op_num_threads = self._threads
            options.inter_op_num_threads = 1
            if self._cores:  # onnxruntime counts cores from 1
                options.add_session_config_entry(
                    "session.intra_op_thread_affinities",
                    ";".join(str(core + 1) for core in self._cores),
                )
        if self._workspace:
            self._share_workspace(options)
        return options

    def _share_workspace(self, options: Any) -> None:
        if not OnnxRuntime._workspace_made:
            info = ort.OrtMemoryInfo(
                "Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT
            )
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
            LOG.warning(
                "the threads of this process are bound to the cores %s already, not to %s: models "
                "share them.",
                list(OnnxRuntime._pool_cores) or "that the process may use",
                list(self._cores),
            )


def open_executor(settings: ExecutorSettings) -> OnnxRuntime:
    """The executor with these settings."""
    return OnnxRuntime(
        settings.device,
        settings.device_id,
        settings.threads,
        settings.spin,
        settings.own_pools,
        settings.workspace,
        settings.cores,
        settings.tf32,
        settings.tensorrt,
    )


def runs_on(device: str) -> bool:
    """Whether this onnxruntime computes on a kind of device: it has the provider, which starts.

    A provider whose libraries are missing leaves its sessions to the CPU, without an error.
    """
    if not all(name in ort.get_available_providers() for name in PROVIDERS[device]):
        return False
    if not PROVIDERS[device]:
        return True
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Abs", ["x"], ["y"])], "probe", [value], [])
    graph.output.add().CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1]))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    ort.set_default_logger_severity(_FATAL)
    try:
        session = ort.InferenceSession(model.SerializeToString(), providers=PROVIDERS[device])
    except Exception:  # onnxruntime's own classes share no base but Exception
        return False
    return PROVIDERS[device][0] in session.get_providers()


def _serialized(segment: Segment) -> bytes:
    model: bytes = without_copies(segment.model).SerializeToString()
    return model


def _in_memory(segment: Segment, memory: Mapping[str, memoryview]) -> Iterator[tuple[str, Any]]:
    """The initializers that lie in memory, as values of onnxruntime by name."""
    for record in segment.model.graph.initializer:
        if lies_in(memory, record):
            array = external_array(record, "", memory)
            if record.data_type == TensorProto.BFLOAT16:
                value = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(
                    array.view(np.uint16), TensorProto.BFLOAT16
                )
            else:
                value = ort.OrtValue.ortvalue_from_numpy(array)
            yield record.name, value


_LIBC = ctypes.CDLL(None)


def _exit_first() -> None:
    """Have a forked child of this process skip what C libraries do at exit.

    At exit onnxruntime waits for threads that it started when it was loaded, which only the parent
    has: a child that ended by the end of its program or sys.exit hung for ever. Python's own end
    (atexit, output) still runs. The last handler registered runs first, so no other one runs.
    """
    _LIBC.on_exit(_LIBC._exit, None)


if hasattr(_LIBC, "on_exit"):  # only glibc has it, and onnxruntime's wheels are for glibc
    os.register_at_fork(after_in_child=_exit_first)  # onnxruntime has started its threads
