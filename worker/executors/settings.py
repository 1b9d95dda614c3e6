"""Settings of an executor: device, threads and precision, which a process can send to another.

Importing this loads neither numpy nor onnx: a launcher makes settings and sends them to its ranks.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from ...comm.errors import UsageError
from ...comm.serving.precision_modes import FASTEST, FLOAT, HALF, MODES, NODE_TYPES, TF32

if TYPE_CHECKING:
    from ...compiler.model_file.config import Config
    from ..api_types.context import Context

EXECUTOR_VARIABLE = "RANKMESH_EXECUTOR"
COMPILE_VARIABLE = "RANKMESH_TORCH_COMPILE"
_Shape: TypeAlias = tuple[int, ...]
_SWITCH = {"1": True, "true": True, "0": False, "false": False}
ONNXRUNTIME = "onnxruntime"
TORCH = "torch"
_LOG = logging.getLogger("rankmesh")
EXECUTION_PLAN = "execution_plan"
"""The section of a configuration that has the types of single nodes."""
_GE_SECTIONS = (
    "ge_global_options",
    "ge_session_options",
    "ge_graph_options",
    "acl_init_options",
    "acl_build_options",
)


def executor_name() -> str:
    """The name of this process's executor by RANKMESH_EXECUTOR; "" leaves it to the device."""
    return os.environ.get(EXECUTOR_VARIABLE, "")


def asked_executor(config: Config, device: str) -> str:
    """The name of a model's executor by RANKMESH_EXECUTOR, else by `executor` in the section of its
    device, such as [cpu_context]; "" leaves it to the device.
    """
    return executor_name() or config.bare(f"{device}_context", "executor")


def asked_compilation(config: Config | None = None, device: str = "") -> bool:
    """Whether torch is to compile segments: by RANKMESH_TORCH_COMPILE=1, else by `torch_compile` in
    the section of the device. Raises UsageError for another value.
    """
    key = f"{device}_context"
    for source, text in (
        (COMPILE_VARIABLE, os.environ.get(COMPILE_VARIABLE, "")),
        (f"[{key}] torch_compile", config.bare(key, "torch_compile") if config else ""),
    ):
        if text:
            if text.lower() not in _SWITCH:
                raise UsageError(f"{source} is {text}, expected one of {', '.join(_SWITCH)}.")
            return _SWITCH[text.lower()]
    return False


class TensorRtSettings(msgspec.Struct, frozen=True):
    """Engines that onnxruntime's TensorRT is to make, and keeps in the folder `engines`, if any.

    With `half` they may compute in float16. `profiles` has the shapes that each input may have: the
    least, the one to be fastest with, and the most, several times for several engines.
    """

    engines: str = ""
    half: bool = False
    profiles: Mapping[str, Sequence[tuple[_Shape, _Shape, _Shape]]] = {}


class ExecutorSettings(msgspec.Struct, frozen=True):
    """Where and with how many threads segments run.

    `device` is "cpu", "gpu" or "ascend", `device_id` its number. Of `threads` threads in all, idle
    ones spin where `spin` says so: right only where no other process needs their cores. With
    `own_pools` each session has a thread pool of its own, with `workspace` all sessions of the
    process compute in one memory. `cores` has one core per thread where threads are bound, the
    caller's first. `name` is the executor's in registry.py; "" is the one that suits the device.
    With `tf32` a GPU multiplies float32 numbers in TF32. With `compiles` torch compiles segments,
    with `tensorrt` onnxruntime uses TensorRT, where it has it.
    """

    device: str = "cpu"
    device_id: int = 0
    threads: int = 1
    spin: bool = True
    own_pools: bool = False
    workspace: bool = False
    cores: tuple[int, ...] = ()
    name: str = msgspec.field(default_factory=executor_name)
    tf32: bool = False
    compiles: bool = msgspec.field(default_factory=asked_compilation)
    tensorrt: TensorRtSettings | None = None


class PrecisionSettings(msgspec.Struct, frozen=True):
    """The precision that a user asks for: a mode for the whole model, and types of single nodes.

    `mode` is the ONNX element type to compute in, None for what the file says. A key of `nodes` is
    a node's name as the model file has it, where `*` stands for any text. With `tf32` a GPU
    multiplies float32 numbers in TF32.
    """

    mode: int | None = None
    nodes: Mapping[str, int] = {}
    tf32: bool = False

    @classmethod
    def asked(cls, context: Context, config: Config, device: str) -> PrecisionSettings:
        """The settings in `context` and `config` of a model that runs on `device`."""
        return cls._of(_mode_name(context, config, device), _node_types(config), device)

    @classmethod
    def named(cls, mode: str, nodes: Mapping[str, str], device: str) -> PrecisionSettings:
        """The settings of a mode ("" for none) and of types of single nodes, by their names."""
        return cls._of(mode, {node: NODE_TYPES[kind] for node, kind in nodes.items()}, device)

    @classmethod
    def default(cls, device: str) -> PrecisionSettings:
        """The settings of a model on `device` where nothing else is asked for."""
        return cls(_default(device))

    @classmethod
    def _of(cls, name: str, nodes: Mapping[str, int], device: str) -> PrecisionSettings:
        mode = MODES[name] if name else _default(device)
        if mode == FASTEST:
            mode = _default(device) or HALF
        return cls(mode, nodes, name == TF32)


def _mode_name(context: Context, config: Config, device: str) -> str:
    """The mode for the target that the model runs as: `device`, or the first target where `device`
    replaces it. "" without one.
    """
    targets = [target.lower() for target in context.target]
    target = device if device in targets else targets[0]
    for source, text in _mode_texts(context, config, target):
        if text in MODES:
            return text
        if text:
            _LOG.warning(
                "%s is %s, which is ignored: expected one of %s.", source, text, ", ".join(MODES)
            )
    return ""


def _mode_texts(context: Context, config: Config, target: str) -> Iterator[tuple[str, str]]:
    """Where a mode may be written, and what is written there, in the order in which they count."""
    section = f"{target}_context"
    yield f"[{section}] precision_mode", config.bare(section, "precision_mode")
    if target == "ascend":
        for options in _GE_SECTIONS:
            yield (
                f"[{options}] ge.exec.precision_mode",
                config.bare(options, "ge.exec.precision_mode"),
            )
    own = getattr(context, target)
    if type(own).precision_mode.given(own):
        yield f"{target}.precision_mode", own.precision_mode


def _default(device: str) -> int | None:
    """float32 on a CPU, which has few float16 kernels: no slower there, and closer. Elsewhere the
    file's types.
    """
    return FLOAT if device == "cpu" else None


def _node_types(config: Config) -> dict[str, int]:
    """The types in the section [execution_plan]: `data_type:float16`, for example. A warning names
    other texts.
    """
    types = {}
    for name, text in config.sections.get(EXECUTION_PLAN, {}).items():
        key, _, value = text.strip("\"' ").partition(":")
        if key.strip() == "data_type" and value.strip() in NODE_TYPES:
            types[name] = NODE_TYPES[value.strip()]
        else:
            _LOG.warning(
                "[%s] %s = %s is ignored: expected data_type:%s.",
                EXECUTION_PLAN,
                name,
                text,
                " or data_type:".join(NODE_TYPES),
            )
    return types
